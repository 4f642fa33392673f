// SPDX-License-Identifier: MIT
/*
 * INDEX packets on a card. An oracle that visits every corner of the space and of the
 * extents says if the indirect operand stays in its segment. Also indices out of range,
 * and indices that change while the card reads them.
 */
#include <pthread.h>
#include <string.h>

#include "engine/engine.h"
#include "host.h"
#include "random.h"

#define BASE (1u << 20)
#define GUARD 65536u
#define ROUNDS 20000
#define DATA 1 /* segment of the other operands */
#define TARGET 2 /* first segment of the indirect operands */
#define TOO_LONG 1000 /* no fault, but too much work for a test */
#define AT(seg, off) OPENREG_ADDR(0, seg, off)

static const uint64_t lengths[] = { 1, 7, 4096, 5000, 32768, 65536 };
#define TARGETS (sizeof(lengths) / sizeof(lengths[0]))

static uint8_t *target(struct rig *rig, unsigned int i)
{
	return rig->vram + BASE * (TARGET + i);
}

static void begin(struct rig *rig, struct client_queue *q)
{
	unsigned int i;

	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0), 0);
	rig_do(rig, cmd_vram(1, DATA, BASE * DATA, BASE, RW));
	for (i = 0; i < TARGETS; i++)
		rig_do(rig, cmd_vram(1, TARGET + i, BASE * (TARGET + i), lengths[i], RW));
	tq_create(rig, q, 1, 0);
}

static void check_guards(struct rig *rig)
{
	unsigned int i, k;

	for (i = 0; i < TARGETS; i++)
		for (k = 0; k < GUARD; k++) {
			assert_int_equal(target(rig, i)[-1 - (int)k], 0);
			assert_int_equal(target(rig, i)[lengths[i] + k], 0);
		}
}

/* The last nindex dimensions are extents and steps. */
struct trial {
	unsigned int ndim, nindex, dtype, seg;
	int64_t size[OPENREG_DIMS_MAX];
	int64_t stride[OPENREG_DIMS_MAX];
	uint64_t off, length;
};

static int64_t random_stride(uint64_t length)
{
	switch (below(8)) {
	case 0:
		return 0;
	case 1:
		return (int64_t)random64();
	case 2:
		return below(2) ? INT64_MAX : INT64_MIN;
	case 3:
		return -(int64_t)below(length);
	default:
		return (int64_t)below(length / 4 + 2) - 2;
	}
}

static int64_t random_size(bool extent)
{
	switch (below(12)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return extent ? (int64_t)(random64() >> 1) : 1LL << below(30);
	default:
		return 1 + (int64_t)below(6);
	}
}

static void random_trial(struct trial *t, unsigned int i)
{
	unsigned int d;

	t->seg = TARGET + i;
	t->length = lengths[i];
	t->ndim = (unsigned int)below(6);
	t->nindex = 1 + (unsigned int)below(3);
	t->dtype = 1 + (unsigned int)below(OPENREG_BOOL);
	t->off = below(t->length + 64);
	if (below(8))
		t->off -= t->off % openreg_dtype_size(t->dtype);
	for (d = 0; d < t->ndim + t->nindex; d++) {
		t->size[d] = random_size(d >= t->ndim);
		t->stride[d] = random_stride(t->length);
	}
}

static uint32_t oracle(const struct trial *t)
{
	unsigned int esize = openreg_dtype_size(t->dtype), d, corner;
	__int128 work = 1;

	for (d = 0; d < t->ndim; d++)
		if (!t->size[d])
			return OPENREG_FAULT_NONE;
	for (d = 0; d < t->ndim; d++)
		work = work > (__int128)1 << 36 ? work : work * t->size[d];
	if (work > (__int128)1 << 36)
		return OPENREG_FAULT_LIMIT;
	for (d = t->ndim; d < t->ndim + t->nindex; d++)
		if (!t->size[d])
			return OPENREG_FAULT_INDEX;
	if (t->off % esize)
		return OPENREG_FAULT_ALIGNMENT;
	for (corner = 0; corner < 1u << (t->ndim + t->nindex); corner++) {
		__int128 at = t->off;

		for (d = 0; d < t->ndim + t->nindex; d++) {
			__int128 way = (__int128)(t->size[d] - 1) *
				       t->stride[d];

			if (!(corner & 1u << d))
				continue;
			if (__builtin_mul_overflow(way, esize, &way) ||
			    __builtin_add_overflow(at, way, &at))
				return OPENREG_FAULT_BOUNDS;
		}
		if (at < 0 || at + esize > (__int128)t->length)
			return OPENREG_FAULT_BOUNDS;
	}
	return work > 1 << 18 ? TOO_LONG : OPENREG_FAULT_NONE;
}

/* All indices of an operand are one word, often the last valid index. */
static void run_trial(struct rig *rig, struct client_queue *q, const struct trial *t)
{
	static const int64_t none[OPENREG_DIMS_MAX];
	struct openreg_fault_summary fault;
	uint32_t want = oracle(t);
	struct pkt p;
	unsigned int k;

	if (want == TOO_LONG)
		return;
	pkt_begin(&p, OPENREG_OP_INDEX, t->ndim, t->size);
	pkt_arg(&p, 0, (uint8_t)(1 + below(OPENREG_INDEX_END - 1)));
	pkt_operand(&p, AT(t->seg, t->off), t->dtype, t->stride);
	pkt_operand(&p, AT(DATA, 64), t->dtype, none);
	for (k = 0; k < t->nindex; k++) {
		int64_t last = t->size[t->ndim + k] - 1;

		memcpy(rig->vram + BASE * DATA + 8 * k, &last, 8);
		pkt_operand(&p, AT(DATA, 8 * k), OPENREG_I64, none);
	}
	for (k = t->ndim; k < t->ndim + t->nindex; k++) {
		pkt_imm(&p, (uint64_t)t->size[k]);
		pkt_imm(&p, (uint64_t)t->stride[k]);
	}
	if (want == OPENREG_FAULT_INDEX)
		for (k = 0; k < 8 * t->nindex; k += 8)
			memset(rig->vram + BASE * DATA + k, 0, 8);
	fault = tq_expect(q, &p, want);
	if (want == OPENREG_FAULT_BOUNDS)
		assert_int_equal(fault.operand, 0);
	if (want == OPENREG_FAULT_INDEX)
		assert_true(fault.operand >= 2 && fault.operand <= 4);
}

