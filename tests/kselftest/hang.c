// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets that never end: who waits gets ETIME, the queue is reset alone, nobody's
 * exit waits, and others do not notice. An engine that hangs costs a reset.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "inject.h"
#include "machine.h"

#define SHORT (SEC_NS / 20)
#define LONG (20 * SEC_NS)

struct stage {
	struct card_usage before;
	int fd;
	int number; /* the card's, of the queue */
	struct queue q;
	struct bo vram;
	struct bo sys;
};

static int stage_open(struct stage *s)
{
	int ret = inject_find();

	if (!ret)
		ret = card_recovers();
	if (!ret)
		ret = card_is_idle() ? 0 : -EBUSY;
	if (ret)
		return ret;
	s->before = card_unused();
	s->fd = card_open();
	if (s->fd < 0)
		return s->fd;
	s->number = queue_create_numbered(s->fd, 1024, &s->q);
	if (s->number < 0)
		return s->number;
	ret = bo_create(s->fd, MIB, DRM_OPENREG_BO_VRAM, &s->vram);
	return ret ? ret : bo_create(s->fd, MIB, DRM_OPENREG_BO_SYSTEM,
				     &s->sys);
}

/* Afterwards the card works, and nothing is left of this. */
static bool stage_close(struct stage *s)
{
	int ret = card_recovers();

	queue_unmap(&s->q);
	close(s->fd);
	return card_settles(s->before) && !ret;
}

FIXTURE(hang)
{
	struct stage s;
};

FIXTURE_SETUP(hang)
{
	ASSERT_EQ(0, stage_open(&self->s));
}

FIXTURE_TEARDOWN(hang)
{
	EXPECT_TRUE(stage_close(&self->s));
}

enum endless { WAITS, COMPUTES, IS_NOT_SEEN };

FIXTURE_VARIANT(hang)
{
	enum endless kind;
};

FIXTURE_VARIANT_ADD(hang, waits) { .kind = WAITS };
FIXTURE_VARIANT_ADD(hang, computes) { .kind = COMPUTES };
FIXTURE_VARIANT_ADD(hang, is_not_seen) { .kind = IS_NOT_SEEN };

/* The queue is this process's, its number the card's. */
static void push_endless(struct queue *q, int number, enum endless kind,
			 __u64 address)
{
	struct packet p;

	switch (kind) {
	case WAITS:
		packet_wait(&p, address);
		break;
	case COMPUTES:
		packet_busy(&p, address, address + 64, 1ull << 36);
		break;
	default:
		inject(INJECT_QUEUE, number);
		inject(INJECT_STALL, STALL_DEAF);
		packet_nop(&p);
	}
	queue_push_blindly(q, &p);
}

/* One queue stands still: it is told so, can be reset, and is alone in it. */
TEST_F_TIMEOUT(hang, one_queue, 60)
{
	long long resets = card_stat("resets");
	struct stage *s = &self->s;
	struct queue beside;
	__s64 begin;

	ASSERT_EQ(0, queue_create(s->fd, 1024, &beside));
	push_endless(&s->q, s->number, variant->kind,
		     s->vram.address);
	begin = now_ns();
	EXPECT_EQ(-ETIME, queue_wait(&s->q, 1, SHORT));
	EXPECT_LE(begin + SHORT, now_ns());
	EXPECT_EQ(0, small_work(&beside, 50));
	EXPECT_EQ(0, others_work(50));
	EXPECT_EQ(0, s->q.card->completed);

	if (variant->kind == IS_NOT_SEEN) {
		EXPECT_EQ(0, queue_reset(&s->q, 0, 0));
		EXPECT_EQ(-ETIME, queue_wait(&s->q, 1, SHORT));
		ASSERT_EQ(0, inject(INJECT_STALL, 0));
		EXPECT_EQ(0, queue_reset(&s->q, 0, 0));
	} else {
		EXPECT_EQ(0, queue_reset(&s->q, s->q.tail, 1));
	}
	EXPECT_EQ(0, queue_wait(&s->q, 1, LONG));
	EXPECT_EQ(0, small_work(&s->q, 50));
	EXPECT_EQ(0, small_work(&beside, 50));
	EXPECT_EQ(resets, card_stat("resets"));
	queue_unmap(&beside);
}

