/* SPDX-License-Identifier: MIT */
/*
 * A fuzzer's input, read byte by byte. Behind its end the stream has zeros, so every
 * input is complete.
 */
#ifndef FUZZ_STREAM_H
#define FUZZ_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream {
	const uint8_t *at;
	size_t left;
};

static inline uint8_t take8(struct stream *s)
{
	if (!s->left)
		return 0;
	s->left--;
	return *s->at++;
}

static inline uint64_t take64(struct stream *s)
{
	uint64_t v = 0;
	unsigned int i;

	for (i = 0; i < 8; i++)
		v |= (uint64_t)take8(s) << 8 * i;
	return v;
}

/* 0 .. n - 1, n at most 256 */
static inline unsigned int take(struct stream *s, unsigned int n)
{
	return take8(s) % n;
}

/* True once in often reads; never behind the end. */
static inline bool rare(struct stream *s, unsigned int often)
{
	return take8(s) >= 256 - 256 / often;
}

/* A boundary value, which may be one too many or overflow. */
static inline uint64_t take_odd(struct stream *s)
{
	static const uint64_t odd[] = {
		0, ~0ULL, 1ULL << 63, ~0ULL >> 1, 1ULL << 31, 1ULL << 32,
		0xffffffff, 1ULL << 36, 1ULL << 37, 1ULL << 38, 1ULL << 40,
		1ULL << 61, 0x7ffffffffffffff8, 4096, 255, 256, 0x10001,
	};
	unsigned int which = take8(s);

	if (which < sizeof(odd) / sizeof(*odd))
		return odd[which];
	if (which < 64)
		return odd[which % (sizeof(odd) / sizeof(*odd))] - 1;
	if (which < 128)
		return 1ULL << which % 64;
	if (which < 192)
		return -(1ULL << which % 64);
	return take64(s);
}

#endif
