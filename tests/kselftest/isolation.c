// SPDX-License-Identifier: GPL-2.0-only
/*
 * An attacker tries to read or write a victim's memory on the card: by every operand of
 * every packet, and by mappings, handles and queues.
 */
#include <errno.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "card.h"
#include "isolation-kinds.h"
#include "sharing.h"

#define LONG (20 * SEC_NS)
#define PATTERN 0xa7
#define PART 65536 /* bytes of the attacker's memory for each operand */
#define PACKED (PART / 2) /* a packed matrix lies there in its operand's part */
#define REACH 4096 /* a packet writes less than this */

/* The open file, queue and memory of attacker or victim. */
struct party {
	int fd;
	struct queue q;
	struct bo vram, sys, user;
	unsigned char mem[8192];
};

static int party_open(struct party *p)
{
	int ret;

	p->fd = card_open();
	ret = p->fd < 0 ? p->fd : queue_create(p->fd, 256, &p->q);
	if (!ret)
		ret = bo_create(p->fd, MIB, DRM_OPENREG_BO_VRAM, &p->vram);
	if (!ret)
		ret = bo_map(p->fd, &p->vram);
	return ret;
}

static int party_open_all(struct party *p)
{
	int ret = party_open(p);

	if (!ret)
		ret = bo_create(p->fd, MIB, DRM_OPENREG_BO_SYSTEM, &p->sys);
	if (!ret)
		ret = bo_map(p->fd, &p->sys);
	if (!ret)
		ret = bo_register(p->fd, p->mem, sizeof(p->mem), 0, &p->user);
	return ret;
}

static void party_close(struct party *p)
{
	queue_unmap(&p->q);
	munmap(p->vram.cpu, p->vram.size);
	close(p->fd);
}

static bool is_all(const unsigned char *mem, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (mem[i] != PATTERN)
			return false;
	return true;
}

static bool is_zero(const char *mem, size_t size)
{
	return !mem[0] && !memcmp(mem, mem + 1, size - 1);
}

/* Is the attacker's memory zero, and is no data of the victim in its card page? */
static bool nothing_came(const struct party *a)
{
	const volatile __u32 *card = (const volatile void *)a->q.card;
	const char *mem = a->vram.cpu;
	unsigned int i;

	for (i = 0; i < KIND_OPERANDS_MAX; i++)
		if (!is_zero(mem + i * PART, REACH))
			return false;
	if (!is_zero(mem + MIB - REACH, REACH))
		return false;
	for (i = 0; i < 4096 / 4; i++)
		if (card[i] == PATTERN * 0x1010101u)
			return false;
	return true;
}

FIXTURE(isolation)
{
	struct card_usage before;
	struct party *victim, *attacker;
};

/* The victim's objects have segment numbers that the attacker's context lacks. */
FIXTURE_SETUP(isolation)
{
	struct bo first;

	self->before = card_unused();
	self->victim = calloc(1, sizeof(*self->victim));
	self->attacker = calloc(1, sizeof(*self->attacker));
	ASSERT_EQ(0, party_open(self->attacker));
	self->victim->fd = -1;
	ASSERT_EQ(0, party_open_all(self->victim));
	first = self->victim->vram;
	ASSERT_EQ(0, bo_create(self->victim->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->victim->vram));
	munmap(first.cpu, first.size);
	ASSERT_EQ(0, bo_map(self->victim->fd, &self->victim->vram));
	ASSERT_EQ(self->attacker->vram.address, first.address);
	memset(self->victim->vram.cpu, PATTERN, MIB);
	memset(self->victim->sys.cpu, PATTERN, MIB);
	memset(self->victim->mem, PATTERN, sizeof(self->victim->mem));
}

/* Checks that the victim's memory is unchanged and its queue works. */
FIXTURE_TEARDOWN(isolation)
{
	struct party *victim = self->victim;
	struct packet p;

	EXPECT_TRUE(is_all(victim->vram.cpu, MIB));
	EXPECT_TRUE(is_all(victim->sys.cpu, MIB));
	EXPECT_TRUE(is_all(victim->mem, sizeof(victim->mem)));
	packet_nop(&p);
	EXPECT_EQ(0, queue_wait(&victim->q, queue_push(&victim->q, &p), LONG));
	munmap(victim->sys.cpu, MIB);
	party_close(victim);
	party_close(self->attacker);
	free(victim);
	free(self->attacker);
	EXPECT_TRUE(card_settles(self->before));
}

/* Packs the attacker's own matrix, so that the kind's packet is valid. */
static void pack_own(struct party *a, const struct kind *k, __u64 *address)
{
	struct packet p;

	kind_pack(&p, k, *address + PACKED, *address);
	queue_push(&a->q, &p);
	*address += PACKED;
}

