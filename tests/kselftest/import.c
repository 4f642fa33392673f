// SPDX-License-Identifier: GPL-2.0-only
// test import-iommu not kselftest-checked: as queue-iommu
/* Import of dma-bufs of other drivers, and import of the card's dma-bufs by them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <linux/dma-buf.h>

#include "kselftest_harness.h"

#include "sharing.h"

#define RW (DRM_CLOEXEC | DRM_RDWR)
#define SIZE (4 * MIB)

FIXTURE(import)
{
	struct card_usage before;
	int fd;
	struct queue q;
	struct bo vram;
};

FIXTURE_SETUP(import)
{
	self->before = card_unused();
	ASSERT_LE(0, self->before.vram_free)
		TH_LOG("no openreg_stats in debugfs");
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, SIZE, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
}

FIXTURE_TEARDOWN(import)
{
	queue_unmap(&self->q);
	munmap(self->vram.cpu, SIZE);
	close(self->fd);
	EXPECT_TRUE(card_settles(self->before));
}

/* Compares page by page. If backwards, the pages of b are in the opposite order. */
static bool pages_equal(const char *a, const char *b, size_t size,
			bool backwards)
{
	size_t at;

	for (at = 0; at < size; at += 4096)
		if (memcmp(a + at, b + (backwards ? size - 4096 - at : at),
			   4096))
			return false;
	return true;
}

/* A udmabuf with its pages in order, and in the opposite order. */
TEST_F_TIMEOUT(import, udmabuf, 120)
{
	int db, backwards;
	struct bo in;
	char *mem;

	for (backwards = 0; backwards < 2; backwards++) {
		db = udmabuf(SIZE, backwards, (void **)&mem);
		ASSERT_LE(0, db) TH_LOG("udmabuf: %s", strerror(-db));
		noise(mem, SIZE, 11);
		ASSERT_EQ(0, bo_import(self->fd, db, &in));
		EXPECT_EQ(SIZE, in.size);
		EXPECT_EQ(DRM_OPENREG_BO_SYSTEM | DRM_OPENREG_BO_IMPORTED,
			  bo_flags(self->fd, in.handle));
		close(db);
		ASSERT_EQ(0, card_copy(&self->q, self->vram.address,
				       in.address, SIZE));
		EXPECT_TRUE(pages_equal(self->vram.cpu, mem, SIZE, backwards));

		noise(self->vram.cpu, SIZE, 12);
		ASSERT_EQ(0, card_copy(&self->q, in.address,
				       self->vram.address, SIZE));
		EXPECT_TRUE(pages_equal(self->vram.cpu, mem, SIZE, backwards));

		/* Neither start nor end is page aligned. */
		ASSERT_EQ(0, bo_map(self->fd, &in));
		ASSERT_EQ(0, card_copy(&self->q, in.address + 4099,
				       self->vram.address + 100000, 300001));
		EXPECT_EQ(0, memcmp((char *)in.cpu + 4099,
				    (char *)self->vram.cpu + 100000, 300001));
		EXPECT_EQ(0, memcmp(in.cpu, self->vram.cpu, 4099));
		EXPECT_EQ(0, memcmp((char *)in.cpu + 304100,
				    (char *)self->vram.cpu + 304100,
				    SIZE - 304100));
		munmap(in.cpu, SIZE);
		munmap(mem, SIZE);
		ASSERT_EQ(0, bo_close(self->fd, in.handle));
	}
}

