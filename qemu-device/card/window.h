/* SPDX-License-Identifier: MIT */
/* Windows of CONV and POOL: their immediates, and limits on them. */
#ifndef OPENREG_WINDOW_H
#define OPENREG_WINDOW_H

#include "engine_internal.h"

#define OPENREG_WINDOW_DIMS 3
/* Nothing that is computed from two of these overflows. */
#define OPENREG_WINDOW_SIZE_MAX INT32_MAX
/* Elements or products that a packet may have to do with. */
#define OPENREG_WINDOW_WORK_MAX (1ULL << 36)

struct openreg_geometry {
	int64_t kernel[3], input[3], stride[3], padding[3], dilation[3];
	int64_t output[3];
};

/* The output's sizes are the packet's last three. */
struct openreg_verdict openreg_window_check(const struct openreg_args *args);
void openreg_window_get(struct openreg_geometry *w,
			const struct openreg_args *args);

/*
 * A product of factors that are not negative. It is taken no further than to
 * what is more than OPENREG_WINDOW_WORK_MAX; UINT64_MAX if that overflows.
 */
uint64_t openreg_window_count(const int64_t *factor, unsigned int n);

/* The same; -1 for what is more than OPENREG_WINDOW_WORK_MAX. */
int64_t openreg_window_product(const int64_t *factor, unsigned int n);

static inline int64_t openreg_window_volume(const int64_t size[3])
{
	return openreg_window_product(size, 3);
}

/* Offsets may wrap around where nothing is accessed. */
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

/* For one operand: its dimensions, and input or kernel in place of output. */
struct openreg_verdict openreg_window_operand(struct openreg_args *args,
					      unsigned int i, uint32_t dims,
					      const int64_t size[3],
					      bool written);

#endif
