// SPDX-License-Identifier: GPL-2.0-only
// test queue-iommu not kselftest-checked: --cards 2 --iommu
/* Queues: raw packets, waits, faults, resets. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "card.h"

FIXTURE(queue)
{
	int fd;
	struct queue q;
	struct packet p;
	struct bo vram;
	struct bo sys;
};

FIXTURE_SETUP(queue)
{
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, queue_create(self->fd, 256, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_SYSTEM,
			       &self->sys));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->sys));
}

FIXTURE_TEARDOWN(queue)
{
	close(self->fd);
}

TEST_F(queue, nop_spinning)
{
	packet_nop(&self->p);
	ASSERT_EQ(1, queue_push(&self->q, &self->p));
	ASSERT_EQ(0, queue_spin(&self->q, 1));
	EXPECT_EQ(1, self->q.card->head);
	EXPECT_EQ(OPENREG_QUEUE_RUNNING, self->q.card->state);
}

TEST_F(queue, nop_asleep)
{
	int i;

	packet_nop(&self->p);
	for (i = 1; i <= 1000; i++) {
		ASSERT_EQ(i, queue_push(&self->q, &self->p));
		ASSERT_EQ(0, queue_wait(&self->q, i, 20 * SEC_NS));
	}
}

TEST_F(queue, ring_goes_round)
{
	__u64 seq = 0;
	int i;

	for (i = 0; i < 5000; i++) {
		if (i % 3)
			packet_nop(&self->p);
		else
			packet_fill(&self->p, self->vram.address, 1,
				    OPENREG_I32, i);
		seq = queue_push(&self->q, &self->p);
	}
	ASSERT_EQ(0, queue_wait(&self->q, seq, 20 * SEC_NS));
	EXPECT_EQ(seq, self->q.card->completed);
	EXPECT_EQ(4998, *(int *)self->vram.cpu);
}

TEST_F(queue, copy_both_ways)
{
	__u32 *sys = self->sys.cpu, *vram = self->vram.cpu;
	unsigned int i, n = MIB / 8;
	__u64 seq;

	for (i = 0; i < n; i++)
		sys[i] = i * 2654435761u;
	packet_copy(&self->p, self->vram.address, self->sys.address, n,
		    OPENREG_I32);
	queue_write(&self->q, &self->p);
	packet_copy(&self->p, self->sys.address + n * 4, self->vram.address, n,
		    OPENREG_I32);
	seq = queue_push(&self->q, &self->p);
	ASSERT_EQ(0, queue_wait(&self->q, seq, 20 * SEC_NS));
	for (i = 0; i < n; i++) {
		ASSERT_EQ(i * 2654435761u, vram[i]);
		ASSERT_EQ(i * 2654435761u, sys[n + i]);
	}
}

TEST_F(queue, vector_adds)
{
	float *v = self->vram.cpu;
	__u64 seq, a = self->vram.address;
	int i;

	for (i = 0; i < 1000; i++) {
		v[i] = i;
		v[1000 + i] = 0.5f * i;
	}
	packet_add(&self->p, a + 8000, a, a + 4000, 1000);
	seq = queue_push(&self->q, &self->p);
	ASSERT_EQ(0, queue_wait(&self->q, seq, 20 * SEC_NS));
	for (i = 0; i < 1000; i++)
		ASSERT_EQ(1.5f * i, v[2000 + i]);
}

TEST_F(queue, wait_times_out)
{
	__s64 before = now_ns();

	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, 0));
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, -1));
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, SEC_NS / 50));
	EXPECT_LE(before + SEC_NS / 50, now_ns());
	EXPECT_EQ(0, queue_wait(&self->q, 0, 0));
}

TEST_F(queue, wait_reports_the_counter)
{
	struct drm_openreg_queue_wait args = { .queue = self->q.id, .seq = 3 };

	packet_nop(&self->p);
	queue_push(&self->q, &self->p);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(0, queue_wait(&self->q, 2, 20 * SEC_NS));
	EXPECT_EQ(-ETIME, card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUEUE_WAIT,
				     &args));
	EXPECT_EQ(2, args.completed);
}

static void ignore(int sig)
{
}

static void *interrupt_later(void *thread)
{
	usleep(50000);
	pthread_kill(*(pthread_t *)thread, SIGUSR1);
	return NULL;
}

TEST_F(queue, signal_interrupts_a_wait)
{
	struct sigaction action = { .sa_handler = ignore };
	struct drm_openreg_queue_wait args = {
		.queue = self->q.id, .seq = 1, .timeout_ns = FOREVER,
	};
	pthread_t me = pthread_self(), other;

	sigaction(SIGUSR1, &action, NULL);
	ASSERT_EQ(0, pthread_create(&other, NULL, interrupt_later, &me));
	EXPECT_EQ(-1, ioctl(self->fd, DRM_IOCTL_OPENREG_QUEUE_WAIT, &args));
	EXPECT_EQ(EINTR, errno);
	pthread_join(other, NULL);
}

/* Each of twenty threads waits for another packet of one queue. */
struct sleeper {
	struct queue *q;
	__u64 seq;
	pthread_t thread;
	int result;
};

