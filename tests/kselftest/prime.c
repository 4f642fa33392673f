// SPDX-License-Identifier: GPL-2.0-only
// test prime-iommu not kselftest-checked: as queue-iommu
/* Export of buffer objects: mappings, lifetimes, import by other files of the card. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <linux/dma-buf.h>

#include "kselftest_harness.h"

#include "sharing.h"

#define RW (DRM_CLOEXEC | DRM_RDWR)

FIXTURE(prime)
{
	struct card_usage before;
	int fd;
	struct queue q;
	struct packet p;
	struct bo bo; /* of the variant's kind, with noise of seed 1 */
	struct bo vram;
};

FIXTURE_VARIANT(prime)
{
	__u32 flags;
};

FIXTURE_VARIANT_ADD(prime, vram)
{
	.flags = DRM_OPENREG_BO_VRAM,
};

FIXTURE_VARIANT_ADD(prime, system)
{
	.flags = DRM_OPENREG_BO_SYSTEM,
};

FIXTURE_SETUP(prime)
{
	self->before = card_unused();
	ASSERT_LE(0, self->before.vram_free)
		TH_LOG("no openreg_stats in debugfs");
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, MIB, variant->flags, &self->bo));
	ASSERT_EQ(0, bo_map(self->fd, &self->bo));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
	noise(self->bo.cpu, MIB, 1);
}

static void close_all(int fd, struct queue *q, struct bo *bo, struct bo *vram)
{
	queue_unmap(q);
	munmap(bo->cpu, MIB);
	munmap(vram->cpu, MIB);
	close(fd);
}

FIXTURE_TEARDOWN(prime)
{
	close_all(self->fd, &self->q, &self->bo, &self->vram);
	EXPECT_TRUE(card_settles(self->before));
}

TEST_F_TIMEOUT(prime, exported_and_mapped, 120)
{
	int db = bo_export(self->fd, self->bo.handle, RW);
	char *map, *part;

	ASSERT_LE(0, db);
	EXPECT_EQ(FD_CLOEXEC, fcntl(db, F_GETFD));
	EXPECT_EQ(MIB, lseek(db, 0, SEEK_END));
	map = dma_buf_map(db, MIB);
	ASSERT_NE(MAP_FAILED, map);
	part = mmap(NULL, 8192, PROT_READ, MAP_SHARED, db, MIB - 8192);
	ASSERT_NE(MAP_FAILED, part);

	EXPECT_EQ(0, dma_buf_sync(db, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	EXPECT_TRUE(is_noise(map, MIB, 1));
	EXPECT_EQ(0, memcmp(part, map + MIB - 8192, 8192));
	noise(map, MIB, 2);
	EXPECT_EQ(0, dma_buf_sync(db, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW));
	EXPECT_TRUE(is_noise(self->bo.cpu, MIB, 2));

	/* The card reads and writes the same memory. */
	ASSERT_EQ(0, card_copy(&self->q, self->vram.address, self->bo.address,
			       MIB));
	EXPECT_TRUE(is_noise(self->vram.cpu, MIB, 2));
	noise(self->vram.cpu, MIB, 3);
	ASSERT_EQ(0, card_copy(&self->q, self->bo.address, self->vram.address,
			       MIB));
	EXPECT_EQ(0, dma_buf_sync(db, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ));
	EXPECT_TRUE(is_noise(map, MIB, 3));
	EXPECT_EQ(0, memcmp(part, map + MIB - 8192, 8192));
	EXPECT_EQ(0, dma_buf_sync(db, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ));
	munmap(part, 8192);
	munmap(map, MIB);
	close(db);
}

TEST_F_TIMEOUT(prime, wrong_maps, 120)
{
	const int rw = PROT_READ | PROT_WRITE;
	int db = bo_export(self->fd, self->bo.handle, RW);
	void *map;

	ASSERT_LE(0, db);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB + 4096, rw, MAP_SHARED, db, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, rw, MAP_SHARED, db, 4096));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, rw, MAP_SHARED, db, MIB));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, rw, MAP_SHARED, db, 100));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, rw, MAP_PRIVATE, db, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, db, 0));
	EXPECT_EQ(EINVAL, errno);
	/* A mapping cannot grow. */
	map = dma_buf_map(db, MIB);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(MAP_FAILED, mremap(map, MIB, 2 * MIB, MREMAP_MAYMOVE));
	munmap(map, MIB);
	EXPECT_EQ(-EINVAL, dma_buf_sync(db, 0));
	EXPECT_EQ(-EINVAL, dma_buf_sync(db, 1u << 3));
	close(db);
}

