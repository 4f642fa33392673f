// SPDX-License-Identifier: GPL-2.0-only
/*
 * Taking an address back. The card refuses as long as a packet uses it: ask
 * again after a while, seldom enough that one process does not fill the admin
 * ring that all share. Memory is given back when the card agrees.
 */

#include <linux/jiffies.h>

#include <drm/drm_print.h>

#include "openreg_ctx.h"
#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

/* Commands for one context in each round. */
#define OPENREG_UNBIND_BATCH 16
#define OPENREG_UNBIND_MIN_MS 1
#define OPENREG_UNBIND_MAX_MS 64

/* While it is queued the work has a reference to the context. */
static void openreg_unbind_again(struct openreg_ctx *ctx)
{
	struct openreg_unbinds *unbinds = &ctx->unbinds;

	lockdep_assert_held(&unbinds->lock);
	kref_get(&ctx->ref);
	/* Not the last reference: the object has one too. */
	if (mod_delayed_work(ctx->odev->wq, &unbinds->work,
			     msecs_to_jiffies(unbinds->backoff_ms)))
		openreg_ctx_put(ctx);
}

static bool openreg_unbind_is_over(const struct openreg_admin_req *req)
{
	const struct openreg_ctx *ctx = req->ctx;

	if (!req->status || req->lost || ctx->unbinds.gone)
		return true;
	/* A context that is being destroyed has no segments to ask for. */
	return req->status != -EBUSY && !ctx->closing;
}

static void openreg_unbind_finish(struct openreg_bo *bo)
{
	struct openreg_ctx *ctx = bo->ctx;

	xa_erase(&ctx->segs, bo->seg);
	openreg_ctx_release_bo(bo);
	scoped_guard(spinlock, &ctx->unbinds.lock) {
		ctx->unbinds.closing--;
		WRITE_ONCE(ctx->unbinds.released,
			   ctx->unbinds.released + 1);
	}
	wake_up_all(&ctx->unbinds.wait);
	openreg_ctx_put(ctx);
}

static void openreg_unbind_done(struct openreg_admin_req *req)
{
	struct openreg_bo *bo = container_of(req, struct openreg_bo, req);
	struct openreg_unbinds *unbinds = &bo->ctx->unbinds;
	bool over;

	scoped_guard(spinlock, &unbinds->lock) {
		bool again = list_empty(&unbinds->busy);

		over = openreg_unbind_is_over(req);
		bo->asking = false;
		if (!over && list_empty(&bo->busy)) {
			list_add_tail(&bo->busy, &unbinds->busy);
		} else if (over && !list_empty(&bo->busy)) {
			list_del_init(&bo->busy);
			/* Where one packet has ended others may have. */
			unbinds->backoff_ms = OPENREG_UNBIND_MIN_MS;
			again = true;
		}
		if (again && !list_empty(&unbinds->busy) && !bo->ctx->closing)
			openreg_unbind_again(bo->ctx);
	}
	if (over)
		openreg_unbind_finish(bo);
}

/**
 * openreg_unbind() - take the address of a closed object back
 * @bo: the object
 * @background: nobody waits for it
 *
 * Asynchronous: the memory follows when no packet uses it any more.
 */
void openreg_unbind(struct openreg_bo *bo, bool background)
{
	struct openreg_ctx *ctx = bo->ctx;

	kref_get(&ctx->ref);
	scoped_guard(spinlock, &ctx->unbinds.lock)
		ctx->unbinds.closing++;
	bo->closed = jiffies;
	bo->req.cmd.opcode = OPENREG_ADMIN_SEG_UNBIND;
	bo->req.cmd.id = bo->seg;
	bo->req.ctx = ctx;
	bo->req.done = openreg_unbind_done;
	bo->req.background = background;
	/* What is small goes at once, or who makes and closes it would be faster. */
	bo->req.frees = bo->base.size > OPENREG_FREE_AT_ONCE;
	openreg_admin_submit(ctx->odev, &bo->req);
}

