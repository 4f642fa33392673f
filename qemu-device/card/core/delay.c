/* SPDX-License-Identifier: MIT */
/* For tests: a random delay before each step of an engine. */
#include <time.h>

#include "core.h"

static uint64_t xorshift(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

/* May sleep, so the thread must not be between access_begin and access_end. */
void delay_step(struct worker *w)
{
	const uint64_t most = w->card->config.slow_us * 1000ULL;
	struct timespec t = { 0 };

	if (!most)
		return;
	if (!w->delay_random)
		w->delay_random = now_ns() ^ (uintptr_t)w;
	w->delay_random = xorshift(w->delay_random);
	t.tv_nsec = (long)(w->delay_random % most);
	nanosleep(&t, NULL);
}