static void hang_for_ever(enum endless kind, int ready)
{
	int number, fd = card_open();
	struct queue q;
	struct bo bo;

	if (fd < 0 || bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &bo))
		_exit(1);
	number = queue_create_numbered(fd, 64, &q);
	if (number < 0)
		_exit(1);
	push_endless(&q, number, kind, bo.address);
	if (write(ready, "", 1) == 1)
		queue_wait(&q, 1, FOREVER);
	_exit(2);
}

/* He is killed in the middle of it, and leaves nothing behind. */
TEST_F_TIMEOUT(hang, exit, 60)
{
	struct card_usage before = card_usage();
	int status, i, ready[2];
	pid_t pid;
	char byte;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, driver_set_timeout(TIMEOUT_NEVER));
	for (i = 0; i < 5; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			hang_for_ever(variant->kind, ready[1]);
		ASSERT_EQ(1, read(ready[0], &byte, 1));
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
		EXPECT_EQ(0, small_work(&self->s.q, 5));
	}
	EXPECT_TRUE(card_settles(before));
}

/* An engine that hangs, in a card that otherwise answers. */
FIXTURE(engine)
{
	struct stage s;
};

FIXTURE_SETUP(engine)
{
	ASSERT_EQ(0, stage_open(&self->s));
}

FIXTURE_TEARDOWN(engine)
{
	EXPECT_TRUE(stage_close(&self->s));
}

/* How it goes on is the driver's business, in a second. */
static void stall(struct stage *s, __u32 how)
{
	struct packet p;

	inject(INJECT_STALL, how);
	packet_copy(&p, s->sys.address, s->vram.address, MIB, OPENREG_U8);
	queue_push_blindly(&s->q, &p);
	driver_set_timeout("1000");
}

/* A worker of the card is lost, so its queue cannot be stopped. */
TEST_F_TIMEOUT(engine, hangs_till_a_reset, 60)
{
	struct stage *s = &self->s;
	long long resets = card_stat("resets");
	struct bo bo;

	stall(s, STALL_TILL_RESET);
	EXPECT_EQ(-ETIME, queue_wait(&s->q, 1, SHORT));
	EXPECT_EQ(0, others_work(50));
	EXPECT_EQ(-EIO, queue_reset(&s->q, s->q.tail, 1));
	EXPECT_EQ(resets + 1, card_stat("resets"));
	EXPECT_EQ(-EIO, queue_wait(&s->q, 1, FOREVER));
	EXPECT_EQ(-EIO, bo_create(s->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
	EXPECT_EQ(0, card_works());
}

/* Memory that the engine may still write is nobody else's. */
TEST_F_TIMEOUT(engine, keeps_a_closed_buffer, 60)
{
	struct stage *s = &self->s;
	long long resets = card_stat("resets");
	long long objects;

	stall(s, STALL_TILL_RESET);
	EXPECT_EQ(-ETIME, queue_wait(&s->q, 1, SHORT));
	objects = card_stat("objects");
	EXPECT_EQ(0, bo_close(s->fd, s->sys.handle));
	usleep(100000);
	if (card_stat("resets") == resets)
		EXPECT_EQ(objects, card_stat("objects"));
	EXPECT_EQ(-EIO, queue_wait(&s->q, 1, FOREVER));
	while (card_stat("objects") >= objects)
		usleep(1000);
	EXPECT_EQ(resets + 1, card_stat("resets"));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
	EXPECT_EQ(0, card_works());
}

/* Not even a reset by register ends it: the driver resets the whole function. */
TEST_F_TIMEOUT(engine, hangs_till_an_flr, 120)
{
	struct stage *s = &self->s;
	long long resets = card_stat("resets");
	struct bo bo;

	stall(s, STALL_TILL_FLR);
	EXPECT_EQ(-ETIME, queue_wait(&s->q, 1, SHORT));
	EXPECT_EQ(-EIO, queue_reset(&s->q, s->q.tail, 1));
	EXPECT_EQ(-EIO, queue_wait(&s->q, 1, FOREVER));
	EXPECT_EQ(-EIO, bo_create(s->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(resets + 1, card_stat("resets"));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
	EXPECT_EQ(0, card_works());
}

TEST_HARNESS_MAIN
