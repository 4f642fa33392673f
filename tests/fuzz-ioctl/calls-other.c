// SPDX-License-Identifier: GPL-2.0-only
/* Calls for syncobjs and children, and all other calls. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <drm.h>

#include "calls.h"

static int do_syncobj(struct ctx *c)
{
	struct drm_syncobj_create args = { .flags = c->a[1] % 2 };
	int ret = do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_CREATE, &args);

	if (!ret)
		c->made->syncobj = args.handle;
	return ret;
}

static int do_syncobj_destroy(struct ctx *c)
{
	struct drm_syncobj_destroy args = { .handle = c->a[1] };

	return do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_DESTROY, &args);
}

static int do_syncobj_wait(struct ctx *c)
{
	uint32_t handle = c->a[1];
	uint64_t point = c->a[2];
	struct drm_syncobj_timeline_wait args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.timeout_nsec = deadline(c->a[3]),
		.count_handles = 1,
		.flags = c->a[4] & 7,
	};

	return do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

static int do_syncobj_timeline(struct ctx *c)
{
	uint32_t handle = c->a[1];
	uint64_t point = c->a[2];
	struct drm_syncobj_timeline_array args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};
	struct drm_syncobj_array array = {
		.handles = (uintptr_t)&handle,
		.count_handles = 1,
	};

	if (c->a[3] % 3 == 2)
		return do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_RESET, &array);
	return do_ioctl(c->a[0], c->a[3] % 3 ? DRM_IOCTL_SYNCOBJ_QUERY :
			DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &args);
}

static int do_syncobj_eventfd(struct ctx *c)
{
	int ret, fd = eventfd(0, EFD_CLOEXEC);
	struct drm_syncobj_eventfd args = {
		.handle = c->a[1],
		.flags = c->a[3] & 2,
		.point = c->a[2],
		.fd = fd,
	};

	ret = do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_EVENTFD, &args);
	close(fd);
	return ret;
}

static int do_syncobj_to_fd(struct ctx *c)
{
	struct drm_syncobj_handle args = {
		.handle = c->a[1],
		.flags = c->a[2] & 1,
	};
	int ret = do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args);

	if (!ret)
		made_fd(c, args.fd);
	return ret;
}

static int do_syncobj_from_fd(struct ctx *c)
{
	struct drm_syncobj_handle args = { .fd = c->a[1], .flags = c->a[2] & 1 };
	int ret = do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args);

	if (!ret)
		c->made->syncobj = args.handle;
	return ret;
}

static int read_file(const char *path)
{
	char buffer[4096];
	int ret, fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = read(fd, buffer, sizeof(buffer)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static int do_fdinfo(struct ctx *c)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", (int)c->a[0]);
	return read_file(path);
}

static int do_poll(struct ctx *c)
{
	struct pollfd fd = { .fd = c->a[0], .events = POLLIN | POLLOUT };

	return poll(&fd, 1, 1) < 0 ? -errno : 0;
}

/*
 * A read of a card's file sleeps until a signal interrupts it. It can still return data:
 * the number may meanwhile belong to a file of another thread.
 */
static int do_read(struct ctx *c)
{
	char buffer[16];
	uint64_t size = c->a[1] < sizeof(buffer) ? c->a[1] : sizeof(buffer);

	return read(c->a[0], buffer, size) < 0 ? -errno : 0;
}

static void be_child(struct ctx *c, pid_t parent)
{
	struct drm_openreg_bo_create args = {
		.size = 4096,
		.flags = DRM_OPENREG_BO_SYSTEM,
	};
	unsigned int i;

	/* A child does not inherit the parent's timer, so it must end with its parent. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	switch (c->a[0] % 4) {
	case 0:
		break;
	case 1:
		for (i = 0; i < CALLS_MAX; i++)
			close(c->run->result[i].fd);
		break;
	case 2:
		do_ioctl(c->a[1], DRM_IOCTL_OPENREG_BO_CREATE, &args);
		break;
	default:
		pause();
	}
	/* The child has not inherited all mappings: this access may fault. */
	call_guarded = true;
	if (c->a[0] > 7 && c->ref[2] && c->ref[2]->map &&
	    !sigsetjmp(call_guard, 1))
		*(volatile char *)c->ref[2]->map = 1;
	_exit(0);
}

static int do_fork(struct ctx *c)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		be_child(c, parent);
	c->run->child[c->made - c->run->result] = pid;
	return 0;
}

static int do_sleep(struct ctx *c)
{
	return usleep(c->a[0] % 5000) ? -errno : 0;
}

static int do_stats(struct ctx *c)
{
	return card_stat("objects") < 0 ? -EIO : 0;
}

static int do_flr(struct ctx *c)
{
	int ret, fd = open("/sys/class/misc/openreg/device/reset",
			   O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = write(fd, "1", 1) == 1 ? 0 : -errno;
	close(fd);
	return ret;
}

call_fn * const other_calls[OPS] = {
	[OP_SYNCOBJ] = do_syncobj,
	[OP_SYNCOBJ_DESTROY] = do_syncobj_destroy,
	[OP_SYNCOBJ_WAIT] = do_syncobj_wait,
	[OP_SYNCOBJ_TIMELINE] = do_syncobj_timeline,
	[OP_SYNCOBJ_EVENTFD] = do_syncobj_eventfd,
	[OP_SYNCOBJ_TO_FD] = do_syncobj_to_fd,
	[OP_SYNCOBJ_FROM_FD] = do_syncobj_from_fd,
	[OP_FDINFO] = do_fdinfo,
	[OP_POLL] = do_poll,
	[OP_READ] = do_read,
	[OP_FORK] = do_fork,
	[OP_SLEEP] = do_sleep,
	[OP_STATS] = do_stats,
	[OP_FLR] = do_flr,
};
