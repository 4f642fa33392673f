/* SPDX-License-Identifier: MIT */
/*
 * Kernels: products of a few rows in f32 with a block of a packed matrix, as
 * matmul/packed.h describes it. Reading the block takes most of the time, so the kernels
 * read each line once, and convert halves in registers.
 */
#ifndef OPENREG_KERNEL_PACKED_H
#define OPENREG_KERNEL_PACKED_H

#include "kernel_gemm.h"

#define PACKED_LANES (GEMM_BYTES / 4)
#define PACKED_VECTORS (OPENREG_PACKED_COLUMNS / PACKED_LANES)

/* Unrolls the loops over rows and columns, so that their sums are in registers. */
#ifdef __clang__
#define PACKED_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PACKED_UNROLL _Pragma("GCC unroll 16")
#endif

static inline __attribute__((always_inline)) vec_f32 packed_halves(const uint16_t *from)
{
#if VECTOR_BITS == 512
	return (vec_f32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif VECTOR_BITS == 256
	return (vec_f32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else
	vec_f32 x;
	int i;

	for (i = 0; i < PACKED_LANES; i++)
		x[i] = openreg_f16_to_f32(from[i]);
	return x;
#endif
}

/* A vector of columns. Sets odd to the second row of a group. */
static inline __attribute__((always_inline)) void
packed_load(vec_f32 *x, vec_f32 *odd, const void *from, const unsigned int dtype)
{
	vec_i32 bits;

	if (dtype == OPENREG_F16) {
		*x = packed_halves(from);
		return;
	}
	memcpy(&bits, from, sizeof(bits));
	*odd = (vec_f32)(bits & 0xffff0000);
	*x = (vec_f32)(dtype == OPENREG_BF16 ? bits << 16 : bits);
}

/* R rows, and C vectors of columns at a time. */
static inline __attribute__((always_inline)) void
packed_rows(float *out, const float *a, size_t ld, const unsigned char *block, size_t k,
	    const unsigned int dtype, const int R, const int C)
{
	const size_t group = dtype == OPENREG_BF16 ? 2 : 1;
	const size_t size = dtype == OPENREG_F32 ? 4 : 2;
	const size_t line = OPENREG_PACKED_COLUMNS * group * size;
	const size_t vector = PACKED_LANES * group * size;
	int first, r, c;
	size_t i;

	for (first = 0; first < PACKED_VECTORS; first += C) {
		const unsigned char *b = block + (size_t)first * vector;
		vec_f32 s[OPENREG_PACKED_ROWS][PACKED_VECTORS];

		PACKED_UNROLL
		for (r = 0; r < R; r++)
			PACKED_UNROLL
			for (c = 0; c < C; c++)
				s[r][c] = (vec_f32){ 0 };
		for (i = 0; i < k; i += group, b += line) {
			vec_f32 x[2][PACKED_VECTORS];
			size_t odd;

			PACKED_UNROLL
			for (c = 0; c < C; c++)
				packed_load(x[0] + c, x[1] + c, b + (size_t)c * vector,
					    dtype);
			PACKED_UNROLL
			for (odd = 0; odd < group; odd++) {
				PACKED_UNROLL
				for (r = 0; r < R; r++) {
					vec_f32 y = a[(size_t)r * ld + i + odd] -
						    (vec_f32){ 0 };

					PACKED_UNROLL
					for (c = 0; c < C; c++)
						s[r][c] = FMA_f32(y, x[odd][c], s[r][c]);
				}
			}
		}
		PACKED_UNROLL
		for (r = 0; r < R; r++)
			PACKED_UNROLL
			for (c = 0; c < C; c++)
				memcpy(out + r * OPENREG_PACKED_COLUMNS +
					       (first + c) * PACKED_LANES,
				       &s[r][c], sizeof(s[r][c]));
	}
}

#define PACKED(name, dtype)                                                    \
	static void packed_one_##name(float *out, const float *a, size_t ld,   \
				      const void *block, size_t k)             \
	{                                                                      \
		packed_rows(out, a, ld, block, k, dtype, 1, PACKED_VECTORS < 8 \
				    ? PACKED_VECTORS : 8);                     \
	}                                                                      \
	static void packed_some_##name(float *out, const float *a, size_t ld,  \
				       const void *block, size_t k)            \
	{                                                                      \
		packed_rows(out, a, ld, block, k, dtype, OPENREG_PACKED_ROWS,  \
			    2);                                                \
	}

PACKED(f32, OPENREG_F32)
PACKED(f16, OPENREG_F16)
PACKED(bf16, OPENREG_BF16)

#define PACKED_ENTRY(name, DTYPE)                                              \
	[OPENREG_##DTYPE] = { packed_one_##name, packed_some_##name },
#define PACKED_TABLES                                                          \
	.packed = { PACKED_ENTRY(f32, F32) PACKED_ENTRY(f16, F16)              \
		    PACKED_ENTRY(bf16, BF16) },

#endif
