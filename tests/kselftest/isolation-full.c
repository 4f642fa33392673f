// SPDX-License-Identifier: GPL-2.0-only
// test isolation-full not kselftest-checked
/*
 * A process takes all of one resource. Another process that needs it gets an error, but
 * can use what it already has. When the first process is killed, the resource is freed.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kselftest_harness.h"

#include "sharing.h"

#define LONG (60 * SEC_NS)
#define PAGE 4096
#define ROUNDS 20

struct taker {
	unsigned int taken;
	int error; /* of the call that failed */
	bool over; /* all is taken */
};

/* Takes all of a resource. Returns the error at the end. */
typedef int take_fn(unsigned int *taken);
/* Takes one more of it for a file. */
typedef int want_fn(int fd);

static int want_queue(int fd)
{
	struct drm_openreg_queue_create args = { .slots = 64, .priority = 1 };

	return card_ioctl(fd, DRM_IOCTL_OPENREG_QUEUE_CREATE, &args);
}

static int want_vram(int fd)
{
	struct bo bo;

	return bo_create(fd, PAGE, DRM_OPENREG_BO_VRAM, &bo);
}

static int want_system(int fd)
{
	struct bo bo;

	return bo_create(fd, PAGE, DRM_OPENREG_BO_SYSTEM, &bo);
}

static int take_queues(unsigned int *taken)
{
	int ret, fd = card_open();

	if (fd < 0)
		return fd;
	for (;;) {
		ret = want_queue(fd);
		if (ret)
			return ret;
		++*taken;
	}
}

/* Takes one for each file, with new files until an error. */
static int take_files(want_fn *want, unsigned int *taken)
{
	int ret, fd;

	for (;;) {
		fd = card_open();
		ret = fd < 0 ? fd : want(fd);
		if (ret)
			return ret;
		++*taken;
	}
}

static int take_doorbells(unsigned int *taken)
{
	return take_files(want_queue, taken);
}

static int take_contexts(unsigned int *taken)
{
	return take_files(want_system, taken);
}

/* Leaves only the mapping of a doorbell, and closes the file. */
static int want_map(int fd)
{
	struct queue q;
	int ret = queue_create(fd, 64, &q);

	if (ret)
		return ret;
	munmap(q.ring, 64 * OPENREG_SLOT_SIZE);
	munmap((void *)q.user, PAGE);
	munmap((void *)q.card, PAGE);
	return close(fd) ? -errno : 0;
}

static int take_maps(unsigned int *taken)
{
	return take_files(want_map, taken);
}

/* Takes large objects first, then smaller ones. */
static int take_memory(__u32 flags, unsigned int *taken)
{
	__u64 size = 64 * MIB;
	int ret, fd = card_open();
	struct bo bo;

	if (fd < 0)
		return fd;
	for (;;) {
		ret = bo_create(fd, size, flags, &bo);
		if (!ret)
			++*taken;
		else if (size == PAGE)
			return ret;
		else
			size /= 2;
	}
}

static int take_vram(unsigned int *taken)
{
	return take_memory(DRM_OPENREG_BO_VRAM, taken);
}

static int take_system(unsigned int *taken)
{
	return take_memory(DRM_OPENREG_BO_SYSTEM, taken);
}

FIXTURE(full)
{
	struct card_usage before;
	struct taker *taker;
	pid_t pid;
	int fd, other; /* fd has a queue and memory, other has nothing */
	struct queue q;
	struct bo vram, sys;
};

FIXTURE_VARIANT(full)
{
	take_fn *take;
	want_fn *want;
	int error; /* for the file that has nothing */
	int more; /* for the file that has some */
};

FIXTURE_VARIANT_ADD(full, queues) {
	take_queues, want_queue, -ENOSPC, -ENOSPC
};
FIXTURE_VARIANT_ADD(full, doorbells) {
	take_doorbells, want_queue, -ENOSPC, 0
};
FIXTURE_VARIANT_ADD(full, doorbell_maps) {
	take_maps, want_queue, -ENOSPC, 0
};
FIXTURE_VARIANT_ADD(full, contexts) {
	take_contexts, want_system, -ENOSPC, 0
};
FIXTURE_VARIANT_ADD(full, vram) { take_vram, want_vram, -ENOSPC, -ENOSPC };
FIXTURE_VARIANT_ADD(full, system) {
	take_system, want_system, -ENOMEM, -ENOMEM
};

/* Never returns. */
static void take_all(take_fn *take, struct taker *taker, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	taker->error = take(&taker->taken);
	__atomic_store_n(&taker->over, true, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static int user_open(FIXTURE_DATA(full) *self)
{
	int ret = queue_create(self->fd, 256, &self->q);

	if (!ret)
		ret = bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
				&self->vram);
	if (!ret)
		ret = bo_create(self->fd, 2 * MIB, DRM_OPENREG_BO_SYSTEM,
				&self->sys);
	return ret ? ret : bo_map(self->fd, &self->sys);
}

FIXTURE_SETUP(full)
{
	pid_t parent = getpid();

	self->taker = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->taker);
	self->before = card_unused();
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, user_open(self));
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid)
		take_all(variant->take, self->taker, parent);
	self->other = card_open();
	ASSERT_LE(0, self->other);
}

FIXTURE_TEARDOWN(full)
{
	kill(self->pid, SIGKILL);
	waitpid(self->pid, NULL, 0);
	queue_unmap(&self->q);
	munmap(self->sys.cpu, 2 * MIB);
	munmap(self->taker, PAGE);
	close(self->fd);
	close(self->other);
	EXPECT_TRUE(card_settles(self->before));
}

/* Copies from system memory to VRAM and back. */
static bool works(FIXTURE_DATA(full) *self, unsigned int round)
{
	const __u64 sys = self->sys.address, vram = self->vram.address;

	noise(self->sys.cpu, MIB, round);
	return !card_copy(&self->q, vram, sys, MIB) &&
	       !card_copy(&self->q, sys + MIB, vram, MIB) &&
	       is_noise((char *)self->sys.cpu + MIB, MIB, round);
}

static bool is_over(FIXTURE_DATA(full) *self)
{
	int status;

	while (!__atomic_load_n(&self->taker->over, __ATOMIC_ACQUIRE)) {
		if (waitpid(self->pid, &status, WNOHANG))
			return false;
		usleep(1000);
	}
	return true;
}

/* Retries, because the files of a killed process are freed asynchronously. */
static int await(want_fn *want, int fd)
{
	__s64 deadline = now_ns() + LONG;
	int ret;

	do
		ret = want(fd);
	while (ret && now_ns() < deadline);
	return ret;
}

TEST_F_TIMEOUT(full, says_so, 250)
{
	unsigned int round;
	int status;

	ASSERT_TRUE(is_over(self));
	ASSERT_EQ(variant->error, self->taker->error);
	ASSERT_LT(0, self->taker->taken);
	for (round = 0; round < ROUNDS; round++) {
		EXPECT_EQ(variant->error, variant->want(self->other));
		EXPECT_EQ(variant->more, variant->want(self->fd));
		ASSERT_TRUE(works(self, round)) TH_LOG("round %u", round);
	}
	TH_LOG("%u taken", self->taker->taken);
	ASSERT_EQ(0, waitpid(self->pid, &status, WNOHANG));
	ASSERT_EQ(0, kill(self->pid, SIGKILL));
	EXPECT_EQ(0, await(variant->want, self->other));
	EXPECT_EQ(0, await(variant->want, self->fd));
	EXPECT_TRUE(works(self, round));
}

TEST_HARNESS_MAIN
