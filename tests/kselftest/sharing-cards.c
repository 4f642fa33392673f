// SPDX-License-Identifier: GPL-2.0-only
// test sharing-iommu not kselftest-checked: as queue-iommu
/* dma-bufs between two cards, one of which is unbound. Needs a VM with two cards. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "pair.h"

FIXTURE(pair)
{
	struct end a, b;
};

FIXTURE_SETUP(pair)
{
	ASSERT_EQ(0, second_find());
	ASSERT_EQ(0, end_open(NODE, &self->a));
	ASSERT_EQ(0, end_open(SECOND, &self->b));
}

FIXTURE_TEARDOWN(pair)
{
	close(self->a.fd);
	close(self->b.fd);
}

TEST_F_TIMEOUT(pair, system_of_the_other, 120)
{
	struct end *ends[] = { &self->a, &self->b };
	int i, db;

	for (i = 0; i < 2; i++) {
		struct end *from = ends[i], *to = ends[!i];
		struct bo in;

		db = bo_export(from->fd, from->system.handle, RW);
		ASSERT_LE(0, db);
		noise(from->vram.cpu, MIB, 3 + i);
		ASSERT_EQ(0, bo_import(to->fd, db, &in));
		close(db);
		EXPECT_EQ(OPENREG_ADDR_CARD(to->vram.address),
			  OPENREG_ADDR_CARD(in.address));
		ASSERT_EQ(0, card_copy(&from->q, from->system.address,
				       from->vram.address, MIB));
		ASSERT_EQ(0, card_copy(&to->q, to->vram.address, in.address,
				       MIB));
		EXPECT_TRUE(is_noise(to->vram.cpu, MIB, 3 + i));
		/* Copy back after the owner closed the object. */
		noise(to->vram.cpu, MIB, 5 + i);
		ASSERT_EQ(0, bo_close(from->fd, from->system.handle));
		ASSERT_EQ(0, card_copy(&to->q, in.address, to->vram.address,
				       MIB));
		EXPECT_TRUE(is_noise(from->system.cpu, MIB, 5 + i));
	}
}

TEST_F_TIMEOUT(pair, for_reading, 120)
{
	int db = bo_export(self->a.fd, self->a.system.handle, DRM_CLOEXEC);
	struct bo in;

	ASSERT_LE(0, db);
	noise(self->a.system.cpu, MIB, 8);
	ASSERT_EQ(0, bo_import(self->b.fd, db, &in));
	EXPECT_EQ(DRM_OPENREG_BO_SYSTEM | DRM_OPENREG_BO_IMPORTED |
		  DRM_OPENREG_BO_READONLY, bo_flags(self->b.fd, in.handle));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ | PROT_WRITE,
				   MAP_SHARED, self->b.fd, in.mmap_offset));
	EXPECT_EQ(EACCES, errno);
	ASSERT_EQ(0, card_copy(&self->b.q, self->b.vram.address, in.address,
			       MIB));
	EXPECT_TRUE(is_noise(self->b.vram.cpu, MIB, 8));
	EXPECT_EQ(-EIO, card_copy(&self->b.q, in.address + 8,
				  self->b.vram.address, 64));
	EXPECT_EQ(OPENREG_FAULT_PERMISSION, self->b.q.card->fault.code);
	EXPECT_TRUE(is_noise(self->a.system.cpu, MIB, 8));
	close(db);
}

TEST_F_TIMEOUT(pair, host_memory_of_both, 120)
{
	struct bo in[2];
	void *mem;
	int db = udmabuf(MIB, true, &mem);

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(self->a.fd, db, &in[0]));
	ASSERT_EQ(0, bo_import(self->b.fd, db, &in[1]));
	close(db);
	munmap(mem, MIB);
	noise(self->a.vram.cpu, MIB, 9);
	ASSERT_EQ(0, card_copy(&self->a.q, in[0].address,
			       self->a.vram.address, MIB));
	ASSERT_EQ(0, card_copy(&self->b.q, self->b.vram.address,
			       in[1].address, MIB));
	EXPECT_TRUE(is_noise(self->b.vram.cpu, MIB, 9));
}

