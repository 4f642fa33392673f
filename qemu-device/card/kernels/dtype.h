/* SPDX-License-Identifier: MIT */
/*
 * Scalar conversions. They have no branches, so that the compiler vectorises loops over
 * them, and use nothing that C leaves undefined.
 */
#ifndef OPENREG_DTYPE_H
#define OPENREG_DTYPE_H

#include <stdint.h>
#include <string.h>

static inline uint32_t openreg_f32_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float openreg_bits_f32(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline float openreg_bf16_to_f32(uint16_t h)
{
	return openreg_bits_f32((uint32_t)h << 16);
}

/* Rounds half to even; a NaN stays a NaN. */
static inline uint16_t openreg_f32_to_bf16(float f)
{
	uint32_t u = openreg_f32_bits(f);
	uint32_t nan = (u >> 16) | 0x40;
	uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;

	return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* A multiplication adjusts the exponent, which is right for subnormals, too. */
static inline float openreg_f16_to_f32(uint16_t h)
{
	uint32_t body = (uint32_t)(h & 0x7fff) << 13;
	uint32_t finite = openreg_f32_bits(openreg_bits_f32(body) * 0x1p112f);
	uint32_t special = body | 0x7f800000;
	uint32_t u = (h & 0x7c00) == 0x7c00 ? special : finite;

	return openreg_bits_f32(u | (uint32_t)(h & 0x8000) << 16);
}

/* Rounds half to even; a NaN stays a NaN. */
static inline uint16_t openreg_f32_to_f16(float f)
{
	uint32_t u = openreg_f32_bits(f);
	uint32_t sign = u >> 16 & 0x8000;
	uint32_t body = u & 0x7fffffff;
	/* Adding 0.5 leaves multiples of 2^-24 in the low bits. */
	uint32_t small = openreg_f32_bits(openreg_bits_f32(body) + 0.5f) -
			 0x3f000000;
	uint32_t normal = (body - (112u << 23) + 0xfff + (body >> 13 & 1)) >> 13;
	uint32_t large = body > 0x7f800000 ? 0x7e00 : 0x7c00;
	uint32_t h = body < (113u << 23) ? small : normal;

	h = body >= (143u << 23) ? large : h;
	return (uint16_t)(h | sign);
}

static inline int32_t openreg_f32_to_i32(float f)
{
	return f >= -0x1p31f && f < 0x1p31f ? (int32_t)f : INT32_MIN;
}

static inline int64_t openreg_f32_to_i64(float f)
{
	return f >= -0x1p63f && f < 0x1p63f ? (int64_t)f : INT64_MIN;
}

static inline int32_t openreg_f64_to_i32(double f)
{
	return f > -2147483649.0 && f < 0x1p31 ? (int32_t)f : INT32_MIN;
}

static inline int64_t openreg_f64_to_i64(double f)
{
	return f >= -0x1p63 && f < 0x1p63 ? (int64_t)f : INT64_MIN;
}

#endif