/* Can the object be mapped for reading, and never for writing? */
static bool maps_for_reading(int fd, __u64 offset)
{
	const int rw = PROT_READ | PROT_WRITE;
	void *map = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, offset);
	bool good = map != MAP_FAILED && is_noise(map, MIB, 1) &&
		    mprotect(map, MIB, rw) && errno == EACCES;

	if (map != MAP_FAILED)
		munmap(map, MIB);
	map = mmap(NULL, MIB, rw, MAP_SHARED, fd, offset);
	return good && map == MAP_FAILED && errno == EACCES;
}

/* A read-only dma-buf gives write access to no mapping, packet, import or export. */
TEST_F_TIMEOUT(prime, for_reading, 120)
{
	int db = bo_export(self->fd, self->bo.handle, DRM_CLOEXEC);
	int other = card_open();
	struct bo vram, in;
	struct queue q;
	char path[32];

	ASSERT_LE(0, db);
	ASSERT_LE(0, other);
	EXPECT_TRUE(maps_for_reading(db, 0));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", db);
	EXPECT_EQ(-1, open(path, O_RDWR | O_CLOEXEC));

	ASSERT_EQ(0, queue_create(other, 64, &q));
	ASSERT_EQ(0, bo_create(other, MIB, DRM_OPENREG_BO_VRAM, &vram));
	ASSERT_EQ(0, bo_map(other, &vram));
	ASSERT_EQ(0, bo_import(other, db, &in));
	EXPECT_EQ(variant->flags | DRM_OPENREG_BO_IMPORTED |
		  DRM_OPENREG_BO_READONLY, bo_flags(other, in.handle));
	EXPECT_TRUE(maps_for_reading(other, in.mmap_offset));
	EXPECT_EQ(0, card_copy(&q, vram.address, in.address, MIB));
	EXPECT_TRUE(is_noise(vram.cpu, MIB, 1));
	EXPECT_EQ(-EIO, card_copy(&q, in.address, vram.address, MIB));
	EXPECT_EQ(OPENREG_FAULT_PERMISSION, q.card->fault.code);
	EXPECT_TRUE(is_noise(self->bo.cpu, MIB, 1));

	/* An object has one dma-buf, so exports with other rights are refused. */
	EXPECT_EQ(-EACCES, bo_export(self->fd, self->bo.handle, RW));
	EXPECT_EQ(-EACCES, bo_export(other, in.handle, RW));
	close(bo_export(self->fd, self->bo.handle, DRM_CLOEXEC));
	close(db);
	db = bo_export(other, in.handle, 0);
	ASSERT_LE(0, db);
	EXPECT_TRUE(maps_for_reading(db, 0));
	close(db);

	db = bo_export(self->fd, self->vram.handle, RW);
	ASSERT_LE(0, db);
	EXPECT_EQ(-EACCES, bo_export(self->fd, self->vram.handle, DRM_CLOEXEC));
	close(db);
	queue_unmap(&q);
	munmap(vram.cpu, MIB);
	close(other);
}

/* Sums words of VRAM on the card: 0 if all are zero. */
static int sum(struct queue *q, __u64 dst, __u64 src, __u64 words)
{
	static const struct openreg_instr program[] = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 1 },
		{ .op = OPENREG_V_RED_SUM, .a = 0, .b = OPENREG_VNONE,
		  .c = OPENREG_VNONE, .aux = 0 },
	};
	const int64_t size = words, still = 0;
	struct packet p;

	openreg_encode(p.bytes, OPENREG_OP_VECTOR, 0);
	openreg_encode_arg(p.bytes, 0, 1);
	openreg_encode_space(p.bytes, 1, &size);
	openreg_encode_operand(p.bytes, dst, OPENREG_I64, &still);
	openreg_encode_operand(p.bytes, src, OPENREG_I64, NULL);
	openreg_encode_instr(p.bytes, program, 2);
	return queue_wait(q, queue_push(q, &p), 60 * SEC_NS);
}

