// SPDX-License-Identifier: MIT
/* Compares reductions with plain loops: any mask, layout, dtype and order. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"

#define NONE OPENREG_VNONE

struct problem {
	unsigned int ndim, mask, op, type, dtype, value_dtype;
	int64_t size[OPENREG_DIMS_MAX];
	struct layout in, value, index;
	unsigned char *memory, *result;
	int64_t *position;
	bool with_value, with_index, reverse;
};

static bool is_float(const struct problem *p)
{
	return p->type <= OPENREG_VT_F64;
}

static bool extreme(const struct problem *p)
{
	return p->op == OPENREG_V_RED_MAX || p->op == OPENREG_V_RED_MIN;
}

/* A layout of the kept dimensions; strides along the others are 0. */
static void kept_layout(const struct problem *p, struct layout *l)
{
	int64_t size[OPENREG_DIMS_MAX];
	unsigned int d;

	for (d = 0; d < p->ndim; d++)
		size[d] = p->mask >> d & 1 ? 1 : p->size[d];
	random_layout(l, p->ndim, size, false);
	for (d = 0; d < p->ndim; d++) {
		if (p->mask >> d & 1)
			l->stride[d] = 0;
	}
}

static void allocate(struct problem *p)
{
	random_layout(&p->in, p->ndim, p->size, true);
	kept_layout(p, &p->value);
	kept_layout(p, &p->index);
	p->memory = calloc((size_t)p->in.extent, 8);
	p->result = calloc((size_t)p->value.extent, 8);
	p->position = calloc((size_t)p->index.extent, 8);
}

static void release(struct problem *p)
{
	free(p->memory);
	free(p->result);
	free(p->position);
}

static void run(const struct problem *p)
{
	struct openreg_args args;
	unsigned int v = NONE, i = NONE;

	args_begin(&args, OPENREG_OP_VECTOR, p->ndim, p->size);
	args.arg[0] = (uint8_t)p->mask;
	args_operand(&args, p->dtype,
		     p->memory + p->in.origin * openreg_dtype_size(p->dtype),
		     p->in.stride);
	if (p->with_value)
		v = args_operand(&args, p->value_dtype,
				 p->result +
					 p->value.origin *
						 openreg_dtype_size(
							 p->value_dtype),
				 p->value.stride);
	if (p->with_index)
		i = args_operand(&args, OPENREG_I64,
				 p->position + p->index.origin,
				 p->index.stride);
	args_instr(&args, OPENREG_V_LOAD, p->type, 3, 0, 0, 0, 0);
	args_instr(&args, p->op, p->type, 0, 3, i, NONE, v);
	args_run_order(&args, p->reverse);
}

/* The fold of one output by its definition. */
struct folded {
	double f;
	int64_t i, position;
};

static void fold_one(const struct problem *p, struct folded *r, double f,
		     int64_t i, int64_t position)
{
	bool max = p->op == OPENREG_V_RED_MAX, wins;

	switch (p->op) {
	case OPENREG_V_RED_SUM:
		r->f += f;
		r->i = (int64_t)((uint64_t)r->i + (uint64_t)i);
		return;
	case OPENREG_V_RED_PROD:
		r->f *= f;
		r->i = (int64_t)((uint64_t)r->i * (uint64_t)i);
		return;
	case OPENREG_V_RED_AND:
		r->i = r->i && i;
		return;
	case OPENREG_V_RED_OR:
		r->i = r->i || i;
		return;
	default:
		break;
	}
	if (r->position < 0)
		wins = true;
	else if (!is_float(p))
		wins = max ? i > r->i : i < r->i;
	else if (isnan(f) || isnan(r->f))
		wins = isnan(f) && !isnan(r->f);
	else
		wins = max ? f > r->f : f < r->f;
	if (wins) {
		r->f = f;
		r->i = i;
		r->position = position;
	}
}

static struct folded fold(const struct problem *p, const int64_t *point)
{
	int64_t at[OPENREG_DIMS_MAX], size[OPENREG_DIMS_MAX], inner[8] = { 0 };
	bool one = p->op == OPENREG_V_RED_PROD || p->op == OPENREG_V_RED_AND;
	struct folded r = { .f = one, .i = one, .position = -1 };
	int64_t position = 0;
	unsigned int d;

