// SPDX-License-Identifier: GPL-2.0-only
// test user-iommu not kselftest-checked: as queue-iommu
/* Registered memory: which memory can be registered, limits, access by the card. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "kselftest_harness.h"

#include "card.h"

#define SIZE (4 * MIB)

FIXTURE(user)
{
	int fd;
	unsigned char *mem;
	struct bo reg;
	struct bo vram;
	struct queue q;
	struct packet p;
};

FIXTURE_SETUP(user)
{
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	self->mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->mem);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, SIZE, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
}

FIXTURE_TEARDOWN(user)
{
	close(self->fd);
}

static int run(struct queue *q, const struct packet *p)
{
	return queue_wait(q, queue_push(q, p), 20 * SEC_NS);
}

TEST_F(user, both_ways)
{
	unsigned int i;

	ASSERT_EQ(0, bo_register(self->fd, self->mem, SIZE, 0, &self->reg));
	for (i = 0; i < SIZE; i++)
		self->mem[i] = i * 7;
	packet_copy(&self->p, self->vram.address, self->reg.address, SIZE,
		    OPENREG_U8);
	ASSERT_EQ(0, run(&self->q, &self->p));
	EXPECT_EQ(0, memcmp(self->vram.cpu, self->mem, SIZE));
	memset(self->mem, 0, SIZE);
	packet_copy(&self->p, self->reg.address, self->vram.address, SIZE,
		    OPENREG_U8);
	ASSERT_EQ(0, run(&self->q, &self->p));
	EXPECT_EQ(0, memcmp(self->vram.cpu, self->mem, SIZE));
}

/* Neither start nor size is page aligned. The byte after the end faults. */
TEST_F(user, any_alignment)
{
	const unsigned int offset = 4096 * 3 + 77, len = 4096 * 5 + 33;
	struct drm_openreg_bo_info info = {};
	unsigned int i;

	for (i = 0; i < SIZE; i++)
		self->mem[i] = i * 7;
	ASSERT_EQ(0, bo_register(self->fd, self->mem + offset, len, 0,
				 &self->reg));
	info.handle = self->reg.handle;
	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_OPENREG_BO_INFO, &info));
	EXPECT_EQ(len, info.size);
	EXPECT_EQ(DRM_OPENREG_BO_USER, info.flags);
	EXPECT_EQ(0, info.mmap_offset);

	packet_copy(&self->p, self->vram.address, self->reg.address, len,
		    OPENREG_U8);
	ASSERT_EQ(0, run(&self->q, &self->p));
	EXPECT_EQ(0, memcmp(self->vram.cpu, self->mem + offset, len));
	packet_copy(&self->p, self->vram.address, self->reg.address, len + 1,
		    OPENREG_U8);
	EXPECT_EQ(-EIO, run(&self->q, &self->p));
	EXPECT_EQ(OPENREG_FAULT_BOUNDS, self->q.card->fault.code);
}

TEST_F(user, readonly)
{
	self->mem[0] = 42;
	ASSERT_EQ(0, mprotect(self->mem, SIZE, PROT_READ));
	EXPECT_EQ(-EFAULT, bo_register(self->fd, self->mem, 4096, 0,
				       &self->reg));
	ASSERT_EQ(0, bo_register(self->fd, self->mem, 4096,
				 DRM_OPENREG_BO_READONLY, &self->reg));
	packet_copy(&self->p, self->vram.address, self->reg.address, 4096,
		    OPENREG_U8);
	ASSERT_EQ(0, run(&self->q, &self->p));
	EXPECT_EQ(42, *(unsigned char *)self->vram.cpu);
	packet_fill(&self->p, self->reg.address, 1, OPENREG_U8, 1);
	EXPECT_EQ(-EIO, run(&self->q, &self->p));
	EXPECT_EQ(OPENREG_FAULT_PERMISSION, self->q.card->fault.code);
	EXPECT_EQ(42, self->mem[0]);
}

/* The process registers untouched pages read-only, and writes them afterwards. */
TEST_F(user, readonly_sees_later_writes)
{
	ASSERT_EQ(0, bo_register(self->fd, self->mem, 8192,
				 DRM_OPENREG_BO_READONLY, &self->reg));
	memset(self->mem, 9, 8192);
	packet_copy(&self->p, self->vram.address, self->reg.address, 8192,
		    OPENREG_U8);
	ASSERT_EQ(0, run(&self->q, &self->p));
	EXPECT_EQ(0, memcmp(self->vram.cpu, self->mem, 8192));
}

TEST_F(user, own_maps_are_refused)
{
	struct bo sys;

	ASSERT_EQ(0, bo_create(self->fd, 8192, DRM_OPENREG_BO_SYSTEM, &sys));
	ASSERT_EQ(0, bo_map(self->fd, &sys));
	memset(sys.cpu, 1, 8192);
	EXPECT_EQ(-EOPNOTSUPP, bo_register(self->fd, sys.cpu, 4096, 0,
					   &self->reg));
	EXPECT_EQ(-EOPNOTSUPP, bo_register(self->fd, self->vram.cpu, 4096, 0,
					   &self->reg));
	EXPECT_EQ(-EOPNOTSUPP, bo_register(self->fd, self->q.ring, 4096, 0,
					   &self->reg));
}

