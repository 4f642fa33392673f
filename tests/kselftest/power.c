// SPDX-License-Identifier: GPL-2.0-only
// test power: --mem 4G --cards 2 --monitor --standalone --device-prop x-inject=on --device pcie-root-port,id=empty,chassis=17,slot=17
/*
 * Suspend and resume of the system keep waits, VRAM and running packets. Shared
 * directories do not survive a suspend, so the tests need a VM with --standalone.
 * OPENREG_ROUNDS is the number of suspends in many_times (4).
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "card.h"
#include "machine.h"
#include "pair.h"

#define POWER "/sys/power/"

FIXTURE(power)
{
	struct card_usage before;
	long long resets;
	int fd;
	struct queue q;
	struct bo vram, sys, reg;
	float *mem;
	struct packet p;
	pthread_t thread;
};

#define FLOATS (1u << 20)
#define SIZE (FLOATS * sizeof(float))

FIXTURE_SETUP(power)
{
	unsigned int i;

	ASSERT_EQ(0, card_works());
	self->before = card_unused();
	self->resets = card_stat("resets");
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 16384, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, 3 * SIZE, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_create(self->fd, SIZE, DRM_OPENREG_BO_SYSTEM,
			       &self->sys));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->sys));
	self->mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->mem);
	ASSERT_EQ(0, bo_register(self->fd, self->mem, SIZE, 0, &self->reg));
	for (i = 0; i < FLOATS; i++)
		self->mem[i] = 1;
	packet_copy(&self->p, self->vram.address + SIZE, self->reg.address,
		    FLOATS, OPENREG_F32);
	ASSERT_EQ(0, queue_wait(&self->q, queue_push(&self->q, &self->p),
				20 * SEC_NS));
}

FIXTURE_TEARDOWN(power)
{
	/* Resume needed no reset. */
	EXPECT_EQ(self->resets, card_stat("resets"));
	queue_unmap(&self->q);
	munmap(self->vram.cpu, 3 * SIZE);
	munmap(self->sys.cpu, SIZE);
	munmap(self->mem, SIZE);
	close(self->fd);
	EXPECT_EQ(0, card_works());
	EXPECT_TRUE(card_settles(self->before));
}

static void *wait_for_last(void *data)
{
	struct queue *q = data;

	return (void *)(intptr_t)queue_wait(q, q->seq, FOREVER);
}

/* Pushes n times x += y. The sum is wrong if a packet runs twice, in part or never. */
static void push_sums(struct queue *q, const struct bo *vram, unsigned int n)
{
	struct packet p;

	packet_add(&p, vram->address, vram->address, vram->address + SIZE,
		   FLOATS);
	while (n--)
		queue_write(q, &p);
	queue_publish(q);
}

static unsigned int wrong_sums(const struct bo *vram, float want)
{
	const float *sums = vram->cpu;
	unsigned int i, bad = 0;

	for (i = 0; i < FLOATS; i += 61)
		bad += sums[i] != want;
	return bad;
}

#define SUMS 2500
#define LARGE (64 * MIB)

/*
 * All cases in one suspend, because a suspend takes long: a busy queue with a waiter, a
 * queue that waits for a word, a faulted queue, a syncobj point, the contents of VRAM,
 * a traced queue, and a closed buffer that a packet may still use.
 */
