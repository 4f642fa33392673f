/* SPDX-License-Identifier: MIT */
/*
 * Kernels: scans. Each element becomes the value of the accumulator after it. In a chain
 * each addition waits for the one before, so the loops interleave several rows.
 */
#ifndef OPENREG_KERNEL_SCAN_H
#define OPENREG_KERNEL_SCAN_H

#include "kernel_types.h"

#define SCAN_ROWS(name, R, ty, acc_type, kind, o)                              \
	static void scan_##name##R##_##ty(union openreg_acc *acc, type_##ty *x, \
					  size_t ld, size_t n)                 \
	{                                                                      \
		acc_type a[R];                                                 \
		size_t r, i;                                                   \
                                                                               \
		for (r = 0; r < R; r++)                                        \
			a[r] = (acc_type)acc[r].kind;                          \
		for (i = 0; i < n; i++) {                                      \
			for (r = 0; r < R; r++) {                              \
				a[r] = a[r] o (acc_type)x[r * ld + i];         \
				x[r * ld + i] = (type_##ty)a[r];               \
			}                                                      \
		}                                                              \
		for (r = 0; r < R; r++)                                        \
			acc[r].kind = (__typeof__(acc[r].kind))a[r];           \
	}

#define SCAN_FOLD(name, ty, acc_type, kind, o)                                 \
	SCAN_ROWS(name, 1, ty, acc_type, kind, o)                              \
	SCAN_ROWS(name, 2, ty, acc_type, kind, o)                              \
	SCAN_ROWS(name, 4, ty, acc_type, kind, o)                              \
	SCAN_ROWS(name, 8, ty, acc_type, kind, o)                              \
	static void scan_rows_##name##_##ty(                                   \
		union openreg_acc *acc, int64_t *where, void *x,               \
		int64_t *index, size_t ld, size_t rows, size_t n,              \
		const struct openreg_scan_places *at)                          \
	{                                                                      \
		type_##ty *p = x;                                              \
                                                                               \
		(void)where, (void)index, (void)at;                            \
		for (; rows >= 8; rows -= 8, acc += 8, p += 8 * ld)            \
			scan_##name##8_##ty(acc, p, ld, n);                    \
		for (; rows >= 4; rows -= 4, acc += 4, p += 4 * ld)            \
			scan_##name##4_##ty(acc, p, ld, n);                    \
		for (; rows >= 2; rows -= 2, acc += 2, p += 2 * ld)            \
			scan_##name##2_##ty(acc, p, ld, n);                    \
		for (; rows; rows--, acc++, p += ld)                           \
			scan_##name##1_##ty(acc, p, ld, n);                    \
	}                                                                      \
	static void scan_line_##name##_##ty(                                   \
		union openreg_acc *acc, int64_t *where, void *x,               \
		int64_t *index, size_t n, int64_t at)                          \
	{                                                                      \
		__typeof__(acc->kind) *a = &acc->kind;                         \
		type_##ty *p = x;                                              \
		size_t i;                                                      \
                                                                               \
		(void)where, (void)index, (void)at;                            \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++) {                                      \
			acc_type s = (acc_type)a[i] o (acc_type)p[i];          \
                                                                               \
			a[i] = (__typeof__(acc->kind))s;                       \
			p[i] = (type_##ty)s;                                   \
		}                                                              \
	}

/* Integers add as unsigned numbers, so that overflow wraps. */
SCAN_FOLD(sum, f32, double, f, +)
SCAN_FOLD(sum, f64, double, f, +)
SCAN_FOLD(sum, i32, uint32_t, i, +)
SCAN_FOLD(sum, i64, uint64_t, i, +)
SCAN_FOLD(prod, f32, double, f, *)
SCAN_FOLD(prod, f64, double, f, *)
SCAN_FOLD(prod, i32, uint32_t, i, *)
SCAN_FOLD(prod, i64, uint64_t, i, *)

/* The last of equal elements replaces the others; a NaN replaces everything. */
#define SCAN_EXTREME(name, ty, kind, than)                                     \
	static void scan_line_##name##_##ty(                                   \
		union openreg_acc *acc, int64_t *where, void *x,               \
		int64_t *index, size_t n, int64_t at)                          \
	{                                                                      \
		__typeof__(acc->kind) *a = &acc->kind;                         \
		type_##ty *p = x;                                              \
		size_t i;                                                      \
                                                                               \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++) {                                      \
			__typeof__(acc->kind) v = p[i];                        \
			bool wins = (v than a[i]) | (v != v);                  \
                                                                               \
			a[i] = wins ? v : a[i];                                \
			p[i] = (type_##ty)a[i];                                \
			where[i] = wins ? at : where[i];                       \
		}                                                              \
		if (index)                                                     \
			memcpy(index, where, n * sizeof(*index));              \
	}                                                                      \
	static void scan_rows_##name##_##ty(                                   \
		union openreg_acc *acc, int64_t *where, void *x,               \
		int64_t *index, size_t ld, size_t rows, size_t n,              \
		const struct openreg_scan_places *at)                          \
	{                                                                      \
		type_##ty *p = x;                                              \
		int64_t first = at->first;                                     \
		size_t r, i;                                                   \
                                                                               \
		for (r = 0; r < rows; r++, p += ld, first += at->step) {       \
			type_##ty a = (type_##ty)acc[r].kind;                  \
			int64_t w = where[r];                                  \
                                                                               \
			for (i = 0; i < n; i++) {                              \
				bool wins = (p[i] than a) | (p[i] != p[i]);    \
                                                                               \
				a = wins ? p[i] : a;                           \
				w = wins ? first + (int64_t)i : w;             \
				p[i] = a;                                      \
				if (index)                                     \
					index[r * ld + i] = w;                 \
			}                                                      \
			acc[r].kind = a;                                       \
			where[r] = w;                                          \
		}                                                              \
	}

#define SCAN_EXTREMES(ty, kind)                                                \
	SCAN_EXTREME(max, ty, kind, >=)                                        \
	SCAN_EXTREME(min, ty, kind, <=)
SCAN_EXTREMES(f32, f)
SCAN_EXTREMES(f64, f)
SCAN_EXTREMES(i32, i)
SCAN_EXTREMES(i64, i)

#define SCAN_TYPES(table, name)                                                \
	{ [OPENREG_VT_F32] = table##_##name##_f32,                             \
	  [OPENREG_VT_F64] = table##_##name##_f64,                             \
	  [OPENREG_VT_I32] = table##_##name##_i32,                             \
	  [OPENREG_VT_I64] = table##_##name##_i64 }
#define SCAN_MODES(table)                                                      \
	{ [OPENREG_SCAN_SUM] = SCAN_TYPES(table, sum),                         \
	  [OPENREG_SCAN_PROD] = SCAN_TYPES(table, prod),                       \
	  [OPENREG_SCAN_MAX] = SCAN_TYPES(table, max),                         \
	  [OPENREG_SCAN_MIN] = SCAN_TYPES(table, min) }
#define SCAN_TABLES                                                            \
	.scan_line = SCAN_MODES(scan_line),                                    \
	.scan_rows = SCAN_MODES(scan_rows),

#endif
