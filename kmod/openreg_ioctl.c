// SPDX-License-Identifier: GPL-2.0-only
/* The ioctls: check the arguments, then call the function that does the work. */

#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>

#include "extra/openreg_extra.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

static void openreg_query_memory(struct openreg_file *file,
				 struct drm_openreg_memory_info *info)
{
	openreg_vram_query(file->odev, info);
	info->process_vram = atomic64_read(&file->memory[OPENREG_REGION_VRAM]);
	info->process_system = atomic64_read(&file->memory[OPENREG_REGION_SYSTEM]);
	info->process_pinned = atomic64_read(&file->memory[OPENREG_REGION_USER]);
}

union openreg_query_result {
	struct drm_openreg_device_info device;
	struct drm_openreg_memory_info memory;
};

/* Returns the size of the result, 0 for an unknown type. */
static u32 openreg_query(struct openreg_file *file, u32 type,
			 union openreg_query_result *result)
{
	switch (type) {
	case DRM_OPENREG_QUERY_DEVICE:
		result->device = file->odev->info;
		return sizeof(result->device);
	case DRM_OPENREG_QUERY_MEMORY:
		openreg_query_memory(file, &result->memory);
		return sizeof(result->memory);
	default:
		return 0;
	}
}

static int openreg_bo_try_create(struct openreg_file *file,
				 struct drm_file *filp,
				 struct drm_openreg_bo_create *args)
{
	struct openreg_bo *bo;
	int ret;

	ret = openreg_ctx_check(file);
	if (ret)
		return ret;
	if (args->flags == DRM_OPENREG_BO_VRAM)
		bo = openreg_vram_bo_new(file->odev, args->size);
	else
		bo = openreg_system_bo_new(file->odev, args->size);
	if (IS_ERR(bo))
		return PTR_ERR(bo);

	ret = drm_gem_create_mmap_offset(&bo->base);
	if (!ret)
		ret = drm_gem_handle_create(filp, &bo->base, &args->handle);
	if (!ret) {
		args->address = bo->address;
		args->mmap_offset =
			drm_vma_node_offset_addr(&bo->base.vma_node);
	}
	openreg_bo_put(bo);
	return ret;
}

static int openreg_bo_create(struct openreg_file *file, struct drm_file *filp,
			     struct drm_openreg_bo_create *args)
{
	unsigned long deadline = jiffies + OPENREG_MEMORY_TIMEOUT;
	int done, ret;

	if (!args->size || args->size > file->odev->info.max_bo_size)
		return -EINVAL;
	if (args->flags != DRM_OPENREG_BO_VRAM &&
	    args->flags != DRM_OPENREG_BO_SYSTEM)
		return -EINVAL;

	args->size = PAGE_ALIGN(args->size);
	do {
		done = openreg_reclaim_done(file->odev);
		ret = openreg_bo_try_create(file, filp, args);
	} while (openreg_reclaim_wait(file->odev, ret, done, deadline));
	return ret;
}

static int openreg_bo_info(struct openreg_file *file, struct drm_file *filp,
			   struct drm_openreg_bo_info *args)
{
	struct drm_gem_object *obj = drm_gem_object_lookup(filp, args->handle);
	struct openreg_bo *bo;

	if (!obj)
		return -ENOENT;
	bo = to_openreg_bo(obj);
	args->flags = bo->flags;
	args->size = bo->length;
	args->address = bo->address;
	args->mmap_offset = bo->ops->pfn || bo->ops->mmap ?
		drm_vma_node_offset_addr(&obj->vma_node) : 0;
	drm_gem_object_put(obj);
	return 0;
}

static bool openreg_mem_register_valid(struct openreg_file *file,
				       const struct drm_openreg_mem_register *args)
{
	u64 end;

	return !(args->flags & ~DRM_OPENREG_BO_READONLY) && args->size &&
	       args->size <= file->odev->info.max_bo_size - PAGE_SIZE &&
	       !check_add_overflow(args->user_address, args->size, &end) &&
	       end <= TASK_SIZE_MAX;
}

static int openreg_do_queue_destroy(struct openreg_file *file,
				    struct drm_file *filp,
				    struct drm_openreg_queue_destroy *args)
{
	if (args->pad)
		return -EINVAL;
	return openreg_queue_destroy(file, filp, args->queue);
}