	for (d = 0; d < p->ndim; d++)
		size[d] = p->mask >> d & 1 ? p->size[d] : 1;
	for (d = 0; d < p->ndim; d++) {
		if (size[d] == 0)
			return r;
	}
	do {
		int64_t offset;

		for (d = 0; d < p->ndim; d++)
			at[d] = point[d] + inner[d];
		offset = layout_at(&p->in, p->ndim, at);
		fold_one(p, &r,
			 is_float(p) ? element_get(p->dtype, p->memory, offset)
				     : 0,
			 is_float(p) ? 0
				     : element_get_int(p->dtype, p->memory,
						       offset),
			 position++);
	} while (next_point(p->ndim, size, inner));
	return r;
}

static bool value_is(const struct problem *p, int64_t at,
		     const struct folded *want)
{
	uint64_t element = 0;
	double have, expected;

	if (!is_float(p)) {
		/* A store and a load by the harness wrap the integer as the dtype does. */
		memcpy(&element, &want->i, 8);
		if (p->value_dtype == OPENREG_BOOL)
			element = want->i != 0;
		return element_get_int(p->value_dtype, p->result, at) ==
		       element_get_int(p->value_dtype, &element, 0);
	}
	have = element_get(p->value_dtype, p->result, at);
	openreg_convert(&element, p->value_dtype, 1, &want->f, OPENREG_F64, 1,
			1);
	expected = element_get(p->value_dtype, &element, 0);
	return have == expected || (isnan(have) && isnan(expected));
}

static void compare(const struct problem *p)
{
	int64_t kept[OPENREG_DIMS_MAX], at[OPENREG_DIMS_MAX] = { 0 };
	unsigned int d;

	for (d = 0; d < p->ndim; d++) {
		kept[d] = p->mask >> d & 1 ? 1 : p->size[d];
		if (kept[d] == 0)
			return;
	}
	do {
		struct folded want = fold(p, at);

		if (p->with_value &&
		    !value_is(p, layout_at(&p->value, p->ndim, at), &want))
			fail_msg("op %u type %u dtype %u mask %u: value",
				 p->op, p->type, p->dtype, p->mask);
		if (p->with_index &&
		    p->position[layout_at(&p->index, p->ndim, at)] !=
			    want.position)
			fail_msg("op %u type %u dtype %u mask %u: index %ld is "
				 "not %ld",
				 p->op, p->type, p->dtype, p->mask,
				 (long)p->position[layout_at(&p->index, p->ndim,
							     at)],
				 (long)want.position);
	} while (next_point(p->ndim, kept, at));
}

static void choose_types(struct problem *p)
{
	static const unsigned int floats[] = { OPENREG_F32, OPENREG_F64,
					       OPENREG_F16, OPENREG_BF16 };

	p->op = (unsigned int)random_range(OPENREG_V_RED_SUM,
					   OPENREG_V_RED_OR);
	p->type = (unsigned int)random_range(0, 3);
	if (p->op >= OPENREG_V_RED_AND)
		p->type |= 2;
	if (is_float(p)) {
		p->dtype = floats[random_range(0, 3)];
		p->value_dtype = p->type == OPENREG_VT_F64 ? OPENREG_F64
							   : OPENREG_F32;
	} else {
		p->dtype = (unsigned int)random_range(
			OPENREG_I8, p->type == OPENREG_VT_I32 ? OPENREG_I32
							      : OPENREG_I64);
		if (random_range(0, 5) == 0)
			p->dtype = OPENREG_BOOL;
		p->value_dtype = p->type == OPENREG_VT_I32 ? OPENREG_I32
							   : OPENREG_I64;
		if (p->op >= OPENREG_V_RED_AND)
			p->value_dtype = OPENREG_BOOL;
	}
	p->with_index = extreme(p) && random_range(0, 1);
	p->with_value = !p->with_index || random_range(0, 1);
	p->reverse = random_range(0, 1);
}

static void fill(struct problem *p)
{
	unsigned int size = openreg_dtype_size(p->dtype);
	bool product = p->op == OPENREG_V_RED_PROD;
	int64_t i;

	fill_small(p->dtype, p->memory, p->in.extent, product ? 1 : 0,
		   product ? 1 : 20);
	for (i = 0; i < p->in.extent; i++) {
		float special = random_range(0, 1) ? NAN : -INFINITY;

		if (product && i % 37 == 0)
			fill_small(p->dtype, p->memory + i * size, 1, 2, 2);
		if (extreme(p) && is_float(p) && random_range(0, 300) == 0)
			openreg_convert(p->memory + i * size, p->dtype, 1,
					&special, OPENREG_F32, 1, 1);
	}
}

