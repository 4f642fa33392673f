/* SPDX-License-Identifier: MIT */
/*
 * Products of f32 on a matrix unit for bf16. A number is the sum of bf16
 * parts, each of which is what the ones before it leave, rounded: one holds a
 * bf16, two an f16, three an f32. Of the products of parts those count that an
 * f32 has room for.
 *
 * Panels hold PANEL rows of A or columns of B, STEP of k after STEP, and of
 * each step one part after the other.
 */
#ifndef OPENREG_AMX_H
#define OPENREG_AMX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPENREG_AMX_PANEL 32
#define OPENREG_AMX_STEP 32
#define OPENREG_AMX_PARTS_MAX 3

/* Bytes of one part of a step. */
#define OPENREG_AMX_PART ((size_t)OPENREG_AMX_PANEL * OPENREG_AMX_STEP * 2)

/* Bits of magnitudes, less 1, so that zeros are the greatest of all. */
struct openreg_amx_range {
	uint32_t least, most;
};

enum openreg_amx_side { OPENREG_AMX_A, OPENREG_AMX_B };

struct openreg_amx {
	/* Around calls of block() by one thread. */
	void (*begin)(void);
	void (*end)(void);
	/*
	 * A panel from f32 in lines of adjacent elements, ld elements apart,
	 * which run along k or else along the panel. Widens the range.
	 */
	void (*split)(void *panel, const void *from, int64_t ld, bool along_k,
		      size_t steps, unsigned int parts,
		      enum openreg_amx_side side,
		      struct openreg_amx_range *range);
	/*
	 * One step of a panel of A from lines: the step's k of one row, split
	 * before. Row i is line[i] + shift, or zeros without bit i of mask.
	 * Lines are rows of steps of panels of A, PANEL of them after PANEL.
	 */
	void (*pick_rows)(void *step, const void *lines, const int64_t *line,
			  int64_t shift, uint32_t mask, unsigned int parts);
	/* One step of a panel of B: the lines are the step's, each a k. */
	void (*pick_columns)(void *step, const void *lines, const int64_t *line,
			     int64_t shift, uint32_t mask, unsigned int parts);
	/* to[j][i] = from[i][j], rows x columns of them, in whole sixteens. */
	void (*transpose)(float *to, int64_t to_ld, const float *from,
			  int64_t from_ld, int64_t rows, int64_t columns);
	/*
	 * sums (PANEL rows of PANEL f32, dense) = or += a panel of A times one
	 * of B. next: the sums of the call after this one.
	 */
	void (*block)(float *sums, const void *a, const void *b, size_t steps,
		      unsigned int parts, bool accumulate, const float *next);
};

/* NULL: this host, or oneDNN's limit for it, has none. */
const struct openreg_amx *openreg_amx(void);

#define OPENREG_AMX_RANGE ((struct openreg_amx_range){ UINT32_MAX, 0 })

/*
 * Is the sum of k products within what the unit does as f32 does? It makes
 * subnormal numbers zero, and parts of infinities are not numbers.
 */
bool openreg_amx_in_range(const struct openreg_amx_range *a,
			  const struct openreg_amx_range *b, int64_t k);

#endif
