// SPDX-License-Identifier: GPL-2.0-only
// test killed: as power
/*
 * A process is killed in a call that waits for the card, while an engine stalls. The
 * process dies at once, although the driver waits for the card without limit.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"

#include "inject.h"
#include "machine.h"

#define LONG (20 * SEC_NS)

FIXTURE(killed)
{
	struct card_usage before;
	long long resets;
	int number;
	struct queue q;
	struct bo vram, sys;
};

/* Child processes share the file. */
FIXTURE_SETUP(killed)
{
	int fd;

	ASSERT_EQ(0, inject_find());
	ASSERT_EQ(0, card_recovers());
	ASSERT_TRUE(card_is_idle());
	self->before = card_unused();
	fd = card_open();
	ASSERT_LE(0, fd);
	self->number = queue_create_numbered(fd, 64, &self->q);
	ASSERT_LE(0, self->number);
	ASSERT_EQ(0, bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &self->vram));
	ASSERT_EQ(0, bo_create(fd, MIB, DRM_OPENREG_BO_SYSTEM, &self->sys));
	self->resets = card_stat("resets");
	ASSERT_EQ(0, driver_set_timeout(TIMEOUT_NEVER));
	ASSERT_TRUE(copy_stalls(&self->q, self->number, STALL_TILL_RESET,
				self->sys.address, self->vram.address));
}

FIXTURE_TEARDOWN(killed)
{
	EXPECT_EQ(0, card_recovers());
	queue_unmap(&self->q);
	close(self->q.fd);
	EXPECT_TRUE(card_settles(self->before));
}

enum call { RESET, DESTROY };

static pid_t begin(struct queue *q, enum call call)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (call == RESET)
		queue_reset(q, q->tail, 1);
	else
		queue_destroy(q);
	_exit(1);
}

/*
 * Waits until the process is in uninterruptible sleep in its ioctl. Before, it may sleep
 * like that for a page of its program.
 */
static bool sleeps_in_ioctl(pid_t pid)
{
	char stat[64], syscall[64], text[256];
	__s64 end = now_ns() + LONG;

	snprintf(stat, sizeof(stat), "/proc/%d/stat", pid);
	snprintf(syscall, sizeof(syscall), "/proc/%d/syscall", pid);
	while (now_ns() < end) {
		if (file_get(stat, text, sizeof(text)))
			return false;
		if (!strstr(text, ") D "))
			continue;
		if (file_get(syscall, text, sizeof(text)))
			return false;
		if (atoi(text) == SYS_ioctl)
			return true;
	}
	return false;
}

static bool is_killed(pid_t pid)
{
	int status;

	return !kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid &&
	       WIFSIGNALED(status);
}

/*
 * Kills a process in a call, a second process that waits for the first one's lock, and a
 * third that waits for the command of the first.
 */
static bool all_are_killed(struct queue *q, enum call first, enum call second)
{
	pid_t pid[2];

	pid[0] = begin(q, first);
	if (!sleeps_in_ioctl(pid[0]))
		return false;
	pid[1] = begin(q, second);
	if (!sleeps_in_ioctl(pid[1]) || !is_killed(pid[1]) || !is_killed(pid[0]))
		return false;
	pid[1] = begin(q, second);
	return sleeps_in_ioctl(pid[1]) && is_killed(pid[1]);
}

/* The commands of the killed processes end with a reset of the card. */
static bool reset_ends_it(long long resets)
{
	__s64 end = now_ns() + LONG;

	if (card_stat("resets") != resets || driver_set_timeout("1000"))
		return false;
	while (card_stat("resets") == resets)
		if (now_ns() > end)
			return false;
	return !inject(INJECT_STALL, 0);
}

TEST_F_TIMEOUT(killed, in_a_reset, 120)
{
	EXPECT_TRUE(all_are_killed(&self->q, RESET, RESET));
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, 0));
	EXPECT_EQ(0, others_work(20));
	EXPECT_TRUE(reset_ends_it(self->resets));
}

/* The processes are killed before the card gets QUEUE_DESTROY. */
TEST_F_TIMEOUT(killed, before_a_destroy, 120)
{
	EXPECT_TRUE(all_are_killed(&self->q, RESET, DESTROY));
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, 0));
	EXPECT_EQ(0, others_work(20));
	EXPECT_TRUE(reset_ends_it(self->resets));
	EXPECT_EQ(0, queue_destroy(&self->q));
	EXPECT_EQ(-ENOENT, queue_destroy(&self->q));
}

/* The card has QUEUE_DESTROY. The queue has lost its number, and ends with its file. */
TEST_F_TIMEOUT(killed, in_a_sent_destroy, 120)
{
	pid_t pid = begin(&self->q, DESTROY);

	ASSERT_TRUE(sleeps_in_ioctl(pid));
	EXPECT_TRUE(is_killed(pid));
	EXPECT_EQ(-ENOENT, queue_wait(&self->q, 1, 0));
	EXPECT_EQ(-ENOENT, queue_reset(&self->q, 0, 0));
	EXPECT_EQ(0, others_work(20));
	EXPECT_TRUE(reset_ends_it(self->resets));
}

TEST_HARNESS_MAIN