static void *sleep_on(void *data)
{
	struct sleeper *s = data;

	s->result = queue_wait(s->q, s->seq, 20 * SEC_NS);
	return NULL;
}

TEST_F(queue, many_sleepers)
{
	struct sleeper s[20];
	int i;

	for (i = 0; i < 20; i++) {
		s[i] = (struct sleeper) { .q = &self->q, .seq = 20 - i };
		ASSERT_EQ(0, pthread_create(&s[i].thread, NULL, sleep_on,
					    &s[i]));
	}
	packet_nop(&self->p);
	for (i = 0; i < 20; i++) {
		usleep(1000);
		queue_push(&self->q, &self->p);
	}
	for (i = 0; i < 20; i++) {
		pthread_join(s[i].thread, NULL);
		EXPECT_EQ(0, s[i].result);
	}
}

TEST_F(queue, destroy_wakes_sleepers)
{
	struct sleeper s = { .q = &self->q, .seq = 1 };

	ASSERT_EQ(0, pthread_create(&s.thread, NULL, sleep_on, &s));
	usleep(50000);
	EXPECT_EQ(0, queue_destroy(&self->q));
	pthread_join(s.thread, NULL);
	EXPECT_EQ(-EIO, s.result);
	EXPECT_EQ(-ENOENT, queue_wait(&self->q, 1, 0));
}

TEST_F(queue, fault_names_packet_operand_address)
{
	const volatile struct openreg_fault_summary *fault =
		&self->q.card->fault;
	__u64 bad = self->vram.address + self->vram.size - 4 * 99;

	packet_nop(&self->p);
	queue_push(&self->q, &self->p);
	packet_copy(&self->p, self->sys.address, bad, 100, OPENREG_I32);
	packet_header(&self->p)->cookie = 0xc001;
	ASSERT_EQ(2, queue_push(&self->q, &self->p));

	EXPECT_EQ(-EIO, queue_wait(&self->q, 2, 20 * SEC_NS));
	EXPECT_EQ(0, queue_wait(&self->q, 1, 0));
	EXPECT_EQ(OPENREG_QUEUE_FAULTED, self->q.card->state);
	EXPECT_EQ(OPENREG_FAULT_BOUNDS, fault->code);
	EXPECT_EQ(1, fault->operand);
	EXPECT_EQ(2, fault->seq);
	EXPECT_EQ(OPENREG_OP_COPY, fault->opcode);
	EXPECT_EQ(0xc001, fault->cookie);
	EXPECT_EQ(1, self->q.card->completed);
}

/* A thread sleeps when the fault comes. A second wait comes after the fault. */
TEST_F(queue, fault_wakes_sleepers)
{
	struct sleeper s = { .q = &self->q, .seq = 1 };

	ASSERT_EQ(0, pthread_create(&s.thread, NULL, sleep_on, &s));
	usleep(50000);
	packet_copy(&self->p, 0x1234, self->vram.address, 1, OPENREG_I32);
	queue_push(&self->q, &self->p);
	pthread_join(s.thread, NULL);
	EXPECT_EQ(-EIO, s.result);
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, self->q.card->fault.code);
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 20 * SEC_NS));
}