/* Runs the packet with one operand at target. Returns the fault's code, or 0. */
static unsigned int attempt(struct party *a, const struct kind *k,
			    unsigned int operand, __u64 target)
{
	__u64 address[KIND_OPERANDS_MAX], seq;
	struct packet p;
	unsigned int i;
	int ret;

	for (i = 0; i < KIND_OPERANDS_MAX; i++)
		address[i] = a->vram.address + i * PART;
	if (k->packed)
		pack_own(a, k, &address[k->packed]);
	if (operand < k->nops)
		address[operand] = target;
	kind_packet(&p, k, address);
	seq = queue_push(&a->q, &p);
	ret = queue_wait(&a->q, seq, LONG);
	if (!ret)
		return 0;
	i = a->q.card->fault.operand == operand ? a->q.card->fault.code : -1;
	return queue_reset(&a->q, a->q.tail, seq) ? -1 : i;
}

/* As attempt(), and checks that nothing was written before the fault. */
static unsigned int attack(struct party *a, const struct kind *k,
			   unsigned int operand, __u64 target)
{
	unsigned int code = attempt(a, k, operand, target);

	return nothing_came(a) ? code : -2;
}

TEST_F(isolation, packets_are_good)
{
	unsigned int k;

	for (k = 0; k < KINDS; k++)
		EXPECT_EQ(0, attempt(self->attacker, &kinds[k], -1, 0))
			TH_LOG("%s", kinds[k].name);
}

static void set_operands(struct party *a, const struct kind *k, int start,
			 bool noisy)
{
	char *mem = a->vram.cpu;
	unsigned int i;

	memset(mem, 0, KIND_OPERANDS_MAX * PART);
	memset(mem, start, PART);
	for (i = 1; i < k->nops && noisy; i++)
		if (k->ops[i].dtype != OPENREG_I64 ||
		    (k->opcode != OPENREG_OP_INDEX &&
		     k->opcode != OPENREG_OP_POOL))
			noise(mem + i * PART, PART, i);
}

/* Does the result depend on the operands that the packet reads? */
static bool carries(struct party *a, const struct kind *k, int start)
{
	char result[REACH];

	set_operands(a, k, start, false);
	if (attempt(a, k, -1, 0))
		return false;
	memcpy(result, a->vram.cpu, sizeof(result));
	set_operands(a, k, start, true);
	return !attempt(a, k, -1, 0) &&
	       memcmp(result, a->vram.cpu, sizeof(result));
}

/* Each packet's result shows what the packet read: so a forbidden read would show too. */
TEST_F(isolation, packets_carry)
{
	struct party *a = self->attacker;
	unsigned int k;

	for (k = 0; k < KINDS; k++)
		if (kinds[k].nops > 1)
			EXPECT_TRUE(carries(a, &kinds[k], 0) ||
				    carries(a, &kinds[k], 0xbf))
				TH_LOG("%s", kinds[k].name);
}

TEST_F_TIMEOUT(isolation, by_address, 200)
{
	const __u64 targets[] = {
		self->victim->vram.address, self->victim->sys.address,
		self->victim->user.address,
		/* Addresses of another card, of no card, of the CPU. */
		self->attacker->vram.address | 1ull << 51,
		self->attacker->vram.address & ~(1ull << 55),
		(uintptr_t)self->victim->vram.cpu, 0,
	};
	unsigned int k, i, t;

	for (k = 0; k < KINDS; k++)
		for (i = 0; i < kinds[k].nops; i++)
			for (t = 0; t < sizeof(targets) / 8; t++)
				EXPECT_EQ(OPENREG_FAULT_ADDRESS,
					  attack(self->attacker, &kinds[k], i,
						 targets[t]))
					TH_LOG("%s, operand %u, target %u",
					       kinds[k].name, i, t);
}

/* The memory of others lies beside the attacker's. */
TEST_F_TIMEOUT(isolation, by_reaching_out, 200)
{
	const struct bo *own = &self->attacker->vram;
	const __u64 targets[] = {
		own->address + MIB, own->address + MIB - 8,
		own->address + (1ull << 37), own->address + 2 * MIB,
	};
	unsigned int k, i, t;

	for (k = 0; k < KINDS; k++)
		for (i = 0; i < kinds[k].nops; i++)
			for (t = 0; t < sizeof(targets) / 8; t++) {
				/* A single element fits into 8 bytes. */
				if (t == 1 && (!kinds[k].ndim ||
					       kinds[k].ops[i].stride[0] == 0))
					continue;
				EXPECT_EQ(OPENREG_FAULT_BOUNDS,
					  attack(self->attacker, &kinds[k], i,
						 targets[t]))
					TH_LOG("%s, operand %u, target %u",
					       kinds[k].name, i, t);
			}
}

