// SPDX-License-Identifier: MIT
/*
 * Kernels for hosts with AMX-BF16. oneDNN's micro-kernels reach half of the unit's speed
 * here, and oneDNN takes milliseconds to generate them for each shape.
 */
#include "isa_amx.h"

#if defined(__x86_64__)
#ifdef __clang__
#pragma clang attribute push(                                                  \
	__attribute__((target("arch=x86-64-v4,avx512bf16,amx-tile,amx-bf16"))), \
	apply_to = function)
#else
#pragma GCC target("arch=x86-64-v4,avx512bf16,amx-tile,amx-bf16")
#endif
#include <immintrin.h>

#define TILE 512 /* bf16s: 16 rows of 64 bytes */
#define LANES 16
#define INLINE static inline __attribute__((always_inline))

struct bounds {
	__m512i least, most;
};

INLINE void widen_bounds(struct bounds *b, __m512 x)
{
	__m512i bits = _mm512_and_si512((__m512i)x,
					_mm512_set1_epi32(0x7fffffff));

	b->most = _mm512_max_epu32(b->most, bits);
	/* Minus 1, so that a zero is not the least. */
	bits = _mm512_sub_epi32(bits, _mm512_set1_epi32(1));
	b->least = _mm512_min_epu32(b->least, bits);
}

/* Rounds to the nearest bf16; the result is an f32. */
INLINE __m512 rounded(__m512 x)
{
	__m512i bits = _mm512_add_epi32((__m512i)x, _mm512_set1_epi32(0x8000));

	return (__m512)_mm512_and_si512(bits,
					_mm512_set1_epi32((int)0xffff0000));
}

/*
 * Stores 64 bytes of each part. For A, y follows x along k; for B, elements of x and y
 * alternate.
 */
INLINE void split_row(uint16_t *to, __m512 x, __m512 y, unsigned int parts,
		      enum openreg_amx_side side, struct bounds *b)
{
	unsigned int i;

	widen_bounds(b, x);
	widen_bounds(b, y);
	for (i = 0; i < parts; i++) {
		__m512 p = i + 1 < parts ? rounded(x) : x;
		__m512 q = i + 1 < parts ? rounded(y) : y;
		__m512i row;

		if (side == OPENREG_AMX_A)
			row = (__m512i)_mm512_cvtne2ps_pbh(q, p);
		else
			row = _mm512_or_si512(
				_mm512_srli_epi32((__m512i)p, 16), (__m512i)q);
		_mm512_store_si512(to + i * 2 * TILE, row);
		x = _mm512_sub_ps(x, p);
		y = _mm512_sub_ps(y, q);
	}
}

INLINE __m512 low_pairs(__m512 x, __m512 y)
{
	return (__m512)_mm512_unpacklo_pd((__m512d)x, (__m512d)y);
}

INLINE __m512 high_pairs(__m512 x, __m512 y)
{
	return (__m512)_mm512_unpackhi_pd((__m512d)x, (__m512d)y);
}

/* EVEN: quarters 0 and 2 of x and y; ODD: quarters 1 and 3. */
#define EVEN(x, y) _mm512_shuffle_f32x4(x, y, 0x88)
#define ODD(x, y) _mm512_shuffle_f32x4(x, y, 0xdd)

/* Loads 16 lines of 16 elements, transposed. */
INLINE void load_across(__m512 r[LANES], const float *from, int64_t ld)
{
	__m512 t[LANES];
	unsigned int i;

	for (i = 0; i < LANES; i += 2) {
		__m512 x = _mm512_loadu_ps(from + i * ld);
		__m512 y = _mm512_loadu_ps(from + (i + 1) * ld);

		t[i] = _mm512_unpacklo_ps(x, y);
		t[i + 1] = _mm512_unpackhi_ps(x, y);
	}
	for (i = 0; i < LANES; i += 4) {
		r[i] = low_pairs(t[i], t[i + 2]);
		r[i + 1] = high_pairs(t[i], t[i + 2]);
		r[i + 2] = low_pairs(t[i + 1], t[i + 3]);
		r[i + 3] = high_pairs(t[i + 1], t[i + 3]);
	}
	for (i = 0; i < 4; i++) {
		t[i] = EVEN(r[i], r[4 + i]);
		t[4 + i] = ODD(r[i], r[4 + i]);
		t[8 + i] = EVEN(r[8 + i], r[12 + i]);
		t[12 + i] = ODD(r[8 + i], r[12 + i]);
	}
	for (i = 0; i < 4; i++) {
		r[i] = EVEN(t[i], t[8 + i]);
		r[4 + i] = EVEN(t[4 + i], t[12 + i]);
		r[8 + i] = ODD(t[i], t[8 + i]);
		r[12 + i] = ODD(t[4 + i], t[12 + i]);
	}
}

