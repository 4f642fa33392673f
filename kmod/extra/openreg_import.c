// SPDX-License-Identifier: GPL-2.0-only
/*
 * Import of dma-bufs as buffer objects. VRAM of this card becomes an alias: one more
 * segment for the same memory. The exporter maps other memory for this card, until the
 * card has released the segment or the object is freed. Each importing file gets its own
 * object; if a file imports a dma-buf twice, DRM returns the first handle.
 */

#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>

#include <drm/drm_drv.h>
#include <drm/drm_print.h>

#include "openreg_compat.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_prime.h"

/* Protects import.bound and import.revoked of all objects. */
static DEFINE_SPINLOCK(openreg_import_lock);
/*
 * A workqueue for calls of exporters. They take locks for which the workqueue of a card
 * must not wait. One for all cards: files, and so their objects, can outlive a card.
 */
static struct workqueue_struct *openreg_import_wq;

static int openreg_import_map(struct openreg_bo *bo)
{
	struct dma_buf_attachment *attach = bo->base.import_attach;
	struct dma_resv *resv = attach->dmabuf->resv;
	struct sg_table *sgt;
	long ret;

	dma_resv_lock(resv, NULL);
	ret = dma_buf_pin(attach);
	if (ret)
		goto out_unlock;
	/*
	 * The exporter may still be moving the memory to its place. Limit the wait: no
	 * card can be removed meanwhile.
	 */
	ret = dma_resv_wait_timeout(resv, DMA_RESV_USAGE_KERNEL, true,
				    OPENREG_MEMORY_TIMEOUT);
	if (!ret)
		ret = -EBUSY;
	if (ret < 0)
		goto out_unpin;
	sgt = dma_buf_map_attachment(attach, bo->mem.dir);
	if (IS_ERR(sgt)) {
		ret = PTR_ERR(sgt);
		goto out_unpin;
	}
	bo->import.sgt = sgt;
	bo->mem.sgt = *sgt;
	/* Pinning may have moved the memory: that invalidation is over. */
	scoped_guard(spinlock, &openreg_import_lock)
		bo->import.revoked = false;
	dma_resv_unlock(resv);
	return 0;

out_unpin:
	dma_buf_unpin(attach);
out_unlock:
	dma_resv_unlock(resv);
	return ret;
}

/* The card has released the segment, never had it, or is gone. */
static void openreg_import_unmap(struct openreg_bo *bo)
{
	struct dma_buf_attachment *attach = bo->base.import_attach;

	lockdep_assert_held(&bo->lock);
	if (!attach)
		return;
	dma_resv_lock(attach->dmabuf->resv, NULL);
	if (bo->import.sgt) {
		dma_buf_unmap_attachment(attach, bo->import.sgt, bo->mem.dir);
		dma_buf_unpin(attach);
	}
	bo->import.sgt = NULL;
	dma_resv_unlock(attach->dmabuf->resv);
}

static void openreg_import_revoke_work(struct work_struct *work)
{
	struct openreg_bo *bo =
		container_of(work, struct openreg_bo, import.revoke);
	struct openreg_ctx *ctx = NULL;

	scoped_guard(spinlock, &openreg_import_lock)
		if (bo->import.bound && kref_get_unless_zero(&bo->ctx->ref))
			ctx = bo->ctx;
	if (ctx) {
		drm_dbg(bo->base.dev, "the exporter revokes the memory at 0x%llx\n",
			bo->address);
		openreg_ctx_unbind(bo);
		openreg_ctx_put(ctx);
	}
	openreg_bo_put(bo);
}

/* Does nothing if the object is being freed: that unmaps the memory anyway. */
static void openreg_import_revoke(struct openreg_bo *bo)
{
	if (kref_get_unless_zero(&bo->base.refcount))
		queue_work(openreg_import_wq, &bo->import.revoke);
}

/*
 * The exporter takes its memory back, for good since it was pinned. New packets fault.
 * The mapping is removed when no running packet uses it.
 */
