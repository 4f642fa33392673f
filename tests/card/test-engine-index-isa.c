// SPDX-License-Identifier: MIT
/* Tiles of INDEX give the same bits at each level of the instruction set. */
#include <math.h>

#include "engine-harness.h"
#include "kernels/kernels.h"

#define POINTS 203 /* leaves a remainder in every loop */
#define RUN 19
#define ELEMENTS 8192

static unsigned char start[ELEMENTS * 8], source[ELEMENTS * 8];
static unsigned char out[2][ELEMENTS * 8];

static openreg_index_fn *find(const struct openreg_kernels *k, unsigned int mode,
			      unsigned int dtype)
{
	int size = __builtin_ctz(openreg_dtype_size(dtype));

	if (mode == OPENREG_INDEX_GET)
		return k->index_get[size];
	if (mode == OPENREG_INDEX_PUT)
		return k->index_put[size];
	return k->index_combine[dtype][mode - OPENREG_INDEX_ADD];
}

static void fill(unsigned char *to, unsigned int dtype)
{
	unsigned int size = openreg_dtype_size(dtype);
	int64_t i, number;
	double x;

	for (i = 0; i < ELEMENTS; i++) {
		x = i % 50 ? (random_unit() - 0.5) * 100 : NAN;
		number = random_range(-100, 100);
		if (dtype < OPENREG_I8)
			openreg_convert(to + i * size, dtype, 1, &x,
					OPENREG_F64, 1, 1);
		else
			openreg_convert(to + i * size, dtype, 1, &number,
					OPENREG_I64, 1, 1);
	}
}

static void compare(unsigned int mode, unsigned int dtype, unsigned int level)
{
	unsigned int size = openreg_dtype_size(dtype);
	int64_t i;

	for (i = 0; i < ELEMENTS; i++) {
		bool nan = dtype < OPENREG_I8 &&
			   isnan(element_get(dtype, out[0], i)) &&
			   isnan(element_get(dtype, out[1], i));

		if (!nan && memcmp(out[0] + i * size, out[1] + i * size, size))
			fail_msg("mode %u, dtype %u, level %u: element %d differs",
				 mode, dtype, level, (int)i);
	}
}

static void run_at(const struct openreg_kernels *k, unsigned int mode,
		   unsigned int dtype, struct openreg_index_tile tile,
		   unsigned char *to)
{
	memcpy(to, start, sizeof(start));
	tile.dst = (char *)to;
	tile.src = (const char *)source;
	find(k, mode, dtype)(&tile);
}

/* Runs of one element, dense runs and strided runs, at positions that repeat. */
static void try_tiles(unsigned int mode, unsigned int dtype, unsigned int level)
{
	const struct openreg_kernels *base = openreg_kernels_at(OPENREG_ISA_BASE);
	const struct openreg_kernels *k = openreg_kernels_at(level);
	int64_t size = openreg_dtype_size(dtype), i;
	int64_t off[POINTS + OPENREG_INDEX_AHEAD];
	int try;

	for (try = 0; k && try < 12; try++) {
		int64_t run = try % 3 ? RUN : 1, step = try % 3 == 2 ? 2 : 1;
		struct openreg_index_tile tile = {
			.off = off,
			.walk = random_range(1, POINTS),
			.run = run,
			.direct = (try & 4 ? run * step : 1) * size,
			.dst_run = step * size,
			.src_run = step * size,
		};

		for (i = 0; i < POINTS + OPENREG_INDEX_AHEAD; i++)
			off[i] = random_range(0, 300) * size;
		fill(start, dtype);
		fill(source, dtype);
		run_at(base, mode, dtype, tile, out[0]);
		run_at(k, mode, dtype, tile, out[1]);
		compare(mode, dtype, level);
	}
}

static void test_tiles(void **state)
{
	unsigned int level, mode, dtype;

	(void)state;
	for (level = 1; level < OPENREG_ISA_LEVELS; level++) {
		for (mode = 0; mode < OPENREG_INDEX_END; mode++) {
			for (dtype = 0; dtype < OPENREG_DTYPE_END; dtype++) {
				if (openreg_dtype_size(dtype) &&
				    (dtype <= OPENREG_BOOL ||
				     mode <= OPENREG_INDEX_PUT))
					try_tiles(mode, dtype, level);
			}
		}
	}
}

/* Indices of both types, dense and strided. Finds an index out of range at any point. */
static void offsets_at(const struct openreg_kernels *k, bool wide)
{
	int64_t from[2 * POINTS], index[POINTS], step = random_range(1, 2);
	struct openreg_index_range range = { .extent = 1000, .step = 12 };
	int64_t n = random_range(1, POINTS), i, bad = random_range(0, n - 1);
	uint64_t off[POINTS];
	int32_t narrow[2 * POINTS];

	range.wrap = random_range(0, 1);
	for (i = 0; i < 2 * POINTS; i++) {
		from[i] = random_range(range.wrap ? -1000 : 0, 999);
		narrow[i] = (int32_t)from[i];
	}
	k->index_walk(off, 8, (size_t)n);
	k->index_read[wide](index, wide ? (uintptr_t)from : (uintptr_t)narrow,
			    step * (wide ? 8 : 4), (size_t)n);
	assert_true(k->index_offsets(&range, index, off, (size_t)n));
	for (i = 0; i < n; i++) {
		int64_t at = from[i * step];

		assert_int_equal(index[i], at);
		assert_int_equal(off[i], 8 * i + (at < 0 ? at + 1000 : at) * 12);
	}
	index[bad] = range.wrap ? -1001 : -1;
	assert_false(k->index_offsets(&range, index, off, (size_t)n));
	index[bad] = 1000;
	assert_false(k->index_offsets(&range, index, off, (size_t)n));
}

static void test_offsets(void **state)
{
	unsigned int level, i;

	(void)state;
	for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
		const struct openreg_kernels *k = openreg_kernels_at(level);

		for (i = 0; k && i < 1000; i++)
			offsets_at(k, i % 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tiles),
		cmocka_unit_test(test_offsets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
