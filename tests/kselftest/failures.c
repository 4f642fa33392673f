// SPDX-License-Identifier: GPL-2.0-only
// test failures-iommu not kselftest not kselftest-checked: --cards 2 --iommu
/* Failing allocations and user copies in calls for files, memory and mappings. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "failures.h"

static char memory[SIZE] __attribute__((aligned(4096)));

static int call_open(struct world *w)
{
	return fresh_file(w);
}

static int undo_open(struct world *w, int ret)
{
	return ret ? 0 : close_file(w, 0);
}

static int call_device(struct world *w)
{
	struct drm_openreg_device_info info;

	return card_info(w->fd, &info);
}

static int call_memory(struct world *w)
{
	struct drm_openreg_memory_info info;

	return card_memory(w->fd, &info);
}

static int call_vram(struct world *w)
{
	return bo_create(w->fd, SIZE, DRM_OPENREG_BO_VRAM, &w->made);
}

static int call_first_vram(struct world *w)
{
	return bo_create(w->file, SIZE, DRM_OPENREG_BO_VRAM, &w->made);
}

static int call_system(struct world *w)
{
	return bo_create(w->fd, SIZE, DRM_OPENREG_BO_SYSTEM, &w->made);
}

/* The pages exist. */
static int prepare_register(struct world *w)
{
	memset(memory, 1, SIZE);
	return 0;
}

static int call_register(struct world *w)
{
	return bo_register(w->fd, memory, SIZE, 0, &w->made);
}

/* The pages do not exist yet. */
static int prepare_readonly(struct world *w)
{
	w->map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return w->map == MAP_FAILED ? -errno : 0;
}

static int call_readonly(struct world *w)
{
	return bo_register(w->fd, w->map, SIZE, DRM_OPENREG_BO_READONLY,
			   &w->made);
}

static int undo_readonly(struct world *w, int ret)
{
	munmap(w->map, SIZE);
	return close_made(w, ret);
}

static int call_info(struct world *w)
{
	struct drm_openreg_bo_info args = { .handle = w->bo.handle };

	return card_ioctl(w->fd, DRM_IOCTL_OPENREG_BO_INFO, &args);
}

static int make_bo(struct world *w)
{
	return call_system(w);
}

static int call_close(struct world *w)
{
	return bo_close(w->fd, w->made.handle);
}

static int undo_close(struct world *w, int ret)
{
	return ret ? bo_close(w->fd, w->made.handle) : 0;
}

static int map_part(struct world *w, __u64 offset, int prot)
{
	w->map = mmap(NULL, 4096, prot, MAP_SHARED, w->fd, offset);
	return w->map == MAP_FAILED ? -errno : 0;
}

static int call_map(struct world *w)
{
	return map_part(w, w->bo.mmap_offset, PROT_READ | PROT_WRITE);
}

static int undo_map(struct world *w, int ret)
{
	return ret ? 0 : munmap(w->map, 4096);
}

/* Lets the kernel read the page: a failed fault is an error then, not a signal. */
static int call_touch(struct world *w)
{
	char byte;

	if (write(w->pipe[1], w->map, 1) != 1)
		return -errno;
	return read(w->pipe[0], &byte, 1) == 1 ? 0 : -errno;
}

static int undo_touch(struct world *w, int ret)
{
	char byte;

	if (ret) { /* if the read failed, the byte is still in the pipe */
		fcntl(w->pipe[0], F_SETFL, O_NONBLOCK);
		if (read(w->pipe[0], &byte, 1) < 0 && errno != EAGAIN)
			return -errno;
		fcntl(w->pipe[0], F_SETFL, 0);
	}
	return undo_map(w, 0);
}

static int map_vram(struct world *w)
{
	return map_part(w, w->vram.mmap_offset, PROT_READ | PROT_WRITE);
}

static int map_card_page(struct world *w)
{
	return map_part(w, w->queue.args.card_offset, PROT_READ);
}

static int call_fdinfo(struct world *w)
{
	char path[64], text[4096];
	int ret, fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", w->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = read(fd, text, sizeof(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static int call_stats(struct world *w)
{
	return card_stat("objects") < 0 ? -ENOMEM : 0;
}

static int call_poll(struct world *w)
{
	struct pollfd poll_fd = { .fd = w->fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) < 0 ? -errno : 0;
}

/* Makes a file with a context, a queue, VRAM and registered memory. */
static int prepare_release(struct world *w)
{
	int ret = fresh_file(w);

	prepare_register(w);
	if (!ret)
		ret = new_queue(w->file, &w->more);
	if (!ret)
		ret = call_first_vram(w);
	if (!ret)
		ret = bo_register(w->file, memory, SIZE, 0, &w->made);
	return ret;
}

static int call_release(struct world *w)
{
	return close_file(w, 0);
}

SWEEP(open, .call = call_open, .undo = undo_open);
SWEEP(query_device, .call = call_device);
SWEEP(query_memory, .call = call_memory);
SWEEP(vram, .call = call_vram, .undo = close_made, .makes = true);
SWEEP(first_vram, fresh_file, call_first_vram, close_file);
SWEEP(system, .call = call_system, .undo = close_made, .makes = true);
SWEEP(registration, prepare_register, call_register, close_made, .makes = true);
SWEEP(readonly, prepare_readonly, call_readonly, undo_readonly, .makes = true);
SWEEP(info, .call = call_info);
SWEEP(close_handle, make_bo, call_close, undo_close);
SWEEP(map, .call = call_map, .undo = undo_map);
SWEEP(touch_system, call_map, call_touch, undo_touch);
SWEEP(touch_vram, map_vram, call_touch, undo_touch);
SWEEP(touch_card_page, map_card_page, call_touch, undo_touch);
SWEEP(fdinfo, .call = call_fdinfo);
SWEEP(stats, .call = call_stats);
SWEEP(poll, .call = call_poll);
SWEEP(release, .prepare = prepare_release, .call = call_release,
      .always = true);

TEST_HARNESS_MAIN
