// SPDX-License-Identifier: MIT
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "engine-harness.h"
#include "vector-reference.h"

/* The definition in long double, which is precise enough to be rounded once. */
static long double exact_unary(unsigned int op, long double x)
{
	switch (op) {
	case OPENREG_V_EXP:
		return expl(x);
	case OPENREG_V_EXP2:
		return exp2l(x);
	case OPENREG_V_EXPM1:
		return expm1l(x);
	case OPENREG_V_LOG:
		return logl(x);
	case OPENREG_V_LOG2:
		return log2l(x);
	case OPENREG_V_LOG10:
		return log10l(x);
	case OPENREG_V_LOG1P:
		return log1pl(x);
	case OPENREG_V_SIN:
		return sinl(x);
	case OPENREG_V_COS:
		return cosl(x);
	case OPENREG_V_TAN:
		return tanl(x);
	case OPENREG_V_ASIN:
		return asinl(x);
	case OPENREG_V_ACOS:
		return acosl(x);
	case OPENREG_V_ATAN:
		return atanl(x);
	case OPENREG_V_SINH:
		return sinhl(x);
	case OPENREG_V_COSH:
		return coshl(x);
	case OPENREG_V_TANH:
		return tanhl(x);
	case OPENREG_V_ASINH:
		return asinhl(x);
	case OPENREG_V_ACOSH:
		return acoshl(x);
	case OPENREG_V_ATANH:
		return atanhl(x);
	case OPENREG_V_ERF:
		return erfl(x);
	case OPENREG_V_ERFC:
		return erfcl(x);
	case OPENREG_V_LGAMMA:
		return lgammal(x);
	case OPENREG_V_SIGMOID:
		return x > 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x));
	default:
		fail_msg("no definition of operation %u", op);
		return 0;
	}
}

double reference_ulps(unsigned int op)
{
	switch (op) {
	case OPENREG_V_ERFC:
		return 1.5;
	case OPENREG_V_SIGMOID:
		return 3;
	case OPENREG_V_POW:
	case OPENREG_V_ATAN2:
	case OPENREG_V_HYPOT:
		return 1;
	default:
		return op >= OPENREG_V_EXP && op < OPENREG_V_RED_SUM ? 1 : 0;
	}
}

