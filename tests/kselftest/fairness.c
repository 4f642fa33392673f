// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process that floods the engine for hours does not starve another process. The card
 * itself counts packets, so the result does not depend on any clock.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "sharing.h"

#define QUEUES_MAX 4
#define LARGE (1ull << 22) /* elements of each packet of the flood */
#define SMALL (1ull << 16) /* elements of each packet of the other process */
#define MEMORY (2 * LARGE * 4) /* bytes of source and destination of a large copy */
#define LAUNCHES 2000
#define SUPPLY 3000 /* large packets in each queue of the flood */
#define SLOTS 16384
#define GOOD 3 /* tries that must succeed */
#define BAD 5 /* tries that may fail: the host may stall a thread of the card in any try */
#define LONG (200 * SEC_NS)

FIXTURE(fairness)
{
	struct card_usage before;
	struct drm_openreg_device_info info;
	int flood, fd;
	struct queue q[QUEUES_MAX], small;
	struct bo count, memory; /* of the flood */
	struct bo in, result, own; /* of the other process */
};

FIXTURE_VARIANT(fairness)
{
	unsigned int queues; /* of the flood */
	unsigned int opcode; /* of the packets of both */
};

#define BESIDE(label, num, code)					\
	FIXTURE_VARIANT_ADD(fairness, label)				\
	{								\
		.queues = num, .opcode = OPENREG_OP_##code,		\
	}
BESIDE(vector_1_queue, 1, VECTOR);
BESIDE(vector_2_queues, 2, VECTOR);
BESIDE(vector_4_queues, 4, VECTOR);
BESIDE(matmul_1_queue, 1, MATMUL);
BESIDE(matmul_4_queues, 4, MATMUL);
BESIDE(copies_1_queue, 1, COPY);
BESIDE(copies_4_queues, 4, COPY);

FIXTURE_SETUP(fairness)
{
	unsigned int i;
	int db;

	self->before = card_unused();
	self->flood = card_open();
	self->fd = card_open();
	ASSERT_LE(0, self->flood);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, card_info(self->fd, &self->info));
	for (i = 0; i < variant->queues; i++)
		ASSERT_EQ(0, queue_create(self->flood, SLOTS, &self->q[i]));
	ASSERT_EQ(0, bo_create(self->flood, 4096, DRM_OPENREG_BO_VRAM,
			       &self->count));
	ASSERT_EQ(0, bo_map(self->flood, &self->count));
	ASSERT_EQ(0, bo_create(self->flood, MEMORY, DRM_OPENREG_BO_VRAM,
			       &self->memory));
	ASSERT_EQ(0, queue_create(self->fd, SLOTS, &self->small));
	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM,
			       &self->result));
	ASSERT_EQ(0, bo_map(self->fd, &self->result));
	ASSERT_EQ(0, bo_create(self->fd, MEMORY, DRM_OPENREG_BO_VRAM,
			       &self->own));
	db = bo_export(self->flood, self->count.handle, DRM_CLOEXEC);
	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(self->fd, db, &self->in));
	close(db);
}

FIXTURE_TEARDOWN(fairness)
{
	unsigned int i;

	for (i = 0; i < variant->queues; i++)
		queue_unmap(&self->q[i]);
	queue_unmap(&self->small);
	munmap(self->count.cpu, 4096);
	munmap(self->result.cpu, 4096);
	close(self->flood);
	close(self->fd);
	EXPECT_TRUE(card_settles(self->before));
}

/* Computes count / 4 elements. A, B and the result lie within 32 MiB. */
static void packet_matmul(struct packet *p, __u64 memory, __u64 count)
{
	const int64_t width = 256, size[] = { 1, count >> 10, width, width };
	const int64_t stride[3][4] = {
		{ 0, width, 1, 0 }, { 0, width, 0, 1 }, { 0, 0, 1, width },
	};
	const uint64_t imm[] = { 0x3ff0000000000000, 0 }; /* 1.0, 0.0 */
	unsigned int i;

	openreg_encode(p->bytes, OPENREG_OP_MATMUL, 0);
	openreg_encode_space(p->bytes, 4, size);
	for (i = 0; i < 3; i++)
		openreg_encode_operand(p->bytes, memory + i * 8 * MIB,
				       OPENREG_F32, stride[i]);
	openreg_encode_imm(p->bytes, imm, 2);
}

