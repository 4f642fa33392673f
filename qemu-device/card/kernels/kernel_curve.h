/* SPDX-License-Identifier: MIT */
/*
 * Kernels: erf and tanh in F32, by tables of polynomials. SLEEF's functions are as exact,
 * but take more than twice as long. The code fuses no multiply-add, and every level takes
 * the same steps, so all levels give the same bits.
 */
#ifndef OPENREG_KERNEL_CURVE_H
#define OPENREG_KERNEL_CURVE_H

#include "kernel_curve_tables.h"
#include "kernel_types.h"

#define PIECES 32

#if VECTOR_BITS
#define CURVE_LANES (VECTOR_BITS / 32)
#else
#define CURVE_LANES 4
#endif

typedef float lanes __attribute__((vector_size(4 * CURVE_LANES)));
typedef int32_t lane_bits __attribute__((vector_size(4 * CURVE_LANES)));

/* Returns table[at]; the table has 32 entries. */
static inline lanes lookup(const float *table, lane_bits at)
{
#if VECTOR_BITS == 512
	return (lanes)_mm512_permutex2var_ps(_mm512_loadu_ps(table),
					     (__m512i)at,
					     _mm512_loadu_ps(table + 16));
#elif VECTOR_BITS == 256
	__m256i i = (__m256i)at;
	__m256 by8 = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28));
	__m256 by16 = _mm256_castsi256_ps(_mm256_slli_epi32(i, 27));
	__m256 v[4];
	int k;

	for (k = 0; k < 4; k++)
		v[k] = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8 * k),
						i);
	v[0] = _mm256_blendv_ps(v[0], v[1], by8);
	v[2] = _mm256_blendv_ps(v[2], v[3], by8);
	return (lanes)_mm256_blendv_ps(v[0], v[2], by16);
#else
	lanes v;
	int i;

	for (i = 0; i < CURVE_LANES; i++)
		v[i] = table[at[i]];
	return v;
#endif
}

static inline lanes all_lanes(float x)
{
	return x - (lanes){ 0 };
}

static inline lanes choose(lane_bits which, lanes a, lanes b)
{
	return (lanes)((which & (lane_bits)a) | (~which & (lane_bits)b));
}

/* An odd function that has its limit from the end of the last piece on. */
static inline __attribute__((always_inline)) lanes
curve_at(lanes x, const float *piece, int degree, float step,
	 const float *near, int near_degree, int near_last)
{
	const float round = 0x1.8p23f;
	const lanes last = all_lanes(step * (PIECES - 0.51f));
	lane_bits sign = (lane_bits)x & INT32_MIN;
	lanes a = (lanes)((lane_bits)x & INT32_MAX);
	lanes c, t, p, q, u = x * x;
	lane_bits at;
	int i;

	a = choose(a < last, a, last);
	/* The addition of `round` leaves the number of the piece in the lowest bits. */
	c = a * (1 / step) + round;
	at = (lane_bits)c & (PIECES - 1);
	t = a - (c - round) * step;
	p = lookup(piece + degree * PIECES + PIECES, at);
	for (i = degree; i > 0; i--)
		p = lookup(piece + i * PIECES, at) + t * p;
	p = lookup(piece, at) + p;
	q = all_lanes(near[near_degree]);
	for (i = near_degree - 1; i >= 0; i--)
		q = near[i] + u * q;
	q = x + x * q;
	p = choose(at > near_last, p, q);
	return (lanes)((lane_bits)p | sign);
}

#define CURVE(op, name, NAME)                                              \
	static inline lanes curve_##name(lanes x)                              \
	{                                                                      \
		lanes y = curve_at(x, name##_piece, NAME##_DEGREE,             \
				    NAME##_STEP, name##_near,                  \
				    NAME##_NEAR_DEGREE, NAME##_NEAR);          \
                                                                               \
		return choose(x == x, y, x);                                   \
	}                                                                      \
	static void op_##op##_f32(void *dst, const void *a, const void *b,     \
				  const void *c, size_t n)                     \
	{                                                                      \
		const float *x = a;                                            \
		float *d = dst;                                                \
		lanes v;                                                       \
                                                                               \
		(void)b;                                                       \
		(void)c;                                                       \
		for (; n >= CURVE_LANES; n -= CURVE_LANES) {                   \
			memcpy(&v, x, sizeof(v));                              \
			v = curve_##name(v);                                   \
			memcpy(d, &v, sizeof(v));                              \
			x += CURVE_LANES;                                      \
			d += CURVE_LANES;                                      \
		}                                                              \
		if (!n)                                                        \
			return;                                                \
		v = all_lanes(0);                                              \
		memcpy(&v, x, n * sizeof(*x));                                 \
		v = curve_##name(v);                                           \
		memcpy(d, &v, n * sizeof(*d));                                 \
	}

CURVE(ERF, erf, ERF)
CURVE(TANH, tanh, TANH)

#endif
