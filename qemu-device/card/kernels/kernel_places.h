/* SPDX-License-Identifier: MIT */
/* Kernels: counts or finds elements that are not 0. */
#ifndef OPENREG_KERNEL_PLACES_H
#define OPENREG_KERNEL_PLACES_H

#include "kernel_types.h"

#define PLACES(ty, TY)                                                         \
	static int64_t places_##ty(int64_t *found, const void *from,           \
				   int64_t first, size_t n)                    \
	{                                                                      \
		const type_##ty *x = from;                                     \
		int64_t k = 0;                                                 \
		size_t i;                                                      \
                                                                               \
		if (!found) {                                                  \
			int32_t sum = 0;                                       \
                                                                               \
			for (i = 0; i < n; i++)                                \
				sum += x[i] != 0;                              \
			return sum;                                            \
		}                                                              \
		for (i = 0; i < n; i++) {                                      \
			found[k] = first + (int64_t)i;                         \
			k += x[i] != 0;                                        \
		}                                                              \
		return k;                                                      \
	}

ALL_TYPES(PLACES)

#define PLACES_ENTRY(ty, TY) [OPENREG_VT_##TY] = places_##ty,
#define PLACES_TABLES .places = { ALL_TYPES(PLACES_ENTRY) },

#endif
