/* SPDX-License-Identifier: MIT */
/*
 * Kernels: transcendental functions from SLEEF's deterministic family, which gives the
 * same bits for every vector width. The including file sets VECTOR_BITS, the width; 0 is
 * scalar code.
 */
#ifndef OPENREG_KERNEL_MATH_H
#define OPENREG_KERNEL_MATH_H

#include "kernel_types.h"

#if VECTOR_BITS == 512
#include <immintrin.h>
#define LANES_f32 16
#define LANES_f64 8
#define VECTOR_f32 __m512
#define VECTOR_f64 __m512d
#define GET_f32(p) _mm512_loadu_ps(p)
#define GET_f64(p) _mm512_loadu_pd(p)
#define PUT_f32(p, v) _mm512_storeu_ps(p, v)
#define PUT_f64(p, v) _mm512_storeu_pd(p, v)
#define SLEEF_f32(fn, ulp) Sleef_finz_##fn##f16_##ulp##avx512f
#define SLEEF_f64(fn, ulp) Sleef_finz_##fn##d8_##ulp##avx512f
#elif VECTOR_BITS == 256
#include <immintrin.h>
#define LANES_f32 8
#define LANES_f64 4
#define VECTOR_f32 __m256
#define VECTOR_f64 __m256d
#define GET_f32(p) _mm256_loadu_ps(p)
#define GET_f64(p) _mm256_loadu_pd(p)
#define PUT_f32(p, v) _mm256_storeu_ps(p, v)
#define PUT_f64(p, v) _mm256_storeu_pd(p, v)
#define SLEEF_f32(fn, ulp) Sleef_finz_##fn##f8_##ulp##avx2
#define SLEEF_f64(fn, ulp) Sleef_finz_##fn##d4_##ulp##avx2
#else
#include "host_isa.h"
#define LANES_f32 1
#define LANES_f64 1
#define VECTOR_f32 float
#define VECTOR_f64 double
#define GET_f32(p) (*(p))
#define GET_f64(p) (*(p))
#define PUT_f32(p, v) (*(p) = (v))
#define PUT_f64(p, v) (*(p) = (v))
#define SLEEF_f32(fn, ulp) scalar_##fn##_f32
#define SLEEF_f64(fn, ulp) scalar_##fn##_f64
#endif

/* kernel, SLEEF's name, its accuracy */
#define MATH_UNARY(X)                                                          \
	X(EXP, exp, u10)                                                       \
	X(EXP2, exp2, u10)                                                     \
	X(EXPM1, expm1, u10)                                                   \
	X(LOG, log, u10)                                                       \
	X(LOG2, log2, u10)                                                     \
	X(LOG10, log10, u10)                                                   \
	X(LOG1P, log1p, u10)                                                   \
	X(SIN, sin, u10)                                                       \
	X(COS, cos, u10)                                                       \
	X(TAN, tan, u10)                                                       \
	X(ASIN, asin, u10)                                                     \
	X(ACOS, acos, u10)                                                     \
	X(ATAN, atan, u10)                                                     \
	X(ATANH, atanh, u10)                                                   \
	X(ERFC, erfc, u15)
/* SLEEF's functions overflow before their results do: see TAILED. */
#define MATH_TAILED(X)                                                         \
	X(SINH, sinh, u10)                                                     \
	X(COSH, cosh, u10)                                                     \
	X(ASINH, asinh, u10)                                                   \
	X(ACOSH, acosh, u10)                                                   \
	X(LGAMMA, lgamma, u10)
/* F64 only: kernel_curve.h has the F32 versions. */
#define MATH_CURVES(X)                                                         \
	X(TANH, tanh, u10)                                                     \
	X(ERF, erf, u10)
#define MATH_BINARY(X)                                                         \
	X(POW, pow, u10)                                                       \
	X(ATAN2, atan2, u10)                                                   \
	X(HYPOT, hypot, u05)

#if VECTOR_BITS
#define DECLARE1(op, fn, ulp)                                                  \
	VECTOR_f32 SLEEF_f32(fn, ulp)(VECTOR_f32);                             \
	VECTOR_f64 SLEEF_f64(fn, ulp)(VECTOR_f64);
#define DECLARE2(op, fn, ulp)                                                  \
	VECTOR_f32 SLEEF_f32(fn, ulp)(VECTOR_f32, VECTOR_f32);                 \
	VECTOR_f64 SLEEF_f64(fn, ulp)(VECTOR_f64, VECTOR_f64);
#else
/*
 * The same bits need a fused multiply-add, which SLEEF's scalar code takes from the CPU.
 * An x86 without one uses the family that does not need it; results have other bits.
 */