static double python_remainder(double x, double y)
{
	double r = fmod(x, y);

	return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

long double reference_floor_div(double x, double y)
{
	if (y == 0)
		return (long double)(x / y);
	if (isnan(x) || isnan(y) || isinf(x))
		return NAN;
	if (isinf(y))
		return x == 0 || (x < 0) == (y < 0) ? copysign(0, x / y) : -1;
	return floorl((long double)x / y) == 0 ? copysign(0, x / y)
					       : floorl((long double)x / y);
}

long double reference_float(unsigned int op, unsigned int type, double x,
			       double y, double z)
{
	bool single = type == OPENREG_VT_F32;

	switch (op) {
	case OPENREG_V_MOV:
		return x;
	case OPENREG_V_ADD:
		return single ? (float)x + (float)y : x + y;
	case OPENREG_V_SUB:
		return single ? (float)x - (float)y : x - y;
	case OPENREG_V_MUL:
		return single ? (float)x * (float)y : x * y;
	case OPENREG_V_DIV:
		return single ? (float)x / (float)y : x / y;
	case OPENREG_V_FMA:
		return single ? fmaf((float)x, (float)y, (float)z)
			      : fma(x, y, z);
	case OPENREG_V_FMOD:
		return fmod(x, y);
	case OPENREG_V_REMAINDER:
		return single ? (float)python_remainder(x, y)
			      : python_remainder(x, y);
	case OPENREG_V_MIN:
		return isnan(x) || isnan(y) ? NAN : x < y ? x : y;
	case OPENREG_V_MAX:
		return isnan(x) || isnan(y) ? NAN : x > y ? x : y;
	case OPENREG_V_FMIN:
		return isnan(y) ? x : isnan(x) ? y : x < y ? x : y;
	case OPENREG_V_FMAX:
		return isnan(y) ? x : isnan(x) ? y : x > y ? x : y;
	case OPENREG_V_POW:
		return powl(x, y);
	case OPENREG_V_ATAN2:
		return atan2l(x, y);
	case OPENREG_V_HYPOT:
		return hypotl(x, y);
	case OPENREG_V_COPYSIGN:
		return copysign(x, y);
	case OPENREG_V_NEG:
		return -x;
	case OPENREG_V_ABS:
		return fabs(x);
	case OPENREG_V_SIGN:
		return isnan(x) ? x : (x > 0) - (x < 0);
	case OPENREG_V_RECIP:
		return single ? 1 / (float)x : 1 / x;
	case OPENREG_V_SQRT:
		return single ? sqrtf((float)x) : sqrt(x);
	case OPENREG_V_RSQRT:
		return single ? 1 / sqrtf((float)x) : 1 / sqrt(x);
	case OPENREG_V_FLOOR:
		return floor(x);
	case OPENREG_V_CEIL:
		return ceil(x);
	case OPENREG_V_TRUNC:
		return trunc(x);
	case OPENREG_V_RINT:
		return nearbyint(x);
	default:
		return exact_unary(op, x);
	}
}

int64_t reference_test(unsigned int op, double x, double y)
{
	switch (op) {
	case OPENREG_V_EQ:
		return x == y;
	case OPENREG_V_NE:
		return !(x == y);
	case OPENREG_V_LT:
		return isless(x, y);
	case OPENREG_V_LE:
		return islessequal(x, y);
	case OPENREG_V_GT:
		return isgreater(x, y);
	case OPENREG_V_GE:
		return isgreaterequal(x, y);
	case OPENREG_V_ISNAN:
		return !!isnan(x);
	case OPENREG_V_ISINF:
		return !!isinf(x);
	case OPENREG_V_ISFINITE:
		return !!isfinite(x);
	default:
		return !!signbit(x);
	}
}

static __int128 floor_div(__int128 x, __int128 y)
{
	__int128 q = x / y;

	return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

/* Power modulo 2^64, by squaring, since multiplying y times is too slow. */
static uint64_t power(int64_t x, int64_t y)
{
	uint64_t r = 1, square = (uint64_t)x;

	if (y < 0)
		return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
	for (; y; y /= 2, square *= square)
		r *= y % 2 ? square : 1;
	return r;
}

uint64_t reference_int(unsigned int op, unsigned int type, int64_t a,
			  int64_t b, int64_t c)
{
	int bits = type == OPENREG_VT_I32 ? 32 : 64;
	__int128 x = a, y = b;
	bool in_range = b >= 0 && b < bits;

	switch (op) {
	case OPENREG_V_MOV:
		return (uint64_t)a;
	case OPENREG_V_SELECT:
		return (uint64_t)(a ? b : c);
	case OPENREG_V_ADD:
		return (uint64_t)(x + y);
	case OPENREG_V_SUB:
		return (uint64_t)(x - y);
	case OPENREG_V_MUL:
		return (uint64_t)a * (uint64_t)b;
	case OPENREG_V_DIV:
		return b ? (uint64_t)(x / y) : 0;
	case OPENREG_V_DIV_FLOOR:
		return b ? (uint64_t)floor_div(x, y) : 0;
	case OPENREG_V_FMOD:
		return b ? (uint64_t)(x % y) : 0;
	case OPENREG_V_REMAINDER:
		return b ? (uint64_t)(x - floor_div(x, y) * y) : 0;
	case OPENREG_V_MIN:
		return (uint64_t)(x < y ? x : y);
	case OPENREG_V_MAX:
		return (uint64_t)(x > y ? x : y);
	case OPENREG_V_POW:
		return power(a, b);
	case OPENREG_V_FMA:
		return (uint64_t)a * (uint64_t)b + (uint64_t)c;
	case OPENREG_V_AND:
		return (uint64_t)(a & b);
	case OPENREG_V_OR:
		return (uint64_t)(a | b);
	case OPENREG_V_XOR:
		return (uint64_t)(a ^ b);
	case OPENREG_V_NOT:
		return ~(uint64_t)a;
	case OPENREG_V_SHL:
		return in_range ? (uint64_t)a << b : 0;
	case OPENREG_V_SHR:
		return in_range ? (uint64_t)floor_div(x, (__int128)1 << b)
				: (uint64_t)(a < 0 ? -1 : 0);
	case OPENREG_V_EQ:
		return a == b;
	case OPENREG_V_NE:
		return a != b;
	case OPENREG_V_LT:
		return a < b;
	case OPENREG_V_LE:
		return a <= b;
	case OPENREG_V_GT:
		return a > b;
	case OPENREG_V_GE:
		return a >= b;
	case OPENREG_V_SIGNBIT:
		return a < 0;
	case OPENREG_V_NEG:
		return (uint64_t)-x;
	case OPENREG_V_ABS:
		return (uint64_t)(x < 0 ? -x : x);
	case OPENREG_V_SIGN:
		return (uint64_t)((a > 0) - (a < 0));
	default:
		fail_msg("no definition of operation %u", op);
		return 0;
	}
}

/* Error that the table allows for this operation and x, in units of the last place. */
static double allowed(unsigned int op, unsigned int type, double x)
{
	bool single = type == OPENREG_VT_F32, far;

	switch (op) {
	case OPENREG_V_SINH:
	case OPENREG_V_COSH:
		far = fabs(x) > (single ? 88 : 709);
		break;
	case OPENREG_V_ASINH:
	case OPENREG_V_ACOSH:
		far = fabs(x) > (single ? 1e18 : 1e150);
		break;
	default:
		far = op == OPENREG_V_LGAMMA;
	}
	return far ? 1.6 : reference_ulps(op);
}

/* Compares the distance in units of the last place of the exact value. */
bool reference_close(unsigned int op, unsigned int type, double x, double have,
		     long double want)
{
	bool single = type == OPENREG_VT_F32;
	int digits = single ? 23 : 52, least = single ? -126 : -1022;
	double rounded = single ? (double)(float)want : (double)want;
	long double ulp, error;
	int e;

	if (isnan(want) || isnan(have))
		return isnan(want) && isnan(have);
	if (have == rounded)
		return signbit(have) == signbit(rounded) || reference_ulps(op);
	if (!reference_ulps(op))
		return false;
	if (isinf(have)) /* within rounding of the overflow threshold */
		return fabsl(want) > (single ? FLT_MAX : DBL_MAX) * (1 - 1e-7L);
	if (isinf(rounded))
		return fabs(have) >= (single ? FLT_MAX : DBL_MAX);
	e = want == 0 ? least : ilogbl(want);
	ulp = ldexpl(1, (e < least ? least : e) - digits);
	error = fabsl(have - want) / ulp;
	if (op == OPENREG_V_LGAMMA)
		return error <= allowed(op, type, x) ||
		       fabsl(have - want) <= (single ? 1e-6L : 1e-15L);
	return error <= allowed(op, type, x) + 0.01;
}

/* The nearest multiple of the last digit, half to even. */
static double round_to(double x, int digits, int least, double most)
{
	int e;
	double r;

	if (x == 0 || !isfinite(x))
		return x;
	e = ilogb(x);
	if (e < least)
		e = least;
	r = ldexp(nearbyint(ldexp(x, digits - e)), e - digits);
	return fabs(r) > most ? copysign(INFINITY, r) : r;
}

/* The nearest of two powers of two; half of the least normal f32 is the least. */
static double round_to_power(float x)
{
	float magnitude = fabsf(x);
	int e;

	if (!isfinite(x))
		return NAN;
	if (magnitude < 0x1p-126f)
		return magnitude > 0x1p-127f ? 0x1p-126 : 0x1p-127;
	e = ilogbf(magnitude);
	e += magnitude >= ldexpf(1.5f, e);
	return e > 127 ? NAN : ldexp(1, e);
}

/* FNUZ: no infinity, no negative zero. */
static double fnuz(double x)
{
	return isinf(x) ? NAN : x == 0 ? 0 : x;
}

double reference_to_float(unsigned int dtype, double x)
{
	switch (dtype) {
	case OPENREG_F32:
		return (float)x;
	case OPENREG_F16:
		return round_to((float)x, 10, -14, 65504);
	case OPENREG_BF16:
		return round_to((float)x, 7, -126, 0x1.fep127);
	case OPENREG_F8E4M3FN:
		x = round_to((float)x, 3, -6, 448);
		return isinf(x) ? copysign(448, x) : x;
	case OPENREG_F8E5M2:
		return round_to((float)x, 2, -14, 57344);
	case OPENREG_F8E4M3FNUZ:
		return fnuz(round_to((float)x, 3, -7, 240));
	case OPENREG_F8E5M2FNUZ:
		return fnuz(round_to((float)x, 2, -15, 57344));
	case OPENREG_F8E8M0FNU:
		return round_to_power((float)x);
	default:
		return x;
	}
}

int64_t reference_wrap(unsigned int dtype, int64_t x)
{
	switch (dtype) {
	case OPENREG_I8:
		return (int8_t)(x & 0xff);
	case OPENREG_U8:
		return x & 0xff;
	case OPENREG_I16:
		return (int16_t)(x & 0xffff);
	case OPENREG_I32:
		return (int32_t)(x & 0xffffffff);
	case OPENREG_BOOL:
		return x != 0;
	default:
		return x;
	}
}

int64_t reference_to_int(unsigned int dtype, double x)
{
	bool wide = dtype == OPENREG_I64;
	double most = wide ? 0x1p63 : 0x1p31;

	if (dtype == OPENREG_BOOL)
		return x != 0;
	if (!(trunc(x) >= -most && trunc(x) < most))
		return reference_wrap(dtype, wide ? INT64_MIN : INT32_MIN);
	return reference_wrap(dtype, (int64_t)x);
}
