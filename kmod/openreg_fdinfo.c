// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an open file uses, as Documentation/gpu/drm-usage-stats.rst wants it:
 *	drm-engine-card			time of the card's engines
 *	drm-{total,resident}-vram	memory of the card
 *	drm-{total,resident}-system	memory of the driver's that the card reaches
 *	drm-{total,resident}-user	memory of the process that the card reaches
 */

#include <drm/drm_file.h>
#include <drm/drm_print.h>

#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

/* Engine time so far; stands still once the queue has failed. */
u64 openreg_queue_busy_ns(struct openreg_queue *queue)
{
	const struct openreg_card_page *card;

	guard(spinlock_irqsave)(&queue->lock);
	if (queue->error)
		return queue->last_busy_ns;
	card = queue->card->coherent.cpu;
	return READ_ONCE(card->busy_ns);
}

static u64 openreg_file_busy_ns(struct openreg_file *file)
{
	struct openreg_queue *queue;
	unsigned long num;
	u64 ns;

	xa_lock(&file->queues);
	ns = file->past_busy_ns;
	xa_for_each(&file->queues, num, queue)
		ns += openreg_queue_busy_ns(queue);
	xa_unlock(&file->queues);
	return ns;
}

static void openreg_show_memory(struct drm_printer *p, const char *region,
				atomic64_t *bytes)
{
	struct drm_memory_stats stats = {
		.private = atomic64_read(bytes),
		.resident = atomic64_read(bytes),
	};

	drm_print_memory_stats(p, &stats, DRM_GEM_OBJECT_RESIDENT, region);
}

void openreg_show_fdinfo(struct drm_printer *p, struct drm_file *filp)
{
	struct openreg_file *file = filp->driver_priv;

	drm_printf(p, "drm-engine-card:\t%llu ns\n",
		   openreg_file_busy_ns(file));
	openreg_show_memory(p, "vram", &file->vram);
	openreg_show_memory(p, "system", &file->system);
	openreg_show_memory(p, "user", &file->pinned);
}
