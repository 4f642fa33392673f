/* SPDX-License-Identifier: MIT */
/*
 * The semantics of every VECTOR instruction. The engine is generated from this table and
 * the hardware manual quotes it; a test compares both with it.
 *
 * V(op, name, types, form, semantics)
 *   op         suffix of OPENREG_V_
 *   name       in the manual
 *   types      FLOAT: F32 F64; INT: I32 I64; ALL: both; F32; I64
 *   form       LOAD STORE IMM MOV CVT ROUND INDEX SELECT RANDOM: see
 *              openreg_isa.h; UNARY: a; BINARY: a, b; TERNARY: a, b, c; TEST1,
 *              TEST2: a, or a and b, with an I32 result; REDUCE: a, then aux,
 *              b, c
 *   semantics  one line
 *
 * Rules for all instructions. F32 and F64 are IEEE 754 with subnormals, rounding half to
 * even; only FMA fuses two operations. A NaN result has any sign and payload. I32 and
 * I64 wrap modulo 2^32 and 2^64. f16 and bf16 compute as F32; i8, u8, i16 and bool as
 * I32.
 *
 * Casts (LOAD, STORE, CVT, COPY):
 *   float to float      half to even, overflow gives infinity; f64 to f16 and
 *                       bf16 converts to f32 first
 *   float to integer    toward zero to i32 (to i64 for i64); NaN and values out
 *                       of range give the least i32 (i64); then wraps to i8, u8
 *                       and i16
 *   integer to integer  wraps
 *   integer to float    half to even; to f16 and bf16 converts to f32 first
 *   anything to bool    x != 0, so NaN is true
 *   bool to anything    0 or 1
 */
#ifndef OPENREG_VECTOR_OPS_H
#define OPENREG_VECTOR_OPS_H

