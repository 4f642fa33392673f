// SPDX-License-Identifier: GPL-2.0-only
/*
 * An attacker keeps mappings of closed objects, of a destroyed queue's pages and of its
 * doorbell, and writes ones to all of them in a loop. Meanwhile a victim creates objects
 * and queues, and uses them. A mapping must keep its pages from being reused.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "machine.h"
#include "sharing.h"

#define LONG (60 * SEC_NS)
#define PAGE 4096
#define SLOTS 256
#define RING (SLOTS * OPENREG_SLOT_SIZE)
#define QUEUES 8
#define OBJECTS 4 /* of each kind */
#define ROUNDS 8
#define USED 40 /* slots of a ring that the rounds may use */

struct attacker {
	int fd;
	struct queue q;
	struct bo vram, sys;
	unsigned char card[PAGE]; /* copy of its card page after way_fn */
	pthread_t thread;
	unsigned int rounds;
	bool stop;
};

struct victim {
	int fd;
	struct queue q[QUEUES];
	struct bo vram[OBJECTS], sys[OBJECTS];
	struct bo work; /* packets copy the first page to the second */
};

static int bo_mapped(int fd, __u64 size, __u32 flags, struct bo *bo)
{
	int ret = bo_create(fd, size, flags, bo);

	return ret ? ret : bo_map(fd, bo);
}

static int attacker_open(struct attacker *a)
{
	struct packet p;
	int ret;

	a->fd = card_open();
	ret = a->fd < 0 ? a->fd : queue_create(a->fd, SLOTS, &a->q);
	if (!ret)
		ret = bo_mapped(a->fd, MIB, DRM_OPENREG_BO_VRAM, &a->vram);
	if (!ret)
		ret = bo_mapped(a->fd, MIB, DRM_OPENREG_BO_SYSTEM, &a->sys);
	if (ret)
		return ret;
	/* The other half is first touched after the object is closed. */
	memset(a->vram.cpu, 0xff, MIB / 2);
	memset(a->sys.cpu, 0xff, MIB / 2);
	packet_nop(&p);
	return queue_wait(&a->q, queue_push(&a->q, &p), LONG);
}

static void attacker_unmap(struct attacker *a)
{
	queue_unmap(&a->q);
	munmap(a->vram.cpu, MIB);
	munmap(a->sys.cpu, MIB);
}

static void ring_doorbell(struct attacker *a)
{
	char *page = (char *)a->q.doorbell;
	unsigned int at;

	for (at = 0; at < PAGE; at += 512) {
		*(volatile __u8 *)(page + at + 1) = -1;
		*(volatile __u16 *)(page + at + 2) = -1;
		*(volatile __u32 *)(page + at + 4) = -1;
		*(volatile __u64 *)(page + at + 8) = -1;
	}
}