/* Does all free VRAM read as zeros? */
static bool vram_is_clear(void)
{
	struct drm_openreg_memory_info info;
	struct bo result, all;
	bool clear = false;
	struct queue q;
	int fd = card_open();

	if (fd >= 0 && !queue_create(fd, 64, &q)) {
		clear = !bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &result) &&
			!bo_map(fd, &result) && !card_memory(fd, &info) &&
			!bo_create(fd, info.vram_largest, DRM_OPENREG_BO_VRAM,
				   &all) &&
			!sum(&q, result.address, all.address, all.size / 8) &&
			*(__s64 *)result.cpu == 0;
		munmap(result.cpu, result.size);
		queue_unmap(&q);
	}
	close(fd);
	return clear;
}

/* A dma-buf keeps its memory after the exporter closed everything. */
TEST_F_TIMEOUT(prime, outlives_its_maker, 120)
{
	bool is_vram = variant->flags == DRM_OPENREG_BO_VRAM;
	struct card_usage kept = self->before;
	int db = bo_export(self->fd, self->bo.handle, RW);
	char *map, *later;
	struct bo in;

	ASSERT_LE(0, db);
	map = dma_buf_map(db, MIB);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_EQ(0, bo_close(self->fd, self->bo.handle));
	EXPECT_TRUE(is_noise(self->bo.cpu, MIB, 1));
	close_all(self->fd, &self->q, &self->bo, &self->vram);
	kept.objects++;
	kept.vram_free -= is_vram ? MIB : 0;
	EXPECT_TRUE(card_settles(kept));
	EXPECT_TRUE(is_noise(map, MIB, 1));
	noise(map, MIB, 5);
	munmap(map, MIB);
	later = dma_buf_map(db, MIB);
	ASSERT_NE(MAP_FAILED, later);
	EXPECT_TRUE(is_noise(later, MIB, 5));

	/* A new file imports it, and gets nothing else. */
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_import(self->fd, db, &in));
	close(db);
	munmap(later, MIB);
	ASSERT_EQ(0, bo_map(self->fd, &in));
	self->bo = in;
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
	ASSERT_EQ(0, card_copy(&self->q, self->vram.address, in.address, MIB));
	EXPECT_TRUE(is_noise(self->vram.cpu, MIB, 5));
	EXPECT_TRUE(is_noise(in.cpu, MIB, 5));
	close_all(self->fd, &self->q, &self->bo, &self->vram);
	EXPECT_TRUE(card_settles(self->before));
	EXPECT_TRUE(vram_is_clear());

	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	self->bo.cpu = self->vram.cpu = mmap(NULL, MIB, PROT_NONE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

TEST_F_TIMEOUT(prime, again_is_the_same, 120)
{
	int db = bo_export(self->fd, self->bo.handle, RW);
	struct bo in, again;

	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(self->fd, db, &in));
	EXPECT_EQ(self->bo.handle, in.handle);
	EXPECT_EQ(self->bo.address, in.address);
	EXPECT_EQ(self->bo.mmap_offset, in.mmap_offset);
	EXPECT_EQ(variant->flags, bo_flags(self->fd, in.handle));

	/* After the close, an import has a new address but the same memory. */
	ASSERT_EQ(0, bo_close(self->fd, self->bo.handle));
	EXPECT_EQ(-EINVAL, bo_close(self->fd, self->bo.handle));
	ASSERT_EQ(0, bo_import(self->fd, db, &in));
	EXPECT_NE(self->bo.address, in.address);
	ASSERT_EQ(0, bo_import(self->fd, db, &again));
	EXPECT_EQ(in.handle, again.handle);
	EXPECT_EQ(in.address, again.address);
	ASSERT_EQ(0, card_copy(&self->q, self->vram.address, in.address, MIB));
	EXPECT_TRUE(is_noise(self->vram.cpu, MIB, 1));
	EXPECT_EQ(-EIO, card_copy(&self->q, self->vram.address,
				  self->bo.address, MIB));
	EXPECT_EQ(OPENREG_FAULT_ADDRESS, self->q.card->fault.code);
	close(db);
	/* The import can be exported again. */
	db = bo_export(self->fd, in.handle, RW);
	ASSERT_LE(0, db);
	ASSERT_EQ(0, bo_import(self->fd, db, &again));
	EXPECT_EQ(in.handle, again.handle);
	close(db);
}

