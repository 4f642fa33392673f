// SPDX-License-Identifier: GPL-2.0-only
/* Failing allocations and user copies in DRM's own ioctls of syncobjs. */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include "failures.h"

static int make(int fd, __u32 flags, __u32 *handle)
{
	struct drm_syncobj_create args = { .flags = flags };
	int ret = card_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &args);

	*handle = args.handle;
	return ret;
}

static int drop(int fd, __u32 handle)
{
	struct drm_syncobj_destroy args = { .handle = handle };

	return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &args);
}

static int call_create(struct world *w)
{
	return make(w->fd, 0, &w->handle);
}

static int call_first_create(struct world *w)
{
	return make(w->file, 0, &w->handle);
}

static int call_create_signalled(struct world *w)
{
	return make(w->fd, DRM_SYNCOBJ_CREATE_SIGNALED, &w->handle);
}

static int undo_create(struct world *w, int ret)
{
	return ret ? 0 : drop(w->fd, w->handle);
}

static int undo_made(struct world *w, int ret)
{
	return drop(w->fd, w->handle);
}

static int call_destroy(struct world *w)
{
	return drop(w->fd, w->handle);
}

/* If copying the arguments back failed, the syncobj is destroyed already. */
static int undo_destroy(struct world *w, int ret)
{
	if (ret)
		ret = drop(w->fd, w->handle);
	return ret == -EINVAL ? 0 : ret;
}

static int to_fd(struct world *w, __u32 flags)
{
	struct drm_syncobj_handle args = {
		.handle = w->handle,
		.flags = flags,
		.fd = -1,
	};
	int ret = card_ioctl(w->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args);

	w->file = args.fd;
	return ret;
}

static int prepare_to_fd(struct world *w)
{
	int ret = call_create_signalled(w);

	w->next = dup(w->fd);
	return ret ? ret : close(w->next) ? -errno : 0;
}

static int call_to_fd(struct world *w)
{
	return to_fd(w, 0);
}

static int call_to_sync_file(struct world *w)
{
	return to_fd(w, DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE);
}

static int undo_to_fd(struct world *w, int ret)
{
	if (ret == -EFAULT)
		close(w->next); /* the call may have installed this descriptor */
	else if (!ret)
		close_file(w, 0);
	return drop(w->fd, w->handle);
}

static int prepare_from_fd(struct world *w)
{
	int ret = call_create_signalled(w);

	if (!ret)
		ret = call_to_fd(w);
	return ret ? ret : drop(w->fd, w->handle);
}

static int call_from_fd(struct world *w)
{
	struct drm_syncobj_handle args = { .fd = w->file };
	int ret = card_ioctl(w->fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args);

	w->handle = args.handle;
	return ret;
}

static int undo_from_fd(struct world *w, int ret)
{
	close_file(w, 0);
	return undo_create(w, ret);
}

static int prepare_from_sync_file(struct world *w)
{
	int ret = call_create_signalled(w);

	return ret ? ret : call_to_sync_file(w);
}

static int call_from_sync_file(struct world *w)
{
	struct drm_syncobj_handle args = {
		.handle = w->handle,
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
		.fd = w->file,
	};

	return card_ioctl(w->fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args);
}

static int undo_from_sync_file(struct world *w, int ret)
{
	close_file(w, 0);
	return drop(w->fd, w->handle);
}

static int of_one(struct world *w, unsigned long request)
{
	struct drm_syncobj_array args = {
		.handles = (uintptr_t)&w->handle,
		.count_handles = 1,
	};

	return card_ioctl(w->fd, request, &args);
}

static int call_reset(struct world *w)
{
	return of_one(w, DRM_IOCTL_SYNCOBJ_RESET);
}

static int call_signal(struct world *w)
{
	return of_one(w, DRM_IOCTL_SYNCOBJ_SIGNAL);
}

/* Sleeps if the syncobj has no fence yet. */
static int call_wait(struct world *w)
{
	struct drm_syncobj_wait args = {
		.handles = (uintptr_t)&w->handle,
		.timeout_nsec = now_ns() + SEC_NS / 1000,
		.count_handles = 1,
		.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};

	return card_ioctl(w->fd, DRM_IOCTL_SYNCOBJ_WAIT, &args);
}

