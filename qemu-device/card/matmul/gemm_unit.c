// SPDX-License-Identifier: MIT
/* Does this host have instructions for halves that are faster than those for f32? */
#include "matmul.h"
#include "job/primitives.h"

bool openreg_gemm_has_unit(unsigned int dtype)
{
	return dtype == OPENREG_BF16 ?
		       openreg_primitive_isa(dnnl_cpu_isa_avx512_core_amx) :
	       dtype == OPENREG_F16 ?
		       openreg_primitive_isa(dnnl_cpu_isa_avx512_core_fp16) :
		       false;
}
