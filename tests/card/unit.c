// SPDX-License-Identifier: MIT
/*
 * Takes bf16 for faster than f32 wherever the host has instructions for it. What the
 * card gives oneDNN on hosts with AMX then runs on oneDNN's kernels for AVX512-BF16.
 */
#include <stdlib.h>

#include "matmul.h"
#include "primitives.h"

#define SKIPPED 77 /* as meson has it */

bool openreg_gemm_has_unit(unsigned int dtype)
{
	if (!openreg_primitive_isa(dnnl_cpu_isa_avx512_core_bf16))
		exit(SKIPPED);
	return dtype == OPENREG_BF16;
}
