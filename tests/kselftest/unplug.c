// SPDX-License-Identifier: GPL-2.0-only
// test unplug: as power
/*
 * The card is removed while in use, by the driver, by the bus or from the machine, and is
 * added again. Calls on open files fail at once, and new files work. OPENREG_ROUNDS is
 * the number of rounds of the storm (4).
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "card.h"
#include "machine.h"
#include "ways.h"

#ifndef DRM_IOCTL_SYNCOBJ_EVENTFD
#error "this libdrm has no DRM_IOCTL_SYNCOBJ_EVENTFD"
#endif

FIXTURE(unplug)
{
	struct card_usage before;
	char accel[64];
	int fd, event;
	struct queue q;
	struct bo vram, sys, reg;
	void *mem;
	__u32 syncobj;
};

FIXTURE_VARIANT(unplug)
{
	enum way way;
	int (*open)(void);
};

FIXTURE_VARIANT_ADD(unplug, driver) { DRIVER, card_open };
FIXTURE_VARIANT_ADD(unplug, bus) { BUS, card_open };
FIXTURE_VARIANT_ADD(unplug, surprise) { SURPRISE, card_open };
FIXTURE_VARIANT_ADD(unplug, machine) { MACHINE, card_open };
/* The same, through /dev/accel/accelN. */
FIXTURE_VARIANT_ADD(unplug, driver_accel) { DRIVER, accel_open };
FIXTURE_VARIANT_ADD(unplug, bus_accel) { BUS, accel_open };
FIXTURE_VARIANT_ADD(unplug, surprise_accel) { SURPRISE, accel_open };
FIXTURE_VARIANT_ADD(unplug, machine_accel) { MACHINE, accel_open };

FIXTURE_SETUP(unplug)
{
	struct drm_syncobj_eventfd ev = { .point = 1 };

	ASSERT_EQ(0, card_works());
	ASSERT_EQ(0, way_begin());
	ASSERT_TRUE(monitor_open());
	self->before = card_unused();
	ASSERT_TRUE(accel_find(self->accel, sizeof(self->accel)));
	self->fd = variant->open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_SYSTEM,
			       &self->sys));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->sys));
	self->mem = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->mem);
	ASSERT_EQ(0, bo_register(self->fd, self->mem, MIB, 0, &self->reg));
	memset(self->vram.cpu, 1, MIB);
	memset(self->sys.cpu, 2, MIB);
	ASSERT_EQ(0, syncobj_create(self->fd, &self->syncobj));
	self->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ASSERT_LE(0, self->event);
	ev.handle = self->syncobj;
	ev.fd = self->event;
	ASSERT_EQ(0, card_ioctl(self->fd, DRM_IOCTL_SYNCOBJ_EVENTFD, &ev));
}

FIXTURE_TEARDOWN(unplug)
{
	close(self->event);
	close(self->fd);
	EXPECT_EQ(0, card_works());
	EXPECT_TRUE(card_settles(self->before));
}

static void *wait_for_one(void *data)
{
	struct queue *q = data;

	return (void *)(intptr_t)queue_wait(q, 1000, FOREVER);
}

static void *poll_for_end(void *data)
{
	struct pollfd p = { .fd = *(int *)data, .events = POLLIN };

	if (poll(&p, 1, 120000) != 1)
		return (void *)-1l;
	return (void *)(intptr_t)p.revents;
}

static void *read_to_end(void *data)
{
	char event[64];

	return (void *)(intptr_t)(read(*(int *)data, event, sizeof(event)) < 0 ?
				  -errno : 0);
}

/* Waits for memory: more than is free until the card releases the closed object. */
static void *wait_for_memory(void *data)
{
	int fd = *(int *)data;
	struct drm_openreg_device_info info;
	struct bo bo;
	int ret = card_info(fd, &info);

	return (void *)(intptr_t)(ret ?: bo_create(fd, info.vram_size,
						   DRM_OPENREG_BO_VRAM, &bo));
}

static bool sleeps_in_wait(void)
{
	return card_stat("queues") > 0;
}

/* Returns how many calls do not fail with ENODEV: all of the driver, some of DRM. */
static unsigned int calls_that_are_not_gone(int fd)
{
	static const unsigned long calls[] = {
		DRM_IOCTL_OPENREG_QUERY, DRM_IOCTL_OPENREG_BO_CREATE,
		DRM_IOCTL_OPENREG_BO_INFO, DRM_IOCTL_OPENREG_MEM_REGISTER,
		DRM_IOCTL_OPENREG_QUEUE_CREATE,
		DRM_IOCTL_OPENREG_QUEUE_DESTROY, DRM_IOCTL_OPENREG_QUEUE_WAIT,
		DRM_IOCTL_OPENREG_QUEUE_RESET, DRM_IOCTL_OPENREG_TIMESTAMP,
		DRM_IOCTL_OPENREG_QUEUE_SIGNAL, DRM_IOCTL_VERSION,
		DRM_IOCTL_GEM_CLOSE, DRM_IOCTL_PRIME_HANDLE_TO_FD,
		DRM_IOCTL_PRIME_FD_TO_HANDLE, DRM_IOCTL_SYNCOBJ_CREATE,
		DRM_IOCTL_SYNCOBJ_DESTROY, DRM_IOCTL_SYNCOBJ_WAIT,
		DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, DRM_IOCTL_SYNCOBJ_QUERY,
		DRM_IOCTL_SYNCOBJ_RESET, DRM_IOCTL_SYNCOBJ_SIGNAL,
		DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
		DRM_IOCTL_SYNCOBJ_TRANSFER, DRM_IOCTL_SYNCOBJ_EVENTFD,
		DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD,
		DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE,
	};
	unsigned int i, bad = 0;
	char zeros[256];
	int ret;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		memset(zeros, 0, sizeof(zeros));
		ret = card_ioctl(fd, calls[i], zeros);
		if (ret == -ENODEV)
			continue;
		fprintf(stderr, "# call %u: %s\n", i, strerror(-ret));
		bad++;
	}
	return bad;
}

