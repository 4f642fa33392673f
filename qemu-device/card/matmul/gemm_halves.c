// SPDX-License-Identifier: MIT
/*
 * MATMUL of halves by oneDNN, without a conversion to f32. AVX512-BF16 rounds at every step.
 * Where it multiplies no faster than f32 it still saves the conversion, which matters where
 * most numbers are used only once.
 */
#include "packed.h"
#include "job/primitives.h"

#define FEW 16 /* rows or columns up to which memory limits the speed */

static bool is_faster(const struct openreg_matmul *mm,
		      const struct openreg_matmul_tile *t)
{
	if (mm->a_dtype != mm->dtype)
		return false;
	if (openreg_gemm_has_unit(mm->dtype))
		return true;
	return mm->dtype == OPENREG_BF16 && (t->m <= FEW || t->n <= FEW) &&
	       openreg_primitive_isa(dnnl_cpu_isa_avx512_core_bf16);
}

/* Does oneDNN read B of this tile in place? */
static bool takes_b(const struct openreg_matmul *mm,
		    const struct openreg_matmul_tile *t,
		    const struct openreg_matrix *b)
{
	/* With one row of f32 the card's own kernel is faster: it reads each line once. */
	if (mm->packed)
		return t->k == mm->k && !(t->m == 1 && mm->dtype == OPENREG_F32);
	return !mm->scaled.how && is_faster(mm, t) &&
	       !openreg_gemm_has_lone_rows(mm, t) &&
	       openreg_gemm_is_plain(b, t->batch, t->k, t->n);
}

static struct openreg_matrix part(const struct openreg_matmul *mm,
				  const struct openreg_matrix *x, int64_t batch,
				  int64_t row, int64_t column)
{
	struct openreg_matrix y = *x;

	y.base = openreg_matrix_at(x, mm->esize, batch, row, column);
	return y;
}

enum openreg_gemm_result
openreg_gemm_halves(const struct openreg_matmul *mm,
		    const struct openreg_matmul_tile *t,
		    struct openreg_product *product, bool in_place,
		    struct openreg_scratch *scratch)
{
	struct openreg_gemm g = {
		.dtype = mm->dtype,
		.d_dtype = in_place ? mm->dtype : OPENREG_F32,
		.batch = t->batch,
		.m = t->m,
		.n = t->n,
		.k = t->k,
		.a = part(mm, &mm->a, t->batch0, t->m0, t->k0),
		.b = part(mm, &mm->b, t->batch0, t->k0, t->n0),
		.packed = mm->packed,
	};
	struct openreg_product p = *product;
	enum openreg_gemm_result result;

	if (!takes_b(mm, t, &g.b) ||
	    !openreg_gemm_is_plain(&g.a, t->batch, t->m, t->k))
		return OPENREG_GEMM_UNSUPPORTED;
	if (mm->packed) {
		struct openreg_packed packed =
			openreg_packed(mm->dtype, mm->k, mm->n);

		g.b = (struct openreg_matrix){
			.base = openreg_packed_block(&packed, mm->packed, t->n0)
		};
	}
	if (!p.data && !openreg_product_place(mm, t, &p, scratch, 0))
		return OPENREG_GEMM_FAILED;
	g.d = (struct openreg_matrix){ (uintptr_t)p.data, p.batch, p.row, 1 };
	result = openreg_gemm_dnnl(openreg_scratch_primitives(scratch), &g);
	if (result == OPENREG_GEMM_DONE)
		*product = p;
	return result;
}
