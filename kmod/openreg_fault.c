// SPDX-License-Identifier: GPL-2.0-only
/* The fault ring: the card records why a queue stopped, and the driver logs it. */

#include <linux/dma-mapping.h>
#include <linux/ratelimit.h>

#include <drm/drm_drv.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "extra/openreg_extra.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_queue.h"
#include "openreg_reset.h"
#include "openreg_trace.h"

static const char * const openreg_fault_names[] = {
	[OPENREG_FAULT_NONE] = "none",
	[OPENREG_FAULT_PACKET] = "bad packet",
	[OPENREG_FAULT_RING] = "bad ring",
	[OPENREG_FAULT_ADDRESS] = "bad address",
	[OPENREG_FAULT_BOUNDS] = "out of bounds",
	[OPENREG_FAULT_PERMISSION] = "no permission",
	[OPENREG_FAULT_ALIGNMENT] = "misaligned",
	[OPENREG_FAULT_DTYPE] = "bad dtype",
	[OPENREG_FAULT_SHAPE] = "bad shape",
	[OPENREG_FAULT_PROGRAM] = "bad program",
	[OPENREG_FAULT_ENGINE] = "operand not in VRAM",
	[OPENREG_FAULT_LIMIT] = "too much work",
	[OPENREG_FAULT_DMA] = "bus error",
	[OPENREG_FAULT_HANG] = "hang",
	[OPENREG_FAULT_MEMORY] = "card out of memory",
	[OPENREG_FAULT_INDEX] = "index out of range",
	[OPENREG_FAULT_FORMAT] = "not a packed matrix of these sizes",
};

static const char *openreg_fault_name(u32 code)
{
	return code < ARRAY_SIZE(openreg_fault_names) ?
		openreg_fault_names[code] : "unknown";
}

static void openreg_fault_report(struct openreg_device *odev,
				 struct openreg_queue *queue,
				 const struct openreg_fault_record *record)
{
	const struct openreg_fault_summary *fault = &record->fault;
	const char *name = openreg_fault_name(fault->code);

	dev_warn(odev->drm.dev,
		 "%s[%d]: queue %u stopped at packet %llu: %s, opcode %u operand %d address 0x%016llx detail 0x%llx in_list %u\n",
		 queue ? queue->comm : "?", queue ? queue->pid : 0,
		 record->queue, fault->seq, name, fault->opcode,
		 (s32)fault->operand, fault->address, fault->detail,
		 fault->in_list);
	openreg_dump_fault(odev, queue, record, name);
}

static struct openreg_queue *openreg_fault_queue(struct openreg_device *odev,
						 const struct openreg_fault_record *record)
{
	struct openreg_queue *queue;

	xa_lock(&odev->queues);
	queue = xa_load(&odev->queues, record->queue);
	/* Another context may have got the number meanwhile. */
	if (queue && (queue->ctx->base.id != record->ctx ||
		      !kref_get_unless_zero(&queue->ref)))
		queue = NULL;
	xa_unlock(&odev->queues);
	return queue;
}

static void openreg_fault_handle(struct openreg_device *odev,
				 const struct openreg_fault_record *record)
{
	struct openreg_queue *queue;

	trace_openreg_fault(odev, record);
	queue = openreg_fault_queue(odev, record);
	if (queue)
		openreg_queue_notify(queue);
	if (__ratelimit(&odev->faults.reports))
		openreg_fault_report(odev, queue, record);
	if (queue)
		openreg_queue_put(queue);
}

/* Logs all new records. Called by the thread of vector 0, or if that may be too late. */
void openreg_fault_drain(struct openreg_device *odev)
{
	struct openreg_faults *faults = &odev->faults;
	unsigned int left;
	u32 head;

	guard(mutex)(&faults->lock);
	head = faults->head;
	/* Bounded by one ring: for later records the card raises vector 0 again. */
	for (left = OPENREG_FAULT_RING_SLOTS; left; left--) {
		struct openreg_fault_record record, *slot;

		slot = &faults->ring[head & (OPENREG_FAULT_RING_SLOTS - 1)];
		if (READ_ONCE(slot->seq) != head + 1)
			break;
		dma_rmb();
		record = *slot;
		head++;
		openreg_fault_handle(odev, &record);
	}
	if (head != faults->head) {
		faults->head = head;
		openreg_write(odev, OPENREG_REG_FAULT_HEAD, head);
	}
}

/*
 * Drains the ring now, if the card can be used. Call this before changing a queue that
 * may have faulted: the process can see the fault before the thread of vector 0 has run,
 * and the dump must show the queue as it faulted.
 */
void openreg_fault_try_drain(struct openreg_device *odev)
{
	int idx;

	/* The ring is freed when the card is removed. */
	if (!drm_dev_enter(&odev->drm, &idx))
		return;
	/* The registers cannot be used during a reset, nor of a wedged card. */
	if (down_read_trylock(&odev->map_lock)) {
		if (!READ_ONCE(odev->wedged))
			openreg_fault_drain(odev);
		up_read(&odev->map_lock);
	}
	drm_dev_exit(idx);
}

int openreg_fault_init(struct openreg_device *odev)
{
	struct openreg_faults *faults = &odev->faults;
	int ret;

	BUILD_BUG_ON(sizeof(struct openreg_fault_record) != 64);
	ret = drmm_mutex_init(&odev->drm, &faults->lock);
	if (ret)
		return ret;
	ratelimit_state_init(&faults->reports, DEFAULT_RATELIMIT_INTERVAL,
			     DEFAULT_RATELIMIT_BURST);
	faults->ring = dmam_alloc_coherent(odev->drm.dev,
					   OPENREG_FAULT_RING_SLOTS *
					   sizeof(*faults->ring),
					   &faults->dma, GFP_KERNEL);
	return faults->ring ? 0 : -ENOMEM;
}
