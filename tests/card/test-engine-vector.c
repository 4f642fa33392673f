// SPDX-License-Identifier: MIT
/* How VECTOR accesses memory: shapes, strides, tiles, slices. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"

#define F32 OPENREG_VT_F32

static void add_program(struct openreg_args *args, unsigned int out,
			unsigned int a, unsigned int b)
{
	args_instr(args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, a);
	args_instr(args, OPENREG_V_LOAD, F32, 1, 0, 0, 0, b);
	args_instr(args, OPENREG_V_ADD, F32, 2, 0, 1, 0, 0);
	args_instr(args, OPENREG_V_STORE, F32, 0, 2, 0, 0, out);
}

static void test_add(void **state)
{
	static const int64_t lengths[] = { 1, 15, 16, 1023, 1024, 1025, 4000000 };
	unsigned int l;
	int64_t i;

	(void)state;
	for (l = 0; l < sizeof(lengths) / sizeof(*lengths); l++) {
		int64_t n = lengths[l];
		float *a = malloc((size_t)n * 4), *b = malloc((size_t)n * 4);
		float *c = malloc((size_t)n * 4);
		struct openreg_args args;

		for (i = 0; i < n; i++) {
			a[i] = (float)random_unit();
			b[i] = (float)random_unit();
		}
		args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
		args_operand(&args, OPENREG_F32, c, NULL);
		args_operand(&args, OPENREG_F32, a, NULL);
		args_operand(&args, OPENREG_F32, b, NULL);
		add_program(&args, 0, 1, 2);
		args_run(&args);
		for (i = 0; i < n; i++)
			assert_true(c[i] == a[i] + b[i]);
		free(a);
		free(b);
		free(c);
	}
}

/* In place: the card loads a tile before it stores the tile. */
static void test_in_place(void **state)
{
	int64_t n = 5000, i;
	float *a = malloc((size_t)n * 4);
	struct openreg_args args;

	(void)state;
	for (i = 0; i < n; i++)
		a[i] = (float)i;
	args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
	args_operand(&args, OPENREG_F32, a, NULL);
	add_program(&args, 0, 0, 0);
	args_run(&args);
	for (i = 0; i < n; i++)
		assert_true(a[i] == 2 * (float)i);
	free(a);
}

/* A register keeps its value after a STORE to the memory that it came from. */
static void test_load_store_use(void **state)
{
	int64_t n = 3000, i;
	float *a = malloc((size_t)n * 4), *b = malloc((size_t)n * 4);
	struct openreg_args args;

	(void)state;
	for (i = 0; i < n; i++)
		a[i] = (float)i;
	args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
	args_operand(&args, OPENREG_F32, a, NULL);
	args_operand(&args, OPENREG_F32, b, NULL);
	args_imm_f(&args, 7);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_IMM, F32, 1, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 1, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 1);
	args_run(&args);
	for (i = 0; i < n; i++) {
		assert_true(a[i] == 7);
		assert_true(b[i] == (float)i);
	}
	free(a);
	free(b);
}

