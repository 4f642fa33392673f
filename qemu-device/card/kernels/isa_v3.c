// SPDX-License-Identifier: MIT
/* Kernels for x86-64-v3 hosts (AVX2). */
#if defined(__x86_64__)
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))),       \
			     apply_to = function)
#else
#pragma GCC target("arch=x86-64-v3")
#endif
#define VECTOR_BITS 256
#define KERNELS openreg_kernels_v3
#define KERNELS_NAME "x86-64-v3"
#include "kernel_all.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int openreg_no_isa_v3;
#endif
