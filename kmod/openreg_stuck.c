// SPDX-License-Identifier: GPL-2.0-only
/*
 * Closed objects that the card keeps in use for too long. The driver stops the queues of
 * the context, and resets the card if that does not help.
 */

#include <linux/jiffies.h>

#include <drm/drm_print.h>

#include "extra/openreg_extra.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_reset.h"

static void openreg_stuck_stopped(struct openreg_admin_req *req)
{
	struct openreg_queue *queue =
		container_of(req, struct openreg_queue, stop);
	struct openreg_ctx *ctx = to_openreg_ctx(req->ctx);

	scoped_guard(spinlock_irq, &queue->lock)
		queue->stopping = false;
	openreg_queue_notify(queue);
	openreg_queue_put(queue);
	openreg_ctx_put(ctx);
}

/* Stops a queue without waiting. Does nothing if a stop is already in flight. */
static void openreg_stuck_stop(struct openreg_queue *queue)
{
	scoped_guard(spinlock_irq, &queue->lock) {
		if (queue->stopping)
			return;
		queue->stopping = true;
	}
	dev_warn_ratelimited(queue->odev->drm.dev,
			     "%s[%d]: queue %u stopped: it may keep a closed buffer in use\n",
			     queue->comm, queue->pid, queue->id);
	openreg_dump_queue(queue, "the queue may keep a closed buffer in use");
	kref_get(&queue->ref);
	kref_get(&queue->ctx->ref);
	queue->stop.cmd.opcode = OPENREG_ADMIN_QUEUE_STOP;
	queue->stop.cmd.id = queue->id;
	queue->stop.ctx = &queue->ctx->base;
	queue->stop.done = openreg_stuck_stopped;
	queue->stop.frees = true;
	openreg_admin_submit(queue->odev, &queue->stop);
}

static void openreg_stuck_stop_queues(struct openreg_ctx *ctx)
{
	struct openreg_queue *queue;

	guard(mutex)(&ctx->lock);
	list_for_each_entry(queue, &ctx->queues, ctx_link)
		openreg_stuck_stop(queue);
}

/*
 * Only packets of the context itself keep a segment in use. Stop its queues first. If the
 * segment stays in use, the fault is the card's: reset it.
 */
static void openreg_stuck_check(struct openreg_ctx *ctx)
{
	struct openreg_unbinds *unbinds = &ctx->unbinds;
	u64 seen = READ_ONCE(ctx->odev->generation);
	unsigned long timeout = openreg_admin_timeout() +
				openreg_clearing_time(ctx->odev);
	bool stuck = false, stop, late;
	struct openreg_bo *bo;

	/*
	 * Pairs with openreg_reset_new_generation(): if seen is the generation after a
	 * reset, the context is seen dead. Else a reset makes the request below stale.
	 */
	smp_rmb();
	if (READ_ONCE(ctx->base.dead))
		return;
	scoped_guard(spinlock, &unbinds->lock) {
		list_for_each_entry(bo, &unbinds->in_use, in_use)
			stuck |= time_after(jiffies, bo->closed_at + timeout);
		/* The driver cannot stop queues now: this time does not count. */
		if (READ_ONCE(ctx->odev->admin.held)) {
			unbinds->stopped_at = jiffies;
			return;
		}
		stop = stuck && !unbinds->queues_stopped;
		late = stuck && unbinds->queues_stopped &&
		       time_after(jiffies, unbinds->stopped_at + 2 * timeout);
		unbinds->queues_stopped = stuck;
		if (stop || late)
			unbinds->stopped_at = jiffies;
	}
	if (stop)
		openreg_stuck_stop_queues(ctx);
	if (late)
		openreg_reset_request(ctx->odev, seen,
				      "a stopped queue keeps memory in use");
}

/* Called by the watchdog. Returns true if segments are left to watch. */
bool openreg_stuck_watch(struct openreg_device *odev)
{
	struct openreg_ctx *ctx = NULL;

	if (!atomic_read(&odev->num_in_use))
		return false;
	/* An interrupt may have been lost. */
	openreg_unbinds_notify(odev);
	while ((ctx = openreg_ctx_next(odev, ctx)))
		openreg_stuck_check(ctx);
	return true;
}