static void test_random(void **state)
{
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 6000 / SCALE; i++) {
		struct problem p = { 0 };
		int64_t points = 1;

		random_seed(i);
		choose_types(&p);
		p.ndim = (unsigned int)random_range(0, 5);
		p.mask = (unsigned int)random_range(0, (1 << p.ndim) - 1);
		for (d = 0; d < p.ndim; d++) {
			p.size[d] = random_range(1, i % 8 ? 7 : 1500);
			if (points * p.size[d] > 6000)
				p.size[d] = 1;
			if (random_range(0, 60) == 0 && !extreme(&p))
				p.size[d] = 0;
			points *= p.size[d] ? p.size[d] : 1;
		}
		/* Products stay exact. */
		if (p.op == OPENREG_V_RED_PROD && is_float(&p) && points > 600)
			p.op = OPENREG_V_RED_SUM;
		allocate(&p);
		fill(&p);
		run(&p);
		compare(&p);
		release(&p);
	}
}

/* Enough work for many slices and a second phase, in each direction. */
static void test_large(void **state)
{
	static const struct {
		int64_t size[3];
		unsigned int mask;
	} shapes[] = {
		{ { 1, 1, 4000000 }, 4 }, { { 1, 300000, 9 }, 2 },
		{ { 1, 9, 300000 }, 4 },  { { 2000, 2, 700 }, 5 },
		{ { 3, 900, 900 }, 7 },	  { { 30000, 1, 100 }, 1 },
		{ { 30000, 1, 100 }, 4 }, { { 1200, 3, 1100 }, 1 },
	};
	static const unsigned int ops[] = { OPENREG_V_RED_SUM,
					    OPENREG_V_RED_MAX,
					    OPENREG_V_RED_MIN };
	unsigned int s, o;

	(void)state;
	for (s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
		for (o = SCALE > 1 ? s % 3 : 0; o < 3;
		     o += SCALE > 1 ? 3 : 1) {
			struct problem p = {
				.ndim = 3,
				.mask = shapes[s].mask,
				.op = ops[o],
				.type = o == 2 ? OPENREG_VT_I64 : OPENREG_VT_F32,
				.dtype = o == 2 ? OPENREG_I16 : OPENREG_F32,
				.value_dtype = o == 2 ? OPENREG_I64
						      : OPENREG_F32,
				.with_value = true,
				.with_index = o > 0,
				.reverse = s & 1,
			};

			random_seed(s);
			memcpy(p.size, shapes[s].size, sizeof(shapes[s].size));
			allocate(&p);
			fill_small(p.dtype, p.memory, p.in.extent, -100, 100);
			run(&p);
			compare(&p);
			release(&p);
		}
	}
}

/* The card scales a mean before it rounds; sums lose no small numbers. */
static void test_mean(void **state)
{
	enum { N = 1 << 20 };
	float *x = malloc(N * 4), mean = 0;
	int64_t n = N, zero = 0, i;
	struct openreg_args args;
	double sum = 0;

	(void)state;
	random_seed(1);
	for (i = 0; i < N; i++) {
		x[i] = (float)(random_unit() + 1e4);
		sum += x[i];
	}
	args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
	args.arg[0] = 1;
	args_operand(&args, OPENREG_F32, x, NULL);
	args_operand(&args, OPENREG_F32, &mean, &zero);
	args_imm_f(&args, 1.0 / N);
	args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 0, NONE, 0, 1);
	args_run(&args);
	assert_true(mean == (float)(sum / N));
	free(x);
}

/* A program before it, and a STORE beside it. */
static void test_program(void **state)
{
	enum { ROWS = 300, COLUMNS = 200 };
	static float x[ROWS][COLUMNS], y[ROWS][COLUMNS];
	int64_t size[2] = { ROWS, COLUMNS }, by_row[2] = { 1, 0 };
	float norm[ROWS];
	struct openreg_args args;
	int r, c;

	(void)state;
	fill_small(OPENREG_F32, x, ROWS * COLUMNS, -9, 9);
	args_begin(&args, OPENREG_OP_VECTOR, 2, size);
	args.arg[0] = 2;
	args_operand(&args, OPENREG_F32, x, NULL);
	args_operand(&args, OPENREG_F32, y, NULL);
	args_operand(&args, OPENREG_F32, norm, by_row);
	args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_MUL, OPENREG_VT_F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, OPENREG_VT_F32, 0, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 0, NONE, NONE,
		   2);
	args_run(&args);
	for (r = 0; r < ROWS; r++) {
		float sum = 0;

		for (c = 0; c < COLUMNS; c++) {
			assert_true(y[r][c] == x[r][c] * x[r][c]);
			sum += x[r][c] * x[r][c];
		}
		assert_true(norm[r] == sum);
	}
}

