/* SPDX-License-Identifier: MIT */
/* Kernels: the greatest element of each window in a row of windows of POOL. */
#ifndef OPENREG_KERNEL_POOL_H
#define OPENREG_KERNEL_POOL_H

#include "kernel_types.h"

/* A NaN replaces any value. index < 0: the window has no value yet. */
#define WINDOW_MAX(ty)                                                         \
	static void window_max_##ty(void *most, int64_t *index,                \
				    const void *line, int64_t at,              \
				    int64_t step, size_t n)                    \
	{                                                                      \
		type_##ty *x = most;                                           \
		const type_##ty *y = line;                                     \
		size_t i;                                                      \
                                                                               \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++) {                                      \
			bool take = (y[i] > x[i]) | (y[i] != y[i]) |           \
				    (index[i] < 0);                            \
			int64_t here = (int64_t)((uint64_t)at +                \
						 i * (uint64_t)step);          \
                                                                               \
			x[i] = take ? y[i] : x[i];                             \
			index[i] = take ? here : index[i];                     \
		}                                                              \
	}

WINDOW_MAX(f64)
WINDOW_MAX(i64)

#define POOL_TABLES                                                            \
	.window_max = { [OPENREG_VT_F64] = window_max_f64,                     \
			[OPENREG_VT_I64] = window_max_i64 },

#endif
