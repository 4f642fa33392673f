// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dumps that show why a queue stopped. devcoredump keeps one dump a card for some
 * minutes, and only root can read it. The dump of a reset replaces an older dump; any
 * other dump is dropped while one exists. A process that stops its own queue causes no
 * dump: the queue need not be faulty, and the dump would keep others from being seen.
 */

#include <linux/devcoredump.h>
#include <linux/jiffies.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include <drm/drm_drv.h>

#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_dump.h"
#include "openreg_extra.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

static const struct {
	u16 offset;
	u16 size;
} openreg_dump_regs[] = {
	{ OPENREG_REG_VERSION, 4 },
	{ OPENREG_REG_STATUS, 4 },
	{ OPENREG_REG_CONTROL, 4 },
	{ OPENREG_REG_CARD_ID, 4 },
	{ OPENREG_REG_CLOCK, 8 },
	{ OPENREG_REG_ADMIN_BASE, 8 },
	{ OPENREG_REG_ADMIN_CPL, 8 },
	{ OPENREG_REG_ADMIN_SLOTS, 4 },
	{ OPENREG_REG_ADMIN_TAIL, 4 },
	{ OPENREG_REG_FAULT_HEAD, 4 },
	{ OPENREG_REG_FAULT_TAIL, 4 },
	{ OPENREG_REG_FAULT_DROPPED, 4 },
	{ OPENREG_REG_STAT_PACKETS, 8 },
	{ OPENREG_REG_STAT_DOORBELLS, 8 },
	{ OPENREG_REG_STAT_INTERRUPTS, 8 },
	{ OPENREG_REG_STAT_DMA_READ, 8 },
	{ OPENREG_REG_STAT_DMA_WRITTEN, 8 },
	{ OPENREG_REG_STAT_COMPUTE_NS, 8 },
	{ OPENREG_REG_STAT_COPY_NS, 8 },
	{ OPENREG_REG_STAT_FAULTS, 8 },
	{ OPENREG_REG_STAT_SLEEPS, 8 },
};

static void openreg_dump_read_regs(struct openreg_dump *dump,
				   struct openreg_device *odev)
{
	unsigned int i;

	BUILD_BUG_ON(ARRAY_SIZE(openreg_dump_regs) > OPENREG_DUMP_REGS);
	for (i = 0; i < ARRAY_SIZE(openreg_dump_regs); i++) {
		struct openreg_dump_reg *reg = &dump->regs[i];

		reg->offset = openreg_dump_regs[i].offset;
		reg->size = openreg_dump_regs[i].size;
		reg->value = reg->size == 8 ?
			openreg_read64(odev, reg->offset) :
			openreg_read(odev, reg->offset);
	}
}

static struct openreg_dump *openreg_dump_new(struct openreg_device *odev,
					     const char *reason)
{
	struct openreg_dump *dump = vzalloc(sizeof(*dump));

	if (!dump)
		return NULL;
	dump->magic = OPENREG_DUMP_MAGIC;
	dump->version = OPENREG_DUMP_VERSION;
	dump->size = sizeof(*dump);
	dump->card = odev->info.card;
	dump->time_ns = ktime_get_real_ns();
	strscpy(dump->reason, reason);
	openreg_dump_read_regs(dump, odev);
	return dump;
}

/* The head of a queue that stopped or hangs is at the packet to blame. */
static void openreg_dump_copy_pages(struct openreg_dump *dump,
				    struct openreg_queue *queue)
{
	const struct openreg_user_page *user;
	u64 first, slots;

	lockdep_assert_held(&queue->lock);
	memcpy(&dump->page, queue->card->coherent.cpu, sizeof(dump->page));
	user = queue->user->coherent.cpu;
	dump->tail = READ_ONCE(user->tail);
	slots = queue->ring->base.size / OPENREG_SLOT_SIZE;
	dump->ring_slots = slots;
	first = dump->page.head & (slots - 1);
	slots = min_t(u64, slots - first, OPENREG_PACKET_SLOTS_MAX);
	memcpy(dump->slots, queue->ring->coherent.cpu +
	       first * OPENREG_SLOT_SIZE, slots * OPENREG_SLOT_SIZE);
}

static void openreg_dump_name_queue(struct openreg_dump *dump,
				    struct openreg_queue *queue)
{
	dump->pid = queue->pid;
	strscpy(dump->comm, queue->comm);
}

/* Does not use queue->ctx, which may be freed. */
static void openreg_dump_read_queue(struct openreg_dump *dump,
				    struct openreg_queue *queue)
{
	openreg_dump_name_queue(dump, queue);
	guard(spinlock_irq)(&queue->lock);
	/* If error is set, the pages may be freed. */
	if (!queue->error)
		openreg_dump_copy_pages(dump, queue);
}

/* Does the queue have a packet to run? A faulted queue waits for its process instead. */
static bool openreg_dump_has_work(struct openreg_queue *queue)
{
	const struct openreg_card_page *card = queue->card->coherent.cpu;
	const struct openreg_user_page *user = queue->user->coherent.cpu;

	lockdep_assert_held(&queue->lock);
	return READ_ONCE(card->head) != READ_ONCE(user->tail) &&
	       READ_ONCE(card->state) != OPENREG_QUEUE_FAULTED;
}