static void openreg_import_invalidate(struct dma_buf_attachment *attach)
{
	struct openreg_bo *bo = attach->importer_priv;
	bool revoke;

	scoped_guard(spinlock, &openreg_import_lock) {
		revoke = bo->import.bound && !bo->import.revoked;
		bo->import.revoked = true;
	}
	if (revoke)
		openreg_import_revoke(bo);
}

static const struct dma_buf_attach_ops openreg_import_attach_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = openreg_import_invalidate,
};

static int openreg_import_prepare(struct openreg_bo *bo,
				  struct openreg_admin_cmd *cmd)
{
	int ret = -EIO;

	/* If the lock is held, the card was reset and the memory is being unmapped. */
	if (mutex_trylock(&bo->lock)) {
		if (bo->import.sgt)
			ret = openreg_pages_prepare(bo, cmd);
		mutex_unlock(&bo->lock);
	}
	/* The kind of memory of other exporters is unknown, and makes no difference. */
	if (!ret && openreg_prime_is_vram(bo->import.dma_buf))
		cmd->seg.kind = OPENREG_SEG_PEER;
	return ret;
}

static void openreg_import_bound(struct openreg_bo *bo)
{
	bool revoke;

	scoped_guard(spinlock, &openreg_import_lock) {
		revoke = bo->import.revoked;
		bo->import.bound = true;
	}
	if (revoke)
		openreg_import_revoke(bo);
}

static void openreg_import_unbound_work(struct work_struct *work)
{
	struct openreg_bo *bo =
		container_of(work, struct openreg_bo, import.unbound);

	scoped_guard(mutex, &bo->lock)
		openreg_import_unmap(bo);
	openreg_bo_put(bo);
}

/* The context may be freed when this returns. */
static void openreg_import_unbound(struct openreg_bo *bo)
{
	scoped_guard(spinlock, &openreg_import_lock)
		bo->import.bound = false;
	queue_work(openreg_import_wq, &bo->import.unbound);
}

static int openreg_import_mmap(struct openreg_bo *bo,
			       struct vm_area_struct *vma)
{
	int ret;

	if (bo->flags & DRM_OPENREG_BO_READONLY) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	/* DRM needs VM_DONTEXPAND, the uapi VM_DONTCOPY; not all exporters set them. */
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTCOPY);
	vma->vm_private_data = NULL;
	vma->vm_ops = NULL;
	ret = dma_buf_mmap(bo->import.dma_buf, vma, 0);
	/* The mapping belongs to the exporter. It keeps the dma-buf, not this object. */
	if (!ret)
		openreg_bo_put(bo);
	return ret;
}

/* Detaches from the dma-buf. Some kernels keep the DMA mapping until this. */
static void openreg_import_detach(struct openreg_bo *bo)
{
	if (!bo->base.import_attach)
		return;
	openreg_import_unmap(bo);
	dma_buf_detach(bo->import.dma_buf, bo->base.import_attach);
	bo->base.import_attach = NULL;
}

static void openreg_import_release(struct openreg_bo *bo)
{
	dma_buf_put(bo->import.dma_buf);
	openreg_bo_free(bo);
}

/* The card needs whole pages, and exactly as many as the object has. */
static bool openreg_import_fits(const struct openreg_bo *bo)
{
	const struct sg_table *sgt = &bo->mem.sgt;
	struct scatterlist *sg;
	u64 size = 0;
	int i;

	for_each_sgtable_dma_sg(sgt, sg, i) {
		if (!PAGE_ALIGNED(sg_dma_address(sg)) ||
		    !PAGE_ALIGNED(sg_dma_len(sg)))
			return false;
		size += sg_dma_len(sg);
	}
	return size == bo->length;
}

