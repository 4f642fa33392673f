/* SPDX-License-Identifier: MIT */
/*
 * Kernels: arithmetic, bit operations, comparisons. Each is an expression of x, y, z, the
 * elements of a, b, c.
 */
#ifndef OPENREG_KERNEL_ARITH_H
#define OPENREG_KERNEL_ARITH_H

#include "kernel_types.h"

/* Sources with a set bit in `ones` are a single element. */
#define KERNEL_OF_ONES(name, ones, out, in1, in2, in3, expr)                   \
	static void name(void *dst, const void *a, const void *b,              \
			 const void *c, size_t n)                              \
	{                                                                      \
		out *d = dst;                                                  \
		const in1 *pa = a, one_x UNUSED = (ones) & 1 ? *pa : 0;        \
		const in2 *pb = b, one_y UNUSED = (ones) & 2 ? *pb : 0;        \
		const in3 *pc = c, one_z UNUSED = (ones) & 4 ? *pc : 0;        \
		size_t i;                                                      \
                                                                               \
		INDEPENDENT                                                    \
		for (i = 0; i < n; i++) {                                      \
			in1 x UNUSED = (ones) & 1 ? one_x : pa[i];             \
			in2 y UNUSED = (ones) & 2 ? one_y : pb[i];             \
			in3 z UNUSED = (ones) & 4 ? one_z : pc[i];             \
			d[i] = (out)(expr);                                    \
		}                                                              \
	}
