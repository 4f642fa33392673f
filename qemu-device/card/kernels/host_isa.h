/* SPDX-License-Identifier: MIT */
#ifndef OPENREG_HOST_ISA_H
#define OPENREG_HOST_ISA_H

#include <stdbool.h>

/* Does the host have the fused multiply-add that SLEEF's scalar code needs? */
static inline bool openreg_host_fma(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#else
	return true;
#endif
}

#endif
