// SPDX-License-Identifier: MIT
/* Kernels for x86-64-v4 hosts (AVX-512). */
#if defined(__x86_64__)
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4"))),       \
			     apply_to = function)
#else
#pragma GCC target("arch=x86-64-v4")
#endif
#ifdef __clang__
/* clang passes 512-bit arguments as the file's target does, not as the attribute's. */
#define VECTOR_BITS 256
#else
#define VECTOR_BITS 512
#endif
#define KERNELS openreg_kernels_v4
#define KERNELS_NAME "x86-64-v4"
#include "kernel_all.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int openreg_no_isa_v4;
#endif