#define DECLARE1(op, fn, ulp)                                                  \
	float Sleef_finz_##fn##f1_##ulp##purecfma(float);                      \
	double Sleef_finz_##fn##d1_##ulp##purecfma(double);                    \
	float Sleef_cinz_##fn##f1_##ulp##purec(float);                         \
	double Sleef_cinz_##fn##d1_##ulp##purec(double);                       \
	static inline float scalar_##fn##_f32(float x)                         \
	{                                                                      \
		return openreg_host_fma()                                      \
			       ? Sleef_finz_##fn##f1_##ulp##purecfma(x)        \
			       : Sleef_cinz_##fn##f1_##ulp##purec(x);          \
	}                                                                      \
	static inline double scalar_##fn##_f64(double x)                       \
	{                                                                      \
		return openreg_host_fma()                                      \
			       ? Sleef_finz_##fn##d1_##ulp##purecfma(x)        \
			       : Sleef_cinz_##fn##d1_##ulp##purec(x);          \
	}
#define DECLARE2(op, fn, ulp)                                                  \
	float Sleef_finz_##fn##f1_##ulp##purecfma(float, float);               \
	double Sleef_finz_##fn##d1_##ulp##purecfma(double, double);            \
	float Sleef_cinz_##fn##f1_##ulp##purec(float, float);                  \
	double Sleef_cinz_##fn##d1_##ulp##purec(double, double);               \
	static inline float scalar_##fn##_f32(float x, float y)                \
	{                                                                      \
		return openreg_host_fma()                                      \
			       ? Sleef_finz_##fn##f1_##ulp##purecfma(x, y)     \
			       : Sleef_cinz_##fn##f1_##ulp##purec(x, y);       \
	}                                                                      \
	static inline double scalar_##fn##_f64(double x, double y)             \
	{                                                                      \
		return openreg_host_fma()                                      \
			       ? Sleef_finz_##fn##d1_##ulp##purecfma(x, y)     \
			       : Sleef_cinz_##fn##d1_##ulp##purec(x, y);       \
	}
#endif

MATH_UNARY(DECLARE1)
MATH_CURVES(DECLARE1)
MATH_TAILED(DECLARE1)
MATH_BINARY(DECLARE2)

#define MATH1(op, fn, ulp, ty)                                                 \
	static void op_##op##_##ty(void *dst, const void *a, const void *b,    \
				   const void *c, size_t n)                    \
	{                                                                      \
		type_##ty *d = dst, t[LANES_##ty] = { 0 };                     \
		const type_##ty *x = a;                                        \
		size_t i;                                                      \
                                                                               \
		(void)b;                                                       \
		(void)c;                                                       \
		for (i = 0; i + LANES_##ty <= n; i += LANES_##ty)              \
			PUT_##ty(d + i,                                        \
				 SLEEF_##ty(fn, ulp)(GET_##ty(x + i)));        \
		if (i == n)                                                    \
			return;                                                \
		memcpy(t, x + i, (n - i) * sizeof(*t));                        \
		PUT_##ty(t, SLEEF_##ty(fn, ulp)(GET_##ty(t)));                 \
		memcpy(d + i, t, (n - i) * sizeof(*t));                        \
	}

#define MATH2(op, fn, ulp, ty)                                                 \
	static void op_##op##_##ty(void *dst, const void *a, const void *b,    \
				   const void *c, size_t n)                    \
	{                                                                      \
		type_##ty *d = dst;                                            \
		type_##ty t[LANES_##ty] = { 0 }, u[LANES_##ty] = { 0 };        \
		const type_##ty *x = a, *y = b;                                \
		size_t i;                                                      \
                                                                               \
		(void)c;                                                       \
		for (i = 0; i + LANES_##ty <= n; i += LANES_##ty)              \
			PUT_##ty(d + i,                                        \
				 SLEEF_##ty(fn, ulp)(GET_##ty(x + i),          \
						     GET_##ty(y + i)));        \
		if (i == n)                                                    \
			return;                                                \
		memcpy(t, x + i, (n - i) * sizeof(*t));                        \
		memcpy(u, y + i, (n - i) * sizeof(*u));                        \
		PUT_##ty(t, SLEEF_##ty(fn, ulp)(GET_##ty(t), GET_##ty(u)));    \
		memcpy(d + i, t, (n - i) * sizeof(*t));                        \
	}

#define MATH1_BOTH(op, fn, ulp)                                                \
	MATH1(op, fn, ulp, f32)                                                \
	MATH1(op, fn, ulp, f64)
#define MATH1_F64(op, fn, ulp) MATH1(op, fn, ulp, f64)
#define MATH2_BOTH(op, fn, ulp)                                                \
	MATH2(op, fn, ulp, f32)                                                \
	MATH2(op, fn, ulp, f64)

#define NEAR1_BOTH(op, fn, ulp) MATH1_BOTH(NEAR_##op, fn, ulp)

MATH_UNARY(MATH1_BOTH)
MATH_CURVES(MATH1_F64)
MATH_TAILED(NEAR1_BOTH)
MATH_BINARY(MATH2_BOTH)

#include "kernel_curve.h"

/* exp(-|x|) is at most 1, so nothing overflows, and the far tail keeps its digits. */
#define SIGMOID(ty, fabs)                                                      \
	static void op_SIGMOID_##ty(void *dst, const void *a, const void *b,   \
				    const void *c, size_t n)                   \
	{                                                                      \
		type_##ty *d = dst, e[64];                                     \
		const type_##ty *x = a;                                        \
		size_t i, m;                                                   \
                                                                               \
		(void)b;                                                       \
		(void)c;                                                       \
		for (; n; n -= m, x += m, d += m) {                            \
			m = n < 64 ? n : 64;                                   \
			for (i = 0; i < m; i++)                                \
				e[i] = -fabs(x[i]);                            \
			op_EXP_##ty(e, e, e, e, m);                            \
			INDEPENDENT                                            \
			for (i = 0; i < m; i++)                                \
				d[i] = (x[i] >= 0 ? 1 : e[i]) / (1 + e[i]);    \
		}                                                              \
	}

