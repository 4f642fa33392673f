// SPDX-License-Identifier: GPL-2.0-only
/* Buffer objects: the code that all kinds share. */

#include <drm/drm_drv.h>
#include <drm/drm_print.h>

#include "openreg_compat.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"

int openreg_bo_open(struct drm_gem_object *obj, struct drm_file *filp)
{
	struct openreg_file *file = filp->driver_priv;
	struct openreg_bo *bo = to_openreg_bo(obj);
	struct openreg_ctx *ctx;
	int ret;

	ctx = openreg_ctx_get(file);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	/* An object has one handle in one file. */
	if (cmpxchg(&bo->ctx, NULL, ctx))
		return -EOPNOTSUPP;
	ret = bo->ops->open ? bo->ops->open(bo) : 0;
	if (ret)
		return ret;
	ret = openreg_ctx_bind(ctx, bo);
	if (ret)
		return ret;
	if (bo->ops->bound)
		bo->ops->bound(bo);
	atomic64_add(obj->size, &file->memory[openreg_bo_region(bo)]);
	return 0;
}

void openreg_bo_close(struct drm_gem_object *obj, struct drm_file *filp)
{
	struct openreg_file *file = filp->driver_priv;
	struct openreg_bo *bo = to_openreg_bo(obj);

	atomic64_sub(obj->size, &file->memory[openreg_bo_region(bo)]);
	openreg_ctx_unbind(bo);
}

void openreg_bo_gem_free(struct drm_gem_object *obj)
{
	struct openreg_device *odev = to_openreg(obj->dev);
	struct openreg_bo *bo = to_openreg_bo(obj);

	/*
	 * Detach while the object is on the list, so that remove() cannot miss it. Do not
	 * hold bos_lock: detaching can take long, and exporters take locks of their own.
	 */
	if (bo->ops->detach) {
		guard(mutex)(&bo->lock);
		bo->ops->detach(bo);
	}
	scoped_guard(mutex, &odev->bos_lock)
		list_del(&bo->link);
	if (bo->dummy)
		__free_page(bo->dummy);
	drm_gem_object_release(obj);
	bo->ops->release(bo);
}

/**
 * openreg_bo_new() - an object without memory
 * @odev: the card
 * @size: bytes, whole pages
 * @ops: the kind of object
 *
 * Returns: the object. The caller must fill in what @ops->release() uses before it calls
 * openreg_bo_put().
 */
struct openreg_bo *openreg_bo_new(struct openreg_device *odev, u64 size,
				  const struct openreg_bo_ops *ops)
{
	struct openreg_bo *bo = kzalloc_obj(*bo);

	if (!bo)
		return ERR_PTR(-ENOMEM);

	bo->ops = ops;
	bo->length = size;
	bo->base.funcs = odev->upcalls->bo_funcs;
	mutex_init(&bo->lock);
	drm_gem_private_object_init(&odev->drm, &bo->base, size);
	drm_dev_get(&odev->drm);
	scoped_guard(mutex, &odev->bos_lock)
		list_add_tail(&bo->link, &odev->bos);
	return bo;
}

/* Every release() ends with this. */
void openreg_bo_free(struct openreg_bo *bo)
{
	struct drm_device *drm = bo->base.dev;
	bool reclaim = bo->reclaim;

	openreg_bo_uncharge(bo);
	mutex_destroy(&bo->lock);
	kfree(bo);
	if (reclaim)
		openreg_reclaim_end(to_openreg(drm));
	drm_dev_put(drm);
}

void openreg_bo_put(struct openreg_bo *bo)
{
	drm_gem_object_put(&bo->base);
}

/* The card is being removed: after this no object refers to its struct device. */
void openreg_bo_detach_all(struct openreg_device *odev)
{
	struct openreg_bo *bo;

	guard(mutex)(&odev->bos_lock);
	list_for_each_entry(bo, &odev->bos, link) {
		guard(mutex)(&bo->lock);
		bo->gone = !bo->ops->survives;
		if (bo->ops->detach)
			bo->ops->detach(bo);
	}
}
