// SPDX-License-Identifier: GPL-2.0-only
/*
 * Export of buffer objects as dma-bufs. Their memory never moves, so pinning does
 * nothing. VRAM has no struct pages and is lost when the card is removed. So an importer
 * of VRAM must use bus addresses of a peer, and drop a mapping that is revoked.
 */

#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/suspend.h>

#include <drm/drm_drv.h>
#include <drm/drm_prime.h>

#include "openreg_compat.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_prime.h"

/* Largest entry of a scatter list: its length has 32 bits. */
#define OPENREG_SG_MAX SZ_2G

/* One DMA mapping of an object for an importer. attach->priv is the newest. */
struct openreg_mapping {
	struct sg_table sgt;
	enum dma_data_direction dir;
};

static int openreg_export_pin(struct dma_buf_attachment *attach)
{
	return 0;
}

static void openreg_export_unpin(struct dma_buf_attachment *attach)
{
}

/* Fails with EACCES if another device would write to a read-only dma-buf. */
static struct openreg_mapping *
openreg_mapping_new(struct dma_buf_attachment *attach,
		    enum dma_data_direction dir)
{
	struct openreg_mapping *mapping;

	if (dir != DMA_TO_DEVICE && openreg_dma_buf_is_readonly(attach->dmabuf))
		return ERR_PTR(-EACCES);
	mapping = kzalloc_obj(*mapping);
	if (!mapping)
		return ERR_PTR(-ENOMEM);
	mapping->dir = dir;
	return mapping;
}

static struct sg_table *openreg_system_map(struct dma_buf_attachment *attach,
					   enum dma_data_direction dir)
{
	struct openreg_bo *bo = to_openreg_bo(attach->dmabuf->priv);
	struct openreg_mapping *mapping = openreg_mapping_new(attach, dir);
	struct sg_table *sgt;
	int ret;

	if (IS_ERR(mapping))
		return ERR_CAST(mapping);
	sgt = &mapping->sgt;
	ret = sg_alloc_table_from_pages_segment(sgt, bo->mem.pages, bo->mem.num,
						0, bo->base.size,
						dma_get_max_seg_size(attach->dev),
						GFP_KERNEL);
	if (ret)
		goto out_free;
	/* begin_cpu_access and end_cpu_access sync the caches. */
	ret = dma_map_sgtable(attach->dev, sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
	if (ret) {
		sg_free_table(sgt);
		goto out_free;
	}
	attach->priv = mapping;
	return sgt;

out_free:
	kfree(mapping);
	return ERR_PTR(ret);
}

static void openreg_system_unmap(struct dma_buf_attachment *attach,
				 struct sg_table *sgt,
				 enum dma_data_direction dir)
{
	struct openreg_mapping *mapping =
		container_of(sgt, struct openreg_mapping, sgt);