/* All small copies together cover as much memory as a large copy. */
static void packet_work(struct packet *p, unsigned int opcode, __u64 memory,
			__u64 count, unsigned int i)
{
	const __u64 at = memory + i * count % LARGE * 4;

	if (opcode == OPENREG_OP_COPY)
		packet_copy(p, at + LARGE * 4, at, count, OPENREG_F32);
	else if (opcode == OPENREG_OP_MATMUL)
		packet_matmul(p, memory, count);
	else
		packet_busy(p, memory, memory + 64, count);
}

static void begin_flood(struct queue *q, unsigned int opcode, __u64 memory,
			__u64 count)
{
	struct packet p;
	unsigned int i;

	for (i = 0; i < SUPPLY; i++) {
		packet_work(&p, opcode, memory, LARGE, i);
		queue_write(q, &p);
		packet_word(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, count);
		queue_write(q, &p);
	}
	queue_publish(q);
}

/* Publishes all packets at once, so that only the card decides when the last is done. */
static void launch(struct queue *q, unsigned int opcode, __u64 memory,
		   __u64 result, __u64 count)
{
	struct packet p;
	unsigned int i;

	/* Touch all pages first, so that the host has allocated them. */
	packet_fill(&p, memory, MEMORY / 4, OPENREG_F32, 0);
	queue_write(q, &p);
	packet_copy(&p, result, count, 1, OPENREG_I64);
	queue_write(q, &p);
	for (i = 0; i < LAUNCHES; i++) {
		packet_work(&p, opcode, memory, SMALL, i);
		queue_write(q, &p);
	}
	packet_copy(&p, result + 8, count, 1, OPENREG_I64);
	queue_write(q, &p);
	queue_publish(q);
}

/* Each ring must hold all packets, or the card would wait for the process to write. */
_Static_assert(SUPPLY * 5 < SLOTS && LAUNCHES * 5 + 16 < SLOTS, "rings");

/*
 * How many threads of the card may work for the flood at a time. One thread works for the
 * queue of small packets or copies. If the host has CPUs for them, the other threads run
 * slices of one packet of the flood, or one copy for each of its queues.
 */
static unsigned int threads_of_flood(const FIXTURE_VARIANT(fairness) *flood,
				     unsigned int workers)
{
	if (flood->opcode != OPENREG_OP_COPY)
		return workers > 1 ? workers - 1 : 1;
	return flood->queues < workers ? flood->queues : workers;
}

static bool flood_begins(FIXTURE_DATA(fairness) *self,
			 const FIXTURE_VARIANT(fairness) *flood)
{
	const volatile __u64 *count = self->count.cpu;
	__s64 deadline = now_ns() + LONG;
	unsigned int i;

	for (i = 0; i < flood->queues; i++)
		begin_flood(&self->q[i], flood->opcode,
			    self->memory.address, self->count.address);
	while (!*count && now_ns() < deadline)
		usleep(1000);
	return *count;
}

TEST_F_TIMEOUT(fairness, share, 300)
{
	const volatile __u64 *seen = self->result.cpu;
	const __u64 equal = LAUNCHES * SMALL / LARGE;
	const unsigned int threads =
		threads_of_flood(variant, self->info.workers);
	/* If the card took one packet of each in turn, this would be LAUNCHES. */
	const __u64 most = (threads * equal + variant->queues) * 5 / 2;
	unsigned int good = 0, bad = 0;
	__u64 beside;

	ASSERT_GT(SUPPLY, most) TH_LOG("%u workers", self->info.workers);
	ASSERT_TRUE(flood_begins(self, variant));
	while (good < GOOD && bad < BAD) {
		launch(&self->small, variant->opcode, self->own.address,
		       self->result.address, self->in.address);
		ASSERT_EQ(0, queue_wait(&self->small, self->small.seq, LONG));
		beside = seen[1] - seen[0];
		TH_LOG("%u small packets beside %llu large ones, each %llu times as large; %llu are allowed",
		       LAUNCHES, beside, LARGE / SMALL, most);
		/* The flood had not ended. */
		ASSERT_GT(SUPPLY, seen[1]);
		/* The flood must get its share, too. */
		if (beside && beside <= most)
			good++;
		else
			bad++;
	}
	EXPECT_EQ(GOOD, good);
}

TEST_HARNESS_MAIN
