// SPDX-License-Identifier: GPL-2.0-only
/* A debugger reads and writes mappings of the device file through /proc/PID/mem. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

#include "kselftest_harness.h"

#include "machine.h"
#include "sharing.h"

#define PAGE 4096

FIXTURE(debugger)
{
	int mem; /* /proc/self/mem */
	int fd;
	struct queue q;
	struct bo vram, sys;
	unsigned char buf[MIB];
};

FIXTURE_SETUP(debugger)
{
	self->mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->mem);
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_SYSTEM,
			       &self->sys));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->sys));
}

FIXTURE_TEARDOWN(debugger)
{
	queue_unmap(&self->q);
	munmap(self->vram.cpu, MIB);
	munmap(self->sys.cpu, MIB);
	close(self->fd);
	close(self->mem);
	EXPECT_EQ(0, card_works());
}

/* These return the bytes read or written, or -errno. */
static ssize_t peek(int mem, const volatile void *at, void *buf, size_t size)
{
	ssize_t ret = pread(mem, buf, size, (uintptr_t)at);

	return ret < 0 ? -errno : ret;
}

static ssize_t poke(int mem, volatile void *at, const void *buf, size_t size)
{
	ssize_t ret = pwrite(mem, buf, size, (uintptr_t)at);

	return ret < 0 ? -errno : ret;
}

#define OBJECTS(i) ((i) ? &self->sys : &self->vram)

TEST_F(debugger, reads_objects)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct bo *bo = OBJECTS(i);

		/* No page was touched before. */
		memset(self->buf, 1, MIB);
		EXPECT_EQ(MIB, peek(self->mem, bo->cpu, self->buf, MIB));
		EXPECT_TRUE(!self->buf[0] && !self->buf[MIB - 1]);
		noise(bo->cpu, MIB, i);
		EXPECT_EQ(MIB, peek(self->mem, bo->cpu, self->buf, MIB));
		EXPECT_TRUE(is_noise(self->buf, MIB, i));
		/* The range crosses pages, and neither end is aligned. */
		memset(self->buf, 0, MIB);
		EXPECT_EQ(2 * PAGE, peek(self->mem, bo->cpu + 13, self->buf,
					 2 * PAGE));
		EXPECT_EQ(0, memcmp(self->buf, bo->cpu + 13, 2 * PAGE));
		EXPECT_EQ(0, self->buf[2 * PAGE]);
		/* A read ends at the end of the mapping. */
		ASSERT_EQ(0, munmap(bo->cpu + MIB - PAGE, PAGE));
		EXPECT_EQ(PAGE, peek(self->mem, bo->cpu + MIB - 2 * PAGE,
				     self->buf, 2 * PAGE));
		EXPECT_EQ(-EIO, peek(self->mem, bo->cpu + MIB - PAGE,
				     self->buf, 1));
	}
}

TEST_F(debugger, writes_objects)
{
	struct packet p;
	int i;

	for (i = 0; i < 2; i++) {
		struct bo *bo = OBJECTS(i);

		noise(self->buf, MIB, i);
		EXPECT_EQ(MIB, poke(self->mem, bo->cpu, self->buf, MIB));
		EXPECT_TRUE(is_noise(bo->cpu, MIB, i));
		EXPECT_EQ(3, poke(self->mem, bo->cpu + PAGE - 1, "abc", 3));
		EXPECT_EQ(0, memcmp(bo->cpu + PAGE - 1, "abc", 3));
	}
	/* The card sees the same bytes. */
	packet_copy(&p, self->vram.address, self->sys.address, MIB, OPENREG_U8);
	queue_push(&self->q, &p);
	ASSERT_EQ(0, queue_wait(&self->q, 1, 20 * SEC_NS));
	EXPECT_EQ(0, memcmp(self->vram.cpu, self->sys.cpu, MIB));
}

TEST_F(debugger, reaches_queues)
{
	const volatile struct openreg_card_page *card = self->q.card;
	__u64 completed = 77, tail = 5;
	struct packet p;
	__u32 bell = 1;

	packet_nop(&p);
	queue_push(&self->q, &p);
	ASSERT_EQ(0, queue_wait(&self->q, 1, 20 * SEC_NS));
	EXPECT_EQ(sizeof(completed), peek(self->mem, &card->completed,
					  &completed, sizeof(completed)));
	EXPECT_EQ(1, completed);
	EXPECT_EQ(sizeof(tail), peek(self->mem, &self->q.user->tail, &tail,
				     sizeof(tail)));
	EXPECT_EQ(1, tail);
	EXPECT_EQ(64, peek(self->mem, self->q.ring, self->buf, 64));
	EXPECT_EQ(0, memcmp(self->buf, self->q.ring, 64));
	EXPECT_EQ(sizeof(bell), peek(self->mem, self->q.doorbell, &bell,
				     sizeof(bell)));
	EXPECT_EQ(0, bell);
	/* Submit the packet again, with all writes made by the debugger. */
	EXPECT_EQ(64, poke(self->mem, self->q.ring + 64, self->buf, 64));
	tail = 2;
	EXPECT_EQ(sizeof(tail), poke(self->mem, &self->q.user->tail, &tail,
				     sizeof(tail)));
	bell = 1;
	EXPECT_EQ(sizeof(bell), poke(self->mem, self->q.doorbell, &bell,
				     sizeof(bell)));
	EXPECT_EQ(0, queue_wait(&self->q, 2, 20 * SEC_NS));
}