/* The card uses memory of another driver, vgem. */
TEST_F_TIMEOUT(import, vgem, 120)
{
	int db, vgem = vgem_open();
	__u32 theirs;
	struct bo in;
	void *mem;

	ASSERT_LE(0, vgem) TH_LOG("vgem: %s", strerror(-vgem));
	ASSERT_EQ(0, vgem_create(vgem, SIZE, &theirs, &mem));
	noise(mem, SIZE, 13);
	db = bo_export(vgem, theirs, RW);
	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(self->fd, db, &in));
	close(db);
	ASSERT_EQ(0, card_copy(&self->q, self->vram.address, in.address,
			       SIZE));
	EXPECT_TRUE(is_noise(self->vram.cpu, SIZE, 13));
	noise(self->vram.cpu, SIZE, 14);
	ASSERT_EQ(0, card_copy(&self->q, in.address, self->vram.address,
			       SIZE));
	EXPECT_TRUE(is_noise(mem, SIZE, 14));
	ASSERT_EQ(0, bo_map(self->fd, &in));
	EXPECT_TRUE(is_noise(in.cpu, SIZE, 14));
	munmap(in.cpu, SIZE);
	munmap(mem, SIZE);
	close(vgem);
	/* The file of the other driver is closed, but its memory is still valid. */
	ASSERT_EQ(0, card_copy(&self->q, self->vram.address, in.address,
			       SIZE));
	EXPECT_TRUE(is_noise(self->vram.cpu, SIZE, 14));
}

/*
 * vgem imports memory of the card. vgem does not map VRAM of a peer. Its own mmap()
 * refuses imported objects, but a dma-buf that it exports for one can be mapped.
 */
TEST_F_TIMEOUT(import, by_vgem, 120)
{
	int db, again, vgem = vgem_open();
	struct bo system;
	__u32 ours;
	void *mem;

	ASSERT_LE(0, vgem) TH_LOG("vgem: %s", strerror(-vgem));
	ASSERT_EQ(0, bo_create(self->fd, SIZE, DRM_OPENREG_BO_SYSTEM,
			       &system));
	ASSERT_EQ(0, bo_map(self->fd, &system));
	db = bo_export(self->fd, system.handle, RW);
	ASSERT_LE(0, db);
	EXPECT_EQ(0, handle_import(vgem, db, &ours));
	EXPECT_EQ(0, dma_buf_sync(db, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	EXPECT_EQ(0, dma_buf_sync(db, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW));
	close(db);
	EXPECT_EQ(-EINVAL, vgem_map(vgem, ours, SIZE, &mem));
	ASSERT_EQ(0, bo_close(self->fd, system.handle));
	again = bo_export(vgem, ours, RW);
	ASSERT_LE(0, again);
	mem = dma_buf_map(again, SIZE);
	ASSERT_NE(MAP_FAILED, mem);
	close(again);
	EXPECT_EQ(0, bo_close(vgem, ours));
	noise(system.cpu, SIZE, 15);
	EXPECT_TRUE(is_noise(mem, SIZE, 15));
	munmap(system.cpu, SIZE);
	EXPECT_TRUE(is_noise(mem, SIZE, 15));
	munmap(mem, SIZE);
	db = bo_export(self->fd, self->vram.handle, RW);
	ASSERT_LE(0, db);
	EXPECT_EQ(-EOPNOTSUPP, handle_import(vgem, db, &ours));
	close(db);
	close(vgem);
}

TEST_F(import, refusals)
{
	static char mem[8192];
	int db, null, pair[2];
	struct bo reg, in;
	__u32 flag, handle;

	/* Only DRM_CLOEXEC and DRM_RDWR are valid. */
	for (flag = 1; flag; flag <<= 1) {
		if (flag & RW)
			continue;
		EXPECT_EQ(-EINVAL, bo_export(self->fd, self->vram.handle,
					     flag));
	}
	EXPECT_EQ(-ENOENT, bo_export(self->fd, 0, RW));
	EXPECT_EQ(-ENOENT, bo_export(self->fd, 4711, RW));
	ASSERT_EQ(0, bo_register(self->fd, mem, sizeof(mem), 0, &reg));
	EXPECT_EQ(-EOPNOTSUPP, bo_export(self->fd, reg.handle, RW));
	EXPECT_EQ(-EOPNOTSUPP, bo_export(self->fd, reg.handle, 0));

	EXPECT_EQ(-EBADF, handle_import(self->fd, -1, &handle));
	EXPECT_EQ(-EBADF, handle_import(self->fd, 4711, &handle));
	EXPECT_EQ(-EINVAL, handle_import(self->fd, self->fd, &handle));
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	EXPECT_EQ(-EINVAL, handle_import(self->fd, null, &handle));
	close(null);
	ASSERT_EQ(0, pipe(pair));
	EXPECT_EQ(-EINVAL, handle_import(self->fd, pair[0], &handle));

	db = bo_export(self->fd, self->vram.handle, RW);
	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_close(self->fd, self->vram.handle));
	EXPECT_EQ(-ENOENT, bo_export(self->fd, self->vram.handle, RW));
	ASSERT_EQ(0, bo_import(self->fd, db, &in));
	ASSERT_EQ(0, bo_close(self->fd, in.handle));
	EXPECT_EQ(-ENOENT, bo_export(self->fd, in.handle, RW));
	EXPECT_EQ(-EINVAL, bo_close(self->fd, in.handle));
	close(db);
	EXPECT_EQ(-EBADF, handle_import(self->fd, db, &handle));
}

/* Does a child of fork() lack the mapping of an imported object? */
static bool is_not_inherited(int fd, const struct bo *bo)
{
	void *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, bo->mmap_offset);
	int status = -1;
	pid_t pid;

	if (map == MAP_FAILED || msync(map, SIZE, MS_ASYNC))
		return false;
	pid = fork();
	if (!pid)
		_exit(msync(map, SIZE, MS_ASYNC) && errno == ENOMEM ? 0 : 1);
	waitpid(pid, &status, 0);
	munmap(map, SIZE);
	return !status;
}