/* A long program by the card's estimate, so that tiles and slices are small. */
static void slow_load(struct openreg_args *args, unsigned int operand)
{
	unsigned int i;

	args_instr(args, OPENREG_V_IMM, OPENREG_VT_I64, 1, 0, 0, 0,
		   args_imm_i(args, 0));
	args_instr(args, OPENREG_V_LOAD, OPENREG_VT_I64, 0, 0, 0, 0, operand);
	for (i = 0; i < 55; i++)
		args_instr(args, OPENREG_V_POW, OPENREG_VT_I64, 2, 0, 1, 0, 0);
}

/*
 * Units with chunks of several pieces, or so many units that they run in groups. max:
 * values and positions of the maximum, else sums.
 */
static void expect_columns(int64_t rows, int64_t columns, bool max)
{
	const int64_t size[2] = { rows, columns }, kept[2] = { 0, 1 };
	int64_t *x = calloc((size_t)(rows * columns), 8), i, j;
	int64_t *value = calloc((size_t)columns, 8);
	int64_t *place = calloc((size_t)columns, 8);
	struct openreg_args args;

	for (i = 0; i < rows * columns; i++)
		x[i] = random_range(-1000000, 1000000);
	args_begin(&args, OPENREG_OP_VECTOR, 2, size);
	args_operand(&args, OPENREG_I64, x, NULL);
	args_operand(&args, OPENREG_I64, value, kept);
	args_operand(&args, OPENREG_I64, place, kept);
	args.arg[0] = 1;
	slow_load(&args, 0);
	args_instr(&args, max ? OPENREG_V_RED_MAX : OPENREG_V_RED_SUM,
		   OPENREG_VT_I64, 0, 0, max ? 2 : NONE, NONE, 1);
	args_run_order(&args, max);
	for (j = 0; j < columns; j++) {
		int64_t sum = 0, best = 0;

		for (i = 0; i < rows; i++) {
			sum += x[i * columns + j];
			if (x[i * columns + j] > x[best * columns + j])
				best = i;
		}
		assert_int_equal(value[j], max ? x[best * columns + j] : sum);
		assert_int_equal(place[j], max ? best : 0);
	}
	free(x);
	free(value);
	free(place);
}

static void test_pieces(void **state)
{
	(void)state;
	expect_columns(20000, 64, false);
	expect_columns(20000, 64, true);
	expect_columns(2500, 1100, false);
	expect_columns(2500, 1100, true);
	expect_columns(2000000, 1, true);
}

/* No element is greater than the neutral element: the index is that of the first. */
static void test_all_neutral(void **state)
{
	enum { ROWS = 200000, COLUMNS = 8 };
	static float x[ROWS][COLUMNS];
	int64_t size[2] = { ROWS, COLUMNS }, index[COLUMNS], i;
	struct openreg_args args;

	(void)state;
	for (i = 0; i < ROWS * COLUMNS; i++)
		x[i / COLUMNS][i % COLUMNS] = -INFINITY;
	x[ROWS - 1][3] = NAN;
	x[ROWS - 2][4] = x[ROWS - 1][4] = 5;
	args_begin(&args, OPENREG_OP_VECTOR, 2, size);
	args.arg[0] = 1;
	args_operand(&args, OPENREG_F32, x, NULL);
	args_operand(&args, OPENREG_I64, index, (int64_t[]){ 0, 1 });
	args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_MAX, OPENREG_VT_F32, 0, 0, 1, NONE,
		   NONE);
	args_run(&args);
	for (i = 0; i < COLUMNS; i++)
		assert_int_equal(index[i], i == 3   ? ROWS - 1
					   : i == 4 ? ROWS - 2
						    : 0);
}

/* Folds a register that was loaded before a STORE overwrote the memory. */
static void test_fold_after_store(void **state)
{
	int64_t n = 3000, zero = 0, i;
	float x[3000], sum = 0;
	struct openreg_args args;

	(void)state;
	for (i = 0; i < n; i++)
		x[i] = 1;
	args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
	args.arg[0] = 1;
	args_operand(&args, OPENREG_F32, x, NULL);
	args_operand(&args, OPENREG_F32, &sum, &zero);
	args_imm_f(&args, 0);
	args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_IMM, OPENREG_VT_F32, 1, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, OPENREG_VT_F32, 0, 1, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 0, NONE, NONE,
		   1);
	args_run(&args);
	assert_true(sum == 3000);
	assert_true(x[0] == 0 && x[2999] == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_mean),
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_all_neutral),
		cmocka_unit_test(test_fold_after_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
