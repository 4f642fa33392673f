// SPDX-License-Identifier: MIT
/*
 * MATMUL with a packed B, where oneDNN cannot read its order, or cannot read A in place.
 * The kernels convert halves in registers: with a few rows, reading B takes most of the
 * time.
 */
#include <string.h>

#include "packed.h"

static void load_a(const struct openreg_matmul *mm, const struct openreg_matmul_tile *t,
		   float *to, int64_t ld, int64_t rows)
{
	openreg_load_fn *load = mm->kernels->load[mm->a_dtype][OPENREG_VT_F32];
	int64_t r;

	memset(to, 0, (size_t)(rows * ld) * sizeof(*to));
	for (r = 0; r < t->m; r++) {
		uintptr_t row = openreg_matrix_at(&mm->a, mm->a_size, t->batch0,
						  t->m0 + r, t->k0);

		load(to + r * ld, (const void *)row, mm->a.column, (size_t)t->k);
	}
}

static void store(const struct openreg_product *p, const float *from, int64_t row,
		  int64_t rows, int64_t n0, int64_t n)
{
	float *to = (float *)p->data + row * p->row + n0;
	int64_t r;

	for (r = 0; r < rows; r++)
		memcpy(to + r * p->row, from + r * OPENREG_PACKED_COLUMNS,
		       (size_t)n * sizeof(*to));
}

static void multiply(const struct openreg_matmul *mm, const struct openreg_matmul_tile *t,
		     const float *a, int64_t ld, const struct openreg_product *p)
{
	_Alignas(64) float out[OPENREG_PACKED_ROWS * OPENREG_PACKED_COLUMNS];
	openreg_packed_fn *const *kernel = mm->kernels->packed[mm->dtype];
	struct openreg_packed packed = openreg_packed(mm->dtype, mm->k, mm->n);
	int64_t skip = t->k0 * OPENREG_PACKED_COLUMNS * mm->esize, n, r;

	for (n = 0; n < t->n; n += OPENREG_PACKED_COLUMNS) {
		uintptr_t block = openreg_packed_block(&packed, mm->packed, t->n0 + n);
		int64_t columns = t->n - n < OPENREG_PACKED_COLUMNS
					  ? t->n - n
					  : OPENREG_PACKED_COLUMNS;

		for (r = 0; r < t->m; r += OPENREG_PACKED_ROWS) {
			int64_t rows = t->m - r < OPENREG_PACKED_ROWS
					       ? t->m - r
					       : OPENREG_PACKED_ROWS;

			kernel[rows > 1](out, a + r * ld, (size_t)ld,
					 (const void *)(block + (uintptr_t)skip),
					 (size_t)t->k);
			store(p, out, r, rows, n, columns);
		}
	}
}

bool openreg_gemm_packed(const struct openreg_matmul *mm,
			 const struct openreg_matmul_tile *t,
			 struct openreg_product *product,
			 struct openreg_scratch *scratch)
{
	int64_t ld = openreg_round_up(t->k, 2);
	int64_t rows = t->m == 1 ? 1 : openreg_round_up(t->m, OPENREG_PACKED_ROWS);
	size_t a = (size_t)(rows * ld) * sizeof(float);
	float *to;

	if (product->data) {
		to = openreg_scratch_buffer(scratch, a);
		if (!to)
			return false;
	} else {
		if (!openreg_product_place(mm, t, product, scratch, a))
			return false;
		to = (float *)(product->data + openreg_round_up(t->m * t->n * 4, 64));
	}
	load_a(mm, t, to, ld, rows);
	multiply(mm, t, to, ld, product);
	return true;
}
