// SPDX-License-Identifier: MIT
/*
 * Makes the card treat bf16 as faster than f32 on every host with bf16 instructions. The
 * calls of oneDNN that the card makes on hosts with AMX then run on oneDNN's kernels for
 * AVX512-BF16.
 */
#include <stdlib.h>

#include "matmul/matmul.h"
#include "job/primitives.h"

#define SKIPPED 77 /* meson's exit status for a skipped test */

unsigned int openreg_gemm_unit_speed(unsigned int dtype)
{
	if (!openreg_primitive_isa(dnnl_cpu_isa_avx512_core_bf16))
		exit(SKIPPED);
	return dtype == OPENREG_BF16 ? 8 : 1;
}
