// SPDX-License-Identifier: GPL-2.0-only
/* Load and unload the driver, unbind and FLR while the card is in use. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "machine.h"

FIXTURE(module)
{
	int fd;
	struct queue q;
	struct bo vram, sys, reg;
	void *mem;
	struct packet p;
	char slot[64];
};

FIXTURE_SETUP(module)
{
	ASSERT_EQ(0, card_works());
	ASSERT_TRUE(slot_of_card(self->slot, sizeof(self->slot)));
}

FIXTURE_TEARDOWN(module)
{
	EXPECT_EQ(0, card_works());
}

TEST_F_TIMEOUT(module, reloads, 300)
{
	int i;

	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, module_unload());
		EXPECT_EQ(-1, access(NODE, F_OK));
		ASSERT_EQ(0, module_load());
		ASSERT_EQ(0, card_works());
	}
}

/* Makes every kind of object that a process can have. */
#define HAVE_ALL							\
	do {								\
		self->fd = card_open();					\
		ASSERT_LE(0, self->fd);					\
		ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));	\
		ASSERT_EQ(0, bo_create(self->fd, MIB,			\
				       DRM_OPENREG_BO_VRAM, &self->vram)); \
		ASSERT_EQ(0, bo_create(self->fd, MIB,			\
				       DRM_OPENREG_BO_SYSTEM, &self->sys)); \
		ASSERT_EQ(0, bo_map(self->fd, &self->vram));		\
		ASSERT_EQ(0, bo_map(self->fd, &self->sys));		\
		self->mem = mmap(NULL, MIB, PROT_READ | PROT_WRITE,	\
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);	\
		ASSERT_NE(MAP_FAILED, self->mem);			\
		ASSERT_EQ(0, bo_register(self->fd, self->mem, MIB, 0,	\
					 &self->reg));			\
		memset(self->vram.cpu, 1, MIB);				\
		memset(self->sys.cpu, 2, MIB);				\
	} while (0)

#define HAVE_NONE							\
	do {								\
		queue_unmap(&self->q);					\
		munmap(self->vram.cpu, MIB);				\
		munmap(self->sys.cpu, MIB);				\
		munmap(self->mem, MIB);					\
		close(self->fd);					\
	} while (0)

TEST_F(module, stays_while_open)
{
	HAVE_ALL;
	EXPECT_EQ(-EWOULDBLOCK, module_try_unload());
	HAVE_NONE;
}

static void *wait_for_one(void *data)
{
	struct queue *q = data;

	return (void *)(intptr_t)queue_wait(q, 1000, 60 * SEC_NS);
}

TEST_F_TIMEOUT(module, unbind_while_open, 120)
{
	struct drm_openreg_queue_create create = { .slots = 64 };
	struct drm_openreg_bo_info info = {};
	struct drm_openreg_timestamp stamp = {};
	struct drm_openreg_memory_info memory;
	pthread_t thread;
	struct bo bo;
	void *result;

	HAVE_ALL;
	packet_endless(&self->p, self->vram.address, self->vram.address + 64);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_one, &self->q));
	usleep(50000);
	ASSERT_EQ(0, file_put(PCI_DRIVER "unbind", self->slot));
	pthread_join(thread, &result);
	EXPECT_EQ(-ENODEV, (intptr_t)result);

	/* Every call returns ENODEV. */
	info.handle = self->sys.handle;
	EXPECT_EQ(-ENODEV, card_memory(self->fd, &memory));
	EXPECT_EQ(-ENODEV, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM,
				     &bo));
	EXPECT_EQ(-ENODEV, card_ioctl(self->fd, DRM_IOCTL_OPENREG_BO_INFO,
				      &info));
	EXPECT_EQ(-ENODEV, bo_register(self->fd, self->mem, 4096, 0, &bo));
	EXPECT_EQ(-ENODEV, card_ioctl(self->fd, DRM_IOCTL_OPENREG_QUEUE_CREATE,
				      &create));
	EXPECT_EQ(-ENODEV, queue_destroy(&self->q));
	EXPECT_EQ(-ENODEV, queue_wait(&self->q, 1, 0));
	EXPECT_EQ(-ENODEV, queue_reset(&self->q, 1, 1));
	EXPECT_EQ(-ENODEV, card_ioctl(self->fd, DRM_IOCTL_OPENREG_TIMESTAMP,
				      &stamp));
	EXPECT_EQ(-ENODEV, bo_close(self->fd, self->vram.handle));
	EXPECT_EQ(-1, access(NODE, F_OK));

	/* Mappings of the card show zeros; mappings of system memory stay valid. */
	*self->q.doorbell = 1;
	self->q.user->tail = 5;
	EXPECT_EQ(0, self->q.card->completed);
	memset(self->q.ring, 0xff, 4096);
	EXPECT_EQ(0, ((char *)self->vram.cpu)[MIB - 1]);
	memset(self->vram.cpu, 3, MIB);

	ASSERT_EQ(0, file_put(PCI_DRIVER "bind", self->slot));
	EXPECT_EQ(0, card_works());
	HAVE_NONE;
}

