/* SPDX-License-Identifier: MIT */
/*
 * Compares the address check with an oracle that visits every corner of the iteration
 * space in 128 bits. A packet runs if and only if all its elements lie in the segment.
 * Guard bytes around the segment must not change.
 *
 * Packets: FILL; empty reductions, which also store results; POOL, where the input has
 * its own sizes; SORT, PLACES and PACK, where the results have; MATMUL with scales.
 */
#include <string.h>

#include "engine/engine.h"
#include "host.h"
#include "random.h"

#define BASE (1u << 20)
#define GUARD 65536u
#define ROUNDS 20000
#define SORT_SOURCE 8 /* segment behind the others */

struct trial {
	unsigned int ndim;
	unsigned int dtype;
	int64_t size[OPENREG_DIMS_MAX];
	int64_t stride[OPENREG_DIMS_MAX];
	uint64_t off;
	uint64_t length; /* of the segment */
	unsigned int operand; /* the one that may fault */
};

static int64_t random_stride(uint64_t length)
{
	switch (below(8)) {
	case 0:
		return 0;
	case 1:
		return (int64_t)random64();
	case 2:
		return (below(2) ? 1 : -1) *
		       (int64_t)(1ULL << (30 + below(33)));
	case 3:
		return below(2) ? INT64_MAX : INT64_MIN;
	case 4:
		return -(int64_t)below(length);
	default:
		return (int64_t)below(length / 4 + 2) - 2;
	}
}

static int64_t random_size(void)
{
	switch (below(12)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return 1LL << below(37);
	default:
		return 1 + (int64_t)below(6);
	}
}

static void random_trial(struct trial *t, uint64_t length)
{
	unsigned int d;

	t->ndim = (unsigned int)below(OPENREG_DIMS_MAX + 1);
	t->dtype = 1 + (unsigned int)below(OPENREG_DTYPE_END - 1);
	t->operand = 0;
	t->length = length;
	t->off = below(length + 64);
	if (below(8))
		t->off -= t->off % openreg_dtype_size(t->dtype);
	for (d = 0; d < t->ndim; d++) {
		t->size[d] = random_size();
		t->stride[d] = random_stride(length);
	}
}

static bool is_empty(const struct trial *t)
{
	unsigned int d;

	for (d = 0; d < t->ndim; d++)
		if (!t->size[d])
			return true;
	return false;
}

static bool too_much(const struct trial *t)
{
	__int128 work = 1;
	unsigned int d;

	for (d = 0; d < t->ndim; d++) {
		work *= t->size[d];
		if (work > (__int128)1 << 36)
			return true;
	}
	return false;
}

static bool written_twice(const struct trial *t)
{
	unsigned int d;

	for (d = 0; d < t->ndim; d++)
		if (t->size[d] > 1 && !t->stride[d])
			return true;
	return false;
}

/* The fault code of an operand that the packet reads, or OPENREG_FAULT_NONE. */
static uint32_t oracle_of_read(const struct trial *t)
{
	unsigned int esize = openreg_dtype_size(t->dtype), d, corner;

	if (is_empty(t))
		return OPENREG_FAULT_NONE;
	if (t->off % esize)
		return OPENREG_FAULT_ALIGNMENT;
	for (corner = 0; corner < 1u << t->ndim; corner++) {
		__int128 at = t->off;

		for (d = 0; d < t->ndim; d++)
			if (corner & 1u << d)
				at += (__int128)(t->size[d] - 1) *
				      t->stride[d] * esize;
		if (at < 0 || at + esize > (__int128)t->length)
			return OPENREG_FAULT_BOUNDS;
	}
	return OPENREG_FAULT_NONE;
}

/* The fault code of a packet that writes the operand, or OPENREG_FAULT_NONE. */
static uint32_t oracle(const struct trial *t, bool shape_first)
{
	if (is_empty(t))
		return OPENREG_FAULT_NONE;
	if (shape_first && written_twice(t))
		return OPENREG_FAULT_SHAPE;
	if (too_much(t))
		return OPENREG_FAULT_LIMIT;
	if (written_twice(t))
		return OPENREG_FAULT_SHAPE;
	return oracle_of_read(t);
}