static int openreg_do_queue_reset(struct openreg_file *file,
				  struct drm_file *filp,
				  struct drm_openreg_queue_reset *args)
{
	struct openreg_queue *queue;
	int ret;

	if (args->flags)
		return -EINVAL;
	queue = openreg_queue_lookup(file, args->queue);
	if (!queue)
		return -ENOENT;
	ret = openreg_queue_reset(queue, args->head, args->seq);
	openreg_queue_put(queue);
	return ret;
}

static int openreg_timestamp(struct openreg_file *file, struct drm_file *filp,
			     struct drm_openreg_timestamp *args)
{
	struct openreg_device *odev = file->odev;

	if (args->flags || args->pad)
		return -EINVAL;

	/* The clock cannot be read during a reset. */
	if (!down_read_trylock(&odev->map_lock))
		return -EIO;
	preempt_disable();
	args->cpu_before = ktime_get_ns();
	args->card = openreg_read64(odev, OPENREG_REG_CLOCK);
	args->cpu_after = ktime_get_ns();
	preempt_enable();
	up_read(&odev->map_lock);
	/* All ones: the card is gone. */
	return lower_32_bits(args->card) == U32_MAX &&
	       upper_32_bits(args->card) == U32_MAX ? -EIO : 0;
}

#define OPENREG_IOCTL_GUARDED(name, func, type)				\
static int openreg_ioctl_##name(struct drm_device *drm, void *data,	\
				struct drm_file *filp)			\
{									\
	struct type *args = data;					\
	int idx, ret;						\
									\
	ret = openreg_enter(to_openreg(drm), &idx);			\
	if (ret)							\
		return ret;						\
	ret = func(filp->driver_priv, filp, args);			\
	drm_dev_exit(idx);						\
	return ret;							\
}

OPENREG_IOCTL_GUARDED(bo_create, openreg_bo_create, drm_openreg_bo_create)
OPENREG_IOCTL_GUARDED(bo_info, openreg_bo_info, drm_openreg_bo_info)
OPENREG_IOCTL_GUARDED(queue_create, openreg_queue_create,
		      drm_openreg_queue_create)
OPENREG_IOCTL_GUARDED(queue_destroy, openreg_do_queue_destroy,
		      drm_openreg_queue_destroy)
OPENREG_IOCTL_GUARDED(queue_reset, openreg_do_queue_reset,
		      drm_openreg_queue_reset)
OPENREG_IOCTL_GUARDED(timestamp, openreg_timestamp, drm_openreg_timestamp)

static int openreg_ioctl_query(struct drm_device *drm, void *data,
			       struct drm_file *filp)
{
	struct drm_openreg_query *args = data;
	union openreg_query_result result = {};
	u32 known, wanted = args->size;
	int idx, ret;

	ret = openreg_enter(to_openreg(drm), &idx);
	if (ret)
		return ret;
	known = openreg_query(filp->driver_priv, args->type, &result);
	drm_dev_exit(idx);
	if (!known)
		return -EINVAL;

	args->size = known;
	if (!args->pointer)
		return 0;
	return copy_to_user(u64_to_user_ptr(args->pointer), &result,
			    min(known, wanted)) ? -EFAULT : 0;
}

static int openreg_mem_try_register(struct openreg_device *odev,
				    struct drm_file *filp,
				    struct drm_openreg_mem_register *args)
{
	struct openreg_bo *bo;
	int idx, ret;

	ret = READ_ONCE(odev->wedged) ?: openreg_ctx_check(filp->driver_priv);
	if (ret)
		return ret;
	bo = openreg_user_bo_new(odev, args->user_address, args->size,
				 args->flags & DRM_OPENREG_BO_READONLY);
	if (IS_ERR(bo))
		return PTR_ERR(bo);

	ret = openreg_enter(odev, &idx);
	if (!ret) {
		ret = openreg_pages_map(bo);
		if (!ret)
			ret = drm_gem_handle_create(filp, &bo->base,
						    &args->handle);
		drm_dev_exit(idx);
	}
	if (!ret)
		args->address = bo->address;
	openreg_bo_put(bo);
	return ret;
}

