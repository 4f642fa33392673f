/* SPDX-License-Identifier: MIT */
/*
 * Kernels: Philox 4x32-10, with a block in each 64-bit lane. For consecutive points the
 * code uses all four words of a block.
 */
#ifndef OPENREG_KERNEL_RANDOM_H
#define OPENREG_KERNEL_RANDOM_H

#include "kernel_types.h"
#include "philox.h"

/* MUL_LOW: the product of the lower halves of the lanes */
#if VECTOR_BITS == 512
#include <immintrin.h>
#define RANDOM_LANES 8
#define MUL_LOW(x, y) ((vec_random)_mm512_mul_epu32((__m512i)(x), (__m512i)(y)))
#define INTERLEAVE_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define INTERLEAVE_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif VECTOR_BITS == 256
#include <immintrin.h>
#define RANDOM_LANES 4
#define MUL_LOW(x, y) ((vec_random)_mm256_mul_epu32((__m256i)(x), (__m256i)(y)))
#define INTERLEAVE_LOW 0, 4, 1, 5
#define INTERLEAVE_HIGH 2, 6, 3, 7
#else
#define RANDOM_LANES 2
#define INTERLEAVE_LOW 0, 2
#define INTERLEAVE_HIGH 1, 3
#if defined(__SSE2__)
#include <emmintrin.h>
#define MUL_LOW(x, y) ((vec_random)_mm_mul_epu32((__m128i)(x), (__m128i)(y)))
#else
#define MUL_LOW(x, y) (((x) & 0xffffffff) * ((y) & 0xffffffff))
#endif
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 10")
#endif

/* Words of a row: each of RANDOM_LANES blocks has four. */
#define RANDOM_WORDS (4 * RANDOM_LANES)

typedef uint64_t vec_random __attribute__((vector_size(8 * RANDOM_LANES)));
typedef uint32_t vec_word __attribute__((vector_size(4 * RANDOM_LANES)));

/* A block is two pairs of words. The first word of a pair is the lower half. */
struct random_block {
	vec_random first, second;
};

/* Only the lower halves of c0 .. c3 matter: MUL_LOW ignores the others. */
static inline struct random_block random_block(vec_random number,
					       struct openreg_philox from)
{
	const vec_random zero = { 0 }, low = zero + 0xffffffff;
	const vec_random m0 = zero + OPENREG_PHILOX_M0;
	const vec_random m1 = zero + OPENREG_PHILOX_M1;
	vec_random c0 = number, c1 = number >> 32;
	vec_random c2 = zero + from.counter, c3 = c2 >> 32;
	uint32_t k0 = (uint32_t)from.key, k1 = (uint32_t)(from.key >> 32);
	struct random_block block;
	int round;

	UNROLL
	for (round = 0; round < OPENREG_PHILOX_ROUNDS; round++) {
		vec_random p0 = MUL_LOW(c0, m0), p1 = MUL_LOW(c2, m1);

		c0 = (p1 >> 32) ^ c1 ^ (zero + k0);
		c1 = p1;
		c2 = (p0 >> 32) ^ c3 ^ (zero + k1);
		c3 = p0;
		k0 += OPENREG_PHILOX_W0;
		k1 += OPENREG_PHILOX_W1;
	}
	block.first = (c0 & low) | c1 << 32;
	block.second = (c2 & low) | c3 << 32;
	return block;
}

static inline vec_random random_count(uint64_t first, uint64_t step)
{
	static const uint64_t lanes[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	vec_random lane;

	memcpy(&lane, lanes, sizeof(lane));
	return lane * step + first;
}

/* Stores the words of RANDOM_LANES consecutive blocks. */
static inline void random_row(void *dst, struct openreg_philox from,
			      uint64_t block)
{
	struct random_block b = random_block(random_count(block, 1), from);
	vec_random low = __builtin_shufflevector(b.first, b.second,
						 INTERLEAVE_LOW);
	vec_random high = __builtin_shufflevector(b.first, b.second,
						  INTERLEAVE_HIGH);

	memcpy(dst, &low, sizeof(low));
	memcpy((char *)dst + sizeof(low), &high, sizeof(high));
}

static void random_words(uint32_t *dst, struct openreg_philox from,
			 uint64_t first, size_t n)
{
	uint64_t block = first / 4;
	size_t skip = first % 4, step;
	uint32_t row[RANDOM_WORDS];

	for (; n; block += RANDOM_LANES) {
		if (skip || n < RANDOM_WORDS) {
			step = RANDOM_WORDS - skip < n ? RANDOM_WORDS - skip
						       : n;
			random_row(row, from, block);
			memcpy(dst, row + skip, 4 * step);
			skip = 0;
		} else {
			step = RANDOM_WORDS;
			random_row(dst, from, block);
		}
		dst += step;
		n -= step;
	}
}

static inline vec_random random_pairs(vec_random number,
				      struct openreg_philox from)
{
	const vec_random second = -(number & 1);
	struct random_block b = random_block(number >> 1, from);

	return (b.first & ~second) | (b.second & second);
}

/* part: one word of a pair, or the whole pair */
#define RANDOM(ty, words, result, pair, part)                                  \
	static void random_##ty(void *dst, struct openreg_philox from,         \
				uint64_t first, int64_t stride, size_t n)      \
	{                                                                      \
		vec_random at = random_count(first, (uint64_t)stride);         \
		unsigned_##ty *d = dst;                                        \
		result v;                                                      \
                                                                               \
		if (stride == 1) {                                             \
			random_words(dst, from, (words) * first, (words) * n); \
			return;                                                \
		}                                                              \
		for (; n >= RANDOM_LANES; n -= RANDOM_LANES) {                 \
			v = part(random_pairs(pair, from));                    \
			memcpy(d, &v, sizeof(v));                              \
			d += RANDOM_LANES;                                     \
			at += (uint64_t)stride * RANDOM_LANES;                 \
		}                                                              \
		if (n) {                                                       \
			v = part(random_pairs(pair, from));                    \
			memcpy(d, &v, n * sizeof(*d));                         \
		}                                                              \
	}

#define WORD_OF_PAIR(x)                                                        \
	__builtin_convertvector((x) >> ((at & 1) << 5), vec_word)
#define WHOLE_PAIR(x) (x)

RANDOM(i32, 1, vec_word, at >> 1, WORD_OF_PAIR)
RANDOM(i64, 2, vec_random, at, WHOLE_PAIR)

#define RANDOM_TABLES                                                          \
	.random = {                                                            \
		[OPENREG_VT_I32] = random_i32,                                 \
		[OPENREG_VT_I64] = random_i64,                                 \
	},

#endif
