// SPDX-License-Identifier: MIT
/*
 * MATMUL by oneDNN. Halves, float8, and operands with a layout that oneDNN does not take, are
 * first packed into dense f32, some k at a time.
 */
#include "job/dims.h"
#include "matmul.h"

#define PACK_MAX (1 << 20) /* elements of A and B together */

struct packing {
	const struct openreg_matmul *mm;
	bool pack_a, pack_b;
	int64_t k; /* values of k in one pack */
	unsigned char *a, *b;
};

static bool is_plain(unsigned int dtype, const struct openreg_matrix *x,
		     int64_t batch, int64_t rows, int64_t columns)
{
	return dtype == OPENREG_F32 &&
	       openreg_gemm_is_plain(x, batch, rows, columns);
}

/* Makes a dense copy, with lines along the smaller stride. */
static struct openreg_matrix pack(const struct openreg_matmul *mm,
				  unsigned int dtype,
				  const struct openreg_matrix *from,
				  unsigned char *to, int64_t batch,
				  int64_t rows, int64_t columns)
{
	bool by_row = openreg_magnitude(from->column) <= openreg_magnitude(from->row);
	int64_t lines = by_row ? rows : columns, i, b;
	int64_t length = by_row ? columns : rows;
	int64_t stride = by_row ? from->column : from->row;
	int64_t esize = openreg_dtype_size(dtype);
	struct openreg_matrix x = { .base = (uintptr_t)to };

	x.row = by_row ? columns : 1;
	x.column = by_row ? 1 : rows;
	x.batch = batch > 1 ? rows * columns : 0;
	for (b = 0; b < batch; b++) {
		for (i = 0; i < lines; i++) {
			uintptr_t line = openreg_matrix_at(from, esize, b,
							   by_row ? i : 0,
							   by_row ? 0 : i);

			mm->kernels->load[dtype][OPENREG_VT_F32](
				to, (const void *)line, stride, (size_t)length);
			to += length * 4;
		}
	}
	return x;
}

static struct openreg_matrix part(const struct openreg_matrix *x, int64_t esize,
				  int64_t batch, int64_t row, int64_t column)
{
	struct openreg_matrix y = *x;

	y.base = openreg_matrix_at(x, esize, batch, row, column);
	return y;
}

/* Makes a dense copy of B, column by column. */
static struct openreg_matrix pack_scaled(const struct openreg_matmul *mm,
					 const struct openreg_matmul_tile *t,
					 float *to, int64_t k0, int64_t k)
{
	struct openreg_matrix x = { (uintptr_t)to, t->batch > 1 ? t->n * k : 0, 1, k };
	int64_t b, n;

	for (b = 0; b < t->batch; b++) {
		for (n = 0; n < t->n; n++) {
			openreg_matmul_unscale(mm, to, t->batch0 + b, t->n0 + n,
					       t->k0 + k0, k);
			to += k;
		}
	}
	return x;
}

/* Makes a dense copy of A, row by row. */
static struct openreg_matrix pack_scaled_a(const struct openreg_matmul *mm,
					   const struct openreg_matmul_tile *t,
					   float *to, int64_t k0, int64_t k)
{
	struct openreg_matrix x = { (uintptr_t)to, t->batch > 1 ? t->m * k : 0, k, 1 };
	int64_t b, m;

	for (b = 0; b < t->batch; b++) {
		for (m = 0; m < t->m; m++) {
			openreg_matmul_unscale_a(mm, to, t->batch0 + b, t->m0 + m,
						 t->k0 + k0, k);
			to += k;
		}
	}
	return x;
}

static enum openreg_gemm_result
multiply(const struct packing *p, const struct openreg_matmul_tile *t,
	 struct openreg_gemm *g, int64_t k0, struct openreg_scratch *scratch)
{
	const struct openreg_matmul *mm = p->mm;
	int64_t left = t->k - k0;