/* True for a valid packet with too much work for a test. */
static bool too_long(const struct trial *t)
{
	__int128 work = 1;
	unsigned int d;

	for (d = 0; d < t->ndim; d++)
		work *= t->size[d];
	return work > 1 << 18;
}

static void expect(struct client_queue *q, struct pkt *p, uint32_t want,
		   const struct trial *t, uint32_t seg)
{
	struct openreg_fault_summary fault = tq_expect(q, p, want);

	if (want != OPENREG_FAULT_BOUNDS)
		return;
	assert_int_equal(fault.operand, t->operand);
	/* The operand's address, or the first byte behind the segment. */
	assert_true(fault.address == OPENREG_ADDR(0, seg, t->off) ||
		    fault.address == OPENREG_ADDR(0, seg, t->length));
}

static void check_fill(struct client_queue *q, struct trial *t, uint32_t seg)
{
	uint32_t want = oracle(t, false);
	struct pkt p;

	if (!want && too_long(t))
		return;
	pkt_begin(&p, OPENREG_OP_FILL, t->ndim, t->size);
	pkt_operand(&p, OPENREG_ADDR(0, seg, t->off), t->dtype, t->stride);
	pkt_imm(&p, 0x5a5a5a5a5a5a5a5a);
	expect(q, &p, want, t, seg);
}

/* A reduction of some dimensions, one of which is empty. */
static void check_reduce(struct client_queue *q, struct trial *t, uint32_t seg)
{
	static const uint8_t ops[] = { OPENREG_V_RED_SUM, OPENREG_V_RED_PROD,
				       OPENREG_V_RED_AND };
	struct trial kept = *t;
	unsigned int d, mask, load = (unsigned int)below(2);
	uint32_t want;
	struct pkt p;

	if (!t->ndim)
		return;
	mask = 1 + (unsigned int)below((1u << t->ndim) - 1);
	for (d = 0; d < t->ndim; d++) {
		if (!(mask >> d & 1))
			continue;
		t->stride[d] = 0;
		kept.size[d] = 1;
		if (!(mask >> (d + 1)))
			t->size[d] = 0;
	}
	want = oracle(&kept, true);
	if (!want && too_long(&kept))
		return;
	pkt_begin(&p, OPENREG_OP_VECTOR, t->ndim, t->size);
	pkt_arg(&p, 0, (uint8_t)mask);
	pkt_operand(&p, OPENREG_ADDR(0, seg, t->off), t->dtype, t->stride);
	if (load)
		pkt_operand(&p, random64(), t->dtype, t->stride);
	pkt_instr(&p, OPENREG_V_LOAD, OPENREG_VT_I64, 0, 0, 0, 0, load);
	pkt_instr(&p, ops[below(3)], OPENREG_VT_I64, 0, 0, OPENREG_VNONE,
		  OPENREG_VNONE, 0);
	expect(q, &p, want, t, seg);
}

/* Oracle for the input's gradient of a POOL with one output for each n and c. */
static uint32_t pool_oracle(const struct trial *t)
{
	unsigned int d;

	for (d = 2; d < 5; d++)
		if (t->size[d] > INT32_MAX)
			return OPENREG_FAULT_SHAPE;
	if (t->dtype >= OPENREG_BOOL)
		return OPENREG_FAULT_DTYPE;
	if (written_twice(t))
		return OPENREG_FAULT_SHAPE;
	return oracle(t, true);
}

