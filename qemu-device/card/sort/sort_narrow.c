// SPDX-License-Identifier: MIT
/* SORT of elements of up to 4 bytes: the key in the upper half of a word. */
#include <string.h>

#include "sort.h"

#define ENTRY uint64_t
#define KEY uint32_t
#define MAKE(key, place) ((uint64_t)(key) << 32 | (place))
#define KEY_OF(e) ((uint32_t)((e) >> 32))
#define PLACE_OF(e) ((uint32_t)(e))
#define DIGIT(e, d) (((const uint8_t *)(e))[4 + (d)])

#include "sort_radix.h"

const struct openreg_sort_kernels openreg_sort_narrow = KERNELS;