	g->k = left < p->k ? left : p->k;
	g->a = part(&mm->a, mm->a_size, t->batch0, t->m0, t->k0 + k0);
	if (!mm->scaled.how)
		g->b = part(&mm->b, mm->b_size, t->batch0,
			    t->k0 + k0, t->n0);
	if (openreg_matmul_scales_a(mm))
		g->a = pack_scaled_a(mm, t, (float *)p->a, k0, g->k);
	else if (p->pack_a)
		g->a = pack(mm, mm->a_dtype, &g->a, p->a,
			    mm->a.batch ? t->batch : 1, t->m, g->k);
	if (mm->scaled.how)
		g->b = pack_scaled(mm, t, (float *)p->b, k0, g->k);
	else if (p->pack_b)
		g->b = pack(mm, mm->b_dtype, &g->b, p->b,
			    mm->b.batch ? t->batch : 1, g->k, t->n);
	return openreg_gemm_dnnl(openreg_scratch_primitives(scratch), g);
}

/* With k = 1, oneDNN 3.12 assumes that the B of each batch follows the last one. */
bool openreg_gemm_has_lone_rows(const struct openreg_matmul *mm,
				const struct openreg_matmul_tile *t)
{
	return t->k == 1 && t->batch > 1 && t->n > 1 && mm->b.batch != 0 &&
	       mm->b.batch != t->n;
}

/* Divides the scratch memory. Returns false if memory is short. */
static bool place(struct packing *p, const struct openreg_matmul_tile *t,
		  struct openreg_product *product,
		  struct openreg_scratch *scratch)
{
	size_t spare = openreg_matmul_spare(p->mm), out = 0, a = 0, b = 0;
	unsigned char *memory;

	if (!product->data)
		out = (size_t)openreg_round_up(t->batch * t->m * t->n * 4, 64);
	if (p->pack_a)
		a = (size_t)openreg_round_up(t->batch * t->m * p->k * 4, 64);
	if (p->pack_b)
		b = (size_t)openreg_round_up(t->batch * t->n * p->k * 4, 64);
	if (out + a + b == 0)
		return true;
	memory = openreg_scratch_buffer(scratch, spare + out + a + b);
	if (!memory)
		return false;
	if (!product->data) {
		product->data = memory + spare;
		product->batch = t->m * t->n;
		product->row = t->n;
	}
	p->a = memory + spare + out;
	p->b = p->a + a;
	return true;
}

enum openreg_gemm_result
openreg_gemm_fast(const struct openreg_matmul *mm,
		  const struct openreg_matmul_tile *t,
		  struct openreg_product *product, bool accumulate,
		  struct openreg_scratch *scratch)
{
	struct packing p = { .mm = mm, .k = t->k };
	struct openreg_gemm g = { .dtype = OPENREG_F32,
				  .d_dtype = OPENREG_F32,
				  .batch = t->batch, .m = t->m, .n = t->n };
	enum openreg_gemm_result result = OPENREG_GEMM_DONE;
	int64_t k0;

	p.pack_a = !is_plain(mm->a_dtype, &mm->a, t->batch, t->m, t->k);
	p.pack_b = !is_plain(mm->b_dtype, &mm->b, t->batch, t->k, t->n) ||
		   openreg_gemm_has_lone_rows(mm, t);
	if (p.pack_a || p.pack_b) {
		int64_t most = PACK_MAX / (t->batch * (t->m + t->n));

		if (most < 64)
			most = 64;
		if (p.k > most)
			p.k = most;
	}
	if (!place(&p, t, product, scratch))
		return OPENREG_GEMM_FAILED;
	g.d.base = (uintptr_t)product->data;
	g.d.batch = product->batch;
	g.d.row = product->row;
	g.d.column = 1;
	for (k0 = 0; k0 < t->k && result == OPENREG_GEMM_DONE; k0 += p.k) {
		g.accumulate = accumulate || k0 > 0;
		result = multiply(&p, t, &g, k0, scratch);
		/* D has partial sums, so no other implementation can take over. */
		if (k0 > 0 && result == OPENREG_GEMM_UNSUPPORTED)
			result = OPENREG_GEMM_FAILED;
	}
	return result;
}