/* Makes one tile of each part: 16 rows or columns of a step. */
INLINE void split_tile(uint16_t *to, const float *from, int64_t ld,
		       bool along_k, unsigned int parts,
		       enum openreg_amx_side side, struct bounds *b)
{
	__m512 x[LANES], y[LANES];
	unsigned int i;

	if (along_k == (side == OPENREG_AMX_A)) {
		int64_t next = along_k ? ld : 2 * ld;
		int64_t other = along_k ? LANES : ld;

		for (i = 0; i < LANES; i++, from += next)
			split_row(to + i * 32, _mm512_loadu_ps(from),
				  _mm512_loadu_ps(from + other), parts, side,
				  b);
		return;
	}
	load_across(x, from, ld);
	load_across(y, from + LANES * (along_k ? 1 : ld), ld);
	if (side == OPENREG_AMX_A) {
		for (i = 0; i < LANES; i++)
			split_row(to + i * 32, x[i], y[i], parts, side, b);
		return;
	}
	for (i = 0; i < LANES; i += 2) {
		split_row(to + i * 16, x[i], x[i + 1], parts, side, b);
		split_row(to + 8 * 32 + i * 16, y[i], y[i + 1], parts, side, b);
	}
}

INLINE void split_panel(uint16_t *to, const float *from, int64_t ld,
			bool along_k, size_t steps, unsigned int parts,
			enum openreg_amx_side side,
			struct openreg_amx_range *range)
{
	int64_t half = LANES * (along_k ? ld : 1);
	int64_t step = OPENREG_AMX_STEP * (along_k ? 1 : ld);
	struct bounds b = { _mm512_set1_epi32(-1), _mm512_setzero_si512() };
	uint32_t least, most;

	for (; steps; steps--, from += step, to += 2 * TILE * parts) {
		split_tile(to, from, ld, along_k, parts, side, &b);
		split_tile(to + TILE, from + half, ld, along_k, parts, side,
			   &b);
	}
	least = _mm512_reduce_min_epu32(b.least);
	most = _mm512_reduce_max_epu32(b.most);
	range->least = least < range->least ? least : range->least;
	range->most = most > range->most ? most : range->most;
}

#define SPLIT(along_k, parts, side)                                            \
	split_panel(panel, from, ld, along_k, steps, parts, side, range)
#define SPLIT_PARTS(along_k, side)                                             \
	(parts == 1	? SPLIT(along_k, 1, side)                              \
	 : parts == 2 ? SPLIT(along_k, 2, side)                                \
		      : SPLIT(along_k, 3, side))

static void split_amx(void *panel, const void *from, int64_t ld, bool along_k,
		      size_t steps, unsigned int parts,
		      enum openreg_amx_side side,
		      struct openreg_amx_range *range)
{
	if (side == OPENREG_AMX_A && along_k)
		SPLIT_PARTS(true, OPENREG_AMX_A);
	else if (side == OPENREG_AMX_A)
		SPLIT_PARTS(false, OPENREG_AMX_A);
	else if (along_k)
		SPLIT_PARTS(true, OPENREG_AMX_B);
	else
		SPLIT_PARTS(false, OPENREG_AMX_B);
}

