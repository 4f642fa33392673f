// SPDX-License-Identifier: MIT
/* Compares INDEX with the manual's definition: point by point in row-major order. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"

enum { DST, SRC, FIRST_INDEX };

struct problem {
	unsigned int ndim, nindex, mode, flags, dtype;
	unsigned int sources; /* bit k: index k belongs to the source */
	int64_t size[OPENREG_DIMS_MAX];
	int64_t extent[OPENREG_INDEX_OPERANDS_MAX];
	int64_t step[OPENREG_INDEX_OPERANDS_MAX];
	unsigned int index_dtype[OPENREG_INDEX_OPERANDS_MAX];
	struct layout at[FIRST_INDEX + OPENREG_INDEX_OPERANDS_MAX];
	unsigned char *memory[FIRST_INDEX + OPENREG_INDEX_OPERANDS_MAX];
	unsigned char *want;
};

static unsigned int indirect(const struct problem *p)
{
	return p->mode == OPENREG_INDEX_GET ? SRC : DST;
}

/* The operand that index k belongs to. */
static unsigned int owner(const struct problem *p, unsigned int k)
{
	return p->sources >> k & 1 ? SRC : indirect(p);
}

static int64_t combine_int(unsigned int mode, int64_t a, int64_t b)
{
	switch (mode) {
	case OPENREG_INDEX_ADD:
		return (int64_t)((uint64_t)a + (uint64_t)b);
	case OPENREG_INDEX_MUL:
		return (int64_t)((uint64_t)a * (uint64_t)b);
	case OPENREG_INDEX_MIN:
		return a < b ? a : b;
	default:
		return a > b ? a : b;
	}
}

static double combine_float(unsigned int mode, double a, double b)
{
	if (isnan(a) || isnan(b))
		return NAN;
	switch (mode) {
	case OPENREG_INDEX_ADD:
		return a + b;
	case OPENREG_INDEX_MUL:
		return a * b;
	case OPENREG_INDEX_MIN:
		return a < b ? a : b;
	default:
		return a > b ? a : b;
	}
}

static void combine(const struct problem *p, unsigned char *d,
		    const unsigned char *s)
{
	int64_t i;
	double f;

	if (p->mode <= OPENREG_INDEX_PUT) {
		memcpy(d, s, openreg_dtype_size(p->dtype));
	} else if (p->dtype >= OPENREG_I8) {
		i = combine_int(p->mode, element_get_int(p->dtype, d, 0),
				element_get_int(p->dtype, s, 0));
		openreg_convert(d, p->dtype, 1, &i, OPENREG_I64, 1, 1);
	} else {
		f = combine_float(p->mode, element_get(p->dtype, d, 0),
				  element_get(p->dtype, s, 0));
		openreg_convert(d, p->dtype, 1, &f, OPENREG_F64, 1, 1);
	}
}

static void reference(const struct problem *p)
{
	int64_t at[OPENREG_DIMS_MAX] = { 0 }, place[2], index;
	unsigned int esize = openreg_dtype_size(p->dtype), k, i;

	do {
		for (i = DST; i <= SRC; i++)
			place[i] = layout_at(&p->at[i], p->ndim, at);
		for (k = 0; k < p->nindex; k++) {
			i = FIRST_INDEX + k;
			index = element_get_int(p->index_dtype[k], p->memory[i],
						layout_at(&p->at[i], p->ndim,
							  at));
			if (index < 0)
				index += p->extent[k];
			place[owner(p, k)] += index * p->step[k];
		}
		combine(p, p->want + place[DST] * esize,
			p->memory[SRC] + place[SRC] * esize);
	} while (next_point(p->ndim, p->size, at));
}

