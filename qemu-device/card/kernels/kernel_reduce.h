/* SPDX-License-Identifier: MIT */
/*
 * Kernels: folds. The number of lanes and the order of their sum determine the bits of
 * the result, so they are the same at every level.
 */
#ifndef OPENREG_KERNEL_REDUCE_H
#define OPENREG_KERNEL_REDUCE_H

#include "kernel_types.h"

typedef double vd8 __attribute__((vector_size(64)));
typedef double vd8_memory __attribute__((vector_size(64), aligned(8)));
typedef float vf8_memory __attribute__((vector_size(32), aligned(4)));

#define wide_f32(p) __builtin_convertvector(*(const vf8_memory *)(p), vd8)
#define wide_f64(p) ((vd8)(*(const vd8_memory *)(p)))

#define FOLD_F(op, ty, neutral, o)                                             \
	static void fold_##op##_##ty(union openreg_acc *acc, const void *src,  \
				     size_t n)                                 \
	{                                                                      \
		const type_##ty *x = src;                                      \
		double f = neutral;                                            \
		size_t i = 0;                                                  \
                                                                               \
		if (n >= 32) {                                                 \
			vd8 s = wide_##ty(x), t = wide_##ty(x + 8);            \
			vd8 u = wide_##ty(x + 16), v = wide_##ty(x + 24);      \
                                                                               \
			for (i = 32; i + 32 <= n; i += 32) {                   \
				s = s o wide_##ty(x + i);                      \
				t = t o wide_##ty(x + i + 8);                  \
				u = u o wide_##ty(x + i + 16);                 \
				v = v o wide_##ty(x + i + 24);                 \
			}                                                      \
			s = (s o t) o (u o v);                                 \
			f = ((s[0] o s[4]) o (s[1] o s[5])) o                  \
			    ((s[2] o s[6]) o (s[3] o s[7]));                   \
		}                                                              \
		for (; i < n; i++)                                             \
			f = f o (double)x[i];                                  \
		acc->f = acc->f o f;                                           \
	}                                                                      \
	static void accumulate_##op##_##ty(union openreg_acc *acc,             \
					   const void *src, size_t n)          \
	{                                                                      \
		const type_##ty *x = src;                                      \
		double *d = &acc->f;                                           \
		size_t i;                                                      \
                                                                               \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++)                                        \
			d[i] = d[i] o (double)x[i];                            \
	}

FOLD_F(SUM, f32, 0, +)
FOLD_F(SUM, f64, 0, +)
FOLD_F(PROD, f32, 1, *)
FOLD_F(PROD, f64, 1, *)

#define FOLD_I(op, ty, f, expr)                                                \
	static void fold_##op##_##ty(union openreg_acc *acc, const void *src,  \
				     size_t n)                                 \
	{                                                                      \
		const type_##ty *p = src;                                      \
		int64_t r = acc->i;                                            \
		size_t i;                                                      \
                                                                               \
		for (i = 0; i < n; i++) {                                      \
			int64_t x = p[i];                                      \
			r = (int64_t)(expr);                                   \
		}                                                              \
		acc->i = r;                                                    \
	}                                                                      \
	static void accumulate_##op##_##ty(union openreg_acc *acc,             \
					   const void *src, size_t n)          \
	{                                                                      \
		const type_##ty *p = src;                                      \
		int64_t *d = &acc->i;                                          \
		size_t i;                                                      \
                                                                               \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++) {                                      \
			int64_t r = d[i], x = p[i];                            \
			d[i] = (int64_t)(expr);                                \
		}                                                              \
	}
#define FOLD_INT(op, expr)                                                     \
	FOLD_I(op, i32, , expr)                                                \
	FOLD_I(op, i64, , expr)

FOLD_INT(SUM, (uint64_t)r + (uint64_t)x)
FOLD_INT(PROD, (uint64_t)r *(uint64_t)x)
FOLD_INT(MAX, x > r ? x : r)
FOLD_INT(MIN, x < r ? x : r)
FOLD_INT(AND, r & (x != 0))
FOLD_INT(OR, r | (x != 0))

/*
 * Always sixteen lanes, so that every level chooses the same one of 0 and -0. The vectors
 * are as wide as the host's, because GCC compares wider ones element by element.
 */
#define FOLD_LANES 16
#define FOLD_BYTES (VECTOR_BITS ? VECTOR_BITS / 8 : 16)
typedef float lanes_f32 __attribute__((vector_size(FOLD_BYTES)));
typedef int32_t mask_f32 __attribute__((vector_size(FOLD_BYTES)));
typedef double lanes_f64 __attribute__((vector_size(FOLD_BYTES)));
typedef int64_t mask_f64 __attribute__((vector_size(FOLD_BYTES)));

