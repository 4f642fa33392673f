/* SPDX-License-Identifier: MIT */
/* Types and macros that the kernels share. Only for the isa_*.c files. */
#ifndef OPENREG_KERNEL_TYPES_H
#define OPENREG_KERNEL_TYPES_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "dtype.h"
#include "float8.h"
#include "kernels.h"

/*
 * A destination does not overlap a source, or is exactly one of them. So no iteration
 * reads what another one wrote.
 */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define UNUSED __attribute__((unused))

typedef float type_f32;
typedef double type_f64;
typedef int32_t type_i32;
typedef int64_t type_i64;
typedef uint32_t unsigned_i32;
typedef uint64_t unsigned_i64;

/* Casts between register types: from, to. */
#define cast_f32_f32(x) (x)
#define cast_f32_f64(x) ((double)(x))
#define cast_f32_i32(x) openreg_f32_to_i32(x)
#define cast_f32_i64(x) openreg_f32_to_i64(x)
#define cast_f64_f32(x) ((float)(x))
#define cast_f64_f64(x) (x)
#define cast_f64_i32(x) openreg_f64_to_i32(x)
#define cast_f64_i64(x) openreg_f64_to_i64(x)
#define cast_i32_f32(x) ((float)(x))
#define cast_i32_f64(x) ((double)(x))
#define cast_i32_i32(x) (x)
#define cast_i32_i64(x) ((int64_t)(x))
#define cast_i64_f32(x) ((float)(x))
#define cast_i64_f64(x) ((double)(x))
#define cast_i64_i32(x) ((int32_t)(uint32_t)(x))
#define cast_i64_i64(x) (x)

#define FLOAT_TYPES(X, ...)                                                    \
	X(f32, F32, ##__VA_ARGS__)                                             \
	X(f64, F64, ##__VA_ARGS__)
#define INT_TYPES(X, ...)                                                      \
	X(i32, I32, ##__VA_ARGS__)                                             \
	X(i64, I64, ##__VA_ARGS__)
#define ALL_TYPES(X, ...)                                                      \
	FLOAT_TYPES(X, ##__VA_ARGS__)                                          \
	INT_TYPES(X, ##__VA_ARGS__)

#endif