TEST_F(queue, reset_goes_on_after_a_fault)
{
	packet_bad(&self->p);
	ASSERT_EQ(1, queue_push(&self->q, &self->p));
	ASSERT_EQ(-EIO, queue_wait(&self->q, 1, 20 * SEC_NS));

	ASSERT_EQ(0, queue_reset(&self->q, 1, 1));
	EXPECT_EQ(1, self->q.card->completed);
	EXPECT_EQ(0, queue_wait(&self->q, 1, 0));
	packet_nop(&self->p);
	ASSERT_EQ(2, queue_push(&self->q, &self->p));
	EXPECT_EQ(0, queue_wait(&self->q, 2, 20 * SEC_NS));
	EXPECT_EQ(-EINVAL, queue_reset(&self->q, 2, 1));
}

TEST_F(queue, reset_past_the_tail_faults)
{
	packet_nop(&self->p);
	ASSERT_EQ(1, queue_push(&self->q, &self->p));
	ASSERT_EQ(0, queue_wait(&self->q, 1, 20 * SEC_NS));
	ASSERT_EQ(0, queue_reset(&self->q, 1000000, 1));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 2, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_RING, self->q.card->fault.code);
}

/* A reset also skips the running packet. */
TEST_F(queue, reset_of_a_busy_queue)
{
	packet_endless(&self->p, self->vram.address, self->vram.address + 64);
	ASSERT_EQ(1, queue_push(&self->q, &self->p));
	packet_nop(&self->p);
	ASSERT_EQ(2, queue_push(&self->q, &self->p));
	ASSERT_EQ(0, queue_reset(&self->q, self->q.tail, 2));
	EXPECT_EQ(2, self->q.card->completed);
	ASSERT_EQ(3, queue_push(&self->q, &self->p));
	EXPECT_EQ(0, queue_wait(&self->q, 3, 20 * SEC_NS));
}

/* Skipped packets count as completed, so waits for them return 0. */
TEST_F(queue, reset_completes_for_sleepers)
{
	struct sleeper s[4];
	int i, k;

	packet_busy(&self->p, self->vram.address, self->vram.address + 64,
		    1ull << 36);
	for (i = 1; i <= 40; i += 2) {
		ASSERT_EQ(i, queue_push(&self->q, &self->p));
		ASSERT_EQ(i + 1, queue_push(&self->q, &self->p));
		for (k = 0; k < 4; k++) {
			s[k] = (struct sleeper) { .q = &self->q,
						  .seq = i + k % 2 };
			ASSERT_EQ(0, pthread_create(&s[k].thread, NULL,
						    sleep_on, &s[k]));
		}
		usleep(i * 1000);
		ASSERT_EQ(0, queue_reset(&self->q, self->q.tail, i + 1));
		for (k = 0; k < 4; k++) {
			pthread_join(s[k].thread, NULL);
			EXPECT_EQ(0, s[k].result);
		}
	}
}

TEST_F(queue, fault_is_of_one_queue)
{
	struct queue other, foreign;
	int fd = card_open();

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &other));
	ASSERT_EQ(0, queue_create(fd, 64, &foreign));
	packet_bad(&self->p);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(-EIO, queue_wait(&self->q, 1, 20 * SEC_NS));

	packet_nop(&self->p);
	queue_push(&other, &self->p);
	queue_push(&foreign, &self->p);
	EXPECT_EQ(0, queue_wait(&other, 1, 20 * SEC_NS));
	EXPECT_EQ(0, queue_wait(&foreign, 1, 20 * SEC_NS));
	close(fd);
}

/* An address of another file's object faults. */
TEST_F(queue, foreign_address_faults)
{
	int i, fd = card_open();
	struct queue foreign;
	struct bo bo;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, queue_create(fd, 64, &foreign));
	ASSERT_EQ(0, bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	for (i = 0; bo.address <= self->sys.address && i < 10; i++)
		ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM,
				       &bo));
	packet_copy(&self->p, self->sys.address, bo.address, 1, OPENREG_I32);
	queue_push(&foreign, &self->p);
	EXPECT_EQ(-EIO, queue_wait(&foreign, 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, foreign.card->fault.code);
	close(fd);
}

