// SPDX-License-Identifier: MIT
/* All levels of the instruction set on this host give the same bits. */
#include <stdlib.h>
#include <sys/mman.h>

#include "engine-harness.h"
#include "kernels/kernels.h"
#include "vector/vector_ops.h"

#define N 20011 /* a prime, so every loop has a remainder */

static unsigned char *input[3], *out[2];

static const char *const op_names[OPENREG_V_END] = {
#define V(op, name, types, form, semantics) [OPENREG_V_##op] = name,
	OPENREG_VECTOR_OPS(V)
#undef V
};

/* Numbers of every exponent, and numbers in the main range of the functions. */
static void fill_inputs(unsigned int type)
{
	int i, j;

	for (j = 0; j < 3; j++) {
		for (i = 0; i < N; i++) {
			uint64_t bits = random_u64();
			double d = (random_unit() - 0.5) *
				   (i % 3 ? 20 : 2000);
			float f = (float)d;

			if (type == OPENREG_VT_F32 && i % 4)
				memcpy(&bits, &f, 4);
			else if (type == OPENREG_VT_F64 && i % 4)
				memcpy(&bits, &d, 8);
			else if (i % 4)
				bits >>= random_range(0, 63);
			if (type == OPENREG_VT_F32 || type == OPENREG_VT_I32)
				memcpy(input[j] + i * 4, &bits, 4);
			else
				memcpy(input[j] + i * 8, &bits, 8);
		}
	}
}

/* NaNs may differ in their payload. */
static bool same_float(const void *x, const void *y, unsigned int type)
{
	float f, g;
	double d, e;

	if (type == OPENREG_VT_F32) {
		memcpy(&f, x, 4);
		memcpy(&g, y, 4);
		return memcmp(x, y, 4) == 0 || (f != f && g != g);
	}
	memcpy(&d, x, 8);
	memcpy(&e, y, 8);
	return memcmp(x, y, 8) == 0 || (d != d && e != e);
}

static void compare(const char *what, unsigned int type, unsigned int level)
{
	int width = type == OPENREG_VT_F32 || type == OPENREG_VT_I32 ? 4 : 8;
	int i;

	for (i = 0; i < N; i++) {
		const unsigned char *x = out[0] + i * width;
		const unsigned char *y = out[1] + i * width;

		if (type >= OPENREG_VT_I32 ? memcmp(x, y, (size_t)width) != 0
					   : !same_float(x, y, type))
			fail_msg("%s, type %u, level %u: element %d differs",
				 what, type, level, i);
	}
}

static void test_operations(void **state)
{
	const struct openreg_kernels *base =
		openreg_kernels_at(OPENREG_ISA_BASE);
	unsigned int level, op, type;

	(void)state;
	for (type = 0; type < OPENREG_VT_END; type++) {
		random_seed(type);
		fill_inputs(type);
		for (op = 0; op < OPENREG_V_END; op++) {
			bool test = op >= OPENREG_V_EQ &&
				    op <= OPENREG_V_SIGNBIT;

			if (!base->op[op][type])
				continue;
			memset(out[0], 0, N * 8);
			memset(out[1], 0, N * 8);
			base->op[op][type](out[0], input[0], input[1], input[2],
					   N);
			for (level = 1; level < OPENREG_ISA_LEVELS; level++) {
				const struct openreg_kernels *k =
					openreg_kernels_at(level);

				if (!k)
					continue;
				k->op[op][type](out[1], input[0], input[1],
						input[2], N);
				compare(op_names[op],
					test ? OPENREG_VT_I32 : type, level);
			}
		}
	}
}

static int width_of(unsigned int type)
{
	return type == OPENREG_VT_F32 || type == OPENREG_VT_I32 ? 4 : 8;
}

/* A kernel with a single-element source gives the bits of one with copies of it. */
static void compare_ones(unsigned int op, unsigned int type, unsigned int level,
			 unsigned int ones, int place)
{
	const struct openreg_kernels *k = openreg_kernels_at(level);
	bool test = op >= OPENREG_V_EQ && op <= OPENREG_V_GE;
	static unsigned char many[3][N * 8];
	const unsigned char *all[3], *one[3];
	int width = width_of(type), s, i;

	for (s = 0; s < 3; s++) {
		all[s] = one[s] = input[s];
		if (!(ones >> s & 1))
			continue;
		one[s] = input[s] + place * width;
		for (i = 0; i < N; i++)
			memcpy(many[s] + i * width, one[s], (size_t)width);
		all[s] = many[s];
	}
	memset(out[0], 0, N * 8);
	memset(out[1], 0, N * 8);
	k->op[op][type](out[0], all[0], all[1], all[2], N);
	k->ones[ones][op][type](out[1], one[0], one[1], one[2], N);
	compare(op_names[op], test ? OPENREG_VT_I32 : type, level);
}

