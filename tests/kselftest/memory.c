// SPDX-License-Identifier: GPL-2.0-only
// test memory not kselftest-checked: --mem 2G --vram 64M --device-prop doorbells=2 --device-prop vectors=2
/* Buffer objects of both kinds: mappings, contents, limits. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "kselftest_harness.h"

#include "card.h"

FIXTURE(memory)
{
	int fd;
	struct drm_openreg_device_info info;
};

FIXTURE_SETUP(memory)
{
	card_unused(); /* the driver frees memory of earlier tests in its own time */
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, card_info(self->fd, &self->info));
}

FIXTURE_TEARDOWN(memory)
{
	close(self->fd);
}

FIXTURE_VARIANT(memory)
{
	__u32 flags;
};

FIXTURE_VARIANT_ADD(memory, vram)
{
	.flags = DRM_OPENREG_BO_VRAM,
};

FIXTURE_VARIANT_ADD(memory, system)
{
	.flags = DRM_OPENREG_BO_SYSTEM,
};

TEST_F(memory, create_says_what_it_made)
{
	struct drm_openreg_bo_info info = {};
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, 5000, variant->flags, &bo));
	EXPECT_EQ(8192, bo.size);
	EXPECT_TRUE(OPENREG_ADDR_IS_VALID(bo.address));
	EXPECT_EQ(0, OPENREG_ADDR_OFFSET(bo.address));
	EXPECT_EQ(self->info.card, OPENREG_ADDR_CARD(bo.address));
	EXPECT_NE(0, OPENREG_ADDR_SEG(bo.address));
	info.handle = bo.handle;
	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_OPENREG_BO_INFO, &info));
	EXPECT_EQ(variant->flags, info.flags);
	EXPECT_EQ(8192, info.size);
	EXPECT_EQ(bo.address, info.address);
	EXPECT_EQ(bo.mmap_offset, info.mmap_offset);
}

TEST_F(memory, map_reads_back)
{
	const unsigned int n = 3 * MIB / 4;
	unsigned int i;
	__u32 *cpu;
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, 3 * MIB, variant->flags, &bo));
	ASSERT_EQ(0, bo_map(self->fd, &bo));
	cpu = bo.cpu;
	for (i = 0; i < n; i++)
		ASSERT_EQ(0, cpu[i]);
	for (i = 0; i < n; i++)
		cpu[i] = i * 2654435761u;
	munmap(bo.cpu, bo.size);
	ASSERT_EQ(0, bo_map(self->fd, &bo));
	cpu = bo.cpu;
	for (i = 0; i < n; i++)
		ASSERT_EQ(i * 2654435761u, cpu[i]);
}

TEST_F(memory, map_outlives_handle)
{
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, 8192, variant->flags, &bo));
	ASSERT_EQ(0, bo_map(self->fd, &bo));
	ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	memset(bo.cpu, 0x5a, 8192);
	EXPECT_EQ(0x5a, ((char *)bo.cpu)[8191]);
}

TEST_F(memory, is_counted)
{
	struct drm_openreg_memory_info before, after;
	struct bo bo;

	ASSERT_EQ(0, card_memory(self->fd, &before));
	ASSERT_EQ(0, bo_create(self->fd, MIB, variant->flags, &bo));
	ASSERT_EQ(0, card_memory(self->fd, &after));
	EXPECT_EQ(MIB, after.process_vram - before.process_vram +
		  after.process_system - before.process_system);
	EXPECT_EQ(variant->flags == DRM_OPENREG_BO_VRAM ? MIB : 0,
		  before.vram_free - after.vram_free);
	EXPECT_GE(after.vram_free, after.vram_largest);
	ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	ASSERT_EQ(0, card_memory(self->fd, &after));
	EXPECT_EQ(before.process_vram, after.process_vram);
	EXPECT_EQ(before.process_system, after.process_system);
}

TEST_F(memory, numbers_go_round)
{
	__u64 last = 0;
	struct bo bo;
	int i;

	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, bo_create(self->fd, 4096, variant->flags, &bo));
		EXPECT_LT(last, bo.address);
		last = bo.address;
		ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	}
}

/* Tests of VRAM, and limits of SYSTEM objects. */
FIXTURE(vram)
{
	int fd;
	struct drm_openreg_device_info info;
};

FIXTURE_SETUP(vram)
{
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, card_info(self->fd, &self->info));
}

FIXTURE_TEARDOWN(vram)
{
	close(self->fd);
}