static int openreg_ioctl_mem_register(struct drm_device *drm, void *data,
				      struct drm_file *filp)
{
	unsigned long deadline = jiffies + OPENREG_MEMORY_TIMEOUT;
	struct openreg_file *file = filp->driver_priv;
	struct drm_openreg_mem_register *args = data;
	int done, ret;

	if (!openreg_mem_register_valid(file, args))
		return -EINVAL;
	do {
		done = openreg_reclaim_done(file->odev);
		ret = openreg_mem_try_register(to_openreg(drm), filp, args);
	} while (openreg_reclaim_wait(file->odev, ret, done, deadline));
	return ret;
}

/* Sleeps, so it must not call openreg_enter(). Removal wakes it through the queue. */
static int openreg_ioctl_queue_wait(struct drm_device *drm, void *data,
				    struct drm_file *filp)
{
	struct drm_openreg_queue_wait *args = data;
	struct openreg_queue *queue;
	int ret;

	if (args->flags)
		return -EINVAL;
	queue = openreg_queue_lookup(filp->driver_priv, args->queue);
	if (!queue)
		return -ENOENT;
	ret = openreg_queue_wait(queue, args->seq, args->timeout_ns,
				 &args->completed);
	openreg_queue_put(queue);
	return ret;
}

static int openreg_ioctl_queue_signal(struct drm_device *drm, void *data,
				      struct drm_file *filp)
{
	struct drm_openreg_queue_signal *args = data;
	struct openreg_queue *queue;
	int ret;

	if (args->flags || args->pad || !args->seq)
		return -EINVAL;
	queue = openreg_queue_lookup(filp->driver_priv, args->queue);
	if (!queue)
		return -ENOENT;
	ret = openreg_queue_signal(queue, filp, args);
	openreg_queue_put(queue);
	return ret;
}

const struct drm_ioctl_desc openreg_ioctls[OPENREG_NUM_IOCTLS] = {
	DRM_IOCTL_DEF_DRV(OPENREG_QUERY, openreg_ioctl_query, 0),
	DRM_IOCTL_DEF_DRV(OPENREG_BO_CREATE, openreg_ioctl_bo_create, 0),
	DRM_IOCTL_DEF_DRV(OPENREG_BO_INFO, openreg_ioctl_bo_info, 0),
	DRM_IOCTL_DEF_DRV(OPENREG_MEM_REGISTER, openreg_ioctl_mem_register, 0),
	DRM_IOCTL_DEF_DRV(OPENREG_QUEUE_CREATE, openreg_ioctl_queue_create, 0),
	DRM_IOCTL_DEF_DRV(OPENREG_QUEUE_DESTROY, openreg_ioctl_queue_destroy,
			  0),
	DRM_IOCTL_DEF_DRV(OPENREG_QUEUE_WAIT, openreg_ioctl_queue_wait, 0),
	DRM_IOCTL_DEF_DRV(OPENREG_QUEUE_RESET, openreg_ioctl_queue_reset, 0),
	DRM_IOCTL_DEF_DRV(OPENREG_TIMESTAMP, openreg_ioctl_timestamp, 0),
	DRM_IOCTL_DEF_DRV(OPENREG_QUEUE_SIGNAL, openreg_ioctl_queue_signal, 0),
};

/*
 * Refuses GET_UNIQUE and GET_MAGIC. In DRM (as of 7.2) they dereference file->master,
 * which is NULL for files of an accel node. DRM looks only at the number of an ioctl, not
 * at its type, so refuse the numbers in any type. A render node returns the same EACCES.
 */
static int openreg_ioctl_check(unsigned int cmd)
{
	if (_IOC_NR(cmd) != _IOC_NR(DRM_IOCTL_GET_UNIQUE) &&
	    _IOC_NR(cmd) != _IOC_NR(DRM_IOCTL_GET_MAGIC))
		return 0;
	return _IOC_TYPE(cmd) == DRM_IOCTL_BASE ? -EACCES : -ENOTTY;
}

long openreg_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return openreg_ioctl_check(cmd) ?: drm_ioctl(filp, cmd, arg);
}

#ifdef CONFIG_COMPAT
long openreg_compat_ioctl(struct file *filp, unsigned int cmd,
			  unsigned long arg)
{
	return openreg_ioctl_check(cmd) ?: drm_compat_ioctl(filp, cmd, arg);
}
#endif
