// SPDX-License-Identifier: MIT
/* Compares SCAN with its definition: any layout, axis and dtype. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"

struct problem {
	unsigned int ndim, axis, mode;
	int64_t size[OPENREG_DIMS_MAX];
	unsigned int dtype[3]; /* values, source, positions */
	struct layout at[3];
	unsigned char *memory[3];
	bool places;
};

static bool is_float(unsigned int dtype)
{
	return dtype >= OPENREG_F32 && dtype <= OPENREG_BF16;
}

static bool extreme(const struct problem *p)
{
	return p->mode == OPENREG_SCAN_MAX || p->mode == OPENREG_SCAN_MIN;
}

static int64_t offset(const struct problem *p, unsigned int op,
		      const int64_t *at)
{
	return layout_at(&p->at[op], p->ndim, at);
}

static void *pointer(const struct problem *p, unsigned int op,
		     const int64_t *at)
{
	return p->memory[op] +
	       offset(p, op, at) * openreg_dtype_size(p->dtype[op]);
}

/* The running result of a row: f for a float dtype, i for an integer. */
struct chain {
	double f;
	uint64_t i;
};

/* As in the manual: the elements before the piece, the piece alone, both. */
struct row {
	struct chain before, alone, both;
	int64_t place;
};

static double log_add(double a, double b)
{
	double top = a > b || isnan(a) ? a : b;

	if (isinf(top) || isnan(a) || isnan(b))
		return isnan(a) ? a : isnan(b) ? b : top;
	return (double)(top + log1pl(expl((a > b ? b : a) - (long double)top)));
}

static struct chain neutral(unsigned int mode)
{
	switch (mode) {
	case OPENREG_SCAN_SUM:
		return (struct chain){ 0, 0 };
	case OPENREG_SCAN_PROD:
		return (struct chain){ 1, 1 };
	default:
		return (struct chain){ -INFINITY, 0 };
	}
}

static struct chain fold(unsigned int mode, struct chain a, struct chain b)
{
	switch (mode) {
	case OPENREG_SCAN_SUM:
		return (struct chain){ a.f + b.f, a.i + b.i };
	case OPENREG_SCAN_PROD:
		return (struct chain){ a.f * b.f, a.i * b.i };
	default:
		return (struct chain){ log_add(a.f, b.f), 0 };
	}
}

static void step_extreme(const struct problem *p, struct row *row, double x,
			 int64_t i)
{
	bool max = p->mode == OPENREG_SCAN_MAX;
	double old = row->both.f;

	if (i == 0 || isnan(x) || (max ? x >= old : x <= old)) {
		row->both.f = x;
		row->place = i;
	}
}

static void step(const struct problem *p, struct row *row, const int64_t *at)
{
	int64_t from = offset(p, 1, at), i = at[p->axis];
	struct chain x;

	x.f = element_get(p->dtype[1], p->memory[1], from);
	x.i = is_float(p->dtype[1])
		      ? 0
		      : (uint64_t)element_get_int(p->dtype[1], p->memory[1],
						  from);
	if (extreme(p)) {
		step_extreme(p, row, x.f, i);
		return;
	}
	if (i == 0)
		row->both = row->before = row->alone = neutral(p->mode);
	if (i && i % OPENREG_SCAN_PIECE == 0) {
		row->before = fold(p->mode, row->before, row->alone);
		row->both = row->before;
		row->alone = neutral(p->mode);
	}
	row->alone = fold(p->mode, row->alone, x);
	row->both = fold(p->mode, row->both, x);
}

static double tolerance(unsigned int dtype)
{
	switch (dtype) {
	case OPENREG_F64:
		return 1e-12;
	case OPENREG_F32:
		return 2e-7;
	case OPENREG_F16:
		return 1e-3;
	default:
		return 8e-3;
	}
}

/* Expects the fold of the row up to here; all bits, except for logarithms. */
static void expect(const struct problem *p, const struct row *row,
		   const int64_t *at)
{
	unsigned int dtype = p->dtype[0];
	unsigned char want[8] = { 0 };
	double have = element_get(dtype, p->memory[0], offset(p, 0, at)), w;

	if (is_float(dtype) || extreme(p))
		openreg_convert(want, dtype, 1, &row->both.f, OPENREG_F64, 1,
				1);
	else
		openreg_convert(want, dtype, 1, &row->both.i, OPENREG_I64, 1,
				1);
	w = element_get(dtype, want, 0);
	if (p->places)
		assert_int_equal(*(int64_t *)pointer(p, 2, at), row->place);
	if (isnan(w) && isnan(have))
		return;
	if (p->mode == OPENREG_SCAN_LOGSUMEXP && isfinite(w) &&
	    fabs(have - w) <= tolerance(dtype) * (1 + fabs(w)))
		return;
	if (memcmp(want, pointer(p, 0, at), openreg_dtype_size(dtype)) != 0)
		fail_msg("mode %u, dtype %u, element %lld: %.17g is not %.17g",
			 p->mode, dtype, (long long)at[p->axis], have, w);
}

