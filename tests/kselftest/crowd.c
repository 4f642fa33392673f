// SPDX-License-Identifier: GPL-2.0-only
/* Many processes at once, each with its own data. */
#include <errno.h>
#include <stdlib.h>

#include "kselftest_harness.h"

#include "card.h"

#define PROCESSES 24
#define ROUNDS 20
#define COUNT 65536

static int check(const float *v, int seed)
{
	int i;

	for (i = 0; i < COUNT; i++)
		if (v[i] != 3.0f * (i + seed))
			return -EILSEQ;
	return 0;
}

static int one_round(struct queue *q, struct bo *host, struct bo *vram,
		     int seed)
{
	__u64 a = vram->address, len = COUNT * 4;
	float *v = host->cpu;
	struct packet p;
	int i, ret;

	for (i = 0; i < COUNT; i++) {
		v[i] = i + seed;
		v[COUNT + i] = 2.0f * (i + seed);
	}
	packet_copy(&p, a, host->address, 2 * COUNT, OPENREG_F32);
	queue_write(q, &p);
	packet_add(&p, a + 2 * len, a, a + len, COUNT);
	queue_write(q, &p);
	packet_copy(&p, host->address, a + 2 * len, COUNT, OPENREG_F32);
	ret = queue_wait(q, queue_push(q, &p), 120 * SEC_NS);
	return ret ? ret : check(v, seed);
}

static int process(int n)
{
	int i, ret, fd = card_open();
	struct bo host, vram;
	struct queue q;

	if (fd < 0)
		return fd;
	for (i = 0; i < ROUNDS; i++) {
		/* Create and free everything in each round. */
		ret = queue_create(fd, 128, &q);
		if (!ret)
			ret = bo_create(fd, COUNT * 4 * 2,
					DRM_OPENREG_BO_SYSTEM, &host);
		if (!ret)
			ret = bo_map(fd, &host);
		if (!ret)
			ret = bo_create(fd, COUNT * 4 * 3, DRM_OPENREG_BO_VRAM,
					&vram);
		if (!ret)
			ret = one_round(&q, &host, &vram, n * ROUNDS + i);
		if (ret)
			return ret;
		queue_unmap(&q);
		queue_destroy(&q);
		bo_close(fd, host.handle);
		if (i % 2)
			bo_close(fd, vram.handle);
	}
	close(fd);
	return 0;
}

FIXTURE(crowd)
{
};

FIXTURE_SETUP(crowd)
{
}

FIXTURE_TEARDOWN(crowd)
{
}

TEST_F_TIMEOUT(crowd, many_processes, 280)
{
	struct card_usage before = card_unused();
	pid_t pid[PROCESSES];
	int i, status;

	for (i = 0; i < PROCESSES; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			_exit(-process(i));
	}
	for (i = 0; i < PROCESSES; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status)
			TH_LOG("process %d: %s", i,
			       strerror(WEXITSTATUS(status)));
	}
	EXPECT_TRUE(card_settles(before));
}

TEST_HARNESS_MAIN
