// SPDX-License-Identifier: MIT
/* Compares the kernels for weighted lines of each level with plain loops. */
#include "engine-harness.h"
#include "kernels/kernels.h"

#define SIZE 8192
#define LINES 40
#define ALIGNED _Alignas(64)

static ALIGNED float source[SIZE], other[SIZE], out[SIZE], weights[SIZE];
static float bias[OPENREG_LANES];
static int64_t at[LINES];

/* Sums of small integers are exact in any order. */
static void fill(size_t lines, int64_t most)
{
	size_t i;

	fill_small(OPENREG_F32, source, SIZE, -9, 9);
	fill_small(OPENREG_F32, other, SIZE, -9, 9);
	fill_small(OPENREG_F32, weights, SIZE, -9, 9);
	fill_small(OPENREG_F32, out, SIZE, -9, 9);
	fill_small(OPENREG_F32, bias, OPENREG_LANES, -9, 9);
	for (i = 0; i < lines; i++)
		at[i] = random_range(0, most);
}

static void check(float have, double want)
{
	if ((double)have != want)
		fail_msg("%g is not %g", (double)have, want);
}

static void slide_once(const struct openreg_slide_kernel *k)
{
	size_t lines = (size_t)random_range(0, LINES), r, i, j;
	size_t ld = k->columns + 3, step = k->rows + (size_t)random_range(0, 9);
	bool has_bias = random_range(0, 1);
	static float to[SIZE];

	fill(lines, SIZE - k->columns);
	memcpy(to, out, sizeof(to));
	k->run(to, ld, source, at, weights, step, has_bias ? bias : NULL,
	       lines);
	for (r = 0; r < k->rows; r++) {
		for (i = 0; i < k->columns; i++) {
			double sum = (double)(has_bias ? bias[r]
						       : out[r * ld + i]);

			for (j = 0; j < lines; j++)
				sum += (double)weights[j * step + r] *
				       (double)source[(size_t)at[j] + i];
			check(to[r * ld + i], sum);
		}
	}
}

static void slide_dot_once(const struct openreg_slide_kernel *k)
{
	size_t n = (size_t)random_range(1, 12) * 16, ld = n + 5, r, i, j;
	static float sums[SIZE];

	fill(k->lines, SIZE - (int64_t)n);
	memcpy(sums, out, sizeof(sums));
	k->dot(sums, LINES, other, ld, source, at, n);
	for (r = 0; r < k->rows; r++) {
		for (j = 0; j < k->lines; j++) {
			double sum = (double)out[r * LINES + j];

			for (i = 0; i < n; i++)
				sum += (double)other[r * ld + i] *
				       (double)source[(size_t)at[j] + i];
			check(sums[r * LINES + j], sum);
		}
	}
}

static void lanes_once(const struct openreg_lanes_kernel *k)
{
	size_t lines = (size_t)random_range(0, LINES), i, j, lane;
	size_t n = (size_t)random_range(1, 40);
	int64_t step = random_range(1, 3) * OPENREG_LANES;

	fill(lines, SIZE - 40 * step);
	k->run(out, source, step, at, weights, bias, lines, n);
	for (i = 0; i < n * OPENREG_LANES; i++) {
		double sum;

		lane = i % OPENREG_LANES;
		sum = (double)bias[lane];
		for (j = 0; j < lines; j++)
			sum += (double)weights[j * OPENREG_LANES + lane] *
			       (double)source[at[j] + (int64_t)lane +
					      (int64_t)(i / OPENREG_LANES) *
						      step];
		check(out[i], sum);
	}
}

static void lanes_dot_once(const struct openreg_lanes_kernel *k)
{
	size_t lines = (size_t)random_range(1, LINES / k->lines) * k->lines;
	size_t n = (size_t)random_range(1, 40), i, j, lane;
	int64_t step = random_range(1, 3) * OPENREG_LANES;
	static ALIGNED float sums[SIZE];

	fill(lines, SIZE - 40 * step);
	memcpy(sums, out, sizeof(sums));
	k->dot(sums, other, source, step, at, lines, n);
	for (j = 0; j < lines * OPENREG_LANES; j++) {
		double sum = (double)out[j];

		lane = j % OPENREG_LANES;
		for (i = 0; i < n; i++)
			sum += (double)other[i * OPENREG_LANES + lane] *
			       (double)source[at[j / OPENREG_LANES] +
					      (int64_t)lane +
					      (int64_t)i * step];
		check(sums[j], sum);
	}
}

/* Copies elements to rows and back; the kernels write nothing else. */
static void copy_lanes(const struct openreg_lanes_kernel *k)
{
	size_t n = (size_t)random_range(1, 60), i, lane;
	int64_t ld = random_range((int64_t)n, 70);

	fill(0, 0);
	memset(out, 0, sizeof(out));
	k->to_rows(out, ld, source, n);
	for (lane = 0; lane < OPENREG_LANES; lane++) {
		for (i = 0; i < (size_t)ld; i++)
			check(out[lane * (size_t)ld + i],
			      i < n ? (double)source[i * OPENREG_LANES + lane]
				    : 0);
	}
	memset(other, 0, sizeof(other));
	k->from_rows(other, out, ld, n);
	for (i = 0; i < SIZE; i++)
		check(other[i],
		      i < n * OPENREG_LANES ? (double)source[i] : 0);
}

static void test_kernels(void **state)
{
	unsigned int level, i;

	(void)state;
	for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
		const struct openreg_kernels *k = openreg_kernels_at(level);

		random_seed(level);
		for (i = 0; k && i < 100; i++) {
			slide_once(&k->slide[i % 3]);
			slide_dot_once(&k->slide[i % 2]);
			lanes_once(&k->lanes);
			lanes_dot_once(&k->lanes);
			copy_lanes(&k->lanes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_kernels) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
