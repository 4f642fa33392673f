/* SPDX-License-Identifier: MIT */
/*
 * Tensors of bf16 for tests on hosts that multiply bf16 faster than f32. They hold whole
 * numbers: each sum is exact in f32, whatever its order, and is rounded once.
 */
#ifndef HALVES_H
#define HALVES_H

#include "engine-harness.h"

#define DIMS 7

/* Numbers, dense and row-major, and how memory holds them. */
struct tensor {
	unsigned int ndim;
	int64_t size[DIMS], count;
	struct layout at;
	float *value;
	uint16_t *memory;
};

enum order { DENSE, CHANNELS_LAST, TURNED, GAPS, APART };

uint16_t as_half(float x);

/* Numbers from -3 to 3. */
void make(struct tensor *t, enum order order);
/* Along these dimensions all elements are one; it has the last one's number. */
void repeat(struct tensor *t, unsigned int dims);
void release(struct tensor *t);
void soil(struct tensor *t);
/* The result against t's numbers; NaN is any NaN. */
void expect_values(const struct tensor *t);
/* A tensor's strides over a packet's dimensions, of which it has some. */
void operand(struct openreg_args *args, const struct tensor *t,
	     unsigned int dims);

#endif