/* Makes the packet, with the address of element 0 of each operand. */
static void make_args(const struct problem *p, struct openreg_args *args)
{
	unsigned int i, dtype;

	args_begin(args, OPENREG_OP_INDEX, p->ndim, p->size);
	args->arg[0] = (uint8_t)p->mode;
	args->arg[1] = (uint8_t)p->flags;
	args->arg[2] = (uint8_t)p->sources;
	for (i = 0; i < FIRST_INDEX + p->nindex; i++) {
		dtype = i < FIRST_INDEX ? p->dtype :
					  p->index_dtype[i - FIRST_INDEX];
		args_operand(args, dtype,
			     p->memory[i] + p->at[i].origin *
						    openreg_dtype_size(dtype),
			     p->at[i].stride);
	}
	for (i = 0; i < p->nindex; i++) {
		args_imm_i(args, p->extent[i]);
		args_imm_i(args, p->step[i]);
	}
}

static void lay_over(struct layout *l, unsigned int ndim, const int64_t *size)
{
	unsigned int d;

	memset(l, 0, sizeof(*l));
	l->extent = 1;
	for (d = 0; d < ndim; d++) {
		l->stride[d] = random_range(-2, 2);
		l->extent += (size[d] - 1) * llabs(l->stride[d]);
		if (l->stride[d] < 0)
			l->origin -= (size[d] - 1) * l->stride[d];
	}
}

/*
 * An indirect operand is a tensor of the dimensions that it shares with the space and of
 * its extents, in any order. overlap: its rows overlap.
 */
static void lay_indirect(struct problem *p, unsigned int operand, bool overlap)
{
	struct layout *l = &p->at[operand], whole;
	int64_t size[OPENREG_DIMS_MAX];
	unsigned int d, k, n = 0, from[OPENREG_DIMS_MAX];

	memset(l, 0, sizeof(*l));
	for (d = 0; d < p->ndim; d++) {
		if (random_range(0, 1))
			continue;
		from[n] = d;
		size[n++] = p->size[d];
	}
	for (k = 0; k < p->nindex; k++)
		size[n + k] = owner(p, k) == operand ? p->extent[k] : 1;
	random_layout(&whole, n + k, size, false);
	if (overlap)
		lay_over(&whole, n + k, size);
	for (d = 0; d < n; d++)
		l->stride[from[d]] = whole.stride[d];
	for (k = 0; k < p->nindex; k++) {
		if (owner(p, k) == operand)
			p->step[k] = whole.stride[n + k];
	}
	l->origin = whole.origin;
	l->extent = whole.extent;
}

static void fill_indices(struct problem *p, unsigned int k)
{
	bool wrap = p->flags & OPENREG_INDEX_WRAP;
	int64_t i, index;

	for (i = 0; i < p->at[FIRST_INDEX + k].extent; i++) {
		index = random_range(wrap ? -p->extent[k] : 0,
				     p->extent[k] - 1);
		if (p->index_dtype[k] == OPENREG_I64)
			((int64_t *)p->memory[FIRST_INDEX + k])[i] = index;
		else
			((int32_t *)p->memory[FIRST_INDEX + k])[i] =
				(int32_t)index;
	}
}

static void fill_data(struct problem *p, unsigned int i)
{
	unsigned int esize = openreg_dtype_size(p->dtype);
	int64_t n = p->at[i].extent, at;
	const float nan = NAN;

	fill_small(p->dtype, p->memory[i], n, -1, 2);
	for (at = 0; at < n && p->dtype <= OPENREG_BF16; at += 50)
		openreg_convert(p->memory[i] + at * esize, p->dtype, 1, &nan,
				OPENREG_F32, 1, 1);
	for (at = 0; at < n && p->dtype == OPENREG_BOOL; at++)
		p->memory[i][at] = (unsigned char)random_range(0, 2);
}

static void allocate(struct problem *p, bool overlap)
{
	unsigned int i, k, owners = 0;

	for (k = 0; k < p->nindex; k++)
		owners |= 1u << owner(p, k);
	for (i = DST; i <= SRC; i++) {
		if (owners >> i & 1)
			lay_indirect(p, i, overlap);
		else
			random_layout(&p->at[i], p->ndim, p->size, i == SRC);
	}
	for (i = FIRST_INDEX; i < FIRST_INDEX + p->nindex; i++)
		random_layout(&p->at[i], p->ndim, p->size, true);
	for (i = 0; i < FIRST_INDEX + p->nindex; i++) {
		p->memory[i] = calloc((size_t)p->at[i].extent + 1, 8);
		assert_non_null(p->memory[i]);
		if (i < FIRST_INDEX)
			fill_data(p, i);
		else
			fill_indices(p, i - FIRST_INDEX);
	}
	p->want = malloc(((size_t)p->at[DST].extent + 1) * 8);
	memcpy(p->want, p->memory[DST], ((size_t)p->at[DST].extent + 1) * 8);
}

