/* SPDX-License-Identifier: MIT */
/*
 * INDEX: what is done to a tile whose indices have been checked. Points are
 * taken in row-major order, so that the last of several writers wins.
 */
#include <string.h>

#include "dtype.h"
#include "index.h"

/* One instance each for runs of one element, dense runs, and the others. */
#define RUNS(T, statement)                                                     \
	int64_t i, j;                                                          \
                                                                               \
	if (t->run == 1) {                                                     \
		for (i = 0; i < t->walk; i++) {                                \
			T *d = (T *)(t->dst + DST_AT(i));                      \
			const T *s = (const T *)(t->src + SRC_AT(i));          \
                                                                               \
			statement;                                             \
		}                                                              \
		return;                                                        \
	}                                                                      \
	for (i = 0; i < t->walk; i++) {                                        \
		char *to = t->dst + DST_AT(i);                                 \
		const char *from = t->src + SRC_AT(i);                         \
                                                                               \
		if (t->dst_run == sizeof(T) && t->src_run == sizeof(T)) {      \
			DENSE(T, statement)                                    \
			continue;                                              \
		}                                                              \
		for (j = 0; j < t->run; j++) {                                 \
			T *d = (T *)(to + j * t->dst_run);                     \
			const T *s = (const T *)(from + j * t->src_run);       \
                                                                               \
			statement;                                             \
		}                                                              \
	}

/* Operands that overlap give any result, but memcpy() may do anything. */
#define COPY_RUN(T, statement) memmove(to, from, (size_t)t->run * sizeof(T));
#define EACH_OF_RUN(T, statement)                                              \
	for (j = 0; j < t->run; j++) {                                         \
		T *d = (T *)to + j;                                            \
		const T *s = (const T *)from + j;                              \
                                                                               \
		statement;                                                     \
	}

#define DST_AT(i) ((i) * t->dst_walk)
#define SRC_AT(i) (t->off[i] + (i) * t->src_walk)
#define DENSE COPY_RUN
/* Lines of the walk, where the destination is denser along it than along the run. */
#define LINES(T)                                                               \
	static void get_lines_##T(const struct openreg_index_tile *t)          \
	{                                                                      \
		int64_t i, j;                                                  \
                                                                               \
		for (j = 0; j < t->run; j++) {                                 \
			char *to = t->dst + j * t->dst_run;                    \
			const char *from = t->src + j * t->src_run;            \
                                                                               \
			for (i = 0; i < t->walk; i++)                          \
				*(T *)(to + DST_AT(i)) =                       \
					*(const T *)(from + SRC_AT(i));        \
		}                                                              \
	}
#define GET(T)                                                                 \
	LINES(T)                                                               \
	static void get_##T(const struct openreg_index_tile *t)                \
	{                                                                      \
		if (t->run > 1 && t->dst_walk == sizeof(T)) {                  \
			get_lines_##T(t);                                      \
			return;                                                \
		}                                                              \
		RUNS(T, *d = *s)                                               \
	}
GET(uint8_t)
GET(uint16_t)
GET(uint32_t)
GET(uint64_t)

#undef DST_AT
#undef SRC_AT
#define DST_AT(i) (t->off[i] + (i) * t->dst_walk)
#define SRC_AT(i) ((i) * t->src_walk)
#define PUT(T)                                                                 \
	static void put_##T(const struct openreg_index_tile *t)                \
	{                                                                      \
		RUNS(T, *d = *s)                                               \
	}
PUT(uint8_t)
PUT(uint16_t)
PUT(uint32_t)
PUT(uint64_t)

#undef DENSE
#define DENSE EACH_OF_RUN

#define COMBINE(name, T, expression)                                           \
	static void name(const struct openreg_index_tile *t)                   \
	{                                                                      \
		RUNS(T, const T a = *d; const T b = *s; *d = (T)(expression))  \
	}
#define INTEGER(T)                                                             \
	COMBINE(add_##T, T, (uint64_t)a + (uint64_t)b)                         \
	COMBINE(mul_##T, T, (uint64_t)a * (uint64_t)b)                         \
	COMBINE(min_##T, T, a < b ? a : b)                                     \
	COMBINE(max_##T, T, a > b ? a : b)
#define FLOATING(T)                                                            \
	COMBINE(add_##T, T, a + b)                                             \
	COMBINE(mul_##T, T, a * b)                                             \
	COMBINE(min_##T, T, a < b || a != a ? a : b)                           \
	COMBINE(max_##T, T, a > b || a != a ? a : b)

/* Halves compute in f32 and are rounded at every step. */
#define HALF(type)                                                             \
	COMBINE(add_##type, uint16_t,                                          \
		openreg_f32_to_##type(openreg_##type##_to_f32(a) +             \
				      openreg_##type##_to_f32(b)))             \
	COMBINE(mul_##type, uint16_t,                                          \
		openreg_f32_to_##type(openreg_##type##_to_f32(a) *             \
				      openreg_##type##_to_f32(b)))             \
	COMBINE(min_##type, uint16_t, lesser_##type(a, b) ? a : b)             \
	COMBINE(max_##type, uint16_t, greater_##type(a, b) ? a : b)
#define ORDER(type)                                                            \
	static bool lesser_##type(uint16_t x, uint16_t y)                      \
	{                                                                      \
		float a = openreg_##type##_to_f32(x);                          \
                                                                               \
		return a < openreg_##type##_to_f32(y) || a != a;               \
	}                                                                      \
	static bool greater_##type(uint16_t x, uint16_t y)                     \
	{                                                                      \
		float a = openreg_##type##_to_f32(x);                          \
                                                                               \
		return a > openreg_##type##_to_f32(y) || a != a;               \
	}

INTEGER(int8_t)
INTEGER(uint8_t)
INTEGER(int16_t)
INTEGER(int32_t)
INTEGER(int64_t)
FLOATING(float)
FLOATING(double)
ORDER(f16)
HALF(f16)
ORDER(bf16)
HALF(bf16)
COMBINE(or_bool, uint8_t, (a != 0) | (b != 0))
COMBINE(and_bool, uint8_t, (a != 0) & (b != 0))

#define COMBINES(suffix)                                                       \
	{                                                                      \
		add_##suffix, mul_##suffix, min_##suffix, max_##suffix         \
	}

static openreg_index_fn *const combines[OPENREG_DTYPE_END][4] = {
	[OPENREG_F32] = COMBINES(float),
	[OPENREG_F64] = COMBINES(double),
	[OPENREG_F16] = COMBINES(f16),
	[OPENREG_BF16] = COMBINES(bf16),
	[OPENREG_I8] = COMBINES(int8_t),
	[OPENREG_U8] = COMBINES(uint8_t),
	[OPENREG_I16] = COMBINES(int16_t),
	[OPENREG_I32] = COMBINES(int32_t),
	[OPENREG_I64] = COMBINES(int64_t),
	[OPENREG_BOOL] = { or_bool, and_bool, and_bool, or_bool },
};

openreg_index_fn *openreg_index_kernel(unsigned int mode, unsigned int dtype)
{
	bool get = mode == OPENREG_INDEX_GET;

	if (mode >= OPENREG_INDEX_ADD)
		return combines[dtype][mode - OPENREG_INDEX_ADD];
	switch (openreg_dtype_size(dtype)) {
	case 1:
		return get ? get_uint8_t : put_uint8_t;
	case 2:
		return get ? get_uint16_t : put_uint16_t;
	case 4:
		return get ? get_uint32_t : put_uint32_t;
	default:
		return get ? get_uint64_t : put_uint64_t;
	}
}