TEST_F(vram, largest_can_be_had)
{
	struct drm_openreg_memory_info info;
	struct bo bo[3];
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, bo_create(self->fd, 5 * MIB + 4096,
				       DRM_OPENREG_BO_VRAM, &bo[i]));
	ASSERT_EQ(0, bo_close(self->fd, bo[1].handle));
	ASSERT_EQ(0, card_memory(self->fd, &info));
	EXPECT_EQ(0, info.vram_largest % 4096);
	EXPECT_EQ(-ENOSPC, bo_create(self->fd, info.vram_largest + 4096 +
				     8 * MIB, DRM_OPENREG_BO_VRAM, &bo[1]));
	ASSERT_EQ(0, card_memory(self->fd, &info));
	EXPECT_EQ(0, bo_create(self->fd, info.vram_largest,
			       DRM_OPENREG_BO_VRAM, &bo[1]));
}

static int fill_all(int fd, unsigned char byte)
{
	struct queue q;
	struct packet p;
	struct bo bo;
	int n = 0;

	if (queue_create(fd, 64, &q))
		return -1;
	while (!bo_create(fd, 16 * MIB, DRM_OPENREG_BO_VRAM, &bo)) {
		packet_fill(&p, bo.address, bo.size, OPENREG_U8, byte);
		queue_push(&q, &p);
		n++;
	}
	return queue_wait(&q, n, FOREVER) ? -1 : n;
}

static bool is_zero(const void *mem, size_t len)
{
	const __u64 *word = mem;
	size_t i;

	for (i = 0; i < len / 8; i++)
		if (word[i])
			return false;
	return true;
}

/*
 * A process fills all VRAM and ends. Another process takes all VRAM and must read zeros.
 * The second round follows writes by the CPU.
 */
TEST_F_TIMEOUT(vram, next_process_sees_zeros, 300)
{
	int status, round, n;
	struct bo bo;
	pid_t pid;

	for (round = 0; round < 2; round++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			n = fill_all(card_open(), 0xa5);
			_exit(n > 0 ? 0 : 1);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);

		for (n = 0; !bo_create(self->fd, 16 * MIB, DRM_OPENREG_BO_VRAM,
				       &bo); n++) {
			ASSERT_EQ(0, bo_map(self->fd, &bo));
			ASSERT_TRUE(is_zero(bo.cpu, bo.size));
			memset(bo.cpu, 0x77, 4096);
			munmap(bo.cpu, bo.size);
		}
		EXPECT_LE(self->info.vram_size / (16 * MIB), n + 1);
		close(self->fd);
		self->fd = card_open();
		ASSERT_LE(0, self->fd);
	}
}

static int reset_card(void)
{
	static const char node[] = "/sys/class/misc/openreg/device/reset";
	int ret, fd = open(node, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = write(fd, "1", 1) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/* Small objects: the driver clears a larger block anew if a part of it is dirty. */
static int check_pages(int fd)
{
	struct bo bo;
	int i, ret;

	for (i = 0; i < 64; i++) {
		ret = bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo);
		if (!ret)
			ret = bo_map(fd, &bo);
		if (ret)
			return ret;
		if (!is_zero(bo.cpu, bo.size))
			return -EUCLEAN;
		munmap(bo.cpu, bo.size);
	}
	return 0;
}

struct guess {
	int fd;
	volatile __u64 offset;
	volatile bool stop;
	unsigned int hits;
};

/* Guesses the offset of an object that is being created, maps it and writes to it. */
static void *guess(void *data)
{
	struct guess *g = data;
	void *map;

	while (!g->stop) {
		map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			   g->fd, g->offset);
		if (map == MAP_FAILED)
			continue;
		*(volatile __u64 *)map = 0x5ec4e7;
		munmap(map, 4096);
		g->hits++;
	}
	return NULL;
}

/*
 * An object that gets no address exists for a moment before it is freed. If a thread
 * writes to it in that moment, the next object must still read as zeros.
 */
TEST_F_TIMEOUT(vram, guessed_object_is_cleared, 120)
{
	struct guess g = { .fd = self->fd };
	__s64 deadline = now_ns() + 8 * SEC_NS;
	unsigned int tries = 0;
	pthread_t thread;
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	g.offset = bo.mmap_offset;
	ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	/* After this the context is dead, so no object gets an address. */
	ASSERT_EQ(0, reset_card());
	ASSERT_EQ(0, pthread_create(&thread, NULL, guess, &g));
	while (g.hits < 20 && now_ns() < deadline) {
		ASSERT_EQ(-EIO, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM,
					  &bo));
		tries++;
	}
	g.stop = true;
	pthread_join(thread, NULL);
	TH_LOG("%u of %u objects were written", g.hits, tries);

	close(self->fd);
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(0, check_pages(self->fd));
}

