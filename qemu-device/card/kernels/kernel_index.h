/* SPDX-License-Identifier: MIT */
/*
 * Kernels: tiles of INDEX. Points run in row-major order, so that the last of several
 * writes to an element stays.
 */
#ifndef OPENREG_KERNEL_INDEX_H
#define OPENREG_KERNEL_INDEX_H

#include "kernel_types.h"

/*
 * Makes a private copy of the indices, so that the card uses the values that it checks,
 * even if user space changes the memory. The barrier stops the compiler from reading the
 * memory again.
 */
#define INDEX_READ(T)                                                          \
	static void index_read_##T(int64_t *restrict to, uintptr_t from,       \
				   int64_t stride, size_t n)                   \
	{                                                                      \
		const T *x = (const T *)from;                                  \
		size_t i;                                                      \
                                                                               \
		if (stride == sizeof(T)) {                                     \
			for (i = 0; i < n; i++)                                \
				to[i] = x[i];                                  \
		} else {                                                       \
			for (i = 0; i < n; i++, from += (uintptr_t)stride)     \
				to[i] = *(const T *)from;                      \
		}                                                              \
		__asm__ volatile("" : : "r"(to) : "memory");                   \
	}
INDEX_READ(int32_t)
INDEX_READ(int64_t)

static void index_walk(uint64_t *off, uint64_t stride, size_t n)
{
	uint64_t at = 0;
	size_t i;

	for (i = 0; i < n; i++, at += stride)
		off[i] = at;
}

static bool index_offsets(const struct openreg_index_range *range,
			  const int64_t *restrict index,
			  uint64_t *restrict off, size_t n)
{
	uint64_t extent = range->extent, step = range->step;
	uint64_t add = range->wrap ? extent : 0, outside = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t v = (uint64_t)index[i];

		v += index[i] < 0 ? add : 0;
		outside |= v >= extent;
		off[i] += v * step;
	}
	return !outside;
}

/* Loops for points of one element, for dense runs, and for other runs. */
#define INDEX_POINTS(T, only, DST_AT, SRC_AT, statement)                       \
	only(INDEPENDENT,)                                                     \
	for (i = 0; i < walk; i++) {                                           \
		T *d = (T *)(dst + DST_AT(i));                                 \
		const T *s = (const T *)(src + SRC_AT(i));                     \
                                                                               \
		only(, __builtin_prefetch(dst + NEXT_AT(i));)                  \
		statement;                                                     \
	}
#define INDEX_RUNS(T, only, DST_AT, SRC_AT, DENSE, statement)                  \
	const int64_t *off = t->off;                                           \
	const int64_t walk = t->walk, run = t->run, direct = t->direct;        \
	const int64_t dst_run = t->dst_run, src_run = t->src_run;              \
	char *dst = t->dst;                                                    \
	const char *src = t->src;                                              \
	int64_t i, j;                                                          \
                                                                               \
	if (run == 1 && direct == sizeof(T)) {                                 \
		INDEX_POINTS(T, only, DST_AT##_DENSE, SRC_AT##_DENSE,          \
			     statement)                                        \
		return;                                                        \
	}                                                                      \
	if (run == 1) {                                                        \
		INDEX_POINTS(T, only, DST_AT, SRC_AT, statement)               \
		return;                                                        \
	}                                                                      \
	for (i = 0; i < walk; i++) {                                           \
		char *to = dst + DST_AT(i);                                    \
		const char *from = src + SRC_AT(i);                            \
                                                                               \
		if (dst_run == sizeof(T) && src_run == sizeof(T)) {            \
			DENSE(T, statement)                                    \
			continue;                                              \
		}                                                              \
		for (j = 0; j < run; j++) {                                    \
			T *d = (T *)(to + j * dst_run);                        \
			const T *s = (const T *)(from + j * src_run);          \
                                                                               \
			statement;                                             \
		}                                                              \
	}

/* Reads may run in any order. A write prefetches, as it waits for its cache line. */
#define FOR_GET(get, put) get
#define FOR_PUT(get, put) put
#define FOR_COMBINE(get, put)
#define NEXT_AT(i) off[(i) + OPENREG_INDEX_AHEAD]
#define INDEX_AT(i) off[i]
#define INDEX_AT_DENSE(i) off[i]
#define DIRECT_AT(i) ((i) * direct)
#define DIRECT_AT_DENSE(i) ((i) * (int64_t)sizeof(*d))

/* With overlapping operands any result is allowed, but memcpy() would be undefined. */
#define COPY_RUN(T, statement) memmove(to, from, (size_t)run * sizeof(T));
#define EACH_OF_RUN(T, statement)                                              \
	INDEPENDENT                                                            \
	for (j = 0; j < run; j++) {                                            \
		T *d = (T *)to + j;                                            \
		const T *s = (const T *)from + j;                              \
                                                                               \
		statement;                                                     \
	}

#define INDEX_GET(T)                                                           \
	static void index_get_##T(const struct openreg_index_tile *t)          \
	{                                                                      \
		INDEX_RUNS(T, FOR_GET, DIRECT_AT, INDEX_AT, COPY_RUN, *d = *s) \
	}
