// SPDX-License-Identifier: GPL-2.0-only
// test hostile not kselftest-checked: --device-prop x-inject=on --device-prop vectors=4 --device-prop workers=2
/*
 * A card that lies about queues, faults and interrupts. A process that waits gets a
 * result or can be killed, other processes go on, and after a reset the card works.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "kselftest_harness.h"

#include "inject.h"
#include "machine.h"

#define SHORT (SEC_NS / 20)
#define LONG (20 * SEC_NS)
#define TRACING "/sys/kernel/tracing/"

FIXTURE(hostile)
{
	struct card_usage before;
	int fd;
	int number; /* of the queue, on the card */
	struct queue q;
	struct packet nop;
};

FIXTURE_SETUP(hostile)
{
	ASSERT_EQ(0, inject_find()) TH_LOG("no card with x-inject=on");
	ASSERT_EQ(0, card_recovers());
	ASSERT_TRUE(card_is_idle());
	self->before = card_unused();
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	self->number = queue_create_numbered(self->fd, 1024, &self->q);
	ASSERT_LE(0, self->number);
	ASSERT_EQ(0, inject(INJECT_QUEUE, self->number));
	packet_nop(&self->nop);
}

FIXTURE_TEARDOWN(hostile)
{
	EXPECT_EQ(0, card_recovers());
	queue_unmap(&self->q);
	close(self->fd);
	EXPECT_TRUE(card_settles(self->before));
}

TEST_F(hostile, wrong_head)
{
	struct packet bad;
	__u32 mode;
	__u64 seq;

	packet_bad(&bad);
	for (mode = 1; mode <= 3; mode++) {
		ASSERT_EQ(0, inject(INJECT_HEAD, mode));
		EXPECT_EQ(0, small_work(&self->q, 5));
		/* The dump of this fault uses head to find the packet. */
		seq = queue_push_blindly(&self->q, &bad);
		EXPECT_EQ(-EIO, queue_wait(&self->q, seq, LONG));
		EXPECT_EQ(OPENREG_FAULT_PACKET, self->q.card->fault.code);
		EXPECT_EQ(0, others_work(5));
		EXPECT_EQ(0, queue_reset(&self->q, self->q.tail, seq));
		EXPECT_EQ(0, small_work(&self->q, 5));
	}
	ASSERT_EQ(0, inject(INJECT_HEAD, 0));
	EXPECT_EQ(0, small_work(&self->q, 1));
	EXPECT_EQ(self->q.tail, self->q.card->head);
}

TEST_F(hostile, completed_too_low)
{
	ASSERT_EQ(0, small_work(&self->q, 3));
	ASSERT_EQ(0, inject(INJECT_COMPLETED, 1));
	queue_push_blindly(&self->q, &self->nop);
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 4, SHORT));
	EXPECT_EQ(0, others_work(5));
	ASSERT_EQ(0, inject(INJECT_COMPLETED, 0));
	EXPECT_EQ(0, small_work(&self->q, 1));
	EXPECT_EQ(5, self->q.card->completed);
}

/* The driver believes the card, but nothing else in the kernel is affected. */
TEST_F(hostile, completed_too_high)
{
	struct queue other;

	ASSERT_EQ(0, inject(INJECT_COMPLETED, 2));
	queue_push_blindly(&self->q, &self->nop);
	EXPECT_EQ(0, queue_wait(&self->q, 1000, LONG));
	EXPECT_EQ(-EINVAL, queue_reset(&self->q, 1, 1));
	EXPECT_EQ(0, others_work(5));
	ASSERT_EQ(0, queue_create(self->fd, 64, &other));
	EXPECT_EQ(0, small_work(&other, 5));
	EXPECT_EQ(0, queue_destroy(&self->q));
	EXPECT_EQ(0, small_work(&other, 5));
	queue_unmap(&other);
}

TEST_F(hostile, random_completed_and_head)
{
	int i, ret;

	ASSERT_EQ(0, inject(INJECT_COMPLETED, 3));
	ASSERT_EQ(0, inject(INJECT_HEAD, 3));
	for (i = 0; i < 50; i++) {
		queue_push_blindly(&self->q, &self->nop);
		ret = queue_wait(&self->q, 1ull << (i + 1), SHORT / 50);
		EXPECT_TRUE(!ret || ret == -ETIME)
			TH_LOG("%s", strerror(-ret));
	}
	EXPECT_EQ(0, others_work(5));
}

/*
 * completed alternates between all ones and 0, and the card overwrites armed, which only
 * the kernel may write. No wait loops for ever, and a killed process dies.
 */
TEST_F_TIMEOUT(hostile, completed_alternates, 60)
{
	int i, ret, status;
	pid_t pid;

	ASSERT_EQ(0, inject(INJECT_PERIOD, 50));
	ASSERT_EQ(0, inject(INJECT_COMPLETED, COMPLETED_FLAPS));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		for (;;)
			queue_wait(&self->q, 1000, FOREVER);
	for (i = 0; i < 100; i++) {
		ret = queue_wait(&self->q, 1000, SHORT / 50);
		EXPECT_TRUE(!ret || ret == -ETIME)
			TH_LOG("%s", strerror(-ret));
	}
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(0, others_work(5));
}