SIGMOID(f32, fabsf)
SIGMOID(f64, fabs)

/*
 * Where size(x) > from, the result is far(x, t) with t = by(|x| - start), within 1.6 ulp.
 */
#define TAILED(op, ty, fabs, size, from, start, by, far)                       \
	static void op_##op##_##ty(void *dst, const void *a, const void *b,    \
				   const void *c, size_t n)                    \
	{                                                                      \
		type_##ty *d = dst, x[64], t[64];                              \
		const type_##ty *s = a;                                        \
		size_t i, m;                                                   \
		int tail;                                                      \
                                                                               \
		(void)b;                                                       \
		(void)c;                                                       \
		for (; n; n -= m, s += m, d += m) {                            \
			m = n < 64 ? n : 64;                                   \
			tail = 0;                                              \
			for (i = 0; i < m; i++) {                              \
				x[i] = s[i];                                   \
				tail |= size(x[i]) > (from);                   \
			}                                                      \
			op_NEAR_##op##_##ty(d, x, x, x, m);                    \
			if (!tail)                                             \
				continue;                                      \
			for (i = 0; i < m; i++)                                \
				t[i] = fabs(x[i]) - (start);                   \
			op_##by##_##ty(t, t, t, t, m);                         \
			for (i = 0; i < m; i++)                                \
				if (size(x[i]) > (from))                       \
					d[i] = far(x[i], t[i]);                \
		}                                                              \
	}

#define ITSELF(x) (x)
/* HALF_POWER is e^START / 2, almost exactly; |x| - START is exact. */
#define START_f32 65.625f
#define START_f64 536.5
#define HALF_POWER_f32 0x1.9941b4p+93f
#define HALF_POWER_f64 0x1.010c14b7a6398p+773
#define LN2_f32 0x1.62e43p-1f
#define LN2_f64 0x1.62e42fefa39efp-1
#define FAR_SINH_f32(x, t) copysignf((t) * HALF_POWER_f32, x)
#define FAR_SINH_f64(x, t) copysign((t) * HALF_POWER_f64, x)
#define FAR_COSH_f32(x, t) ((t) * HALF_POWER_f32)
#define FAR_COSH_f64(x, t) ((t) * HALF_POWER_f64)
#define FAR_ASINH_f32(x, t) copysignf((t) + LN2_f32, x)
#define FAR_ASINH_f64(x, t) copysign((t) + LN2_f64, x)
#define FAR_ACOSH_f32(x, t) ((t) + LN2_f32)
#define FAR_ACOSH_f64(x, t) ((t) + LN2_f64)
#define FAR_LGAMMA(x, t) ((x) * ((t)-1))

TAILED(SINH, f32, fabsf, fabsf, 88, START_f32, EXP, FAR_SINH_f32)
TAILED(SINH, f64, fabs, fabs, 709, START_f64, EXP, FAR_SINH_f64)
TAILED(COSH, f32, fabsf, fabsf, 88, START_f32, EXP, FAR_COSH_f32)
TAILED(COSH, f64, fabs, fabs, 709, START_f64, EXP, FAR_COSH_f64)
TAILED(ASINH, f32, fabsf, fabsf, 1e18f, 0, LOG, FAR_ASINH_f32)
TAILED(ASINH, f64, fabs, fabs, 1e150, 0, LOG, FAR_ASINH_f64)
TAILED(ACOSH, f32, fabsf, ITSELF, 1e18f, 0, LOG, FAR_ACOSH_f32)
TAILED(ACOSH, f64, fabs, ITSELF, 1e150, 0, LOG, FAR_ACOSH_f64)
TAILED(LGAMMA, f32, fabsf, ITSELF, 1e30f, 0, LOG, FAR_LGAMMA)
TAILED(LGAMMA, f64, fabs, ITSELF, 1e300, 0, LOG, FAR_LGAMMA)

#define MATH_ENTRY(op, fn, ulp)                                                \
	[OPENREG_V_##op][OPENREG_VT_F32] = op_##op##_f32,                      \
	[OPENREG_V_##op][OPENREG_VT_F64] = op_##op##_f64,
#define MATH_ENTRIES                                                           \
	MATH_UNARY(MATH_ENTRY)                                                 \
	MATH_CURVES(MATH_ENTRY)                                                \
	MATH_TAILED(MATH_ENTRY)                                                \
	MATH_BINARY(MATH_ENTRY)                                                \
	MATH_ENTRY(SIGMOID, , )

#endif
