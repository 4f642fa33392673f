/* SPDX-License-Identifier: MIT */
/*
 * Kernels: products of rows in f32 with columns of small integers that have scales. The
 * integers of a column are adjacent.
 */
#ifndef OPENREG_KERNEL_DOTS_H
#define OPENREG_KERNEL_DOTS_H

#include "kernel_gemm.h"

#define DOTS_LANES (GEMM_BYTES / 4)

/* Unrolls the loops over rows and columns, so that their sums are in registers. */
#ifdef __clang__
#define DOTS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DOTS_UNROLL _Pragma("GCC unroll 4")
#endif

typedef int32_t vec_n __attribute__((vector_size(GEMM_BYTES)));

/* DOTS_LANES bytes as integers. */
static inline __attribute__((always_inline)) vec_n dots_load(const uint8_t *from)
{
#if VECTOR_BITS == 512
	return (vec_n)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif VECTOR_BITS == 256
	return (vec_n)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
	vec_n n;
	int i;

	for (i = 0; i < DOTS_LANES; i++)
		n[i] = (int8_t)from[i];
	return n;
#endif
}

static inline __attribute__((always_inline)) vec_f32 dots_add(vec_f32 s, const float *a,
							       vec_n q)
{
	vec_f32 x;

	memcpy(&x, a, sizeof(x));
	return FMA_f32(x, __builtin_convertvector(q, vec_f32), s);
}

static inline float dots_sum(vec_f32 x)
{
	float s = 0;
	int i;

	for (i = 0; i < DOTS_LANES; i++)
		s += x[i];
	return s;
}

static inline int dots_low(uint8_t pair)
{
	return ((pair & 15) ^ 8) - 8;
}

/* The bytes of a group that fill no vector. */
static inline float dots_tail(const float *a, const float *odd, const uint8_t *q,
			      size_t n, bool i4)
{
	float s = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		if (i4)
			s += a[i] * (float)dots_low(q[i]) +
			     odd[i] * (float)dots_low(q[i] >> 4);
		else
			s += a[i] * (float)(int8_t)q[i];
	}
	return s;
}

/* R rows, C columns at a time. */
static inline __attribute__((always_inline)) void
dots(struct openreg_dots *d, const int R, const int C, const bool i4, const int first)
{
	const size_t bytes = (i4 ? d->k / 2 : d->k), part = bytes / d->groups;
	const size_t whole = part / DOTS_LANES * DOTS_LANES;
	vec_f32 all[OPENREG_DOTS_ROWS][OPENREG_DOTS_COLUMNS];
	float tail[OPENREG_DOTS_ROWS][OPENREG_DOTS_COLUMNS];
	size_t g, i, at;
	int r, c;

	DOTS_UNROLL
	for (r = 0; r < R; r++) {
		DOTS_UNROLL
		for (c = 0; c < C; c++) {
			all[r][c] = (vec_f32){ 0 };
			tail[r][c] = 0;
		}
	}
	for (g = 0, at = 0; g < d->groups; g++, at += part) {
		vec_f32 s[OPENREG_DOTS_ROWS][OPENREG_DOTS_COLUMNS];

		DOTS_UNROLL
		for (r = 0; r < R; r++)
			DOTS_UNROLL
			for (c = 0; c < C; c++)
				s[r][c] = (vec_f32){ 0 };
		for (i = at; i < at + whole; i += DOTS_LANES) {
			DOTS_UNROLL
			for (c = 0; c < C; c++) {
				vec_n q = dots_load(d->q[first + c] + i);

				DOTS_UNROLL
				for (r = 0; r < R; r++) {
					const float *a = d->a + (size_t)r * d->k + i;

					if (!i4) {
						s[r][c] = dots_add(s[r][c], a, q);
						continue;
					}
					s[r][c] = dots_add(s[r][c], a, q << 28 >> 28);
					s[r][c] = dots_add(s[r][c], a + bytes, q >> 4);
				}
			}
		}
		DOTS_UNROLL
		for (r = 0; r < R; r++) {
			DOTS_UNROLL
			for (c = 0; c < C; c++) {
				float scale = d->scale[g * d->ld + first + c];
				const float *a = d->a + (size_t)r * d->k + i;

				all[r][c] = FMA_f32(s[r][c], scale - (vec_f32){ 0 },
						    all[r][c]);
				if (whole < part)
					tail[r][c] += scale *
						      dots_tail(a, a + bytes,
								d->q[first + c] + i,
								part - whole, i4);
			}
		}
	}
	for (g = 0; d->sums && g < d->groups; g++) {
		const float *zero = d->zero + g * d->ld + first;

		DOTS_UNROLL
		for (r = 0; r < R; r++) {
			float sum = d->sums[(size_t)r * d->groups + g];

			DOTS_UNROLL
			for (c = 0; c < C; c++)
				tail[r][c] += zero[c] * sum;
		}
	}
	DOTS_UNROLL
	for (r = 0; r < R; r++) {
		DOTS_UNROLL
		for (c = 0; c < C; c++)
			d->out[r][first + c] = dots_sum(all[r][c]) + tail[r][c];
	}
}

static void dots_one_i8(struct openreg_dots *d)
{
	dots(d, 1, OPENREG_DOTS_COLUMNS, false, 0);
}

static void dots_one_i4(struct openreg_dots *d)
{
	dots(d, 1, OPENREG_DOTS_COLUMNS, true, 0);
}

static void dots_rows_i8(struct openreg_dots *d)
{
	int c;

	for (c = 0; c < OPENREG_DOTS_COLUMNS; c += 2)
		dots(d, OPENREG_DOTS_ROWS, 2, false, c);
}

static void dots_rows_i4(struct openreg_dots *d)
{
	int c;

	for (c = 0; c < OPENREG_DOTS_COLUMNS; c += 2)
		dots(d, OPENREG_DOTS_ROWS, 2, true, c);
}

#define DOTS_TABLES                                                            \
	.dots = { { dots_one_i8, dots_rows_i8 }, { dots_one_i4, dots_rows_i4 } },

#endif
