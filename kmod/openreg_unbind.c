// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unbinding closed objects. The card refuses new uses of the address at once. When no
 * packet uses the segment any more the card releases it: it sets the segment's bit in the
 * context's released page and raises vector 0. Then the memory can be freed.
 *
 * Memory, segments and numbers of closed objects and contexts are freed that way. A call
 * that finds none free waits a while before it fails.
 */

#include <linux/jiffies.h>
#include <linux/wait.h>

#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"

static bool openreg_unbind_is_released(const struct openreg_bo *bo)
{
	const struct openreg_released_page *page =
		bo->ctx->released->coherent.cpu;

	/* The page is gone once the device was removed. */
	if (!page || !(READ_ONCE(page->bits[bo->seg / 64]) & BIT_ULL(bo->seg % 64)))
		return false;
	dma_rmb();
	return true;
}

static void openreg_unbind_finish(struct openreg_bo *bo, bool cleared)
{
	struct openreg_ctx *ctx = bo->ctx;

	xa_erase(&ctx->segs, bo->seg);
	if (openreg_bo_owns_vram(bo))
		openreg_vram_unbound(bo, cleared);
	/*
	 * The memory is free with the last reference. GEM_CLOSE may be about to drop one
	 * more, but a mapping may keep the object for ever.
	 */
	if (kref_read(&bo->base.refcount) <=
	    1 + !!READ_ONCE(bo->base.handle_count))
		bo->reclaim = true;
	else
		openreg_reclaim_end(ctx->odev);
	openreg_ctx_release_bo(bo);
	openreg_ctx_put(ctx);
}

static void openreg_unbind_done(struct openreg_admin_req *req)
{
	struct openreg_bo *bo = container_of(req, struct openreg_bo, req);
	struct openreg_unbinds *unbinds = &bo->ctx->unbinds;
	struct openreg_device *odev = bo->ctx->odev;
	bool over, released;

	scoped_guard(spinlock, &unbinds->lock) {
		atomic_inc(&odev->num_in_use);
		/* Count it before reading the bit: see openreg_unbinds_notify(). */
		smp_mb__after_atomic();
		released = !req->status && openreg_unbind_is_released(bo);
		/* If the file is closed, an error means that CTX_DESTROY came first. */
		over = req->lost || unbinds->ctx_destroyed ||
		       (req->status && !READ_ONCE(bo->ctx->base.file_closed));
		if (released || over) {
			atomic_dec(&odev->num_in_use);
		} else {
			/* No packet uses the VRAM: the card only has to clear it. */
			if (openreg_bo_owns_vram(bo) && !req->result)
				openreg_vram_count_clearing(bo);
			list_add_tail(&bo->in_use, &unbinds->in_use);
		}
	}
	/* On the list the object may be freed at any time: do not touch it. */
	if (released || over)
		openreg_unbind_finish(bo, released && req->cmd.unbind.flags);
	else
		openreg_admin_watch(odev);
}

/**
 * openreg_unbind() - begin to unbind a closed object
 * @bo: the object
 *
 * Asynchronous: the memory is freed later, when no packet uses it any more.
 */
void openreg_unbind(struct openreg_bo *bo)
{
	struct openreg_ctx *ctx = bo->ctx;

	kref_get(&ctx->ref);
	openreg_reclaim_begin(ctx->odev);
	bo->closed_at = jiffies;
	bo->req.cmd.opcode = OPENREG_ADMIN_SEG_UNBIND;
	bo->req.cmd.id = bo->seg;
	if (openreg_bo_owns_vram(bo) && openreg_vram_can_clear(bo))
		bo->req.cmd.unbind.flags = OPENREG_UNBIND_CLEAR;
	bo->req.ctx = &ctx->base;
	bo->req.done = openreg_unbind_done;
	/* Free small objects at once, so that a process cannot close faster than that. */
	bo->req.frees = bo->base.size > OPENREG_FREE_AT_ONCE;
	openreg_admin_submit(ctx->odev, &bo->req);
}

