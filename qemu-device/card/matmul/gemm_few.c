// SPDX-License-Identifier: MIT
/*
 * MATMUL of a few rows with scales. Reading Q takes most of the time, so the kernels
 * convert it in registers.
 */
#include <string.h>

#include "matmul.h"

struct few {
	const struct openreg_matmul *mm;
	const struct openreg_matmul_tile *tile;
	bool i4;
	int64_t rows, groups; /* rows: those of A and zeros, a multiple of the kernel's */
	float *a; /* [rows][k]; with i4, a row has its even elements first */
	float *sums; /* [rows][groups] */
	int64_t ld; /* columns, a multiple of the kernel's */
	float *scale, *zero; /* [groups][ld] */
};

static void load_a(const struct few *f)
{
	const struct openreg_matmul *mm = f->mm;
	int64_t r, k = mm->k, half = k / 2;
	openreg_load_fn *load = mm->kernels->load[mm->a_dtype][OPENREG_VT_F32];

	memset(f->a, 0, (size_t)(f->rows * k) * sizeof(*f->a));
	for (r = 0; r < f->tile->m; r++) {
		uintptr_t even = openreg_matrix_at(&mm->a, mm->a_size,
						   f->tile->batch0,
						   f->tile->m0 + r, 0);
		uintptr_t odd = even + (uintptr_t)(mm->a.column * mm->a_size);
		float *to = f->a + r * k;

		if (!f->i4) {
			load(to, (const void *)even, mm->a.column, (size_t)k);
			continue;
		}
		load(to, (const void *)even, 2 * mm->a.column, (size_t)half);
		load(to + half, (const void *)odd, 2 * mm->a.column, (size_t)half);
	}
}

static float sum(const float *x, int64_t n)
{
	float s = 0;
	int64_t i;

	for (i = 0; i < n; i++)
		s += x[i];
	return s;
}

static void sum_groups(const struct few *f)
{
	int64_t part = f->i4 ? f->mm->scaled.group / 2 : f->mm->scaled.group;
	int64_t r, g;

	for (r = 0; r < f->rows; r++) {
		const float *row = f->a + r * f->mm->k;

		for (g = 0; g < f->groups; g++) {
			float *s = &f->sums[r * f->groups + g];

			*s = sum(row + g * part, part);
			if (f->i4)
				*s += sum(row + f->mm->k / 2 + g * part, part);
		}
	}
}

static void load_scales(const struct few *f, float *to, uint8_t dtype,
			const struct openreg_matrix *from)
{
	const struct openreg_matmul_tile *t = f->tile;
	int64_t size = openreg_dtype_size(dtype), g;

	for (g = 0; g < f->groups; g++) {
		float *row = to + g * f->ld;

		f->mm->kernels->load[dtype][OPENREG_VT_F32](
			row,
			(const void *)openreg_matrix_at(from, size, t->batch0, g,
							t->n0),
			from->column, (size_t)t->n);
		memset(row + t->n, 0, (size_t)(f->ld - t->n) * sizeof(*row));
	}
}

/* Prepares columns from n on. A column behind the last is the last one again. */
static void set_columns(const struct few *f, struct openreg_dots *d, int64_t n)
{
	int64_t i;

	for (i = 0; i < OPENREG_DOTS_COLUMNS; i++) {
		int64_t at = n + i < f->tile->n ? n + i : f->tile->n - 1;

		d->q[i] = (const uint8_t *)openreg_matrix_at(
			&f->mm->b, 1, f->tile->batch0, 0, f->tile->n0 + at);
	}
	d->scale = f->scale + n;
	d->zero = f->zero + n;
}

static void store(const struct few *f, const struct openreg_dots *d,
		  const struct openreg_product *p, int64_t row, int64_t n)
{
	int64_t rows = f->tile->m - row, columns = f->tile->n - n, r;
	float *to = (float *)p->data + row * p->row + n;

	if (rows > OPENREG_DOTS_ROWS)
		rows = OPENREG_DOTS_ROWS;
	if (columns > OPENREG_DOTS_COLUMNS)
		columns = OPENREG_DOTS_COLUMNS;
	for (r = 0; r < rows; r++)
		memcpy(to + r * p->row, d->out[r],
		       (size_t)columns * sizeof(*to));
}

static void multiply(const struct few *f, const struct openreg_product *p)
{
	const struct openreg_matmul *mm = f->mm;
	openreg_dots_fn *dots = mm->kernels->dots[f->i4][f->rows > 1];
	struct openreg_dots d = { .k = (size_t)mm->k,
				  .groups = (size_t)f->groups,
				  .ld = (size_t)f->ld };
	int64_t n, r;

	for (n = 0; n < f->tile->n; n += OPENREG_DOTS_COLUMNS) {
		set_columns(f, &d, n);
		for (r = 0; r < f->tile->m; r += OPENREG_DOTS_ROWS) {
			d.a = f->a + r * mm->k;
			d.sums = mm->scaled.has_zero ? f->sums + r * f->groups : NULL;
			dots(&d);
			store(f, &d, p, r, n);
		}
	}
}

bool openreg_gemm_few(const struct openreg_matmul *mm,
		      const struct openreg_matmul_tile *tile,
		      struct openreg_product *product,
		      struct openreg_scratch *scratch)
{
	struct few f = { .mm = mm,
			 .tile = tile,
			 .i4 = mm->scaled.how == OPENREG_MATMUL_SCALED_I4,
			 .groups = mm->k / mm->scaled.group };
	int64_t scales;

	f.ld = openreg_round_up(tile->n, OPENREG_DOTS_COLUMNS);
	scales = f.groups * f.ld;
	f.rows = tile->m == 1 ? 1 : openreg_round_up(tile->m, OPENREG_DOTS_ROWS);
	if (!openreg_product_place(mm, tile, product, scratch,
				   (size_t)(f.rows * (mm->k + f.groups) + 2 * scales) *
					   sizeof(float)))
		return false;
	f.a = (float *)(product->data + openreg_round_up(tile->m * tile->n * 4, 64));
	f.sums = f.a + f.rows * mm->k;
	f.scale = f.sums + f.rows * f.groups;
	f.zero = f.scale + scales;
	load_a(&f);
	load_scales(&f, f.scale, mm->scaled.dtype, &mm->scaled.scale);
	if (mm->scaled.has_zero) {
		load_scales(&f, f.zero, mm->scaled.zero_dtype, &mm->scaled.zero);
		sum_groups(&f);
	}
	multiply(&f, product);
	return true;
}
