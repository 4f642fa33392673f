// SPDX-License-Identifier: GPL-2.0-only
/* Calls that map, register and share memory. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include <drm.h>

#include "../kselftest/sharing.h"
#include "calls.h"

/* Largest mapping of a program, so that the fuzzer's own mappings stay. */
#define MAP_MOST (1ull << 28)
#define MAPS_MOST 5

/*
 * True if cards have mapped this memory often enough. DMA_API_DEBUG counts the mappings
 * of a page, by all devices, and warns at the eighth.
 */
static bool is_worn(struct result *memory)
{
	return memory && __atomic_add_fetch(&memory->maps, 1,
					    __ATOMIC_RELAXED) > MAPS_MOST;
}

static int do_register(struct ctx *c)
{
	struct drm_openreg_mem_register args = {
		.user_address = c->a[1] + (c->a[4] % 3 ? 0 : c->a[4]),
		.size = c->a[2],
		.flags = c->a[3],
	};
	int ret;

	if (is_worn(c->ref[1]))
		return -EAGAIN;
	ret = do_ioctl(c->a[0], DRM_IOCTL_OPENREG_MEM_REGISTER, &args);
	if (ret)
		return ret;
	c->made->handle = args.handle;
	c->made->address = args.address;
	c->made->size = args.size;
	return 0;
}

static int made_map(struct ctx *c, void *map, uint64_t size)
{
	if (map == MAP_FAILED || !map)
		return -errno;
	c->made->map = map;
	c->made->size = size;
	return 0;
}

static int do_map(struct ctx *c)
{
	uint64_t size = c->ref[1] && c->a[4] % 2 ? c->ref[1]->size : c->a[2];
	int flags = c->a[4] == 6 ? MAP_PRIVATE : MAP_SHARED;

	if (c->a[4] == 8)
		flags |= MAP_POPULATE;
	return made_map(c, mmap(next_place(size), size, c->a[3] & 7, flags,
				c->a[0], c->a[1]), size);
}

static int do_map_part(struct ctx *c)
{
	const struct drm_openreg_queue_create *args;
	uint64_t offset, size = c->a[3];

	if (!c->ref[1])
		return -ENOENT;
	args = &c->ref[1]->queue.args;
	offset = (const uint64_t[]) {
		args->ring_offset, args->user_offset, args->card_offset,
		args->doorbell_offset }[c->a[2] % 4];
	return made_map(c, map_at(c->a[0], offset, size, c->a[4] & 7), size);
}

static int do_memory(struct ctx *c)
{
	int flags = MAP_ANONYMOUS | (c->a[2] == 3 ? MAP_SHARED : MAP_PRIVATE);
	uint64_t size = c->a[0];

	if (size > MAP_MOST)
		return -EINVAL;
	if (c->a[2] == 4)
		flags |= MAP_POPULATE;
	return made_map(c, mmap(next_place(size), size, c->a[1] & 7, flags,
				-1, 0), size);
}

/* Limits the size to the program's mapping. */
static uint64_t within(struct ctx *c)
{
	struct result *r = c->ref[0];

	if (!r || !r->map)
		return 0;
	return c->a[1] < r->size ? c->a[1] : r->size;
}

static int do_unmap(struct ctx *c)
{
	uint64_t size = within(c);

	if (!size)
		return -EINVAL;
	return munmap(c->ref[0]->map, size) ? -errno : 0;
}

static int do_protect(struct ctx *c)
{
	uint64_t size = within(c);

	if (!size)
		return -EINVAL;
	return mprotect(c->ref[0]->map, size, c->a[2] & 7) ? -errno : 0;
}

static int do_advise(struct ctx *c)
{
	uint64_t size = within(c);

	if (!size)
		return -EINVAL;
	return madvise(c->ref[0]->map, size, c->a[2]) ? -errno : 0;
}

static int do_touch(struct ctx *c)
{
	volatile unsigned char *at;
	int ret = 0;

	if (!c->ref[0] || !c->ref[0]->map)
		return -ENOENT;
	at = (unsigned char *)c->ref[0]->map + c->a[1] % (c->ref[0]->size | 1);
	call_guarded = true;
	if (sigsetjmp(call_guard, 1))
		ret = -EFAULT;
	else if (c->a[2] % 2)
		*at = c->a[2];
	else
		(void)*at;
	call_guarded = false;
	return ret;
}

static int do_export(struct ctx *c)
{
	struct drm_prime_handle args = { .handle = c->a[1], .flags = c->a[2] };
	int ret = do_ioctl(c->a[0], DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);

	if (!ret)
		made_fd(c, args.fd);
	return ret;
}

static int do_import(struct ctx *c)
{
	struct drm_prime_handle args = { .fd = c->a[1] };
	struct drm_openreg_bo_info info = {};
	int ret;

	if (is_worn(c->ref[1]))
		return -EAGAIN;
	ret = do_ioctl(c->a[0], DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);
	if (ret)
		return ret;
	info.handle = args.handle;
	c->made->handle = args.handle;
	if (!do_ioctl(c->a[0], DRM_IOCTL_OPENREG_BO_INFO, &info)) {
		c->made->address = info.address;
		c->made->offset = info.mmap_offset;
		c->made->size = info.size;
	}
	return 0;
}

static int do_sync(struct ctx *c)
{
	struct dma_buf_sync args = { .flags = c->a[1] };

	return do_ioctl(c->a[0], DMA_BUF_IOCTL_SYNC, &args);
}

static int do_map_buf(struct ctx *c)
{
	return made_map(c, map_at(c->a[0], 0, c->a[1], c->a[2] & 7), c->a[1]);
}

static int do_udmabuf(struct ctx *c)
{
	uint64_t size = (c->a[0] & 0x3fffff & ~4095ull) ?: 4096;
	void *memory = MAP_FAILED;
	int fd = udmabuf(size, size <= 1 << 20 && c->a[1] % 2, &memory);

	if (memory != MAP_FAILED)
		munmap(memory, size);
	if (fd >= 0)
		made_fd(c, fd);
	return fd < 0 ? fd : 0;
}

static int do_limit(struct ctx *c)
{
	const struct rlimit limit = { c->a[0], c->a[0] };

	return setrlimit(RLIMIT_MEMLOCK, &limit) ? -errno : 0;
}

call_fn * const memory_calls[OPS] = {
	[OP_REGISTER] = do_register,
	[OP_MAP] = do_map,
	[OP_MAP_PART] = do_map_part,
	[OP_MEMORY] = do_memory,
	[OP_UNMAP] = do_unmap,
	[OP_PROTECT] = do_protect,
	[OP_ADVISE] = do_advise,
	[OP_TOUCH] = do_touch,
	[OP_EXPORT] = do_export,
	[OP_IMPORT] = do_import,
	[OP_SYNC] = do_sync,
	[OP_MAP_BUF] = do_map_buf,
	[OP_UDMABUF] = do_udmabuf,
	[OP_LIMIT] = do_limit,
};
