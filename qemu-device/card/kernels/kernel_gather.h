/* SPDX-License-Identifier: MIT */
/* Kernels: gathers scattered elements into the lines of CONV's panels. */
#ifndef OPENREG_KERNEL_GATHER_H
#define OPENREG_KERNEL_GATHER_H

#if VECTOR_BITS == 512
#include <immintrin.h>
#endif

#include "kernel_types.h"

/* Never reads an element that the mask leaves out: there may be no memory. */
#define GATHER(bits)                                                           \
	static UNUSED void gather_##bits(void *dst, size_t width,              \
					 uintptr_t src, const int64_t *at,     \
					 const uint32_t *mask,                 \
					 const int64_t *index, size_t lines)   \
	{                                                                      \
		static const uint##bits##_t none;                              \
		uint##bits##_t *to = dst;                                      \
		size_t i, j;                                                   \
                                                                               \
		for (i = 0; i < lines; i++) {                                  \
			for (j = 0; j < width; j++) {                          \
				uint64_t off =                                 \
					(uint64_t)at[i] + (uint64_t)index[j];  \
				uintptr_t p = src + off * sizeof(none);        \
                                                                               \
				if (!(mask[i] >> j & 1))                       \
					p = (uintptr_t)&none;                  \
				to[j] = *(const uint##bits##_t *)p;            \
			}                                                      \
			to += width;                                           \
		}                                                              \
	}

GATHER(8)
GATHER(16)
GATHER(32)
GATHER(64)

#if VECTOR_BITS == 512
/* Are 16 positions adjacent? */
static bool gather_is_run(const int64_t *index)
{
	uint64_t apart = 0, j;

	for (j = 1; j < 16; j++)
		apart |= (uint64_t)index[j] - (uint64_t)index[0] - j;
	return !apart;
}

static __m512i gather_line(uintptr_t line, __mmask16 mask, __m512i low,
			   __m512i high)
{
	const __m256i none = _mm256_setzero_si256();
	__m256i x = _mm512_mask_i64gather_epi32(none, (__mmask8)mask, low,
						(const void *)line, 4);
	__m256i y = _mm512_mask_i64gather_epi32(none, (__mmask8)(mask >> 8),
						high, (const void *)line, 4);

	return _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
}

/* Transposes: vector i becomes element i of each of the 16 vectors. */
static void gather_transpose(__m512i x[16])
{
	__m512i y[16];
	int i;

	for (i = 0; i < 16; i += 2) {
		y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
		y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
	}
	for (i = 0; i < 16; i += 4) {
		x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
		x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
		x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
		x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
	}
	for (i = 0; i < 4; i++) {
		y[i] = _mm512_shuffle_i32x4(x[i], x[4 + i], 0x88);
		y[4 + i] = _mm512_shuffle_i32x4(x[i], x[4 + i], 0xdd);
		y[8 + i] = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0x88);
		y[12 + i] = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0xdd);
	}
	for (i = 0; i < 4; i++) {
		x[i] = _mm512_shuffle_i32x4(y[i], y[8 + i], 0x88);
		x[4 + i] = _mm512_shuffle_i32x4(y[4 + i], y[12 + i], 0x88);
		x[8 + i] = _mm512_shuffle_i32x4(y[i], y[8 + i], 0xdd);
		x[12 + i] = _mm512_shuffle_i32x4(y[4 + i], y[12 + i], 0xdd);
	}
}

/* How many lines, up to 16, each begin one element after the last one. */
static size_t gather_lines_in_a_row(const int64_t *at, size_t lines)
{
	size_t n = 1;

	while (n < lines && n < 16 && (uint64_t)at[n] == (uint64_t)at[0] + n)
		n++;
	return n;
}

/* Gathers such lines: reads across the lines, which is faster than single elements. */
static void gather_along(uint32_t *to, size_t width, __mmask16 keep,
			 uintptr_t line, const uint32_t *mask, size_t bit,
			 const int64_t *index, size_t lines)
{
	__m512i x[16], masks;
	size_t c;

	masks = _mm512_maskz_loadu_epi32((__mmask16)((1u << lines) - 1), mask);
	for (c = 0; c < 16; c++) {
		__mmask16 m = _mm512_test_epi32_mask(
			masks, _mm512_set1_epi32((int)(1u << (bit + c))));
		uintptr_t off = (uintptr_t)((uint64_t)index[c] * 4);

		x[c] = _mm512_maskz_loadu_epi32(m, (const void *)(line + off));
	}
	gather_transpose(x);
	for (c = 0; c < lines; c++)
		_mm512_mask_storeu_epi32(to + c * width, keep, x[c]);
}

#define GATHER_ALONG 4 /* lines from which on that is faster */

/* Gathers elements j .. j + 15 of each line. */
static void gather_part(uint32_t *to, size_t width, size_t j, uintptr_t src,
			const int64_t *at, const uint32_t *mask,
			const int64_t *index, size_t lines)
{
	__m512i low = _mm512_loadu_si512(index + j);
	__m512i high = _mm512_loadu_si512(index + j + 8);
	__mmask16 keep =
		(__mmask16)(width - j < 16 ? (1u << (width - j)) - 1 : 0xffff);
	uintptr_t first = (uintptr_t)((uint64_t)index[j] * 4);
	bool run = gather_is_run(index + j);
	size_t i, n;

	for (i = 0; i < lines; i += n) {
		uintptr_t line = src + (uintptr_t)((uint64_t)at[i] * 4);
		__mmask16 m = (__mmask16)(mask[i] >> j);
		__m512i x;

		n = run ? 1 : gather_lines_in_a_row(at + i, lines - i);
		if (n >= GATHER_ALONG) {
			gather_along(to + i * width + j, width, keep, line,
				     mask + i, j, index + j, n);
			continue;
		}
		n = 1;
		x = run ? _mm512_maskz_loadu_epi32(
				  m, (const void *)(line + first)) :
			  gather_line(line, m, low, high);
		_mm512_mask_storeu_epi32(to + i * width + j, keep, x);
	}
}

static void gather_512(void *dst, size_t width, uintptr_t src,
		       const int64_t *at, const uint32_t *mask,
		       const int64_t *index, size_t lines)
{
	size_t j;

	for (j = 0; j < width; j += 16)
		gather_part(dst, width, j, src, at, mask, index, lines);
}

#define GATHER_32 gather_512
#else
#define GATHER_32 gather_32
#endif

/* For elements of 1, 2, 4 and 8 bytes. */
#define GATHER_TABLES .gather = { gather_8, gather_16, GATHER_32, gather_64 },

#endif