/* at[i]: byte offset of part 0 of line i of a step. */
INLINE void find_lines(int64_t at[OPENREG_AMX_PANEL], const int64_t *line,
		       int64_t shift, unsigned int parts)
{
	unsigned int i;

	for (i = 0; i < OPENREG_AMX_PANEL; i++) {
		int64_t l = line[i] + shift;
		int64_t in = l & (OPENREG_AMX_PANEL - 1);

		at[i] = ((l - in) * parts + in) * 64;
	}
}

INLINE __m512i pick_line(const unsigned char *lines, int64_t at, bool inside)
{
	return _mm512_maskz_loadu_epi64((__mmask8)(inside ? 0xff : 0),
					(const void *)((uintptr_t)lines +
						       (uintptr_t)at));
}

INLINE void pick_rows_of(uint16_t *to, const unsigned char *lines,
			 const int64_t *line, int64_t shift, uint32_t mask,
			 unsigned int parts)
{
	int64_t at[OPENREG_AMX_PANEL];
	unsigned int i, p;

	find_lines(at, line, shift, parts);
	for (i = 0; i < OPENREG_AMX_PANEL; i++) {
		for (p = 0; p < parts; p++)
			_mm512_store_si512(
				to + p * 2 * TILE + i * 32,
				pick_line(lines, at[i] + p * 4 * TILE,
					  mask >> i & 1));
	}
}

static void pick_rows_amx(void *step, const void *lines, const int64_t *line,
			  int64_t shift, uint32_t mask, unsigned int parts)
{
	if (parts == 1)
		pick_rows_of(step, lines, line, shift, mask, 1);
	else if (parts == 2)
		pick_rows_of(step, lines, line, shift, mask, 2);
	else
		pick_rows_of(step, lines, line, shift, mask, 3);
}

INLINE void pick_columns_of(uint16_t *to, const unsigned char *lines,
			    const int64_t *line, int64_t shift, uint32_t mask,
			    unsigned int parts)
{
	const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
	const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
	int64_t at[OPENREG_AMX_PANEL];
	unsigned int i, p;

	find_lines(at, line, shift, parts);
	for (i = 0; i < OPENREG_AMX_PANEL; i += 2) {
		for (p = 0; p < parts; p++) {
			int64_t part = p * 4 * TILE;
			__m512i x = pick_line(lines, at[i] + part,
					      mask >> i & 1);
			__m512i y = pick_line(lines, at[i + 1] + part,
					      mask >> (i + 1) & 1);
			__m512i even = _mm512_unpacklo_epi16(x, y);
			__m512i odd = _mm512_unpackhi_epi16(x, y);
			uint16_t *row = to + p * 2 * TILE + i * 16;

			_mm512_store_si512(row, _mm512_permutex2var_epi64(
							even, low, odd));
			_mm512_store_si512(row + TILE,
					   _mm512_permutex2var_epi64(
						   even, high, odd));
		}
	}
}

static void pick_columns_amx(void *step, const void *lines,
			     const int64_t *line, int64_t shift, uint32_t mask,
			     unsigned int parts)
{
	if (parts == 1)
		pick_columns_of(step, lines, line, shift, mask, 1);
	else if (parts == 2)
		pick_columns_of(step, lines, line, shift, mask, 2);
	else
		pick_columns_of(step, lines, line, shift, mask, 3);
}

INLINE void prefetch(const float *p)
{
	_mm_prefetch((const char *)p, _MM_HINT_T0);
}

static void transpose_amx(float *to, int64_t to_ld, const float *from,
			  int64_t from_ld, int64_t rows, int64_t columns)
{
	__m512 x[LANES];
	int64_t i, j;
	int r;

	for (i = 0; i < rows; i += LANES) {
		for (j = 0; j < columns; j += LANES) {
			const float *at = from + i * from_ld + j;

			load_across(x, at, from_ld);
			for (r = 0; r < LANES; r++) {
				prefetch(at + r * from_ld + columns);
				_mm512_storeu_ps(to + (j + r) * to_ld + i,
						 x[r]);
			}
		}
	}
}

struct palette {
	uint8_t palette, start_row, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
};

