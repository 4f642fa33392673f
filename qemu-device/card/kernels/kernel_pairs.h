/* SPDX-License-Identifier: MIT */
/*
 * Kernel: a block of a product of bytes, with sums in I32. Panels hold the bytes as 16-bit
 * numbers, those of two neighbours along k together: instructions multiply such pairs and
 * add the two products, which cannot overflow.
 */
#ifndef OPENREG_KERNEL_PAIRS_H
#define OPENREG_KERNEL_PAIRS_H

#include "kernel_gemm.h"

#ifdef __clang__
#define PAIRS_UNROLL _Pragma("clang loop unroll_count(4)")
#else
#define PAIRS_UNROLL _Pragma("GCC unroll 4")
#endif

/* s + the products of the pairs of x and y. */
static inline __attribute__((always_inline)) vec_i32 pairs_add(vec_i32 s, vec_i32 x, vec_i32 y)
{
#if VECTOR_BITS == 512
	return s + (vec_i32)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#elif VECTOR_BITS == 256
	return s + (vec_i32)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#else
	typedef int32_t number __attribute__((vector_size(GEMM_BYTES)));
	number a = (number)x, b = (number)y;

	return s + (vec_i32)((a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16));
#endif
}

/* As GEMM(), but with k / 2 pairs. k is even. */
static void gemm_pairs(void *out, size_t ld, const void *ap, const void *bp, size_t k,
		       bool accumulate)
{
	const uint32_t *a = ap;
	const vec_i32 *b = bp;
	uint32_t *d = out;
	vec_i32 s[GEMM_ROWS][GEMM_VECTORS];
	size_t i;
	int r, v;

	for (r = 0; r < GEMM_ROWS; r++) {
		const vec_i32 *row = (const vec_i32 *)(d + (size_t)r * ld);

		for (v = 0; v < GEMM_VECTORS; v++)
			s[r][v] = accumulate ? row[v] : (vec_i32){ 0 };
	}
	PAIRS_UNROLL
	for (i = 0; i < k; i += 2) {
		for (r = 0; r < GEMM_ROWS; r++) {
			vec_i32 x = a[r] - (vec_i32){ 0 };

			for (v = 0; v < GEMM_VECTORS; v++)
				s[r][v] = pairs_add(s[r][v], x, b[v]);
		}
		a += GEMM_ROWS;
		b += GEMM_VECTORS;
	}
	for (r = 0; r < GEMM_ROWS; r++) {
		vec_i32 *row = (vec_i32 *)(d + (size_t)r * ld);

		for (v = 0; v < GEMM_VECTORS; v++)
			row[v] = s[r][v];
	}
}

#define PAIRS_TABLES                                                           \
	.pairs = { gemm_pairs, axpby_i32, GEMM_ROWS, GEMM_COLUMNS(i32) },

#endif
