// SPDX-License-Identifier: GPL-2.0-only
/* Contexts: one for each open file that uses the card; its segments and its doorbell. */

#include <drm/drm_drv.h>
#include <drm/drm_print.h>

#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_trace.h"

void openreg_ctx_release_bo(struct openreg_bo *bo)
{
	trace_openreg_bo_unbound(bo);
	if (bo->ops->unbound)
		bo->ops->unbound(bo);
	else
		openreg_bo_put(bo);
}

static void openreg_ctx_release(struct kref *ref)
{
	struct openreg_ctx *ctx = container_of(ref, struct openreg_ctx, ref);
	struct openreg_device *odev = ctx->odev;
	struct openreg_queue *queue, *next;
	struct openreg_bo *bo;
	unsigned long seg;

	list_for_each_entry_safe(queue, next, &ctx->queues, ctx_link) {
		list_del(&queue->ctx_link);
		openreg_queue_unregister(queue);
		openreg_queue_put(queue);
	}
	xa_for_each(&ctx->segs, seg, bo)
		openreg_ctx_release_bo(bo);
	xa_destroy(&ctx->segs);
	if (ctx->doorbell)
		openreg_bo_put(ctx->doorbell);
	openreg_bo_put(ctx->released);

	spin_lock(&odev->admin.lock);
	list_del(&ctx->base.link);
	spin_unlock(&odev->admin.lock);
	ida_free(&odev->ctx_ids, ctx->base.id);
	if (ctx->base.file_closed)
		openreg_reclaim_end(odev);
	mutex_destroy(&ctx->lock);
	kfree(ctx);
	drm_dev_put(&odev->drm);
}

void openreg_ctx_put(struct openreg_ctx *ctx)
{
	kref_put(&ctx->ref, openreg_ctx_release);
}

static void openreg_ctx_destroyed(struct openreg_admin_req *req)
{
	struct openreg_ctx *ctx =
		container_of(req, struct openreg_ctx, destroy);
	struct openreg_queue *queue;

	scoped_guard(mutex, &ctx->lock)
		list_for_each_entry(queue, &ctx->queues, ctx_link)
			openreg_points_fail(queue);
	openreg_unbinds_finish_ctx(ctx);
	openreg_ctx_put(ctx);
}

static struct openreg_ctx *openreg_ctx_new(struct openreg_device *odev)
{
	struct openreg_bo *released;
	struct openreg_ctx *ctx;
	int id;

	released = openreg_coherent_new(odev, OPENREG_QUEUE_PAGE_SIZE,
					&openreg_kernel_page_ops);
	if (IS_ERR(released))
		return ERR_CAST(released);
	ctx = kzalloc_obj(*ctx);
	if (!ctx) {
		id = -ENOMEM;
		goto out_put;
	}
	id = ida_alloc_max(&odev->ctx_ids, odev->max_contexts - 1, GFP_KERNEL);
	if (id == -ENOSPC) {
		openreg_admin_wait_finished(odev);
		id = ida_alloc_max(&odev->ctx_ids, odev->max_contexts - 1,
				   GFP_KERNEL);
	}
	if (id < 0)
		goto out_free;

	ctx->base.id = id;
	ctx->released = released;
	ctx->odev = odev;
	drm_dev_get(&odev->drm);
	kref_init(&ctx->ref);
	mutex_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->queues);
	openreg_unbinds_init(&ctx->unbinds);
	xa_init_flags(&ctx->segs, XA_FLAGS_ALLOC1);
	spin_lock(&odev->admin.lock);
	list_add_tail(&ctx->base.link, &odev->admin.ctxs);
	spin_unlock(&odev->admin.lock);
	return ctx;

out_free:
	kfree(ctx);
out_put:
	openreg_bo_put(released);
	return ERR_PTR(id);
}

static struct openreg_admin_cmd
openreg_ctx_create_cmd(const struct openreg_ctx *ctx)
{
	return (struct openreg_admin_cmd) {
		.opcode = OPENREG_ADMIN_CTX_CREATE,
		.create.released = ctx->released->coherent.dma,
	};
}

/**
 * openreg_ctx_get() - the context of an open file, created on first use
 * @file: the open file
 *
 * Returns: the context, which lives as long as the file; -ENOSPC if the card has no free
 * context; -EIO if the context died in a reset.
 */
struct openreg_ctx *openreg_ctx_get(struct openreg_file *file)
{
	struct openreg_admin_cmd cmd;
	struct openreg_ctx *ctx;
	int ret;

	guard(mutex)(&file->lock);
	if (file->ctx)
		return READ_ONCE(file->ctx->base.dead) ? ERR_PTR(-EIO) : file->ctx;

