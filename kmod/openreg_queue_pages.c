// SPDX-License-Identifier: GPL-2.0-only
/* Objects for the memory of queues: rings, the pages beside them, doorbells. */

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

static unsigned long openreg_coherent_pfn(struct openreg_bo *bo, pgoff_t page)
{
	void *cpu = bo->coherent.cpu + (page << PAGE_SHIFT);

	/* With an IOMMU the pages may be scattered. */
	return is_vmalloc_addr(cpu) ? vmalloc_to_pfn(cpu) :
				      PHYS_PFN(virt_to_phys(cpu));
}

static void openreg_coherent_detach(struct openreg_bo *bo)
{
	if (bo->coherent.cpu)
		dma_free_coherent(bo->base.dev->dev, bo->base.size,
				  bo->coherent.cpu, bo->coherent.dma);
	bo->coherent.cpu = NULL;
}

const struct openreg_bo_ops openreg_ring_ops = {
	.pfn = openreg_coherent_pfn,
	.detach = openreg_coherent_detach,
	.release = openreg_bo_free,
};

const struct openreg_bo_ops openreg_card_page_ops = {
	.pfn = openreg_coherent_pfn,
	.detach = openreg_coherent_detach,
	.release = openreg_bo_free,
	.readonly = true,
};

const struct openreg_bo_ops openreg_kernel_page_ops = {
	.detach = openreg_coherent_detach,
	.release = openreg_bo_free,
};

struct openreg_bo *openreg_coherent_new(struct openreg_device *odev, u64 size,
					const struct openreg_bo_ops *ops)
{
	struct openreg_bo *bo = openreg_bo_new(odev, size, ops);
	int ret;

	if (IS_ERR(bo))
		return bo;
	/* Charge the memory: a mapping keeps it after the queue is destroyed. */
	ret = openreg_bo_charge(bo);
	if (ret)
		goto out_put;
	bo->coherent.cpu = dma_alloc_coherent(odev->drm.dev, size,
					      &bo->coherent.dma,
					      GFP_KERNEL_ACCOUNT |
					      __GFP_NOWARN);
	if (!bo->coherent.cpu)
		ret = -ENOMEM;
	else if (ops->pfn)
		ret = drm_gem_create_mmap_offset(&bo->base);
	if (!ret)
		return bo;
out_put:
	openreg_bo_put(bo);
	return ERR_PTR(ret);
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