	if (attach->priv == mapping)
		attach->priv = NULL;
	dma_unmap_sgtable(attach->dev, sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(sgt);
	kfree(mapping);
}

static void openreg_sync(struct device *dev, struct sg_table *sgt,
			 enum dma_data_direction dir, bool begin)
{
	if (begin)
		dma_sync_sgtable_for_cpu(dev, sgt, dir);
	else
		dma_sync_sgtable_for_device(dev, sgt, dir);
}

static void openreg_system_access(struct dma_buf *dma_buf, bool begin)
{
	struct openreg_bo *bo = to_openreg_bo(dma_buf->priv);
	struct dma_buf_attachment *attach;

	/* Not mapped any more once the card is removed. */
	scoped_guard(mutex, &bo->lock)
		if (bo->mem.mapped)
			openreg_sync(bo->base.dev->dev, &bo->mem.sgt,
				     bo->mem.dir, begin);

	dma_resv_lock(dma_buf->resv, NULL);
	list_for_each_entry(attach, &dma_buf->attachments, node) {
		struct openreg_mapping *mapping = attach->priv;

		if (mapping)
			openreg_sync(attach->dev, &mapping->sgt, mapping->dir,
				     begin);
	}
	dma_resv_unlock(dma_buf->resv);
}

static int openreg_system_begin(struct dma_buf *dma_buf,
				enum dma_data_direction dir)
{
	openreg_system_access(dma_buf, true);
	return 0;
}

static int openreg_system_end(struct dma_buf *dma_buf,
			      enum dma_data_direction dir)
{
	openreg_system_access(dma_buf, false);
	return 0;
}

static const struct dma_buf_ops openreg_system_dma_buf_ops = {
	.pin = openreg_export_pin,
	.unpin = openreg_export_unpin,
	.map_dma_buf = openreg_system_map,
	.unmap_dma_buf = openreg_system_unmap,
	.begin_cpu_access = openreg_system_begin,
	.end_cpu_access = openreg_system_end,
	.mmap = drm_gem_dmabuf_mmap,
	.release = drm_gem_dmabuf_release,
};

static int openreg_vram_attach(struct dma_buf *dma_buf,
			       struct dma_buf_attachment *attach)
{
	if (!attach->peer2peer || !attach->importer_ops->invalidate_mappings)
		return -EOPNOTSUPP;
	return 0;
}

static int openreg_vram_fill_table(struct sg_table *sgt, dma_addr_t addr,
				   size_t size)
{
	struct scatterlist *sg;
	int i, ret;

	ret = sg_alloc_table(sgt, DIV_ROUND_UP(size, OPENREG_SG_MAX),
			     GFP_KERNEL);
	if (ret)
		return ret;
	for_each_sgtable_sg(sgt, sg, i) {
		size_t len = min_t(size_t, size, OPENREG_SG_MAX);

		sg_set_page(sg, NULL, len, 0);
		sg_dma_address(sg) = addr;
		sg_dma_len(sg) = len;
		addr += len;
		size -= len;
	}
	return 0;
}

/*
 * Does not ask pci_p2pdma_distance(), which does not know that QEMU's root complex
 * forwards requests from one device to another.
 */
static struct sg_table *openreg_vram_map_for(struct dma_buf_attachment *attach,
					     enum dma_data_direction dir)
{
	struct openreg_bo *bo = to_openreg_bo(attach->dmabuf->priv);
	struct openreg_device *odev = to_openreg(bo->base.dev);
	struct openreg_mapping *mapping = openreg_mapping_new(attach, dir);
	dma_addr_t addr;
	int ret;

	if (IS_ERR(mapping))
		return ERR_CAST(mapping);
	addr = dma_map_resource(attach->dev, odev->vram_base + bo->vram.offset,
				bo->base.size, dir, 0);
	ret = dma_mapping_error(attach->dev, addr);
	if (ret)
		goto out_free;
	ret = openreg_vram_fill_table(&mapping->sgt, addr, bo->base.size);
	if (ret)
		goto out_unmap;
	atomic_inc(&odev->vram.maps);
	return &mapping->sgt;

out_unmap:
	dma_unmap_resource(attach->dev, addr, bo->base.size, dir, 0);
out_free:
	kfree(mapping);
	return ERR_PTR(ret);
}

static struct sg_table *openreg_vram_map(struct dma_buf_attachment *attach,
					 enum dma_data_direction dir)
{
	struct drm_gem_object *obj = attach->dmabuf->priv;
	struct sg_table *sgt;
	int idx;

	if (!drm_dev_enter(obj->dev, &idx))
		return ERR_PTR(-ENODEV);
	sgt = openreg_vram_map_for(attach, dir);
	drm_dev_exit(idx);
	return sgt;
}

static void openreg_vram_unmap(struct dma_buf_attachment *attach,
			       struct sg_table *sgt,
			       enum dma_data_direction dir)
{
	struct openreg_bo *bo = to_openreg_bo(attach->dmabuf->priv);
	struct openreg_vram *vram = &to_openreg(bo->base.dev)->vram;

	dma_unmap_resource(attach->dev, sg_dma_address(sgt->sgl),
			   bo->base.size, dir, 0);
	sg_free_table(sgt);
	kfree(container_of(sgt, struct openreg_mapping, sgt));
	if (atomic_dec_and_test(&vram->maps))
		wake_up_all(&vram->unmapped);
}

static void openreg_vram_dma_buf_release(struct dma_buf *dma_buf)
{
	struct openreg_bo *bo = to_openreg_bo(dma_buf->priv);

	dma_resv_lock(dma_buf->resv, NULL);
	bo->vram.dma_buf = NULL;
	dma_resv_unlock(dma_buf->resv);
	drm_gem_dmabuf_release(dma_buf);
}

static const struct dma_buf_ops openreg_vram_dma_buf_ops = {
	.attach = openreg_vram_attach,
	.pin = openreg_export_pin,
	.unpin = openreg_export_unpin,
	.map_dma_buf = openreg_vram_map,
	.unmap_dma_buf = openreg_vram_unmap,
	.mmap = drm_gem_dmabuf_mmap,
	.release = openreg_vram_dma_buf_release,
};

bool openreg_prime_is_vram(const struct dma_buf *dma_buf)
{
	return dma_buf->ops == &openreg_vram_dma_buf_ops;
}

/* DRM calls this once for each object while it has a handle. */
struct dma_buf *openreg_bo_export(struct drm_gem_object *obj, int flags)
{
	struct openreg_bo *bo = to_openreg_bo(obj);
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dma_buf;

