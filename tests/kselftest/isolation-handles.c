// SPDX-License-Identifier: GPL-2.0-only
/*
 * Handles belong to an open file. The handle of another file's object or syncobj is
 * invalid, or is a handle of the caller's own.
 */
#include <errno.h>
#include <fcntl.h>

#include "kselftest_harness.h"

#include "sharing.h"

#define LONG (20 * SEC_NS)
#define NUMBERS 100
#define SYNCOBJS 8
#define POINT 7

FIXTURE(handles)
{
	struct card_usage before;
	int victim, fd;
	struct queue queue; /* of the attacker */
	struct bo bo; /* of the victim */
	__u32 syncobj[SYNCOBJS]; /* of the victim, at POINT */
};

FIXTURE_SETUP(handles)
{
	__u64 point = POINT;
	int i;

	self->before = card_unused();
	self->victim = card_open();
	self->fd = card_open();
	ASSERT_LE(0, self->victim);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->queue));
	ASSERT_EQ(0, bo_create(self->victim, MIB, DRM_OPENREG_BO_VRAM,
			       &self->bo));
	for (i = 0; i < SYNCOBJS; i++) {
		ASSERT_EQ(0, syncobj_create(self->victim, &self->syncobj[i]));
		ASSERT_EQ(0, syncobj_point(self->victim,
					   DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
					   self->syncobj[i], &point));
		ASSERT_GT(NUMBERS, self->syncobj[i]);
	}
	ASSERT_GT(NUMBERS, self->bo.handle);
}

/* Checks that the victim still has its syncobjs and its object. */
FIXTURE_TEARDOWN(handles)
{
	__u64 point;
	int i, db;

	for (i = 0; i < SYNCOBJS; i++) {
		point = 0;
		EXPECT_EQ(0, syncobj_point(self->victim,
					   DRM_IOCTL_SYNCOBJ_QUERY,
					   self->syncobj[i], &point));
		EXPECT_EQ(POINT, point);
	}
	db = bo_export(self->victim, self->bo.handle, DRM_CLOEXEC);
	EXPECT_LE(0, db);
	close(db);
	queue_unmap(&self->queue);
	close(self->fd);
	close(self->victim);
	EXPECT_TRUE(card_settles(self->before));
}

TEST_F(handles, export_nothing)
{
	const __u32 flags[] = { 0, DRM_CLOEXEC, DRM_RDWR | DRM_CLOEXEC };
	unsigned int f;
	__u32 i;

	for (i = 0; i < NUMBERS; i++)
		for (f = 0; f < sizeof(flags) / 4; f++)
			EXPECT_EQ(-ENOENT, bo_export(self->fd, i, flags[f]))
				TH_LOG("handle %u", i);
}

/* The same handle is an object of the attacker. */
TEST_F(handles, export_ones_own)
{
	struct bo own, in;
	int db;

	ASSERT_EQ(0, bo_create(self->fd, 2 * MIB, DRM_OPENREG_BO_VRAM, &own));
	ASSERT_EQ(self->bo.handle, own.handle);
	db = bo_export(self->fd, own.handle, DRM_CLOEXEC | DRM_RDWR);
	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(self->victim, db, &in));
	EXPECT_EQ(2 * MIB, in.size);
	EXPECT_NE(self->bo.handle, in.handle);
	close(db);
}

/* All ioctls that take a syncobj's handle. DRM sets the error of each. */
static int use_syncobj(int fd, unsigned int way, __u32 handle)
{
	struct drm_syncobj_array array = {
		.handles = (uintptr_t)&handle, .count_handles = 1,
	};
	struct drm_syncobj_wait wait = {
		.handles = (uintptr_t)&handle, .count_handles = 1,
	};
	struct drm_syncobj_transfer transfer = {
		.src_handle = handle, .dst_handle = handle, .src_point = POINT,
	};
	struct drm_syncobj_handle export = { .handle = handle, .fd = -1 };
	struct drm_syncobj_destroy destroy = { .handle = handle };
	__u64 point = POINT + 1;
	struct drm_syncobj_timeline_wait until = {
		.handles = (uintptr_t)&handle, .points = (uintptr_t)&point,
		.count_handles = 1,
	};
	struct drm_syncobj_eventfd event = {
		.handle = handle, .point = POINT, .fd = -1,
	};

	switch (way) {
	case 0:
		return syncobj_point(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
				     handle, &point);
	case 1:
		return syncobj_point(fd, DRM_IOCTL_SYNCOBJ_QUERY, handle,
				     &point);
	case 2:
		return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_RESET, &array);
	case 3:
		return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_SIGNAL, &array);
	case 4:
		return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_WAIT, &wait);
	case 5:
		return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_TRANSFER, &transfer);
	case 6:
		return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &until);
	case 7:
		return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_EVENTFD, &event);
	case 8:
		return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &export);
	default:
		return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy);
	}
}

#define WAYS 10

/* For a packet that has completed, and for a packet that was not submitted yet. */
TEST_F(handles, signal_nothing)
{
	struct queue *q = &self->queue;
	unsigned int way;
	struct packet p;
	__u32 i;

	packet_nop(&p);
	ASSERT_EQ(0, queue_wait(q, queue_push(q, &p), LONG));
	for (i = 0; i < NUMBERS; i++) {
		EXPECT_EQ(-ENOENT, queue_signal(q, i, 1, POINT + 1));
		EXPECT_EQ(-ENOENT, queue_signal(q, i, 1, 0));
		EXPECT_EQ(-ENOENT, queue_signal(q, i, 2, POINT + 1));
		for (way = 0; way < WAYS; way++)
			EXPECT_EQ(way < 8 ? -ENOENT : -EINVAL,
				  use_syncobj(self->fd, way, i))
				TH_LOG("way %u, syncobj %u", way, i);
	}
	ASSERT_EQ(0, queue_wait(q, queue_push(q, &p), LONG));
}

/* The same handles are syncobjs of the attacker. */
TEST_F(handles, signal_ones_own)
{
	struct queue *q = &self->queue;
	__u32 own[SYNCOBJS];
	struct packet p;
	__u64 point;
	int i;

	packet_nop(&p);
	for (i = 0; i < SYNCOBJS; i++) {
		ASSERT_EQ(0, syncobj_create(self->fd, &own[i]));
		ASSERT_EQ(self->syncobj[i], own[i]);
	}
	ASSERT_EQ(0, queue_wait(q, queue_push(q, &p), LONG));
	for (i = 0; i < SYNCOBJS; i++) {
		ASSERT_EQ(0, queue_signal(q, own[i], 1, POINT + 1 + i));
		point = 0;
		ASSERT_EQ(0, syncobj_point(self->fd, DRM_IOCTL_SYNCOBJ_QUERY,
					   own[i], &point));
		EXPECT_EQ(POINT + 1 + i, point);
		EXPECT_EQ(0, use_syncobj(self->fd, WAYS - 1, own[i]));
	}
}

TEST_HARNESS_MAIN
