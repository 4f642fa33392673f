// SPDX-License-Identifier: GPL-2.0-only
// test hang not kselftest-checked: as hostile
/*
 * Packets that never end: a wait returns ETIME, the queue can be reset alone, the exit of
 * a process does not wait, and other queues go on. An engine that hangs costs a reset.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <openreg_regs.h>

#include "kselftest_harness.h"

#include "inject.h"
#include "machine.h"

#define SHORT (SEC_NS / 20)
#define LONG (20 * SEC_NS)
#define BEGUN SEC_NS /* within this time the card begins a packet, and hangs */
#define ADMIN_NONE -1 /* no enum openreg_admin_opcode */

struct stage {
	struct card_usage before;
	int fd;
	int number; /* of the queue, on the card */
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

/* Returns true if the card works and everything is freed. */
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

/* Pushes a packet that never ends. number is the queue's number on the card. */
static void push_endless(struct queue *q, int number, enum endless kind,
			 __u64 address)
{
	struct packet p;

	switch (kind) {
	case WAITS:
		packet_wait(&p, address);
		break;
	case COMPUTES:
		packet_endless(&p, address, address + 64);
		break;
	default:
		inject(INJECT_QUEUE, number);
		inject(INJECT_STALL, STALL_DEAF);
		packet_nop(&p);
	}
	queue_push_blindly(q, &p);
}

/* One queue stalls: its wait returns ETIME, a reset repairs it, other queues go on. */
TEST_F_TIMEOUT(hang, one_queue, 60)
{
	long long resets = card_stat("resets");
	struct stage *s = &self->s;
	struct queue beside;
	char text[8192];
	__s64 begin;

	ASSERT_TRUE(dump_drop());
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
	EXPECT_FALSE(dump_read(text, sizeof(text)));
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

/* A process is killed while its packet runs, and leaves nothing behind. */
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

/* An engine hangs. The rest of the card works. */
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

/* Makes the engine hang in a copy. The driver's timeout is one second. */
static void stall(struct stage *s, struct queue *q, __u32 how)
{
	struct packet p;

	dump_drop();
	inject(INJECT_STALL, how);
	packet_copy(&p, s->sys.address, s->vram.address, MIB, OPENREG_U8);
	queue_push_blindly(q, &p);
	driver_set_timeout("1000");
}

/* Does the dump name this late command, for this queue or its context, or no command? */
static bool late_is(const char *text, const char *queue, int opcode)
{
	const char *of = strstr(text, queue), *at;
	char line[128];

	if (opcode == ADMIN_NONE)
		return !strstr(text, "\ncommand ");
	if (!of)
		return false;
	of += strlen("queue      ");
	if (opcode == OPENREG_ADMIN_CTX_DESTROY)
		of = strstr(of, "context ");
	snprintf(line, sizeof(line), "\ncommand    %d, %s of %s%.*s, late: ",
		 opcode,
		 opcode == OPENREG_ADMIN_CTX_DESTROY ? "CTX_DESTROY" : "QUEUE_STOP",
		 opcode == OPENREG_ADMIN_CTX_DESTROY ? "" : "queue ",
		 (int)strcspn(of, ","), of);
	at = strstr(text, line);
	/* The command is late by at least the driver's timeout. */
	return at && atoi(at + strlen(line)) >= 1000;
}

/*
 * Is there a dump of this queue of this process, with this packet at the head, and with
 * this late command? Drops the dump.
 */
static bool dump_tells(const char *reason, int late, int number, pid_t pid,
		       const char *packet)
{
	char text[8192], queue[64], process[64], head[64];

	snprintf(queue, sizeof(queue), "queue      %d of ", number);
	snprintf(process, sizeof(process), ", by hang[%d]\n", pid);
	snprintf(head, sizeof(head), "at the head\n  %s, ", packet);
	if (!dump_read(text, sizeof(text)))
		return false;
	if (strstr(text, reason) && strstr(text, queue) &&
	    strstr(text, process) && strstr(text, head) &&
	    late_is(text, queue, late))
		return dump_drop();
	printf("# not \"%s\", command %d, %s%s of %d in\n%s", reason, late,
	       queue, packet, pid, text);
	return false;
}

/* A worker of the card hangs, so the queue cannot be stopped. */
TEST_F_TIMEOUT(engine, hangs_till_a_reset, 60)
{
	struct stage *s = &self->s;
	long long resets = card_stat("resets");
	struct bo bo;

	stall(s, &s->q, STALL_TILL_RESET);
	EXPECT_EQ(-ETIME, queue_wait(&s->q, 1, SHORT));
	EXPECT_EQ(0, others_work(50));
	EXPECT_EQ(-EIO, queue_reset(&s->q, s->q.tail, 1));
	EXPECT_EQ(resets + 1, card_stat("resets"));
	EXPECT_TRUE(dump_tells("an admin command did not complete",
			       OPENREG_ADMIN_QUEUE_STOP, s->number, getpid(), "COPY"));
	EXPECT_EQ(-EIO, queue_wait(&s->q, 1, FOREVER));
	EXPECT_EQ(-EIO, bo_create(s->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
	EXPECT_EQ(0, card_works());
}

/* Memory that the engine may still write is not freed. */
TEST_F_TIMEOUT(engine, keeps_a_closed_buffer, 60)
{
	struct stage *s = &self->s;
	long long resets = card_stat("resets");
	long long objects;

	stall(s, &s->q, STALL_TILL_RESET);
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
	/* This dump has replaced the one of the stop, which did not help. */
	EXPECT_TRUE(dump_tells("an admin command did not complete",
			       OPENREG_ADMIN_QUEUE_STOP, s->number, getpid(), "COPY"));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
	EXPECT_EQ(0, card_works());
}

/* The engine responds to a stop, so only the queue is reset. */
TEST_F_TIMEOUT(engine, hangs_till_a_stop, 60)
{
	struct stage *s = &self->s;
	long long resets = card_stat("resets");
	struct queue beside;
	char text[8192];

	ASSERT_TRUE(dump_drop());
	ASSERT_EQ(0, queue_create(s->fd, 1024, &beside));
	ASSERT_TRUE(copy_stalls(&s->q, s->number, STALL_TILL_STOP,
				s->sys.address, s->vram.address));
	EXPECT_EQ(0, small_work(&beside, 50));
	EXPECT_EQ(0, others_work(50));
	EXPECT_EQ(0, card_works());
	EXPECT_EQ(-ETIME, queue_wait(&s->q, 1, SHORT));
	EXPECT_EQ(0, s->q.card->completed);

	EXPECT_EQ(0, queue_reset(&s->q, s->q.tail, 1));
	EXPECT_EQ(0, queue_wait(&s->q, 1, LONG));
	EXPECT_EQ(0, small_work(&s->q, 50));
	EXPECT_EQ(0, small_work(&beside, 50));
	EXPECT_EQ(resets, card_stat("resets"));
	EXPECT_FALSE(dump_read(text, sizeof(text)));
	queue_unmap(&beside);
}

/* Writes the number of its queue to ready when the queue stalls. */
static void copy_for_ever(int ready, __u32 how)
{
	int number, fd = card_open();
	struct bo sys, vram;
	struct queue q;

	if (fd < 0 || bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &vram) ||
	    bo_create(fd, MIB, DRM_OPENREG_BO_SYSTEM, &sys))
		_exit(1);
	number = queue_create_numbered(fd, 64, &q);
	if (number < 0 ||
	    !copy_stalls(&q, number, how, sys.address, vram.address))
		_exit(1);
	if (write(ready, &number, sizeof(number)) == sizeof(number))
		queue_wait(&q, 1, FOREVER);
	_exit(2);
}

/* A process is killed while its queue stalls: all that it had is freed, and no more. */
TEST_F_TIMEOUT(engine, owner_is_killed, 60)
{
	struct card_usage before = card_usage();
	long long resets = card_stat("resets");
	int number, status, i, ready[2];
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, driver_set_timeout(TIMEOUT_NEVER));
	for (i = 0; i < 5; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			copy_for_ever(ready[1], STALL_TILL_STOP);
		ASSERT_EQ(sizeof(number),
			  read(ready[0], &number, sizeof(number)));
		EXPECT_EQ(0, small_work(&self->s.q, 5));
		EXPECT_EQ(0, card_works());
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
		EXPECT_EQ(0, small_work(&self->s.q, 5));
		EXPECT_EQ(0, others_work(5));
		EXPECT_TRUE(card_settles(before));
	}
	EXPECT_EQ(resets, card_stat("resets"));
}

/* A reset by register does not end the hang: the driver resets the PCI function. */
TEST_F_TIMEOUT(engine, hangs_till_an_flr, 120)
{
	struct stage *s = &self->s;
	long long resets = card_stat("resets");
	struct bo bo;

	stall(s, &s->q, STALL_TILL_FLR);
	EXPECT_EQ(-ETIME, queue_wait(&s->q, 1, SHORT));
	EXPECT_EQ(-EIO, queue_reset(&s->q, s->q.tail, 1));
	EXPECT_EQ(-EIO, queue_wait(&s->q, 1, FOREVER));
	EXPECT_EQ(-EIO, bo_create(s->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(resets + 1, card_stat("resets"));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
	EXPECT_EQ(0, card_works());
}

/* Several queues have work. The dump must show the queue that hangs. */
FIXTURE(suspect)
{
	struct stage s;
	int fd; /* of another context */
	int number;
	struct queue q;
	struct bo vram;
};

FIXTURE_SETUP(suspect)
{
	struct stage *s = &self->s;

	ASSERT_EQ(0, stage_open(s));
	push_endless(&s->q, s->number, WAITS, s->vram.address);
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	self->number = queue_create_numbered(self->fd, 64, &self->q);
	ASSERT_LT(s->number, self->number);
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, small_work(&self->q, 3));
}

FIXTURE_TEARDOWN(suspect)
{
	queue_unmap(&self->q);
	close(self->fd);
	EXPECT_TRUE(stage_close(&self->s));
}

TEST_F_TIMEOUT(suspect, does_not_stop, 60)
{
	struct bo sys;
	struct packet p;

	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_SYSTEM, &sys));
	ASSERT_TRUE(dump_drop());
	ASSERT_EQ(0, driver_set_timeout("1000"));
	ASSERT_EQ(0, inject(INJECT_STALL, STALL_TILL_RESET));
	packet_copy(&p, sys.address, self->vram.address, MIB, OPENREG_U8);
	queue_push_blindly(&self->q, &p);
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 4, BEGUN));
	EXPECT_EQ(-EIO, queue_reset(&self->q, self->q.tail, 4));
	EXPECT_TRUE(dump_tells("an admin command did not complete",
			       OPENREG_ADMIN_QUEUE_STOP, self->number, getpid(),
			       "COPY"));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
}

