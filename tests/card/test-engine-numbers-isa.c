// SPDX-License-Identifier: MIT
/*
 * Products of bytes, with scales and with packed matrices, and casts of float8, by the kernels of
 * each level of the instruction set: all levels give the same bits. Prints the levels
 * that this host has.
 */
#include <stdlib.h>

#include "engine-harness.h"
#include "kernels/kernels.h"
#include "matmul/packed.h"

/* Calls of a test with the kernels of each level. */
static void for_each_level(void (*test)(const struct openreg_kernels *kernels))
{
	unsigned int level;

	for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
		const struct openreg_kernels *k = openreg_kernels_at(level);

		if (k) {
			random_seed(1);
			test(k);
		}
	}
}

static void test_levels(void **state)
{
	unsigned int level;

	(void)state;
	for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
		const struct openreg_kernels *k = openreg_kernels_at(level);

		print_message("level %u: %s\n", level,
			      k ? k->name : "not on this host");
	}
}

static int byte(const uint8_t *from, int64_t at, bool is_unsigned)
{
	return is_unsigned ? from[at] : (int8_t)from[at];
}

/* A block of pairs: lines of A and of B lie `line` bytes apart, neighbours along k `step`. */
static void pairs_of(const struct openreg_kernels *kernels, bool is_unsigned, int64_t k,
		     bool by_row, int fill)
{
	const struct openreg_gemm_kernel *kernel = &kernels->pairs;
	int64_t rows = kernel->rows, columns = kernel->columns, m = rows - 1;
	int64_t n = columns - 3, even = openreg_round_up(k, 2), i, j, l;
	uint8_t *a = malloc((size_t)(m * k)), *b = malloc((size_t)(n * k));
	size_t a_bytes = (size_t)openreg_round_up(rows * even * 2, 64);
	size_t b_bytes = (size_t)openreg_round_up(columns * even * 2, 64);
	int16_t *ap = aligned_alloc(64, a_bytes), *bp = aligned_alloc(64, b_bytes);
	uint32_t *out = aligned_alloc(64, (size_t)(rows * columns) * 4);
	struct openreg_matrix x = { (uintptr_t)a, 0, by_row ? k : 1, by_row ? 1 : m };
	struct openreg_matrix y = { (uintptr_t)b, 0, by_row ? 1 : k, by_row ? n : 1 };

	for (i = 0; i < m * k; i++)
		a[i] = fill ? (uint8_t)fill : (uint8_t)random_u64();
	for (i = 0; i < n * k; i++)
		b[i] = fill ? 0x80 : (uint8_t)random_u64();
	openreg_pairs_pack(ap, is_unsigned ? OPENREG_U8 : OPENREG_I8, &x, m, rows, k);
	openreg_pairs_pack(bp, OPENREG_I8, &y, n, columns, k);
	for (i = 0; i < rows * columns; i++)
		out[i] = 0xfffffff0;
	kernel->block(out, (size_t)columns, ap, bp, (size_t)even, true);
	for (i = 0; i < rows; i++) {
		for (j = 0; j < columns; j++) {
			uint32_t sum = 0xfffffff0;

			for (l = 0; l < k && i < m && j < n; l++)
				sum += (uint32_t)(byte(a, i * x.row + l * x.column,
						       is_unsigned) *
						  byte(b, j * y.row + l * y.column,
						       false));
			assert_int_equal(out[i * columns + j], sum);
		}
	}
	free(out);
	free(bp);
	free(ap);
	free(b);
	free(a);
}

static void pairs(const struct openreg_kernels *kernels)
{
	int64_t k;
	int how;

	for (how = 0; how < 4; how++) {
		for (k = 1; k < 20; k++)
			pairs_of(kernels, how & 1, k, how & 2, 0);
		pairs_of(kernels, how & 1, 1001, how & 2, 0);
		/* The greatest products, and a sum that wraps. */
		pairs_of(kernels, how & 1, 65537, how & 2, how & 1 ? 255 : 128);
	}
}

static void test_pairs(void **state)
{
	(void)state;
	for_each_level(pairs);
}

/* Exact in any order: small integers. */
static void packed_of(const struct openreg_kernels *kernels, unsigned int dtype, bool some,
		      int64_t k)
{
	const int64_t n = OPENREG_PACKED_COLUMNS, rows = some ? OPENREG_PACKED_ROWS : 1;
	struct openreg_packed p = openreg_packed(dtype, k, n);
	int64_t size = openreg_dtype_size(dtype), ld = openreg_round_up(k, 2), r, i, j;
	const struct openreg_packed_part all = { .k = k, .n = n };
	float *a = calloc((size_t)(rows * ld), 4), *b = malloc((size_t)(k * n) * 4);
	float out[OPENREG_PACKED_ROWS * OPENREG_PACKED_COLUMNS];
	void *matrix = malloc((size_t)(k * n * size));
	void *packed = aligned_alloc(64, (size_t)openreg_round_up(
						 openreg_packed_elements(&p) * size, 64));
	struct openreg_matrix x = { (uintptr_t)matrix, 0, n, 1 };

	for (r = 0; r < rows; r++)
		for (i = 0; i < k; i++)
			a[r * ld + i] = (float)random_range(-4, 4);
	for (i = 0; i < k * n; i++)
		b[i] = (float)random_range(-8, 8) / 4;
	kernels->store[dtype][OPENREG_VT_F32](matrix, 1, b, (size_t)(k * n));
	openreg_packed_pack(&p, packed, &x, &all);
	kernels->packed[dtype][some](out, a, (size_t)ld,
				     (const void *)openreg_packed_block(&p, packed, 0),
				     (size_t)k);
	for (r = 0; r < rows; r++) {
		for (j = 0; j < n; j++) {
			double sum = 0;

			for (i = 0; i < k; i++)
				sum += (double)a[r * ld + i] * (double)b[i * n + j];
			assert_true(out[r * n + j] == sum);
		}
	}
	free(packed);
	free(matrix);
	free(b);
	free(a);
}

