// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dumps for whoever has to find out why a queue stopped. devcoredump keeps one
 * a card for some minutes, for root only: a reset's takes the place of a fault's,
 * others are dropped.
 */

#include <linux/devcoredump.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

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

/* A fault leaves the head at the packet that is to blame. */
static void openreg_dump_read_queue(struct openreg_dump *dump,
				    struct openreg_queue *queue)
{
	const struct openreg_user_page *user;
	u64 first, slots;

	dump->pid = queue->pid;
	strscpy(dump->comm, queue->comm);
	guard(spinlock_irq)(&queue->lock);
	if (queue->error)
		return; /* its pages may be gone */
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
	dump->record = *record;
	if (queue)
		openreg_dump_read_queue(dump, queue);
	dev_coredumpv(odev->drm.dev, dump, sizeof(*dump), GFP_KERNEL);
}

/* Before the card is reset. */
void openreg_dump_hang(struct openreg_device *odev, const char *reason)
{
	struct openreg_dump *dump = openreg_dump_new(odev, reason);

	if (!dump)
		return;
	/* It tells more than the fault of some process that may be there. */
	dev_coredump_put(odev->drm.dev);
	dev_coredumpv(odev->drm.dev, dump, sizeof(*dump), GFP_KERNEL);
}
