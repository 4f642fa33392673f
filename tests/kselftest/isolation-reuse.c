// SPDX-License-Identifier: GPL-2.0-only
/*
 * The segment number of a closed object is reused for a new object. A packet with the old
 * address can access only what the new object allows.
 *
 * Segment numbers belong to a context. A victim has objects with the same numbers, lends
 * memory to the attacker, and at the end takes all VRAM that is free.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "sharing.h"

#define LONG (60 * SEC_NS)
#define PAGE 4096ull
#define NUMBERS 12 /* objects of the victim with the same numbers */
#define LEFT 256 /* the last numbers, which only one thread takes */
#define THREADS 4
#define BYTE 0x55

/* The new object where an object of 1 MiB was. */
enum { SMALL, READONLY, LENT, KINDS };

static const char *const kind_names[] = { "small", "readonly", "lent" };

struct probe {
	unsigned int kind;
	bool write;
	__u64 at, bytes;
	unsigned int fault;
};

#define BOUNDS OPENREG_FAULT_BOUNDS
#define PERMISSION OPENREG_FAULT_PERMISSION

static const struct probe probes[] = {
	{ SMALL, true, PAGE, 1, BOUNDS },
	{ SMALL, true, 0, MIB, BOUNDS },
	{ SMALL, true, PAGE - 1, 2, BOUNDS },
	{ SMALL, true, MIB - 1, 1, BOUNDS },
	{ SMALL, false, 0, MIB, BOUNDS },
	{ SMALL, false, PAGE, 1, BOUNDS },
	{ READONLY, true, 0, 1, PERMISSION },
	{ READONLY, true, PAGE - 1, 1, PERMISSION },
	{ READONLY, false, 0, MIB, BOUNDS },
	{ READONLY, false, PAGE, 1, BOUNDS },
	{ LENT, true, 0, 1, PERMISSION },
	{ LENT, true, PAGE - 1, 1, PERMISSION },
	{ LENT, false, 0, MIB, BOUNDS },
	{ LENT, false, PAGE, 1, BOUNDS },
	/* These are allowed. */
	{ SMALL, true, 0, PAGE, 0 },
	{ READONLY, false, 0, PAGE, 0 },
	{ LENT, false, 0, PAGE, 0 },
};
#define PROBES (sizeof(probes) / sizeof(probes[0]))

FIXTURE(reuse)
{
	struct card_usage before;
	struct drm_openreg_device_info info;
	int fd, victim;
	struct queue now, later, busy, theirs;
	struct bo go, own, last, old[KINDS], held;
	struct bo same[NUMBERS], lent, sum; /* of the victim */
	unsigned char *page, *guard; /* READONLY memory, and the page after it */
};

static int bo_mapped(int fd, __u64 size, __u32 flags, struct bo *bo)
{
	int ret = bo_create(fd, size, flags, bo);

	return ret ? ret : bo_map(fd, bo);
}

static int setup_attacker(FIXTURE_DATA(reuse) *self)
{
	int i, ret = queue_create(self->fd, 1024, &self->now);

	if (!ret)
		ret = queue_create(self->fd, 1024, &self->later);
	if (!ret)
		ret = queue_create(self->fd, 64, &self->busy);
	if (!ret)
		ret = bo_mapped(self->fd, PAGE, DRM_OPENREG_BO_SYSTEM,
				&self->go);
	if (!ret)
		ret = bo_mapped(self->fd, MIB, DRM_OPENREG_BO_VRAM, &self->own);
	if (!ret)
		ret = bo_create(self->fd, PAGE, DRM_OPENREG_BO_SYSTEM,
				&self->last);
	for (i = 0; i < KINDS && !ret; i++)
		ret = bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
				&self->old[i]);
	return ret ? ret : bo_mapped(self->fd, MIB, DRM_OPENREG_BO_VRAM,
				     &self->held);
}

static int setup_victim(FIXTURE_DATA(reuse) *self)
{
	int i, ret = queue_create(self->victim, 64, &self->theirs);

	for (i = 0; i < NUMBERS && !ret; i++) {
		ret = bo_mapped(self->victim, MIB, DRM_OPENREG_BO_VRAM,
				&self->same[i]);
		if (!ret)
			noise(self->same[i].cpu, MIB, i);
	}
	if (!ret)
		ret = bo_mapped(self->victim, PAGE, DRM_OPENREG_BO_VRAM,
				&self->lent);
	if (!ret)
		ret = bo_mapped(self->victim, PAGE, DRM_OPENREG_BO_VRAM,
				&self->sum);
	if (!ret)
		noise(self->lent.cpu, PAGE, LENT);
	return ret;
}