static void check_pool(struct client_queue *q, struct trial *t, uint32_t seg)
{
	static const int64_t none[5];
	int64_t size[5] = { 0, 0, 1, 1, 1 };
	unsigned int d, i;
	uint32_t want;
	struct pkt p;

	t->ndim = 5;
	for (d = 0; d < 5; d++) {
		t->size[d] = d < 2 ? (int64_t)below(5) : random_size();
		t->stride[d] = random_stride(t->length);
		size[d] = d < 2 ? t->size[d] : 1;
	}
	want = pool_oracle(t);
	if (!want && too_long(t))
		return;
	pkt_begin(&p, OPENREG_OP_POOL, 5, size);
	pkt_arg(&p, 0, OPENREG_POOL_AVG);
	pkt_arg(&p, 1, OPENREG_POOL_BACKWARD);
	pkt_operand(&p, OPENREG_ADDR(0, seg, t->off), t->dtype, t->stride);
	pkt_operand(&p, OPENREG_ADDR(0, 4, 0), t->dtype, none);
	for (i = 0; i < 15; i++)
		pkt_imm(&p, i / 3 == OPENREG_WINDOW_INPUT / 3
				    ? (uint64_t)t->size[2 + i % 3]
				    : i / 3 != OPENREG_WINDOW_PADDING / 3);
	pkt_imm(&p, 0);
	expect(q, &p, want, t, seg);
}

/* Sorts rows that may be longer than the results; the results are the rows' ends. */
static void check_sort(struct client_queue *q, struct trial *t, uint32_t seg)
{
	int64_t stride[OPENREG_DIMS_MAX] = { 0 };
	struct trial source;
	unsigned int axis;
	uint32_t want;
	struct pkt p;

	if (!t->ndim || t->dtype > OPENREG_BOOL)
		return;
	axis = (unsigned int)below(t->ndim);
	if (t->size[axis] > 1 << 20)
		t->size[axis] = 1 + (int64_t)below(6);
	source = *t;
	source.size[axis] += (int64_t)below(4);
	stride[axis] = (int64_t)below(2);
	if (!is_empty(&source) && too_much(&source))
		want = OPENREG_FAULT_LIMIT;
	else if (written_twice(t))
		want = OPENREG_FAULT_SHAPE;
	else
		want = oracle(t, true);
	if (!want && !is_empty(t) && too_long(&source))
		return;
	pkt_begin(&p, OPENREG_OP_SORT, t->ndim, source.size);
	pkt_arg(&p, 0, (uint8_t)axis);
	pkt_operand(&p, OPENREG_ADDR(0, seg, t->off), t->dtype, t->stride);
	pkt_operand(&p, OPENREG_ADDR(0, SORT_SOURCE, 0), t->dtype, stride);
	pkt_imm(&p, (uint64_t)(source.size[axis] - t->size[axis]));
	pkt_imm(&p, (uint64_t)t->size[axis]);
	expect(q, &p, want, t, seg);
}

/* Rows of coordinates that may be shorter than the space. The source is all zeros. */
static void check_places(struct client_queue *q, struct trial *t, uint32_t seg)
{
	static const int64_t none[1];
	struct trial source;
	uint32_t want;
	struct pkt p;

	t->ndim = 1;
	t->dtype = OPENREG_I64;
	t->size[0] = random_size();
	t->stride[0] = random_stride(t->length);
	source = *t;
	source.size[0] += (int64_t)below(4);
	want = too_much(&source) ? OPENREG_FAULT_LIMIT : oracle(t, true);
	if (!want && too_long(&source))
		return;
	pkt_begin(&p, OPENREG_OP_PLACES, 1, source.size);
	pkt_operand(&p, OPENREG_ADDR(0, seg, t->off), t->dtype, t->stride);
	pkt_operand(&p, OPENREG_ADDR(0, SORT_SOURCE, 0), OPENREG_U8, none);
	pkt_imm(&p, (uint64_t)t->size[0]);
	expect(q, &p, want, t, seg);
}