TEST_F(queue, stale_address_faults)
{
	__u64 stale = self->vram.address;
	struct bo next;

	ASSERT_EQ(0, bo_close(self->fd, self->vram.handle));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM, &next));
	EXPECT_NE(stale, next.address);
	packet_copy(&self->p, self->sys.address, stale, 1, OPENREG_I32);
	queue_push(&self->q, &self->p);
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, self->q.card->fault.code);
	EXPECT_EQ(stale, self->q.card->fault.address);
}

TEST_F(queue, ring_overrun_faults)
{
	self->q.user->tail = 257;
	__asm__ volatile("mfence" ::: "memory");
	*self->q.doorbell = 1;
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_RING, self->q.card->fault.code);
}

/* The ring of a trace is memory of the file: another file's address faults. */
TEST_F(queue, trace)
{
	const struct openreg_trace_record *records = self->sys.cpu;
	struct queue foreign;
	struct bo next;
	int fd = card_open();

	packet_trace(&self->p, self->sys.address, 4);
	queue_push(&self->q, &self->p);
	packet_nop(&self->p);
	queue_push(&self->q, &self->p);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(0, queue_wait(&self->q, 3, 20 * SEC_NS));
	EXPECT_EQ(2, self->q.card->trace_written);
	EXPECT_EQ(2, records[0].seq);
	EXPECT_EQ(3, records[1].seq);
	EXPECT_LE(records[0].begin, records[0].end);
	EXPECT_LE(records[0].end, records[1].begin);
	EXPECT_EQ(0, records[2].seq);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, queue_create(fd, 64, &foreign));
	packet_trace(&self->p, self->sys.address, 4);
	queue_push(&foreign, &self->p);
	EXPECT_EQ(-EIO, queue_wait(&foreign, 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, foreign.card->fault.code);
	close(fd);

	/* A ring that is closed loses records. The card has unbound it before it binds next. */
	ASSERT_EQ(0, bo_close(self->fd, self->sys.handle));
	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_SYSTEM, &next));
	packet_nop(&self->p);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(0, queue_wait(&self->q, 4, 20 * SEC_NS));
	EXPECT_EQ(2, self->q.card->trace_written);
	EXPECT_EQ(1, self->q.card->trace_lost);
}

TEST_F(queue, card_page_is_read_only)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			 self->fd, self->q.args.card_offset);

	EXPECT_EQ(MAP_FAILED, map);
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect((void *)self->q.card, 4096,
			       PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
}

TEST_F(queue, queue_pages_are_of_one_file)
{
	int fd = card_open();

	ASSERT_LE(0, fd);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, self->q.args.user_offset));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(0, queue_destroy(&self->q));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				   MAP_SHARED, self->fd,
				   self->q.args.user_offset));
	/* Old mappings stay. */
	self->q.user->tail = 1;
	EXPECT_EQ(1, self->q.user->tail);
	close(fd);
}

TEST_F(queue, numbers_are_not_used_again)
{
	__u32 id = self->q.id;
	struct queue next;

	ASSERT_EQ(0, queue_destroy(&self->q));
	ASSERT_EQ(0, queue_create(self->fd, 64, &next));
	EXPECT_NE(id, next.id);
	EXPECT_EQ(-ENOENT, queue_destroy(&self->q));
}

TEST_F(queue, as_many_as_the_card_has)
{
	struct drm_openreg_queue_create args;
	struct drm_openreg_device_info info;
	unsigned int n;
	int ret = 0;

	ASSERT_EQ(0, card_info(self->fd, &info));
	for (n = 1; n <= info.max_queues && !ret; n++) {
		args = (struct drm_openreg_queue_create) {
			.slots = 64, .priority = 1 };
		ret = card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUEUE_CREATE,
				 &args);
	}
	EXPECT_EQ(-ENOSPC, ret);
	EXPECT_EQ(info.max_queues, n - 1);
}

TEST_F(queue, timestamps_are_in_order)
{
	struct drm_openreg_timestamp a = {}, b = {};

	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_OPENREG_TIMESTAMP, &a));
	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_OPENREG_TIMESTAMP, &b));
	EXPECT_LE(a.cpu_before, a.cpu_after);
	EXPECT_LE(a.cpu_after, b.cpu_before);
	EXPECT_LT(0, a.card);
	EXPECT_LE(a.card, b.card);
}

TEST_HARNESS_MAIN