/* m: the extremes of each lane of x and m. n is a multiple of FOLD_LANES. */
#define LANES_EXTREME(op, ty, than)                                            \
	static inline void lanes_##op##_##ty(type_##ty *m, const type_##ty *x, \
					     size_t n)                         \
	{                                                                      \
		lanes_##ty w[FOLD_LANES * sizeof(*x) / FOLD_BYTES], v[sizeof(w) / \
								  sizeof(*w)]; \
		size_t i, p;                                                   \
                                                                               \
		memcpy(w, m, sizeof(w));                                       \
		for (i = 0; i < n; i += FOLD_LANES) {                          \
			memcpy(v, x + i, sizeof(v));                           \
			for (p = 0; p < sizeof(w) / sizeof(*w); p++) {         \
				mask_##ty take = (v[p] than w[p]) |            \
						 (v[p] != v[p]);               \
                                                                               \
				w[p] = (lanes_##ty)(                           \
					(take & (mask_##ty)v[p]) |             \
					(~take & (mask_##ty)w[p]));            \
			}                                                      \
		}                                                              \
		memcpy(m, w, sizeof(w));                                       \
	}

#define FOLD_EXTREME(op, ty, than)                                             \
	LANES_EXTREME(op, ty, than)                                            \
	static void fold_##op##_##ty(union openreg_acc *acc, const void *src,  \
				     size_t n)                                 \
	{                                                                      \
		const type_##ty *x = src;                                      \
		type_##ty r = (type_##ty)acc->f;                               \
		size_t i = 0, l;                                               \
                                                                               \
		if (n >= FOLD_LANES) {                                         \
			type_##ty m[FOLD_LANES];                               \
                                                                               \
			i = n / FOLD_LANES * FOLD_LANES;                       \
			memcpy(m, x, sizeof(m));                               \
			lanes_##op##_##ty(m, x + FOLD_LANES, i - FOLD_LANES);  \
			for (l = 0; l < FOLD_LANES; l++)                       \
				r = m[l] than r || m[l] != m[l] ? m[l] : r;    \
		}                                                              \
		for (; i < n; i++)                                             \
			r = x[i] than r || x[i] != x[i] ? x[i] : r;            \
		acc->f = (double)r;                                            \
	}                                                                      \
	static void accumulate_##op##_##ty(union openreg_acc *acc,             \
					   const void *src, size_t n)          \
	{                                                                      \
		const type_##ty *x = src;                                      \
		double *d = &acc->f;                                           \
		size_t i;                                                      \
                                                                               \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++) {                                      \
			double v = (double)x[i], r = d[i];                     \
			d[i] = ((v than r) | (v != v)) ? v : r;                \
		}                                                              \
	}

FOLD_EXTREME(MAX, f32, >)
FOLD_EXTREME(MAX, f64, >)
FOLD_EXTREME(MIN, f32, <)
FOLD_EXTREME(MIN, f64, <)

/* A NaN replaces everything but a NaN. */
#define WINS_f(v, r, than) (((v)than(r)) | (((v) != (v)) & ((r) == (r))))
#define WINS_i(v, r, than) ((v)than(r))

#define WITH_INDEX(op, ty, kind, wide, than)                                   \
	static void accumulate_index_##op##_##ty(union openreg_acc *acc,       \
						 int64_t *index,               \
						 const void *src,              \
						 int64_t position, size_t n)   \
	{                                                                      \
		const type_##ty *x = src;                                      \
		wide *d = &acc->kind;                                          \
		size_t i;                                                      \
                                                                               \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++) {                                      \
			wide v = (wide)x[i], r = d[i];                         \
			bool wins = WINS_##kind(v, r, than);                   \
                                                                               \
			d[i] = wins ? v : r;                                   \
			index[i] = wins ? position : index[i];                 \
		}                                                              \
	}

WITH_INDEX(MAX, f32, f, double, >)
WITH_INDEX(MAX, f64, f, double, >)
WITH_INDEX(MAX, i32, i, int64_t, >)
WITH_INDEX(MAX, i64, i, int64_t, >)
WITH_INDEX(MIN, f32, f, double, <)
WITH_INDEX(MIN, f64, f, double, <)
WITH_INDEX(MIN, i32, i, int64_t, <)
WITH_INDEX(MIN, i64, i, int64_t, <)

#define FIND(ty, kind)                                                         \
	static size_t find_##ty(union openreg_acc value, const void *src,      \
				size_t n)                                      \
	{                                                                      \
		const type_##ty *x = src;                                      \
		type_##ty v = (type_##ty)value.kind;                           \
		size_t i;                                                      \
                                                                               \
		for (i = 0; i < n; i++) {                                      \
			if (x[i] == v || (v != v && x[i] != x[i]))             \
				break;                                         \
		}                                                              \
		return i;                                                      \
	}

FIND(f32, f)
FIND(f64, f)
FIND(i32, i)
FIND(i64, i)

#define REDUCE_ALL(table, op)                                                  \
	[OPENREG_V_RED_##op - OPENREG_V_RED_SUM] = {                           \
		[OPENREG_VT_F32] = table##_##op##_f32,                         \
		[OPENREG_VT_F64] = table##_##op##_f64,                         \
		[OPENREG_VT_I32] = table##_##op##_i32,                         \
		[OPENREG_VT_I64] = table##_##op##_i64,                         \
	},
#define REDUCE_INT(table, op)                                                  \
	[OPENREG_V_RED_##op - OPENREG_V_RED_SUM] = {                           \
		[OPENREG_VT_I32] = table##_##op##_i32,                         \
		[OPENREG_VT_I64] = table##_##op##_i64,                         \
	},
#define REDUCE_OPS(table)                                                      \
	REDUCE_ALL(table, SUM)                                                 \
	REDUCE_ALL(table, PROD)                                                \
	REDUCE_ALL(table, MAX)                                                 \
	REDUCE_ALL(table, MIN)                                                 \
	REDUCE_INT(table, AND)                                                 \
	REDUCE_INT(table, OR)

#define REDUCE_TABLES                                                          \
	.fold = { REDUCE_OPS(fold) },                                          \
	.accumulate = { REDUCE_OPS(accumulate) },                              \
	.accumulate_index = { REDUCE_ALL(accumulate_index, MAX)                \
				      REDUCE_ALL(accumulate_index, MIN) },     \
	.find = { [OPENREG_VT_F32] = find_f32, [OPENREG_VT_F64] = find_f64,    \
		  [OPENREG_VT_I32] = find_i32, [OPENREG_VT_I64] = find_i64 },

#endif
