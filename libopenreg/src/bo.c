// SPDX-License-Identifier: MIT
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct openreg_bo *openreg_bo_new(struct openreg_device *dev, uint32_t flags)
{
	struct openreg_bo *bo = calloc(1, sizeof(*bo));

	if (!bo)
		return NULL;
	bo->dev = dev;
	bo->flags = flags;
	pthread_mutex_init(&bo->lock, NULL);
	return bo;
}

void openreg_bo_delete(struct openreg_bo *bo)
{
	if (!bo)
		return;
	pthread_mutex_destroy(&bo->lock);
	free(bo);
}

static int fail_alloc(struct openreg_device *dev, uint64_t size,
		      uint32_t flags, int error)
{
	struct openreg_memory_info m;

	switch (error) {
	case -ENOSPC:
		if (!(flags & OPENREG_BO_VRAM) ||
		    openreg_device_get_memory(dev, &m) ||
		    m.vram_largest >= size)
			return openreg_fail(error,
					    "no free segment or context on %s: free buffer objects (one open device can have %u) or close other open devices",
					    dev->info.path,
					    dev->info.max_segments);
		return openreg_fail(error,
				    "no VRAM for %" PRIu64 " bytes on %s: %" PRIu64 " of %" PRIu64 " free, largest block %" PRIu64 "; free memory or %s",
				    size, dev->info.path, m.vram_free,
				    m.vram_total, m.vram_largest, dev->ops->more_vram);
	case -EINVAL:
		return openreg_fail(error,
				    "cannot allocate %" PRIu64 " bytes with flags %#x on %s: size must be 1 to %" PRIu64 ", flags OPENREG_BO_VRAM or OPENREG_BO_SYSTEM",
				    size, flags, dev->info.path,
				    dev->info.max_bo_size);
	case -ENOMEM:
		if (flags & OPENREG_BO_SYSTEM)
			return openreg_fail(error,
					    "no memory for %" PRIu64 " bytes: OPENREG_BO_SYSTEM objects of all processes together may take half of the machine's memory; free some, or %s",
					    size, dev->ops->more_system);
		/* fall through */
	default:
		return openreg_fail(error,
				    "cannot allocate %" PRIu64 " bytes on %s: %s",
				    size, dev->info.path,
				    openreg_card_strerror(error));
	}
}

API int openreg_bo_alloc(struct openreg_device *dev, uint64_t size,
			 uint32_t flags, struct openreg_bo **out)
{
	struct openreg_bo *bo;
	int ret;

	*out = NULL;
	if (!*dev->mine)
		return openreg_fail_forked();
	bo = openreg_bo_new(dev, flags);
	if (!bo)
		return openreg_fail(-ENOMEM, "out of memory");
	ret = dev->ops->bo_create(dev->t, size, flags, &bo->t);
	if (ret) {
		openreg_bo_delete(bo);
		return fail_alloc(dev, size, flags, ret);
	}
	*out = bo;
	return 0;
}

static int fail_register(struct openreg_device *dev, void *ptr, uint64_t size,
			 uint32_t flags, int error)
{
	static const char *const why[] = {
		"no free segment, or over the limit of pinned memory: register less or raise RLIMIT_MEMLOCK (ulimit -l)",
		"only private memory of the process can be registered, not shared mappings or device memory",
		"the range is not mapped, or not writable although the card may write to it",
		"size must not be 0, flags must be 0 or OPENREG_BO_READONLY",
	};
	const char *text = openreg_card_strerror(error);

	if (error == -ENOMEM || error == -ENOSPC)
		text = why[0];
	else if (error == -EOPNOTSUPP)
		text = why[1];
	else if (error == -EFAULT)
		text = why[2];
	else if (error == -EINVAL)
		text = why[3];
	return openreg_fail(error,
			    "cannot register %" PRIu64 " bytes at %p with flags %#x on %s: %s",
			    size, ptr, flags, dev->info.path, text);
}

int openreg_bo_try_register(struct openreg_device *dev, void *ptr,
			    uint64_t size, uint32_t flags,
			    struct openreg_bo **out)
{
	struct openreg_bo *bo = openreg_bo_new(dev, flags);
	int ret;

	*out = NULL;
	if (!bo)
		return -ENOMEM;
	ret = dev->ops->mem_register(dev->t, ptr, size, flags, &bo->t);
	if (ret) {
		openreg_bo_delete(bo);
		return ret;
	}
	bo->ptr = ptr;
	*out = bo;
	return 0;
}

API int openreg_mem_register(struct openreg_device *dev, void *ptr,
			     uint64_t size, uint32_t flags,
			     struct openreg_bo **out)
{
	int ret;

	*out = NULL;
	if (!*dev->mine)
		return openreg_fail_forked();
	ret = openreg_bo_try_register(dev, ptr, size, flags, out);
	return ret ? fail_register(dev, ptr, size, flags, ret) : 0;
}

static bool bo_is_registered(const struct openreg_bo *bo)
{
	return !(bo->flags & (OPENREG_BO_VRAM | OPENREG_BO_SYSTEM));
}

API void openreg_bo_free(struct openreg_bo *bo)
{
	if (!bo)
		return;
	if (bo->shared) {
		if (openreg_bo_unshare(bo))
			openreg_bo_delete(bo);
		return;
	}
	openreg_bo_unmap(bo);
	if (*bo->dev->mine)
		bo->dev->ops->bo_close(bo->dev->t, bo->t.handle);
	openreg_bo_delete(bo);
}

API uint64_t openreg_bo_address(const struct openreg_bo *bo)
{
	return bo->t.address;
}

API uint64_t openreg_bo_size(const struct openreg_bo *bo)
{
	return bo->t.size;
}

API uint32_t openreg_bo_flags(const struct openreg_bo *bo)
{
	return bo->flags;
}

API int openreg_bo_map(struct openreg_bo *bo, void **ptr)
{
	int ret = 0;

	*ptr = NULL;
	if (!*bo->dev->mine)
		return openreg_fail_forked();
	pthread_mutex_lock(&bo->lock);
	if (!bo->ptr)
		ret = bo->dev->ops->map(bo->dev->t, &bo->t, &bo->ptr);
	*ptr = bo->ptr;
	pthread_mutex_unlock(&bo->lock);
	if (ret)
		return openreg_fail(ret,
				    "cannot map %" PRIu64 " bytes of %s: %s",
				    bo->t.size, bo->dev->info.path,
				    strerror(-ret));
	return 0;
}

API void openreg_bo_unmap(struct openreg_bo *bo)
{
	if (bo_is_registered(bo) || !*bo->dev->mine)
		return;
	pthread_mutex_lock(&bo->lock);
	if (bo->ptr)
		bo->dev->ops->unmap(bo->ptr, bo->t.size);
	bo->ptr = NULL;
	pthread_mutex_unlock(&bo->lock);
}