static void set_index(struct party *a, unsigned int operand, __s64 value)
{
	__s64 *index = (void *)((char *)a->vram.cpu + operand * PART);

	index[3] = value;
}

/* Indices are data: the card reads them only when the packet runs. */
TEST_F_TIMEOUT(isolation, by_index, 200)
{
	/* Those with MIB would reach the victim's memory, which lies behind. */
	const __s64 indices[] = { 4, -1, 1 << 20, INT64_MAX, INT64_MIN,
				  INT64_MAX / 16 + 1, MIB / 16, MIB / 8,
				  MIB / 4, MIB / 2, -(__s64)MIB / 16 };
	struct party *a = self->attacker;
	unsigned int k, i, n;

	for (k = 0; k < KINDS; k++) {
		if (kinds[k].opcode != OPENREG_OP_INDEX)
			continue;
		for (i = 2; i < kinds[k].nops; i++) {
			for (n = 0; n < sizeof(indices) / 8; n++) {
				/* With WRAP, -1 is a valid index. */
				if (kinds[k].arg[1] == OPENREG_INDEX_WRAP &&
				    indices[n] == -1)
					continue;
				set_index(a, i, indices[n]);
				EXPECT_EQ(OPENREG_FAULT_INDEX,
					  attempt(a, &kinds[k], i,
						  a->vram.address + i * PART))
					TH_LOG("%s, operand %u, index %lld",
					       kinds[k].name, i,
					       (long long)indices[n]);
				set_index(a, i, 0);
				EXPECT_TRUE(nothing_came(a));
			}
		}
	}
}

/* POOL's backward ignores an index outside its window. */
TEST_F(isolation, by_place)
{
	const __s64 places[] = {
		0, 4, -1, -4, MIB / 4, MIB / 2, -(__s64)MIB / 4, PART / 4,
		1ll << 32, 1ll << 61, 1ll << 62, -(1ll << 62), INT64_MAX,
		INT64_MIN, INT64_MAX / 4 + 1, INT64_MIN / 4 - 1,
	};
	const float gradient[] = { 1, 2, 3, 4 }, expected[] = { 1, 2, 3, 0 };
	struct party *a = self->attacker;
	char *mem = a->vram.cpu;
	unsigned int k, n;

	for (k = 0; k < KINDS; k++) {
		if (kinds[k].opcode != OPENREG_OP_POOL || kinds[k].nops != 3 ||
		    kinds[k].arg[1] != OPENREG_POOL_BACKWARD)
			continue;
		for (n = 0; n < sizeof(places) / 8; n++) {
			const __s64 index[] = { 0, 1, 2, places[n] };

			memcpy(mem + PART, gradient, sizeof(gradient));
			memcpy(mem + 2 * PART, index, sizeof(index));
			ASSERT_EQ(0, attempt(a, &kinds[k], -1, 0));
			EXPECT_EQ(0, memcmp(mem, expected, sizeof(expected)))
				TH_LOG("place %lld", (long long)places[n]);
			memset(mem, 0, sizeof(expected));
			memset(mem + PART, 0, sizeof(gradient));
			memset(mem + 2 * PART, 0, sizeof(index));
			EXPECT_TRUE(nothing_came(a));
		}
	}
}

