// SPDX-License-Identifier: GPL-2.0-only
// test hostile-power: as power
/*
 * A card that lies during resume. The driver resets it while it restores contexts, and
 * memory that was closed before the suspend is freed.
 */
#include <errno.h>

#include <openreg_regs.h>

#include "kselftest_harness.h"

#include "inject.h"
#include "machine.h"

#define IMPOSSIBLE_STATUS 77
#define ROW (64 * 1024)
#define ROWS MIB

FIXTURE(hostile_power)
{
	struct card_usage before;
	long long resets;
	int fd;
	struct bo closed; /* the only segment that resume binds */
	struct queue q;
	struct packet p;
};

FIXTURE_SETUP(hostile_power)
{
	ASSERT_EQ(0, inject_find()) TH_LOG("no card with x-inject=on");
	ASSERT_EQ(0, card_recovers());
	self->before = card_unused();
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, bo_create(self->fd, ROWS + 2 * ROW, DRM_OPENREG_BO_SYSTEM,
			       &self->closed));
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	self->resets = card_stat("resets");
}

FIXTURE_TEARDOWN(hostile_power)
{
	inject_none();
	queue_unmap(&self->q);
	close(self->fd);
	EXPECT_EQ(0, card_recovers());
	EXPECT_TRUE(card_settles(self->before));
}

/* Copies 64 GiB into little memory: each row begins one byte after the last one. */
static void packet_copy_rows(struct packet *p, __u64 dst, __u64 src)
{
	const int64_t size[] = { ROWS, ROW };
	const int64_t to[] = { 1, 1 }, from[] = { 0, 1 };

	openreg_encode(p->bytes, OPENREG_OP_COPY, 0);
	openreg_encode_space(p->bytes, 2, size);
	openreg_encode_operand(p->bytes, dst, OPENREG_U8, to);
	openreg_encode_operand(p->bytes, src, OPENREG_U8, from);
}

/*
 * A packet uses closed memory until the suspend. Resume binds the open object again. The
 * card completes this command with an impossible status, and the driver resets it.
 */
TEST_F_TIMEOUT(hostile_power, closed_memory, 240)
{
	struct bo open, another;

	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &open));
	packet_copy_rows(&self->p, self->closed.address,
			 self->closed.address + ROWS + ROW);
	queue_push(&self->q, &self->p);
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, SEC_NS / 10));
	ASSERT_EQ(0, bo_close(self->fd, self->closed.handle));
	ASSERT_EQ(0, inject(INJECT_OPCODE, OPENREG_ADMIN_SEG_BIND));
	ASSERT_EQ(0, inject(INJECT_STATUS, IMPOSSIBLE_STATUS));
	EXPECT_EQ(0, machine_sleep());
	inject_none();
	ASSERT_EQ(0, card_await());
	EXPECT_EQ(self->resets + 1, card_stat("resets"));
	EXPECT_EQ(-EIO, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM,
				  &another));
}

TEST_HARNESS_MAIN
