// SPDX-License-Identifier: MIT
/* Memory that goes from one open device, process or driver to another. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "internal.h"

static int fail_in_process(const struct openreg_device *dev)
{
	return openreg_fail(-EOPNOTSUPP,
			    "%s is inside this process and shares no memory with anything else: use the kernel's cards (" OPENREG_ENV_TRANSPORT
			    " not set)",
			    dev->info.path);
}

static int fail_export(const struct openreg_bo *bo, uint32_t flags, int error)
{
	const char *why = openreg_card_strerror(error);

	if (error == -EINVAL)
		why = "flags are 0 or OPENREG_BO_READONLY";
	else if (error == -EOPNOTSUPP)
		why = "registered memory is the process's own: export what openreg_bo_alloc() gave";
	else if (error == -EACCES)
		why = "it was exported before, and all its file descriptors are for reading and writing, or all for reading: ask for the same again";
	else if (error == -EMFILE || error == -ENFILE)
		why = strerror(-error);
	return openreg_fail(error,
			    "cannot export %" PRIu64 " bytes of %s with flags %#x: %s",
			    bo->t.size, bo->dev->info.path, flags, why);
}

/* Its handle is in the list for as long as anybody could import it. */
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
	if (!dev->ops->bo_export)
		return fail_in_process(dev);
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
		why = "it is not a dma-buf in whole pages";
	else if (error == -EOPNOTSUPP)
		why = "its memory cannot be reached by this card: export memory of the host";
	else if (error == -EACCES)
		why = "its exporter does not let this card have it";
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

/* A handle that nothing in the list has. */
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
	if (!dev->ops->bo_import)
		return fail_in_process(dev);
	/* The kernel gives a handle again that it has given before. */
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

	/* In a child nobody else is there, and the lock may be held for ever. */
	if (!*dev->mine)
		return drop(bo);
	pthread_mutex_lock(&dev->shared_lock);
	last = drop(bo);
	if (last) {
		openreg_bo_unmap(bo);
		/* Nobody must find the handle while it goes. */
		dev->ops->bo_close(dev->t, bo->t.handle);
	}
	pthread_mutex_unlock(&dev->shared_lock);
	return last;
}