/* Every access to a closed object faults. */
TEST_F(isolation, by_a_closed_object)
{
	struct card_usage before = card_usage();
	struct party *a = self->attacker;
	unsigned int k, i;
	struct bo bo;

	ASSERT_EQ(0, bo_create(a->fd, MIB, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, bo_close(a->fd, bo.handle));
	ASSERT_TRUE(card_settles(before));
	for (k = 0; k < KINDS; k++)
		for (i = 0; i < kinds[k].nops; i++)
			EXPECT_EQ(OPENREG_FAULT_ADDRESS,
				  attack(a, &kinds[k], i, bo.address))
				TH_LOG("%s, operand %u", kinds[k].name, i);
}

/* A mapping of a closed object shows no memory of others. */
TEST_F_TIMEOUT(isolation, by_an_old_map, 60)
{
	struct party *a = self->attacker, *v = self->victim;
	struct drm_openreg_memory_info info;
	struct bo all, sum;
	struct packet p;

	ASSERT_EQ(0, bo_create(v->fd, 4096, DRM_OPENREG_BO_VRAM, &sum));
	ASSERT_EQ(0, bo_map(v->fd, &sum));
	ASSERT_EQ(0, bo_close(a->fd, a->vram.handle));
	ASSERT_EQ(0, card_memory(a->fd, &info));
	ASSERT_EQ(0, bo_create(v->fd, info.vram_largest, DRM_OPENREG_BO_VRAM,
			       &all));
	memset(a->vram.cpu, 0x3f, MIB);
	*(float *)sum.cpu = 1;
	packet_sum(&p, sum.address, all.address, all.size / 4);
	ASSERT_EQ(0, queue_wait(&v->q, queue_push(&v->q, &p), LONG));
	EXPECT_EQ(0.0f, *(float *)sum.cpu);
	munmap(sum.cpu, sum.size);
}

static bool can_map(int fd, __u64 offset, size_t size, int prot)
{
	void *map = mmap(NULL, size, prot, MAP_SHARED, fd, offset);

	if (map == MAP_FAILED)
		return false;
	munmap(map, size);
	return true;
}

TEST_F(isolation, by_offset)
{
	const struct party *v = self->victim, *a = self->attacker;
	const __u64 theirs[] = {
		v->vram.mmap_offset, v->sys.mmap_offset, v->q.args.ring_offset,
		v->q.args.user_offset, v->q.args.card_offset,
		v->q.args.doorbell_offset,
	};
	const struct {
		__u64 offset, size;
	} own[] = {
		{ a->vram.mmap_offset, MIB },
		{ a->q.args.ring_offset, 256 * OPENREG_SLOT_SIZE },
		{ a->q.args.user_offset, 4096 },
		{ a->q.args.doorbell_offset, 4096 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(theirs) / 8; i++) {
		EXPECT_FALSE(can_map(a->fd, theirs[i], 4096, PROT_READ));
		EXPECT_FALSE(can_map(a->fd, theirs[i], 4096, PROT_WRITE));
	}
	/* Offsets before and after the attacker's own objects are refused too. */
	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		EXPECT_TRUE(can_map(a->fd, own[i].offset, own[i].size,
				    PROT_WRITE));
		EXPECT_FALSE(can_map(a->fd, own[i].offset, own[i].size + 4096,
				     PROT_WRITE));
		EXPECT_FALSE(can_map(a->fd, own[i].offset - 4096, 8192,
				     PROT_WRITE));
	}
}

/* Of all offsets, only those of the attacker's own five objects can be mapped. */
TEST_F_TIMEOUT(isolation, by_any_offset, 60)
{
	const struct party *v = self->victim, *a = self->attacker;
	__u64 offset, first = v->q.args.ring_offset, end = first;
	unsigned int pages = 0;
	const __u64 known[] = {
		a->vram.mmap_offset, a->q.args.ring_offset,
		a->q.args.user_offset, a->q.args.card_offset,
		a->q.args.doorbell_offset, v->vram.mmap_offset,
		v->sys.mmap_offset, v->q.args.card_offset,
	};
	unsigned int i;

	for (i = 0; i < sizeof(known) / 8; i++) {
		first = known[i] < first ? known[i] : first;
		end = known[i] > end ? known[i] : end;
	}
	for (offset = first - MIB; offset < end + 4 * MIB; offset += 4096)
		pages += can_map(a->fd, offset, 4096, PROT_READ);
	EXPECT_EQ(5, pages) /* mmap() takes only the first page of an object */
		TH_LOG("%u pages", pages);
}

TEST_F(isolation, by_handle_and_number)
{
	struct party *a = self->attacker;
	struct drm_openreg_bo_info info;
	struct queue q = a->q;
	__u32 syncobj, i;

	ASSERT_EQ(0, syncobj_create(a->fd, &syncobj));
	for (i = 0; i < 100; i++) {
		info = (struct drm_openreg_bo_info) { .handle = i };
		if (i != a->vram.handle) {
			EXPECT_EQ(-ENOENT, card_ioctl(a->fd,
						      DRM_IOCTL_OPENREG_BO_INFO,
						      &info));
			EXPECT_EQ(-EINVAL, bo_close(a->fd, i));
		}
		q.id = i;
		if (i == a->q.id)
			continue;
		EXPECT_EQ(-ENOENT, queue_wait(&q, 1, 0));
		EXPECT_EQ(-ENOENT, queue_reset(&q, 0, 0));
		EXPECT_EQ(-ENOENT, queue_destroy(&q));
		EXPECT_EQ(-ENOENT, queue_signal(&q, syncobj, 1, 0));
	}
	EXPECT_EQ(0, queue_signal(&a->q, syncobj, 1, 0));
}

/* The attacker writes ones to all of its queue's pages. */
TEST_F(isolation, by_its_own_pages)
{
	struct party *a = self->attacker;
	unsigned int i;

	for (i = 0; i < 4096 / 4; i++)
		a->q.doorbell[i] = -1;
	memset(a->q.ring, 0xff, 256 * OPENREG_SLOT_SIZE);
	memset((void *)a->q.user, 0xff, 4096);
	__asm__ volatile("mfence" ::: "memory");
	*a->q.doorbell = 1;
	EXPECT_EQ(-EIO, queue_wait(&a->q, 1, LONG));
	EXPECT_EQ(OPENREG_FAULT_RING, a->q.card->fault.code);
}

TEST_HARNESS_MAIN
