// SPDX-License-Identifier: GPL-2.0-only
// test isolation-stall not kselftest-checked: as memory
/*
 * An attacker keeps the card and the driver busy with one kind of work, in a loop. A
 * victim goes on: its results are right, and none of its calls fails. Each has a doorbell
 * page; both share one interrupt vector.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kselftest_harness.h"

#include "card.h"

#define ROUNDS 100
#define COUNT 1024 /* floats */
#define LONG (60 * SEC_NS)
#define QUEUES 16
#define LARGE (1ull << 22)

struct attacker {
	int fd;
	struct queue q[QUEUES];
	struct bo memory; /* source and destination of a large copy */
	__u32 syncobj;
	__u64 steps;
};

/* Does one step. Returns 0 or -errno. */
typedef int attack_fn(struct attacker *a);

static struct queue *next_queue(struct attacker *a, unsigned int queues)
{
	return &a->q[a->steps % queues];
}

/* Writes of all sizes, anywhere in the doorbell page. */
static int ring_doorbells(struct attacker *a)
{
	unsigned int i, at;
	char *page = (char *)a->q[0].doorbell;

	for (i = 0; i < 256; i++) {
		at = rand() & 4095;
		switch (i % 4) {
		case 0:
			*(volatile __u8 *)(page + at) = rand();
			break;
		case 1:
			*(volatile __u16 *)(page + (at & ~1)) = rand();
			break;
		case 2:
			*(volatile __u32 *)(page + (at & ~3)) = rand();
			break;
		default:
			*(volatile __u64 *)(page + (at & ~7)) = -1ull << at % 64;
		}
	}
	return 0;
}

static int fault(struct attacker *a)
{
	struct queue *q = next_queue(a, 2);
	struct packet p;
	__u64 seq;

	if (a->steps & 2)
		packet_bad(&p);
	else
		packet_fill(&p, a->memory.address + a->memory.size, 1,
			    OPENREG_U8, 0);
	seq = queue_push(q, &p);
	if (queue_wait(q, seq, LONG) != -EIO)
		return -EPROTO;
	return queue_reset(q, q->tail, seq);
}

static int make_objects(struct attacker *a)
{
	const __u32 flags = a->steps & 1 ? DRM_OPENREG_BO_VRAM :
					   DRM_OPENREG_BO_SYSTEM;
	struct bo bo;
	int ret = bo_create(a->fd, MIB, flags, &bo);

	return ret ? ret : bo_close(a->fd, bo.handle);
}

/* Destroys a queue before its packet completes. */
static int make_queues(struct attacker *a)
{
	struct packet p;
	struct queue q;
	int ret = queue_create(a->fd, 64, &q);

	if (ret)
		return ret;
	packet_busy(&p, a->memory.address, a->memory.address + 64, LARGE);
	queue_push(&q, &p);
	queue_unmap(&q);
	return queue_destroy(&q);
}

static int make_points(struct attacker *a)
{
	struct queue *q = &a->q[0];
	struct packet p;
	__u64 seq;
	int i, ret = 0;

	packet_nop(&p);
	for (i = 0; i < 64 && !ret; i++) {
		seq = q->seq + 1 + i;
		ret = queue_signal(q, a->syncobj, seq, seq);
	}
	for (i = 0; i < 64; i++)
		queue_push(q, &p);
	return ret ? ret : queue_wait(q, q->seq, LONG);
}

/* The rings are never empty. */
static int copy(struct attacker *a)
{
	struct packet p;

	packet_copy(&p, a->memory.address, a->memory.address + LARGE, LARGE,
		    OPENREG_U8);
	return queue_push(next_queue(a, 4), &p) ? 0 : -EIO;
}

static int compute(struct attacker *a)
{
	struct packet p;

	packet_busy(&p, a->memory.address, a->memory.address + 64, LARGE);
	return queue_push(next_queue(a, 4), &p) ? 0 : -EIO;
}

/* All queues but one wait for a word; the one signals another word again and again. */
static int wait_in_vain(struct attacker *a)
{
	struct queue *q = &a->q[1 + a->steps % (QUEUES - 1)];
	struct packet p;
	int i;

	packet_word(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET,
		    a->memory.address + 64);
	for (i = 0; i < 16; i++)
		if (!queue_push(&a->q[0], &p))
			return -EIO;
	packet_wait(&p, a->memory.address);
	queue_push(q, &p);
	return q->seq == 1 ? 0 : queue_reset(q, q->tail - 1, q->seq - 1);
}

/* Closes a file with a running and a waiting packet. It reuses the last doorbell page. */
static int come_and_go(struct attacker *a)
{
	struct packet p;
	struct queue q;
	int ret, fd = card_open();
	struct bo bo;

	if (fd < 0)
		return fd;
	do
		ret = queue_create(fd, 64, &q);
	while (ret == -ENOSPC);
	if (!ret)
		ret = bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &bo);
	if (ret)
		return ret;
	packet_endless(&p, bo.address, bo.address + 64);
	queue_push(&q, &p);
	packet_wait(&p, bo.address);
	queue_push(&q, &p);
	queue_unmap(&q);
	return close(fd) ? -errno : 0;
}

