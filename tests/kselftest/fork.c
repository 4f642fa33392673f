// SPDX-License-Identifier: GPL-2.0-only
/* What a child of fork() inherits of the card. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "card.h"

static sigjmp_buf trapped;

static void on_trap(int sig)
{
	siglongjmp(trapped, 1);
}

static bool traps(const volatile void *at)
{
	signal(SIGSEGV, on_trap);
	if (sigsetjmp(trapped, 1))
		return true;
	(void)*(const volatile char *)at;
	return false;
}

static int status_of(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid ? status : -1;
}

TEST(child_has_no_queue_pages)
{
	int fd = card_open();
	struct queue q;
	struct packet p;
	pid_t pid;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, queue_create(fd, 64, &q));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(traps(q.ring) && traps(q.user) && traps(q.card) &&
		      traps(q.doorbell) ? 0 : 1);
	EXPECT_EQ(0, status_of(pid));
	packet_nop(&p);
	queue_push(&q, &p);
	EXPECT_EQ(0, queue_wait(&q, 1, 20 * SEC_NS));
	close(fd);
}

/* A child does not keep memory that the parent frees. */
TEST(child_has_no_buffers)
{
	struct card_usage before = card_unused();
	int fd = card_open(), gate[2], i;
	struct bo bo[2];
	pid_t pid;
	char c;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pipe(gate));
	ASSERT_EQ(0, bo_create(fd, 8192, DRM_OPENREG_BO_VRAM, &bo[0]));
	ASSERT_EQ(0, bo_create(fd, 8192, DRM_OPENREG_BO_SYSTEM, &bo[1]));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, bo_map(fd, &bo[i]));
		*(int *)bo[i].cpu = 5 + i;
	}
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(fd);
		close(gate[1]);
		if (!traps(bo[0].cpu) || !traps(bo[1].cpu))
			_exit(1);
		_exit(read(gate[0], &c, 1) ? 2 : 0);
	}
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(5 + i, *(int *)bo[i].cpu);
		munmap(bo[i].cpu, bo[i].size);
	}
	close(fd);
	EXPECT_TRUE(card_settles(before));
	close(gate[1]);
	ASSERT_EQ(0, status_of(pid));
}

/* Copy on write after fork() leaves registered memory with the parent. */
TEST(registered_memory_stays_with_the_parent)
{
	int *mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = card_open(), gate[2];
	struct bo reg, vram;
	struct packet p;
	struct queue q;
	pid_t pid;
	char c;

	ASSERT_LE(0, fd);
	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, pipe(gate));
	mem[0] = 1;
	ASSERT_EQ(0, queue_create(fd, 64, &q));
	ASSERT_EQ(0, bo_create(fd, 8192, DRM_OPENREG_BO_VRAM, &vram));
	ASSERT_EQ(0, bo_map(fd, &vram));
	ASSERT_EQ(0, bo_register(fd, mem, 8192, 0, &reg));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(gate[1]);
		if (read(gate[0], &c, 1) < 0)
			_exit(1);
		_exit(mem[0] == 1 ? 0 : 2);
	}
	mem[0] = 2;
	packet_copy(&p, vram.address, reg.address, 2048, OPENREG_I32);
	queue_push(&q, &p);
	ASSERT_EQ(0, queue_wait(&q, 1, 20 * SEC_NS));
	EXPECT_EQ(2, *(int *)vram.cpu);
	packet_fill(&p, reg.address, 1, OPENREG_I32, 3);
	queue_push(&q, &p);
	ASSERT_EQ(0, queue_wait(&q, 2, 20 * SEC_NS));
	EXPECT_EQ(3, mem[0]);
	close(gate[1]);
	EXPECT_EQ(0, status_of(pid));
	close(fd);
}

/* The child shares the file, which is freed when the last process closes it. */
TEST(file_lives_as_long_as_a_child)
{
	struct card_usage before = card_unused();
	int fd = card_open(), gate[2];
	struct card_usage held;
	struct queue q;
	struct bo bo;
	pid_t pid;
	char c;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pipe(gate));
	ASSERT_EQ(0, bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, queue_create(fd, 64, &q));
	queue_unmap(&q);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(gate[1]);
		_exit(read(gate[0], &c, 1) ? 1 : 0);
	}
	held = card_usage();
	close(fd);
	EXPECT_EQ(0, memcmp(&held, &(struct card_usage[1]) { card_usage() },
			    sizeof(held)));
	close(gate[1]);
	EXPECT_EQ(0, status_of(pid));
	EXPECT_TRUE(card_settles(before));
}

TEST_HARNESS_MAIN