TEST_F(hostile, wrong_state)
{
	const __u32 states[] = { 0xffffffff, 77, OPENREG_QUEUE_FAULTED,
				 OPENREG_QUEUE_STOPPED };
	struct queue q;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, inject(INJECT_QUEUE, -1));
		ASSERT_EQ(0, inject(INJECT_STATE, states[i]));
		ASSERT_EQ(0, queue_create(self->fd, 64, &q));
		EXPECT_EQ(-EIO, queue_wait(&q, 1, LONG));
		EXPECT_EQ(0, queue_reset(&q, 0, 0));
		EXPECT_EQ(-EIO, queue_wait(&q, 1, FOREVER));
		ASSERT_EQ(0, inject(INJECT_STATE, 0));
		EXPECT_EQ(0, queue_reset(&q, 0, 0));
		EXPECT_EQ(0, small_work(&q, 5));
		queue_unmap(&q);
		ASSERT_EQ(0, queue_destroy(&q));
	}
}

static int point_appears(int fd, struct queue *q, __u64 seq)
{
	__u32 syncobj;
	struct drm_syncobj_wait wait = {
		.handles = (uintptr_t)&syncobj,
		.timeout_nsec = now_ns() + LONG,
		.count_handles = 1,
		.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};
	int ret = syncobj_create(fd, &syncobj);

	if (!ret)
		ret = queue_signal(q, syncobj, seq, 0);
	return ret ? ret : card_ioctl(fd, DRM_IOCTL_SYNCOBJ_WAIT, &wait);
}

/* The packet runs long enough for the process to sleep. */
static void push_busy(struct queue *q, const struct bo *bo)
{
	struct packet p;

	packet_busy(&p, bo->address, bo->address + 64, 1 << 26);
	queue_push_blindly(q, &p);
}

/* Every wait ends, though late. */
TEST_F_TIMEOUT(hostile, interrupts_are_lost, 60)
{
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, inject(INJECT_IRQ, IRQ_LOST));
	push_busy(&self->q, &bo);
	EXPECT_EQ(0, queue_wait(&self->q, 1, FOREVER));
	push_busy(&self->q, &bo);
	EXPECT_EQ(0, point_appears(self->fd, &self->q, 2));
	/* Commands of the driver complete, too. */
	EXPECT_EQ(0, bo_close(self->fd, bo.handle));
	EXPECT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo));
}

static const __u32 periods[] = { 1000, 100, 20 };

/* Interrupts without a reason, rarely and as fast as the card can raise them. */
TEST_F_TIMEOUT(hostile, interrupts_for_nothing, 120)
{
	unsigned long long before;
	struct bo bo;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		before = interrupts();
		ASSERT_EQ(0, inject(INJECT_PERIOD, periods[i]));
		ASSERT_EQ(0, inject(INJECT_IRQ, IRQ_SPURIOUS));
		ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM,
				       &bo));
		push_busy(&self->q, &bo);
		EXPECT_EQ(0, queue_wait(&self->q, self->q.seq, LONG));
		EXPECT_EQ(-ETIME, queue_wait(&self->q, self->q.seq + 1, SHORT));
		EXPECT_EQ(0, small_work(&self->q, 20));
		EXPECT_EQ(0, others_work(20));
		ASSERT_EQ(0, bo_close(self->fd, bo.handle));
		while (interrupts() < before + 1000)
			usleep(1000);
		ASSERT_EQ(0, inject(INJECT_IRQ, 0));
	}
}

TEST_F_TIMEOUT(hostile, forged_faults, 60)
{
	unsigned long long before;
	__u32 mode;

	for (mode = 1; mode <= FAULT_FLOOD; mode++) {
		before = interrupts();
		ASSERT_EQ(0, inject(INJECT_PERIOD, 100));
		ASSERT_EQ(0, inject(INJECT_FAULT, mode));
		EXPECT_EQ(-ETIME, queue_wait(&self->q, self->q.seq + 1, SHORT));
		EXPECT_EQ(0, small_work(&self->q, 20));
		EXPECT_EQ(0, others_work(20));
		EXPECT_EQ(0, card_works());
		while (interrupts() == before)
			usleep(1000);
		ASSERT_EQ(0, inject(INJECT_FAULT, 0));
	}
}

/*
 * Counts the fault records that the driver has read since the trace was emptied. A record
 * of another queue counts as 1000.
 */
static int records_taken(int number)
{
	FILE *file = fopen(TRACING "trace", "r");
	char line[512], queue[32];
	int taken = 0;

	snprintf(queue, sizeof(queue), " queue=%d ", number);
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file))
		if (strstr(line, "openreg_fault:"))
			taken += strstr(line, queue) ? 1 : 1000;
	fclose(file);
	return taken;
}