FIXTURE(stall)
{
	struct card_usage before;
	volatile __u64 *steps; /* of the attacker */
	pid_t attacker;
	int fd;
	struct queue q;
	struct bo sys;
};

FIXTURE_VARIANT(stall)
{
	attack_fn *attack;
	unsigned int queues;
	unsigned int steps; /* least number that the attacker must make meanwhile */
};

FIXTURE_VARIANT_ADD(stall, doorbells) { ring_doorbells, 1, 20 };
FIXTURE_VARIANT_ADD(stall, faults) { fault, 2, 50 };
FIXTURE_VARIANT_ADD(stall, objects) { make_objects, 0, 50 };
FIXTURE_VARIANT_ADD(stall, queues) { make_queues, 0, 50 };
FIXTURE_VARIANT_ADD(stall, points) { make_points, 1, 20 };
/* These make more packets than fit into the rings. */
FIXTURE_VARIANT_ADD(stall, copies) { copy, 4, 300 };
FIXTURE_VARIANT_ADD(stall, computing) { compute, 4, 150 };
FIXTURE_VARIANT_ADD(stall, waits) { wait_in_vain, QUEUES, 50 };
FIXTURE_VARIANT_ADD(stall, contexts) { come_and_go, 0, 20 };

static int attacker_open(struct attacker *a, unsigned int queues)
{
	unsigned int i;
	int ret = 0;

	a->fd = card_open();
	if (a->fd < 0)
		return a->fd;
	for (i = 0; i < queues && !ret; i++)
		ret = queue_create(a->fd, 64, &a->q[i]);
	if (!ret)
		ret = bo_create(a->fd, 2 * LARGE, DRM_OPENREG_BO_VRAM,
				&a->memory);
	return ret ? ret : syncobj_create(a->fd, &a->syncobj);
}

/* Never returns. */
static void attack(attack_fn *step, unsigned int queues, volatile __u64 *steps,
		   pid_t parent)
{
	static struct attacker a;
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	ret = attacker_open(&a, queues);
	while (!ret) {
		ret = step(&a);
		*steps = ++a.steps;
	}
	fprintf(stderr, "# attacker, step %llu: %s\n", a.steps, strerror(-ret));
	_exit(1);
}

FIXTURE_SETUP(stall)
{
	pid_t parent = getpid();
	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, shared);
	self->steps = shared;
	self->before = card_unused();
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, 3 * COUNT * 4, DRM_OPENREG_BO_SYSTEM,
			       &self->sys));
	ASSERT_EQ(0, bo_map(self->fd, &self->sys));
	self->attacker = fork();
	ASSERT_LE(0, self->attacker);
	if (!self->attacker)
		attack(variant->attack, variant->queues, self->steps, parent);
}

FIXTURE_TEARDOWN(stall)
{
	int status;

	kill(self->attacker, SIGKILL);
	EXPECT_EQ(self->attacker, waitpid(self->attacker, &status, 0));
	/* The attacker worked until it was killed. */
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	queue_unmap(&self->q);
	munmap(self->sys.cpu, self->sys.size);
	munmap((void *)self->steps, 4096);
	close(self->fd);
	EXPECT_TRUE(card_settles(self->before));
}

static bool is_sum(const float *v, unsigned int round)
{
	unsigned int i;

	for (i = 0; i < COUNT; i++)
		if (v[i] != 3.0f * i + round)
			return false;
	return true;
}

static int launch(struct queue *q, const struct bo *sys, const struct bo *vram)
{
	const __u64 a = vram->address, len = COUNT * 4;
	struct packet p;

	packet_copy(&p, a, sys->address, 2 * COUNT, OPENREG_F32);
	queue_write(q, &p);
	packet_add(&p, a + 2 * len, a, a + len, COUNT);
	queue_write(q, &p);
	packet_copy(&p, sys->address + 2 * len, a + 2 * len, COUNT,
		    OPENREG_F32);
	return queue_wait(q, queue_push(q, &p), LONG);
}

/* Creates memory, runs packets, waits for them, checks the result. */
static int work(FIXTURE_DATA(stall) *self, unsigned int round)
{
	float *v = self->sys.cpu;
	unsigned int i;
	struct bo vram;
	int ret;

	for (i = 0; i < COUNT; i++) {
		v[i] = i + round;
		v[COUNT + i] = 2.0f * i;
		v[2 * COUNT + i] = -1;
	}
	ret = bo_create(self->fd, 3 * COUNT * 4, DRM_OPENREG_BO_VRAM, &vram);
	if (ret)
		return ret;
	ret = launch(&self->q, &self->sys, &vram);
	if (!ret && !is_sum(v + 2 * COUNT, round))
		ret = -EILSEQ;
	return ret ? ret : bo_close(self->fd, vram.handle);
}

TEST_F_TIMEOUT(stall, goes_on, 200)
{
	unsigned int round = 0;
	__u64 first;

	while (!*self->steps && !waitpid(self->attacker, NULL, WNOHANG))
		usleep(1000);
	first = *self->steps;
	ASSERT_LT(0, first);
	while (round < ROUNDS || *self->steps - first < variant->steps) {
		ASSERT_EQ(0, work(self, round)) TH_LOG("round %u", round);
		round++;
	}
	TH_LOG("%u rounds beside %llu steps", round, *self->steps - first);
}

TEST_HARNESS_MAIN