static void openreg_unbind_stop_queues(struct openreg_ctx *ctx)
{
	struct openreg_queue *queue;

	guard(mutex)(&ctx->lock);
	list_for_each_entry(queue, &ctx->queues, ctx_link)
		openreg_queue_stop_async(queue);
}

/*
 * A segment is in use as long as a packet of its own context runs or waits.
 * Stop these queues first: only if that does not help is the card to blame.
 */
static void openreg_unbind_check(struct openreg_ctx *ctx)
{
	struct openreg_unbinds *unbinds = &ctx->unbinds;
	u64 seen = READ_ONCE(ctx->odev->generation);
	unsigned long timeout = openreg_admin_timeout();
	bool stuck = false, stop, late;
	struct openreg_bo *bo;

	/* Against openreg_reset_forget(): the reason goes with a reset. */
	smp_rmb();
	if (READ_ONCE(ctx->dead))
		return;
	scoped_guard(spinlock, &unbinds->lock) {
		list_for_each_entry(bo, &unbinds->busy, busy)
			stuck |= time_after(jiffies, bo->closed + timeout);
		/* What would stop them is not sent: the time does not count. */
		if (READ_ONCE(ctx->odev->admin.held)) {
			unbinds->stopped = jiffies;
			return;
		}
		stop = stuck && !unbinds->stopping;
		late = stuck && unbinds->stopping &&
		       time_after(jiffies, unbinds->stopped + 2 * timeout);
		unbinds->stopping = stuck;
		if (stop || late)
			unbinds->stopped = jiffies;
	}
	if (stop)
		openreg_unbind_stop_queues(ctx);
	if (late)
		openreg_reset_request(ctx->odev, seen,
				      "a stopped queue keeps memory in use");
}

/* The next of those that are not being asked for; more follow later. */
static unsigned int openreg_unbind_take(struct openreg_ctx *ctx,
					struct openreg_bo **batch)
{
	struct openreg_unbinds *unbinds = &ctx->unbinds;
	struct openreg_bo *bo, *next;
	unsigned int num = 0;

	guard(spinlock)(&unbinds->lock);
	if (list_empty(&unbinds->busy) || ctx->closing)
		return 0;
	list_for_each_entry_safe(bo, next, &unbinds->busy, busy) {
		if (num == OPENREG_UNBIND_BATCH)
			break;
		if (bo->asking)
			continue;
		bo->asking = true;
		batch[num++] = bo;
	}
	if (num)
		list_bulk_move_tail(&unbinds->busy, &batch[0]->busy,
				    &batch[num - 1]->busy);
	unbinds->backoff_ms = min(2 * unbinds->backoff_ms,
				  OPENREG_UNBIND_MAX_MS);
	openreg_unbind_again(ctx);
	return num;
}

static void openreg_unbind_work(struct work_struct *work)
{
	struct openreg_ctx *ctx =
		container_of(work, struct openreg_ctx, unbinds.work.work);
	struct openreg_bo *batch[OPENREG_UNBIND_BATCH];
	unsigned int i, num;

	openreg_unbind_check(ctx);
	num = openreg_unbind_take(ctx, batch);
	for (i = 0; i < num; i++) {
		/* Few, and late if they go last: see openreg_unbind_check(). */
		batch[i]->req.background = false;
		openreg_admin_submit(ctx->odev, &batch[i]->req);
	}
	openreg_ctx_put(ctx);
}

void openreg_unbinds_init(struct openreg_unbinds *unbinds)
{
	spin_lock_init(&unbinds->lock);
	INIT_LIST_HEAD(&unbinds->busy);
	init_waitqueue_head(&unbinds->wait);
	INIT_DELAYED_WORK(&unbinds->work, openreg_unbind_work);
	unbinds->backoff_ms = OPENREG_UNBIND_MIN_MS;
}

/* What the card was yet to be asked for. */
static void openreg_unbinds_withdraw(struct openreg_ctx *ctx)
{
	struct openreg_bo *bo;
	unsigned long seg;
	bool ours;

	xa_for_each(&ctx->segs, seg, bo) {
		/* Who takes it off the table does so with its reference. */
		xa_lock(&ctx->segs);
		bo = xa_load(&ctx->segs, seg);
		ours = bo && openreg_admin_withdraw(ctx->odev, &bo->req);
		xa_unlock(&ctx->segs);
		if (ours)
			openreg_unbind_done(&bo->req);
		cond_resched();
	}
}

