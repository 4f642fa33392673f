// SPDX-License-Identifier: MIT
/* Compares SOFTMAX with its definition in long double: any layout and axis. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"
#include "kernels/kernels.h"

static double tolerance(unsigned int dtype)
{
	switch (dtype) {
	case OPENREG_F64:
		return 1e-13;
	case OPENREG_F16:
		return 2e-3;
	case OPENREG_BF16:
		return 1.6e-2;
	default:
		return 1e-5;
	}
}

struct problem {
	unsigned int ndim, axis, flags;
	int64_t size[OPENREG_DIMS_MAX];
	unsigned int dtype[3]; /* result, input, output of the forward */
	struct layout at[3];
	unsigned char *memory[3];
};

static double get(const struct problem *p, unsigned int op, const int64_t *at)
{
	return element_get(p->dtype[op], p->memory[op],
			   layout_at(&p->at[op], p->ndim, at));
}

/* The sum of f(x), or the greatest x, along the axis through a point. */
struct row {
	long double max, sum_exp, sum, dot;
};

static struct row measure(const struct problem *p, const int64_t *point)
{
	struct row row = { -INFINITY, 0, 0, 0 };
	int64_t at[OPENREG_DIMS_MAX], i;
	unsigned int pass;

	memcpy(at, point, sizeof(at));
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < p->size[p->axis]; i++) {
			long double x;

			at[p->axis] = i;
			x = get(p, 1, at);
			if (pass == 0) {
				if (x > row.max || isnan(x))
					row.max = x;
				continue;
			}
			row.sum_exp += expl(x - row.max);
			row.sum += x;
			if (p->flags & OPENREG_SOFTMAX_BACKWARD)
				row.dot += x * get(p, 2, at);
		}
	}
	return row;
}

static long double expected(const struct problem *p, const struct row *row,
			    const int64_t *at)
{
	long double x = get(p, 1, at), y;

	switch (p->flags) {
	case 0:
		return expl(x - row->max) / row->sum_exp;
	case OPENREG_SOFTMAX_LOG:
		return x - row->max - logl(row->sum_exp);
	default:
		y = get(p, 2, at);
		return p->flags & OPENREG_SOFTMAX_LOG
			       ? x - expl(y) * row->sum
			       : y * (x - row->dot);
	}
}

static void fill(struct problem *p, unsigned int op)
{
	unsigned int size = openreg_dtype_size(p->dtype[op]);
	int64_t i;

	for (i = 0; i < p->at[op].extent; i++) {
		/* log-probabilities are negative, probabilities small. */
		double x = op == 2 ? p->flags & OPENREG_SOFTMAX_LOG
					     ? -3 * random_unit() - 0.1
					     : random_unit()
				   : 8 * random_unit() - 4;

		openreg_convert(p->memory[op] + i * size, p->dtype[op], 1, &x,
				OPENREG_F64, 1, 1);
	}
}

static void run(struct problem *p, bool reverse)
{
	unsigned int op, nops = p->flags & OPENREG_SOFTMAX_BACKWARD ? 3 : 2;
	struct openreg_args args;

	args_begin(&args, OPENREG_OP_SOFTMAX, p->ndim, p->size);
	args.arg[0] = (uint8_t)p->axis;
	args.arg[1] = (uint8_t)p->flags;
	for (op = 0; op < nops; op++)
		args_operand(&args, p->dtype[op],
			     p->memory[op] +
				     p->at[op].origin *
					     openreg_dtype_size(p->dtype[op]),
			     p->at[op].stride);
	args_run_order(&args, reverse);
}

static void compare(const struct problem *p)
{
	int64_t at[OPENREG_DIMS_MAX] = { 0 };
	double limit = tolerance(p->dtype[0]);

	do {
		struct row row;
		int64_t i;

		if (at[p->axis])
			continue;
		row = measure(p, at);
		for (i = 0; i < p->size[p->axis]; i++) {
			long double want, have;

			at[p->axis] = i;
			want = expected(p, &row, at);
			have = get(p, 0, at);
			if (isnan(want)) {
				assert_true(isnan(have));
				continue;
			}
			if (want == have)
				continue;
			if (fabsl(want - have) > limit * (1 + fabsl(want)))
				fail_msg("flags %u: %Lg is not %Lg", p->flags,
					 have, want);
		}
		at[p->axis] = 0;
	} while (next_point(p->ndim, p->size, at));
}