static void release(struct problem *p)
{
	unsigned int i;

	for (i = 0; i < FIRST_INDEX + p->nindex; i++)
		free(p->memory[i]);
	free(p->want);
}

/* Compares all bits, except those of NaNs. */
static void compare(const struct problem *p, unsigned int seed)
{
	unsigned int esize = openreg_dtype_size(p->dtype);
	const unsigned char *have = p->memory[DST], *want = p->want;
	int64_t i;

	for (i = 0; i < p->at[DST].extent; i++, have += esize, want += esize) {
		if (!memcmp(have, want, esize) ||
		    (p->dtype <= OPENREG_BF16 &&
		     isnan(element_get(p->dtype, have, 0)) &&
		     isnan(element_get(p->dtype, want, 0))))
			continue;
		fail_msg("seed %u mode %u dtype %u: element %lld is %g, not %g",
			 seed, p->mode, p->dtype, (long long)i,
			 element_get(p->dtype, have, 0),
			 element_get(p->dtype, want, 0));
	}
}

static void random_problem(struct problem *p, int64_t most)
{
	int64_t points = 1, reach = 1;
	unsigned int d;

	memset(p, 0, sizeof(*p));
	p->ndim = (unsigned int)random_range(0, 4);
	p->nindex = (unsigned int)random_range(1, 3);
	p->mode = (unsigned int)random_range(0, OPENREG_INDEX_END - 1);
	p->flags = (unsigned int)random_range(0, OPENREG_INDEX_WRAP);
	if (p->mode != OPENREG_INDEX_GET && random_range(0, 1))
		p->sources = (unsigned int)random_range(0, (1 << p->nindex) - 1);
	p->dtype = (unsigned int)random_range(OPENREG_F32, OPENREG_BOOL);
	for (d = 0; d < p->ndim; d++) {
		p->size[d] = random_range(1, random_range(0, 3) ? 12 : most);
		if (points * p->size[d] > most)
			p->size[d] = 1;
		points *= p->size[d];
	}
	for (d = 0; d < p->nindex; d++) {
		p->extent[d] = random_range(1, random_range(0, 2) ? 9 : 300);
		if (reach * p->extent[d] * points > 2000000)
			p->extent[d] = 1;
		reach *= p->extent[d];
		p->index_dtype[d] = random_range(0, 1) ? OPENREG_I64 :
							 OPENREG_I32;
	}
}

static void solve(unsigned int seed, int64_t most)
{
	struct openreg_args args;
	struct problem p;

	random_seed(seed);
	random_problem(&p, most);
	allocate(&p, random_range(0, 3) == 0);
	reference(&p);
	make_args(&p, &args);
	args_run_order(&args, random_range(0, 1));
	compare(&p, seed);
	release(&p);
}

static void test_random(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 1200 / SCALE; i++)
		solve(i, i % 5 ? 300 : 5000);
}

/* More than one slice, more than one phase. */
static void test_large(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 40; i++)
		solve(100000 + i, 400000);
}

/* Rows into a table: in one tile, in parts of the rows, in several phases. */
static void rows(unsigned int mode, unsigned int dtype, int64_t n,
		 int64_t width, int64_t table)
{
	struct problem p = { .ndim = 2, .nindex = 1, .mode = mode,
			     .dtype = dtype, .size = { n, width },
			     .extent = { table }, .step = { width },
			     .index_dtype = { OPENREG_I64 } };
	unsigned int other = indirect(&p) == DST ? SRC : DST, i;
	struct openreg_args args;

	p.at[other] = (struct layout){ { width, 1 }, 0, n * width };
	p.at[indirect(&p)] = (struct layout){ { 0, 1 }, 0, table * width };
	p.at[FIRST_INDEX] = (struct layout){ { 1, 0 }, 0, n };
	for (i = 0; i < 3; i++)
		p.memory[i] = calloc((size_t)p.at[i].extent + 1, 8);
	fill_data(&p, DST);
	fill_data(&p, SRC);
	fill_indices(&p, 0);
	p.want = malloc(((size_t)p.at[DST].extent + 1) * 8);
	memcpy(p.want, p.memory[DST], ((size_t)p.at[DST].extent + 1) * 8);
	reference(&p);
	make_args(&p, &args);
	args_run_order(&args, n & 1);
	compare(&p, (unsigned int)n);
	release(&p);
}

