// SPDX-License-Identifier: MIT
/* Prints the rate of the time stamp counter in kHz; nothing if this is not x86-64. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>

#define WINDOW_NS 50000000
#define TRIES 100

struct reading {
	uint64_t ns, ticks;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * Reads both clocks many times, and returns the pair with the shortest time between the
 * two readings of CLOCK_MONOTONIC: the one that was least disturbed.
 */
static struct reading take(void)
{
	uint64_t least = UINT64_MAX;
	struct reading best = { 0 };
	int i;

	for (i = 0; i < TRIES; i++) {
		uint64_t before = now_ns(), ticks = __rdtsc();
		uint64_t took = now_ns() - before;

		if (took < least) {
			least = took;
			best = (struct reading){ before + took / 2, ticks };
		}
	}
	return best;
}

int main(void)
{
	struct timespec window = { .tv_nsec = WINDOW_NS };
	struct reading from = take(), to;

	nanosleep(&window, NULL);
	to = take();
	printf("%.0f\n", (double)(to.ticks - from.ticks) * 1e6 /
			 (double)(to.ns - from.ns));
	return 0;
}
#else
int main(void)
{
	return 0;
}
#endif
