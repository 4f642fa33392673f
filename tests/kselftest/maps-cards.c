// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps of memory that another card has lent: by the borrower's handle and by the
 * dma-buf itself, while both are there and when one goes.
 */
#include <errno.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "pair.h"

FIXTURE(maps)
{
	struct end a, b;
	struct end *from, *to;
	int db;
	struct bo in;
	char *map;
};

FIXTURE_VARIANT(maps)
{
	bool of_second;
};

FIXTURE_VARIANT_ADD(maps, of_first) { .of_second = false };
FIXTURE_VARIANT_ADD(maps, of_second) { .of_second = true };

FIXTURE_SETUP(maps)
{
	ASSERT_EQ(0, second_find());
	ASSERT_EQ(0, end_open(NODE, &self->a));
	ASSERT_EQ(0, end_open(SECOND, &self->b));
	self->from = variant->of_second ? &self->b : &self->a;
	self->to = variant->of_second ? &self->a : &self->b;
	self->db = bo_export(self->from->fd, self->from->vram.handle, RW);
	ASSERT_LE(0, self->db);
	ASSERT_EQ(0, bo_import(self->to->fd, self->db, &self->in));
	ASSERT_EQ(0, bo_map(self->to->fd, &self->in));
	self->map = dma_buf_map(self->db, MIB);
	ASSERT_NE(MAP_FAILED, self->map);
	noise(self->from->vram.cpu, MIB, 1);
}

FIXTURE_TEARDOWN(maps)
{
	second_bind(); /* if the test did not come to it */
	munmap(self->in.cpu, MIB);
	munmap(self->map, MIB);
	close(self->db);
	end_close(&self->a);
	end_close(&self->b);
}

#define ALL_SEE(seed)							\
	do {								\
		EXPECT_TRUE(is_noise(self->from->vram.cpu, MIB, seed));	\
		EXPECT_TRUE(is_noise(self->in.cpu, MIB, seed));		\
		EXPECT_TRUE(is_noise(self->map, MIB, seed));		\
	} while (0)

/* Whoever writes, and by which of them, the others see it. */
TEST_F_TIMEOUT(maps, show_the_same, 120)
{
	struct end *to = self->to;

	ALL_SEE(1);
	noise(self->in.cpu, MIB, 2);
	ALL_SEE(2);
	noise(self->map, MIB, 3);
	ALL_SEE(3);
	ASSERT_EQ(0, card_copy(&to->q, to->vram.address, self->in.address,
			       MIB));
	EXPECT_TRUE(is_noise(to->vram.cpu, MIB, 3));
	noise(to->vram.cpu, MIB, 4);
	ASSERT_EQ(0, card_copy(&to->q, self->in.address, to->vram.address,
			       MIB));
	ALL_SEE(4);
}

/* The owner lets go of it, then everybody: the maps have it still. */
TEST_F_TIMEOUT(maps, outlive_handles, 120)
{
	struct end *from = self->from, *to = self->to;
	struct bo next;

	ASSERT_EQ(0, bo_close(from->fd, from->vram.handle));
	noise(self->in.cpu, MIB, 2);
	ALL_SEE(2);
	ASSERT_EQ(0, card_copy(&to->q, to->vram.address, self->in.address,
			       MIB));
	EXPECT_TRUE(is_noise(to->vram.cpu, MIB, 2));
	munmap(from->vram.cpu, MIB);
	ASSERT_EQ(0, bo_close(to->fd, self->in.handle));
	close(self->db);
	self->db = -1;
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ, MAP_SHARED, to->fd,
				   self->in.mmap_offset));

	ASSERT_EQ(0, bo_create(from->fd, MIB, DRM_OPENREG_BO_VRAM, &next));
	ASSERT_EQ(0, bo_map(from->fd, &next));
	noise(next.cpu, MIB, 3);
	EXPECT_TRUE(is_noise(self->in.cpu, MIB, 2));
	EXPECT_TRUE(is_noise(self->map, MIB, 2));
	memset(self->in.cpu, 0, MIB);
	memset(self->map, 1, MIB);
	EXPECT_TRUE(is_noise(next.cpu, MIB, 3));
	from->vram = next;
}

static bool sees_dummy(char *map, char before, char after)
{
	bool good = map[77] == before && map[MIB - 4096 + 77] == before;

	memset(map, after, MIB);
	return good;
}

/* They go with the card, and what it lends next is not theirs. */
static void owner_goes(struct __test_metadata *_metadata, struct end *b,
		       char *map, char *by_handle, int fd, __u64 offset)
{
	char *late;

	ASSERT_EQ(0, second_unbind());
	EXPECT_TRUE(is_dummy(by_handle));
	EXPECT_TRUE(sees_dummy(map, 5, 6));
	late = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	ASSERT_NE(MAP_FAILED, late);
	EXPECT_TRUE(sees_dummy(late, 6, 7));
	end_close(b);

	ASSERT_EQ(0, second_bind());
	ASSERT_EQ(0, end_open(SECOND, b));
	noise(b->vram.cpu, MIB, 2);
	EXPECT_TRUE(sees_dummy(by_handle, 7, 8));
	EXPECT_TRUE(sees_dummy(map, 8, 9));
	EXPECT_TRUE(sees_dummy(late, 9, 10));
	EXPECT_TRUE(is_noise(b->vram.cpu, MIB, 2));
	munmap(late, MIB);
}

/* They are the owner's, so that they stay. */
static void borrower_goes(struct __test_metadata *_metadata, struct end *b,
			  struct end *a, char *by_handle, __u64 offset)
{
	ASSERT_EQ(0, second_unbind());
	EXPECT_TRUE(is_noise(by_handle, MIB, 1));
	noise(by_handle, MIB, 2);
	EXPECT_TRUE(is_noise(a->vram.cpu, MIB, 2));
	ASSERT_EQ(0, card_copy(&a->q, a->system.address, a->vram.address, MIB));
	EXPECT_TRUE(is_noise(a->system.cpu, MIB, 2));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ, MAP_SHARED, b->fd,
				   offset));
	EXPECT_EQ(ENODEV, errno);
	end_close(b);

	ASSERT_EQ(0, second_bind());
	ASSERT_EQ(0, end_open(SECOND, b));
	noise(b->vram.cpu, MIB, 3);
	EXPECT_TRUE(is_noise(by_handle, MIB, 2));
}

TEST_F_TIMEOUT(maps, second_goes, 120)
{
	if (variant->of_second)
		owner_goes(_metadata, &self->b, self->map, self->in.cpu,
			   self->a.fd, self->in.mmap_offset);
	else
		borrower_goes(_metadata, &self->b, &self->a, self->in.cpu,
			      self->in.mmap_offset);
}

TEST_HARNESS_MAIN