/* Every pair of dtypes, any layout: out = a + coordinate; guards must not change. */
static void one_random_walk(void)
{
	unsigned int ndim = (unsigned int)random_range(0, 6), d;
	int64_t size[OPENREG_DIMS_MAX], at[OPENREG_DIMS_MAX] = { 0 };
	unsigned int in = (unsigned int)random_range(OPENREG_F32, OPENREG_I64);
	unsigned int out = (unsigned int)random_range(OPENREG_F32, OPENREG_I64);
	struct layout la, lo;
	struct openreg_args args;
	unsigned char *a, *o, *seen;
	int64_t points = 1, i;

	for (d = 0; d < ndim; d++) {
		int64_t most = 3000 / points > 1 ? 3000 / points : 1;

		size[d] = random_range(1, most < 40 || random_range(0, 3) == 0
						  ? most
						  : 40);
		points *= size[d];
	}
	random_layout(&la, ndim, size, true);
	random_layout(&lo, ndim, size, false);
	a = calloc((size_t)la.extent, openreg_dtype_size(in));
	o = calloc((size_t)lo.extent, openreg_dtype_size(out));
	seen = calloc((size_t)lo.extent, 1);
	fill_small(in, a, la.extent, 0, 50);
	args_begin(&args, OPENREG_OP_VECTOR, ndim, size);
	args_operand(&args, out, o + lo.origin * openreg_dtype_size(out),
		     lo.stride);
	args_operand(&args, in, a + la.origin * openreg_dtype_size(in),
		     la.stride);
	args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_I64, 0, 0, 0, 0, 1);
	for (d = 0; d < ndim; d++) {
		args_instr(&args, OPENREG_V_INDEX, OPENREG_VT_I64, 1, 0, 0, 0,
			   d);
		args_instr(&args, OPENREG_V_MIN, OPENREG_VT_I64, 1, 1, 0, 0, 0);
		if (d == 0)
			args_instr(&args, OPENREG_V_ADD, OPENREG_VT_I64, 0, 0,
				   1, 0, 0);
	}
	args_instr(&args, OPENREG_V_STORE, OPENREG_VT_I64, 0, 0, 0, 0, 0);
	args_run_order(&args, random_range(0, 1));
	do {
		int64_t x = (int64_t)element_get(in, a,
						 layout_at(&la, ndim, at));

		if (ndim)
			x += at[0] < x ? at[0] : x;
		assert_true((int64_t)element_get(
				    out, o, layout_at(&lo, ndim, at)) == x);
		seen[layout_at(&lo, ndim, at)] = 1;
	} while (next_point(ndim, size, at));
	for (i = 0; i < lo.extent; i++)
		assert_true(seen[i] || element_get(out, o, i) == 0);
	free(a);
	free(o);
	free(seen);
}

static void test_random_walks(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 2000; i++) {
		random_seed(i);
		one_random_walk();
	}
}

/* Operands that are dense along different dimensions, of every dtype and depth. */
static void test_transposes(void **state)
{
	static const int64_t shapes[][3] = {
		{ 1, 96, 200 },	 { 1, 200, 96 },  { 1, 67, 131 },
		{ 3, 128, 70 },	 { 5, 8, 1024 },  { 1, 1000, 9 },
		{ 70, 12, 320 }, { 2, 660, 450 },
	};
	unsigned int s, dtype;

	(void)state;
	for (s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
		for (dtype = 1; dtype < OPENREG_DTYPE_END; dtype++) {
			const int64_t *n = shapes[s];
			int64_t across[3] = { n[1] * n[2], 1, n[1] };
			int64_t at[3] = { 0 }, points = n[0] * n[1] * n[2];
			unsigned char *a = malloc((size_t)points * 8);
			unsigned char *b = malloc((size_t)points * 8);
			int64_t *sum = malloc((size_t)points * 8), i = 0;
			struct openreg_args args;

			fill_small(dtype, a, points, 0, 50);
			fill_small(dtype, b, points, 0, 50);
			args_begin(&args, OPENREG_OP_VECTOR, 3, n);
			args_operand(&args, dtype, a, NULL);
			args_operand(&args, dtype, b, across);
			args_operand(&args, OPENREG_I64, sum, NULL);
			args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_I64, 0, 0,
				   0, 0, 0);
			args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_I64, 1, 0,
				   0, 0, 1);
			args_instr(&args, OPENREG_V_INDEX, OPENREG_VT_I64, 2,
				   0, 0, 0, 1);
			args_instr(&args, OPENREG_V_FMA, OPENREG_VT_I64, 0, 1,
				   2, 0, 0);
			args_instr(&args, OPENREG_V_STORE, OPENREG_VT_I64, 0,
				   0, 0, 0, 2);
			args_run_order(&args, s & 1);
			do {
				int64_t x = (int64_t)element_get(dtype, a, i);
				int64_t y = (int64_t)element_get(
					dtype, b,
					at[0] * across[0] + at[1] +
						at[2] * n[1]);

				assert_int_equal(sum[i++], x + y * at[1]);
			} while (next_point(3, n, at));
			free(a);
			free(b);
			free(sum);
		}
	}
}

enum { UNIFORM_ROWS = 5, UNIFORM_WIDTH = 2100 };

/* The result for the number c of a row, an element x and an immediate. */
static float uniform_want(float c, float x)
{
	return (c - x) * 0.5f + (x < c ? c * c : 3.0f / c);
}

