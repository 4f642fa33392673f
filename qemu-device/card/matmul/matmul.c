// SPDX-License-Identifier: MIT
/* MATMUL: runs the tiles, and stores their products. */
#include <stdlib.h>
#include <string.h>

#include "packed.h"

static int64_t min64(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

static bool matmul_setup(struct openreg_job *job,
			 struct openreg_scratch *scratch)
{
	struct openreg_matmul *mm = (struct openreg_matmul *)job->priv;
	int64_t tiles, rows, bytes;
	double row_ns;

	(void)scratch;
	if (!openreg_matmul_plan(mm, job->args))
		return true;
	if (__builtin_mul_overflow(mm->tiles_batch * mm->tiles_m,
				   mm->tiles_n * mm->tiles_k, &tiles) ||
	    tiles > UINT32_MAX)
		return false;
	job->phases = 1;
	job->slices[0] = (uint32_t)tiles;
	if (mm->tiles_k == 1)
		return true;
	rows = mm->batch * mm->m;
	bytes = mm->tiles_k * rows * mm->n * mm->width;
	mm->partial = openreg_job_extra(job, (size_t)bytes);
	if (!mm->partial)
		return false;
	row_ns = (double)(mm->tiles_k * mm->n) + 50;
	mm->sum_rows = (int64_t)(OPENREG_SLICE_NS / row_ns) + 1;
	job->phases = 2;
	job->slices[1] = (uint32_t)((rows + mm->sum_rows - 1) / mm->sum_rows);
	return true;
}

static int64_t piece(int64_t whole, int64_t size, int64_t index, int64_t *first)
{
	*first = index * size;
	return whole - *first < size ? whole - *first : size;
}

static void find_tile(const struct openreg_matmul *mm, uint32_t slice,
		      struct openreg_matmul_tile *t)
{
	int64_t i = slice;

	t->m = piece(mm->m, mm->tile_m, i % mm->tiles_m, &t->m0);
	i /= mm->tiles_m;
	t->n = piece(mm->n, mm->tile_n, i % mm->tiles_n, &t->n0);
	i /= mm->tiles_n;
	t->k = piece(mm->k, mm->tile_k, i % mm->tiles_k, &t->k0);
	i /= mm->tiles_k;
	t->batch = piece(mm->batch, mm->tile_batch, i, &t->batch0);
}

/* Loads n elements of C in the type of the product. */
static void load_c(const struct openreg_matmul *mm, void *to, int64_t batch,
		   int64_t row, int64_t n0, int64_t n)
{
	mm->kernels->load[mm->dtype][mm->type](
		to,
		(const void *)openreg_matrix_at(&mm->c, mm->esize, batch, row,
						n0),
		mm->c.column, (size_t)n);
}

/* Casts and stores alpha * product + beta * C as n elements of D. */
static void finish(const struct openreg_matmul *mm, int64_t batch, int64_t row,
		   int64_t n0, int64_t n, void *p, const void *c)
{
	const struct openreg_kernels *k = mm->kernels;

	if (c || mm->alpha != 1)
		k->gemm[mm->type].axpby(p, c, mm->alpha, mm->beta, (size_t)n);
	k->store[mm->dtype][mm->type](
		(void *)openreg_matrix_at(&mm->d, mm->esize, batch, row, n0),
		mm->d.column, p, (size_t)n);
}

static void finish_row(const struct openreg_matmul *mm, int64_t batch,
		       int64_t row, int64_t n0, int64_t n, void *p, void *spare)
{
	if (mm->has_c)
		load_c(mm, spare, batch, row, n0, n);
	finish(mm, batch, row, n0, n, p, mm->has_c ? spare : NULL);
}

/* Is the packet D += A B, so that oneDNN can add to D? */
static bool adds_to_d(const struct openreg_matmul *mm)
{
	return mm->has_c && mm->alpha == 1 && mm->beta == 1 &&
	       memcmp(&mm->c, &mm->d, sizeof(mm->c)) == 0;
}

/* Can the product be computed in D itself? */
static bool is_direct(const struct openreg_matmul *mm)
{
	return mm->tiles_k == 1 && mm->d.column == 1 &&
	       openreg_gemm_is_plain(&mm->d, mm->batch, mm->m, mm->n) &&
	       (adds_to_d(mm) || (mm->alpha == 1 && !mm->has_c));
}

static void place_partial(const struct openreg_matmul *mm,
			  const struct openreg_matmul_tile *t,
			  struct openreg_product *p)
{
	int64_t part = t->k0 / mm->tile_k;
	int64_t row = (part * mm->batch + t->batch0) * mm->m + t->m0;

	p->data = mm->partial + (row * mm->n + t->n0) * mm->width;
	p->batch = mm->m * mm->n;
	p->row = mm->n;
}

/* Do rows of n elements follow each other without a gap? */
static bool is_dense(const struct openreg_matrix *x, int64_t n)
{
	return x->row == n * x->column;
}

/*
 * How many rows form one run of elements in the product, in D and in C. A single row of
 * C that all rows share is copied for each of them.
 */
static int64_t rows_together(const struct openreg_matmul *mm,
			     const struct openreg_matmul_tile *t,
			     const struct openreg_product *p)
{
	if (t->n >= OPENREG_FINISH_MIN || p->row != t->n ||
	    !is_dense(&mm->d, t->n) ||
	    (mm->has_c && mm->c.row != 0 && !is_dense(&mm->c, t->n)))
		return 1;
	return min64(OPENREG_FINISH_MIN / t->n, t->m);
}

static void finish_product(const struct openreg_matmul *mm,
			   const struct openreg_matmul_tile *t, int64_t batch,
			   const struct openreg_product *p, void *spare)
{
	unsigned char *data = p->data + batch * p->batch * mm->width;
	int64_t together = rows_together(mm, t, p), r, rows, row_bytes;
	bool repeats = mm->has_c && mm->c.row == 0;

	row_bytes = t->n * mm->width;
	for (r = 0; repeats && r < together; r++) {
		if (r == 0)
			load_c(mm, spare, t->batch0 + batch, 0, t->n0, t->n);
		else
			memcpy((unsigned char *)spare + r * row_bytes, spare,
			       (size_t)row_bytes);
	}
	for (r = 0; r < t->m; r += rows) {
		rows = min64(together, t->m - r);
		if (mm->has_c && !repeats)
			load_c(mm, spare, t->batch0 + batch, t->m0 + r, t->n0,
			       rows * t->n);
		finish(mm, t->batch0 + batch, t->m0 + r, t->n0, rows * t->n,
		       data + r * p->row * mm->width, mm->has_c ? spare : NULL);
	}
}

static void finish_tile(const struct openreg_matmul *mm,
			const struct openreg_matmul_tile *t,
			const struct openreg_product *p, void *spare)
{
	int64_t b;

	for (b = 0; b < t->batch; b++)
		finish_product(mm, t, b, p, spare);
}

static void copy_partial(const struct openreg_matmul *mm,
			 const struct openreg_matmul_tile *t,
			 const struct openreg_product *p)
{
	struct openreg_product to;
	int64_t b, r;

	place_partial(mm, t, &to);
	for (b = 0; b < t->batch; b++) {
		for (r = 0; r < t->m; r++)
			memcpy(to.data + (b * to.batch + r * to.row) * mm->width,
			       p->data + (b * p->batch + r * p->row) * mm->width,
			       (size_t)(t->n * mm->width));
	}
}

/* Where to store the product; data is NULL for scratch memory. */
static struct openreg_product find_product(const struct openreg_matmul *mm,
					   const struct openreg_matmul_tile *t,
					   bool direct)
{
	struct openreg_product p = { NULL, 0, 0 };

	if (direct) {
		p.data = (unsigned char *)openreg_matrix_at(
			&mm->d, mm->esize, t->batch0, t->m0, t->n0);
		p.batch = mm->d.batch;
		p.row = mm->d.row;
	} else if (mm->partial) {
		place_partial(mm, t, &p);
	}
	return p;
}

bool openreg_product_place(const struct openreg_matmul *mm,
			   const struct openreg_matmul_tile *t,
			   struct openreg_product *p,
			   struct openreg_scratch *scratch, size_t more)
{
	size_t spare = openreg_matmul_spare(mm), out;

	out = (size_t)openreg_round_up(t->batch * t->m * t->n * mm->width, 64);
	p->data = openreg_scratch_buffer(scratch, spare + out + more);
	if (!p->data)
		return false;
	p->data += spare;
	p->batch = t->m * t->n;
	p->row = t->n;
	return true;
}

/* Products that only some hosts or shapes have kernels for. */
static enum openreg_gemm_result run_bytes(const struct openreg_matmul *mm,
					  const struct openreg_matmul_tile *t,
					  struct openreg_product *p, bool *direct,
					  struct openreg_scratch *scratch)
{
	*direct &= !mm->has_c && !mm->few;
	*p = find_product(mm, t, *direct);
	if (!mm->few)
		return openreg_gemm_bytes(mm, t, p, scratch);
	return openreg_gemm_few(mm, t, p, scratch) ? OPENREG_GEMM_DONE
						   : OPENREG_GEMM_FAILED;
}

/* Halves, or a packed B. Only oneDNN stores halves in D itself. */
static enum openreg_gemm_result run_halves(const struct openreg_matmul *mm,
					   const struct openreg_matmul_tile *t,
					   struct openreg_product *p, bool *direct,
					   struct openreg_scratch *scratch)
{
	enum openreg_gemm_result result;

	*direct &= !mm->has_c;
	*p = find_product(mm, t, *direct);
	result = openreg_gemm_halves(mm, t, p, *direct, scratch);
	if (result != OPENREG_GEMM_UNSUPPORTED)
		return result;
	*direct = false;
	if (!mm->packed)
		return result;
	*p = find_product(mm, t, false);
	return openreg_gemm_packed(mm, t, p, scratch) ? OPENREG_GEMM_DONE
						      : OPENREG_GEMM_FAILED;
}

static bool run_fast(const struct openreg_matmul *mm,
		     const struct openreg_matmul_tile *t,
		     struct openreg_scratch *scratch,
		     enum openreg_gemm_result *result)
{
	bool direct = is_direct(mm);
	struct openreg_product p;

	*result = OPENREG_GEMM_UNSUPPORTED;
	if (t->k == 0)
		return false;
	if (mm->few || openreg_matmul_is_mixed(mm))
		*result = run_bytes(mm, t, &p, &direct, scratch);
	else if (mm->type != OPENREG_VT_F32)
		return false;
	else if (mm->dtype != OPENREG_F32 || mm->packed)
		*result = run_halves(mm, t, &p, &direct, scratch);
	if (*result == OPENREG_GEMM_UNSUPPORTED &&
	    !openreg_matmul_is_mixed(mm)) {
		p = find_product(mm, t, direct);
		*result = openreg_gemm_fast(mm, t, &p,
					    direct && adds_to_d(mm), scratch);
	}
	if (*result == OPENREG_GEMM_DONE && !direct && !mm->partial)
		finish_tile(mm, t, &p, p.data - openreg_matmul_spare(mm));
	return *result != OPENREG_GEMM_UNSUPPORTED;
}

static bool run_tile(const struct openreg_matmul *mm,
		     const struct openreg_matmul_tile *t,
		     struct openreg_scratch *scratch)
{
	enum openreg_gemm_result result;
	struct openreg_product p;

	if (run_fast(mm, t, scratch, &result))
		return result == OPENREG_GEMM_DONE;
	if (!openreg_gemm_own(mm, t, &p, scratch))
		return false;
	if (mm->partial)
		copy_partial(mm, t, &p);
	else
		finish_tile(mm, t, &p, p.data - openreg_matmul_spare(mm));
	return true;
}

/* Any queue may write to a packed matrix at any time: each slice checks its header. */
static bool has_format(const struct openreg_matmul *mm)
{
	struct openreg_packed packed;

	if (!mm->packed)
		return true;
	packed = openreg_packed(mm->dtype, mm->k, mm->n);
	return openreg_packed_is(&packed, mm->packed);
}

/* Second phase: adds up the parts of a row, in order. */
static bool sum_rows(const struct openreg_matmul *mm, uint32_t slice,
		     struct openreg_scratch *scratch)
{
	int64_t row = slice * mm->sum_rows, rows = mm->batch * mm->m;
	int64_t end = row + mm->sum_rows < rows ? row + mm->sum_rows : rows;
	size_t bytes = (size_t)(mm->n * mm->width), part;
	unsigned char *spare = openreg_scratch_buffer(scratch, bytes);
	int64_t i;

	if (!spare)
		return false;
	part = (size_t)rows * bytes;
	for (; row < end; row++) {
		unsigned char *p = mm->partial + (size_t)row * bytes;

		for (i = 1; i < mm->tiles_k; i++)
			mm->kernels->op[OPENREG_V_ADD][mm->type](
				p, p, p + (size_t)i * part, p, (size_t)mm->n);
		finish_row(mm, row / mm->m, row % mm->m, 0, mm->n, p, spare);
	}
	return true;
}

static bool matmul_run(struct openreg_job *job, unsigned int phase,
		       uint32_t slice, struct openreg_scratch *scratch)
{
	const struct openreg_matmul *mm =
		(const struct openreg_matmul *)job->priv;

	struct openreg_matmul_tile t;

	if (phase)
		return sum_rows(mm, slice, scratch);
	if (!has_format(mm))
		return openreg_job_fail(job,
					openreg_bad(OPENREG_FAULT_FORMAT, 2, 0));
	find_tile(mm, slice, &t);
	return run_tile(mm, &t, scratch);
}

const struct openreg_engine openreg_matmul_engine = {
	.check = openreg_matmul_check,
	.job_size = sizeof(struct openreg_matmul),
	.setup = matmul_setup,
	.run = matmul_run,
};
