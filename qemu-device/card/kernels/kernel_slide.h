/* SPDX-License-Identifier: MIT */
/*
 * Kernels: sums of weighted lines, and products of lines with lines. A line may begin
 * anywhere. The sums stay in vector registers.
 */
#ifndef OPENREG_KERNEL_SLIDE_H
#define OPENREG_KERNEL_SLIDE_H

#include "kernel_gemm.h"

#define SLIDE_LANES (GEMM_BYTES / sizeof(float))

typedef float vec_line
	__attribute__((vector_size(GEMM_BYTES), aligned(4), may_alias));

/* R rows of V vectors; the weights of a line are adjacent. */
#define SLIDE(name, R, V)                                                      \
	static void name(float *out, size_t ld, const float *src,              \
			 const int64_t *at, const float *w, size_t step,       \
			 const float *bias, size_t lines)                      \
	{                                                                      \
		vec_f32 s[R][V];                                               \
		size_t i;                                                      \
		int r, v;                                                      \
                                                                               \
		for (r = 0; r < R; r++) {                                      \
			const vec_line *to = (const vec_line *)(out + r * ld); \
                                                                               \
			for (v = 0; v < V; v++)                                \
				s[r][v] = bias ? bias[r] - (vec_f32){ 0 }      \
					       : (vec_f32)to[v];               \
		}                                                              \
		for (i = 0; i < lines; i++, w += step) {                       \
			const vec_line *x = (const vec_line *)(src + at[i]);   \
			vec_f32 y[V];                                          \
                                                                               \
			for (v = 0; v < V; v++)                                \
				y[v] = (vec_f32)x[v];                          \
			for (r = 0; r < R; r++) {                              \
				vec_f32 z = w[r] - (vec_f32){ 0 };             \
                                                                               \
				for (v = 0; v < V; v++)                        \
					s[r][v] = FMA_f32(z, y[v], s[r][v]);   \
			}                                                      \
		}                                                              \
		for (r = 0; r < R; r++) {                                      \
			vec_line *to = (vec_line *)(out + r * ld);             \
                                                                               \
			for (v = 0; v < V; v++)                                \
				to[v] = (vec_line)s[r][v];                     \
		}                                                              \
	}

/* Products of R lines of y, ld elements apart, with K lines of x; each has n elements. */
#define DOT(name, R, K)                                                        \
	static void name(float *sums, size_t to_ld, const float *y, size_t ld, \
			 const float *x, const int64_t *at, size_t n)          \
	{                                                                      \
		vec_f32 s[R][K] = { 0 };                                       \
		size_t i;                                                      \
		int r, k, v;                                                   \
                                                                               \
		for (i = 0; i < n; i += SLIDE_LANES) {                         \
			vec_f32 line[R];                                       \
                                                                               \
			for (r = 0; r < R; r++)                                \
				line[r] = *(const vec_line *)(y + r * ld + i); \
			for (k = 0; k < K; k++) {                              \
				vec_f32 other =                                \
					*(const vec_line *)(x + at[k] + i);    \
                                                                               \
				for (r = 0; r < R; r++)                        \
					s[r][k] = FMA_f32(line[r], other,      \
							  s[r][k]);            \
			}                                                      \
		}                                                              \
		for (r = 0; r < R; r++) {                                      \
			for (k = 0; k < K; k++) {                              \
				float sum = s[r][k][0];                        \
                                                                               \
				for (v = 1; v < (int)SLIDE_LANES; v++)         \
					sum += s[r][k][v];                     \
				sums[r * to_ld + k] += sum;                    \
			}                                                      \
		}                                                              \
	}

#if VECTOR_BITS == 512
#define SLIDE_MANY 8, 3
#define SLIDE_SOME 4, 4
#define SLIDE_ONE 1, 8
#elif VECTOR_BITS == 256
#define SLIDE_MANY 4, 2
#define SLIDE_SOME 4, 2
#define SLIDE_ONE 1, 8
#else
#define SLIDE_MANY 4, 2
#define SLIDE_SOME 4, 2
#define SLIDE_ONE 1, 4
#endif
#define SLIDE_OF(name, ...) SLIDE(name, __VA_ARGS__)
#define DOT_OF(name, ...) DOT(name, __VA_ARGS__)
SLIDE_OF(slide_one, SLIDE_ONE)
SLIDE_OF(slide_some, SLIDE_SOME)
SLIDE_OF(slide_many, SLIDE_MANY)
DOT_OF(dot_one, SLIDE_ONE)
DOT_OF(dot_some, SLIDE_SOME)

#define SLIDE_ENTRY(run, dot, rows, vectors)                                   \
	{ run, dot, rows, (vectors) * SLIDE_LANES, vectors }
#define SLIDE_ENTRY_OF(run, dot, ...) SLIDE_ENTRY(run, dot, __VA_ARGS__)
#define SLIDE_TABLES                                                           \
	.slide = {                                                             \
		SLIDE_ENTRY_OF(slide_one, dot_one, SLIDE_ONE),                 \
		SLIDE_ENTRY_OF(slide_some, dot_some, SLIDE_SOME),              \
		SLIDE_ENTRY_OF(slide_many, NULL, SLIDE_MANY),                  \
	},

#endif