static void test_reach(void **state)
{
	struct rig *rig = *state;
	struct trial t;
	struct client_queue q;
	unsigned int i;

	begin(rig, &q);
	memset(rig->vram + BASE * DATA + 64, 0x5a, 8);
	for (i = 0; i < ROUNDS / SCALE; i++) {
		random_trial(&t, i % TARGETS);
		run_trial(rig, &q, &t);
	}
	check_guards(rig);
}

/* An INDEX packet of n elements with n I64 indices. */
static void pkt_index(struct pkt *p, unsigned int mode, int64_t n,
		      int64_t extent)
{
	static const int64_t one = 1, zero;
	bool get = mode == OPENREG_INDEX_GET;

	pkt_begin(p, OPENREG_OP_INDEX, 1, &n);
	pkt_arg(p, 0, (uint8_t)mode);
	pkt_operand(p, get ? AT(DATA, 1 << 19) : AT(TARGET + 5, 0), OPENREG_U8,
		    get ? &one : &zero);
	pkt_operand(p, get ? AT(TARGET + 5, 0) : AT(DATA, 1 << 19), OPENREG_U8,
		    get ? &zero : &one);
	pkt_operand(p, AT(DATA, 0), OPENREG_I64, &one);
	pkt_imm(p, (uint64_t)extent);
	pkt_imm(p, 1);
}

static void test_fault(void **state)
{
	struct rig *rig = *state;
	struct openreg_fault_summary fault;
	int64_t *index = (int64_t *)(rig->vram + BASE * DATA), n = 60000;
	struct pkt p;
	struct client_queue q;
	unsigned int mode;

	begin(rig, &q);
	for (mode = 0; mode < OPENREG_INDEX_END; mode++) {
		pkt_index(&p, mode, n, 1000);
		memset(index, 0, (size_t)n * 8);
		tq_run(&q, &p);
		index[n - 7] = mode ? 1000 : -1;
		fault = tq_expect(&q, &p, OPENREG_FAULT_INDEX);
		assert_int_equal(fault.operand, 2);
		assert_int_equal(fault.address, 1000);
		assert_int_equal(fault.detail, index[n - 7]);
		assert_int_equal(fault.opcode, OPENREG_OP_INDEX);
	}
	index[n - 7] = 5;
	tq_run(&q, &p);
}

static void test_permission(void **state)
{
	struct rig *rig = *state;
	struct pkt p;
	struct client_queue q;

	begin(rig, &q);
	rig_do(rig, cmd_vram(1, 20, BASE * 20, 4096, OPENREG_SEG_WRITE));
	pkt_index(&p, OPENREG_INDEX_PUT, 4, 4);
	memcpy(p.bytes + 40, &(uint64_t){ AT(20, 0) }, 8);
	tq_run(&q, &p);
	pkt_index(&p, OPENREG_INDEX_ADD, 4, 4);
	memcpy(p.bytes + 40, &(uint64_t){ AT(20, 0) }, 8);
	tq_expect(&q, &p, OPENREG_FAULT_PERMISSION);
}

static atomic_bool stop;

static void rest(unsigned int turns)
{
	while (turns-- && !atomic_load(&stop))
		;
}

/*
 * Switches indices between a valid value and one out of range, for varying times. Some
 * packets read only valid indices; others read a bad one only the second time.
 */
static void *meddle(void *opaque)
{
	int64_t *index = opaque;
	unsigned int i = 0;

	while (!atomic_load(&stop)) {
		__atomic_store_n(&index[i % 4096], 1 << 16, __ATOMIC_RELAXED);
		rest(i % 61);
		__atomic_store_n(&index[i % 4096], 3, __ATOMIC_RELAXED);
		rest(i % 53 * 8);
		i++;
	}
	return NULL;
}

/* Returns whether the packet that reads changing indices faulted. */
static bool run_changing(struct client_queue *q)
{
	struct pkt p;

	pkt_index(&p, OPENREG_INDEX_PUT, 4096, 1 << 16);
	tq_push(q, &p);
	client_publish(q);
	WAIT_FOR(client_done(q) == q->seq ||
		 client_state(q) == OPENREG_QUEUE_FAULTED);
	if (client_state(q) != OPENREG_QUEUE_FAULTED)
		return false;
	tq_recover(q);
	return true;
}

static void test_change(void **state)
{
	struct rig *rig = *state;
	int64_t *index = (int64_t *)(rig->vram + BASE * DATA);
	const uint64_t end = host_now() + 60000000000ULL;
	unsigned int i, faults = 0;
	pthread_t thread;
	struct client_queue q;

	begin(rig, &q);
	memset(rig->vram + BASE * DATA + (1 << 19), 0x5a, 4096);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, meddle, index), 0);
	/* With one CPU, many packets may run before the other thread changes an index. */
	for (i = 0; i < 3000 / SCALE || (!faults && host_now() < end); i++)
		faults += run_changing(&q);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_true(faults > 0);
	check_guards(rig);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_reach),
		T(test_fault),
		T(test_permission),
		T(test_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