TEST_F_TIMEOUT(module, unbind_many_times, 120)
{
	int i;

	for (i = 0; i < 10; i++) {
		HAVE_ALL;
		packet_nop(&self->p);
		queue_push(&self->q, &self->p);
		ASSERT_EQ(0, file_put(PCI_DRIVER "unbind", self->slot));
		ASSERT_EQ(0, file_put(PCI_DRIVER "bind", self->slot));
		HAVE_NONE;
		ASSERT_EQ(0, card_works());
	}
}

/* A reset kills all contexts. New contexts work. */
TEST_F_TIMEOUT(module, reset_while_open, 120)
{
	struct drm_openreg_device_info info;
	struct queue next;
	pthread_t thread;
	void *result;
	struct bo bo;

	HAVE_ALL;
	packet_endless(&self->p, self->vram.address, self->vram.address + 64);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_one, &self->q));
	usleep(50000);
	ASSERT_EQ(0, slot_put(self->slot, "reset", "1"));
	pthread_join(thread, &result);
	EXPECT_EQ(-EIO, (intptr_t)result);
	EXPECT_EQ(-EIO, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 0));
	/* A process that makes no call sees the fault in the card page. */
	EXPECT_EQ(OPENREG_QUEUE_FAULTED, self->q.card->state);
	EXPECT_EQ(OPENREG_FAULT_HANG, self->q.card->fault.code);
	EXPECT_EQ(1, self->q.card->fault.seq);
	*self->q.doorbell = 1;
	memset(self->vram.cpu, 3, MIB);
	EXPECT_EQ(2, ((char *)self->sys.cpu)[0]);
	EXPECT_EQ(0, card_works());
	/* The card works, but the context of the old file is dead. */
	EXPECT_EQ(0, card_info(self->fd, &info));
	EXPECT_EQ(-EIO, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(-EIO, queue_create(self->fd, 64, &next));
	EXPECT_EQ(0, bo_close(self->fd, self->vram.handle));
	EXPECT_EQ(0, queue_destroy(&self->q));
	HAVE_NONE;
}

#define MANY 32

struct resetter {
	const char *slot;
	volatile bool begun;
	int result;
};

static void *reset_now(void *data)
{
	struct resetter *r = data;

	r->begun = true;
	r->result = slot_put(r->slot, "reset", "1");
	return NULL;
}

/* Pushes packets that fill many objects again and again. */
static void keep_writing(struct queue *q, const struct bo *sys)
{
	struct packet p;
	int i;

	for (i = 0; i < 200; i++) {
		packet_fill(&p, sys[i % MANY].address, MIB, OPENREG_U8, 0xa5);
		if (!queue_write(q, &p))
			return;
		if (i % MANY == 0)
			queue_publish(q);
	}
	queue_publish(q);
}

/* Counts nonzero bytes in new memory, a little after its allocation. */
static size_t dirty_bytes(size_t size)
{
	unsigned char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
				  -1, 0);
	size_t i, dirty = 0;

	usleep(30000);
	for (i = 0; i < size; i += 512)
		dirty += !!mem[i];
	munmap(mem, size);
	return dirty;
}

/*
 * Objects are closed while the card writes to them and a reset runs. Their pages must not
 * be reused before the card has stopped.
 */
TEST_F_TIMEOUT(module, closed_during_a_reset, 120)
{
	struct resetter r = { .slot = self->slot };
	struct bo sys[MANY];
	pthread_t thread;
	int i, round;

	for (round = 0; round < 10; round++) {
		self->fd = card_open();
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(0, queue_create(self->fd, 1024, &self->q));
		for (i = 0; i < MANY; i++)
			ASSERT_EQ(0, bo_create(self->fd, MIB,
					       DRM_OPENREG_BO_SYSTEM, &sys[i]));
		keep_writing(&self->q, sys);
		r.begun = false;
		ASSERT_EQ(0, pthread_create(&thread, NULL, reset_now, &r));
		while (!r.begun)
			;
		for (i = 0; i < MANY; i++) {
			bo_close(self->fd, sys[i].handle);
			usleep(round * 50);
		}
		EXPECT_EQ(0, dirty_bytes(2 * MANY * MIB));
		pthread_join(thread, NULL);
		ASSERT_EQ(0, r.result);
		queue_unmap(&self->q);
		close(self->fd);
		ASSERT_EQ(0, card_works());
	}
}

TEST_HARNESS_MAIN
