// SPDX-License-Identifier: MIT
/* Export and import of memory as file descriptors. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "internal.h"

static int fail_export(const struct openreg_bo *bo, uint32_t flags, int error)
{
	const char *why = openreg_card_strerror(error);

	if (error == -EINVAL)
		why = "flags must be 0 or OPENREG_BO_READONLY";
	else if (error == -EOPNOTSUPP)
		why = "registered memory cannot be exported: use memory of openreg_bo_alloc()";
	else if (error == -EACCES)
		why = "it was exported before with other flags: all exports of a buffer are for reading and writing, or all are for reading only";
	else if (error == -EMFILE || error == -ENFILE)
		why = "too many open files: raise the limit (ulimit -n) or close some; a card inside the process needs half of the limit for its objects";
	return openreg_fail(error,
			    "cannot export %" PRIu64 " bytes of %s with flags %#x: %s",
			    bo->t.size, bo->dev->info.path, flags, why);
}

/*
 * Puts a BO into the device's list. The kernel returns the same handle when this device
 * imports the dma-buf, and openreg_bo_import() must then find the BO.
 */
static void share(struct openreg_bo *bo)
{
	if (bo->shared)
		return;
	bo->shared = true;
	bo->refs = 1;
	bo->next = bo->dev->shared;
	bo->dev->shared = bo;
}

API int openreg_bo_export(struct openreg_bo *bo, uint32_t flags)
{
	struct openreg_device *dev = bo->dev;
	int ret, fd = -1;

	if (!*dev->mine)
		return openreg_fail_forked();
	if (flags & ~OPENREG_BO_READONLY)
		return fail_export(bo, flags, -EINVAL);
	pthread_mutex_lock(&dev->shared_lock);
	ret = dev->ops->bo_export(dev->t, bo->t.handle,
				  flags & OPENREG_BO_READONLY, &fd);
	if (!ret)
		share(bo);
	pthread_mutex_unlock(&dev->shared_lock);
	return ret ? fail_export(bo, flags, ret) : fd;
}

static int fail_import(struct openreg_device *dev, int fd, int error)
{
	const char *why = openreg_card_strerror(error);

	if (error == -EBADF || error == -EINVAL)
		why = dev->ops->not_shared;
	else if (error == -EOPNOTSUPP)
		why = "this card cannot reach its memory: export system memory instead";
	else if (error == -EACCES)
		why = "its exporter refuses access to this card";
	return openreg_fail(error, "cannot import file descriptor %d on %s: %s",
			    fd, dev->info.path, why);
}

static struct openreg_bo *find(struct openreg_device *dev, uint32_t handle)
{
	struct openreg_bo *bo = dev->shared;

	while (bo && bo->t.handle != handle)
		bo = bo->next;
	return bo;
}

/* Makes a BO for a handle that is not in the list. */
static int import_new(struct openreg_device *dev, uint32_t handle,
		      struct openreg_bo **out)
{
	struct openreg_bo *bo = openreg_bo_new(dev, OPENREG_BO_IMPORTED);
	int ret = bo ? 0 : -ENOMEM;

	if (!ret) {
		bo->t.handle = handle;
		ret = dev->ops->bo_info(dev->t, &bo->t, &bo->flags);
	}
	if (ret) {
		dev->ops->bo_close(dev->t, handle);
		openreg_bo_delete(bo);
		return ret;
	}
	share(bo);
	*out = bo;
	return 0;
}

API int openreg_bo_import(struct openreg_device *dev, int fd,
			  struct openreg_bo **out)
{
	struct openreg_bo *bo;
	uint32_t handle;
	int ret;

	*out = NULL;
	if (!*dev->mine)
		return openreg_fail_forked();
	/* The kernel returns the same handle for each import of the same dma-buf. */
	pthread_mutex_lock(&dev->shared_lock);
	ret = dev->ops->bo_import(dev->t, fd, &handle);
	bo = ret ? NULL : find(dev, handle);
	if (bo) {
		bo->refs++;
		*out = bo;
	} else if (!ret) {
		ret = import_new(dev, handle, out);
	}
	pthread_mutex_unlock(&dev->shared_lock);
	return ret ? fail_import(dev, fd, ret) : 0;
}

static bool drop(struct openreg_bo *bo)
{
	struct openreg_bo **at = &bo->dev->shared;

	if (--bo->refs)
		return false;
	while (*at != bo)
		at = &(*at)->next;
	*at = bo->next;
	return true;
}

bool openreg_bo_unshare(struct openreg_bo *bo)
{
	struct openreg_device *dev = bo->dev;
	bool last;

	/*
	 * A child of fork() has no other thread, and cannot take the lock: a thread
	 * of the parent may have held it at fork().
	 */
	if (!*dev->mine)
		return drop(bo);
	pthread_mutex_lock(&dev->shared_lock);
	last = drop(bo);
	if (last) {
		openreg_bo_unmap(bo);
		/*
		 * Close the handle under the lock: an import meanwhile could
		 * return this handle after it left the list.
		 */
		dev->ops->bo_close(dev->t, bo->t.handle);
	}
	pthread_mutex_unlock(&dev->shared_lock);
	return last;
}