static int call_timeline_signal(struct world *w)
{
	__u64 point = 7;

	return syncobj_point(w->fd, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, w->handle, &point);
}

static int prepare_timeline(struct world *w)
{
	int ret = call_create(w);

	return ret ? ret : call_timeline_signal(w);
}

static int call_query(struct world *w)
{
	__u64 point = 0;
	int ret = syncobj_point(w->fd, DRM_IOCTL_SYNCOBJ_QUERY, w->handle, &point);

	return ret ? ret : point == 7 ? 0 : -EBADMSG;
}

static int call_timeline_wait(struct world *w)
{
	__u64 point = 7;
	struct drm_syncobj_timeline_wait args = {
		.handles = (uintptr_t)&w->handle,
		.points = (uintptr_t)&point,
		.timeout_nsec = now_ns() + SEC_NS / 1000,
		.count_handles = 1,
		.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};

	return card_ioctl(w->fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

static int transfer(struct world *w, __u32 handle, __u64 point)
{
	struct drm_syncobj_transfer args = {
		.src_handle = w->handle,
		.src_point = 7,
		.dst_handle = handle,
		.dst_point = point,
	};

	return card_ioctl(w->fd, DRM_IOCTL_SYNCOBJ_TRANSFER, &args);
}

static int call_transfer(struct world *w)
{
	return transfer(w, w->syncobj, 0);
}

static int call_transfer_to_point(struct world *w)
{
	return transfer(w, w->handle, 8);
}

static int prepare_eventfd(struct world *w)
{
	w->file = eventfd(0, EFD_CLOEXEC);
	return w->file < 0 ? -errno : call_create(w);
}

/* The point exists already, so the call signals the eventfd at once. */
static int prepare_eventfd_late(struct world *w)
{
	int ret = prepare_eventfd(w);

	return ret ? ret : call_timeline_signal(w);
}

static int call_eventfd(struct world *w)
{
	struct drm_syncobj_eventfd args = {
		.handle = w->handle, .point = 7, .fd = w->file,
	};

	return card_ioctl(w->fd, DRM_IOCTL_SYNCOBJ_EVENTFD, &args);
}

static int undo_eventfd(struct world *w, int ret)
{
	close_file(w, 0);
	return drop(w->fd, w->handle);
}

SWEEP(create, .call = call_create, .undo = undo_create);
SWEEP(first_create, fresh_file, call_first_create, close_file);
SWEEP(create_signalled, .call = call_create_signalled, .undo = undo_create);
SWEEP(destroy, call_create, call_destroy, undo_destroy);
SWEEP(to_fd, prepare_to_fd, call_to_fd, undo_to_fd);
SWEEP(to_sync_file, prepare_to_fd, call_to_sync_file, undo_to_fd,
      .says = -EINVAL);
SWEEP(from_fd, prepare_from_fd, call_from_fd, undo_from_fd);
SWEEP(from_sync_file, prepare_from_sync_file, call_from_sync_file,
      undo_from_sync_file);
SWEEP(reset, call_create_signalled, call_reset, undo_made);
SWEEP(signal, call_create, call_signal, undo_made);
SWEEP(wait, call_create_signalled, call_wait, undo_made);
SWEEP(wait_in_vain, call_create, call_wait, undo_made, -ETIME);
SWEEP(timeline_signal, call_create, call_timeline_signal, undo_made);
SWEEP(timeline_wait, prepare_timeline, call_timeline_wait, undo_made);
SWEEP(timeline_wait_in_vain, call_create, call_timeline_wait, undo_made, -ETIME);
SWEEP(query, prepare_timeline, call_query, undo_made);
SWEEP(transfer, prepare_timeline, call_transfer, undo_made);
SWEEP(transfer_to_point, prepare_timeline, call_transfer_to_point, undo_made);
SWEEP(eventfd, prepare_eventfd, call_eventfd, undo_eventfd);
SWEEP(eventfd_late, prepare_eventfd_late, call_eventfd, undo_eventfd);

TEST_HARNESS_MAIN