static void packed(const struct openreg_kernels *kernels)
{
	unsigned int dtype;
	int some;

	for (dtype = OPENREG_F32; dtype <= OPENREG_BF16; dtype++) {
		if (!openreg_packed_has(dtype))
			continue;
		for (some = 0; some < 2; some++) {
			packed_of(kernels, dtype, some, 1);
			packed_of(kernels, dtype, some, 2);
			packed_of(kernels, dtype, some, 333);
		}
	}
}

static void test_packed(void **state)
{
	(void)state;
	for_each_level(packed);
}

/* Exact in any order: small integers in A, and powers of two as scales. */
static void dots_of(const struct openreg_kernels *kernels, bool i4, bool many, size_t k,
		    size_t groups)
{
	unsigned int rows = many ? OPENREG_DOTS_ROWS : 1, r, c;
	size_t group = k / groups, bytes = i4 ? k / 2 : k, i;
	float *a = malloc(rows * k * sizeof(*a));
	float *scale = malloc(groups * OPENREG_DOTS_COLUMNS * sizeof(*scale));
	uint8_t *q = malloc(OPENREG_DOTS_COLUMNS * bytes);
	struct openreg_dots d = { .a = a, .scale = scale, .k = k, .groups = groups,
				  .ld = OPENREG_DOTS_COLUMNS };

	for (i = 0; i < rows * k; i++)
		a[i] = (float)random_range(-4, 4);
	for (i = 0; i < groups * OPENREG_DOTS_COLUMNS; i++)
		scale[i] = 1.0f / (float)(1 << random_range(0, 3));
	for (i = 0; i < OPENREG_DOTS_COLUMNS * bytes; i++)
		q[i] = (uint8_t)random_u64();
	for (c = 0; c < OPENREG_DOTS_COLUMNS; c++)
		d.q[c] = q + c * bytes;
	kernels->dots[i4][many](&d);
	for (r = 0; r < rows; r++) {
		for (c = 0; c < OPENREG_DOTS_COLUMNS; c++) {
			double sum = 0;

			for (i = 0; i < k; i++) {
				int8_t byte = (int8_t)d.q[c][i4 ? i / 2 : i];
				size_t place = i4 ? i % 2 * bytes + i / 2 : i;
				int x = !i4 ? byte : i % 2 ? byte >> 4
							  : (int8_t)((unsigned int)byte << 4) >> 4;

				sum += (double)a[r * k + place] * x *
				       scale[i / group * d.ld + c];
			}
			assert_true(d.out[r][c] == sum);
		}
	}
	free(q);
	free(scale);
	free(a);
}

static void dots(const struct openreg_kernels *k)
{
	unsigned int i;

	for (i = 0; i < 4; i++) {
		dots_of(k, i & 1, i & 2, 256, 4);
		dots_of(k, i & 1, i & 2, 66, 1);
		dots_of(k, i & 1, i & 2, 60, 6);
		dots_of(k, i & 1, i & 2, 2, 1);
	}
}

static void test_dots(void **state)
{
	(void)state;
	for_each_level(dots);
}

/* All 256 values to f32, and all 65,536 of each half to float8. */
static void float8(const struct openreg_kernels *kernels)
{
	enum { HALVES = 65536 };
	const struct openreg_kernels *base = openreg_kernels_at(OPENREG_ISA_BASE);
	static const unsigned int halves[] = { OPENREG_F16, OPENREG_BF16 };
	uint16_t *bits = malloc(HALVES * 2);
	float *x = malloc(HALVES * 4), *want = malloc(HALVES * 4);
	unsigned int dtype, h, i;

	for (dtype = OPENREG_F8E4M3FN; dtype <= OPENREG_F8E8M0FNU; dtype++) {
		for (i = 0; i < 256; i++)
			((uint8_t *)bits)[i] = (uint8_t)i;
		base->load[dtype][OPENREG_VT_F32](want, bits, 1, 256);
		kernels->load[dtype][OPENREG_VT_F32](x, bits, 1, 256);
		assert_memory_equal(x, want, 256 * 4);
		for (h = 0; h < 2; h++) {
			for (i = 0; i < HALVES; i++)
				bits[i] = (uint16_t)i;
			base->load[halves[h]][OPENREG_VT_F32](x, bits, 1, HALVES);
			base->store[dtype][OPENREG_VT_F32](want, 1, x, HALVES);
			kernels->store[dtype][OPENREG_VT_F32](bits, 1, x, HALVES);
			assert_memory_equal(bits, want, HALVES);
		}
	}
	free(want);
	free(x);
	free(bits);
}

static void test_float8(void **state)
{
	(void)state;
	for_each_level(float8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_dots),
		cmocka_unit_test(test_float8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