/* A debugger cannot write a mapping that the process cannot write. */
TEST_F(debugger, cannot_write_readonly_mappings)
{
	volatile __u64 *completed = (volatile __u64 *)&self->q.card->completed;
	char *map;
	__u64 value = 5;

	EXPECT_EQ(-EIO, poke(self->mem, completed, &value, sizeof(value)));
	EXPECT_EQ(0, *completed);
	map = mmap(NULL, MIB, PROT_READ, MAP_SHARED, self->fd,
		   self->vram.mmap_offset);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(-EIO, poke(self->mem, map, &value, sizeof(value)));
	EXPECT_EQ(sizeof(value), peek(self->mem, map, &value, sizeof(value)));
	EXPECT_EQ(0, value);
	munmap(map, MIB);
}

TEST_F(debugger, reaches_maps_of_dma_bufs)
{
	int i;

	for (i = 0; i < 2; i++) {
		int db = bo_export(self->fd, OBJECTS(i)->handle,
				   DRM_CLOEXEC | DRM_RDWR);
		char *map = dma_buf_map(db, MIB);

		ASSERT_NE(MAP_FAILED, map);
		noise(self->buf, MIB, i);
		EXPECT_EQ(MIB, poke(self->mem, map, self->buf, MIB));
		EXPECT_TRUE(is_noise(OBJECTS(i)->cpu, MIB, i));
		memset(self->buf, 0, MIB);
		EXPECT_EQ(MIB, peek(self->mem, map, self->buf, MIB));
		EXPECT_TRUE(is_noise(self->buf, MIB, i));
		munmap(map, MIB);
		close(db);
	}
}

/* After the card is removed, mappings show the dummy page, which can be written. */
TEST_F_TIMEOUT(debugger, reads_zeros_without_the_card, 120)
{
	__u64 value = 5;
	char slot[64];

	ASSERT_TRUE(slot_of_card(slot, sizeof(slot)));
	memset(self->vram.cpu, 1, MIB);
	memset(self->sys.cpu, 2, MIB);
	ASSERT_EQ(0, file_put(PCI_DRIVER "unbind", slot));
	EXPECT_EQ(MIB, peek(self->mem, self->vram.cpu, self->buf, MIB));
	EXPECT_TRUE(!self->buf[0] && !self->buf[MIB - 1]);
	EXPECT_EQ(sizeof(value), poke(self->mem, self->vram.cpu, &value,
				      sizeof(value)));
	EXPECT_EQ(value, *(__u64 *)self->vram.cpu);
	EXPECT_EQ(sizeof(value), poke(self->mem, self->q.doorbell, &value,
				      sizeof(value)));
	EXPECT_EQ(sizeof(value), peek(self->mem, self->q.card, &value,
				      sizeof(value)));
	EXPECT_EQ(0, value);
	EXPECT_EQ(MIB, peek(self->mem, self->sys.cpu, self->buf, MIB));
	EXPECT_TRUE(self->buf[0] == 2 && self->buf[MIB - 1] == 2);
	ASSERT_EQ(0, file_put(PCI_DRIVER "bind", slot));
}

static void be_debugged(int pipe_fd)
{
	struct bo bo;
	int fd = card_open();

	if (fd < 0 || bo_create(fd, MIB, DRM_OPENREG_BO_VRAM, &bo) ||
	    bo_map(fd, &bo))
		_exit(1);
	*(long *)bo.cpu = 0x1122334455667788;
	if (write(pipe_fd, &bo.cpu, sizeof(bo.cpu)) != sizeof(bo.cpu))
		_exit(2);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	_exit(*(long *)bo.cpu == 99 ? 0 : 3);
}

TEST(by_ptrace)
{
	int gate[2], status;
	void *at;
	pid_t pid;

	ASSERT_EQ(0, pipe(gate));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		be_debugged(gate[1]);
	ASSERT_EQ(sizeof(at), read(gate[0], &at, sizeof(at)));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status));
	EXPECT_EQ(0x1122334455667788, ptrace(PTRACE_PEEKDATA, pid, at, 0));
	EXPECT_EQ(0, ptrace(PTRACE_POKEDATA, pid, at, 99l));
	EXPECT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_HARNESS_MAIN