static void begin_amx(void)
{
	static const struct palette all = {
		.palette = 1,
		.bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
		.rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
	};

	_tile_loadconfig(&all);
}

static void end_amx(void)
{
	_tile_release();
}

/* The sums are tiles 0 to 3, A is 4 and 5, B 6 and 7. */
#define LOAD_A(part)                                                           \
	do {                                                                   \
		_tile_loadd(4, a + (part) * 2 * TILE, 64);                     \
		_tile_loadd(5, a + (part) * 2 * TILE + TILE, 64);              \
	} while (0)
#define LOAD_B(part)                                                           \
	do {                                                                   \
		_tile_loadd(6, b + (part) * 2 * TILE, 64);                     \
		_tile_loadd(7, b + (part) * 2 * TILE + TILE, 64);              \
	} while (0)
#define MULTIPLY()                                                             \
	do {                                                                   \
		_tile_dpbf16ps(0, 4, 6);                                       \
		_tile_dpbf16ps(1, 4, 7);                                       \
		_tile_dpbf16ps(2, 5, 6);                                       \
		_tile_dpbf16ps(3, 5, 7);                                       \
	} while (0)

/* Multiplies part i of A and part j of B for all i + j < 3. */
INLINE void multiply_step(const uint16_t *a, const uint16_t *b,
			  unsigned int parts)
{
	LOAD_A(0);
	if (parts == 3) {
		LOAD_B(2);
		MULTIPLY();
	}
	if (parts > 1) {
		LOAD_B(1);
		MULTIPLY();
	}
	LOAD_B(0);
	MULTIPLY();
	if (parts == 1)
		return;
	LOAD_A(1);
	MULTIPLY();
	LOAD_B(1);
	MULTIPLY();
	if (parts == 2)
		return;
	LOAD_A(2);
	LOAD_B(0);
	MULTIPLY();
}

#define ROW (OPENREG_AMX_PANEL * sizeof(float))
#define LINES (OPENREG_AMX_PANEL * ROW / 64)

INLINE void multiply_panels(float *sums, const uint16_t *a, const uint16_t *b,
			    size_t steps, unsigned int parts, bool accumulate,
			    const float *next)
{
	const char *ahead = (const char *)next, *end = ahead + LINES * 64;
	unsigned int i;

	if (accumulate) {
		_tile_loadd(0, sums, ROW);
		_tile_loadd(1, sums + 16, ROW);
		_tile_loadd(2, sums + 16 * OPENREG_AMX_PANEL, ROW);
		_tile_loadd(3, sums + 16 * OPENREG_AMX_PANEL + 16, ROW);
	} else {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	}
	for (; steps; steps--) {
		multiply_step(a, b, parts);
		for (i = 0; i < LINES / 4 && ahead < end; i++, ahead += 64)
			_mm_prefetch(ahead, _MM_HINT_T0);
		a += 2 * TILE * parts;
		b += 2 * TILE * parts;
	}
	_tile_stored(0, sums, ROW);
	_tile_stored(1, sums + 16, ROW);
	_tile_stored(2, sums + 16 * OPENREG_AMX_PANEL, ROW);
	_tile_stored(3, sums + 16 * OPENREG_AMX_PANEL + 16, ROW);
}

static void block_amx(float *sums, const void *a, const void *b, size_t steps,
		      unsigned int parts, bool accumulate, const float *next)
{
	if (parts == 1)
		multiply_panels(sums, a, b, steps, 1, accumulate, next);
	else if (parts == 2)
		multiply_panels(sums, a, b, steps, 2, accumulate, next);
	else
		multiply_panels(sums, a, b, steps, 3, accumulate, next);
}

const struct openreg_amx *openreg_isa_amx(void)
{
	static const struct openreg_amx amx = {
		.begin = begin_amx,
		.end = end_amx,
		.split = split_amx,
		.pick_rows = pick_rows_amx,
		.pick_columns = pick_columns_amx,
		.transpose = transpose_amx,
		.block = block_amx,
	};

	return &amx;
}
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
const struct openreg_amx *openreg_isa_amx(void)
{
	return NULL;
}
#endif
