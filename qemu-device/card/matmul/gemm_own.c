// SPDX-License-Identifier: MIT
/* MATMUL by the card's own blocked loop: f64, integers, and what oneDNN cannot do. */
#include <string.h>

#include "matmul.h"

#define K_BLOCK 256 /* even */
#define PANELS_MAX (1 << 19) /* elements of A and B together */

struct panels {
	const struct openreg_matmul *mm;
	const struct openreg_matmul_tile *tile;
	const struct openreg_gemm_kernel *kernel;
	bool pairs; /* the kernel multiplies pairs of bytes */
	int64_t width; /* bytes of an element of a and b */
	unsigned char *a, *b, *out;
	int64_t m, n; /* rounded up to whole blocks */
	int64_t k; /* values of k in one panel */
};

/* Packs bytes: lines of x from (line0, k0) on. */
static void pack_bytes(unsigned char *to, uint8_t dtype, const struct openreg_matrix *x,
		       int64_t batch, int64_t line0, int64_t k0, int64_t lines,
		       int64_t width, int64_t k)
{
	struct openreg_matrix from = *x;

	from.base = openreg_matrix_at(x, 1, batch, line0, k0);
	openreg_pairs_pack((int16_t *)to, dtype, &from, lines, width, k);
}

/* Packs count elements of a matrix, then zeros up to `width` elements. */
static void pack_line(const struct panels *p, unsigned int dtype,
		      unsigned char *to,
		      uintptr_t from, int64_t stride, int64_t count,
		      int64_t width)
{
	const struct openreg_matmul *mm = p->mm;

	mm->kernels->load[dtype][mm->type](to, (const void *)from, stride,
					   (size_t)count);
	if (count < width)
		memset(to + count * mm->width, 0,
		       (size_t)((width - count) * mm->width));
}

static void pack_a(const struct panels *p, int64_t batch, int64_t k0, int64_t k)
{
	const struct openreg_matmul_tile *t = p->tile;
	int64_t rows = p->kernel->rows, i, j;
	unsigned char *to = p->a;

	if (p->pairs) {
		pack_bytes(to, p->mm->a_dtype, &p->mm->a, t->batch0 + batch, t->m0,
			   t->k0 + k0, t->m, rows, k);
		return;
	}
	for (i = 0; i < t->m; i += rows) {
		int64_t left = t->m - i < rows ? t->m - i : rows;

		for (j = 0; j < k; j++) {
			uintptr_t from = openreg_matrix_at(
				&p->mm->a, p->mm->a_size, t->batch0 + batch,
				t->m0 + i, t->k0 + k0 + j);

			pack_line(p, p->mm->a_dtype, to, from,
				  p->mm->a.row, left, rows);
			to += rows * p->mm->width;
		}
	}
}

static void pack_b(const struct panels *p, int64_t batch, int64_t k0, int64_t k)
{
	const struct openreg_matmul_tile *t = p->tile;
	int64_t columns = p->kernel->columns, i, j;
	unsigned char *to = p->b;

	if (p->pairs) {
		const struct openreg_matrix turned = openreg_transposed(p->mm->b);

		pack_bytes(to, p->mm->b_dtype, &turned, t->batch0 + batch, t->n0,
			   t->k0 + k0, t->n, columns, k);
		return;
	}
	for (i = 0; i < t->n; i += columns) {
		int64_t left = t->n - i < columns ? t->n - i : columns;

		for (j = 0; j < k; j++) {
			uintptr_t from = openreg_matrix_at(
				&p->mm->b, p->mm->b_size, t->batch0 + batch,
				t->k0 + k0 + j, t->n0 + i);

			pack_line(p, p->mm->b_dtype, to, from,
				  p->mm->b.column, left, columns);
			to += columns * p->mm->width;
		}
	}
}

/* Puts line i of k numbers into a panel of blocks of `width` lines. */
static void put_line(float *panel, const float *line, int64_t i, int64_t width, int64_t k)
{
	float *to = panel + i / width * width * k + i % width;
	int64_t j;

	for (j = 0; j < k; j++)
		to[j * width] = line[j];
}