/*
 * The card has destroyed the context: nothing of it is in use any more. The caller
 * has a reference.
 */
void openreg_unbinds_finish(struct openreg_ctx *ctx)
{
	struct openreg_unbinds *unbinds = &ctx->unbinds;
	struct openreg_bo *bo, *next;
	LIST_HEAD(over);
	bool left;

	scoped_guard(spinlock, &unbinds->lock) {
		unbinds->gone = true;
		/* Those that are being asked for finish when that is done. */
		list_for_each_entry_safe(bo, next, &unbinds->busy, busy)
			if (!bo->asking)
				list_move_tail(&bo->busy, &over);
	}
	/* Its reference would keep the numbers for the rest of the backoff. */
	if (cancel_delayed_work(&unbinds->work))
		openreg_ctx_put(ctx);
	list_for_each_entry_safe(bo, next, &over, busy) {
		list_del_init(&bo->busy);
		openreg_unbind_finish(bo);
	}
	scoped_guard(spinlock, &unbinds->lock)
		left = unbinds->closing;
	if (left)
		openreg_unbinds_withdraw(ctx);
}

/* Is something still in use for whose sake its queues were stopped? */
bool openreg_unbinds_are_late(struct openreg_ctx *ctx)
{
	guard(spinlock)(&ctx->unbinds.lock);
	return ctx->unbinds.stopping && ctx->unbinds.closing;
}

/* How much a file has got back so far, for openreg_unbinds_wait(). */
unsigned int openreg_unbinds_released(struct openreg_file *file)
{
	struct openreg_ctx *ctx = READ_ONCE(file->ctx);

	return ctx ? READ_ONCE(ctx->unbinds.released) : 0;
}

/**
 * openreg_unbinds_wait() - wait for something that a file has closed
 * @file: the file
 * @released: what openreg_unbinds_released() said before an attempt that failed
 * @deadline: in jiffies
 *
 * Returns: whether more has been given back, so that it is worth to try again;
 * or the card is going, as openreg_ctx_check() then says.
 */
bool openreg_unbinds_wait(struct openreg_file *file, unsigned int released,
			  unsigned long deadline)
{
	struct openreg_ctx *ctx = READ_ONCE(file->ctx);
	long left = deadline - jiffies;
	struct openreg_unbinds *unbinds;

	if (!ctx || left <= 0)
		return false;
	unbinds = &ctx->unbinds;
	scoped_guard(spinlock, &unbinds->lock)
		if (unbinds->released == released && !unbinds->closing)
			return false;
	return wait_event_killable_timeout(unbinds->wait,
					   READ_ONCE(unbinds->released) != released ||
					   READ_ONCE(ctx->odev->going),
					   left) > 0;
}

/* The card is going. */
void openreg_unbinds_wake(struct openreg_device *odev)
{
	struct openreg_ctx *ctx = NULL;

	while ((ctx = openreg_ctx_next(odev, ctx)))
		wake_up_all(&ctx->unbinds.wait);
}

/* The work arms its timer, under the lock, as long as that is so. */
static bool openreg_unbinds_are_left(struct openreg_ctx *ctx)
{
	guard(spinlock)(&ctx->unbinds.lock);
	return !list_empty(&ctx->unbinds.busy) && !ctx->closing;
}

/*
 * The card is cut off, the admin ring dead: whatever is asked for ends at once, and
 * nothing is in use any more. flush_delayed_work() says nothing of a timer that the
 * work has armed meanwhile.
 */
void openreg_unbinds_drain(struct openreg_device *odev)
{
	struct openreg_ctx *ctx = NULL;

	while ((ctx = openreg_ctx_next(odev, ctx))) {
		do
			flush_delayed_work(&ctx->unbinds.work);
		while (openreg_unbinds_are_left(ctx));
		/* What was armed before. */
		flush_delayed_work(&ctx->unbinds.work);
	}
}