/* Mappings with a wrong size or offset, or private. */
TEST_F(import, wrong_maps)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct bo in;
	void *mem;
	int db = udmabuf(SIZE, false, &mem);

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(self->fd, db, &in));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SIZE + 4096, rw, MAP_SHARED, self->fd,
				   in.mmap_offset));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, rw, MAP_SHARED, self->fd,
				   in.mmap_offset + 4096));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SIZE, rw, MAP_PRIVATE, self->fd,
				   in.mmap_offset));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_TRUE(is_not_inherited(self->fd, &in));
	ASSERT_EQ(0, bo_close(self->fd, in.handle));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SIZE, rw, MAP_SHARED, self->fd,
				   in.mmap_offset));
	munmap(mem, SIZE);
	close(db);
}

TEST_F_TIMEOUT(import, again_and_again, 120)
{
	struct bo in, same;
	void *mem;
	int i, db = udmabuf(SIZE, false, &mem);

	ASSERT_LE(0, db);
	noise(mem, SIZE, 21);
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, bo_import(self->fd, db, &in));
		ASSERT_EQ(0, bo_import(self->fd, db, &same));
		ASSERT_EQ(in.handle, same.handle);
		ASSERT_EQ(in.address, same.address);
		ASSERT_EQ(0, bo_close(self->fd, in.handle));
	}
	ASSERT_EQ(0, bo_import(self->fd, db, &in));
	close(db);
	munmap(mem, SIZE);
	/* The import is the only user of the memory now. */
	ASSERT_EQ(0, card_copy(&self->q, self->vram.address, in.address,
			       SIZE));
	EXPECT_TRUE(is_noise(self->vram.cpu, SIZE, 21));
}

/* A packet waits for a word of imported memory, and the import is closed. */
TEST_F(import, closed_while_waited_on)
{
	struct packet p;
	struct bo in;
	void *mem;
	int db = udmabuf(MIB, false, &mem);

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(self->fd, db, &in));
	close(db);
	munmap(mem, MIB);
	packet_wait(&p, in.address + 64);
	queue_push(&self->q, &p);
	EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, SEC_NS / 20));
	ASSERT_EQ(0, bo_close(self->fd, in.handle));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 20 * SEC_NS));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, self->q.card->fault.code);
}

struct racer {
	pthread_t thread;
	int fd;
	const int *dma_bufs;
	int done;
};