TEST_F_TIMEOUT(power, goes_on, 240)
{
	__u32 syncobj;
	__u64 point = 7;
	struct drm_syncobj_timeline_wait wait = {
		.handles = (uintptr_t)&syncobj,
		.points = (uintptr_t)&point,
		.count_handles = 1,
		.timeout_nsec = now_ns() + 200 * SEC_NS,
		.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};
	const struct openreg_trace_record *records = self->sys.cpu;
	struct queue waits, faulted, busy, traced;
	struct bo closed;
	void *result;
	__u32 *marks;

	ASSERT_EQ(0, queue_create(self->fd, 64, &waits));
	ASSERT_EQ(0, queue_create(self->fd, 64, &faulted));
	ASSERT_EQ(0, queue_create(self->fd, 64, &busy));
	ASSERT_EQ(0, queue_create(self->fd, 64, &traced));
	packet_trace(&self->p, self->sys.address, 4);
	queue_push(&traced, &self->p);
	packet_nop(&self->p);
	ASSERT_EQ(0, queue_wait(&traced, queue_push(&traced, &self->p), 20 * SEC_NS));
	marks = (__u32 *)self->vram.cpu + 2 * FLOATS;
	noise(marks + 16, SIZE - 64, 9);
	packet_wait(&self->p, self->vram.address + 2 * SIZE);
	queue_push(&waits, &self->p);
	packet_nop(&self->p);
	queue_push(&waits, &self->p);
	queue_push(&faulted, &self->p);
	packet_fill(&self->p, 0, 1, OPENREG_U8, 1);
	queue_push(&faulted, &self->p);
	ASSERT_EQ(-EIO, queue_wait(&faulted, 2, 20 * SEC_NS));
	ASSERT_EQ(0, syncobj_create(self->fd, &syncobj));
	ASSERT_EQ(0, queue_signal(&waits, syncobj, 2, point));
	ASSERT_EQ(0, bo_create(self->fd, LARGE, DRM_OPENREG_BO_VRAM, &closed));
	packet_fill(&self->p, closed.address, LARGE, OPENREG_U8, 1);

	push_sums(&self->q, &self->vram, SUMS);
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, wait_for_last,
				    &self->q));
	queue_push(&busy, &self->p);
	EXPECT_EQ(0, bo_close(self->fd, closed.handle));
	ASSERT_GT(self->q.seq, self->q.card->completed);
	ASSERT_EQ(0, machine_sleep());

	pthread_join(self->thread, &result);
	EXPECT_EQ(0, (intptr_t)result);
	EXPECT_EQ(0, wrong_sums(&self->vram, SUMS));
	EXPECT_TRUE(is_noise(marks + 16, SIZE - 64, 9));
	/* The packet that waits for a word gets it now. */
	EXPECT_EQ(0, waits.card->completed);
	EXPECT_EQ(-ETIME, queue_wait(&waits, 1, 0));
	*(volatile __u64 *)marks = 1;
	EXPECT_EQ(0, queue_wait(&waits, 2, 20 * SEC_NS));
	EXPECT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
				&wait));
	/* The fault is still reported, and the queue can be reset. */
	EXPECT_EQ(OPENREG_QUEUE_FAULTED, faulted.card->state);
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, faulted.card->fault.code);
	EXPECT_EQ(2, faulted.card->fault.seq);
	EXPECT_EQ(1, faulted.card->completed);
	EXPECT_EQ(-EIO, queue_wait(&faulted, 2, 20 * SEC_NS));
	EXPECT_EQ(0, queue_wait(&faulted, 1, 0));
	ASSERT_EQ(0, queue_reset(&faulted, faulted.tail, 2));
	packet_nop(&self->p);
	EXPECT_EQ(0, queue_wait(&faulted, queue_push(&faulted, &self->p),
				20 * SEC_NS));
	/* The trace goes on. */
	EXPECT_EQ(0, queue_wait(&traced, queue_push(&traced, &self->p), 20 * SEC_NS));
	EXPECT_EQ(2, traced.card->trace_written);
	EXPECT_EQ(3, records[1].seq);
	queue_unmap(&traced);
	/* Old addresses work in both directions. */
	packet_copy(&self->p, self->sys.address, self->vram.address, FLOATS,
		    OPENREG_F32);
	queue_push(&self->q, &self->p);
	packet_copy(&self->p, self->reg.address, self->sys.address, FLOATS,
		    OPENREG_F32);
	EXPECT_EQ(0, queue_wait(&self->q, queue_push(&self->q, &self->p),
				20 * SEC_NS));
	EXPECT_EQ((float)SUMS, self->mem[FLOATS - 1]);
	/* New objects can be created. */
	EXPECT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM, &closed));
	EXPECT_EQ(0, bo_close(self->fd, closed.handle));
	queue_unmap(&waits);
	queue_unmap(&faulted);
	queue_unmap(&busy);
}

FIXTURE(suspend)
{
	struct card_usage before;
	int fd;
	struct queue q;
	struct bo vram;
	struct packet p;
};

FIXTURE_SETUP(suspend)
{
	ASSERT_EQ(0, card_works());
	self->before = card_unused();
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
}

FIXTURE_TEARDOWN(suspend)
{
	queue_unmap(&self->q);
	close(self->fd);
	EXPECT_EQ(0, card_works());
	EXPECT_TRUE(card_settles(self->before));
}