/* Two files of one card use the same memory. */
TEST_F_TIMEOUT(prime, shared_with_another_file, 120)
{
	int db = bo_export(self->fd, self->bo.handle, RW);
	int other = card_open();
	struct bo in, vram;
	struct queue q;

	ASSERT_LE(0, db);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, queue_create(other, 64, &q));
	ASSERT_EQ(0, bo_create(other, MIB, DRM_OPENREG_BO_VRAM, &vram));
	ASSERT_EQ(0, bo_map(other, &vram));
	ASSERT_EQ(0, bo_import(other, db, &in));
	EXPECT_EQ(MIB, in.size);
	EXPECT_EQ(variant->flags | DRM_OPENREG_BO_IMPORTED,
		  bo_flags(other, in.handle));
	ASSERT_EQ(0, bo_map(other, &in));
	EXPECT_TRUE(is_noise(in.cpu, MIB, 1));
	/* Odd sizes and offsets work too. */
	ASSERT_EQ(0, card_copy(&q, vram.address + 3, in.address + 77, 65539));
	EXPECT_EQ(0, memcmp((char *)vram.cpu + 3, (char *)in.cpu + 77, 65539));
	noise(vram.cpu, MIB, 7);
	ASSERT_EQ(0, card_copy(&q, in.address, vram.address, MIB));
	EXPECT_TRUE(is_noise(self->bo.cpu, MIB, 7));

	close(db);
	ASSERT_EQ(0, bo_close(self->fd, self->bo.handle));
	noise(self->bo.cpu, MIB, 8);
	ASSERT_EQ(0, card_copy(&q, vram.address, in.address, MIB));
	EXPECT_TRUE(is_noise(vram.cpu, MIB, 8));
	EXPECT_EQ(-EIO, card_copy(&q, vram.address, in.address + 1, MIB));
	EXPECT_EQ(OPENREG_FAULT_BOUNDS, q.card->fault.code);
	queue_unmap(&q);
	munmap(in.cpu, MIB);
	munmap(vram.cpu, MIB);
	close(other);
}

/* Only a packet still uses the memory: all handles, mappings and dma-bufs are closed. */
TEST_F_TIMEOUT(prime, closed_while_in_use, 120)
{
	int i, ret, db = bo_export(self->fd, self->bo.handle, RW);
	int other = card_open();
	struct queue q;
	struct bo in;

	ASSERT_LE(0, db);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, queue_create(other, 1024, &q));
	ASSERT_EQ(0, bo_import(other, db, &in));
	/* By then some packets have run, and others have not begun. */
	for (i = 0; i < 200; i++) {
		packet_copy(&self->p, in.address + (i & 1) * MIB / 2,
			    in.address + !(i & 1) * MIB / 2, MIB / 2,
			    OPENREG_U8);
		queue_write(&q, &self->p);
	}
	queue_publish(&q);
	ASSERT_EQ(0, queue_spin(&q, 1));
	close(db);
	munmap(self->bo.cpu, MIB);
	ASSERT_EQ(0, bo_close(self->fd, self->bo.handle));
	ASSERT_EQ(0, bo_close(other, in.handle));
	ret = queue_wait(&q, 200, 60 * SEC_NS);
	if (ret) {
		EXPECT_EQ(-EIO, ret);
		EXPECT_EQ(OPENREG_FAULT_ADDRESS, q.card->fault.code);
	}
	queue_unmap(&q);
	close(other);
	self->bo.cpu = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
}

/* Another process, of another user, has only the file descriptor. */
TEST_F_TIMEOUT(prime, given_to_a_process, 120)
{
	int status, db = bo_export(self->fd, self->bo.handle, RW);
	pid_t pid;

	ASSERT_LE(0, db);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct queue q;
		struct bo in, vram;
		int fd;

		if (setresuid(65534, 65534, 65534))
			_exit(1);
		fd = card_open();
		if (fd < 0 || queue_create(fd, 64, &q) ||
		    bo_import(fd, db, &in) ||
		    bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &vram) ||
		    bo_map(fd, &vram))
			_exit(2);
		if (card_copy(&q, vram.address, in.address, MIB) ||
		    !is_noise(vram.cpu, MIB, 1))
			_exit(3);
		noise(vram.cpu, MIB, 9);
		_exit(card_copy(&q, in.address, vram.address, MIB) ? 4 : 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(is_noise(self->bo.cpu, MIB, 9));
	close(db);
}

TEST_HARNESS_MAIN
