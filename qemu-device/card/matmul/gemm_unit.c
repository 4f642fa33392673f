// SPDX-License-Identifier: MIT
/* Instructions for halves that are faster than those for f32. */
#include "matmul.h"
#include "job/primitives.h"

/* AVX512-BF16 of AMD multiplies twice as many numbers as f32; that of Intel as many. */
static bool has_double_bf16(void)
{
#ifdef __x86_64__
	return __builtin_cpu_is("amd") &&
	       openreg_primitive_isa(dnnl_cpu_isa_avx512_core_bf16);
#else
	return false;
#endif
}

unsigned int openreg_gemm_unit_speed(unsigned int dtype)
{
	if (dtype == OPENREG_BF16) {
		if (openreg_primitive_isa(dnnl_cpu_isa_avx512_core_amx))
			return 8;
		return has_double_bf16() ? 2 : 1;
	}
	if (dtype == OPENREG_F16 &&
	    openreg_primitive_isa(dnnl_cpu_isa_avx512_core_fp16))
		return 2;
	return 1;
}