/*
 * A process is killed while its queue hangs. Its queue fails at once, and its exit does not
 * wait for the card or a reset. The reset comes only when the timeout allows it.
 */
TEST_F_TIMEOUT(suspect, owner_is_killed, 60)
{
	struct card_usage before = card_usage();
	long long resets = card_stat("resets");
	int number, status, ready[2];
	pid_t pid;

	ASSERT_TRUE(dump_drop());
	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, driver_set_timeout(TIMEOUT_NEVER));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		copy_for_ever(ready[1], STALL_TILL_RESET);
	close(ready[1]);
	ASSERT_EQ(sizeof(number), read(ready[0], &number, sizeof(number)));
	close(ready[0]);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_LT(before.contexts, card_stat("contexts"));
	EXPECT_EQ(0, small_work(&self->q, 3));
	EXPECT_EQ(0, others_work(5));
	EXPECT_EQ(resets, card_stat("resets"));

	ASSERT_EQ(0, driver_set_timeout("1000"));
	EXPECT_EQ(-EIO, queue_wait(&self->q, self->q.seq + 1, LONG));
	EXPECT_EQ(resets + 1, card_stat("resets"));
	EXPECT_TRUE(dump_tells("an admin command did not complete",
			       OPENREG_ADMIN_CTX_DESTROY, number, pid, "COPY"));
	ASSERT_EQ(0, inject(INJECT_STALL, 0));
}

