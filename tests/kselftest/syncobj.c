// SPDX-License-Identifier: GPL-2.0-only
/* Syncobj points are added when packets have completed, and not before. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "card.h"

#define SUBMIT DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT
#define MOST 1024

FIXTURE(syncobj)
{
	int fd;
	struct queue queue;
	struct bo bo; /* WAIT packets wait for its first word */
	volatile __u64 *word;
	__u32 handle;
};

FIXTURE_SETUP(syncobj)
{
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, queue_create(self->fd, 4096, &self->queue));
	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_SYSTEM,
			       &self->bo));
	ASSERT_EQ(0, bo_map(self->fd, &self->bo));
	self->word = self->bo.cpu;
	ASSERT_EQ(0, syncobj_create(self->fd, &self->handle));
}

FIXTURE_TEARDOWN(syncobj)
{
	close(self->fd);
}

static int signal_point(FIXTURE_DATA(syncobj) * self, __u64 seq, __u64 point)
{
	return queue_signal(&self->queue, self->handle, seq, point);
}

static int wait_point(int fd, __u32 handle, __u64 point, __s64 timeout_ns,
		      __u32 flags)
{
	struct drm_syncobj_timeline_wait args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.timeout_nsec = now_ns() + timeout_ns,
		.count_handles = 1,
		.flags = flags,
	};

	return card_ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

static __u64 query(int fd, __u32 handle)
{
	__u64 point;

	return syncobj_point(fd, DRM_IOCTL_SYNCOBJ_QUERY, handle, &point) ? -1ull : point;
}

/* Returns 1 if signalled, 0 if not, or the error of the fence. */
static int status_of(int fd, __u32 handle)
{
	struct drm_syncobj_handle args = {
		.handle = handle,
		.flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE,
		.fd = -1,
	};
	struct sync_file_info info = {};
	int ret = card_ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args);

	if (!ret)
		ret = card_ioctl(args.fd, SYNC_IOC_FILE_INFO, &info);
	if (args.fd >= 0)
		close(args.fd);
	return ret ? ret : info.status;
}

/* Pushes a packet that completes after go(). */
static __u64 push_wait(FIXTURE_DATA(syncobj) * self)
{
	struct packet p;

	packet_wait(&p, self->bo.address);
	return queue_push(&self->queue, &p);
}

static void go(FIXTURE_DATA(syncobj) * self)
{
	*self->word = 1;
}

TEST_F(syncobj, a_point_appears)
{
	__u64 seq = push_wait(self);

	ASSERT_EQ(0, signal_point(self, seq, 10));
	EXPECT_EQ(0, query(self->fd, self->handle));
	/* The point has no fence to wait for. */
	EXPECT_EQ(-EINVAL, wait_point(self->fd, self->handle, 10, SEC_NS, 0));
	EXPECT_EQ(-ETIME, wait_point(self->fd, self->handle, 10, SEC_NS / 50,
				     SUBMIT));
	go(self);
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 10, 20 * SEC_NS,
				SUBMIT));
	EXPECT_LE(seq, self->queue.card->completed);
	EXPECT_EQ(10, query(self->fd, self->handle));
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 10, 0, 0));
}

TEST_F(syncobj, without_a_timeline)
{
	__u64 seq = push_wait(self);

	ASSERT_EQ(0, signal_point(self, seq, 0));
	EXPECT_EQ(-EINVAL, status_of(self->fd, self->handle));
	go(self);
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 0, 20 * SEC_NS, SUBMIT));
	EXPECT_EQ(1, status_of(self->fd, self->handle));
}

TEST_F(syncobj, completed_already)
{
	struct packet p;
	__u64 seq;

	packet_nop(&p);
	seq = queue_push(&self->queue, &p);
	ASSERT_EQ(0, queue_wait(&self->queue, seq, 20 * SEC_NS));
	ASSERT_EQ(0, signal_point(self, seq, 3));
	EXPECT_EQ(3, query(self->fd, self->handle));
}

TEST_F(syncobj, many_in_order)
{
	struct packet p;
	__u64 seq, i;

	push_wait(self);
	packet_nop(&p);
	for (i = 1; i <= MOST; i++) {
		seq = queue_push(&self->queue, &p);
		ASSERT_EQ(0, signal_point(self, seq, i));
	}
	EXPECT_EQ(-EBUSY, signal_point(self, seq, i));
	go(self);
	EXPECT_EQ(0, wait_point(self->fd, self->handle, MOST / 2, 20 * SEC_NS,
				SUBMIT));
	EXPECT_LE(MOST / 2, query(self->fd, self->handle));
	EXPECT_EQ(0, wait_point(self->fd, self->handle, MOST, 20 * SEC_NS,
				SUBMIT));
	EXPECT_EQ(MOST, query(self->fd, self->handle));
	ASSERT_EQ(0, signal_point(self, seq, i));
	EXPECT_EQ(i, query(self->fd, self->handle));
}

/* A lower point is accepted, but the timeline keeps the higher value. */
TEST_F(syncobj, a_point_backwards)
{
	struct packet p;
	__u64 seq;

	packet_nop(&p);
	seq = queue_push(&self->queue, &p);
	ASSERT_EQ(0, queue_wait(&self->queue, seq, 20 * SEC_NS));
	ASSERT_EQ(0, signal_point(self, seq, 10));
	EXPECT_EQ(0, signal_point(self, seq, 5));
	EXPECT_EQ(10, query(self->fd, self->handle));
	EXPECT_EQ(0, signal_point(self, seq, 10));
	EXPECT_EQ(10, query(self->fd, self->handle));
	seq = push_wait(self);
	EXPECT_EQ(0, signal_point(self, seq, 7));
	EXPECT_EQ(0, signal_point(self, seq, 12));
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 7, 0, 0));
	EXPECT_EQ(-ETIME, wait_point(self->fd, self->handle, 12, SEC_NS / 50,
				     SUBMIT));
	EXPECT_EQ(10, query(self->fd, self->handle));
	go(self);
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 12, 20 * SEC_NS,
				SUBMIT));
	EXPECT_EQ(12, query(self->fd, self->handle));
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 5, 0, 0));
	EXPECT_EQ(-EINVAL, wait_point(self->fd, self->handle, 13, 0, 0));
}