/* A packet without end does not block a suspend: its queue faults with HANG. */
TEST_F_TIMEOUT(suspend, too_long, 120)
{
	long long resets = card_stat("resets");
	struct queue other;
	char text[8192];

	ASSERT_TRUE(dump_drop());
	ASSERT_EQ(0, queue_create(self->fd, 64, &other));
	packet_endless(&self->p, self->vram.address, self->vram.address + 64);
	queue_push(&self->q, &self->p);
	packet_nop(&self->p);
	queue_push(&other, &self->p);
	/* A timeout shorter than the suspend waits for packets must cause no reset. */
	ASSERT_EQ(0, driver_set_timeout("4000"));
	ASSERT_EQ(0, machine_sleep());
	EXPECT_EQ(0, driver_set_timeout("20000"));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_QUEUE_FAULTED, self->q.card->state);
	EXPECT_EQ(OPENREG_FAULT_HANG, self->q.card->fault.code);
	EXPECT_EQ(1, self->q.card->fault.seq);
	EXPECT_TRUE(dump_read(text, sizeof(text)));
	EXPECT_TRUE(strstr(text, "takes too long for the suspend") &&
		    strstr(text, "  VECTOR, "))
		TH_LOG("%s", text);
	EXPECT_TRUE(dump_drop());
	ASSERT_EQ(0, queue_reset(&self->q, self->q.tail, 1));
	EXPECT_EQ(0, queue_wait(&self->q, queue_push(&self->q, &self->p),
				20 * SEC_NS));
	EXPECT_EQ(0, queue_wait(&other, queue_push(&other, &self->p),
				20 * SEC_NS));
	EXPECT_EQ(resets, card_stat("resets"));
	queue_unmap(&other);
}

/* The card is idle, and no process has it open. */
TEST_F_TIMEOUT(suspend, no_open_file, 120)
{
	queue_unmap(&self->q);
	close(self->fd);
	ASSERT_EQ(0, machine_sleep());
	EXPECT_EQ(0, card_works());
	self->fd = card_open();
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
}

/* A card's driver refuses hibernation, which would lose VRAM. The card goes on. */
TEST_F_TIMEOUT(suspend, hibernation_is_refused, 240)
{
	char failed[64], path[128];

	ASSERT_EQ(0, file_put(POWER "pm_test", "devices"));
	EXPECT_EQ(-EOPNOTSUPP, file_put(POWER "state", "disk"));
	ASSERT_EQ(0, file_put(POWER "pm_test", "none"));
	ASSERT_EQ(0, file_get(POWER "suspend_stats/last_failed_dev", failed,
			      sizeof(failed)));
	snprintf(path, sizeof(path), PCI_DRIVER "%s", failed);
	EXPECT_EQ(0, access(path, F_OK)) TH_LOG("%s", failed);
	packet_nop(&self->p);
	EXPECT_EQ(0, queue_wait(&self->q, queue_push(&self->q, &self->p),
				20 * SEC_NS));
}

struct shared {
	volatile unsigned int turns;
	volatile int error;
};

/* No call may fail, and the copies must have the value. */
static int work_once(int fd, struct queue *q, const struct bo *vram,
		     const struct bo *sys, unsigned char value)
{
	struct packet p;
	struct bo extra;
	int ret;

	packet_fill(&p, vram->address, MIB, OPENREG_U8, value);
	queue_push(q, &p);
	packet_copy(&p, sys->address, vram->address, MIB, OPENREG_U8);
	queue_push(q, &p);
	ret = bo_create(fd, MIB, DRM_OPENREG_BO_SYSTEM, &extra);
	if (!ret) {
		packet_copy(&p, extra.address, vram->address, MIB, OPENREG_U8);
		queue_push(q, &p);
		ret = queue_wait(q, q->seq, FOREVER);
	}
	if (!ret)
		ret = bo_close(fd, extra.handle);
	if (!ret && (((unsigned char *)sys->cpu)[0] != value ||
		     ((unsigned char *)sys->cpu)[MIB - 1] != value))
		ret = -EBADMSG;
	return ret;
}

static void work(struct shared *shared, unsigned char value)
{
	struct bo vram, sys;
	struct queue q;
	int ret, fd;

	for (;;) {
		fd = card_open();
		ret = fd < 0 ? fd : queue_create(fd, 64, &q);
		if (!ret)
			ret = bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &vram);
		if (!ret)
			ret = bo_create(fd, MIB, DRM_OPENREG_BO_SYSTEM, &sys);
		if (!ret)
			ret = bo_map(fd, &sys);
		while (!ret && ++value % 16) {
			ret = work_once(fd, &q, &vram, &sys, value);
			__atomic_add_fetch(&shared->turns, 1,
					   __ATOMIC_RELAXED);
		}
		if (ret) {
			shared->error = ret;
			_exit(1);
		}
		queue_unmap(&q);
		munmap(sys.cpu, MIB);
		close(fd);
	}
}

#define USERS 3