/* Copies between the VRAM of two cards. */
TEST_F_TIMEOUT(pair, vram_of_the_other, 120)
{
	struct end *ends[] = { &self->a, &self->b };
	struct packet p;
	struct bo in;
	int i, db;

	for (i = 0; i < 2; i++) {
		struct end *from = ends[i], *to = ends[!i];

		db = bo_export(from->fd, from->vram.handle, RW);
		ASSERT_LE(0, db);
		ASSERT_EQ(0, bo_import(to->fd, db, &in));
		close(db);
		EXPECT_EQ(DRM_OPENREG_BO_SYSTEM | DRM_OPENREG_BO_IMPORTED,
			  bo_flags(to->fd, in.handle));
		noise(from->vram.cpu, MIB, 31 + i);
		ASSERT_EQ(0, card_copy(&to->q, to->vram.address, in.address,
				       MIB));
		EXPECT_TRUE(is_noise(to->vram.cpu, MIB, 31 + i));
		noise(to->vram.cpu, MIB, 33 + i);
		ASSERT_EQ(0, card_copy(&to->q, in.address + 4001,
				       to->vram.address + 4001, 70003));
		EXPECT_EQ(0, memcmp((char *)from->vram.cpu + 4001,
				    (char *)to->vram.cpu + 4001, 70003));
		noise(to->vram.cpu, MIB, 31 + i);
		EXPECT_EQ(0, memcmp(from->vram.cpu, to->vram.cpu, 4001));
		EXPECT_EQ(0, memcmp((char *)from->vram.cpu + 74004,
				    (char *)to->vram.cpu + 74004, MIB - 74004));
		/* The owner may close it. Only the copy engine can write to it. */
		if (i)
			ASSERT_EQ(0, bo_close(from->fd, from->vram.handle));
		ASSERT_EQ(0, card_copy(&to->q, in.address, to->vram.address,
				       MIB));
		EXPECT_TRUE(is_noise(from->vram.cpu, MIB, 31 + i));
		packet_add(&p, to->vram.address, in.address, in.address, 64);
		EXPECT_EQ(0, queue_wait(&to->q, queue_push(&to->q, &p),
					20 * SEC_NS));
		packet_add(&p, in.address, to->vram.address, to->vram.address,
			   64);
		EXPECT_EQ(-EIO, queue_wait(&to->q, queue_push(&to->q, &p),
					   20 * SEC_NS));
		EXPECT_EQ(OPENREG_FAULT_ENGINE, to->q.card->fault.code);
	}
}

