// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings of memory of another card: through the importer's handle and through the
 * dma-buf, while both cards exist and after one is removed.
 */
#include <errno.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "pair.h"

FIXTURE(maps)
{
	struct end a, b;
	struct end *from, *to;
	struct bo *lent; /* the exported object of from */
	int db;
	struct bo in;
	char *map;
};

FIXTURE_VARIANT(maps)
{
	bool of_second;
	__u32 memory;
};

FIXTURE_VARIANT_ADD(maps, of_first) { false, DRM_OPENREG_BO_VRAM };
FIXTURE_VARIANT_ADD(maps, of_second) { true, DRM_OPENREG_BO_VRAM };
FIXTURE_VARIANT_ADD(maps, system_of_first) { false, DRM_OPENREG_BO_SYSTEM };
FIXTURE_VARIANT_ADD(maps, system_of_second) { true, DRM_OPENREG_BO_SYSTEM };

FIXTURE_SETUP(maps)
{
	ASSERT_EQ(0, second_find());
	ASSERT_EQ(0, end_open(NODE, &self->a));
	ASSERT_EQ(0, end_open(SECOND, &self->b));
	self->from = variant->of_second ? &self->b : &self->a;
	self->to = variant->of_second ? &self->a : &self->b;
	self->lent = variant->memory == DRM_OPENREG_BO_VRAM ?
		&self->from->vram : &self->from->system;
	self->db = bo_export(self->from->fd, self->lent->handle, RW);
	ASSERT_LE(0, self->db);
	ASSERT_EQ(0, bo_import(self->to->fd, self->db, &self->in));
	ASSERT_EQ(0, bo_map(self->to->fd, &self->in));
	self->map = dma_buf_map(self->db, MIB);
	ASSERT_NE(MAP_FAILED, self->map);
	noise(self->lent->cpu, MIB, 1);
}

FIXTURE_TEARDOWN(maps)
{
	second_bind(); /* in case the test failed before this */
	munmap(self->in.cpu, MIB);
	munmap(self->map, MIB);
	close(self->db);
	end_close(&self->a);
	end_close(&self->b);
}

#define ALL_SEE(seed)							\
	do {								\
		EXPECT_TRUE(is_noise(self->lent->cpu, MIB, seed));	\
		EXPECT_TRUE(is_noise(self->in.cpu, MIB, seed));		\
		EXPECT_TRUE(is_noise(self->map, MIB, seed));		\
	} while (0)

/* Memory of the other kind, to copy from and to. */
static struct bo *other_kind(struct end *e, __u32 memory)
{
	return memory == DRM_OPENREG_BO_VRAM ? &e->system : &e->vram;
}

/* A write through any mapping, or by any card, shows in all mappings. */
TEST_F_TIMEOUT(maps, show_the_same, 120)
{
	struct bo *own = other_kind(self->from, variant->memory);
	struct end *from = self->from, *to = self->to;

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
	noise(own->cpu, MIB, 5);
	ASSERT_EQ(0, card_copy(&from->q, self->lent->address, own->address,
			       MIB));
	ALL_SEE(5);
	noise(self->in.cpu, MIB, 6);
	ASSERT_EQ(0, card_copy(&from->q, own->address, self->lent->address,
			       MIB));
	EXPECT_TRUE(is_noise(own->cpu, MIB, 6));
	noise(self->lent->cpu, MIB, 7);
	ALL_SEE(7);
}

/* The object cannot be mapped for writing, nor can a mapping be made writable. */
static void is_for_reading(struct __test_metadata *_metadata, int fd,
			   __u64 offset)
{
	void *map;

	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, offset));
	EXPECT_EQ(EACCES, errno);
	map = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, offset);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_TRUE(is_noise(map, MIB, 2));
	EXPECT_EQ(-1, mprotect(map, MIB, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_TRUE(is_noise(map, MIB, 2));
	munmap(map, MIB);
}

TEST_F_TIMEOUT(maps, for_reading, 120)
{
	struct end *from = self->from, *to = self->to;
	struct bo *own = other_kind(from, variant->memory);
	struct bo bo, in;
	int db;

	ASSERT_EQ(0, bo_create(from->fd, MIB, variant->memory, &bo));
	ASSERT_EQ(0, bo_map(from->fd, &bo));
	db = bo_export(from->fd, bo.handle, DRM_CLOEXEC);
	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(to->fd, db, &in));
	noise(own->cpu, MIB, 2);
	ASSERT_EQ(0, card_copy(&from->q, bo.address, own->address, MIB));
	is_for_reading(_metadata, to->fd, in.mmap_offset);
	is_for_reading(_metadata, db, 0);
	/* The owner can still write it. */
	EXPECT_TRUE(is_noise(bo.cpu, MIB, 2));
	noise(bo.cpu, MIB, 3);
	munmap(bo.cpu, MIB);
	close(db);
}