/* Do mappings of the card show zeros, and mappings of system memory their data? */
static bool maps_are_harmless(const struct queue *q, const struct bo *vram,
			      const struct bo *sys)
{
	bool good;

	*q->doorbell = 1;
	good = !q->card->completed && !q->card->state && !q->user->tail;
	q->user->tail = 5;
	memset(q->ring, 0xff, 4096);
	good &= !((char *)vram->cpu)[0] && !((char *)vram->cpu)[MIB - 1];
	memset(vram->cpu, 3, MIB);
	return good && ((char *)sys->cpu)[MIB - 1] == 2;
}

static bool child_exits(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

TEST_F_TIMEOUT(unplug, while_open, 240)
{
	void *(*const sleeper[])(void *) = {
		wait_for_one, poll_for_end, read_to_end, wait_for_memory,
	};
	void *const with[] = { &self->q, &self->fd, &self->fd, &self->fd };
	void *result[4];
	pthread_t thread[4];
	struct bo closed;
	struct packet p;
	__u64 events = 0;
	int i;

	ASSERT_EQ(0, queue_signal(&self->q, self->syncobj, 1000, 1));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM, &closed));
	packet_endless(&p, closed.address, closed.address + 64);
	push_and_begin(&self->q, &p);
	ASSERT_EQ(0, bo_close(self->fd, closed.handle));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, sleeper[i],
					    with[i]));
	EXPECT_TRUE(sleeps_in_wait());
	usleep(50000);
	/* Removal must not wait for a command. */
	ASSERT_EQ(0, driver_set_timeout(TIMEOUT_NEVER));
	ASSERT_EQ(0, way_go(variant->way));
	ASSERT_EQ(0, driver_set_timeout("20000"));
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], &result[i]);
	/* The driver may have found out before the PCI core. */
	EXPECT_TRUE((intptr_t)result[0] == -ENODEV ||
		    (variant->way == SURPRISE && (intptr_t)result[0] == -EIO))
		TH_LOG("the wait gave %ld", (intptr_t)result[0]);
	EXPECT_EQ(POLLHUP | POLLERR, (intptr_t)result[1]);
	EXPECT_EQ(-ENODEV, (intptr_t)result[2]);
	EXPECT_TRUE((intptr_t)result[3] == -ENODEV ||
		    (variant->way == SURPRISE && (intptr_t)result[3] == -EIO))
		TH_LOG("memory gave %ld", (intptr_t)result[3]);
	/* The packet will not complete, so the point was added. */
	EXPECT_EQ(sizeof(events), read(self->event, &events, sizeof(events)));

	EXPECT_EQ(0, calls_that_are_not_gone(self->fd));
	EXPECT_EQ(-1, access(NODE, F_OK));
	EXPECT_EQ(-1, access(self->accel, F_OK));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ, MAP_SHARED, self->fd,
				   self->vram.mmap_offset));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_TRUE(maps_are_harmless(&self->q, &self->vram, &self->sys));
	EXPECT_TRUE(child_exits());

	ASSERT_EQ(0, way_come(variant->way));
	ASSERT_EQ(0, card_await());
	/* The old file stays useless. */
	EXPECT_EQ(0, calls_that_are_not_gone(self->fd));
	EXPECT_EQ(3, ((char *)self->vram.cpu)[0]);
	queue_unmap(&self->q);
	munmap(self->vram.cpu, MIB);
	munmap(self->sys.cpu, MIB);
	munmap(self->mem, MIB);
}

/* Results of the child processes of the storm. */
struct shared {
	volatile unsigned int turns; /* rounds of work with the right result */
	volatile unsigned int ends; /* times that a child saw the card removed */
	volatile int error;
};

static bool is_an_end(int error)
{
	return error == -ENODEV || error == -EIO || error == -ENOENT ||
	       error == -ENXIO;
}

struct user {
	int fd;
	struct queue q;
	struct bo vram, sys, reg;
	unsigned char *mem;
};