static void add_uniform_program(struct openreg_args *args)
{
	const unsigned int f = OPENREG_VT_F32;

	args_imm_f(args, 0.5);
	args_imm_f(args, 3);
	args_instr(args, OPENREG_V_LOAD, f, 0, 0, 0, 0, 2);
	args_instr(args, OPENREG_V_LOAD, f, 1, 0, 0, 0, 1);
	args_instr(args, OPENREG_V_SUB, f, 2, 0, 1, 0, 0);
	args_instr(args, OPENREG_V_IMM, f, 3, 0, 0, 0, 0);
	args_instr(args, OPENREG_V_MUL, f, 2, 2, 3, 0, 0);
	/* The same register with another number. */
	args_instr(args, OPENREG_V_IMM, f, 3, 0, 0, 0, 1);
	args_instr(args, OPENREG_V_DIV, f, 3, 3, 0, 0, 0);
	args_instr(args, OPENREG_V_LT, f, 1, 1, 0, 0, 0);
	args_instr(args, OPENREG_V_MUL, f, 0, 0, 0, 0, 0);
	args_instr(args, OPENREG_V_SELECT, f, 0, 1, 0, 3, 0);
	args_instr(args, OPENREG_V_ADD, f, 2, 2, 0, 0, 0);
}

/* Operands that are one number for a whole tile, or several numbers in a tile. */
static void test_uniform(void **state)
{
	static const int64_t widths[] = { 1, 300, 512, 513, 1024, 1025, 2100 };
	static float x[UNIFORM_ROWS * UNIFORM_WIDTH], y[UNIFORM_ROWS * UNIFORM_WIDTH];
	float c[UNIFORM_ROWS], sum[UNIFORM_ROWS], least[UNIFORM_ROWS];
	unsigned int w;
	int64_t i, r;

	(void)state;
	random_seed(1);
	for (i = 0; i < UNIFORM_ROWS * UNIFORM_WIDTH; i++)
		x[i] = (float)random_range(-100, 100);
	for (w = 0; w < sizeof(widths) / sizeof(*widths); w++) {
		const int64_t size[2] = { UNIFORM_ROWS, widths[w] };
		const int64_t by_row[2] = { 1, 0 };
		struct openreg_args args;

		for (r = 0; r < UNIFORM_ROWS; r++)
			c[r] = (float)random_range(1, 50);
		args_begin(&args, OPENREG_OP_VECTOR, 2, size);
		args_operand(&args, OPENREG_F32, y, NULL);
		args_operand(&args, OPENREG_F32, x, NULL);
		args_operand(&args, OPENREG_F32, c, by_row);
		add_uniform_program(&args);
		args_instr(&args, OPENREG_V_STORE, OPENREG_VT_F32, 0, 2, 0, 0,
			   0);
		args_run(&args);
		for (r = 0; r < UNIFORM_ROWS; r++) {
			least[r] = INFINITY;
			for (i = 0; i < size[1]; i++) {
				float want = uniform_want(c[r],
							  x[r * size[1] + i]);

				assert_true(y[r * size[1] + i] == want);
				least[r] = want < least[r] ? want : least[r];
			}
		}
		/* Folds the result, or the number itself. */
		args.nops = args.nimm = args.ninstr = 0;
		args.arg[0] = 2;
		args_operand(&args, OPENREG_F32, sum, by_row);
		args_operand(&args, OPENREG_F32, x, NULL);
		args_operand(&args, OPENREG_F32, c, by_row);
		add_uniform_program(&args);
		args_instr(&args, OPENREG_V_RED_MIN, OPENREG_VT_F32, 0, 2,
			   OPENREG_VNONE, OPENREG_VNONE, 0);
		args_run(&args);
		assert_memory_equal(sum, least, sizeof(sum));
		args.nops = args.ninstr = 0;
		args_operand(&args, OPENREG_F32, sum, by_row);
		args_operand(&args, OPENREG_F32, c, by_row);
		args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
		args_instr(&args, OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 0,
			   OPENREG_VNONE, OPENREG_VNONE, 0);
		args_run(&args);
		for (r = 0; r < UNIFORM_ROWS; r++)
			assert_true(sum[r] == c[r] * (float)size[1]);
	}
}

static void test_empty(void **state)
{
	int64_t size[2] = { 4, 0 };
	struct openreg_args args;

	(void)state;
	args_begin(&args, OPENREG_OP_VECTOR, 2, size);
	args_operand(&args, OPENREG_F32, NULL, NULL);
	add_program(&args, 0, 0, 0);
	args_run(&args);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_load_store_use),
		cmocka_unit_test(test_random_walks),
		cmocka_unit_test(test_transposes),
		cmocka_unit_test(test_uniform),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