	ctx = openreg_ctx_new(file->odev);
	if (IS_ERR(ctx))
		return ctx;
	cmd = openreg_ctx_create_cmd(ctx);
	ret = openreg_admin_exec(file->odev, &ctx->base, &cmd);
	if (ret) {
		openreg_ctx_put(ctx);
		return ERR_PTR(ret);
	}
	/* openreg_ctx_check() reads file->ctx without the lock. */
	smp_store_release(&file->ctx, ctx);
	return ctx;
}

/* Returns -ENODEV or -EIO if waiting for memory cannot succeed. */
int openreg_ctx_check(struct openreg_file *file)
{
	struct openreg_ctx *ctx = READ_ONCE(file->ctx);

	if (READ_ONCE(file->odev->removing))
		return -ENODEV;
	return ctx && READ_ONCE(ctx->base.dead) ? -EIO : 0;
}

/*
 * Destroys the context on the card, because its file is being closed. Asynchronous: the
 * queues stop at their next slice, and the memory is freed when the card has destroyed
 * the context. The caller keeps its reference.
 */
void openreg_ctx_close(struct openreg_ctx *ctx)
{
	struct openreg_queue *queue;

	openreg_reclaim_begin(ctx->odev);
	scoped_guard(spinlock, &ctx->unbinds.lock)
		WRITE_ONCE(ctx->base.file_closed, true);
	scoped_guard(mutex, &ctx->lock)
		list_for_each_entry(queue, &ctx->queues, ctx_link)
			openreg_queue_fail(queue, -EIO);

	kref_get(&ctx->ref);
	ctx->destroy.cmd.opcode = OPENREG_ADMIN_CTX_DESTROY;
	ctx->destroy.ctx = &ctx->base;
	ctx->destroy.done = openreg_ctx_destroyed;
	ctx->destroy.frees = true;
	openreg_admin_submit(ctx->odev, &ctx->destroy);
}

/* Binds an object to a segment on the card. exec() sends the command. */
static int openreg_ctx_bind_seg(struct openreg_ctx *ctx, struct openreg_bo *bo,
				u32 seg, openreg_admin_exec_fn exec)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_SEG_BIND,
		.id = seg,
		.seg.length = bo->length,
		.seg.perm = OPENREG_SEG_READ | OPENREG_SEG_WRITE,
	};
	int ret;

	if (bo->flags & DRM_OPENREG_BO_READONLY)
		cmd.seg.perm = OPENREG_SEG_READ;
	ret = bo->ops->prepare(bo, &cmd);
	if (ret)
		return ret;
	ret = exec(ctx->odev, &ctx->base, &cmd);
	bo->ops->unprepare(bo);
	return ret;
}

static struct openreg_bo *openreg_ctx_get_seg(struct openreg_ctx *ctx,
					      unsigned long seg)
{
	struct openreg_bo *bo;

	xa_lock(&ctx->segs);
	bo = xa_load(&ctx->segs, seg);
	if (bo)
		drm_gem_object_get(&bo->base);
	xa_unlock(&ctx->segs);
	return bo;
}

/*
 * Binds all segments again, also those with a pending SEG_UNBIND. If the card is
 * reset before it gets the SEG_UNBIND, the reset frees their memory.
 */
static int openreg_ctx_restore_segs(struct openreg_ctx *ctx)
{
	struct openreg_bo *bo;
	unsigned long seg;
	int ret;

	xa_for_each(&ctx->segs, seg, bo) {
		bo = openreg_ctx_get_seg(ctx, seg);
		if (!bo)
			continue;
		ret = openreg_ctx_bind_seg(ctx, bo, seg,
					   openreg_admin_exec_first);
		openreg_bo_put(bo);
		if (ret)
			return ret;
	}
	return 0;
}

/**
 * openreg_ctx_restore() - create a context and its segments again after suspend
 * @ctx: the context, not dead
 *
 * Other commands are held. The caller restores the queues next.
 */
int openreg_ctx_restore(struct openreg_ctx *ctx)
{
	const struct openreg_admin_cmd cmd = openreg_ctx_create_cmd(ctx);
	int ret;

	ret = openreg_admin_exec_first(ctx->odev, &ctx->base, &cmd);
	return ret ?: openreg_ctx_restore_segs(ctx);
}

/**
 * openreg_ctx_kill() - give up a context that could not be restored
 * @ctx: the context
 *
 * The process sees the same as after a reset of the card.
 */
void openreg_ctx_kill(struct openreg_ctx *ctx)
{
	struct openreg_admin_cmd cmd = { .opcode = OPENREG_ADMIN_CTX_DESTROY };
	struct openreg_device *odev = ctx->odev;
	struct openreg_queue *queue;

	openreg_admin_exec_first(odev, &ctx->base, &cmd);
	spin_lock(&odev->admin.lock);
	WRITE_ONCE(ctx->base.dead, true);
	spin_unlock(&odev->admin.lock);

	guard(mutex)(&ctx->lock);
	list_for_each_entry(queue, &ctx->queues, ctx_link) {
		openreg_queue_hang(queue, -EIO);
		openreg_points_fail(queue);
	}
}