/* The queue stops, but the card does not release its memory. */
TEST_F_TIMEOUT(suspect, keeps_memory, 60)
{
	long long resets = card_stat("resets");

	ASSERT_TRUE(dump_drop());
	ASSERT_EQ(0, driver_set_timeout("1000"));
	ASSERT_EQ(0, inject(INJECT_ADMIN, ADMIN_KEEPS));
	push_endless(&self->q, self->number, COMPUTES, self->vram.address);
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 4, SHORT));
	ASSERT_EQ(0, bo_close(self->fd, self->vram.handle));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 4, LONG));
	EXPECT_EQ(OPENREG_QUEUE_STOPPED, self->q.card->state);
	EXPECT_TRUE(dump_tells("the queue may keep a closed buffer in use",
			       ADMIN_NONE, self->number, getpid(), "VECTOR"));
	while (card_stat("resets") == resets)
		usleep(1000);
	EXPECT_TRUE(dump_tells("a stopped queue keeps memory in use",
			       ADMIN_NONE, self->number, getpid(), "VECTOR"));
}

/* The card is gone: the dump shows only what the card left in memory. */
TEST_F_TIMEOUT(suspect, card_is_gone, 60)
{
	struct stage *s = &self->s;

	ASSERT_TRUE(dump_drop());
	ASSERT_EQ(0, inject(INJECT_GONE, 1));
	EXPECT_EQ(-EIO, queue_wait(&s->q, 1, LONG));
	EXPECT_TRUE(dump_tells("the card does not answer", ADMIN_NONE, s->number,
			       getpid(), "WAIT"));
}

TEST_HARNESS_MAIN