	if (bo->flags == DRM_OPENREG_BO_VRAM)
		info.ops = &openreg_vram_dma_buf_ops;
	else if (bo->flags == DRM_OPENREG_BO_SYSTEM)
		info.ops = &openreg_system_dma_buf_ops;
	else
		return ERR_PTR(-EOPNOTSUPP);
	info.size = obj->size;
	info.flags = flags;
	info.priv = obj;
	info.resv = obj->resv;
	if (openreg_bo_owns_vram(bo))
		openreg_vram_expose(bo);
	dma_buf = drm_gem_dmabuf_export(obj->dev, &info);
	if (!IS_ERR(dma_buf) && openreg_prime_is_vram(dma_buf))
		bo->vram.dma_buf = dma_buf;
	return dma_buf;
}

/*
 * A second export returns the dma-buf of the first, whatever flags it has. So refuse an
 * export with another access mode than the first.
 */
int openreg_prime_handle_to_fd(struct drm_device *drm, struct drm_file *filp,
			       u32 handle, u32 flags, int *fd)
{
	struct dma_buf *dma_buf;
	int idx, ret;

	ret = openreg_enter(to_openreg(drm), &idx);
	if (ret)
		return ret;
	dma_buf = drm_gem_prime_handle_to_dmabuf(drm, filp, handle, flags);
	drm_dev_exit(idx);
	if (IS_ERR(dma_buf))
		return PTR_ERR(dma_buf);

	ret = -EACCES;
	if (openreg_dma_buf_is_readonly(dma_buf) == !(flags & DRM_RDWR))
		ret = dma_buf_fd(dma_buf, flags & DRM_CLOEXEC);
	if (ret < 0) {
		dma_buf_put(dma_buf);
		return ret;
	}
	*fd = ret;
	return 0;
}

int openreg_prime_fd_to_handle(struct drm_device *drm, struct drm_file *filp,
			       int fd, u32 *handle)
{
	unsigned long deadline = jiffies + OPENREG_MEMORY_TIMEOUT;
	struct openreg_file *file = filp->driver_priv;
	int done, idx, ret;

	ret = openreg_enter(file->odev, &idx);
	if (ret)
		return ret;
	do {
		done = openreg_reclaim_done(file->odev);
		ret = openreg_ctx_check(file) ?:
		      drm_gem_prime_fd_to_handle(drm, filp, fd, handle);
	} while (openreg_reclaim_wait(file->odev, ret, done, deadline));
	drm_dev_exit(idx);
	return ret;
}

/* Revokes all mappings of VRAM. Returns when no other device can reach it any more. */
void openreg_prime_revoke(struct openreg_device *odev)
{
	struct openreg_vram *vram = &odev->vram;
	struct openreg_bo *bo;

	scoped_guard(mutex, &odev->bos_lock) {
		list_for_each_entry(bo, &odev->bos, link) {
			if (bo->flags != DRM_OPENREG_BO_VRAM)
				continue;
			dma_resv_lock(bo->base.resv, NULL);
			if (bo->vram.dma_buf)
				dma_buf_invalidate_mappings(bo->vram.dma_buf);
			dma_resv_unlock(bo->base.resv);
		}
	}
	/*
	 * Another card drops its mapping only while it is not suspended, and a suspend
	 * waits for this removal. So abort any suspend until all mappings are dropped.
	 */
	while (atomic_read(&vram->maps)) {
		pm_system_wakeup();
		wait_event_timeout(vram->unmapped, !atomic_read(&vram->maps),
				   HZ / 10);
	}
}

/* Not MODULE_IMPORT_NS(): its argument has quotes in some kernels and not in others. */
MODULE_INFO(import_ns, "DMA_BUF");
