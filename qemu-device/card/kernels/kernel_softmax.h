/* SPDX-License-Identifier: MIT */
/*
 * Kernels: combine a block with one value for each of its rows, or fold its rows. Rows
 * lie across lines of `width` elements, or one after another.
 */
#ifndef OPENREG_KERNEL_SOFTMAX_H
#define OPENREG_KERNEL_SOFTMAX_H

#include "kernel_reduce.h"

#define BY_ROW(name, ty, expr)                                                 \
	static void name##_across_##ty(void *block, const double *value,       \
				       size_t width, size_t lines)             \
	{                                                                      \
		type_##ty *x = block, s[OPENREG_SOFTMAX_WIDTH];                \
		size_t i, l;                                                   \
                                                                               \
		for (i = 0; i < width; i++)                                    \
			s[i] = (type_##ty)value[i];                            \
		for (l = 0; l < lines; l++, x += width) {                      \
			INDEPENDENT                                            \
			for (i = 0; i < width; i++)                            \
				x[i] = x[i] expr s[i];                         \
		}                                                              \
	}                                                                      \
	static void name##_rows_##ty(void *block, const double *value,         \
				     size_t rows, size_t n)                    \
	{                                                                      \
		type_##ty *x = block;                                          \
		size_t i, r;                                                   \
                                                                               \
		for (r = 0; r < rows; r++, x += n) {                           \
			const type_##ty v = (type_##ty)value[r];               \
                                                                               \
			INDEPENDENT                                            \
			for (i = 0; i < n; i++)                                \
				x[i] = x[i] expr v;                            \
		}                                                              \
	}

BY_ROW(subtract, f32, -)
BY_ROW(subtract, f64, -)
BY_ROW(multiply, f32, *)
BY_ROW(multiply, f64, *)

#define GREATER(v, r) ((v) > (r) || (v) != (v) ? (v) : (r))

/* The maximum reads the last 16 elements of a row first, and some of them again. */
#define OF_ROWS(ty)                                                            \
	static inline double sum_of_few_##ty(const type_##ty *x, size_t n)     \
	{                                                                      \
		vd8 s = { 0 };                                                 \
		double f = 0;                                                  \
		size_t i;                                                      \
                                                                               \
		for (i = 0; i + 8 <= n; i += 8)                                \
			s += wide_##ty(x + i);                                 \
		if (i)                                                         \
			f = ((s[0] + s[4]) + (s[1] + s[5])) +                  \
			    ((s[2] + s[6]) + (s[3] + s[7]));                   \
		for (; i < n; i++)                                             \
			f += (double)x[i];                                     \
		return f;                                                      \
	}                                                                      \
	static void most_of_rows_##ty(double *value, const void *block,        \
				      size_t rows, size_t n)                   \
	{                                                                      \
		const type_##ty *x = block;                                    \
		size_t i, r, half;                                             \
                                                                               \
		for (r = 0; r < rows; r++, x += n) {                           \
			type_##ty most = x[0], m[FOLD_LANES];                  \
                                                                               \
			if (n < FOLD_LANES) {                                  \
				for (i = 1; i < n; i++)                        \
					most = GREATER(x[i], most);            \
				value[r] = (double)most;                       \
				continue;                                      \
			}                                                      \
			memcpy(m, x + n - FOLD_LANES, sizeof(m));              \
			lanes_MAX_##ty(m, x, (n - 1) / FOLD_LANES * FOLD_LANES); \
			for (half = FOLD_LANES / 2; half; half /= 2) {         \
				for (i = 0; i < half; i++)                     \
					m[i] = GREATER(m[i + half], m[i]);     \
			}                                                      \
			value[r] = (double)m[0];                               \
		}                                                              \
	}                                                                      \
	static void sum_of_rows_##ty(double *value, const void *block,         \
				     size_t rows, size_t n)                    \
	{                                                                      \
		const type_##ty *x = block;                                    \
		union openreg_acc acc;                                         \
		size_t r;                                                      \
                                                                               \
		for (r = 0; r < rows; r++, x += n) {                           \
			acc.f = 0;                                             \
			if (n < 32)                                            \
				acc.f = sum_of_few_##ty(x, n);                 \
			else                                                   \
				fold_SUM_##ty(&acc, x, n);                     \
			value[r] = acc.f;                                      \
		}                                                              \
	}

OF_ROWS(f32)
OF_ROWS(f64)

#define BY_ROW_TABLE(name)                                                     \
	.name = { { [OPENREG_VT_F32] = name##_across_f32,                      \
		    [OPENREG_VT_F64] = name##_across_f64 },                    \
		  { [OPENREG_VT_F32] = name##_rows_f32,                        \
		    [OPENREG_VT_F64] = name##_rows_f64 } },
#define SOFTMAX_TABLES                                                         \
	BY_ROW_TABLE(subtract)                                                 \
	BY_ROW_TABLE(multiply)                                                 \
	.most_of_rows = { [OPENREG_VT_F32] = most_of_rows_f32,                 \
			  [OPENREG_VT_F64] = most_of_rows_f64 },               \
	.sum_of_rows = { [OPENREG_VT_F32] = sum_of_rows_f32,                   \
			 [OPENREG_VT_F64] = sum_of_rows_f64 },

#endif