TEST_F(syncobj, eventfd)
{
	int event = eventfd(0, EFD_CLOEXEC);
	struct drm_syncobj_eventfd args = {
		.handle = self->handle, .point = 5, .fd = event,
	};
	struct pollfd poll_in = { .fd = event, .events = POLLIN };

	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_SYNCOBJ_EVENTFD, &args));
	ASSERT_EQ(0, signal_point(self, push_wait(self), 5));
	EXPECT_EQ(0, poll(&poll_in, 1, 20));
	go(self);
	EXPECT_EQ(1, poll(&poll_in, 1, 20000));
	close(event);
}

TEST_F(syncobj, a_fault_is_an_error)
{
	struct packet p;
	__u64 seq;

	push_wait(self);
	packet_fill(&p, 8, 4, OPENREG_I32, 0);
	seq = queue_push(&self->queue, &p);
	ASSERT_EQ(0, signal_point(self, seq, 0));
	go(self);
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 0, 20 * SEC_NS, SUBMIT));
	EXPECT_EQ(-EIO, status_of(self->fd, self->handle));
	EXPECT_EQ(-EIO, signal_point(self, seq, 0));
	/* The packet before the fault completed. */
	EXPECT_EQ(0, signal_point(self, seq - 1, 0));
	EXPECT_EQ(1, status_of(self->fd, self->handle));
}

/* A timeline reports that the packet is over, without an error. */
TEST_F(syncobj, a_fault_ends_points)
{
	struct packet p;
	__u64 seq;

	push_wait(self);
	packet_fill(&p, 8, 4, OPENREG_I32, 0);
	seq = queue_push(&self->queue, &p);
	ASSERT_EQ(0, signal_point(self, seq, 2));
	ASSERT_EQ(0, signal_point(self, seq - 1, 1));
	go(self);
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 2, 20 * SEC_NS, SUBMIT));
	EXPECT_EQ(2, query(self->fd, self->handle));
	EXPECT_EQ(-EIO, queue_wait(&self->queue, seq, SEC_NS));
}

/* Points are added in the order of their packets, not of the calls. */
TEST_F(syncobj, asked_for_backwards)
{
	struct packet p;
	__u64 seq;

	push_wait(self);
	packet_nop(&p);
	seq = queue_push(&self->queue, &p);
	packet_fill(&p, 8, 4, OPENREG_I32, 0);
	ASSERT_EQ(0, signal_point(self, queue_push(&self->queue, &p), 0));
	ASSERT_EQ(0, signal_point(self, seq, 0));
	go(self);
	EXPECT_EQ(-EIO, queue_wait(&self->queue, seq + 1, 20 * SEC_NS));
	EXPECT_EQ(0, queue_reset(&self->queue, self->queue.tail, seq + 1));
	EXPECT_EQ(0, queue_destroy(&self->queue));
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 0, 20 * SEC_NS, SUBMIT));
	EXPECT_EQ(-EIO, status_of(self->fd, self->handle));
}

TEST_F(syncobj, given_up_by_a_reset)
{
	__u64 seq = push_wait(self);

	ASSERT_EQ(0, signal_point(self, seq, 0));
	ASSERT_EQ(0, queue_reset(&self->queue, self->queue.tail, seq));
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 0, 20 * SEC_NS, SUBMIT));
	EXPECT_EQ(1, status_of(self->fd, self->handle));
}

TEST_F(syncobj, destroyed_queue)
{
	__u64 seq = push_wait(self);

	ASSERT_EQ(0, signal_point(self, seq, 0));
	ASSERT_EQ(0, queue_destroy(&self->queue));
	EXPECT_EQ(0, wait_point(self->fd, self->handle, 0, 20 * SEC_NS, SUBMIT));
	EXPECT_EQ(-EIO, status_of(self->fd, self->handle));
}

/* Another file shares the syncobj, which is signalled with an error. */
TEST_F(syncobj, closed_file)
{
	struct drm_syncobj_handle share = { .handle = self->handle, .fd = -1 };
	int other = card_open();

	ASSERT_LE(0, other);
	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD,
				&share));
	ASSERT_EQ(0, card_ioctl(other, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &share));
	close(share.fd);
	ASSERT_EQ(0, signal_point(self, push_wait(self), 0));
	queue_unmap(&self->queue);
	munmap(self->bo.cpu, self->bo.size);
	close(self->fd);
	EXPECT_EQ(0, wait_point(other, share.handle, 0, 20 * SEC_NS, SUBMIT));
	EXPECT_EQ(-EIO, status_of(other, share.handle));
	self->fd = other;
}

TEST_F(syncobj, no_such_syncobj)
{
	self->handle += 100;
	EXPECT_EQ(-ENOENT, signal_point(self, 1, 1));
	EXPECT_EQ(-ENOENT, signal_point(self, 1, 0));
	EXPECT_EQ(-EINVAL, signal_point(self, 0, 1));
}

TEST_HARNESS_MAIN