static void test_rows(void **state)
{
	static const int64_t widths[] = { 1, 3, 64, 700, 100000 };
	unsigned int mode, dtype, w;

	(void)state;
	for (mode = 0; mode < OPENREG_INDEX_END; mode++) {
		for (dtype = OPENREG_F32 + (SCALE > 1 ? mode % 3 : 0);
		     dtype <= (mode <= OPENREG_INDEX_PUT ? OPENREG_F8E8M0FNU :
							   OPENREG_BOOL);
		     dtype += SCALE > 1 ? 3 : 1) {
			/* Covers every pair of mode, dtype and width. */
			for (w = (mode + dtype) % 3; w < 5; w += 3)
				rows(mode, dtype, 1 + 200000 / widths[w] + w,
				     widths[w], 7);
		}
	}
}

static float table[100], picked[6];

static void small_get(struct openreg_args *args, int64_t *index, int64_t n,
		      int64_t extent)
{
	args_begin(args, OPENREG_OP_INDEX, 1, &n);
	args_operand(args, OPENREG_F32, picked, NULL);
	args_operand(args, OPENREG_F32, table, NULL);
	args->op[1].stride[0] = 0;
	args_operand(args, OPENREG_I64, index, NULL);
	args_imm_i(args, extent);
	args_imm_i(args, 1);
}

static void test_outside(void **state)
{
	static const int64_t bad[] = { 10, 11, -1, -11, INT64_MAX, INT64_MIN,
				       INT64_MIN + 9, 1LL << 32 };
	unsigned int mode, flags, i, place;
	struct openreg_verdict v;
	struct openreg_args args;

	(void)state;
	for (mode = 0; mode < OPENREG_INDEX_END; mode++)
		for (flags = 0; flags < 2; flags++)
			for (i = 0; i < 8; i++)
				for (place = 0; place < 6; place++) {
					int64_t index[6] = { 1, 2, 3, 4, 5, 9 };

					if (flags && bad[i] == -1)
						continue;
					index[place] = bad[i];
					small_get(&args, index, 6, 10);
					args.arg[0] = (uint8_t)mode;
					args.arg[1] = (uint8_t)flags;
					args.arg[2] = mode && place % 2;
					v = args_try(&args, false);
					assert_int_equal(v.code,
							 OPENREG_FAULT_INDEX);
					assert_int_equal(v.operand, 2);
					assert_int_equal(v.detail, bad[i]);
					assert_int_equal(v.address, 10);
				}
}

/* An index out of range in the last of many slices, or of many phases. */
static void test_outside_at_end(void **state)
{
	int64_t n = 3000000, *index = calloc((size_t)n, sizeof(*index));
	float *data = calloc((size_t)n, sizeof(*data)), table[3] = { 0 };
	struct openreg_verdict v;
	struct openreg_args args;
	unsigned int mode;

	(void)state;
	for (mode = 0; mode < OPENREG_INDEX_END; mode++) {
		args_begin(&args, OPENREG_OP_INDEX, 1, &n);
		args.arg[0] = (uint8_t)mode;
		args_operand(&args, OPENREG_F32, mode ? table : data, NULL);
		args_operand(&args, OPENREG_F32, mode ? data : table, NULL);
		args.op[mode ? 0 : 1].stride[0] = 0;
		args_operand(&args, OPENREG_I64, index, NULL);
		args_imm_i(&args, 3);
		args_imm_i(&args, 1);
		index[n - 1] = 0;
		assert_int_equal(args_try(&args, false).code, 0);
		index[n - 1] = 3;
		v = args_try(&args, mode & 1);
		assert_int_equal(v.code, OPENREG_FAULT_INDEX);
		assert_int_equal(v.detail, 3);
	}
	free(data);
	free(index);
}

