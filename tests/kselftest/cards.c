// SPDX-License-Identifier: GPL-2.0-only
/* Two cards in one machine. Needs a VM with two cards. */
#include <errno.h>
#include <fcntl.h>

#include "kselftest_harness.h"

#include "card.h"

FIXTURE(cards)
{
	int fd[2];
	struct drm_openreg_device_info info[2];
	struct queue q[2];
	struct bo vram[2];
	struct packet p;
};

FIXTURE_SETUP(cards)
{
	static const char * const nodes[] = { NODE, NODE "1" };
	int i;

	for (i = 0; i < 2; i++) {
		self->fd[i] = open(nodes[i], O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, self->fd[i])
			TH_LOG("%s: %s", nodes[i], strerror(errno));
		ASSERT_EQ(0, card_info(self->fd[i], &self->info[i]));
		ASSERT_EQ(0, queue_create(self->fd[i], 64, &self->q[i]));
		ASSERT_EQ(0, bo_create(self->fd[i], MIB, DRM_OPENREG_BO_VRAM,
				       &self->vram[i]));
		ASSERT_EQ(0, bo_map(self->fd[i], &self->vram[i]));
	}
}

FIXTURE_TEARDOWN(cards)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

TEST_F(cards, are_two)
{
	EXPECT_EQ(0, self->info[0].card);
	EXPECT_EQ(1, self->info[1].card);
	EXPECT_NE(self->info[0].pci, self->info[1].pci);
	EXPECT_EQ(0, OPENREG_ADDR_CARD(self->vram[0].address));
	EXPECT_EQ(1, OPENREG_ADDR_CARD(self->vram[1].address));
}

TEST_F(cards, work_at_once)
{
	int i;

	for (i = 0; i < 2; i++) {
		packet_busy(&self->p, self->vram[i].address,
			    self->vram[i].address + 64, 1 << 24);
		queue_push(&self->q[i], &self->p);
	}
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, queue_wait(&self->q[i], 1, 20 * SEC_NS));
		EXPECT_EQ((float)(1 << 24), *(float *)self->vram[i].cpu);
	}
}

/* Copies from card to card through memory that is registered with both. */
TEST_F(cards, copy_through_registered_memory)
{
	static unsigned char host[MIB];
	struct bo reg[2];
	int i;

	memset(self->vram[0].cpu, 0x3c, MIB);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, bo_register(self->fd[i], host, MIB, 0, &reg[i]));
	packet_copy(&self->p, reg[0].address, self->vram[0].address, MIB,
		    OPENREG_U8);
	queue_push(&self->q[0], &self->p);
	ASSERT_EQ(0, queue_wait(&self->q[0], 1, 20 * SEC_NS));
	packet_copy(&self->p, self->vram[1].address, reg[1].address, MIB,
		    OPENREG_U8);
	queue_push(&self->q[1], &self->p);
	ASSERT_EQ(0, queue_wait(&self->q[1], 1, 20 * SEC_NS));
	EXPECT_EQ(0, memcmp(self->vram[1].cpu, self->vram[0].cpu, MIB));
}

TEST_F(cards, address_of_the_other_faults)
{
	packet_fill(&self->p, self->vram[1].address, 1, OPENREG_I32, 1);
	queue_push(&self->q[0], &self->p);
	EXPECT_EQ(-EIO, queue_wait(&self->q[0], 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, self->q[0].card->fault.code);
	packet_nop(&self->p);
	queue_push(&self->q[1], &self->p);
	EXPECT_EQ(0, queue_wait(&self->q[1], 1, 20 * SEC_NS));
}

TEST_HARNESS_MAIN