FIXTURE_SETUP(reuse)
{
	unsigned int i;

	self->before = card_unused();
	self->fd = card_open();
	self->victim = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_LE(0, self->victim);
	ASSERT_EQ(0, card_info(self->fd, &self->info));
	ASSERT_EQ(0, setup_attacker(self));
	ASSERT_EQ(0, setup_victim(self));
	for (i = 0; i < KINDS; i++)
		ASSERT_EQ(OPENREG_ADDR_SEG(self->last.address) + 1 + i,
			  OPENREG_ADDR_SEG(self->old[i].address));
	/* The victim's objects have the same numbers. */
	ASSERT_EQ(self->go.address, self->same[0].address);
	ASSERT_LE(self->held.address, self->same[NUMBERS - 1].address);
	self->page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	self->guard = self->page + PAGE;
	noise(self->page, 2 * PAGE, READONLY);
}

static bool victim_is_whole(const FIXTURE_DATA(reuse) *self)
{
	unsigned int i;

	for (i = 0; i < NUMBERS; i++)
		if (!is_noise(self->same[i].cpu, MIB, i))
			return false;
	return is_noise(self->lent.cpu, PAGE, LENT);
}

FIXTURE_TEARDOWN(reuse)
{
	unsigned int i;

	EXPECT_TRUE(victim_is_whole(self));
	EXPECT_TRUE(is_noise(self->page, 2 * PAGE, READONLY));
	for (i = 0; i < NUMBERS; i++)
		munmap(self->same[i].cpu, MIB);
	munmap(self->lent.cpu, PAGE);
	munmap(self->sum.cpu, PAGE);
	munmap(self->go.cpu, PAGE);
	munmap(self->own.cpu, MIB);
	munmap(self->held.cpu, MIB);
	munmap(self->page, 2 * PAGE);
	queue_unmap(&self->now);
	queue_unmap(&self->later);
	queue_unmap(&self->busy);
	queue_unmap(&self->theirs);
	close(self->fd);
	close(self->victim);
	EXPECT_TRUE(card_settles(self->before));
}

/* Accesses the old object's range, whichever object has the number now. */
static void packet_probe(struct packet *p, const struct probe *probe,
			 const FIXTURE_DATA(reuse) *self)
{
	const __u64 at = self->old[probe->kind].address + probe->at;

	if (probe->write)
		packet_fill(p, at, probe->bytes, OPENREG_U8, BYTE);
	else
		packet_copy(p, self->own.address, at, probe->bytes, OPENREG_U8);
}

/* Appends all probes to the queue. end[] is the tail after each of them. */
static void push_probes(FIXTURE_DATA(reuse) *self, struct queue *q,
			__u64 *seq, __u64 *end)
{
	struct packet p;
	unsigned int i;

	for (i = 0; i < PROBES; i++) {
		packet_probe(&p, &probes[i], self);
		seq[i] = queue_write(q, &p);
		end[i] = q->tail;
	}
	queue_publish(q);
}

/* Returns how many probes had the expected result. */
static unsigned int check_probes(struct queue *q, const __u64 *seq,
				 const __u64 *end, const char *when)
{
	unsigned int i, fault, good = 0;
	int ret;

	for (i = 0; i < PROBES; i++) {
		ret = queue_wait(q, seq[i], LONG);
		fault = ret == -EIO ? q->card->fault.code : -ret;
		if (fault == probes[i].fault)
			good++;
		else
			fprintf(stderr, "# %s, %s, %s %llu bytes at %llu: %u\n",
				when, kind_names[probes[i].kind],
				probes[i].write ? "write" : "read",
				probes[i].bytes, probes[i].at, fault);
		if (ret && queue_reset(q, end[i], seq[i]))
			break;
	}
	return good;
}

struct walk {
	FIXTURE_DATA(reuse) *self;
	unsigned int left; /* numbers to take, for all threads together */
	int error;
};

/* Takes and frees one number. Registered memory is the cheapest object. */
static int take_number(FIXTURE_DATA(reuse) *self, __u64 *address)
{
	struct bo bo;
	int ret = bo_register(self->fd, self->guard, PAGE, 0, &bo);

	if (ret)
		return ret;
	*address = bo.address;
	return bo_close(self->fd, bo.handle);
}

static void *walk(void *data)
{
	struct walk *w = data;
	__u64 address;
	int ret;

	while ((int)__atomic_sub_fetch(&w->left, 1, __ATOMIC_RELAXED) >= 0) {
		ret = take_number(w->self, &address);
		if (ret) {
			w->error = ret;
			break;
		}
	}
	return NULL;
}

/* Takes numbers until the next one is that of the first old object. */
static int walk_round(FIXTURE_DATA(reuse) *self)
{
	struct walk w = { self, self->info.max_segments - LEFT, 0 };
	pthread_t thread[THREADS];
	unsigned int i;
	__u64 address;
	int ret;

	for (i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, walk, &w))
			return -EAGAIN;
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (i = 0, ret = w.error; !ret && i < 2 * LEFT; i++) {
		ret = take_number(self, &address);
		if (!ret && address == self->last.address)
			return 0;
	}
	return ret ? ret : -ERANGE;
}