/* With extent 0 every index faults, and the source need not exist. */
static void test_no_extent(void **state)
{
	int64_t index[6] = { 0 };
	struct openreg_verdict v;
	struct openreg_args args;

	(void)state;
	small_get(&args, index, 6, 0);
	args.op[1].ptr = NULL;
	args.imm[1] = (uint64_t)INT64_MIN;
	v = args_try(&args, false);
	assert_int_equal(v.code, OPENREG_FAULT_INDEX);
	assert_int_equal(v.address, 0);
	args.arg[1] = OPENREG_INDEX_WRAP;
	assert_int_equal(args_try(&args, false).code, OPENREG_FAULT_INDEX);
	small_get(&args, index, 0, 0);
	assert_int_equal(args_try(&args, false).code, 0);
	/* With extent 1 the card does not use the step. */
	small_get(&args, index, 6, 1);
	args.imm[1] = (uint64_t)INT64_MIN;
	assert_int_equal(args_try(&args, false).code, 0);
}

static void test_check(void **state)
{
	int64_t index[6] = { 0 };
	struct openreg_args args, good;

	(void)state;
	small_get(&good, index, 6, 10);
	EXPECT((void)0, NONE);
	assert_true(args.op[0].written && !args.op[0].read);
	assert_true(args.op[1].read && args.op[1].indirect);
	assert_true(args.op[2].read && !args.op[2].indirect);
	EXPECT(args.arg[0] = OPENREG_INDEX_PUT, NONE);
	assert_true(args.op[0].written && args.op[0].indirect &&
		    !args.op[0].read && !args.op[1].indirect);
	EXPECT(args.arg[0] = OPENREG_INDEX_ADD, NONE);
	assert_true(args.op[0].read);
	EXPECT((args.arg[0] = OPENREG_INDEX_MAX, args.op[0].stride[0] = 0),
	       NONE);
	EXPECT(args.op[0].stride[0] = 0, SHAPE);
	EXPECT(args.arg[0] = OPENREG_INDEX_END, PACKET);
	EXPECT(args.arg[1] = 2, PACKET);
	EXPECT(args.arg[2] = 1, PACKET);
	EXPECT((args.arg[0] = OPENREG_INDEX_PUT, args.arg[2] = 2), PACKET);
	EXPECT((args.arg[0] = OPENREG_INDEX_PUT, args.arg[2] = 1), NONE);
	assert_true(!args.op[0].indirect && args.op[1].indirect == 1);
	EXPECT(args.arg[3] = 1, PACKET);
	EXPECT(args.nops = 2, PACKET);
	EXPECT(args.nops = 11, PACKET);
	EXPECT(args.nimm = 1, PACKET);
	EXPECT(args.nimm = 4, PACKET);
	EXPECT(args.ninstr = 1, PACKET);
	EXPECT(args.op[0].dtype = 0, DTYPE);
	EXPECT(args.op[0].dtype = OPENREG_DTYPE_END, DTYPE);
	EXPECT((args.arg[0] = OPENREG_INDEX_ADD,
		args.op[0].dtype = args.op[1].dtype = OPENREG_F8E4M3FN),
	       DTYPE);
	EXPECT(args.op[1].dtype = OPENREG_F64, DTYPE);
	EXPECT(args.op[2].dtype = OPENREG_F32, DTYPE);
	EXPECT(args.op[2].dtype = OPENREG_I16, DTYPE);
	EXPECT(args.op[2].dtype = 255, DTYPE);
	EXPECT(args.imm[0] = (uint64_t)-1, SHAPE);
	EXPECT(args.imm[0] = (uint64_t)INT64_MIN, SHAPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_outside),
		cmocka_unit_test(test_outside_at_end),
		cmocka_unit_test(test_no_extent),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
