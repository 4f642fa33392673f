// SPDX-License-Identifier: MIT
/* Whether this host has instructions for halves that are faster than those for f32. */
#include <oneapi/dnnl/dnnl.h>

#include "matmul.h"

static bool has_isa(dnnl_cpu_isa_t isa)
{
	return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

bool openreg_gemm_has_unit(unsigned int dtype)
{
	return dtype == OPENREG_BF16  ? has_isa(dnnl_cpu_isa_avx512_core_amx)
	       : dtype == OPENREG_F16 ? has_isa(dnnl_cpu_isa_avx512_core_fp16)
				      : false;
}