/* Makes the new objects, each with the number of an old one. */
static int make_new(FIXTURE_DATA(reuse) *self, struct bo *bo)
{
	int ret, db = bo_export(self->victim, self->lent.handle, DRM_CLOEXEC);

	if (db < 0)
		return db;
	ret = bo_create(self->fd, PAGE, DRM_OPENREG_BO_VRAM, &bo[SMALL]);
	if (!ret)
		ret = bo_register(self->fd, self->page, PAGE,
				  DRM_OPENREG_BO_READONLY, &bo[READONLY]);
	if (!ret)
		ret = bo_import(self->fd, db, &bo[LENT]);
	close(db);
	return ret;
}

/* Closes an object while a packet writes it again and again. */
static bool hold(FIXTURE_DATA(reuse) *self)
{
	const volatile unsigned char *begun = self->held.cpu;
	__s64 deadline = now_ns() + LONG;
	const int64_t size[] = { 1 << 18, 1 << 18 }, stride[] = { 2, 2 };
	const uint64_t byte = BYTE;
	struct packet p;

	openreg_encode(p.bytes, OPENREG_OP_FILL, 0);
	openreg_encode_space(p.bytes, 2, size);
	openreg_encode_operand(p.bytes, self->held.address, OPENREG_U8, stride);
	openreg_encode_imm(p.bytes, &byte, 1);
	queue_push(&self->busy, &p);
	while (*begun != BYTE && now_ns() < deadline)
		usleep(1000);
	return *begun == BYTE && !bo_close(self->fd, self->held.handle);
}

static int close_old(FIXTURE_DATA(reuse) *self)
{
	struct card_usage usage = card_usage();
	int i, ret = bo_close(self->fd, self->last.handle);

	for (i = 0; i < KINDS && !ret; i++)
		ret = bo_close(self->fd, self->old[i].handle);
	usage.vram_free += KINDS * MIB;
	usage.objects -= KINDS + 1;
	return ret ? ret : card_settles(usage) ? 0 : -ETIME;
}

/* Takes all free VRAM, which includes that of the old objects. Returns the pieces. */
static unsigned int take_all(FIXTURE_DATA(reuse) *self, struct bo *bo,
			     unsigned int most)
{
	struct drm_openreg_memory_info info;
	unsigned int n;

	for (n = 0; n < most; n++) {
		if (card_memory(self->victim, &info))
			return 0;
		if (!info.vram_largest)
			return n;
		if (bo_create(self->victim, info.vram_largest,
			      DRM_OPENREG_BO_VRAM, &bo[n]))
			return 0;
	}
	return 0;
}

static bool is_zero(FIXTURE_DATA(reuse) *self, const struct bo *bo)
{
	volatile float *sum = self->sum.cpu;
	struct packet p;

	*sum = 1;
	packet_sum(&p, self->sum.address, bo->address, bo->size / 4);
	return !queue_wait(&self->theirs, queue_push(&self->theirs, &p),
			   LONG) && *sum == 0;
}

#define ALL 128

TEST_F_TIMEOUT(reuse, old_packets_meet_a_new_object, 280)
{
	__u64 seq[2][PROBES], end[2][PROBES], address;
	struct bo new[KINDS], all[ALL];
	unsigned int i, n;
	struct packet p;

	/* Push these packets before the old objects are closed. */
	packet_wait(&p, self->go.address);
	queue_push(&self->later, &p);
	push_probes(self, &self->later, seq[0], end[0]);
	ASSERT_EQ(0, close_old(self));
	ASSERT_EQ(0, walk_round(self));
	ASSERT_TRUE(hold(self));
	ASSERT_EQ(0, make_new(self, new));
	for (i = 0; i < KINDS; i++)
		ASSERT_EQ(self->old[i].address, new[i].address)
			TH_LOG("object %u", i);
	/* The number of the held object is not reused while its packet runs. */
	ASSERT_EQ(0, take_number(self, &address));
	EXPECT_LT(self->held.address, address);
	n = take_all(self, all, ALL);
	ASSERT_LT(0, n);
	push_probes(self, &self->now, seq[1], end[1]);
	EXPECT_EQ(PROBES, check_probes(&self->now, seq[1], end[1], "anew"));
	*(volatile __u64 *)self->go.cpu = 1;
	EXPECT_EQ(PROBES, check_probes(&self->later, seq[0], end[0],
				       "on its way"));
	/* The reads that were allowed got the lent memory. */
	EXPECT_TRUE(is_noise(self->own.cpu, PAGE, LENT));
	EXPECT_EQ(0, queue_reset(&self->busy, self->busy.tail, 1));
	for (i = 0; i < n; i++)
		EXPECT_TRUE(is_zero(self, &all[i]));
}

TEST_HARNESS_MAIN