/* The owner closes the object, then all close it: the mappings keep the memory. */
TEST_F_TIMEOUT(maps, outlive_handles, 120)
{
	struct end *from = self->from, *to = self->to;
	struct bo next;

	ASSERT_EQ(0, bo_close(from->fd, self->lent->handle));
	noise(self->in.cpu, MIB, 2);
	ALL_SEE(2);
	ASSERT_EQ(0, card_copy(&to->q, to->vram.address, self->in.address,
			       MIB));
	EXPECT_TRUE(is_noise(to->vram.cpu, MIB, 2));
	munmap(self->lent->cpu, MIB);
	ASSERT_EQ(0, bo_close(to->fd, self->in.handle));
	close(self->db);
	self->db = -1;
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ, MAP_SHARED, to->fd,
				   self->in.mmap_offset));

	ASSERT_EQ(0, bo_create(from->fd, MIB, variant->memory, &next));
	ASSERT_EQ(0, bo_map(from->fd, &next));
	noise(next.cpu, MIB, 3);
	EXPECT_TRUE(is_noise(self->in.cpu, MIB, 2));
	EXPECT_TRUE(is_noise(self->map, MIB, 2));
	memset(self->in.cpu, 0, MIB);
	memset(self->map, 1, MIB);
	EXPECT_TRUE(is_noise(next.cpu, MIB, 3));
	*self->lent = next;
}

static bool sees_dummy(char *map, char before, char after)
{
	bool good = map[77] == before && map[MIB - 4096 + 77] == before;

	memset(map, after, MIB);
	return good;
}

/* The owner's card is removed: mappings show the dummy page, also after it returns. */
static void owner_unbound(struct __test_metadata *_metadata, struct end *b,
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

/* The owner's card is removed: pages of system memory stay valid. */
static void system_owner_unbound(struct __test_metadata *_metadata,
				 struct end *b, struct end *a, char *map,
				 const struct bo *in)
{
	char *late;

	ASSERT_EQ(0, second_unbind());
	EXPECT_TRUE(is_noise(in->cpu, MIB, 1));
	noise(in->cpu, MIB, 2);
	late = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd,
		    in->mmap_offset);
	ASSERT_NE(MAP_FAILED, late);
	EXPECT_TRUE(is_noise(map, MIB, 2));
	EXPECT_TRUE(is_noise(late, MIB, 2));
	noise(a->vram.cpu, MIB, 3);
	ASSERT_EQ(0, card_copy(&a->q, in->address, a->vram.address, MIB));
	EXPECT_TRUE(is_noise(b->system.cpu, MIB, 3));
	EXPECT_TRUE(is_noise(late, MIB, 3));
	end_close(b);

	ASSERT_EQ(0, second_bind());
	ASSERT_EQ(0, end_open(SECOND, b));
	noise(b->system.cpu, MIB, 4);
	EXPECT_TRUE(is_noise(in->cpu, MIB, 3));
	EXPECT_TRUE(is_noise(map, MIB, 3));
	EXPECT_TRUE(is_noise(late, MIB, 3));
	munmap(late, MIB);
}

/* The importer's card is removed: the mappings belong to the owner, and stay valid. */
static void importer_unbound(struct __test_metadata *_metadata, struct end *b,
			     struct end *a, const struct bo *lent,
			     const struct bo *own, char *by_handle, __u64 offset)
{
	ASSERT_EQ(0, second_unbind());
	EXPECT_TRUE(is_noise(by_handle, MIB, 1));
	noise(by_handle, MIB, 2);
	EXPECT_TRUE(is_noise(lent->cpu, MIB, 2));
	ASSERT_EQ(0, card_copy(&a->q, own->address, lent->address, MIB));
	EXPECT_TRUE(is_noise(own->cpu, MIB, 2));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ, MAP_SHARED, b->fd,
				   offset));
	EXPECT_EQ(ENODEV, errno);
	end_close(b);

	ASSERT_EQ(0, second_bind());
	ASSERT_EQ(0, end_open(SECOND, b));
	noise(b->vram.cpu, MIB, 3);
	EXPECT_TRUE(is_noise(by_handle, MIB, 2));
}

TEST_F_TIMEOUT(maps, second_is_unbound, 120)
{
	if (!variant->of_second)
		importer_unbound(_metadata, &self->b, &self->a, self->lent,
				 other_kind(&self->a, variant->memory),
				 self->in.cpu, self->in.mmap_offset);
	else if (variant->memory == DRM_OPENREG_BO_VRAM)
		owner_unbound(_metadata, &self->b, self->map, self->in.cpu,
			      self->a.fd, self->in.mmap_offset);
	else
		system_owner_unbound(_metadata, &self->b, &self->a, self->map,
				     &self->in);
}

TEST_HARNESS_MAIN
