/* SPDX-License-Identifier: MIT */
/*
 * Kernels: weighted sums and products of OPENREG_LANES independent lanes. An element is a
 * float of each lane.
 */
#ifndef OPENREG_KERNEL_LANES_H
#define OPENREG_KERNEL_LANES_H

#include "kernel_gather.h"
#include "kernel_slide.h"

#define LANE_VECTORS (OPENREG_LANES * sizeof(float) / GEMM_BYTES)
#if VECTOR_BITS == 512
#define LANE_SUMS 8 /* sums of so many elements fit into the vector registers */
#elif VECTOR_BITS == 256
#define LANE_SUMS 5
#else
#define LANE_SUMS 2
#endif

/* N elements, step floats apart in the source. */
#define LANES(N)                                                               \
	static UNUSED void lanes_##N(float *out, const float *src,             \
				     int64_t step, const int64_t *at,          \
				     const float *w, const float *bias,        \
				     size_t lines)                             \
	{                                                                      \
		vec_f32 s[N][LANE_VECTORS];                                    \
		vec_line *to = (vec_line *)out;                                \
		size_t i, v;                                                   \
		int j;                                                         \
                                                                               \
		for (j = 0; j < N; j++) {                                      \
			for (v = 0; v < LANE_VECTORS; v++)                     \
				s[j][v] = ((const vec_line *)bias)[v];         \
		}                                                              \
		for (i = 0; i < lines; i++, w += OPENREG_LANES) {              \
			const float *x = src + at[i];                          \
			vec_f32 y[LANE_VECTORS];                               \
                                                                               \
			for (v = 0; v < LANE_VECTORS; v++)                     \
				y[v] = ((const vec_line *)w)[v];               \
			for (j = 0; j < N; j++, x += step) {                   \
				for (v = 0; v < LANE_VECTORS; v++)             \
					s[j][v] = FMA_f32(                     \
						y[v],                          \
						((const vec_line *)x)[v],      \
						s[j][v]);                      \
			}                                                      \
		}                                                              \
		for (j = 0; j < N; j++) {                                      \
			for (v = 0; v < LANE_VECTORS; v++)                     \
				*to++ = (vec_line)s[j][v];                     \
		}                                                              \
	}

LANES(1)
LANES(2)
LANES(3)
LANES(4)
LANES(5)
LANES(6)
LANES(7)
LANES(8)

static void lanes_run(float *out, const float *src, int64_t step,
		      const int64_t *at, const float *w, const float *bias,
		      size_t lines, size_t n)
{
	static openreg_lanes_some_fn *const some[] = {
		lanes_1, lanes_2, lanes_3, lanes_4,
		lanes_5, lanes_6, lanes_7, lanes_8,
	};

	while (n) {
		size_t now = n < LANE_SUMS ? n : LANE_SUMS;

		some[now - 1](out, src, step, at, w, bias, lines);
		out += now * OPENREG_LANES;
		src += (int64_t)now * step;
		n -= now;
	}
}

/* Adds the products of LANE_SUMS lines. */
static void lanes_products(float *sums, const float *y, const float *x,
			   int64_t step, const int64_t *at, size_t n)
{
	vec_f32 s[LANE_SUMS][LANE_VECTORS];
	vec_line *to = (vec_line *)sums;
	size_t i, v;
	int j;

	for (j = 0; j < LANE_SUMS; j++) {
		for (v = 0; v < LANE_VECTORS; v++)
			s[j][v] = to[j * LANE_VECTORS + v];
	}
	for (i = 0; i < n; i++, y += OPENREG_LANES, x += step) {
		vec_f32 a[LANE_VECTORS];

		for (v = 0; v < LANE_VECTORS; v++)
			a[v] = ((const vec_line *)y)[v];
		for (j = 0; j < LANE_SUMS; j++) {
			const vec_line *b = (const vec_line *)(x + at[j]);

			for (v = 0; v < LANE_VECTORS; v++)
				s[j][v] = FMA_f32(a[v], b[v], s[j][v]);
		}
	}
	for (j = 0; j < LANE_SUMS; j++) {
		for (v = 0; v < LANE_VECTORS; v++)
			to[j * LANE_VECTORS + v] = (vec_line)s[j][v];
	}
}

static void lanes_dot(float *sums, const float *y, const float *x, int64_t step,
		      const int64_t *at, size_t lines, size_t n)
{
	size_t i;

	for (i = 0; i < lines; i += LANE_SUMS)
		lanes_products(sums + i * OPENREG_LANES, y, x, step, at + i, n);
}

static void lanes_from_rows(float *to, const float *from, int64_t ld, size_t n)
{
	size_t j = 0;
	int i;

#if VECTOR_BITS == 512
	for (; j < n; j += 16) {
		__mmask16 m = (__mmask16)(n - j < 16 ? (1u << (n - j)) - 1
						     : 0xffff);
		__m512i x[16];

		for (i = 0; i < 16; i++)
			x[i] = _mm512_maskz_loadu_epi32(m, from + i * ld + j);
		gather_transpose(x);
		for (i = 0; i < 16 && j + (size_t)i < n; i++)
			_mm512_storeu_si512(to + (j + (size_t)i) * 16, x[i]);
	}
#endif
	for (; j < n; j++) {
		for (i = 0; i < OPENREG_LANES; i++)
			to[j * OPENREG_LANES + (size_t)i] =
				from[i * ld + (int64_t)j];
	}
}

static void lanes_to_rows(float *to, int64_t ld, const float *from, size_t n)
{
	size_t j = 0;
	int i;

#if VECTOR_BITS == 512
	for (; j < n; j += 16) {
		__mmask16 m = (__mmask16)(n - j < 16 ? (1u << (n - j)) - 1
						     : 0xffff);
		__m512i x[16];

		for (i = 0; i < 16; i++)
			x[i] = j + (size_t)i < n ?
				       _mm512_loadu_si512(
					       from + (j + (size_t)i) * 16) :
				       _mm512_setzero_si512();
		gather_transpose(x);
		for (i = 0; i < 16; i++)
			_mm512_mask_storeu_epi32(to + i * ld + j, m, x[i]);
	}
#endif
	for (; j < n; j++) {
		for (i = 0; i < OPENREG_LANES; i++)
			to[i * ld + (int64_t)j] =
				from[j * OPENREG_LANES + (size_t)i];
	}
}

#define LANES_TABLES                                                           \
	.lanes = { lanes_run, lanes_dot, lanes_from_rows, lanes_to_rows,       \
		   LANE_SUMS },

#endif