/*
 * The card clears an object as the driver unbinds it. A map that is made at that moment
 * can write after it.
 */
TEST_F_TIMEOUT(vram, object_mapped_during_close_is_cleared, 120)
{
	struct guess g = { .fd = self->fd };
	__s64 deadline = now_ns() + 5 * SEC_NS;
	pthread_t thread;
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	g.offset = bo.mmap_offset;
	ASSERT_EQ(0, pthread_create(&thread, NULL, guess, &g));
	while (now_ns() < deadline) {
		ASSERT_EQ(0, bo_close(self->fd, bo.handle));
		ASSERT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM,
				       &bo));
		g.offset = bo.mmap_offset;
	}
	g.stop = true;
	pthread_join(thread, NULL);
	EXPECT_LT(0, g.hits);
	ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	EXPECT_EQ(0, check_pages(self->fd));
}

/* SYSTEM objects cannot be swapped out, so all together have a limit. */
TEST_F_TIMEOUT(vram, system_objects_have_a_limit, 120)
{
	const __u64 chunk = 64 * MIB;
	struct sysinfo machine;
	struct bo bo;
	__u64 sum;
	int i;

	ASSERT_EQ(0, sysinfo(&machine));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(-ENOMEM, bo_create(self->fd, (__u64)machine.totalram *
					     machine.mem_unit / 2 + chunk,
					     DRM_OPENREG_BO_SYSTEM, &bo));
	/* Closed objects do not count, although they are freed asynchronously. */
	for (sum = 0; sum < machine.totalram * machine.mem_unit; sum += chunk) {
		ASSERT_EQ(0, bo_create(self->fd, chunk, DRM_OPENREG_BO_SYSTEM,
				       &bo));
		ASSERT_EQ(0, bo_close(self->fd, bo.handle));
	}
}

/* A mapped ring outlives its queue, so it counts too. */
TEST_F_TIMEOUT(vram, mapped_rings_have_a_limit, 120)
{
	const __u32 slots = MIB / OPENREG_SLOT_SIZE;
	const __u64 chunk = 64 * MIB;
	struct bo bo[256];
	struct queue q[65];
	int ret, objects = 0, rings = 0;

	while (objects < 256 && !bo_create(self->fd, chunk,
					   DRM_OPENREG_BO_SYSTEM, &bo[objects]))
		objects++;
	ASSERT_LT(objects, 256);
	do {
		ret = queue_create(self->fd, slots, &q[rings]);
		if (!ret)
			ASSERT_EQ(0, queue_destroy(&q[rings++]));
	} while (!ret && rings < 65);
	EXPECT_EQ(-ENOMEM, ret);
	while (rings)
		queue_unmap(&q[--rings]);
	EXPECT_EQ(0, queue_create(self->fd, slots, &q[0]));
	while (objects)
		EXPECT_EQ(0, bo_close(self->fd, bo[--objects].handle));
}

static sigjmp_buf trapped;
static siginfo_t trap;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	trap = *info;
	siglongjmp(trapped, 1);
}

static bool traps(__u64 address)
{
	if (sigsetjmp(trapped, 1))
		return true;
	(void)*(volatile char *)(uintptr_t)address;
	return false;
}

TEST_F(memory, device_address_traps)
{
	struct sigaction action = {
		.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO,
	};
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd, MIB, variant->flags, &bo));
	ASSERT_EQ(0, bo_map(self->fd, &bo));
	ASSERT_EQ(0, sigaction(SIGSEGV, &action, NULL));
	EXPECT_FALSE(traps((uintptr_t)bo.cpu));
	EXPECT_TRUE(traps(bo.address));
	EXPECT_EQ(SIGSEGV, trap.si_signo);
	EXPECT_EQ(NULL, trap.si_addr);
	EXPECT_TRUE(traps(bo.address + MIB - 1));
	EXPECT_LT(0, (__s64)bo.address);
	/* The kernel refuses a device address as a pointer. */
	EXPECT_EQ(-EFAULT, card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUERY,
				      (void *)(uintptr_t)bo.address));
}

TEST_HARNESS_MAIN