TEST_F_TIMEOUT(pair, vram_for_reading, 120)
{
	int db = bo_export(self->a.fd, self->a.vram.handle, DRM_CLOEXEC);
	struct bo in;
	void *map;

	ASSERT_LE(0, db);
	noise(self->a.vram.cpu, MIB, 41);
	ASSERT_EQ(0, bo_import(self->b.fd, db, &in));
	close(db);
	ASSERT_EQ(0, card_copy(&self->b.q, self->b.system.address, in.address,
			       MIB));
	EXPECT_TRUE(is_noise(self->b.system.cpu, MIB, 41));
	EXPECT_EQ(-EACCES, bo_map(self->b.fd, &in));
	map = mmap(NULL, MIB, PROT_READ, MAP_SHARED, self->b.fd,
		   in.mmap_offset);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_TRUE(is_noise(map, MIB, 41));
	EXPECT_EQ(-1, mprotect(map, MIB, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	munmap(map, MIB);
	EXPECT_EQ(-EIO, card_copy(&self->b.q, in.address,
				  self->b.system.address, 1));
	EXPECT_EQ(OPENREG_FAULT_PERMISSION, self->b.q.card->fault.code);
	EXPECT_TRUE(is_noise(self->a.vram.cpu, MIB, 41));
}

/* Card b is unbound while it exports and imports memory. */
TEST_F_TIMEOUT(pair, unbind_one, 120)
{
	int system, vram, own, host;
	struct bo lent, again, in;
	char *maps[2], *late;
	struct packet p;
	__u32 handle;
	void *mem;

	system = bo_export(self->b.fd, self->b.system.handle, RW);
	vram = bo_export(self->b.fd, self->b.vram.handle, RW);
	own = bo_export(self->a.fd, self->a.system.handle, RW);
	host = udmabuf(MIB, false, &mem);
	ASSERT_LE(0, system);
	ASSERT_LE(0, vram);
	ASSERT_LE(0, own);
	ASSERT_LE(0, host);
	maps[0] = dma_buf_map(system, MIB);
	maps[1] = dma_buf_map(vram, MIB);
	ASSERT_NE(MAP_FAILED, maps[0]);
	ASSERT_NE(MAP_FAILED, maps[1]);
	noise(maps[0], MIB, 15);
	noise(maps[1], MIB, 16);
	noise(self->a.system.cpu, MIB, 17);
	ASSERT_EQ(0, bo_import(self->a.fd, system, &lent));
	ASSERT_EQ(0, bo_import(self->b.fd, own, &in));
	ASSERT_EQ(0, bo_import(self->b.fd, host, &in));
	/* A packet of b uses an import. */
	packet_wait(&p, in.address);
	queue_push(&self->b.q, &p);
	EXPECT_EQ(-ETIME, queue_wait(&self->b.q, 1, SEC_NS / 20));

	ASSERT_EQ(0, second_unbind());
	EXPECT_TRUE(is_noise(maps[0], MIB, 15));
	EXPECT_TRUE(is_dummy(maps[1]));
	late = dma_buf_map(vram, MIB);
	ASSERT_NE(MAP_FAILED, late);
	EXPECT_EQ(5, late[77]);
	EXPECT_EQ(-ENODEV, bo_export(self->b.fd, self->b.system.handle, RW));
	EXPECT_EQ(-ENODEV, handle_import(self->b.fd, own, &handle));
	EXPECT_EQ(-ENODEV, handle_import(self->a.fd, vram, &handle));

	/* System memory of b can still be used by a. */
	ASSERT_EQ(0, card_copy(&self->a.q, self->a.vram.address, lent.address,
			       MIB));
	EXPECT_TRUE(is_noise(self->a.vram.cpu, MIB, 15));
	ASSERT_EQ(0, bo_close(self->a.fd, lent.handle));
	ASSERT_EQ(0, bo_import(self->a.fd, system, &again));
	ASSERT_EQ(0, card_copy(&self->a.q, again.address,
			       self->a.system.address, MIB));
	EXPECT_TRUE(is_noise(maps[0], MIB, 17));
	close(vram);
	close(system);
	EXPECT_EQ(0, late[MIB - 1]);
	munmap(late, MIB);
	munmap(maps[0], MIB);
	munmap(maps[1], MIB);
	end_close(&self->b);
	munmap(mem, MIB);
	close(host);
	close(own);

	ASSERT_EQ(0, second_bind());
	ASSERT_EQ(0, end_open(SECOND, &self->b));
	ASSERT_EQ(0, card_copy(&self->b.q, self->b.system.address,
			       self->b.vram.address, MIB));
}

static void *keep_copying(void *data)
{
	struct end *a = data;
	int ret;

	do {
		ret = card_copy(&a->q, a->vram.address, a->lent, MIB);
	} while (!ret);
	return (void *)(intptr_t)ret;
}

/* Card b is unbound while a uses its VRAM: a's packets fault. */
TEST_F_TIMEOUT(pair, unbind_one_in_use, 120)
{
	struct bo waited, busy;
	struct packet p;
	struct queue q;
	pthread_t thread;
	void *result;
	int db, fd = card_open();

	/* A packet of one file waits for a word in it. Another file's packets copy it. */
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, queue_create(fd, 64, &q));
	db = bo_export(self->b.fd, self->b.vram.handle, RW);
	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(fd, db, &waited));
	ASSERT_EQ(0, bo_import(self->a.fd, db, &busy));
	memset(self->b.vram.cpu, 0, MIB);
	packet_wait(&p, waited.address);
	queue_push(&q, &p);
	self->a.lent = busy.address;
	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_copying, &self->a));
	ASSERT_EQ(0, queue_spin(&self->a.q, 3));
	EXPECT_EQ(-ETIME, queue_wait(&q, 1, 0));

	ASSERT_EQ(0, second_unbind());
	EXPECT_EQ(-EIO, queue_wait(&q, 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, q.card->fault.code);
	pthread_join(thread, &result);
	EXPECT_EQ(-EIO, (intptr_t)result);
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, self->a.q.card->fault.code);
	/* The handles still exist, but the memory cannot be used. */
	EXPECT_EQ(0, bo_close(fd, waited.handle));
	ASSERT_EQ(0, queue_reset(&self->a.q, self->a.q.tail, self->a.q.seq));
	EXPECT_EQ(-EIO, card_copy(&self->a.q, busy.address,
				  self->a.vram.address, 1));
	ASSERT_EQ(0, queue_reset(&self->a.q, self->a.q.tail, self->a.q.seq));
	EXPECT_EQ(0, card_copy(&self->a.q, self->a.system.address,
			       self->a.vram.address, MIB));
	close(db);
	close(fd);
	end_close(&self->b);
	ASSERT_EQ(0, second_bind());
	ASSERT_EQ(0, end_open(SECOND, &self->b));
	ASSERT_EQ(0, card_copy(&self->b.q, self->b.system.address,
			       self->b.vram.address, MIB));
}

TEST_HARNESS_MAIN
