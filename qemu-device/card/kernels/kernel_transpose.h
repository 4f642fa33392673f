/* SPDX-License-Identifier: MIT */
/* Kernels: transposes elements of two bytes. */
#ifndef OPENREG_KERNEL_TRANSPOSE_H
#define OPENREG_KERNEL_TRANSPOSE_H

#include "kernel_gather.h"

#define TRANSPOSE_BLOCK 32

#if VECTOR_BITS == 512
/* Transposes a block of at most 32 rows and columns. */
static void transpose_block(uint16_t *to, int64_t to_ld, const uint16_t *from,
			    int64_t from_ld, size_t rows, size_t columns)
{
	const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
	const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
	const __mmask32 in = UINT32_MAX >> (TRANSPOSE_BLOCK - columns);
	const __mmask32 out = UINT32_MAX >> (TRANSPOSE_BLOCK - rows);
	__m512i x[2][16];
	size_t i;

	for (i = 0; i < rows; i++)
		_mm_prefetch((const char *)(from + (int64_t)i * from_ld +
					    2 * TRANSPOSE_BLOCK),
			     _MM_HINT_T0);
	/* Pairs two rows, so that the transposition moves elements of four bytes. */
	for (i = 0; i < 16; i++) {
		__m512i a = _mm512_setzero_si512(), b = a, even, odd;

		if (2 * i < rows)
			a = _mm512_maskz_loadu_epi16(
				in, from + (int64_t)(2 * i) * from_ld);
		if (2 * i + 1 < rows)
			b = _mm512_maskz_loadu_epi16(
				in, from + (int64_t)(2 * i + 1) * from_ld);
		even = _mm512_unpacklo_epi16(a, b);
		odd = _mm512_unpackhi_epi16(a, b);
		x[0][i] = _mm512_permutex2var_epi64(even, low, odd);
		x[1][i] = _mm512_permutex2var_epi64(even, high, odd);
	}
	gather_transpose(x[0]);
	if (columns > 16)
		gather_transpose(x[1]);
	for (i = 0; i < columns; i++)
		_mm512_mask_storeu_epi16(to + (int64_t)i * to_ld, out,
					 x[i / 16][i % 16]);
}
#else
static void transpose_block(uint16_t *to, int64_t to_ld, const uint16_t *from,
			    int64_t from_ld, size_t rows, size_t columns)
{
	size_t i, j;

	for (j = 0; j < columns; j++) {
		for (i = 0; i < rows; i++)
			to[(int64_t)j * to_ld + (int64_t)i] =
				from[(int64_t)i * from_ld + (int64_t)j];
	}
}
#endif

static void transpose(uint16_t *to, int64_t to_ld, const uint16_t *from,
		      int64_t from_ld, size_t rows, size_t columns)
{
	size_t i, j;

	for (j = 0; j < columns; j += TRANSPOSE_BLOCK) {
		size_t n = columns - j < TRANSPOSE_BLOCK ? columns - j : TRANSPOSE_BLOCK;

		for (i = 0; i < rows; i += TRANSPOSE_BLOCK)
			transpose_block(to + (int64_t)j * to_ld + i, to_ld,
					from + (int64_t)i * from_ld + j, from_ld,
					rows - i < TRANSPOSE_BLOCK ? rows - i :
								     TRANSPOSE_BLOCK,
					n);
	}
}

#endif
