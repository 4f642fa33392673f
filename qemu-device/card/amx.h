/* SPDX-License-Identifier: MIT */
/*
 * Products of f32 on a matrix unit for bf16. A number is split into a sum of bf16 parts.
 * Each part is the rest that the earlier parts leave, rounded. A bf16 needs one part, an
 * f16 two, an f32 three. The unit computes only those products of parts that matter at
 * the precision of f32.
 *
 * A panel holds PANEL rows of A or PANEL columns of B, as a sequence of steps of STEP
 * values of k. A step holds its parts one after the other.
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

/* Bits of magnitudes minus 1: a zero wraps to the greatest value. */
struct openreg_amx_range {
	uint32_t least, most;
};

enum openreg_amx_side { OPENREG_AMX_A, OPENREG_AMX_B };

struct openreg_amx {
	/* A thread calls these before and after its calls of block(). */
	void (*begin)(void);
	void (*end)(void);
	/*
	 * Makes a panel from f32. The lines of adjacent elements are ld elements
	 * apart; they run along k if along_k, else along the panel. Widens *range.
	 */
	void (*split)(void *panel, const void *from, int64_t ld, bool along_k,
		      size_t steps, unsigned int parts,
		      enum openreg_amx_side side,
		      struct openreg_amx_range *range);
	/*
	 * Makes one step of a panel of A from lines that are already split; a line
	 * holds the step's values of k of one row. Row i of the step is line
	 * line[i] + shift, or zeros if bit i of mask is 0. The lines are the rows
	 * of steps of panels of A, PANEL lines for each step.
	 */
	void (*pick_rows)(void *step, const void *lines, const int64_t *line,
			  int64_t shift, uint32_t mask, unsigned int parts);
	/* Makes one step of a panel of B; each line has one value of k. */
	void (*pick_columns)(void *step, const void *lines, const int64_t *line,
			     int64_t shift, uint32_t mask, unsigned int parts);
	/* to[j][i] = from[i][j]; rows and columns are multiples of 16. */
	void (*transpose)(float *to, int64_t to_ld, const float *from,
			  int64_t from_ld, int64_t rows, int64_t columns);
	/*
	 * sums (PANEL rows of PANEL f32, dense) = a panel of A times a panel of B,
	 * or += with accumulate. next: the sums of the next call, to prefetch.
	 */
	void (*block)(float *sums, const void *a, const void *b, size_t steps,
		      unsigned int parts, bool accumulate, const float *next);
};

/* Returns NULL if the host has no matrix unit, or if oneDNN may not use it. */
const struct openreg_amx *openreg_amx(void);

#define OPENREG_AMX_RANGE ((struct openreg_amx_range){ UINT32_MAX, 0 })

/*
 * Does the unit compute sums of k products in these ranges as f32 would? It would not
 * with subnormal numbers, which it makes zero, nor with infinities: their parts are NaN.
 */
bool openreg_amx_in_range(const struct openreg_amx_range *a,
			  const struct openreg_amx_range *b, int64_t k);

#endif
