/* SPDX-License-Identifier: MIT */
/* Scalar conversions of float8, without branches as those of dtype.h. */
#ifndef OPENREG_FLOAT8_H
#define OPENREG_FLOAT8_H

#include "dtype.h"

/* An integer gives subnormals, as a multiplication of subnormals is slow on some hosts. */
static inline uint32_t openreg_float8_widen(uint8_t h, int digits, int bias)
{
	uint32_t body = h & 0x7f;
	uint32_t normal = (body << (23 - digits)) + ((uint32_t)(127 - bias) << 23);
	float unit = openreg_bits_f32((uint32_t)(128 - bias - digits) << 23);
	uint32_t small = openreg_f32_bits((float)(int32_t)body * unit);

	return body >> digits ? normal : small;
}

/* Rounds a magnitude half to even. One that is too large gives any number above 0x7b. */
static inline uint32_t openreg_float8_narrow(uint32_t body, int digits, int bias)
{
	int shift = 23 - digits;
	uint32_t least = (uint32_t)(128 - bias) << 23; /* of the normal numbers */
	/* Adding this leaves multiples of the smallest number in the low bits. */
	uint32_t unit = least + ((uint32_t)shift << 23);
	uint32_t small = openreg_f32_bits(openreg_bits_f32(body) +
					  openreg_bits_f32(unit)) -
			 unit;
	uint32_t normal = (body - ((uint32_t)(127 - bias) << 23) +
			   ((1u << (shift - 1)) - 1) + (body >> shift & 1)) >>
			  shift;

	return body < least ? small : normal;
}

static inline float openreg_e4m3fn_to_f32(uint8_t h)
{
	uint32_t u = (h & 0x7f) == 0x7f ? 0x7fc00000 :
					  openreg_float8_widen(h, 3, 7);

	return openreg_bits_f32(u | (uint32_t)(h & 0x80) << 24);
}

static inline float openreg_e5m2_to_f32(uint8_t h)
{
	uint32_t body = h & 0x7f;
	uint32_t special = body == 0x7c ? 0x7f800000 : 0x7fc00000;
	uint32_t u = body >= 0x7c ? special : openreg_float8_widen(h, 2, 15);

	return openreg_bits_f32(u | (uint32_t)(h & 0x80) << 24);
}

static inline float openreg_e4m3fnuz_to_f32(uint8_t h)
{
	uint32_t u = openreg_float8_widen(h, 3, 8) | (uint32_t)(h & 0x80) << 24;

	return openreg_bits_f32(h == 0x80 ? 0x7fc00000 : u);
}

static inline float openreg_e5m2fnuz_to_f32(uint8_t h)
{
	uint32_t u = openreg_float8_widen(h, 2, 16) | (uint32_t)(h & 0x80) << 24;

	return openreg_bits_f32(h == 0x80 ? 0x7fc00000 : u);
}

static inline float openreg_e8m0fnu_to_f32(uint8_t h)
{
	uint32_t u = h == 0xff ? 0x7fc00000 : (uint32_t)h << 23;

	return openreg_bits_f32(h == 0 ? 0x00400000 : u);
}

/* Infinity and what rounds above the largest number become the largest number. */
static inline uint8_t openreg_f32_to_e4m3fn(float f)
{
	uint32_t u = openreg_f32_bits(f), body = u & 0x7fffffff;
	uint32_t h = openreg_float8_narrow(body, 3, 7);

	h = h > 0x7e ? 0x7e : h;
	h = body > 0x7f800000 ? 0x7f : h;
	return (uint8_t)(h | (u >> 24 & 0x80));
}

static inline uint8_t openreg_f32_to_e5m2(float f)
{
	uint32_t u = openreg_f32_bits(f), body = u & 0x7fffffff;
	uint32_t h = openreg_float8_narrow(body, 2, 15);

	h = h > 0x7c ? 0x7c : h;
	h = body > 0x7f800000 ? 0x7f : h;
	return (uint8_t)(h | (u >> 24 & 0x80));
}

/* What is too large becomes NaN; what rounds to 0 has no sign. */
static inline uint8_t openreg_fnuz(uint32_t h, uint32_t u)
{
	uint32_t number = h | (u >> 24 & 0x80);

	number = h == 0 ? 0 : number;
	return (uint8_t)(h > 0x7f ? 0x80 : number);
}

static inline uint8_t openreg_f32_to_e4m3fnuz(float f)
{
	uint32_t u = openreg_f32_bits(f);

	return openreg_fnuz(openreg_float8_narrow(u & 0x7fffffff, 3, 8), u);
}

static inline uint8_t openreg_f32_to_e5m2fnuz(float f)
{
	uint32_t u = openreg_f32_bits(f);

	return openreg_fnuz(openreg_float8_narrow(u & 0x7fffffff, 2, 16), u);
}

/* Rounds a magnitude up from 1.5 times a power of two on, or if it is above 2^-127. */
static inline uint8_t openreg_f32_to_e8m0fnu(float f)
{
	uint32_t u = openreg_f32_bits(f);
	uint32_t e = u >> 23 & 0xff;
	uint32_t up = (u & 0x7fffff) + (e > 0) > 0x400000;

	return (uint8_t)(e == 0xff ? e : e + up);
}

#endif