/*
 * Returns how likely it is that the queue made the card hang. Most likely is a queue that
 * the driver tries to stop, then one that has work, then one that runs, then one whose
 * process has closed it.
 */
static unsigned int openreg_dump_score(struct openreg_queue *queue)
{
	const struct openreg_card_page *card = queue->card->coherent.cpu;
	bool stopping, work;

	/* The card lost the queue in an earlier reset. */
	if (READ_ONCE(queue->ctx->base.dead))
		return 0;
	stopping = openreg_unbinds_are_late(queue->ctx);
	guard(spinlock_irq)(&queue->lock);
	stopping |= queue->restarting || queue->stopping;
	work = openreg_dump_has_work(queue);
	if (!stopping && !work)
		return 0;
	return (stopping ? 8 : 0) + (work ? 4 : 0) +
	       (READ_ONCE(card->state) == OPENREG_QUEUE_RUNNING ? 2 : 0) +
	       (queue->error ? 1 : 0);
}

/*
 * Call this only from the reset work. shutdown() waits for that work before it detaches
 * objects, so all queues in the table still have their pages, even failed ones.
 */
static void openreg_dump_read_suspect(struct openreg_dump *dump,
				      struct openreg_device *odev)
{
	struct openreg_queue *queue, *suspect = NULL;
	unsigned int best = 0, score;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue) {
		score = openreg_dump_score(queue);
		if (score > best) {
			best = score;
			suspect = queue;
		}
	}
	if (suspect) {
		openreg_dump_name_queue(dump, suspect);
		dump->record.queue = suspect->id;
		dump->record.ctx = suspect->ctx->base.id;
		guard(spinlock_irq)(&suspect->lock);
		openreg_dump_copy_pages(dump, suspect);
	}
	xa_unlock(&odev->queues);
}

static void openreg_dump_read_late(struct openreg_dump *dump,
				   struct openreg_device *odev)
{
	struct openreg_admin_req *req;
	unsigned int ms;

	guard(spinlock)(&odev->admin.lock);
	req = openreg_admin_find_late(&odev->admin);
	if (!req)
		return;
	ms = jiffies_to_msecs(jiffies - req->issued);
	dump->late.opcode = req->cmd.opcode;
	dump->late.ctx = req->cmd.ctx;
	dump->late.id = req->cmd.id;
	dump->late.ms = max(ms, 1U);
}

/* dump_lock: devcoredump checks for a dump and adds the new one in two steps. */
static void openreg_dump_publish(struct openreg_device *odev,
				 struct openreg_dump *dump, bool replace)
{
	guard(mutex)(&odev->dump_lock);
	if (replace)
		dev_coredump_put(odev->drm.dev);
	dev_coredumpv(odev->drm.dev, dump, sizeof(*dump), GFP_KERNEL);
}

/**
 * openreg_dump_fault() - dump a queue that faulted
 * @odev: the card
 * @queue: the queue, or NULL if it was destroyed
 * @record: the card's fault record
 * @reason: a sentence
 */
void openreg_dump_fault(struct openreg_device *odev, struct openreg_queue *queue,
			const struct openreg_fault_record *record,
			const char *reason)
{
	struct openreg_dump *dump = openreg_dump_new(odev, reason);

	if (!dump)
		return;
	if (queue)
		openreg_dump_read_queue(dump, queue);
	dump->record = *record;
	openreg_dump_publish(odev, dump, false);
}

/**
 * openreg_dump_queue() - dump a queue that the driver stops
 * @queue: the queue, which exists on the card; the caller has a reference to its context
 * @reason: a sentence
 *
 * The driver stops it because its packet takes too long. Makes no dump if the queue has
 * no packet to run.
 */
void openreg_dump_queue(struct openreg_queue *queue, const char *reason)
{
	struct openreg_device *odev = queue->odev;
	struct openreg_dump *dump = NULL;
	int idx;

	scoped_guard(spinlock_irq, &queue->lock)
		if (queue->error || !openreg_dump_has_work(queue))
			return;
	if (!drm_dev_enter(&odev->drm, &idx))
		return;
	/* The registers cannot be read during reset and suspend, nor of a wedged card. */
	if (down_read_trylock(&odev->map_lock)) {
		if (!READ_ONCE(odev->wedged) && !READ_ONCE(odev->suspended))
			dump = openreg_dump_new(odev, reason);
		up_read(&odev->map_lock);
	}
	drm_dev_exit(idx);
	if (!dump)
		return;
	openreg_dump_read_queue(dump, queue);
	dump->record.queue = queue->id;
	dump->record.ctx = queue->ctx->base.id;
	openreg_dump_publish(odev, dump, false);
}

/* Dumps the queue that most likely made the card hang. Called by the reset work. */
void openreg_dump_hang(struct openreg_device *odev, const char *reason)
{
	struct openreg_dump *dump = openreg_dump_new(odev, reason);

	if (!dump)
		return;
	openreg_dump_read_suspect(dump, odev);
	openreg_dump_read_late(dump, odev);
	/* This dump is worth more than that of a fault, so it replaces one. */
	openreg_dump_publish(odev, dump, true);
}
