/* SPDX-License-Identifier: MIT */
/*
 * Kernels: FMOD, REMAINDER and DIV_FLOOR in F32. They divide in f64. While the quotient
 * has at most 29 bits, its integer part is off by at most one, and the subtraction is
 * exact. libm's fmodf() computes the others. So results are exact at every level.
 */
#ifndef OPENREG_KERNEL_MODULO_H
#define OPENREG_KERNEL_MODULO_H

#include "kernel_types.h"

#define MODULO_BLOCK 64

static inline bool modulo_is_near(double a, double b)
{
	return a / b < 0x1p29 && b < (double)INFINITY;
}

/* n is at most MODULO_BLOCK. */
static void modulo_f32(float *r, const float *x, const float *y, size_t n)
{
	unsigned int far = 0;
	size_t i;

	INDEPENDENT
	for (i = 0; i < n; i++) {
		double a = (double)fabsf(x[i]), b = (double)fabsf(y[i]), m;
		bool near = modulo_is_near(a, b);

		m = a - (double)(int32_t)(near ? a / b : 0) * b;
		m = m < 0 ? m + b : m;
		r[i] = copysignf((float)m, x[i]);
		far |= !near;
	}
	for (i = 0; i < n && far; i++) {
		if (!modulo_is_near((double)fabsf(x[i]), (double)fabsf(y[i])))
			r[i] = fmodf(x[i], y[i]);
	}
}

/* Gives the remainder the sign of the divisor. */
static inline float towards_divisor(float r, float y)
{
	return ((r != 0) & ((r < 0) != (y < 0))) ? r + y : r;
}

static inline float floored_quotient(float x, float y, float r)
{
	float q = (x - r) / y, f;

	q = ((r != 0) & ((r < 0) != (y < 0))) ? q - 1 : q;
	f = floorf(q);
	f = q - f > 0.5f ? f + 1 : f;
	f = q == 0 ? copysignf(0, x / y) : f;
	return y == 0 ? x / y : f;
}

#define MODULO(op, expr)                                                       \
	static void op_##op##_f32(void *dst, const void *a, const void *b,     \
				  const void *c, size_t n)                     \
	{                                                                      \
		const float *x = a, *y = b;                                    \
		float *d = dst, r[MODULO_BLOCK];                               \
		size_t i, m;                                                   \
                                                                               \
		(void)c;                                                       \
		for (; n; n -= m, x += m, y += m, d += m) {                    \
			m = n < MODULO_BLOCK ? n : MODULO_BLOCK;               \
			modulo_f32(r, x, y, m);                                \
			INDEPENDENT                                            \
			for (i = 0; i < m; i++)                                \
				d[i] = expr;                                   \
		}                                                              \
	}

MODULO(FMOD, r[i])
MODULO(REMAINDER, towards_divisor(r[i], y[i]))
MODULO(DIV_FLOOR, floored_quotient(x[i], y[i], r[i]))

#endif
