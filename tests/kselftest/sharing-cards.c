// SPDX-License-Identifier: GPL-2.0-only
/* dma-bufs between two cards, one of which goes; run in a VM that has them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "sharing.h"

#define RW (DRM_CLOEXEC | DRM_RDWR)
#define DRIVER "/sys/bus/pci/drivers/openreg/"

struct end {
	int fd;
	struct queue q;
	struct bo vram, system;
};

FIXTURE(pair)
{
	struct end a, b;
	char slot[64]; /* of b */
};

static int end_open(const char *node, struct end *e)
{
	int ret;

	e->fd = open(node, O_RDWR | O_CLOEXEC);
	ret = e->fd < 0 ? -errno : queue_create(e->fd, 64, &e->q);
	if (!ret)
		ret = bo_create(e->fd, MIB, DRM_OPENREG_BO_VRAM, &e->vram);
	if (!ret)
		ret = bo_map(e->fd, &e->vram);
	if (!ret)
		ret = bo_create(e->fd, MIB, DRM_OPENREG_BO_SYSTEM, &e->system);
	if (!ret)
		ret = bo_map(e->fd, &e->system);
	return ret;
}

/* PCI address, as sysfs writes it. */
static void find_slot(char *slot, size_t size)
{
	char path[PATH_MAX];

	if (realpath("/sys/class/misc/openreg1/device", path))
		snprintf(slot, size, "%s", strrchr(path, '/') + 1);
}

FIXTURE_SETUP(pair)
{
	find_slot(self->slot, sizeof(self->slot));
	ASSERT_NE(0, self->slot[0]);
	ASSERT_EQ(0, end_open(NODE, &self->a));
	ASSERT_EQ(0, end_open(NODE "1", &self->b));
}

FIXTURE_TEARDOWN(pair)
{
	close(self->a.fd);
	close(self->b.fd);
}

TEST_F(pair, system_of_the_other)
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
		/* And back, when the owner has let go of it. */
		noise(to->vram.cpu, MIB, 5 + i);
		ASSERT_EQ(0, bo_close(from->fd, from->system.handle));
		ASSERT_EQ(0, card_copy(&to->q, in.address, to->vram.address,
				       MIB));
		EXPECT_TRUE(is_noise(from->system.cpu, MIB, 5 + i));
	}
}

TEST_F(pair, for_reading)
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

TEST_F(pair, host_memory_of_both)
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

TEST_F(pair, vram_of_the_other)
{
	int db = bo_export(self->a.fd, self->a.vram.handle, RW);
	__u32 handle;

	ASSERT_LE(0, db);
	EXPECT_EQ(-EOPNOTSUPP, handle_import(self->b.fd, db, &handle));
	close(db);
}

static int put(const char *path, const char *text)
{
	int ret, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/* Maps of the memory of a card that is gone are of one page, and harmless. */
static bool is_dummy(char *map)
{
	if (map[0] || map[MIB - 1])
		return false;
	map[77] = 5;
	return map[MIB - 4096 + 77] == 5;
}

/* b goes, with what it lends and what it has borrowed. */
TEST_F_TIMEOUT(pair, one_goes, 120)
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
	/* It works on what it has borrowed. */
	packet_wait(&p, in.address);
	queue_push(&self->b.q, &p);
	EXPECT_EQ(-ETIME, queue_wait(&self->b.q, 1, SEC_NS / 20));

	ASSERT_EQ(0, put(DRIVER "unbind", self->slot));
	EXPECT_TRUE(is_noise(maps[0], MIB, 15));
	EXPECT_TRUE(is_dummy(maps[1]));
	late = dma_buf_map(vram, MIB);
	ASSERT_NE(MAP_FAILED, late);
	EXPECT_EQ(5, late[77]);
	EXPECT_EQ(-ENODEV, bo_export(self->b.fd, self->b.system.handle, RW));
	EXPECT_EQ(-ENODEV, handle_import(self->b.fd, own, &handle));
	EXPECT_NE(0, handle_import(self->a.fd, vram, &handle));

	/* The host's pages are still of use, to the other as before. */
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
	queue_unmap(&self->b.q);
	munmap(self->b.vram.cpu, MIB);
	munmap(self->b.system.cpu, MIB);
	close(self->b.fd);
	munmap(mem, MIB);
	close(host);
	close(own);

	ASSERT_EQ(0, put(DRIVER "bind", self->slot));
	ASSERT_EQ(0, end_open(NODE "1", &self->b));
	ASSERT_EQ(0, card_copy(&self->b.q, self->b.system.address,
			       self->b.vram.address, MIB));
}

TEST_HARNESS_MAIN
