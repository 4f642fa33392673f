// SPDX-License-Identifier: GPL-2.0-only
// test lifetime
/* Processes close objects or die while the card works: nothing leaks, nothing hangs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "machine.h"

FIXTURE(lifetime)
{
	struct card_usage before;
	int fd;
	struct queue q;
	struct packet p;
	struct bo bo;
};

FIXTURE_SETUP(lifetime)
{
	self->before = card_unused();
	ASSERT_LE(0, self->before.vram_free)
		TH_LOG("no openreg_stats in debugfs");
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM,
			       &self->bo));
	ASSERT_EQ(0, bo_map(self->fd, &self->bo));
}

FIXTURE_TEARDOWN(lifetime)
{
	queue_unmap(&self->q);
	munmap(self->bo.cpu, self->bo.size);
	close(self->fd);
	EXPECT_TRUE(card_settles(self->before));
}

/* Elements of a packet that still runs when the test looks, but that ends soon. */
#define BUSY (1ull << 27)

TEST_F(lifetime, closed_while_in_use)
{
	struct card_usage before = card_usage(), now;
	bool running;
	struct bo src;

	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM, &src));
	packet_busy(&self->p, self->bo.address, src.address, BUSY);
	push_and_begin(&self->q, &self->p);
	ASSERT_EQ(0, bo_close(self->fd, src.handle));
	now = card_usage();
	running = !self->q.card->completed;
	if (running)
		EXPECT_EQ(before.vram_free - (long long)MIB, now.vram_free);
	ASSERT_EQ(0, queue_wait(&self->q, 1, 60 * SEC_NS));
	EXPECT_EQ((float)BUSY, *(float *)self->bo.cpu);
	EXPECT_TRUE(card_settles(before));
	/* A new packet on the closed object faults. */
	queue_push(&self->q, &self->p);
	EXPECT_EQ(-EIO, queue_wait(&self->q, 2, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, self->q.card->fault.code);
}

/* Memory that a packet still uses is not reused: the allocation waits for the packet. */
TEST_F_TIMEOUT(lifetime, full_while_in_use, 90)
{
	struct drm_openreg_memory_info info;
	struct bo all, again;

	ASSERT_EQ(0, card_memory(self->fd, &info));
	ASSERT_EQ(0, bo_create(self->fd, info.vram_largest,
			       DRM_OPENREG_BO_VRAM, &all));
	packet_busy(&self->p, self->bo.address, all.address, BUSY);
	push_and_begin(&self->q, &self->p);
	ASSERT_EQ(0, bo_close(self->fd, all.handle));
	ASSERT_EQ(0, bo_create(self->fd, info.vram_largest,
			       DRM_OPENREG_BO_VRAM, &again));
	EXPECT_EQ(1, self->q.card->completed);
}

TEST_F_TIMEOUT(lifetime, queue_destroyed_while_busy, 90)
{
	struct queue other;

	packet_endless(&self->p, self->bo.address, self->bo.address);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(0, queue_destroy(&self->q));
	ASSERT_EQ(0, queue_create(self->fd, 64, &other));
	packet_nop(&self->p);
	queue_push(&other, &self->p);
	EXPECT_EQ(0, queue_wait(&other, 1, 20 * SEC_NS));
	queue_unmap(&other);
}

TEST_F(lifetime, file_closed_while_busy)
{
	int i, fd;
	struct queue q;
	struct bo bo;

	for (i = 0; i < 20; i++) {
		fd = card_open();
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, queue_create(fd, 64, &q));
		ASSERT_EQ(0, bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &bo));
		packet_endless(&self->p, bo.address, bo.address);
		queue_push(&q, &self->p);
		queue_unmap(&q);
		close(fd);
	}
}

TEST_F(lifetime, file_closed_while_waiting)
{
	int fd = card_open();
	struct queue q;
	struct bo bo;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, queue_create(fd, 64, &q));
	ASSERT_EQ(0, bo_create(fd, MIB, DRM_OPENREG_BO_SYSTEM, &bo));
	packet_wait(&self->p, bo.address);
	queue_push(&q, &self->p);
	EXPECT_EQ(-ETIME, queue_wait(&q, 1, SEC_NS / 20));
	queue_unmap(&q);
	close(fd);
}

/* Closes the object while an endless packet uses it. */
static int close_in_use(int fd, struct queue *q, struct bo *bo)
{
	struct packet p;

	packet_endless(&p, bo->address, bo->address + 64);
	push_and_begin(q, &p);
	return bo_close(fd, bo->handle);
}

TEST_F(lifetime, closed_while_waiting)
{
	struct card_usage before = card_usage();
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM, &bo));
	packet_wait(&self->p, bo.address);
	queue_push(&self->q, &self->p);
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, SEC_NS / 10));
	ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, self->q.card->fault.code);
	EXPECT_TRUE(card_settles(before));
}

/* A packet cannot keep a closed buffer for ever: the driver stops its queue. */
TEST_F_TIMEOUT(lifetime, closed_and_kept, 120)
{
	struct card_usage before = card_usage();
	long long resets = card_stat("resets");
	struct queue other;
	struct bo bo;
	int i;

	ASSERT_EQ(0, driver_set_timeout("2000"));
	ASSERT_EQ(0, queue_create(self->fd, 64, &other));
	/* Try three times: it must work more than once. */
	for (i = 1; i <= 3; i++) {
		ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
				       &bo));
		ASSERT_EQ(0, close_in_use(self->fd, &self->q, &bo));
		EXPECT_EQ(-EIO, queue_wait(&self->q, i, 20 * SEC_NS));
		EXPECT_EQ(OPENREG_QUEUE_STOPPED, self->q.card->state);
		ASSERT_EQ(0, queue_reset(&self->q, self->q.tail, i));
	}
	ASSERT_EQ(0, driver_set_timeout("20000"));

	/* The queue, and the other queue that was stopped too, can be reset and go on. */
	packet_nop(&self->p);
	ASSERT_EQ(0, queue_reset(&other, 0, 0));
	EXPECT_EQ(0, queue_wait(&other, queue_push(&other, &self->p),
				20 * SEC_NS));
	EXPECT_EQ(0, queue_wait(&self->q, queue_push(&self->q, &self->p),
				20 * SEC_NS));
	queue_unmap(&other);
	ASSERT_EQ(0, queue_destroy(&other));
	EXPECT_TRUE(card_settles(before));
	EXPECT_EQ(resets, card_stat("resets"));
}