/* The driver ignores these records, and they do not hide the true ones. */
TEST_F(hostile, fault_records_with_wrong_seq)
{
	unsigned long long before = interrupts();
	struct packet bad;
	__u64 seq;
	int i;

	mount("tracefs", TRACING, "tracefs", 0, NULL);
	ASSERT_EQ(0, file_put(TRACING "events/openreg/openreg_fault/enable",
			      "1"));
	ASSERT_EQ(0, truncate(TRACING "trace", 0));
	packet_bad(&bad);
	ASSERT_EQ(0, inject(INJECT_FAULT, FAULT_WRONG_SEQ));
	while (interrupts() == before)
		usleep(1000);
	/* A reset of a queue drains the fault ring first. */
	EXPECT_EQ(0, queue_reset(&self->q, self->q.tail, self->q.seq));
	EXPECT_EQ(0, records_taken(self->number));
	for (i = 1; i <= 5; i++) {
		seq = queue_push_blindly(&self->q, &bad);
		EXPECT_EQ(-EIO, queue_wait(&self->q, seq, LONG));
		EXPECT_EQ(0, others_work(5));
		EXPECT_EQ(0, queue_reset(&self->q, self->q.tail, seq));
		EXPECT_EQ(i, records_taken(self->number));
	}
	EXPECT_EQ(0, small_work(&self->q, 20));
	ASSERT_EQ(0, file_put(TRACING "events/openreg/openreg_fault/enable",
			      "0"));
}

static void *wait_for_two(void *data)
{
	return (void *)(intptr_t)queue_wait(data, 2, FOREVER);
}

/* After a reset the driver ignores all that the card writes for older queues. */
static void late_writes_are_ignored(struct __test_metadata *_metadata,
				    struct queue *q)
{
	struct bo bo;

	ASSERT_EQ(0, inject(INJECT_LATE, 1));
	EXPECT_EQ(1ull << 40, q->card->completed);
	EXPECT_EQ(OPENREG_QUEUE_RUNNING, q->card->state);
	EXPECT_EQ(-EIO, queue_wait(q, 2, FOREVER));
	EXPECT_EQ(0, queue_wait(q, 1, FOREVER));
	EXPECT_EQ(-EIO, queue_reset(q, 1, 1));
	EXPECT_EQ(-EIO, bo_create(q->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(0, card_works());
	EXPECT_EQ(0, others_work(5));
}

TEST_F(hostile, late_after_a_reset)
{
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, small_work(&self->q, 1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_two, &self->q));
	ASSERT_EQ(0, card_flr());
	pthread_join(thread, &result);
	EXPECT_EQ(-EIO, (intptr_t)result);
	late_writes_are_ignored(_metadata, &self->q);
}

/* The driver makes the reset, because an engine hangs. */
TEST_F_TIMEOUT(hostile, late_after_a_hang, 60)
{
	long long resets = card_stat("resets");
	struct bo vram, sys;

	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM, &vram));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_SYSTEM, &sys));
	ASSERT_EQ(0, small_work(&self->q, 1));
	ASSERT_TRUE(copy_stalls(&self->q, self->number,
				STALL_TILL_RESET, sys.address,
				vram.address));
	ASSERT_EQ(0, driver_set_timeout("1000"));
	EXPECT_EQ(-EIO, queue_reset(&self->q, self->q.tail, 2));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 2, FOREVER));
	EXPECT_EQ(resets + 1, card_stat("resets"));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
	late_writes_are_ignored(_metadata, &self->q);
	EXPECT_EQ(resets + 1, card_stat("resets"));
}

/* The queue was reset and goes on: the driver believes the card, for this queue only. */
TEST_F(hostile, late_after_a_queues_reset)
{
	long long resets = card_stat("resets");
	struct queue beside;
	struct packet bad;
	struct bo bo;
	__u64 seq;

	ASSERT_EQ(0, queue_create(self->fd, 64, &beside));
	packet_bad(&bad);
	seq = queue_push_blindly(&self->q, &bad);
	EXPECT_EQ(-EIO, queue_wait(&self->q, seq, LONG));
	EXPECT_EQ(0, queue_reset(&self->q, self->q.tail, seq));
	ASSERT_EQ(0, inject(INJECT_LATE, 1));
	EXPECT_EQ(1ull << 40, self->q.card->completed);
	EXPECT_EQ(0, queue_wait(&self->q, 1000, LONG));
	EXPECT_EQ(-EINVAL, queue_reset(&self->q, self->q.tail, seq));
	EXPECT_EQ(-ETIME, queue_wait(&beside, 1, SHORT));
	EXPECT_EQ(0, small_work(&beside, 5));
	EXPECT_EQ(0, others_work(5));
	EXPECT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(0, queue_destroy(&self->q));
	EXPECT_EQ(0, small_work(&beside, 5));
	EXPECT_EQ(0, card_works());
	EXPECT_EQ(resets, card_stat("resets"));
	queue_unmap(&beside);
}

/* The driver ignores a completion that the card wrote before it got the command. */
TEST_F_TIMEOUT(hostile, completion_before_the_command, 60)
{
	struct bo bo;

	ASSERT_EQ(0, driver_set_timeout("1000"));
	ASSERT_EQ(0, inject(INJECT_ADMIN, ADMIN_NEVER));
	ASSERT_EQ(0, inject(INJECT_LATE, 1));
	EXPECT_EQ(-EIO, bo_create(self->fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo));
}

TEST_HARNESS_MAIN