static void allocate(struct problem *p, bool dense)
{
	unsigned int op;

	for (op = 0; op < 3; op++) {
		random_layout(&p->at[op], p->ndim, p->size, op > 0 && !dense);
		if (dense) {
			dense_strides(p->ndim, p->size, p->at[op].stride);
			p->at[op].origin = 0;
		}
		/* The extent of a random layout is enough for a dense one. */
		p->memory[op] = calloc((size_t)p->at[op].extent + 1, 8);
		fill(p, op);
	}
}

static void release(struct problem *p)
{
	unsigned int op;

	for (op = 0; op < 3; op++)
		free(p->memory[op]);
}

static void test_random(void **state)
{
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 1500; i++) {
		struct problem p = { 0 };
		int64_t points = 1;

		random_seed(i);
		p.ndim = (unsigned int)random_range(1, 5);
		p.axis = (unsigned int)random_range(0, p.ndim - 1);
		p.flags = (unsigned int)random_range(0, 3);
		for (d = 0; d < p.ndim; d++) {
			p.size[d] = random_range(1, i % 10 ? 8 : 70);
			if (points * p.size[d] > 5000)
				p.size[d] = 1;
			points *= p.size[d];
		}
		for (d = 0; d < 3; d++)
			p.dtype[d] = (unsigned int)random_range(
				OPENREG_F32, OPENREG_BF16);
		allocate(&p, random_range(0, 2) == 0);
		run(&p, random_range(0, 1));
		compare(&p);
		release(&p);
	}
}

/* Blocks of several rows one after another, of any length and layout. */
static void test_short_rows(void **state)
{
	static const unsigned int dtypes[] = { OPENREG_F32, OPENREG_F64,
					       OPENREG_BF16 };
	int64_t n;

	(void)state;
	for (n = 1; n < 150; n += 1 + n / 16) {
		unsigned int flags;

		for (flags = 0; flags < 4; flags++) {
			struct problem p = { .ndim = 3, .axis = 2,
					     .flags = flags };
			unsigned int i;

			random_seed((uint64_t)n * 4 + flags);
			p.size[0] = random_range(1, 3);
			p.size[1] = n % 3 ? random_range(1, 7) : 300;
			p.size[2] = n;
			for (i = 0; i < 3; i++)
				p.dtype[i] = dtypes[random_range(0, 2)];
			allocate(&p, n % 2);
			run(&p, flags & 1);
			compare(&p);
			release(&p);
		}
	}
}

/* Rows longer than a block, in both kinds of layout. */
static void test_long_rows(void **state)
{
	static const int64_t shapes[][3] = {
		{ 200000, 1, 0 }, { 2, 150000, 1 }, { 20000, 20, 0 },
	};
	unsigned int s, flags;

	(void)state;
	for (s = 0; s < 3; s++) {
		for (flags = 0; flags < 4; flags++) {
			struct problem p = { .ndim = 2, .flags = flags };

			random_seed(s * 4 + flags);
			p.size[0] = shapes[s][0];
			p.size[1] = shapes[s][1];
			p.axis = (unsigned int)shapes[s][2];
			p.dtype[0] = p.dtype[1] = p.dtype[2] = OPENREG_F32;
			allocate(&p, true);
			run(&p, flags & 1);
			compare(&p);
			release(&p);
		}
	}
}

/* By the definition, rows of only -inf and rows with a NaN give NaN. */
static void test_special(void **state)
{
	static float rows[5][4] = {
		{ -INFINITY, 0, 0, -INFINITY },
		{ -INFINITY, -INFINITY, -INFINITY, -INFINITY },
		{ 1, NAN, 2, 3 },
		{ 1, INFINITY, 2, 3 },
		{ 1e30f, -1e30f, 1e30f, 0 },
	};
	float y[5][4];
	int64_t size[2] = { 5, 4 };
	struct openreg_args args;
	int i;

	(void)state;
	args_begin(&args, OPENREG_OP_SOFTMAX, 2, size);
	args.arg[0] = 1;
	args_operand(&args, OPENREG_F32, y, NULL);
	args_operand(&args, OPENREG_F32, rows, NULL);
	args_run(&args);
	assert_true(y[0][0] == 0 && y[0][1] == 0.5f && y[0][3] == 0);
	for (i = 0; i < 4; i++) {
		assert_true(isnan(y[1][i]));
		assert_true(isnan(y[2][i]));
		assert_true(isnan(y[3][i]));
	}
	assert_true(y[4][0] == 0.5f && y[4][1] == 0 && y[4][2] == 0.5f);
}