/* Another thread may close the handle at any time. */
static void *race(void *data)
{
	struct racer *r = data;
	struct bo in;
	int i, ret;

	for (i = 0; i < 60; i++) {
		ret = bo_import(r->fd, r->dma_bufs[i % 3], &in);
		if (ret && ret != -ENOENT)
			return NULL;
		if (!ret && !bo_map(r->fd, &in)) {
			*(volatile char *)in.cpu = i;
			munmap(in.cpu, in.size);
		}
		ret = bo_close(r->fd, in.handle);
		if (ret && ret != -EINVAL)
			return NULL;
		r->done++;
	}
	return NULL;
}

/* Two threads race on the handles of one file, and two on those of another. */
TEST_F_TIMEOUT(import, races, 120)
{
	struct racer racers[4] = {};
	int i, other = card_open(), db[3];
	struct bo system;
	void *mem;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, bo_create(self->fd, SIZE, DRM_OPENREG_BO_SYSTEM,
			       &system));
	db[0] = bo_export(self->fd, system.handle, RW);
	db[1] = bo_export(self->fd, self->vram.handle, RW);
	db[2] = udmabuf(SIZE, true, &mem);
	for (i = 0; i < 3; i++)
		ASSERT_LE(0, db[i]);
	ASSERT_EQ(0, bo_close(self->fd, system.handle));
	ASSERT_EQ(0, bo_close(self->fd, self->vram.handle));
	for (i = 0; i < 4; i++) {
		racers[i].fd = i & 1 ? other : self->fd;
		racers[i].dma_bufs = db;
		ASSERT_EQ(0, pthread_create(&racers[i].thread, NULL, race,
					    &racers[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(racers[i].thread, NULL);
		EXPECT_EQ(60, racers[i].done);
	}
	for (i = 0; i < 3; i++)
		close(db[i]);
	munmap(mem, SIZE);
	close(other);
}

/* Imports, exports, copies and closes in a loop, until killed. */
static void churn(__u32 kind)
{
	int fd = card_open(), other = card_open(), db;
	struct bo vram, own, in;
	struct packet p;
	struct queue q;
	void *mem;

	if (fd < 0 || other < 0 || queue_create(fd, 64, &q) ||
	    bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &vram))
		_exit(1);
	for (;;) {
		if (bo_create(other, MIB, kind, &own))
			_exit(2);
		db = bo_export(other, own.handle, RW);
		if (db < 0 || bo_import(fd, db, &in))
			_exit(3);
		close(db);
		packet_copy(&p, in.address, vram.address, MIB, OPENREG_U8);
		queue_push(&q, &p);
		bo_close(other, own.handle);
		db = udmabuf(MIB, false, &mem);
		if (db < 0 || bo_import(fd, db, &own))
			_exit(4);
		packet_copy(&p, own.address, vram.address, MIB, OPENREG_U8);
		queue_push(&q, &p);
		munmap(mem, MIB);
		close(db);
		bo_close(fd, in.handle);
		bo_close(fd, own.handle);
		if (queue_wait(&q, q.seq, 60 * SEC_NS) &&
		    queue_reset(&q, q.tail, q.seq))
			_exit(5);
	}
}

TEST_F_TIMEOUT(import, killed, 120)
{
	struct bo system;
	int i, status;
	pid_t pid;

	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_SYSTEM, &system));
	noise(self->vram.cpu, MIB, 31);
	for (i = 0; i < 20; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			churn(i & 1 ? DRM_OPENREG_BO_VRAM :
				      DRM_OPENREG_BO_SYSTEM);
		usleep(30000 + i * 5000);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			TH_LOG("ended by itself: 0x%x", status);
		/* Another file is served right after. */
		ASSERT_EQ(0, card_copy(&self->q, system.address,
				       self->vram.address, MIB));
		EXPECT_TRUE(is_noise(self->vram.cpu, MIB, 31));
	}
}

TEST_HARNESS_MAIN