static int user_begin(struct user *u, unsigned char *mem)
{
	int ret;

	u->fd = card_open();
	if (u->fd < 0)
		return u->fd;
	u->mem = mem;
	ret = queue_create(u->fd, 64, &u->q);
	if (!ret)
		ret = bo_create(u->fd, MIB, DRM_OPENREG_BO_VRAM, &u->vram);
	if (!ret)
		ret = bo_map(u->fd, &u->vram);
	if (!ret)
		ret = bo_create(u->fd, MIB, DRM_OPENREG_BO_SYSTEM, &u->sys);
	if (!ret)
		ret = bo_map(u->fd, &u->sys);
	if (!ret)
		ret = bo_register(u->fd, mem, MIB, 0, &u->reg);
	return ret;
}

static void user_end(struct user *u)
{
	if (u->q.doorbell)
		queue_unmap(&u->q);
	if (u->vram.cpu && u->vram.cpu != MAP_FAILED)
		munmap(u->vram.cpu, MIB);
	if (u->sys.cpu && u->sys.cpu != MAP_FAILED)
		munmap(u->sys.cpu, MIB);
	if (u->fd >= 0)
		close(u->fd);
}

/* Copies memory to VRAM and to a SYSTEM object, and checks the result. */
static int user_turn(struct user *u, unsigned char value)
{
	struct drm_openreg_timestamp stamp = {};
	struct packet p;
	struct bo extra;
	int ret;

	memset(u->mem, value, MIB);
	packet_copy(&p, u->vram.address, u->reg.address, MIB, OPENREG_U8);
	queue_push(&u->q, &p);
	packet_copy(&p, u->sys.address, u->vram.address, MIB, OPENREG_U8);
	queue_push(&u->q, &p);
	ret = queue_wait(&u->q, u->q.seq, 100 * SEC_NS);
	if (ret)
		return ret;
	if (((unsigned char *)u->sys.cpu)[MIB / 3] != value)
		return -EBADMSG;
	*(volatile char *)u->vram.cpu = 1;
	ret = card_ioctl(u->fd, DRM_IOCTL_OPENREG_TIMESTAMP, &stamp);
	if (!ret)
		ret = bo_create(u->fd, 4 * MIB, DRM_OPENREG_BO_VRAM, &extra);
	return ret ? ret : bo_close(u->fd, extra.handle);
}

static void user_main(struct shared *shared, unsigned char value)
{
	unsigned char *mem = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct user u;
	int ret;

	for (;;) {
		memset(&u, 0, sizeof(u));
		ret = user_begin(&u, mem);
		while (!ret) {
			ret = user_turn(&u, ++value);
			if (!ret)
				__atomic_add_fetch(&shared->turns, 1,
						   __ATOMIC_RELAXED);
		}
		user_end(&u);
		if (!is_an_end(ret)) {
			shared->error = ret;
			_exit(1);
		}
		__atomic_add_fetch(&shared->ends, 1, __ATOMIC_RELAXED);
		usleep(1000);
	}
}

static bool await_turns(const struct shared *shared, unsigned int more)
{
	unsigned int from = shared->turns;
	__s64 deadline = now_ns() + 100 * SEC_NS;

	while (shared->turns - from < more) {
		if (shared->error || now_ns() > deadline)
			return false;
		usleep(1000);
	}
	return true;
}

static int storm_rounds(void)
{
	const char *text = getenv("OPENREG_ROUNDS");

	return text && atoi(text) > 0 ? atoi(text) : 4;
}

#define USERS 3

FIXTURE(storm)
{
	int unused;
};

FIXTURE_SETUP(storm)
{
}

FIXTURE_TEARDOWN(storm)
{
}

/*
 * Removes the card in all ways in turn while processes use it, with resets in between.
 * The time depends on the rounds, so await_turns() detects a hang.
 */
TEST_F_TIMEOUT(storm, all_ways, 86400)
{
	struct card_usage before;
	struct shared *shared;
	pid_t pid[USERS];
	char slot[64];
	int i, status;

	ASSERT_EQ(0, card_works());
	ASSERT_EQ(0, way_begin());
	ASSERT_TRUE(slot_of_card(slot, sizeof(slot)));
	ASSERT_TRUE(monitor_open());
	before = card_unused();
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	for (i = 0; i < USERS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			user_main(shared, i * 80);
	}
	for (i = 0; i < storm_rounds(); i++) {
		ASSERT_TRUE(await_turns(shared, USERS))
			TH_LOG("round %d: %s", i, strerror(-shared->error));
		if (i % 2)
			ASSERT_EQ(0, slot_put(slot, "reset", "1"));
		ASSERT_EQ(0, way_go(i % WAYS));
		ASSERT_EQ(0, way_come(i % WAYS));
	}
	EXPECT_TRUE(await_turns(shared, USERS));
	EXPECT_EQ(0, shared->error);
	EXPECT_LE((unsigned int)storm_rounds(), shared->ends);
	TH_LOG("%d rounds, %u turns, %u ends", i, shared->turns, shared->ends);
	for (i = 0; i < USERS; i++) {
		EXPECT_EQ(0, kill(pid[i], SIGKILL));
		EXPECT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	EXPECT_EQ(0, card_await());
	EXPECT_TRUE(card_settles(before));
}

TEST_HARNESS_MAIN
