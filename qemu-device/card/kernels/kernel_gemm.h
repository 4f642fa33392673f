/* SPDX-License-Identifier: MIT */
/*
 * Kernels: a block of a matrix product in vector registers, and alpha * product +
 * beta * C. A panel of A holds GEMM_ROWS rows, a panel of B GEMM_VECTORS vectors of
 * columns; both are in the order of k.
 */
#ifndef OPENREG_KERNEL_GEMM_H
#define OPENREG_KERNEL_GEMM_H

#include "kernel_types.h"

#define GEMM_VECTORS 2
#if VECTOR_BITS == 512
#define GEMM_ROWS 12
#define GEMM_BYTES 64
#define FMA_f32(a, b, c) ((vec_f32)_mm512_fmadd_ps(a, b, c))
#define FMA_f64(a, b, c) ((vec_f64)_mm512_fmadd_pd(a, b, c))
#elif VECTOR_BITS == 256
#define GEMM_ROWS 6
#define GEMM_BYTES 32
#define FMA_f32(a, b, c) ((vec_f32)_mm256_fmadd_ps(a, b, c))
#define FMA_f64(a, b, c) ((vec_f64)_mm256_fmadd_pd(a, b, c))
#else
#define GEMM_ROWS 4
#define GEMM_BYTES 16
#define FMA_f32(a, b, c) ((a) * (b) + (c))
#define FMA_f64(a, b, c) ((a) * (b) + (c))
#endif
#define FMA_i32(a, b, c) ((a) * (b) + (c))
#define FMA_i64(a, b, c) ((a) * (b) + (c))

typedef float vec_f32 __attribute__((vector_size(GEMM_BYTES)));
typedef double vec_f64 __attribute__((vector_size(GEMM_BYTES)));
typedef uint32_t vec_i32 __attribute__((vector_size(GEMM_BYTES)));
typedef uint64_t vec_i64 __attribute__((vector_size(GEMM_BYTES)));
typedef float scalar_gemm_f32;
typedef double scalar_gemm_f64;
typedef uint32_t scalar_gemm_i32;
typedef uint64_t scalar_gemm_i64;

#define GEMM_COLUMNS(ty) (GEMM_VECTORS * GEMM_BYTES / sizeof(scalar_gemm_##ty))

/* ap, bp, out and every row of out are aligned to 64 bytes. */
#define GEMM(ty)                                                               \
	static void gemm_##ty(void *out, size_t ld, const void *ap,            \
			      const void *bp, size_t k, bool accumulate)       \
	{                                                                      \
		const scalar_gemm_##ty *a = ap;                                \
		const vec_##ty *b = bp;                                        \
		scalar_gemm_##ty *d = out;                                     \
		vec_##ty s[GEMM_ROWS][GEMM_VECTORS];                           \
		size_t i;                                                      \
		int r, v;                                                      \
                                                                               \
		for (r = 0; r < GEMM_ROWS; r++) {                              \
			const vec_##ty *row = (const vec_##ty *)(d + r * ld);  \
                                                                               \
			for (v = 0; v < GEMM_VECTORS; v++)                     \
				s[r][v] = accumulate ? row[v]                  \
						     : (vec_##ty){ 0 };        \
		}                                                              \
		for (i = 0; i < k; i++) {                                      \
			for (r = 0; r < GEMM_ROWS; r++) {                      \
				vec_##ty x = a[r] - (vec_##ty){ 0 };           \
                                                                               \
				for (v = 0; v < GEMM_VECTORS; v++)             \
					s[r][v] = FMA_##ty(x, b[v], s[r][v]);  \
			}                                                      \
			a += GEMM_ROWS;                                        \
			b += GEMM_VECTORS;                                     \
		}                                                              \
		for (r = 0; r < GEMM_ROWS; r++) {                              \
			vec_##ty *row = (vec_##ty *)(d + r * ld);              \
                                                                               \
			for (v = 0; v < GEMM_VECTORS; v++)                     \
				row[v] = s[r][v];                              \
		}                                                              \
	}

GEMM(f32)
GEMM(f64)
GEMM(i32)
GEMM(i64)

/* p = alpha * p + beta * c; c may be NULL. */
#define AXPBY(ty, scale)                                                       \
	static void axpby_##ty(void *p, const void *c, double alpha,           \
			       double beta, size_t n)                          \
	{                                                                      \
		scalar_gemm_##ty *x = p, a = (scalar_gemm_##ty)scale(alpha);   \
		const scalar_gemm_##ty *y = c;                                 \
		scalar_gemm_##ty b = (scalar_gemm_##ty)scale(beta);            \
		size_t i;                                                      \
                                                                               \
		if (!c) {                                                      \
			INDEPENDENT                                            \
			for (i = 0; i < n; i++)                                \
				x[i] = a * x[i];                               \
			return;                                                \
		}                                                              \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++)                                        \
			x[i] = a * x[i] + b * y[i];                            \
	}

AXPBY(f32, )
AXPBY(f64, )
AXPBY(i32, openreg_f64_to_i64)
AXPBY(i64, openreg_f64_to_i64)

#define GEMM_ENTRY(ty, TY)                                                     \
	[OPENREG_VT_##TY] = { gemm_##ty, axpby_##ty, GEMM_ROWS,                \
			      GEMM_COLUMNS(ty) },
#define GEMM_TABLES .gemm = { ALL_TYPES(GEMM_ENTRY) },

#endif