#define KERNEL(op, ty, ...) KERNEL_OF_ONES(op_##op##_##ty, 0, __VA_ARGS__)
#define KERNEL_OF_TWO(op, ty, out, in, expr)                                   \
	KERNEL(op, ty, out, in, in, in, expr)                                  \
	KERNEL_OF_ONES(one1_##op##_##ty, 1, out, in, in, in, expr)             \
	KERNEL_OF_ONES(one2_##op##_##ty, 2, out, in, in, in, expr)
#define KERNEL_OF_THREE(op, ty, out, in1, in2, in3, expr)                      \
	KERNEL(op, ty, out, in1, in2, in3, expr)                               \
	KERNEL_OF_ONES(one2_##op##_##ty, 2, out, in1, in2, in3, expr)          \
	KERNEL_OF_ONES(one4_##op##_##ty, 4, out, in1, in2, in3, expr)          \
	KERNEL_OF_ONES(one6_##op##_##ty, 6, out, in1, in2, in3, expr)

#define F_KERNEL(op, expr32, expr64)                                           \
	KERNEL(op, f32, float, float, float, float, expr32)                    \
	KERNEL(op, f64, double, double, double, double, expr64)
/* Computes with unsigned numbers, so that overflow wraps. */
#define U_KERNEL(op, expr)                                                     \
	KERNEL(op, i32, uint32_t, uint32_t, uint32_t, uint32_t, expr)          \
	KERNEL(op, i64, uint64_t, uint64_t, uint64_t, uint64_t, expr)
#define I_KERNEL(op, expr)                                                     \
	KERNEL(op, i32, int32_t, int32_t, int32_t, int32_t, expr)              \
	KERNEL(op, i64, int64_t, int64_t, int64_t, int64_t, expr)
#define F_KERNEL_OF_TWO(op, expr)                                              \
	KERNEL_OF_TWO(op, f32, float, float, expr)                             \
	KERNEL_OF_TWO(op, f64, double, double, expr)
#define U_KERNEL_OF_TWO(op, expr)                                              \
	KERNEL_OF_TWO(op, i32, uint32_t, uint32_t, expr)                       \
	KERNEL_OF_TWO(op, i64, uint64_t, uint64_t, expr)
#define I_KERNEL_OF_TWO(op, expr)                                              \
	KERNEL_OF_TWO(op, i32, int32_t, int32_t, expr)                         \
	KERNEL_OF_TWO(op, i64, int64_t, int64_t, expr)
#define TEST_OF_TWO(op, expr)                                                  \
	KERNEL_OF_TWO(op, f32, int32_t, float, expr)                           \
	KERNEL_OF_TWO(op, f64, int32_t, double, expr)                          \
	KERNEL_OF_TWO(op, i32, int32_t, int32_t, expr)                         \
	KERNEL_OF_TWO(op, i64, int32_t, int64_t, expr)
#define F_TEST(op, expr)                                                       \
	KERNEL(op, f32, int32_t, float, float, float, expr)                    \
	KERNEL(op, f64, int32_t, double, double, double, expr)
#define I_TEST(op, expr)                                                       \
	KERNEL(op, i32, int32_t, int32_t, int32_t, int32_t, expr)              \
	KERNEL(op, i64, int32_t, int64_t, int64_t, int64_t, expr)

#define INT_HELPERS(ty, bits)                                                  \
	static inline type_##ty quotient_##ty(type_##ty x, type_##ty y)        \
	{                                                                      \
		if (y == 0)                                                    \
			return 0;                                              \
		if (y == -1)                                                   \
			return (type_##ty)(0 - (unsigned_##ty)x);              \
		return x / y;                                                  \
	}                                                                      \
	static inline type_##ty fmod_##ty(type_##ty x, type_##ty y)            \
	{                                                                      \
		return y == 0 || y == -1 ? 0 : x % y;                          \
	}                                                                      \
	static inline type_##ty remainder_##ty(type_##ty x, type_##ty y)       \
	{                                                                      \
		type_##ty r = fmod_##ty(x, y);                                 \
                                                                               \
		return r != 0 && (r ^ y) < 0 ? r + y : r;                      \
	}                                                                      \
	static inline type_##ty div_floor_##ty(type_##ty x, type_##ty y)       \
	{                                                                      \
		type_##ty q = quotient_##ty(x, y), r = fmod_##ty(x, y);        \
                                                                               \
		return r != 0 && (r ^ y) < 0 ? q - 1 : q;                      \
	}                                                                      \
	static inline type_##ty pow_##ty(type_##ty x, type_##ty y)             \
	{                                                                      \
		unsigned_##ty r = 1, base = (unsigned_##ty)x;                  \
                                                                               \
		if (y < 0) {                                                   \
			if (x == 1)                                            \
				return 1;                                      \
			return x == -1 ? (y & 1 ? -1 : 1) : 0;                 \
		}                                                              \
		for (; y; y >>= 1) {                                           \
			if (y & 1)                                             \
				r *= base;                                     \
			base *= base;                                          \
		}                                                              \
		return (type_##ty)r;                                           \
	}                                                                      \
	static inline type_##ty shl_##ty(type_##ty x, type_##ty y)             \
	{                                                                      \
		unsigned_##ty s = (unsigned_##ty)x << (y & (bits - 1));        \
                                                                               \
		return y >= 0 && y < bits ? (type_##ty)s : 0;                  \
	}                                                                      \
	static inline type_##ty shr_##ty(type_##ty x, type_##ty y)             \
	{                                                                      \
		return x >> (y >= 0 && y < bits ? y : bits - 1);               \
	}

INT_HELPERS(i32, 32)
INT_HELPERS(i64, 64)

/* kernel_modulo.h has the F32 versions. */
static inline double remainder_f64(double x, double y)
{
	double r = fmod(x, y);

	return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static inline double div_floor_f64(double x, double y)
{
	double r, q, f;

	if (y == 0)
		return x / y;
	r = fmod(x, y);
	q = (x - r) / y;
	if (r != 0 && (r < 0) != (y < 0))
		q -= 1;
	if (q == 0)
		return copysign(0, x / y);
	f = floor(q);
	return q - f > 0.5 ? f + 1 : f;
}

F_KERNEL(MOV, x, x)
U_KERNEL(MOV, x)
F_KERNEL_OF_TWO(ADD, x + y)
U_KERNEL_OF_TWO(ADD, x + y)
F_KERNEL_OF_TWO(SUB, x - y)
U_KERNEL_OF_TWO(SUB, x - y)
F_KERNEL_OF_TWO(MUL, x * y)
U_KERNEL_OF_TWO(MUL, x * y)
F_KERNEL_OF_TWO(DIV, x / y)
KERNEL(DIV, i32, int32_t, int32_t, int32_t, int32_t, quotient_i32(x, y))
KERNEL(DIV, i64, int64_t, int64_t, int64_t, int64_t, quotient_i64(x, y))
KERNEL(DIV_FLOOR, f64, double, double, double, double, div_floor_f64(x, y))
KERNEL(DIV_FLOOR, i32, int32_t, int32_t, int32_t, int32_t, div_floor_i32(x, y))
KERNEL(DIV_FLOOR, i64, int64_t, int64_t, int64_t, int64_t, div_floor_i64(x, y))
KERNEL(FMOD, f64, double, double, double, double, fmod(x, y))
KERNEL(FMOD, i32, int32_t, int32_t, int32_t, int32_t, fmod_i32(x, y))
KERNEL(FMOD, i64, int64_t, int64_t, int64_t, int64_t, fmod_i64(x, y))
KERNEL(REMAINDER, f64, double, double, double, double, remainder_f64(x, y))
KERNEL(REMAINDER, i32, int32_t, int32_t, int32_t, int32_t, remainder_i32(x, y))
KERNEL(REMAINDER, i64, int64_t, int64_t, int64_t, int64_t, remainder_i64(x, y))
F_KERNEL_OF_TWO(MIN, x < y || x != x ? x : y)
I_KERNEL_OF_TWO(MIN, x < y ? x : y)
F_KERNEL_OF_TWO(MAX, x > y || x != x ? x : y)
I_KERNEL_OF_TWO(MAX, x > y ? x : y)
F_KERNEL(FMIN, x < y || y != y ? x : y, x < y || y != y ? x : y)
F_KERNEL(FMAX, x > y || y != y ? x : y, x > y || y != y ? x : y)
KERNEL(POW, i32, int32_t, int32_t, int32_t, int32_t, pow_i32(x, y))
KERNEL(POW, i64, int64_t, int64_t, int64_t, int64_t, pow_i64(x, y))
F_KERNEL(COPYSIGN, copysignf(x, y), copysign(x, y))
#define FMA_KERNEL(ty, t, expr) KERNEL_OF_THREE(FMA, ty, t, t, t, t, expr)
FMA_KERNEL(f32, float, fmaf(x, y, z))
FMA_KERNEL(f64, double, fma(x, y, z))
FMA_KERNEL(i32, uint32_t, x *y + z)
FMA_KERNEL(i64, uint64_t, x *y + z)
#define SELECT_KERNEL(ty, t) KERNEL_OF_THREE(SELECT, ty, t, int32_t, t, t, x ? y : z)
SELECT_KERNEL(f32, float)
SELECT_KERNEL(f64, double)
SELECT_KERNEL(i32, int32_t)
SELECT_KERNEL(i64, int64_t)

U_KERNEL(AND, x &y)
U_KERNEL(OR, x | y)
U_KERNEL(XOR, x ^ y)
U_KERNEL(NOT, ~x)
KERNEL(SHL, i32, int32_t, int32_t, int32_t, int32_t, shl_i32(x, y))
KERNEL(SHL, i64, int64_t, int64_t, int64_t, int64_t, shl_i64(x, y))
KERNEL(SHR, i32, int32_t, int32_t, int32_t, int32_t, shr_i32(x, y))
KERNEL(SHR, i64, int64_t, int64_t, int64_t, int64_t, shr_i64(x, y))

TEST_OF_TWO(EQ, x == y)
TEST_OF_TWO(NE, x != y)
TEST_OF_TWO(LT, x < y)
TEST_OF_TWO(LE, x <= y)
TEST_OF_TWO(GT, x > y)
TEST_OF_TWO(GE, x >= y)
F_TEST(ISNAN, x != x)
F_TEST(ISINF, x - x != 0 && x == x)
F_TEST(ISFINITE, x - x == 0)
KERNEL(SIGNBIT, f32, int32_t, uint32_t, float, float, x >> 31)
KERNEL(SIGNBIT, f64, int32_t, uint64_t, double, double, x >> 63)
I_TEST(SIGNBIT, x < 0)

F_KERNEL(NEG, -x, -x)
U_KERNEL(NEG, 0 - x)
F_KERNEL(ABS, fabsf(x), fabs(x))
KERNEL(ABS, i32, uint32_t, uint32_t, uint32_t, uint32_t, x >> 31 ? 0 - x : x)
KERNEL(ABS, i64, uint64_t, uint64_t, uint64_t, uint64_t, x >> 63 ? 0 - x : x)
F_KERNEL(SIGN, x != x ? x : (float)((x > 0) - (x < 0)),
	 x != x ? x : (double)((x > 0) - (x < 0)))
I_KERNEL(SIGN, (x > 0) - (x < 0))
F_KERNEL(RECIP, 1.0f / x, 1.0 / x)
F_KERNEL(SQRT, sqrtf(x), sqrt(x))
F_KERNEL(RSQRT, 1.0f / sqrtf(x), 1.0 / sqrt(x))
F_KERNEL(FLOOR, floorf(x), floor(x))
F_KERNEL(CEIL, ceilf(x), ceil(x))
F_KERNEL(TRUNC, truncf(x), trunc(x))
F_KERNEL(RINT, rintf(x), rint(x))

#define FLOAT_OPS(X)                                                           \
	X(MOV) X(SELECT) X(ADD) X(SUB) X(MUL) X(DIV) X(DIV_FLOOR) X(FMOD)      \
	X(REMAINDER) X(MIN) X(MAX) X(FMIN) X(FMAX) X(COPYSIGN) X(FMA) X(EQ)    \
	X(NE) X(LT) X(LE) X(GT) X(GE) X(ISNAN) X(ISINF) X(ISFINITE)            \
	X(SIGNBIT) X(NEG) X(ABS) X(SIGN) X(RECIP) X(SQRT) X(RSQRT) X(FLOOR)    \
	X(CEIL) X(TRUNC) X(RINT)
#define INT_OPS(X)                                                             \
	X(MOV) X(SELECT) X(ADD) X(SUB) X(MUL) X(DIV) X(DIV_FLOOR) X(FMOD)      \
	X(REMAINDER) X(MIN) X(MAX) X(POW) X(FMA) X(AND) X(OR) X(XOR) X(NOT)    \
	X(SHL) X(SHR) X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE) X(SIGNBIT) X(NEG)    \
	X(ABS) X(SIGN)

#define FLOAT_ENTRY(op)                                                        \
	[OPENREG_V_##op][OPENREG_VT_F32] = op_##op##_f32,                      \
	[OPENREG_V_##op][OPENREG_VT_F64] = op_##op##_f64,
#define INT_ENTRY(op)                                                          \
	[OPENREG_V_##op][OPENREG_VT_I32] = op_##op##_i32,                      \
	[OPENREG_V_##op][OPENREG_VT_I64] = op_##op##_i64,

#define ARITH_ENTRIES FLOAT_OPS(FLOAT_ENTRY) INT_OPS(INT_ENTRY)

#define ONE_ENTRY(op, ones)                                                    \
	[OPENREG_V_##op] = { [OPENREG_VT_F32] = one##ones##_##op##_f32,        \
			     [OPENREG_VT_F64] = one##ones##_##op##_f64,        \
			     [OPENREG_VT_I32] = one##ones##_##op##_i32,        \
			     [OPENREG_VT_I64] = one##ones##_##op##_i64 },
#define ONES_OF_TWO(ones)                                                      \
	ONE_ENTRY(ADD, ones) ONE_ENTRY(SUB, ones) ONE_ENTRY(MUL, ones)         \
	ONE_ENTRY(MIN, ones) ONE_ENTRY(MAX, ones) ONE_ENTRY(EQ, ones)          \
	ONE_ENTRY(NE, ones) ONE_ENTRY(LT, ones) ONE_ENTRY(LE, ones)            \
	ONE_ENTRY(GT, ones) ONE_ENTRY(GE, ones)                                \
	[OPENREG_V_DIV] = { [OPENREG_VT_F32] = one##ones##_DIV_f32,            \
			    [OPENREG_VT_F64] = one##ones##_DIV_f64 },
#define ONES_OF_THREE(ones) ONE_ENTRY(FMA, ones) ONE_ENTRY(SELECT, ones)
#define ONES_TABLES                                                            \
	.ones = { [1] = { ONES_OF_TWO(1) },                                    \
		  [2] = { ONES_OF_TWO(2) ONES_OF_THREE(2) },                   \
		  [4] = { ONES_OF_THREE(4) },                                  \
		  [6] = { ONES_OF_THREE(6) } },

#endif