static void pack_scaled_a(const struct panels *p, int64_t batch, int64_t k0, int64_t k)
{
	const struct openreg_matmul_tile *t = p->tile;
	float line[K_BLOCK], *to = (float *)p->a;
	int64_t i;

	memset(to, 0, (size_t)(p->m * k) * sizeof(*to));
	for (i = 0; i < t->m; i++) {
		openreg_matmul_unscale_a(p->mm, line, t->batch0 + batch, t->m0 + i,
					 t->k0 + k0, k);
		put_line(to, line, i, p->kernel->rows, k);
	}
}

static void pack_scaled_b(const struct panels *p, int64_t batch, int64_t k0, int64_t k)
{
	const struct openreg_matmul_tile *t = p->tile;
	float line[K_BLOCK], *to = (float *)p->b;
	int64_t i;

	memset(to, 0, (size_t)(p->n * k) * sizeof(*to));
	for (i = 0; i < t->n; i++) {
		openreg_matmul_unscale(p->mm, line, t->batch0 + batch, t->n0 + i,
				       t->k0 + k0, k);
		put_line(to, line, i, p->kernel->columns, k);
	}
}

static void multiply(const struct panels *p, int64_t batch, int64_t k,
		     bool accumulate)
{
	int64_t rows = p->kernel->rows, columns = p->kernel->columns;
	int64_t width = p->mm->width, panel, i, j;
	unsigned char *out = p->out + batch * p->m * p->n * width;

	if (p->pairs)
		k = openreg_round_up(k, 2);
	panel = k * p->width;

	for (j = 0; j < p->n; j += columns) {
		for (i = 0; i < p->m; i += rows)
			p->kernel->block(out + (i * p->n + j) * width,
					 (size_t)p->n, p->a + i * panel,
					 p->b + j * panel, (size_t)k,
					 accumulate);
	}
}

bool openreg_gemm_own(const struct openreg_matmul *mm,
		      const struct openreg_matmul_tile *tile,
		      struct openreg_product *product,
		      struct openreg_scratch *scratch)
{
	struct panels p = { .mm = mm,
			    .tile = tile,
			    .kernel = openreg_matmul_kernel(mm),
			    .pairs = openreg_matmul_is_mixed(mm) };
	size_t spare = openreg_matmul_spare(mm), out, a, b;
	int64_t batch, k0;

	p.m = openreg_round_up(tile->m, p.kernel->rows);
	p.n = openreg_round_up(tile->n, p.kernel->columns);
	p.k = PANELS_MAX / (p.m + p.n);
	p.k = p.k > K_BLOCK ? K_BLOCK : p.k < 8 ? 8 : p.k & ~(int64_t)1;
	p.width = p.pairs ? (int64_t)sizeof(int16_t) : mm->width;
	out = (size_t)openreg_round_up(tile->batch * p.m * p.n * mm->width, 64);
	a = (size_t)openreg_round_up(p.m * p.k * p.width, 64);
	b = (size_t)openreg_round_up(p.n * p.k * p.width, 64);
	p.out = openreg_scratch_buffer(scratch, spare + out + a + b);
	if (!p.out)
		return false;
	p.out += spare;
	p.a = p.out + out;
	p.b = p.a + a;
	if (tile->k == 0)
		memset(p.out, 0, out);
	for (batch = 0; batch < tile->batch; batch++) {
		for (k0 = 0; k0 < tile->k; k0 += p.k) {
			int64_t left = tile->k - k0;
			int64_t k = left < p.k ? left : p.k;

			if (openreg_matmul_scales_a(mm))
				pack_scaled_a(&p, batch, k0, k);
			else
				pack_a(&p, batch, k0, k);
			if (mm->scaled.how)
				pack_scaled_b(&p, batch, k0, k);
			else
				pack_b(&p, batch, k0, k);
			multiply(&p, batch, k, k0 > 0);
		}
	}
	product->data = p.out;
	product->batch = p.m * p.n;
	product->row = p.n;
	return true;
}
