// SPDX-License-Identifier: MIT
/*
 * SORT: keys are unsigned numbers in the order of the elements. Both zeros of a float
 * have the same key; all NaNs have the greatest key.
 */
#include "sort.h"

#define KEYS(name, T, K, expression)                                           \
	static void name(void *keys, const void *from, int64_t stride,         \
			 int64_t n)                                            \
	{                                                                      \
		uintptr_t at = (uintptr_t)from;                                \
		K *to = keys;                                                  \
		int64_t i;                                                     \
                                                                               \
		if (stride == sizeof(T)) {                                     \
			for (i = 0; i < n; i++) {                              \
				const T x = ((const T *)from)[i];              \
                                                                               \
				to[i] = (K)(expression);                       \
			}                                                      \
			return;                                                \
		}                                                              \
		for (i = 0; i < n; i++, at += (uintptr_t)stride) {             \
			const T x = *(const T *)at;                            \
                                                                               \
			to[i] = (K)(expression);                               \
		}                                                              \
	}

/* inf: the bits of infinity. Without the sign, the bits of a NaN are greater. */
#define FLOAT_KEY(T, sign, inf)                                                \
	((x & ~(sign)) > (inf) ? (T)-1                                         \
	 : !(x & ~(sign))      ? (sign)                                        \
	 : x & (sign)	       ? (T)~x                                         \
			       : x | (sign))

KEYS(key_f16, uint16_t, uint32_t, FLOAT_KEY(uint16_t, 0x8000u, 0x7c00u))
KEYS(key_bf16, uint16_t, uint32_t, FLOAT_KEY(uint16_t, 0x8000u, 0x7f80u))
KEYS(key_f32, uint32_t, uint32_t, FLOAT_KEY(uint32_t, 1u << 31, 0x7f800000u))
KEYS(key_f64, uint64_t, uint64_t,
     FLOAT_KEY(uint64_t, 1ULL << 63, 0x7ff0000000000000ULL))
KEYS(key_i8, uint8_t, uint32_t, x ^ 0x80u)
KEYS(key_u8, uint8_t, uint32_t, x)
KEYS(key_i16, uint16_t, uint32_t, x ^ 0x8000u)
KEYS(key_i32, uint32_t, uint32_t, x ^ 1u << 31)
KEYS(key_i64, uint64_t, uint64_t, x ^ 1ULL << 63)
KEYS(key_bool, uint8_t, uint32_t, x != 0)

openreg_sort_keys_fn *openreg_sort_keys(unsigned int dtype)
{
	static openreg_sort_keys_fn *const keys[OPENREG_DTYPE_END] = {
		[OPENREG_F32] = key_f32, [OPENREG_F64] = key_f64,
		[OPENREG_F16] = key_f16,	 [OPENREG_BF16] = key_bf16,
		[OPENREG_I8] = key_i8,	 [OPENREG_U8] = key_u8,
		[OPENREG_I16] = key_i16, [OPENREG_I32] = key_i32,
		[OPENREG_I64] = key_i64, [OPENREG_BOOL] = key_bool,
	};

	return keys[dtype];
}

#define FETCH(T)                                                               \
	static void fetch_##T(void *to, int64_t to_stride, const void *row,    \
			      int64_t stride, const uint32_t *place,           \
			      int64_t n)                                       \
	{                                                                      \
		uintptr_t at = (uintptr_t)to;                                  \
		int64_t i;                                                     \
                                                                               \
		for (i = 0; i < n; i++, at += (uintptr_t)to_stride)            \
			*(T *)at = *(const T *)((uintptr_t)row +               \
						place[i] * (uintptr_t)stride); \
	}

FETCH(uint8_t)
FETCH(uint16_t)
FETCH(uint32_t)
FETCH(uint64_t)

openreg_sort_fetch_fn *openreg_sort_fetch(unsigned int esize)
{
	switch (esize) {
	case 1:
		return fetch_uint8_t;
	case 2:
		return fetch_uint16_t;
	case 4:
		return fetch_uint32_t;
	default:
		return fetch_uint64_t;
	}
}