/* DRM does not hold here its lock for all imports, so this may take long. */
static int openreg_import_open(struct openreg_bo *bo)
{
	struct dma_buf *dma_buf = bo->import.dma_buf;
	struct dma_buf_attachment *attach;
	int ret;

	attach = dma_buf_dynamic_attach(dma_buf, bo->base.dev->dev,
					&openreg_import_attach_ops, bo);
	if (IS_ERR(attach))
		return PTR_ERR(attach);
	bo->base.import_attach = attach;
	ret = openreg_import_map(bo);
	if (!ret && !openreg_import_fits(bo))
		ret = -EINVAL;
	return ret;
}

static const struct openreg_bo_ops openreg_import_ops = {
	.open = openreg_import_open,
	.prepare = openreg_import_prepare,
	.unprepare = openreg_pages_unprepare,
	.bound = openreg_import_bound,
	.unbound = openreg_import_unbound,
	.mmap = openreg_import_mmap,
	.detach = openreg_import_detach,
	.release = openreg_import_release,
};

/* VRAM of this card that another object owns. */
static const struct openreg_bo_ops openreg_alias_ops = {
	.prepare = openreg_vram_prepare,
	.unprepare = openreg_vram_unprepare,
	.mmap = openreg_import_mmap,
	.release = openreg_import_release,
};

static struct openreg_bo *openreg_import_new(struct openreg_device *odev,
					     struct dma_buf *dma_buf,
					     const struct openreg_bo_ops *ops)
{
	struct openreg_bo *bo = openreg_bo_new(odev, dma_buf->size, ops);

	if (IS_ERR(bo))
		return bo;
	INIT_WORK(&bo->import.unbound, openreg_import_unbound_work);
	INIT_WORK(&bo->import.revoke, openreg_import_revoke_work);
	get_dma_buf(dma_buf);
	bo->import.dma_buf = dma_buf;
	bo->flags = DRM_OPENREG_BO_IMPORTED;
	if (openreg_dma_buf_is_readonly(dma_buf))
		bo->flags |= DRM_OPENREG_BO_READONLY;
	return bo;
}

static void openreg_import_fill(struct openreg_bo *bo, bool alias)
{
	struct dma_buf *dma_buf = bo->import.dma_buf;

	if (alias) {
		bo->flags |= DRM_OPENREG_BO_VRAM;
		bo->vram.offset = to_openreg_bo(dma_buf->priv)->vram.offset;
	} else {
		bo->flags |= DRM_OPENREG_BO_SYSTEM;
		bo->mem.dir = bo->flags & DRM_OPENREG_BO_READONLY ?
			      DMA_TO_DEVICE : DMA_BIDIRECTIONAL;
		bo->base.resv = dma_buf->resv;
	}
}

static bool openreg_import_is_alias(struct drm_device *drm,
				    const struct dma_buf *dma_buf)
{
	const struct drm_gem_object *obj = dma_buf->priv;

	return openreg_prime_is_vram(dma_buf) && obj->dev == drm;
}

struct drm_gem_object *openreg_prime_import(struct drm_device *drm,
					    struct dma_buf *dma_buf)
{
	struct openreg_device *odev = to_openreg(drm);
	bool alias = openreg_import_is_alias(drm, dma_buf);
	struct openreg_bo *bo;
	int ret;

	if (!dma_buf->size || !PAGE_ALIGNED(dma_buf->size) ||
	    dma_buf->size > odev->info.max_bo_size)
		return ERR_PTR(-EINVAL);
	bo = openreg_import_new(odev, dma_buf, alias ? &openreg_alias_ops :
						       &openreg_import_ops);
	if (IS_ERR(bo))
		return ERR_CAST(bo);
	openreg_import_fill(bo, alias);
	ret = drm_gem_create_mmap_offset(&bo->base);
	if (ret) {
		openreg_bo_put(bo);
		return ERR_PTR(ret);
	}
	return &bo->base;
}

int openreg_import_init(void)
{
	openreg_import_wq = alloc_workqueue("openreg_import", WQ_UNBOUND, 0);
	return openreg_import_wq ? 0 : -ENOMEM;
}

void openreg_import_exit(void)
{
	destroy_workqueue(openreg_import_wq);
}