static void *write_ones(void *data)
{
	struct attacker *a = data;

	while (!__atomic_load_n(&a->stop, __ATOMIC_RELAXED)) {
		memset(a->q.ring, 0xff, RING);
		memset((void *)a->q.user, 0xff, PAGE);
		ring_doorbell(a);
		memset(a->vram.cpu, 0xff, MIB);
		memset(a->sys.cpu, 0xff, MIB);
		__atomic_add_fetch(&a->rounds, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Waits until the attacker has written everywhere at least once. */
static bool await_ones(struct attacker *a)
{
	unsigned int first = __atomic_load_n(&a->rounds, __ATOMIC_ACQUIRE);
	__s64 deadline = now_ns() + LONG;

	while (__atomic_load_n(&a->rounds, __ATOMIC_ACQUIRE) - first < 2)
		if (now_ns() > deadline)
			return false;
		else
			usleep(1000);
	return true;
}

/* The card reads trace_head here only while a trace runs. */
static void *after_tail(const struct queue *q)
{
	return (char *)q->user + sizeof(q->user->tail);
}

static int victim_open(struct victim *v)
{
	int i, ret;

	v->fd = card_open();
	ret = v->fd < 0 ? v->fd : 0;
	for (i = 0; i < QUEUES && !ret; i++) {
		ret = queue_create(v->fd, SLOTS, &v->q[i]);
		if (ret)
			break;
		noise(v->q[i].ring, RING, i);
		noise(after_tail(&v->q[i]), PAGE - 8, i);
	}
	for (i = 0; i < OBJECTS && !ret; i++) {
		ret = bo_mapped(v->fd, MIB, DRM_OPENREG_BO_VRAM, &v->vram[i]);
		if (!ret)
			ret = bo_mapped(v->fd, MIB, DRM_OPENREG_BO_SYSTEM,
					&v->sys[i]);
		if (ret)
			break;
		noise(v->vram[i].cpu, MIB, i);
		noise(v->sys[i].cpu, MIB, i);
	}
	return ret ? ret : bo_mapped(v->fd, 2 * PAGE, DRM_OPENREG_BO_SYSTEM,
				     &v->work);
}

static void victim_close(struct victim *v)
{
	int i;

	for (i = 0; i < QUEUES; i++)
		queue_unmap(&v->q[i]);
	for (i = 0; i < OBJECTS; i++) {
		munmap(v->vram[i].cpu, MIB);
		munmap(v->sys[i].cpu, MIB);
	}
	munmap(v->work.cpu, 2 * PAGE);
	close(v->fd);
}

/* Copies a page to VRAM and back, by each queue of the victim. */
static bool victim_works(struct victim *v, unsigned int round)
{
	const __u64 from = v->work.address, way = v->vram[0].address;
	struct packet p;
	int i;

	for (i = 0; i < QUEUES; i++) {
		struct queue *q = &v->q[i];

		noise(v->work.cpu, PAGE, round);
		packet_copy(&p, way, from, PAGE, OPENREG_U8);
		queue_write(q, &p);
		packet_copy(&p, from + PAGE, way, PAGE, OPENREG_U8);
		if (queue_wait(q, queue_push(q, &p), LONG) ||
		    !is_noise((char *)v->work.cpu + PAGE, PAGE, round))
			return false;
	}
	noise(v->vram[0].cpu, PAGE, 0);
	return true;
}

static bool victim_is_whole(const struct victim *v)
{
	unsigned char ring[RING];
	int i;

	for (i = 0; i < OBJECTS; i++)
		if (!is_noise(v->vram[i].cpu, MIB, i) ||
		    !is_noise(v->sys[i].cpu, MIB, i))
			return false;
	for (i = 0; i < QUEUES; i++) {
		const struct queue *q = &v->q[i];
		const size_t used = USED * OPENREG_SLOT_SIZE;

		noise(ring, RING, i);
		if (memcmp(q->ring + used, ring + used, RING - used) ||
		    !is_noise(after_tail(q), PAGE - 8, i) ||
		    q->user->tail != q->tail || q->tail > USED ||
		    q->card->state != OPENREG_QUEUE_RUNNING)
			return false;
	}
	return true;
}

/* Waits until all queues sleep. Returns the total of their wakes, or -1. */
static long long victim_sleeps(const struct victim *v)
{
	__s64 deadline = now_ns() + LONG;
	long long wakes = 0;
	int i;

	for (i = 0; i < QUEUES; i++) {
		while (!v->q[i].card->asleep)
			if (now_ns() > deadline)
				return -1;
		wakes += v->q[i].card->wakes;
	}
	return wakes;
}

static bool is_ones(const void *mem, size_t size)
{
	const unsigned char *byte = mem;

	return byte[0] == 0xff && !memcmp(byte, byte + 1, size - 1);
}

/* Has the card page changed? Skips the counts, which a worker stores at the end. */
static bool card_page_stays(const struct attacker *a)
{
	const size_t first = offsetof(struct openreg_card_page, dma_read);
	const size_t end = sizeof(struct openreg_card_page);
	const unsigned char *now = (void *)a->q.card;

	return !memcmp(now, a->card, first) &&
	       !memcmp(now + end, a->card + end, PAGE - end);
}

/* Do the mappings show only what the attacker wrote, and an unchanged card page? */
static bool attacker_saw_nothing(const struct attacker *a)
{
	return is_ones(a->q.ring, RING) && is_ones((void *)a->q.user, PAGE) &&
	       is_ones(a->vram.cpu, MIB) && is_ones(a->sys.cpu, MIB) &&
	       card_page_stays(a);
}

/* Ends the objects that the mappings show. */
typedef int way_fn(struct attacker *a);

static int destroy(struct attacker *a)
{
	int ret = queue_destroy(&a->q);

	if (!ret)
		ret = bo_close(a->fd, a->vram.handle);
	return ret ? ret : bo_close(a->fd, a->sys.handle);
}

/* The mappings keep the file open, so the queue goes on and faults on the ones. */
static int close_file(struct attacker *a)
{
	const volatile struct openreg_card_page *card = a->q.card;
	__s64 deadline = now_ns() + LONG;

	if (close(a->fd))
		return -errno;
	a->fd = -1;
	memset((void *)a->q.user, 0xff, PAGE);
	ring_doorbell(a);
	while (card->state == OPENREG_QUEUE_RUNNING)
		if (now_ns() > deadline)
			return -ETIME;
	return card->fault.code == OPENREG_FAULT_RING ? 0 : -EPROTO;
}

static int reset(struct attacker *a)
{
	char slot[64];

	return slot_of_card(slot, sizeof(slot)) ? slot_put(slot, "reset", "1") :
						  -ENODEV;
}

static int unbind(struct attacker *a)
{
	char slot[64];
	int ret = slot_of_card(slot, sizeof(slot)) ? 0 : -ENODEV;

	if (!ret)
		ret = file_put(PCI_DRIVER "unbind", slot);
	if (!ret)
		ret = file_put(PCI_DRIVER "bind", slot);
	return ret ? ret : card_await();
}

FIXTURE(old_maps)
{
	struct card_usage before;
	struct attacker attacker;
	struct victim victim;
};

FIXTURE_VARIANT(old_maps)
{
	way_fn *go;
	bool cut; /* the doorbell mapping shows the dummy page */
};

FIXTURE_VARIANT_ADD(old_maps, destroyed) { destroy, false };
FIXTURE_VARIANT_ADD(old_maps, closed) { close_file, false };
FIXTURE_VARIANT_ADD(old_maps, reset) { reset, true };
FIXTURE_VARIANT_ADD(old_maps, unbound) { unbind, true };

FIXTURE_SETUP(old_maps)
{
	struct attacker *a = &self->attacker;

	self->before = card_unused();
	ASSERT_EQ(0, attacker_open(a));
	ASSERT_EQ(0, variant->go(a));
	memcpy(a->card, (void *)a->q.card, PAGE);
	ASSERT_EQ(0, pthread_create(&a->thread, NULL, write_ones, a));
	ASSERT_EQ(0, victim_open(&self->victim));
	ASSERT_TRUE(await_ones(a));
}

FIXTURE_TEARDOWN(old_maps)
{
	struct attacker *a = &self->attacker;

	__atomic_store_n(&a->stop, true, __ATOMIC_RELAXED);
	pthread_join(a->thread, NULL);
	EXPECT_TRUE(victim_is_whole(&self->victim));
	EXPECT_TRUE(attacker_saw_nothing(a));
	victim_close(&self->victim);
	attacker_unmap(a);
	if (a->fd >= 0)
		close(a->fd);
	EXPECT_EQ(0, card_works());
	EXPECT_TRUE(card_settles(self->before));
}

TEST_F_TIMEOUT(old_maps, reach_no_new_memory, 200)
{
	struct attacker *a = &self->attacker;
	struct victim *v = &self->victim;
	unsigned int round;

	for (round = 0; round < ROUNDS; round++) {
		ASSERT_TRUE(await_ones(a));
		ASSERT_TRUE(victim_works(v, round)) TH_LOG("round %u", round);
	}
	EXPECT_TRUE(victim_is_whole(v));
}

/* A doorbell page is not reused while it is mapped. */
TEST_F_TIMEOUT(old_maps, ring_no_other_doorbell, 200)
{
	const volatile __u32 *doorbell = self->attacker.q.doorbell;
	struct victim *v = &self->victim;
	long long wakes;

	ASSERT_TRUE(victim_works(v, 0));
	wakes = victim_sleeps(v);
	ASSERT_LT(0, wakes);
	ASSERT_TRUE(await_ones(&self->attacker));
	EXPECT_EQ(wakes, victim_sleeps(v));
	/* A doorbell of the card reads as 0. */
	EXPECT_EQ(variant->cut ? -1u : 0, doorbell[1]);
}

/* The card page stays read-only. */
TEST_F_TIMEOUT(old_maps, stay_read_only, 200)
{
	EXPECT_EQ(-1, mprotect((void *)self->attacker.q.card, PAGE,
			       PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
}

TEST_HARNESS_MAIN
