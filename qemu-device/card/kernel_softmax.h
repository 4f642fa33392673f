/* SPDX-License-Identifier: MIT */
/*
 * Kernels: what softmax does to a block of `lines` lines of `width` elements,
 * with one value for each position in a line. Width 1 is a plain vector.
 */
#ifndef OPENREG_KERNEL_SOFTMAX_H
#define OPENREG_KERNEL_SOFTMAX_H

#include "kernel_types.h"

#define BY_POSITION(name, ty, expr)                                            \
	static void name##_##ty(void *block, const double *value,              \
				size_t width, size_t lines)                    \
	{                                                                      \
		type_##ty *x = block, s[OPENREG_SOFTMAX_WIDTH];                \
		size_t i, l;                                                   \
                                                                               \
		for (i = 0; i < width; i++)                                    \
			s[i] = (type_##ty)value[i];                            \
		if (width == 1) {                                              \
			const type_##ty v = s[0];                              \
                                                                               \
			INDEPENDENT                                            \
			for (l = 0; l < lines; l++)                            \
				x[l] = x[l] expr v;                            \
			return;                                                \
		}                                                              \
		for (l = 0; l < lines; l++, x += width) {                      \
			INDEPENDENT                                            \
			for (i = 0; i < width; i++)                            \
				x[i] = x[i] expr s[i];                         \
		}                                                              \
	}

BY_POSITION(subtract, f32, -)
BY_POSITION(subtract, f64, -)
BY_POSITION(divide, f32, /)
BY_POSITION(divide, f64, /)
BY_POSITION(multiply, f32, *)
BY_POSITION(multiply, f64, *)

#define SOFTMAX_TABLES                                                         \
	.subtract = { [OPENREG_VT_F32] = subtract_f32,                         \
		      [OPENREG_VT_F64] = subtract_f64 },                       \
	.divide = { [OPENREG_VT_F32] = divide_f32,                             \
		    [OPENREG_VT_F64] = divide_f64 },                           \
	.multiply = { [OPENREG_VT_F32] = multiply_f32,                         \
		      [OPENREG_VT_F64] = multiply_f64 },

#endif
