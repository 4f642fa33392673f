/* SPDX-License-Identifier: MIT */
/* Random numbers, the same in every run. */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <stdint.h>

static inline uint64_t random64(void)
{
	static _Thread_local uint64_t x = 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* 0..n-1 */
static inline uint64_t below(uint64_t n)
{
	return random64() % n;
}

static inline void random_delay(uint64_t most)
{
	uint64_t k;

	for (k = below(most); k; k--)
		__asm__ volatile("");
}

#endif