/* A NaN has its effect at any position of a row of vectors and a remainder. */
static void test_nan_in_short_rows(void **state)
{
	enum { LENGTH = 75 };
	static float x[LENGTH][LENGTH], y[LENGTH][LENGTH];
	int64_t size[2] = { LENGTH, LENGTH };
	struct openreg_args args;
	int i, j;

	(void)state;
	for (i = 0; i < LENGTH; i++) {
		for (j = 0; j < LENGTH; j++)
			x[i][j] = i % 2 && i == j ? NAN : (float)j;
	}
	args_begin(&args, OPENREG_OP_SOFTMAX, 2, size);
	args.arg[0] = 1;
	args_operand(&args, OPENREG_F32, y, NULL);
	args_operand(&args, OPENREG_F32, x, NULL);
	args_run(&args);
	for (i = 0; i < LENGTH; i++) {
		for (j = 0; j < LENGTH; j++)
			assert_int_equal(isnan(y[i][j]), i % 2);
	}
}

static double exponential(double x)
{
	double y;

	openreg_kernels()->op[OPENREG_V_EXP][OPENREG_VT_F64](&y, &x, &x, &x, 1);
	return y;
}

/* Two of n elements of a row are not -inf, so that the sum rounds once. */
static void divide_rows(int64_t rows, int64_t n, unsigned int axis)
{
	double *x = malloc((size_t)(rows * n) * 8), e;
	double *y = malloc((size_t)(rows * n) * 8);
	int64_t size[2] = { rows, n }, i, step = 1, row = n;
	struct openreg_args args;

	assert_non_null(x);
	assert_non_null(y);
	if (axis == 0) {
		size[0] = n;
		size[1] = rows;
		step = rows;
		row = 1;
	}
	for (i = 0; i < rows * n; i++)
		x[i] = -INFINITY;
	for (i = 0; i < rows; i++) {
		x[i * row] = 0;
		x[i * row + (n - 1) * step] = -3 * random_unit();
	}
	args_begin(&args, OPENREG_OP_SOFTMAX, 2, size);
	args.arg[0] = (uint8_t)axis;
	args_operand(&args, OPENREG_F64, y, NULL);
	args_operand(&args, OPENREG_F64, x, NULL);
	args_run(&args);
	for (i = 0; i < rows; i++) {
		e = exponential(x[i * row + (n - 1) * step]);
		assert_true(y[i * row] == 1 / (1 + e));
		assert_true(y[i * row + (n - 1) * step] == e / (1 + e));
	}
	free(x);
	free(y);
}

/* In f64 the card divides the exponentials by their sum, with one rounding. */
static void test_division(void **state)
{
	static const int64_t length[] = { 2, 9, 33, 500, 300000 };
	unsigned int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		random_seed(i);
		divide_rows(i < 4 ? 300 : 2, length[i], 1);
		divide_rows(i < 4 ? 300 : 2, length[i], 0);
	}
}

/* A long row with only -inf before or after a few numbers. */
static void test_long_row_of_minus_infinity(void **state)
{
	int64_t n = 300000, i, from;
	float *x = malloc((size_t)n * 4);
	struct openreg_args args;

	(void)state;
	for (from = 0; from < n; from += n - 2) {
		for (i = 0; i < n; i++)
			x[i] = i == from || i == from + 1 ? 3 : -INFINITY;
		args_begin(&args, OPENREG_OP_SOFTMAX, 1, &n);
		args_operand(&args, OPENREG_F32, x, NULL);
		args_operand(&args, OPENREG_F32, x, NULL);
		args_run(&args);
		for (i = 0; i < n; i++)
			assert_true(x[i] ==
				    (i == from || i == from + 1 ? 0.5f : 0));
	}
	free(x);
}

static void test_check(void **state)
{
	int64_t size[2] = { 2, 3 };
	struct openreg_args args;
	float x[6];

	(void)state;
	args_begin(&args, OPENREG_OP_SOFTMAX, 2, size);
	args_operand(&args, OPENREG_F32, x, NULL);
	args_operand(&args, OPENREG_F32, x, NULL);
	assert_int_equal(args_check(&args), 0);
	assert_true(args.op[0].written && !args.op[0].read);
	assert_true(args.op[1].read && !args.op[1].written);
	args.arg[0] = 2;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
	args.arg[0] = 0;
	args.arg[1] = 4;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	args.arg[1] = OPENREG_SOFTMAX_BACKWARD;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	args.arg[1] = 0;
	args.op[1].dtype = OPENREG_I32;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	args.op[1].dtype = OPENREG_F16;
	args.op[0].stride[0] = 0;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_short_rows),
		cmocka_unit_test(test_long_rows),
		cmocka_unit_test(test_special),
		cmocka_unit_test(test_nan_in_short_rows),
		cmocka_unit_test(test_division),
		cmocka_unit_test(test_long_row_of_minus_infinity),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