/* A packed matrix that PACK writes; PACK reads zeros. */
static void check_pack(struct client_queue *q, struct trial *t, uint32_t seg)
{
	static const int64_t none[2], run_of[2] = { 0, 1 };
	static const uint8_t dtypes[] = { OPENREG_F32, OPENREG_F16,
					  OPENREG_BF16 };
	int64_t size[2] = { (int64_t)below(40), (int64_t)below(200) };
	int64_t group = 1, esize;
	uint32_t want;
	struct pkt p;

	t->dtype = dtypes[below(3)];
	esize = openreg_dtype_size(t->dtype);
	if (t->dtype == OPENREG_BF16)
		group = 2;
	if (below(4))
		t->off &= ~63ULL;
	/* What the card of this version needs. */
	t->ndim = 1;
	t->stride[0] = 1;
	t->size[0] = 0;
	if (size[0] && size[1])
		t->size[0] = (size[1] + 63) / 64 * 64 *
				     ((size[0] + 16 * group - 1) /
				      (16 * group) * 16 * group) +
			     64 / esize;
	want = t->size[0] && t->off % 64 ? OPENREG_FAULT_ALIGNMENT
					 : oracle(t, false);
	pkt_begin(&p, OPENREG_OP_PACK, 2, size);
	pkt_operand(&p, OPENREG_ADDR(0, seg, t->off), t->dtype, run_of);
	pkt_operand(&p, OPENREG_ADDR(0, SORT_SOURCE, 0), t->dtype, none);
	expect(q, &p, want, t, seg);
}

/* Q or the scale of a MATMUL with scales. Its size along k is the packet's / group. */
static void check_scaled(struct client_queue *q, struct trial *t, uint32_t seg)
{
	static const int64_t none[4];
	const int64_t group = 2 * (1 + (int64_t)below(3));
	const uint64_t zeros = OPENREG_ADDR(0, SORT_SOURCE, 0);
	bool is_q = below(2);
	int64_t size[4] = { 1, 1, 1, group * random_size() };
	uint32_t want;
	struct pkt p;

	t->ndim = 4;
	t->operand = is_q ? 2 : 3;
	t->dtype = is_q ? OPENREG_U8 : OPENREG_F32;
	t->size[0] = t->size[1] = t->size[2] = 1;
	t->size[3] = is_q ? size[3] / 2 : size[3] / group;
	t->stride[0] = t->stride[1] = t->stride[2] = 0;
	t->stride[3] = random_stride(t->length);
	/* The packet only reads the operand. */
	want = size[3] > 1LL << 36 ? OPENREG_FAULT_LIMIT : oracle_of_read(t);
	if (!want && size[3] > 1 << 18)
		return;
	pkt_begin(&p, OPENREG_OP_MATMUL, 4, size);
	pkt_arg(&p, 0, OPENREG_MATMUL_SCALED_I4);
	pkt_operand(&p, OPENREG_ADDR(0, SORT_SOURCE, 4096), OPENREG_F32, none);
	pkt_operand(&p, zeros, OPENREG_F32, none);
	pkt_operand(&p, is_q ? OPENREG_ADDR(0, seg, t->off) : zeros, OPENREG_U8,
		    is_q ? t->stride : none);
	pkt_operand(&p, is_q ? zeros : OPENREG_ADDR(0, seg, t->off), OPENREG_F32,
		    is_q ? none : t->stride);
	pkt_imm(&p, 0x3ff0000000000000);
	pkt_imm(&p, 0);
	pkt_imm(&p, (uint64_t)group);
	expect(q, &p, want, t, seg);
}

