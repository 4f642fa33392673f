// SPDX-License-Identifier: MIT
/*
 * The interface of amx.h in plain C, for hosts without a matrix unit. A test linked with
 * this file uses it in place of the host's unit. A panel has 32 rows or columns, one
 * after the other, each with the k elements of a step.
 */
#include <stdlib.h>
#include <string.h>

#include "amx.h"

#define PANEL OPENREG_AMX_PANEL
#define STEP OPENREG_AMX_STEP
#define PARTS OPENREG_AMX_PARTS_MAX

typedef uint16_t part[PANEL][STEP];
typedef float numbers[PANEL][STEP];

_Static_assert(sizeof(part) == OPENREG_AMX_PART, "a part of a step");

static _Thread_local bool configured;

static void expect(bool good)
{
	if (!good)
		abort();
}

static void begin(void)
{
	expect(!configured);
	configured = true;
}

static void end(void)
{
	expect(configured);
	configured = false;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static void note(struct openreg_amx_range *range, float x)
{
	uint32_t bits = bits_of(x) & 0x7fffffff;

	if (bits > range->most)
		range->most = bits;
	if (bits - 1 < range->least)
		range->least = bits - 1;
}

static void split(void *panel, const void *from, int64_t ld, bool along_k,
		  size_t steps, unsigned int parts, enum openreg_amx_side side,
		  struct openreg_amx_range *range)
{
	const float *f = from;
	int64_t i, k, all = (int64_t)steps * STEP;
	unsigned int p;
	part *to = panel;

	(void)side;
	expect((uintptr_t)panel % 64 == 0);
	for (i = 0; i < PANEL; i++) {
		for (k = 0; k < all; k++) {
			float x = along_k ? f[i * ld + k] : f[k * ld + i];

			note(range, x);
			for (p = 0; p < parts; p++) {
				uint32_t bits = bits_of(x) + 0x8000;

				to[k / STEP * parts + p][i][k % STEP] =
					(uint16_t)(bits >> 16);
				x -= float_of(bits & 0xffff0000);
			}
		}
	}
}

static void pick(void *step, const void *lines, const int64_t *line,
		 int64_t shift, uint32_t mask, unsigned int parts, bool as_k)
{
	const part *from = lines;
	part *to = step;
	unsigned int i, k, p;

	memset(to, 0, parts * sizeof(*to));
	for (i = 0; i < PANEL; i++) {
		int64_t l = line[i] + shift;

		if (!(mask >> i & 1))
			continue;
		for (p = 0; p < parts; p++) {
			for (k = 0; k < STEP; k++) {
				uint16_t x = from[l / PANEL * parts + p]
						 [l % PANEL][k];

				to[p][as_k ? k : i][as_k ? i : k] = x;
			}
		}
	}
}

static void pick_rows(void *step, const void *lines, const int64_t *line,
		      int64_t shift, uint32_t mask, unsigned int parts)
{
	pick(step, lines, line, shift, mask, parts, false);
}

static void pick_columns(void *step, const void *lines, const int64_t *line,
			 int64_t shift, uint32_t mask, unsigned int parts)
{
	pick(step, lines, line, shift, mask, parts, true);
}

static void transpose(float *to, int64_t to_ld, const float *from,
		      int64_t from_ld, int64_t rows, int64_t columns)
{
	int64_t i, j;

	expect(rows % 16 == 0 && columns % 16 == 0);
	for (i = 0; i < rows; i++) {
		for (j = 0; j < columns; j++)
			to[j * to_ld + i] = from[i * from_ld + j];
	}
}

/* Transposes to k first, so that a row of sums is one inner loop. */
static void spread(numbers *to, const part *from, unsigned int parts)
{
	unsigned int i, k, p;

	for (p = 0; p < parts; p++) {
		for (i = 0; i < PANEL; i++) {
			for (k = 0; k < STEP; k++)
				to[p][k][i] = float_of(
					(uint32_t)from[p][i][k] << 16);
		}
	}
}

/* Adds up a step's products separately, in two halves, as the unit does. */
static void multiply(float *sums, numbers a, numbers b)
{
	unsigned int i, j, k;

	for (i = 0; i < PANEL; i++, sums += PANEL) {
		float half[2][PANEL] = { 0 };

		for (k = 0; k < STEP; k++) {
			for (j = 0; j < PANEL; j++)
				half[k & 1][j] += a[k][i] * b[k][j];
		}
		for (j = 0; j < PANEL; j++)
			sums[j] += half[0][j] + half[1][j];
	}
}

static void block(float *sums, const void *a, const void *b, size_t steps,
		  unsigned int parts, bool accumulate, const float *next)
{
	static _Thread_local numbers x[PARTS], y[PARTS];
	unsigned int p, q;
	size_t s;

	(void)next;
	expect(configured);
	if (!accumulate)
		memset(sums, 0, PANEL * PANEL * sizeof(*sums));
	for (s = 0; s < steps; s++) {
		spread(x, (const part *)a + s * parts, parts);
		spread(y, (const part *)b + s * parts, parts);
		for (p = 0; p < parts; p++) {
			/* Add the small parts first: they lose less then. */
			for (q = parts; q-- > 0;) {
				if (p + q < PARTS)
					multiply(sums, x[p], y[q]);
			}
		}
	}
}

const struct openreg_amx *openreg_amx(void)
{
	static const struct openreg_amx unit = {
		.begin = begin,
		.end = end,
		.split = split,
		.pick_rows = pick_rows,
		.pick_columns = pick_columns,
		.transpose = transpose,
		.block = block,
	};

	return &unit;
}
