/* SPDX-License-Identifier: MIT */
/*
 * Tensors of bf16 for tests on hosts that multiply bf16 faster than f32. Their elements
 * are small integers, so each sum is exact in f32 in any order, and is rounded once.
 */
#ifndef HALVES_H
#define HALVES_H

#include "engine-harness.h"

#define DIMS 7

struct tensor {
	unsigned int ndim;
	int64_t size[DIMS], count;
	struct layout at; /* of memory */
	float *value; /* the numbers, dense and row-major */
	uint16_t *memory; /* the same numbers as bf16 */
};

enum order { DENSE, CHANNELS_LAST, TURNED, GAPS, APART };

uint16_t as_half(float x);

/* Makes a tensor of random integers from -3 to 3. */
void make(struct tensor *t, enum order order);
/* Sets the strides along these dimensions to 0: shared elements get their last value. */
void repeat(struct tensor *t, unsigned int dims);
void release(struct tensor *t);
/* Fills memory with NaN. */
void soil(struct tensor *t);
/* Compares memory with value; any NaN equals any other NaN. */
void expect_values(const struct tensor *t);
/* Adds t as an operand, with stride 0 along dimension d if bit d of dims is 0. */
void operand(struct openreg_args *args, const struct tensor *t,
	     unsigned int dims);

#endif