/* The scale of A or B of a MATMUL with SCALED_F8: it has rows or columns, and groups. */
static void check_scaled_f8(struct client_queue *q, struct trial *t, uint32_t seg)
{
	static const int64_t none[4];
	const int64_t group = 1 + (int64_t)below(5);
	const uint64_t zeros = OPENREG_ADDR(0, SORT_SOURCE, 0);
	bool is_b = below(2);
	int64_t size[4] = { 1, 1, 1, group * random_size() };
	unsigned int line = is_b ? 2 : 1, i;
	const int64_t d[4] = { 0, !is_b, is_b, 0 };
	uint32_t want;
	struct pkt p;

	size[line] = 1 + (int64_t)below(40);
	t->ndim = 4;
	t->operand = is_b ? 4 : 3;
	t->dtype = below(2) ? OPENREG_F8E8M0FNU : OPENREG_F32;
	t->size[0] = t->size[1] = t->size[2] = 1;
	t->size[line] = size[line];
	t->size[3] = size[3] / group;
	t->stride[0] = t->stride[1] = t->stride[2] = 0;
	t->stride[line] = random_stride(t->length);
	t->stride[3] = random_stride(t->length);
	/* The packet only reads the operand. */
	want = size[3] > (1LL << 36) / size[line] ? OPENREG_FAULT_LIMIT : oracle_of_read(t);
	if (!want && size[3] > 1 << 16)
		return;
	pkt_begin(&p, OPENREG_OP_MATMUL, 4, size);
	pkt_arg(&p, 0, OPENREG_MATMUL_SCALED_F8);
	pkt_operand(&p, OPENREG_ADDR(0, SORT_SOURCE, 4096), OPENREG_F32, d);
	pkt_operand(&p, zeros, OPENREG_F8E4M3FN, none);
	pkt_operand(&p, zeros, OPENREG_F8E5M2, none);
	for (i = 3; i < 5; i++) {
		bool tried = i == t->operand;

		pkt_operand(&p, tried ? OPENREG_ADDR(0, seg, t->off) : zeros, t->dtype,
			    tried ? t->stride : none);
	}
	pkt_imm(&p, 0x3ff0000000000000);
	pkt_imm(&p, 0);
	pkt_imm(&p, (uint64_t)group);
	expect(q, &p, want, t, seg);
}

typedef void check_fn(struct client_queue *q, struct trial *t, uint32_t seg);

/* The source of SORT, PLACES and PACK: zeros. */
static void bind_source(struct rig *rig)
{
	rig_do(rig, cmd_vram(1, SORT_SOURCE, BASE * SORT_SOURCE, 16u << 20, RW));
}

static void fuzz(struct rig *rig, check_fn *check, unsigned int rounds)
{
	static const uint64_t lengths[] = { 1, 7, 4096, 5000, 32768, 65536 };
	const unsigned int n = sizeof(lengths) / sizeof(lengths[0]);
	struct trial t;
	struct client_queue q;
	unsigned int i, k;

	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0), 0);
	for (i = 0; i < n; i++) {
		rig_do(rig, cmd_vram(1, 1 + i, BASE * (1 + i), lengths[i], RW));
	}
	bind_source(rig);
	tq_create(rig, &q, 1, 0);
	for (i = 0; i < rounds / SCALE; i++) {
		k = i % n;
		random_trial(&t, lengths[k]);
		check(&q, &t, 1 + k);
	}
	for (i = 0; i < n; i++)
		for (k = 0; k < GUARD; k++) {
			uint8_t *seg = rig->vram + BASE * (1 + i);

			assert_int_equal(seg[-1 - (int)k], 0);
			assert_int_equal(seg[lengths[i] + k], 0);
		}
}

static void test_fill(void **state)
{
	fuzz(*state, check_fill, ROUNDS);
}

static void test_reduce(void **state)
{
	fuzz(*state, check_reduce, ROUNDS);
}

static void test_pool(void **state)
{
	fuzz(*state, check_pool, ROUNDS / 2);
}

static void test_sort(void **state)
{
	fuzz(*state, check_sort, ROUNDS / 2);
}

static void test_places(void **state)
{
	fuzz(*state, check_places, ROUNDS / 2);
}

static void test_pack(void **state)
{
	fuzz(*state, check_pack, ROUNDS / 2);
}

static void test_scaled(void **state)
{
	fuzz(*state, check_scaled, ROUNDS / 2);
}

static void test_scaled_f8(void **state)
{
	fuzz(*state, check_scaled_f8, ROUNDS / 2);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_fill),
		T(test_reduce),
		T(test_pool),
		T(test_sort),
		T(test_places),
		T(test_pack),
		T(test_scaled),
		T(test_scaled_f8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