static void compare(const struct problem *p)
{
	int64_t at[OPENREG_DIMS_MAX] = { 0 }, i;

	do {
		struct row row = { 0 };

		if (at[p->axis])
			continue;
		for (i = 0; i < p->size[p->axis]; i++) {
			at[p->axis] = i;
			step(p, &row, at);
			expect(p, &row, at);
		}
		at[p->axis] = 0;
	} while (next_point(p->ndim, p->size, at));
}

/* Small whole numbers and some of the special ones; products stay near 1. */
static double value(const struct problem *p)
{
	int64_t what = random_range(0, 60);

	if (is_float(p->dtype[1]) && what == 0)
		return (const double[]){ INFINITY, -INFINITY, NAN, -0.0,
					 0 }[random_range(0, 4)];
	if (p->mode == OPENREG_SCAN_PROD && is_float(p->dtype[1]))
		return what & 1 ? 0.5 + random_unit() : 1;
	return (double)random_range(p->dtype[1] == OPENREG_U8 ? 0 : -4, 5);
}

static void fill(struct problem *p)
{
	unsigned int size = openreg_dtype_size(p->dtype[1]);
	int64_t i;

	for (i = 0; i < p->at[1].extent; i++) {
		double x = value(p);

		openreg_convert(p->memory[1] + i * size, p->dtype[1], 1, &x,
				OPENREG_F64, 1, 1);
	}
}

static void run(struct problem *p, bool reverse)
{
	unsigned int op;
	struct openreg_args args;

	args_begin(&args, OPENREG_OP_SCAN, p->ndim, p->size);
	args.arg[0] = (uint8_t)p->axis;
	args.arg[1] = (uint8_t)p->mode;
	for (op = 0; op < (p->places ? 3 : 2); op++)
		args_operand(&args, p->dtype[op],
			     p->memory[op] +
				     p->at[op].origin *
					     openreg_dtype_size(p->dtype[op]),
			     p->at[op].stride);
	args_run_order(&args, reverse);
}

static void check(struct problem *p, bool dense, bool reverse)
{
	unsigned int op;

	for (op = 0; op < 3; op++) {
		random_layout(&p->at[op], p->ndim, p->size, op == 1 && !dense);
		if (dense) {
			dense_strides(p->ndim, p->size, p->at[op].stride);
			p->at[op].origin = 0;
		}
		/* The extent of a random layout is enough for a dense one. */
		p->memory[op] = calloc((size_t)p->at[op].extent + 1, 8);
	}
	fill(p);
	run(p, reverse);
	compare(p);
	for (op = 0; op < 3; op++)
		free(p->memory[op]);
}

static void choose(struct problem *p)
{
	unsigned int last = OPENREG_BOOL;

	p->mode = (unsigned int)random_range(0, OPENREG_SCAN_END - 1);
	if (p->mode == OPENREG_SCAN_LOGSUMEXP)
		last = OPENREG_BF16;
	p->dtype[0] = (unsigned int)random_range(OPENREG_F32, last);
	p->dtype[1] = p->dtype[0];
	/* Integers and bools add up as wider integers. */
	if (p->dtype[0] == OPENREG_I64 && random_range(0, 1))
		p->dtype[1] = (unsigned int)random_range(OPENREG_I8,
							 OPENREG_BOOL);
	p->dtype[2] = OPENREG_I64;
	p->places = extreme(p) && random_range(0, 2);
}

static void test_random(void **state)
{
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 3000 / SCALE; i++) {
		struct problem p = { 0 };
		int64_t points = 1;

		random_seed(i);
		p.ndim = (unsigned int)random_range(1, 5);
		p.axis = (unsigned int)random_range(0, p.ndim - 1);
		choose(&p);
		for (d = 0; d < p.ndim; d++) {
			p.size[d] = random_range(1, i % 10 ? 8 : 300);
			if (points * p.size[d] > 5000)
				p.size[d] = 1;
			points *= p.size[d];
		}
		check(&p, random_range(0, 2) == 0, random_range(0, 1));
	}
}

/* Rows of several pieces or several blocks, in either kind of unit. */
static void test_long_rows(void **state)
{
	static const int64_t shapes[][3] = {
		{ 3, OPENREG_SCAN_PIECE + 1, 1 },
		{ 1, 9 * OPENREG_SCAN_PIECE, 1 },
		{ 2 * OPENREG_SCAN_PIECE + 5, 9, 0 },
		{ 11, 3 * OPENREG_SCAN_PIECE - 1, 1 },
		{ 40, 5000, 1 },
		{ 5000, 40, 0 },
	};
	unsigned int s, i;

	(void)state;
	for (s = 0; s < 6; s++) {
		for (i = 0; i < 40 / SCALE; i++) {
			struct problem p = { .ndim = 2 };

			random_seed(s * 40 + i);
			choose(&p);
			p.size[0] = shapes[s][0];
			p.size[1] = shapes[s][1];
			p.axis = (unsigned int)shapes[s][2];
			check(&p, true, i & 1);
		}
	}
}

