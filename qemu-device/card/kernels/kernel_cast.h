/* SPDX-License-Identifier: MIT */
/* Kernels: memory to register, register to memory, register to register. */
#ifndef OPENREG_KERNEL_CAST_H
#define OPENREG_KERNEL_CAST_H

#include "kernel_types.h"

/* dtype, its type in memory, the register type that holds it exactly */
#define DTYPES(X, ...)                                                         \
	X(f32, F32, float, f32, ##__VA_ARGS__)                                 \
	X(f64, F64, double, f64, ##__VA_ARGS__)                                \
	X(f16, F16, uint16_t, f32, ##__VA_ARGS__)                              \
	X(bf16, BF16, uint16_t, f32, ##__VA_ARGS__)                            \
	X(i8, I8, int8_t, i32, ##__VA_ARGS__)                                  \
	X(u8, U8, uint8_t, i32, ##__VA_ARGS__)                                 \
	X(i16, I16, int16_t, i32, ##__VA_ARGS__)                               \
	X(i32, I32, int32_t, i32, ##__VA_ARGS__)                               \
	X(i64, I64, int64_t, i64, ##__VA_ARGS__)                               \
	X(bool, BOOL, uint8_t, i32, ##__VA_ARGS__)                             \
	X(e4m3fn, F8E4M3FN, uint8_t, f32, ##__VA_ARGS__)                       \
	X(e5m2, F8E5M2, uint8_t, f32, ##__VA_ARGS__)                           \
	X(e4m3fnuz, F8E4M3FNUZ, uint8_t, f32, ##__VA_ARGS__)                   \
	X(e5m2fnuz, F8E5M2FNUZ, uint8_t, f32, ##__VA_ARGS__)                   \
	X(e8m0fnu, F8E8M0FNU, uint8_t, f32, ##__VA_ARGS__)

#define widen_f32(x) (x)
#define widen_f64(x) (x)
#define widen_f16(x) openreg_f16_to_f32(x)
#define widen_bf16(x) openreg_bf16_to_f32(x)
#define widen_e4m3fn(x) openreg_e4m3fn_to_f32(x)
#define widen_e5m2(x) openreg_e5m2_to_f32(x)
#define widen_e4m3fnuz(x) openreg_e4m3fnuz_to_f32(x)
#define widen_e5m2fnuz(x) openreg_e5m2fnuz_to_f32(x)
#define widen_e8m0fnu(x) openreg_e8m0fnu_to_f32(x)
#define widen_i8(x) ((int32_t)(x))
#define widen_u8(x) ((int32_t)(x))
#define widen_i16(x) ((int32_t)(x))
#define widen_i32(x) (x)
#define widen_i64(x) (x)
#define widen_bool(x) ((int32_t)((x) != 0))

#define narrow_f32(x, from) cast_##from##_f32(x)
#define narrow_f64(x, from) cast_##from##_f64(x)
#define narrow_f16(x, from) openreg_f32_to_f16(cast_##from##_f32(x))
#define narrow_bf16(x, from) openreg_f32_to_bf16(cast_##from##_f32(x))
#define narrow_e4m3fn(x, from) openreg_f32_to_e4m3fn(cast_##from##_f32(x))
#define narrow_e5m2(x, from) openreg_f32_to_e5m2(cast_##from##_f32(x))
#define narrow_e4m3fnuz(x, from) openreg_f32_to_e4m3fnuz(cast_##from##_f32(x))
#define narrow_e5m2fnuz(x, from) openreg_f32_to_e5m2fnuz(cast_##from##_f32(x))
#define narrow_e8m0fnu(x, from) openreg_f32_to_e8m0fnu(cast_##from##_f32(x))
#define narrow_i8(x, from) ((int8_t)(uint8_t)cast_##from##_i32(x))
#define narrow_u8(x, from) ((uint8_t)cast_##from##_i32(x))
#define narrow_i16(x, from) ((int16_t)(uint16_t)cast_##from##_i32(x))
#define narrow_i32(x, from) cast_##from##_i32(x)
#define narrow_i64(x, from) cast_##from##_i64(x)
#define narrow_bool(x, from) ((uint8_t)((x) != 0))

#define LOAD(dt, DT, mem, wide, ty, TY)                                        \
	static void load_##dt##_##ty(void *dst, const void *src,               \
				     int64_t stride, size_t n)                 \
	{                                                                      \
		type_##ty *d = dst;                                            \
		const mem *s = src;                                            \
		size_t i;                                                      \
                                                                               \
		if (stride == 1) {                                             \
			INDEPENDENT                                            \
			for (i = 0; i < n; i++)                                \
				d[i] = cast_##wide##_##ty(widen_##dt(s[i]));   \
		} else if (stride == 0) {                                      \
			type_##ty v = cast_##wide##_##ty(widen_##dt(*s));      \
			for (i = 0; i < n; i++)                                \
				d[i] = v;                                      \
		} else {                                                       \
			for (i = 0; i < n; i++) {                              \
				mem x = s[(int64_t)i * stride];                \
				d[i] = cast_##wide##_##ty(widen_##dt(x));      \
			}                                                      \
		}                                                              \
	}

#define STORE(dt, DT, mem, wide, ty, TY)                                       \
	static void store_##dt##_##ty(void *dst, int64_t stride,               \
				      const void *src, size_t n)               \
	{                                                                      \
		mem *d = dst;                                                  \
		const type_##ty *s = src;                                      \
		size_t i;                                                      \
                                                                               \
		if (stride == 1) {                                             \
			INDEPENDENT                                            \
			for (i = 0; i < n; i++)                                \
				d[i] = narrow_##dt(s[i], ty);                  \
		} else {                                                       \
			for (i = 0; i < n; i++)                                \
				d[(int64_t)i * stride] =                       \
					narrow_##dt(s[i], ty);                 \
		}                                                              \
	}

DTYPES(LOAD, f32, F32)
DTYPES(LOAD, f64, F64)
DTYPES(LOAD, i32, I32)
DTYPES(LOAD, i64, I64)
DTYPES(STORE, f32, F32)
DTYPES(STORE, f64, F64)
DTYPES(STORE, i32, I32)
DTYPES(STORE, i64, I64)

#define CVT(from, FROM, to, TO)                                                \
	static void cvt_##from##_##to(void *dst, const void *a, const void *b, \
				      const void *c, size_t n)                 \
	{                                                                      \
		type_##to *d = dst;                                            \
		const type_##from *s = a;                                      \
		size_t i;                                                      \
                                                                               \
		(void)b;                                                       \
		(void)c;                                                       \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++)                                        \
			d[i] = cast_##from##_##to(s[i]);                       \
	}

ALL_TYPES(CVT, f32, F32)
ALL_TYPES(CVT, f64, F64)
ALL_TYPES(CVT, i32, I32)
ALL_TYPES(CVT, i64, I64)

#define ROUND(dt)                                                              \
	static void round_##dt(void *dst, const void *a, const void *b,        \
			       const void *c, size_t n)                        \
	{                                                                      \
		float *d = dst;                                                \
		const float *s = a;                                            \
		size_t i;                                                      \
                                                                               \
		(void)b;                                                       \
		(void)c;                                                       \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++)                                        \
			d[i] = widen_##dt(narrow_##dt(s[i], f32));             \
	}

ROUND(f16)
ROUND(bf16)
ROUND(e4m3fn)
ROUND(e5m2)
ROUND(e4m3fnuz)
ROUND(e5m2fnuz)
ROUND(e8m0fnu)

/* src is the first value, not an address. */
static void index_i64(void *dst, const void *src, int64_t stride, size_t n)
{
	int64_t *d = dst;
	int64_t first = (int64_t)(uintptr_t)src;
	size_t i;

	for (i = 0; i < n; i++)
		d[i] = first + (int64_t)i * stride;
}

#define LOAD_ENTRY(dt, DT, mem, wide, ty, TY)                                  \
	[OPENREG_##DT][OPENREG_VT_##TY] = load_##dt##_##ty,
#define STORE_ENTRY(dt, DT, mem, wide, ty, TY)                                 \
	[OPENREG_##DT][OPENREG_VT_##TY] = store_##dt##_##ty,
#define CVT_ENTRY(from, FROM, to, TO)                                          \
	[OPENREG_VT_##FROM][OPENREG_VT_##TO] = cvt_##from##_##to,

#define CAST_TABLES                                                            \
	.load = {                                                              \
		DTYPES(LOAD_ENTRY, f32, F32)                                   \
		DTYPES(LOAD_ENTRY, f64, F64)                                   \
		DTYPES(LOAD_ENTRY, i32, I32)                                   \
		DTYPES(LOAD_ENTRY, i64, I64)                                   \
	},                                                                     \
	.store = {                                                             \
		DTYPES(STORE_ENTRY, f32, F32)                                  \
		DTYPES(STORE_ENTRY, f64, F64)                                  \
		DTYPES(STORE_ENTRY, i32, I32)                                  \
		DTYPES(STORE_ENTRY, i64, I64)                                  \
	},                                                                     \
	.cvt = {                                                               \
		ALL_TYPES(CVT_ENTRY, f32, F32)                                 \
		ALL_TYPES(CVT_ENTRY, f64, F64)                                 \
		ALL_TYPES(CVT_ENTRY, i32, I32)                                 \
		ALL_TYPES(CVT_ENTRY, i64, I64)                                 \
	},                                                                     \
	.round = { [OPENREG_F16] = round_f16,                                  \
		   [OPENREG_BF16] = round_bf16,                                \
		   [OPENREG_F8E4M3FN] = round_e4m3fn,                          \
		   [OPENREG_F8E5M2] = round_e5m2,                              \
		   [OPENREG_F8E4M3FNUZ] = round_e4m3fnuz,                      \
		   [OPENREG_F8E5M2FNUZ] = round_e5m2fnuz,                      \
		   [OPENREG_F8E8M0FNU] = round_e8m0fnu },                      \
	.index = index_i64,

#endif
