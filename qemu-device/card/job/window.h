/* SPDX-License-Identifier: MIT */
/* Window geometry of CONV and POOL: the immediates and their limits. */
#ifndef OPENREG_WINDOW_H
#define OPENREG_WINDOW_H

#include "work.h"

#define OPENREG_WINDOW_DIMS 3
/* Small enough that sums and products of two such sizes do not overflow. */
#define OPENREG_WINDOW_SIZE_MAX INT32_MAX
/* Most elements or products that a packet may need. */
#define OPENREG_WINDOW_WORK_MAX (1ULL << 36)

struct openreg_geometry {
	int64_t kernel[3], input[3], stride[3], padding[3], dilation[3];
	int64_t output[3];
};

/* The last three sizes of the packet are the output's. */
struct openreg_verdict openreg_window_check(const struct openreg_args *args);
void openreg_window_get(struct openreg_geometry *w,
			const struct openreg_args *args);

/*
 * The product of n factors, none negative. Stops multiplying above
 * OPENREG_WINDOW_WORK_MAX; UINT64_MAX on overflow.
 */
uint64_t openreg_window_count(const int64_t *factor, unsigned int n);

/* The product, or -1 if it is more than OPENREG_WINDOW_WORK_MAX. */
int64_t openreg_window_product(const int64_t *factor, unsigned int n);

static inline int64_t openreg_window_volume(const int64_t size[3])
{
	return openreg_window_product(size, 3);
}

/* An offset may wrap around where the engine accesses no element. */
static inline int64_t openreg_offset(int64_t index, int64_t stride)
{
	return (int64_t)((uint64_t)index * (uint64_t)stride);
}

static inline int64_t openreg_offset_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t openreg_div_up(int64_t x, int64_t by)
{
	return x / by + (x % by > 0);
}

static inline int64_t openreg_gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static inline int64_t openreg_least(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

static inline int64_t openreg_greatest(int64_t x, int64_t y)
{
	return x > y ? x : y;
}

/* Checks one operand: its dims, and size in place of the output's last three sizes. */
struct openreg_verdict openreg_window_operand(struct openreg_args *args,
					      unsigned int i, uint32_t dims,
					      const int64_t size[3],
					      bool written);

#endif
