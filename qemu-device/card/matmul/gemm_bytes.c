// SPDX-License-Identifier: MIT
/*
 * MATMUL of bytes by oneDNN. It saturates sums of two products on hosts without VNNI, so
 * these use the card's own loop.
 */
#include "job/primitives.h"
#include "matmul.h"

bool openreg_gemm_has_bytes(void)
{
	return openreg_primitive_isa(dnnl_cpu_isa_avx512_core_vnni) ||
	       openreg_primitive_isa(dnnl_cpu_isa_avx2_vnni);
}

static struct openreg_matrix part(const struct openreg_matrix *x, int64_t batch,
				  int64_t row, int64_t column)
{
	struct openreg_matrix y = *x;

	y.base = openreg_matrix_at(x, 1, batch, row, column);
	return y;
}

enum openreg_gemm_result
openreg_gemm_bytes(const struct openreg_matmul *mm,
		   const struct openreg_matmul_tile *t,
		   struct openreg_product *product,
		   struct openreg_scratch *scratch)
{
	struct openreg_gemm g = {
		.dtype = mm->a_dtype,
		.b_dtype = mm->b_dtype,
		.d_dtype = OPENREG_I32,
		.batch = t->batch,
		.m = t->m,
		.n = t->n,
		.k = t->k,
		.a = part(&mm->a, t->batch0, t->m0, t->k0),
		.b = part(&mm->b, t->batch0, t->k0, t->n0),
	};

	if (!openreg_gemm_has_bytes() || openreg_gemm_has_lone_rows(mm, t) ||
	    !openreg_gemm_is_plain(&g.a, t->batch, t->m, t->k) ||
	    !openreg_gemm_is_plain(&g.b, t->batch, t->k, t->n))
		return OPENREG_GEMM_UNSUPPORTED;
	if (!product->data &&
	    !openreg_product_place(mm, t, product, scratch, 0))
		return OPENREG_GEMM_FAILED;
	g.d = (struct openreg_matrix){ (uintptr_t)product->data, product->batch,
				       product->row, 1 };
	return openreg_gemm_dnnl(openreg_scratch_primitives(scratch), &g);
}