/* Finishes released segments, or all if the card does not use the context any more. */
static void openreg_unbinds_finish(struct openreg_ctx *ctx, bool all)
{
	struct openreg_unbinds *unbinds = &ctx->unbinds;
	struct openreg_bo *bo, *next;
	LIST_HEAD(released);

	scoped_guard(spinlock, &unbinds->lock)
		list_for_each_entry_safe(bo, next, &unbinds->in_use, in_use)
			if (all || openreg_unbind_is_released(bo)) {
				list_move_tail(&bo->in_use, &released);
				atomic_dec(&ctx->odev->num_in_use);
			}
	list_for_each_entry_safe(bo, next, &released, in_use) {
		list_del(&bo->in_use);
		openreg_unbind_finish(bo, openreg_unbind_is_released(bo) &&
				      bo->req.cmd.unbind.flags);
		cond_resched();
	}
}

void openreg_unbinds_work(struct work_struct *work)
{
	struct openreg_device *odev =
		container_of(work, struct openreg_device, unbinds_work);
	struct openreg_ctx *ctx = NULL;

	while ((ctx = openreg_ctx_next(odev, ctx)))
		openreg_unbinds_finish(ctx, false);
}

/* Vector 0 was raised: the card may have released segments. */
void openreg_unbinds_notify(struct openreg_device *odev)
{
	/* An object that is counted after this reads its bit after the card set it. */
	smp_mb();
	if (atomic_read(&odev->num_in_use))
		queue_work(odev->wq, &odev->unbinds_work);
}

/* Finishes all unbinds. The card was reset or cut off from the bus, so it does no DMA. */
void openreg_unbinds_finish_all(struct openreg_device *odev)
{
	struct openreg_ctx *ctx = NULL;

	while ((ctx = openreg_ctx_next(odev, ctx))) {
		/* A completion from before the reset may not be finished yet. */
		scoped_guard(spinlock, &ctx->unbinds.lock)
			ctx->unbinds.ctx_destroyed |= READ_ONCE(ctx->base.dead);
		openreg_unbinds_finish(ctx, true);
	}
}

/* Finishes all unbinds of a destroyed context. The caller has a reference. */
void openreg_unbinds_finish_ctx(struct openreg_ctx *ctx)
{
	scoped_guard(spinlock, &ctx->unbinds.lock)
		ctx->unbinds.ctx_destroyed = true;
	openreg_unbinds_finish(ctx, true);
}

void openreg_unbinds_init(struct openreg_unbinds *unbinds)
{
	spin_lock_init(&unbinds->lock);
	INIT_LIST_HEAD(&unbinds->in_use);
}

/* Is a segment still in use although the driver stopped the queues of the context? */
bool openreg_unbinds_are_late(struct openreg_ctx *ctx)
{
	guard(spinlock)(&ctx->unbinds.lock);
	return ctx->unbinds.queues_stopped && !list_empty(&ctx->unbinds.in_use);
}

void openreg_reclaim_init(struct openreg_reclaim *reclaim)
{
	init_waitqueue_head(&reclaim->wait);
}

/* An object or a context was closed. openreg_reclaim_end() follows when it is freed. */
void openreg_reclaim_begin(struct openreg_device *odev)
{
	atomic_inc(&odev->reclaim.pending);
}

void openreg_reclaim_end(struct openreg_device *odev)
{
	atomic_inc(&odev->reclaim.done);
	atomic_dec(&odev->reclaim.pending);
	wake_up_all(&odev->reclaim.wait);
}

/* Read this before an attempt that may fail for lack of memory or numbers. */
int openreg_reclaim_done(struct openreg_device *odev)
{
	return atomic_read(&odev->reclaim.done);
}

/**
 * openreg_reclaim_wait() - wait until a closed object or context is freed
 * @odev: the card
 * @ret: what the attempt returned
 * @done: what openreg_reclaim_done() returned before the attempt
 * @deadline: in jiffies
 *
 * Returns: true if the caller should try again. The device may have been removed by then.
 */
bool openreg_reclaim_wait(struct openreg_device *odev, int ret, int done,
			  unsigned long deadline)
{
	struct openreg_reclaim *reclaim = &odev->reclaim;
	long left = deadline - jiffies;

	if ((ret != -ENOMEM && ret != -ENOSPC) || left <= 0)
		return false;
	if (atomic_read(&reclaim->done) == done &&
	    !atomic_read(&reclaim->pending))
		return false;
	return wait_event_killable_timeout(reclaim->wait,
					   atomic_read(&reclaim->done) != done ||
					   READ_ONCE(odev->removing),
					   left) > 0;
}

/* Makes all calls that wait return. odev->removing is set. */
void openreg_reclaim_wake(struct openreg_device *odev)
{
	wake_up_all(&odev->reclaim.wait);
}
