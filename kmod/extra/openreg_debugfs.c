// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files in debugfs. Only root can read them, because they show all users' queues:
 *	accel/<pci address>/openreg_stats	totals, one "name value" a line; the
 *						card's own only while it works
 *	accel/<pci address>/openreg_queues	one line a queue
 */

#include <linux/seq_file.h>

#include <drm/drm_debugfs.h>
#include <drm/drm_drv.h>

#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_extra.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

static const struct {
	const char *name;
	u32 reg;
} openreg_stats[] = {
	{ "packets", OPENREG_REG_STAT_PACKETS },
	{ "doorbells", OPENREG_REG_STAT_DOORBELLS },
	{ "interrupts", OPENREG_REG_STAT_INTERRUPTS },
	{ "dma_read", OPENREG_REG_STAT_DMA_READ },
	{ "dma_written", OPENREG_REG_STAT_DMA_WRITTEN },
	{ "compute_ns", OPENREG_REG_STAT_COMPUTE_NS },
	{ "copy_ns", OPENREG_REG_STAT_COPY_NS },
	{ "faults", OPENREG_REG_STAT_FAULTS },
	{ "sleeps", OPENREG_REG_STAT_SLEEPS },
	{ "sleep_ns", OPENREG_REG_STAT_SLEEP_NS },
};

unsigned int openreg_count_queues(struct openreg_device *odev)
{
	struct openreg_queue *queue;
	unsigned int count = 0;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue)
		count++;
	xa_unlock(&odev->queues);
	return count;
}

static unsigned int openreg_count_contexts(struct openreg_device *odev)
{
	unsigned int count;

	spin_lock(&odev->admin.lock);
	count = list_count_nodes(&odev->admin.ctxs);
	spin_unlock(&odev->admin.lock);
	return count;
}

static unsigned int openreg_count_bos(struct openreg_device *odev)
{
	guard(mutex)(&odev->bos_lock);
	return list_count_nodes(&odev->bos);
}

/* Prints nothing while the card is being reset or is wedged: registers cannot be read. */
static void openreg_card_stats_show(struct seq_file *m,
				    struct openreg_device *odev)
{
	size_t i;

	if (!down_read_trylock(&odev->map_lock))
		return;
	for (i = 0; !odev->wedged && i < ARRAY_SIZE(openreg_stats); i++)
		seq_printf(m, "%s %llu\n", openreg_stats[i].name,
			   openreg_read64(odev, openreg_stats[i].reg));
	up_read(&odev->map_lock);
}

static int openreg_stats_show(struct seq_file *m, void *unused)
{
	struct drm_debugfs_entry *entry = m->private;
	struct openreg_device *odev = to_openreg(entry->dev);
	struct drm_openreg_memory_info memory = {};
	int idx;

	if (!drm_dev_enter(entry->dev, &idx))
		return -ENODEV;
	openreg_card_stats_show(m, odev);
	drm_dev_exit(idx);

	openreg_vram_query(odev, &memory);
	seq_printf(m, "contexts %u\n", openreg_count_contexts(odev));
	seq_printf(m, "queues %u\n", openreg_count_queues(odev));
	seq_printf(m, "objects %u\n", openreg_count_bos(odev));
	seq_printf(m, "vram_free %llu\n", memory.vram_free);
	seq_printf(m, "vram_total %llu\n", memory.vram_total);
	seq_printf(m, "resets %llu\n", READ_ONCE(odev->num_resets));
	return 0;
}

static void openreg_queue_show(struct seq_file *m, struct openreg_queue *queue)
{
	const struct openreg_card_page *card = queue->card->coherent.cpu;

	guard(spinlock_irq)(&queue->lock);
	seq_printf(m, "%u ctx %u pid %d comm %s vector %u sleeps %llu wakes %llu",
		   queue->id, queue->ctx->base.id, queue->pid, queue->comm,
		   (u32)(queue->vector - queue->odev->vectors), queue->sleeps,
		   queue->wakes);
	if (!queue->error)
		seq_printf(m, " state %u head %llu completed %llu asleep %u card_wakes %llu interrupts %llu busy_ns %llu",
			   READ_ONCE(card->state), READ_ONCE(card->head),
			   READ_ONCE(card->completed),
			   READ_ONCE(card->asleep), READ_ONCE(card->wakes),
			   READ_ONCE(card->interrupts),
			   READ_ONCE(card->busy_ns));
	seq_putc(m, '\n');
}

static int openreg_queues_show(struct seq_file *m, void *unused)
{
	struct drm_debugfs_entry *entry = m->private;
	struct openreg_device *odev = to_openreg(entry->dev);
	struct openreg_queue *queue;
	unsigned long id;

	/* A queue in the table has its context, and its pages unless error is set. */
	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue)
		if (queue->vector)
			openreg_queue_show(m, queue);
	xa_unlock(&odev->queues);
	return 0;
}

static const struct drm_debugfs_info openreg_debugfs_files[] = {
	{ "openreg_stats", openreg_stats_show },
	{ "openreg_queues", openreg_queues_show },
};

void openreg_debugfs_init(struct openreg_device *odev)
{
	drm_debugfs_add_files(&odev->drm, openreg_debugfs_files,
			      ARRAY_SIZE(openreg_debugfs_files));
}