/* Several files keep closed buffers for ever: the queues of all of them are stopped. */
TEST_F_TIMEOUT(lifetime, closed_and_kept_by_many, 120)
{
	long long resets = card_stat("resets");
	struct queue q[8];
	struct bo bo[8];
	int i, fd[8];

	ASSERT_EQ(0, driver_set_timeout("2000"));
	for (i = 0; i < 8; i++) {
		fd[i] = card_open();
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, queue_create(fd[i], 64, &q[i]));
		ASSERT_EQ(0, bo_create(fd[i], 4096, DRM_OPENREG_BO_VRAM,
				       &bo[i]));
		packet_endless(&self->p, bo[i].address, bo[i].address + 64);
		queue_push(&q[i], &self->p);
	}
	/* Slices take 2 ms each, so by then every packet has had one. */
	await_compute(card_stat("compute_ns") + SEC_NS / 2);
	for (i = 0; i < 8; i++)
		ASSERT_EQ(0, bo_close(fd[i], bo[i].handle));
	for (i = 0; i < 8; i++) {
		EXPECT_EQ(-EIO, queue_wait(&q[i], 1, 20 * SEC_NS));
		EXPECT_EQ(OPENREG_QUEUE_STOPPED, q[i].card->state);
		queue_unmap(&q[i]);
		close(fd[i]);
	}
	ASSERT_EQ(0, driver_set_timeout("20000"));
	EXPECT_EQ(resets, card_stat("resets"));
}

/*
 * A queue keeps closed buffers in use. Commands for other files do not wait, although
 * they fill the admin ring several times, and the queue is not stopped early.
 */
TEST_F_TIMEOUT(lifetime, others_go_on_beside_it, 120)
{
	struct card_usage before = card_usage();
	long long resets = card_stat("resets");
	__s64 begin = now_ns();
	struct bo bo;
	int i, fd;

	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, close_in_use(self->fd, &self->q, &bo));

	fd = card_open();
	ASSERT_LE(0, fd);
	/* The queue may take twenty seconds. Others do not wait for that. */
	for (i = 0; i < 700 && now_ns() - begin < 8 * SEC_NS; i++) {
		ASSERT_EQ(0, bo_create(fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo));
		ASSERT_EQ(0, bo_close(fd, bo.handle));
	}
	close(fd);
	EXPECT_LT(20, i);
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, 0));
	EXPECT_EQ(before.vram_free - 4096, card_stat("vram_free"));
	ASSERT_EQ(0, queue_reset(&self->q, self->q.tail, 1));
	EXPECT_TRUE(card_settles(before));
	EXPECT_EQ(resets, card_stat("resets"));
}

enum victim { SHORT_PACKETS, LONG_PACKETS, WAITING, CHURN, VICTIMS };

static void victim_run(int fd, enum victim kind, struct queue *q,
		       struct packet *p)
{
	struct bo bo, reg;
	static char mem[65536];

	if (bo_create(fd, 4 * MIB, DRM_OPENREG_BO_VRAM, &bo) ||
	    bo_map(fd, &bo) || bo_register(fd, mem, sizeof(mem), 0, &reg))
		_exit(1);
	switch (kind) {
	case LONG_PACKETS:
		packet_endless(p, bo.address, bo.address + 64);
		break;
	case WAITING:
		packet_wait(p, bo.address);
		break;
	default:
		packet_copy(p, bo.address, reg.address, sizeof(mem),
			    OPENREG_U8);
	}
	for (;;) {
		queue_push(q, p);
		if (kind == CHURN) {
			bo_close(fd, bo.handle);
			bo_create(fd, 4 * MIB, DRM_OPENREG_BO_VRAM, &bo);
			packet_copy(p, bo.address, reg.address, sizeof(mem),
				    OPENREG_U8);
			queue_wait(q, q->seq, SEC_NS);
		}
	}
}

static void victim(enum victim kind)
{
	int fd = card_open();
	struct packet p;
	struct queue q;

	if (fd < 0 || queue_create(fd, 256, &q))
		_exit(1);
	victim_run(fd, kind, &q, &p);
}

TEST_F_TIMEOUT(lifetime, killed_a_hundred_times, 300)
{
	struct card_usage before = card_usage();
	int i, status;
	pid_t pid;

	for (i = 0; i < 100; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			victim(i % VICTIMS);
		usleep(20000 + i % 10 * 3000);
		/* Another file is served before, and right after the kill. */
		packet_nop(&self->p);
		ASSERT_EQ(0, queue_wait(&self->q, queue_push(&self->q,
							     &self->p),
					20 * SEC_NS));
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(0, queue_wait(&self->q, queue_push(&self->q,
							     &self->p),
					20 * SEC_NS));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			TH_LOG("victim %d ended by itself: 0x%x", i, status);
	}
	EXPECT_TRUE(card_settles(before));
}

TEST_HARNESS_MAIN