static void scan_f32(unsigned int mode, const float *x, float *y, int64_t n)
{
	struct openreg_args args;

	args_begin(&args, OPENREG_OP_SCAN, 1, &n);
	args.arg[1] = (uint8_t)mode;
	args_operand(&args, OPENREG_F32, y, NULL);
	args_operand(&args, OPENREG_F32, (void *)x, NULL);
	args_run(&args);
}

/* Numbers far apart: nothing overflows, and a much smaller number has no effect. */
static void test_logs_far_apart(void **state)
{
	static const float x[] = { -INFINITY, -1e30f, -1e30f, -5e3f, 0, -1e3f,
				   700, 1e30f, 1, INFINITY, 3, NAN, 1 };
	float y[13];
	int64_t i;

	(void)state;
	scan_f32(OPENREG_SCAN_LOGSUMEXP, x, y, 13);
	assert_true(y[0] == -INFINITY && y[1] == -1e30f && y[2] == -1e30f);
	assert_true(y[3] == -5e3f && y[4] == 0 && y[5] == 0 && y[6] == 700);
	assert_true(y[7] == 1e30f && y[8] == 1e30f);
	assert_true(y[9] == INFINITY && y[10] == INFINITY);
	for (i = 11; i < 13; i++)
		assert_true(isnan(y[i]));
}

/*
 * A product that is 0 or infinite stays so, even if the product of a later piece alone
 * overflows or is 0.
 */
static void test_products_stay(void **state)
{
	int64_t n = 3 * OPENREG_SCAN_PIECE, i, turn;
	float *x = malloc((size_t)n * sizeof(*x)), *y = malloc((size_t)n * sizeof(*y));

	(void)state;
	for (turn = 0; turn < 2; turn++) {
		float first = turn ? INFINITY : 0, rest = turn ? 0.5f : 2;

		for (i = 0; i < n; i++)
			x[i] = i ? rest : first;
		scan_f32(OPENREG_SCAN_PROD, x, y, n);
		for (i = 0; i < n; i++)
			assert_true(y[i] == first);
		x[n - 1] = turn ? 0 : INFINITY;
		x[n - 2] = -1;
		scan_f32(OPENREG_SCAN_PROD, x, y, n);
		assert_true(y[n - 2] == -first && signbit(y[n - 2]));
		assert_true(isnan(y[n - 1]));
		x[5] = turn ? 0 : INFINITY;
		scan_f32(OPENREG_SCAN_PROD, x, y, n);
		assert_true(isnan(y[5]) && isnan(y[n - 1]));
	}
	free(x);
	free(y);
}

/* The result may overwrite the source. */
static void test_in_place(void **state)
{
	int64_t n = 2 * OPENREG_SCAN_PIECE + 100, i;
	float *x = malloc((size_t)n * sizeof(*x));

	(void)state;
	for (i = 0; i < n; i++)
		x[i] = 1;
	scan_f32(OPENREG_SCAN_SUM, x, x, n);
	for (i = 0; i < n; i++)
		assert_true(x[i] == (float)(i + 1));
	free(x);
}

static void test_check(void **state)
{
	int64_t size[2] = { 2, 3 };
	struct openreg_args args;
	int64_t places[6];
	float x[6];

	(void)state;
	args_begin(&args, OPENREG_OP_SCAN, 2, size);
	args_operand(&args, OPENREG_F32, x, NULL);
	args_operand(&args, OPENREG_F32, x, NULL);
	assert_int_equal(args_check(&args), 0);
	assert_true(args.op[0].written && !args.op[0].read);
	assert_true(args.op[1].read && !args.op[1].written);
	args.arg[0] = 2;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
	args.arg[0] = 1;
	args.arg[1] = OPENREG_SCAN_END;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	args.arg[1] = OPENREG_SCAN_MAX;
	args.arg[2] = 1;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	args.arg[2] = 0;
	args_operand(&args, OPENREG_I64, places, NULL);
	assert_int_equal(args_check(&args), 0);
	args.op[2].dtype = OPENREG_I32;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	args.op[2].dtype = OPENREG_I64;
	args.arg[1] = OPENREG_SCAN_SUM;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	args.nops = 2;
	args.arg[1] = OPENREG_SCAN_LOGSUMEXP;
	args.op[1].dtype = OPENREG_I32;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	args.op[1].dtype = OPENREG_BF16;
	args.op[0].stride[0] = 0;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_long_rows),
		cmocka_unit_test(test_logs_far_apart),
		cmocka_unit_test(test_products_stay),
		cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