/* Suspends again and again while other processes work. */
TEST_F_TIMEOUT(suspend, many_times, 86400)
{
	const char *text = getenv("OPENREG_ROUNDS");
	int i, rounds = text && atoi(text) > 0 ? atoi(text) : 4;
	struct shared *shared;
	pid_t pid[USERS];
	unsigned int from;

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	for (i = 0; i < USERS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			work(shared, i * 80);
	}
	for (i = 0;; i++) {
		from = shared->turns;
		while (shared->turns - from < 5 && !shared->error)
			usleep(1000);
		ASSERT_EQ(0, shared->error)
			TH_LOG("round %d: %s", i, strerror(-shared->error));
		if (i == rounds)
			break;
		ASSERT_EQ(0, machine_sleep());
	}
	for (i = 0; i < USERS; i++) {
		EXPECT_EQ(0, kill(pid[i], SIGKILL));
		EXPECT_EQ(pid[i], waitpid(pid[i], NULL, 0));
	}
}

struct seen {
	struct card_usage usage;
	long long resets;
};

/* Two cards. Each imports both kinds of memory of the other, and a udmabuf. */
FIXTURE(lent)
{
	struct seen before[2];
	struct end e[2];
	struct queue work[2];
	struct bo peer[2], system[2], host[2];
	void *memory;
};

static void read_usage(struct seen *seen)
{
	int i;

	for (i = 1; i >= 0; i--) {
		card_choose(i);
		seen[i].usage = card_unused();
		seen[i].resets = card_stat("resets");
	}
}

FIXTURE_SETUP(lent)
{
	int i, fd[2], db = udmabuf(2 * MIB, false, &self->memory);

	ASSERT_LE(0, db);
	read_usage(self->before);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, end_open(i ? SECOND : NODE, &self->e[i]));
		fd[i] = self->e[i].fd;
		ASSERT_EQ(0, queue_create(fd[i], 16384, &self->work[i]));
		ASSERT_EQ(0, bo_import(fd[i], db, &self->host[i]));
		noise(self->e[i].vram.cpu, MIB, 1 + i);
	}
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, bo_lend(fd[!i], self->e[!i].vram.handle, fd[i],
				     &self->peer[i]));
		ASSERT_EQ(0, bo_lend(fd[!i], self->e[!i].system.handle, fd[i],
				     &self->system[i]));
	}
	close(db);
	noise(self->memory, MIB, 3);
}

FIXTURE_TEARDOWN(lent)
{
	struct seen after[2];
	int i;

	for (i = 0; i < 2; i++) {
		queue_unmap(&self->work[i]);
		end_close(&self->e[i]);
	}
	read_usage(after);
	EXPECT_EQ(0, memcmp(after, self->before, sizeof(after)));
}

#define COPIES 2500

/*
 * Each card copies from the other's VRAM during the suspend. When a word of the udmabuf
 * is written after the resume, each copies from the udmabuf to the other's SYSTEM object.
 */
TEST_F_TIMEOUT(lent, is_kept, 240)
{
	volatile __u64 *word = (__u64 *)((char *)self->memory + MIB);
	struct packet p;
	int i, n;

	for (i = 0; i < 2; i++) {
		packet_wait(&p, self->host[i].address + MIB);
		queue_push(&self->e[i].q, &p);
		packet_copy(&p, self->system[i].address, self->host[i].address,
			    MIB, OPENREG_U8);
		queue_push(&self->e[i].q, &p);
		packet_copy(&p, self->e[i].system.address,
			    self->peer[i].address, MIB, OPENREG_U8);
		for (n = 0; n < COPIES; n++)
			queue_write(&self->work[i], &p);
		queue_publish(&self->work[i]);
		ASSERT_GT(COPIES, self->work[i].card->completed);
	}
	ASSERT_EQ(0, machine_sleep());

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, queue_wait(&self->work[i], COPIES, FOREVER));
		EXPECT_TRUE(is_noise(self->e[i].vram.cpu, MIB, 1 + i));
		EXPECT_TRUE(is_noise(self->e[i].system.cpu, MIB, 1 + !i));
		EXPECT_EQ(0, self->e[i].q.card->completed);
	}
	*word = 1;
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, queue_wait(&self->e[i].q, 2, 20 * SEC_NS));
		EXPECT_TRUE(is_noise(self->e[!i].system.cpu, MIB, 3));
	}
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, bo_map(self->e[i].fd, &self->peer[i]));
		noise(self->peer[i].cpu, MIB, 4 + i);
		munmap(self->peer[i].cpu, MIB);
		EXPECT_EQ(0, card_copy(&self->e[!i].q, self->host[!i].address,
				       self->e[!i].vram.address, MIB));
		EXPECT_TRUE(is_noise(self->memory, MIB, 4 + i));
	}
}

TEST_HARNESS_MAIN