/**
 * openreg_ctx_next() - the next context of a card
 * @odev: the card
 * @last: the context before it, or NULL; its reference is dropped
 *
 * Returns: the context, with a reference, or NULL.
 */
struct openreg_ctx *openreg_ctx_next(struct openreg_device *odev,
				     struct openreg_ctx *last)
{
	struct openreg_admin *admin = &odev->admin;
	struct openreg_ctx *ctx = NULL;

	scoped_guard(spinlock, &admin->lock) {
		struct list_head *at = last ? &last->base.link : &admin->ctxs;

		list_for_each_continue(at, &admin->ctxs) {
			ctx = list_entry(at, struct openreg_ctx, base.link);
			if (kref_get_unless_zero(&ctx->ref))
				break;
			ctx = NULL;
		}
	}
	if (last)
		openreg_ctx_put(last);
	return ctx;
}

/**
 * openreg_ctx_bind() - bind an object to a segment, which gives it an address
 * @ctx: the context
 * @bo: the object; the context has a reference until the card has released the segment
 *
 * Segment numbers are handed out round robin, so that stale addresses fault for a while.
 */
int openreg_ctx_bind(struct openreg_ctx *ctx, struct openreg_bo *bo)
{
	struct openreg_device *odev = ctx->odev;
	u32 seg;
	int ret;

	ret = xa_alloc_cyclic(&ctx->segs, &seg, bo,
			      XA_LIMIT(1, odev->info.max_segments),
			      &ctx->next_seg, GFP_KERNEL);
	if (ret < 0)
		return ret == -EBUSY ? -ENOSPC : ret;

	ret = openreg_ctx_bind_seg(ctx, bo, seg, openreg_admin_exec);
	if (ret) {
		xa_erase(&ctx->segs, seg);
		return ret;
	}

	drm_gem_object_get(&bo->base);
	bo->seg = seg;
	bo->address = OPENREG_ADDR(odev->info.card, seg, 0);
	trace_openreg_bo_bind(bo);
	return 0;
}

/*
 * Unbinds an object, because its handle or its file is closed, or because the exporter
 * takes imported memory back. If the file is closed, CTX_DESTROY releases all segments.
 */
void openreg_ctx_unbind(struct openreg_bo *bo)
{
	struct openreg_ctx *ctx = bo->ctx;

	if (READ_ONCE(ctx->base.file_closed) || xchg(&bo->unbinding, true))
		return;

	trace_openreg_bo_close(bo);
	openreg_unbind(bo);
}

static unsigned long openreg_doorbell_pfn(struct openreg_bo *bo, pgoff_t page)
{
	struct openreg_device *odev = to_openreg(bo->base.dev);

	return PHYS_PFN(odev->doorbell_base +
			bo->doorbell.page * OPENREG_DOORBELL_STRIDE);
}

static void openreg_doorbell_release(struct openreg_bo *bo)
{
	struct openreg_device *odev = to_openreg(bo->base.dev);

	ida_free(&odev->doorbell_ids, bo->doorbell.page);
	openreg_bo_free(bo);
}

static const struct openreg_bo_ops openreg_doorbell_ops = {
	.pfn = openreg_doorbell_pfn,
	.release = openreg_doorbell_release,
	.io = true,
	.noncached = true,
};

static struct openreg_bo *openreg_doorbell_new(struct openreg_device *odev)
{
	struct openreg_bo *bo;
	int page, ret;

	page = ida_alloc_max(&odev->doorbell_ids, odev->num_doorbells - 1,
			     GFP_KERNEL);
	if (page < 0)
		return ERR_PTR(page);
	bo = openreg_bo_new(odev, OPENREG_DOORBELL_STRIDE,
			    &openreg_doorbell_ops);
	if (IS_ERR(bo)) {
		ida_free(&odev->doorbell_ids, page);
		return bo;
	}
	bo->doorbell.page = page;
	ret = drm_gem_create_mmap_offset(&bo->base);
	if (ret) {
		openreg_bo_put(bo);
		return ERR_PTR(ret);
	}
	return bo;
}

/* All queues of a context share one doorbell page, because pages are few. */
int openreg_ctx_need_doorbell(struct openreg_ctx *ctx)
{
	struct openreg_bo *bo;

	guard(mutex)(&ctx->lock);
	if (ctx->doorbell)
		return 0;
	bo = openreg_doorbell_new(ctx->odev);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	ctx->doorbell = bo;
	return 0;
}