#define OPENREG_VECTOR_OPS(V)                                                  \
	V(LOAD, "load", ALL, LOAD, "dst = operand[aux], cast to the type")     \
	V(STORE, "store", ALL, STORE, "operand[aux] = a, cast from the type")  \
	V(IMM, "imm", ALL, IMM,                                                \
	  "dst = imm[aux]; F32 rounds the f64, I32 wraps the i64")             \
	V(MOV, "mov", ALL, MOV, "dst = a")                                     \
	V(CVT, "cvt", ALL, CVT, "dst = a of type aux, cast to the type")       \
	V(ROUND, "round", F32, ROUND,                                          \
	  "a rounded to dtype aux: f16, bf16 or a float8; stays F32")          \
	V(INDEX, "index", I64, INDEX, "coordinate along dimension aux")        \
	V(SELECT, "select", ALL, SELECT, "a != 0 ? b : c, a as I32")           \
	V(RANDOM, "random", INT, RANDOM,                                       \
	  "element i of stream imm[b] + aux of key imm[a]; i is the point's "  \
	  "row-major index")                                                   \
	V(ADD, "add", ALL, BINARY, "a + b; integers wrap")                     \
	V(SUB, "sub", ALL, BINARY, "a - b; integers wrap")                     \
	V(MUL, "mul", ALL, BINARY, "a * b; integers wrap")                     \
	V(DIV, "div", ALL, BINARY,                                             \
	  "a / b; integers toward zero, x / 0 = 0, least / -1 wraps")          \
	V(DIV_FLOOR, "div_floor", ALL, BINARY,                                 \
	  "floor of a / b as Python's //; integers x // 0 = 0; floats x / 0 "  \
	  "as div")                                                            \
	V(FMOD, "fmod", ALL, BINARY,                                           \
	  "exact a - trunc(a / b) * b, sign of a; integers x % 0 = 0; floats " \
	  "x % 0 and inf % x = NaN")                                           \
	V(REMAINDER, "remainder", ALL, BINARY,                                 \
	  "fmod, plus b if the fmod is non-zero and its sign is not b's; "     \
	  "integers x % 0 = 0")                                                \
	V(MIN, "min", ALL, BINARY,                                             \
	  "the lesser; NaN if either is NaN; b if they are equal")             \
	V(MAX, "max", ALL, BINARY,                                             \
	  "the greater; NaN if either is NaN; b if they are equal")            \
	V(FMIN, "fmin", FLOAT, BINARY,                                         \
	  "the lesser; the other if one is NaN; b if they are equal")          \
	V(FMAX, "fmax", FLOAT, BINARY,                                         \
	  "the greater; the other if one is NaN; b if they are equal")         \
	V(POW, "pow", ALL, BINARY,                                             \
	  "a to the b, 1 ulp; integers wrap, and b < 0 gives 1 / a^-b toward " \
	  "zero with 1 / 0 = 0")                                               \
	V(ATAN2, "atan2", FLOAT, BINARY, "angle of (b, a), 1 ulp")             \
	V(HYPOT, "hypot", FLOAT, BINARY,                                       \
	  "sqrt(a^2 + b^2) without overflow, 1 ulp; inf if either is inf")     \
	V(COPYSIGN, "copysign", FLOAT, BINARY, "a with the sign bit of b")     \
	V(FMA, "fma", ALL, TERNARY,                                            \
	  "a * b + c; floats round once, integers wrap")                       \
	V(AND, "and", INT, BINARY, "a & b")                                    \
	V(OR, "or", INT, BINARY, "a | b")                                      \
	V(XOR, "xor", INT, BINARY, "a ^ b")                                    \
	V(NOT, "not", INT, UNARY, "~a")                                        \
	V(SHL, "shl", INT, BINARY,                                             \
	  "a << b, wraps; b outside 0 .. bits - 1 gives 0")                    \
	V(SHR, "shr", INT, BINARY,                                             \
	  "a >> b, arithmetic; b outside 0 .. bits - 1 gives 0 or -1, the "    \
	  "sign of a")                                                         \
	V(EQ, "eq", ALL, TEST2, "a == b; false with NaN")                      \
	V(NE, "ne", ALL, TEST2, "a != b; true with NaN")                       \
	V(LT, "lt", ALL, TEST2, "a < b; false with NaN")                       \
	V(LE, "le", ALL, TEST2, "a <= b; false with NaN")                      \
	V(GT, "gt", ALL, TEST2, "a > b; false with NaN")                       \
	V(GE, "ge", ALL, TEST2, "a >= b; false with NaN")                      \
	V(ISNAN, "isnan", FLOAT, TEST1, "a is NaN")                            \
	V(ISINF, "isinf", FLOAT, TEST1, "a is inf or -inf")                    \
	V(ISFINITE, "isfinite", FLOAT, TEST1, "a is neither infinite nor NaN") \
	V(SIGNBIT, "signbit", ALL, TEST1,                                      \
	  "the sign bit of a; 1 for -0; integers a < 0")                       \
	V(NEG, "neg", ALL, UNARY, "-a; flips the sign bit of a float; "        \
	  "integers wrap")                                                     \
	V(ABS, "abs", ALL, UNARY, "|a|; clears the sign bit of a float; "      \
	  "integers wrap")                                                     \
	V(SIGN, "sign", ALL, UNARY, "-1, 0 or 1; NaN gives NaN, -0 gives 0")   \
	V(RECIP, "recip", FLOAT, UNARY, "1 / a, rounded once")                 \
	V(SQRT, "sqrt", FLOAT, UNARY, "square root, rounded once")             \
	V(RSQRT, "rsqrt", FLOAT, UNARY, "1 / sqrt(a), rounded twice")          \
	V(FLOOR, "floor", FLOAT, UNARY, "toward -inf, keeps the sign of 0")    \
	V(CEIL, "ceil", FLOAT, UNARY, "toward inf, keeps the sign of 0")       \
	V(TRUNC, "trunc", FLOAT, UNARY, "toward 0, keeps the sign of 0")       \
	V(RINT, "rint", FLOAT, UNARY, "nearest, half to even")                 \
	V(EXP, "exp", FLOAT, UNARY, "e^a, 1 ulp")                              \
	V(EXP2, "exp2", FLOAT, UNARY, "2^a, 1 ulp")                            \
	V(EXPM1, "expm1", FLOAT, UNARY, "e^a - 1, 1 ulp")                      \
	V(LOG, "log", FLOAT, UNARY, "natural logarithm, 1 ulp")                \
	V(LOG2, "log2", FLOAT, UNARY, "logarithm to 2, 1 ulp")                 \
	V(LOG10, "log10", FLOAT, UNARY, "logarithm to 10, 1 ulp")              \
	V(LOG1P, "log1p", FLOAT, UNARY, "log(1 + a), 1 ulp")                   \
	V(SIN, "sin", FLOAT, UNARY, "sine, 1 ulp; NaN for infinities")         \
	V(COS, "cos", FLOAT, UNARY, "cosine, 1 ulp; NaN for infinities")       \
	V(TAN, "tan", FLOAT, UNARY, "tangent, 1 ulp; NaN for infinities")      \
	V(ASIN, "asin", FLOAT, UNARY, "arc sine, 1 ulp; NaN beyond 1")         \
	V(ACOS, "acos", FLOAT, UNARY, "arc cosine, 1 ulp; NaN beyond 1")       \
	V(ATAN, "atan", FLOAT, UNARY, "arc tangent, 1 ulp")                    \
	V(SINH, "sinh", FLOAT, UNARY,                                          \
	  "hyperbolic sine, 1 ulp; 1.6 beyond 709, F32 88")                    \
	V(COSH, "cosh", FLOAT, UNARY,                                          \
	  "hyperbolic cosine, 1 ulp; 1.6 beyond 709, F32 88")                  \
	V(TANH, "tanh", FLOAT, UNARY, "hyperbolic tangent, 1 ulp")             \
	V(ASINH, "asinh", FLOAT, UNARY,                                        \
	  "inverse of sinh, 1 ulp; 1.6 beyond 1e150, F32 1e18")                \
	V(ACOSH, "acosh", FLOAT, UNARY,                                        \
	  "inverse of cosh, 1 ulp; 1.6 beyond 1e150, F32 1e18; NaN below 1")   \
	V(ATANH, "atanh", FLOAT, UNARY, "inverse of tanh, 1 ulp")              \
	V(ERF, "erf", FLOAT, UNARY, "error function, 1 ulp")                   \
	V(ERFC, "erfc", FLOAT, UNARY, "1 - erf(a), 1.5 ulp")                   \
	V(LGAMMA, "lgamma", FLOAT, UNARY, "log |gamma(a)|, 1.6 ulp or 1e-15")    \
	V(SIGMOID, "sigmoid", FLOAT, UNARY,                                    \
	  "1 / (1 + exp(-a)); computes exp(-|a|), which cannot overflow")      \
	V(RED_SUM, "red_sum", ALL, REDUCE,                                     \
	  "sum; floats add in f64 in a fixed order, then multiply by imm[c], " \
	  "then round to the type; integers wrap; 0 without elements")         \
	V(RED_PROD, "red_prod", ALL, REDUCE,                                   \
	  "product, computed as red_sum; 1 without elements")                  \
	V(RED_MAX, "red_max", ALL, REDUCE,                                     \
	  "greatest; NaN if any is NaN; the first of equals gives the index; " \
	  "faults with SHAPE without elements")                                \
	V(RED_MIN, "red_min", ALL, REDUCE,                                     \
	  "least; NaN if any is NaN; the first of equals gives the index; "    \
	  "faults with SHAPE without elements")                                \
	V(RED_AND, "red_and", INT, REDUCE,                                     \
	  "1 if all are non-zero, else 0; 1 without elements")                 \
	V(RED_OR, "red_or", INT, REDUCE,                                       \
	  "1 if any is non-zero, else 0; 0 without elements")

enum openreg_vform {
	OPENREG_VFORM_NONE = 0,
	OPENREG_VFORM_LOAD,
	OPENREG_VFORM_STORE,
	OPENREG_VFORM_IMM,
	OPENREG_VFORM_MOV,
	OPENREG_VFORM_CVT,
	OPENREG_VFORM_ROUND,
	OPENREG_VFORM_INDEX,
	OPENREG_VFORM_SELECT,
	OPENREG_VFORM_RANDOM,
	OPENREG_VFORM_UNARY,
	OPENREG_VFORM_BINARY,
	OPENREG_VFORM_TERNARY,
	OPENREG_VFORM_TEST1,
	OPENREG_VFORM_TEST2,
	OPENREG_VFORM_REDUCE,
};

/* Bit t: type t is legal. */
#define OPENREG_VTYPES_F32 0x1
#define OPENREG_VTYPES_I64 0x8
#define OPENREG_VTYPES_FLOAT 0x3
#define OPENREG_VTYPES_INT 0xc
#define OPENREG_VTYPES_ALL 0xf

#endif
