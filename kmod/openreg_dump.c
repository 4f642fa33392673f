// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dumps for whoever has to find out why a queue stopped. devcoredump keeps one
 * a card for some minutes, for root only: a reset's takes the place of another,
 * others are dropped. A queue that its own user stops leaves none: he need not
 * have found anything wrong, and would keep others' from being seen.
 */

#include <linux/devcoredump.h>
#include <linux/jiffies.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include <drm/drm_drv.h>

#include "openreg_ctx.h"
#include "openreg_drv.h"
#include "openreg_dump.h"
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

/* Where it has stopped, or hangs, its head is at the packet that is to blame. */
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

/* Its context may be gone, if the caller does not see to it. */
static void openreg_dump_read_queue(struct openreg_dump *dump,
				    struct openreg_queue *queue)
{
	openreg_dump_name_queue(dump, queue);
	guard(spinlock_irq)(&queue->lock);
	/* Else its pages may be gone. */
	if (!queue->error)
		openreg_dump_copy_pages(dump, queue);
}

/* What has faulted has been told, and waits for its user. */
static bool openreg_dump_has_work(struct openreg_queue *queue)
{
	const struct openreg_card_page *card = queue->card->coherent.cpu;
	const struct openreg_user_page *user = queue->user->coherent.cpu;

	lockdep_assert_held(&queue->lock);
	return READ_ONCE(card->head) != READ_ONCE(user->tail) &&
	       READ_ONCE(card->state) != OPENREG_QUEUE_FAULTED;
}

/*
 * How likely it is that a card hangs because of it: most of all if the card was
 * asked to stop it; then if it has work, and runs, and its user has left it.
 */
static unsigned int openreg_dump_suspect(struct openreg_queue *queue)
{
	const struct openreg_card_page *card = queue->card->coherent.cpu;
	bool asked, work;

	/* The card has forgotten it in a reset before. */
	if (READ_ONCE(queue->ctx->dead))
		return 0;
	asked = openreg_unbinds_are_late(queue->ctx);
	guard(spinlock_irq)(&queue->lock);
	asked |= queue->restarting || queue->stopping;
	work = openreg_dump_has_work(queue);
	if (!asked && !work)
		return 0;
	return (asked ? 8 : 0) + (work ? 4 : 0) +
	       (READ_ONCE(card->state) == OPENREG_QUEUE_RUNNING ? 2 : 0) +
	       (queue->error ? 1 : 0);
}

/*
 * Only for the reset's work. It has ended before anything is detached, so that
 * all queues of the card have their pages, those that failed, too.
 */
static void openreg_dump_read_suspect(struct openreg_dump *dump,
				      struct openreg_device *odev)
{
	struct openreg_queue *queue, *suspect = NULL;
	unsigned int most = 0, much;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue) {
		much = openreg_dump_suspect(queue);
		if (much > most) {
			most = much;
			suspect = queue;
		}
	}
	if (suspect) {
		openreg_dump_name_queue(dump, suspect);
		dump->record.queue = suspect->id;
		dump->record.ctx = suspect->ctx->id;
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

/* The core looks whether there is one, and adds it, in two steps. */
static void openreg_dump_leave(struct openreg_device *odev,
			       struct openreg_dump *dump, bool replace)
{
	guard(mutex)(&odev->dump_lock);
	if (replace)
		dev_coredump_put(odev->drm.dev);
	dev_coredumpv(odev->drm.dev, dump, sizeof(*dump), GFP_KERNEL);
}

/**
 * openreg_dump_fault() - leave a dump of a fault
 * @odev: the card
 * @queue: the queue that has stopped, or NULL if it is gone
 * @record: what the card said of it
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
	openreg_dump_leave(odev, dump, false);
}

/**
 * openreg_dump_queue() - leave a dump of a queue that the driver stops
 * @queue: the queue; the card still has it, and the caller its context
 * @reason: a sentence
 *
 * Because its packet takes too long. A queue without one leaves none.
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
	/* A card that is being reset, is wedged or sleeps is left alone. */
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
	dump->record.ctx = queue->ctx->id;
	openreg_dump_leave(odev, dump, false);
}

/* Before the card is reset, by the work that does it. */
void openreg_dump_hang(struct openreg_device *odev, const char *reason)
{
	struct openreg_dump *dump = openreg_dump_new(odev, reason);

	if (!dump)
		return;
	openreg_dump_read_suspect(dump, odev);
	openreg_dump_read_late(dump, odev);
	/* It tells more than the fault of some process that may be there. */
	openreg_dump_leave(odev, dump, true);
}