#define INDEX_PUT(T)                                                           \
	static void index_put_##T(const struct openreg_index_tile *t)          \
	{                                                                      \
		INDEX_RUNS(T, FOR_PUT, INDEX_AT, DIRECT_AT, COPY_RUN, *d = *s) \
	}
#define INDEX_MOVES(T) INDEX_GET(T) INDEX_PUT(T)
INDEX_MOVES(uint8_t)
INDEX_MOVES(uint16_t)
INDEX_MOVES(uint32_t)
INDEX_MOVES(uint64_t)

#define INDEX_COMBINE(name, T, expression)                                     \
	static void index_##name(const struct openreg_index_tile *t)           \
	{                                                                      \
		INDEX_RUNS(T, FOR_COMBINE, INDEX_AT, DIRECT_AT, EACH_OF_RUN,   \
			   const T a = *d; const T b = *s;                     \
			   *d = (T)(expression))                               \
	}
#define INDEX_INTEGER(T)                                                       \
	INDEX_COMBINE(add_##T, T, (uint64_t)a + (uint64_t)b)                   \
	INDEX_COMBINE(mul_##T, T, (uint64_t)a * (uint64_t)b)                   \
	INDEX_COMBINE(min_##T, T, a < b ? a : b)                               \
	INDEX_COMBINE(max_##T, T, a > b ? a : b)
#define INDEX_FLOATING(T)                                                      \
	INDEX_COMBINE(add_##T, T, a + b)                                       \
	INDEX_COMBINE(mul_##T, T, a * b)                                       \
	INDEX_COMBINE(min_##T, T, ((a < b) | (a != a)) ? a : b)                \
	INDEX_COMBINE(max_##T, T, ((a > b) | (a != a)) ? a : b)

/* Halves compute in f32 and round at every step. */
#define INDEX_HALF(type)                                                       \
	INDEX_COMBINE(add_##type, uint16_t,                                    \
		      openreg_f32_to_##type(openreg_##type##_to_f32(a) +       \
					    openreg_##type##_to_f32(b)))       \
	INDEX_COMBINE(mul_##type, uint16_t,                                    \
		      openreg_f32_to_##type(openreg_##type##_to_f32(a) *       \
					    openreg_##type##_to_f32(b)))       \
	INDEX_COMBINE(min_##type, uint16_t, lesser_##type(a, b) ? a : b)       \
	INDEX_COMBINE(max_##type, uint16_t, greater_##type(a, b) ? a : b)
#define INDEX_ORDER(type)                                                      \
	static inline bool lesser_##type(uint16_t x, uint16_t y)               \
	{                                                                      \
		float a = openreg_##type##_to_f32(x);                          \
                                                                               \
		return (a < openreg_##type##_to_f32(y)) | (a != a);            \
	}                                                                      \
	static inline bool greater_##type(uint16_t x, uint16_t y)              \
	{                                                                      \
		float a = openreg_##type##_to_f32(x);                          \
                                                                               \
		return (a > openreg_##type##_to_f32(y)) | (a != a);            \
	}

INDEX_INTEGER(int8_t)
INDEX_INTEGER(uint8_t)
INDEX_INTEGER(int16_t)
INDEX_INTEGER(int32_t)
INDEX_INTEGER(int64_t)
INDEX_FLOATING(float)
INDEX_FLOATING(double)
INDEX_ORDER(f16)
INDEX_HALF(f16)
INDEX_ORDER(bf16)
INDEX_HALF(bf16)
INDEX_COMBINE(or_bool, uint8_t, (a != 0) | (b != 0))
INDEX_COMBINE(and_bool, uint8_t, (a != 0) & (b != 0))

#define INDEX_COMBINES(suffix)                                                 \
	{                                                                      \
		index_add_##suffix, index_mul_##suffix, index_min_##suffix,    \
			index_max_##suffix                                     \
	}
#define INDEX_TABLES                                                           \
	.index_read = { index_read_int32_t, index_read_int64_t },              \
	.index_walk = index_walk,                                              \
	.index_offsets = index_offsets,                                        \
	.index_get = { index_get_uint8_t, index_get_uint16_t,                  \
		       index_get_uint32_t, index_get_uint64_t },               \
	.index_put = { index_put_uint8_t, index_put_uint16_t,                  \
		       index_put_uint32_t, index_put_uint64_t },               \
	.index_combine = {                                                     \
		[OPENREG_F32] = INDEX_COMBINES(float),                         \
		[OPENREG_F64] = INDEX_COMBINES(double),                        \
		[OPENREG_F16] = INDEX_COMBINES(f16),                           \
		[OPENREG_BF16] = INDEX_COMBINES(bf16),                         \
		[OPENREG_I8] = INDEX_COMBINES(int8_t),                         \
		[OPENREG_U8] = INDEX_COMBINES(uint8_t),                        \
		[OPENREG_I16] = INDEX_COMBINES(int16_t),                       \
		[OPENREG_I32] = INDEX_COMBINES(int32_t),                       \
		[OPENREG_I64] = INDEX_COMBINES(int64_t),                       \
		[OPENREG_BOOL] = { index_or_bool, index_and_bool,              \
				   index_and_bool, index_or_bool },            \
	},

#endif