TEST_F(user, file_maps_are_refused)
{
	int fd = memfd_create("file", 0);
	void *map;

	ASSERT_EQ(0, ftruncate(fd, 8192));
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(-EOPNOTSUPP, bo_register(self->fd, map, 8192, 0,
					   &self->reg));
	EXPECT_EQ(-EOPNOTSUPP, bo_register(self->fd, map, 8192,
					   DRM_OPENREG_BO_READONLY,
					   &self->reg));
	close(fd);
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(-EOPNOTSUPP, bo_register(self->fd, map, 8192, 0,
					   &self->reg));
}

/* Static memory is a private mapping of the program file. */
static unsigned char initialised[8192] = { 1 };
static unsigned char zeroed[8192];

TEST_F(user, static_memory)
{
	struct bo reg[2];

	ASSERT_EQ(0, bo_register(self->fd, initialised, 8192, 0, &reg[0]));
	ASSERT_EQ(0, bo_register(self->fd, zeroed, 8192, 0, &reg[1]));
	packet_copy(&self->p, reg[1].address, reg[0].address, 8192,
		    OPENREG_U8);
	ASSERT_EQ(0, run(&self->q, &self->p));
	EXPECT_EQ(1, zeroed[0]);
}

TEST_F(user, holes_are_refused)
{
	ASSERT_EQ(0, munmap(self->mem + 8192, 4096));
	EXPECT_EQ(-EFAULT, bo_register(self->fd, self->mem, SIZE, 0,
				       &self->reg));
	EXPECT_EQ(-EFAULT, bo_register(self->fd, self->mem + 8192, 1, 0,
				       &self->reg));
	EXPECT_EQ(0, bo_register(self->fd, self->mem, 8192, 0, &self->reg));
}

TEST_F(user, memlock_limit)
{
	const struct rlimit limit = { 16 * 4096, 16 * 4096 };
	struct drm_openreg_memory_info info;
	struct bo more;

	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	/* CAP_IPC_LOCK overrides the limit. */
	ASSERT_EQ(0, bo_register(self->fd, self->mem, 32 * 4096, 0,
				 &self->reg));
	ASSERT_EQ(0, card_memory(self->fd, &info));
	EXPECT_EQ(32 * 4096, info.process_pinned);
	ASSERT_EQ(0, bo_close(self->fd, self->reg.handle));
	ASSERT_EQ(0, card_memory(self->fd, &info));
	EXPECT_EQ(0, info.process_pinned);

	ASSERT_EQ(0, seteuid(65534));
	EXPECT_EQ(-ENOMEM, bo_register(self->fd, self->mem, 17 * 4096, 0,
				       &self->reg));
	/* If needed, the call waits until closed memory is unpinned. */
	ASSERT_EQ(0, bo_register(self->fd, self->mem, 16 * 4096, 0,
				 &self->reg));
	EXPECT_EQ(-ENOMEM, bo_register(self->fd, self->mem + MIB, 1, 0,
				       &more));
	ASSERT_EQ(0, bo_close(self->fd, self->reg.handle));
	EXPECT_EQ(0, bo_register(self->fd, self->mem + MIB, 1, 0, &more));
}

/* The card keeps registered memory after munmap(). */
TEST_F(user, map_may_go)
{
	memset(self->mem, 0x33, SIZE);
	ASSERT_EQ(0, bo_register(self->fd, self->mem, SIZE, 0, &self->reg));
	ASSERT_EQ(0, munmap(self->mem, SIZE));
	packet_copy(&self->p, self->vram.address, self->reg.address, SIZE,
		    OPENREG_U8);
	ASSERT_EQ(0, run(&self->q, &self->p));
	EXPECT_EQ(0x33, ((unsigned char *)self->vram.cpu)[SIZE - 1]);
}

TEST_F(user, twice_is_fine)
{
	struct bo again;

	ASSERT_EQ(0, bo_register(self->fd, self->mem, SIZE, 0, &self->reg));
	ASSERT_EQ(0, bo_register(self->fd, self->mem + 100, 5000, 0, &again));
	EXPECT_NE(self->reg.address, again.address);
	ASSERT_EQ(0, bo_close(self->fd, self->reg.handle));
	packet_fill(&self->p, again.address, 5000, OPENREG_U8, 6);
	ASSERT_EQ(0, run(&self->q, &self->p));
	EXPECT_EQ(0, self->mem[99]);
	EXPECT_EQ(6, self->mem[100]);
	EXPECT_EQ(6, self->mem[5099]);
	EXPECT_EQ(0, self->mem[5100]);
}

TEST_HARNESS_MAIN
