// SPDX-License-Identifier: MIT
/* SORT of elements of 8 bytes, with entries of 12 bytes. */
#include <string.h>

#include "sort.h"

struct entry {
	uint32_t low, high, place;
};

#define ENTRY struct entry
#define KEY uint64_t
#define MAKE(key, place) make(key, place)
#define KEY_OF(e) ((uint64_t)(e).high << 32 | (e).low)
#define PLACE_OF(e) ((e).place)
#define DIGIT(e, d) (((const uint8_t *)(e))[d])

static inline struct entry make(uint64_t key, uint32_t place)
{
	return (struct entry){ (uint32_t)key, (uint32_t)(key >> 32), place };
}

#include "sort_radix.h"

const struct openreg_sort_kernels openreg_sort_wide = KERNELS;