static void test_ones(void **state)
{
	unsigned int level, op, type, ones, tried = 0;

	(void)state;
	for (type = 0; type < OPENREG_VT_END; type++) {
		random_seed(type);
		fill_inputs(type);
		for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
			const struct openreg_kernels *k =
				openreg_kernels_at(level);

			for (op = 0; k && op < OPENREG_V_END; op++) {
				for (ones = 1; ones < 8; ones++) {
					if (!k->ones[ones][op][type])
						continue;
					compare_ones(op, type, level, ones, 1);
					compare_ones(op, type, level, ones, 4);
					tried += level == OPENREG_ISA_BASE;
				}
			}
		}
	}
	assert_int_equal(tried, 2 * (4 * 11 + 2) + 3 * 4 * 2);
}

static void test_casts(void **state)
{
	const struct openreg_kernels *base =
		openreg_kernels_at(OPENREG_ISA_BASE);
	unsigned int level, dtype, type;

	(void)state;
	random_seed(9);
	fill_inputs(OPENREG_VT_F32);
	for (level = 1; level < OPENREG_ISA_LEVELS; level++) {
		const struct openreg_kernels *k = openreg_kernels_at(level);

		for (dtype = 1; k && dtype < OPENREG_DTYPE_END; dtype++) {
			for (type = 0; type < OPENREG_VT_END; type++) {
				base->load[dtype][type](out[0], input[0], 1, N);
				k->load[dtype][type](out[1], input[0], 1, N);
				compare("load", type, level);
				memset(out[0], 0, N * 8);
				memset(out[1], 0, N * 8);
				base->store[dtype][type](out[0], 1, input[1],
							 N);
				k->store[dtype][type](out[1], 1, input[1], N);
				compare("store",
					dtype == OPENREG_F32   ? OPENREG_VT_F32
					: dtype == OPENREG_F64 ? OPENREG_VT_F64
							       : OPENREG_VT_I32,
					level);
			}
		}
	}
}

static void test_folds(void **state)
{
	const struct openreg_kernels *base =
		openreg_kernels_at(OPENREG_ISA_BASE);
	unsigned int level, op, type;

	(void)state;
	for (type = 0; type < OPENREG_VT_END; type++) {
		random_seed(type);
		fill_small(type == OPENREG_VT_F32   ? OPENREG_F32
			   : type == OPENREG_VT_F64 ? OPENREG_F64
			   : type == OPENREG_VT_I32 ? OPENREG_I32
						    : OPENREG_I64,
			   input[0], N, -1000, 1000);
		for (level = 1; level < OPENREG_ISA_LEVELS; level++) {
			const struct openreg_kernels *k =
				openreg_kernels_at(level);

			for (op = 0; k && op < OPENREG_REDUCTIONS; op++) {
				union openreg_acc x = { .i = 1 };
				union openreg_acc y = { .i = 1 };

				if (!base->fold[op][type])
					continue;
				base->fold[op][type](&x, input[0], N);
				k->fold[op][type](&y, input[0], N);
				assert_memory_equal(&x, &y, sizeof(x));
			}
		}
	}
}

/* The kernels of softmax for rows that lie one after another. */
static void compare_rows(const struct openreg_kernels *base,
			 const struct openreg_kernels *k, unsigned int type,
			 size_t n)
{
	double value[2][3];

	base->most_of_rows[type](value[0], input[0], 3, n);
	k->most_of_rows[type](value[1], input[0], 3, n);
	assert_memory_equal(value[0], value[1], sizeof(value[0]));
	base->sum_of_rows[type](value[0], input[0], 3, n);
	k->sum_of_rows[type](value[1], input[0], 3, n);
	assert_memory_equal(value[0], value[1], sizeof(value[0]));
	memcpy(out[0], input[0], N * 8);
	memcpy(out[1], input[0], N * 8);
	base->subtract[1][type](out[0], value[0], 3, n);
	k->subtract[1][type](out[1], value[0], 3, n);
	base->multiply[1][type](out[0], value[0], 3, n);
	k->multiply[1][type](out[1], value[0], 3, n);
	assert_memory_equal(out[0], out[1], N * 8);
}

static void test_rows(void **state)
{
	const struct openreg_kernels *base =
		openreg_kernels_at(OPENREG_ISA_BASE);
	unsigned int level, type;
	size_t n;

	(void)state;
	for (type = OPENREG_VT_F32; type <= OPENREG_VT_F64; type++) {
		random_seed(type);
		fill_small(type == OPENREG_VT_F32 ? OPENREG_F32 : OPENREG_F64,
			   input[0], N, -1000, 1000);
		for (level = 1; level < OPENREG_ISA_LEVELS; level++) {
			const struct openreg_kernels *k =
				openreg_kernels_at(level);

			for (n = 1; k && n < 150; n++)
				compare_rows(base, k, type, n);
		}
	}
}

static int setup(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		input[i] = calloc(N, 8);
	for (i = 0; i < 2; i++)
		out[i] = calloc(N, 8);
	return 0;
}

static int teardown(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		free(input[i]);
	for (i = 0; i < 2; i++)
		free(out[i]);
	return 0;
}

/* Elements at the end of a page. Those that the mask leaves out are in the next page. */
static void gather_once(const struct openreg_kernels *k, unsigned int log2,
			unsigned char *page, size_t width)
{
	enum { LINES = 33, SPAN = 400 };
	static unsigned char dst[(LINES * OPENREG_GATHER_WIDTH + 1) * 8];
	static const unsigned char zero[8];
	int64_t at[LINES], index[OPENREG_GATHER_WIDTH];
	size_t size = (size_t)1 << log2, i, j;
	bool is_run = random_range(0, 1);
	uint32_t mask[LINES];

	for (j = 0; j < OPENREG_GATHER_WIDTH; j++)
		index[j] = is_run ? (int64_t)j - 7 : random_range(-SPAN, SPAN);
	for (i = 0; i < LINES; i++) {
		at[i] = -random_range(0, SPAN);
		mask[i] = 0;
		for (j = 0; j < width; j++) {
			if (at[i] + index[j] < 0)
				mask[i] |= (uint32_t)random_range(0, 1) << j;
		}
	}
	memset(dst, 0xa5, sizeof(dst));
	k->gather[log2](dst, width, (uintptr_t)page + 4096, at, mask, index,
			LINES);
	for (i = 0; i < LINES; i++) {
		for (j = 0; j < width; j++)
			assert_memory_equal(
				dst + (i * width + j) * size,
				mask[i] >> j & 1
					? page + 4096 +
						  (at[i] + index[j]) *
							  (int64_t)size
					: zero,
				size);
	}
	for (i = LINES * width * size; i < sizeof(dst); i++)
		assert_int_equal(dst[i], 0xa5);
}

static void test_gathers(void **state)
{
	unsigned char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int level, i;

	(void)state;
	assert_ptr_not_equal(pages, MAP_FAILED);
	for (i = 0; i < 2 * 4096; i++)
		pages[i] = (unsigned char)random_u64();
	assert_int_equal(mprotect(pages + 2 * 4096, 2 * 4096, PROT_NONE), 0);
	for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
		const struct openreg_kernels *k = openreg_kernels_at(level);

		for (i = 0; k && i < 2000; i++)
			gather_once(k, i % 4, pages + 4096,
				    (size_t)random_range(
					    1, OPENREG_GATHER_WIDTH));
	}
	munmap(pages, 4 * 4096);
}

/* Any number of rows become columns; the kernel reads and writes no other elements. */
static void test_transpose(void **state)
{
	enum { MOST = 70 };
	unsigned int level, i;

	(void)state;
	for (i = 0; i < 200; i++) {
		int64_t rows = random_range(1, MOST);
		int64_t columns = random_range(1, MOST), j, k;
		int64_t ld = columns + random_range(0, 3);
		int64_t to_ld = rows + random_range(0, 3);
		size_t n = (size_t)((rows - 1) * ld + columns);
		size_t to_n = (size_t)((columns - 1) * to_ld + rows);
		uint16_t *from = malloc(n * 2), *to = malloc(to_n * 2);

		assert_non_null(from);
		assert_non_null(to);
		for (j = 0; j < (int64_t)n; j++)
			from[j] = (uint16_t)(j | 0x8000);
		for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
			const struct openreg_kernels *kernels =
				openreg_kernels_at(level);

			if (!kernels)
				continue;
			memset(to, 0, to_n * 2);
			kernels->transpose(to, to_ld, from, ld, (size_t)rows,
					   (size_t)columns);
			for (j = 0; j < (int64_t)to_n; j++) {
				k = j % to_ld;
				assert_int_equal(to[j],
						 k < rows ? from[k * ld +
								 j / to_ld]
							  : 0);
			}
		}
		free(from);
		free(to);
	}
}

/* Prints the levels that this test compares. */
static void test_levels(void **state)
{
	unsigned int level;

	(void)state;
	assert_non_null(openreg_kernels());
	for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
		const struct openreg_kernels *k = openreg_kernels_at(level);

		print_message("level %u: %s\n", level,
			      k ? k->name : "not on this host");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_casts),
		cmocka_unit_test(test_ones),
		cmocka_unit_test(test_folds), cmocka_unit_test(test_rows),
		cmocka_unit_test(test_gathers),
		cmocka_unit_test(test_transpose),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
