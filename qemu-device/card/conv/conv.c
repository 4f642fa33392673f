// SPDX-License-Identifier: MIT
/* CONV: runs tiles of the result. A second phase adds up parts of a tile. */
#include <string.h>

#include "conv.h"

static bool conv_setup(struct openreg_job *job, struct openreg_scratch *scratch)
{
	struct openreg_conv *cv = (struct openreg_conv *)job->priv;
	int64_t slices, bytes;

	if (!openreg_conv_plan(cv, job->args))
		return true;
	if (!openreg_conv_whole_plan(cv, job, scratch))
		return false;
	if (cv->whole.on)
		return true;
	slices = openreg_div_up(cv->units, cv->slice_units);
	if (cv->units < 0 || slices > UINT32_MAX)
		return false;
	job->phases = 1;
	job->slices[0] = (uint32_t)slices;
	if (cv->parts == 1)
		return true;
	if (__builtin_mul_overflow(cv->classes * cv->g * cv->rows, cv->columns,
				   &bytes) ||
	    __builtin_mul_overflow(bytes, cv->parts * cv->width, &bytes))
		return false;
	cv->partial = openreg_job_extra(job, (size_t)bytes);
	if (!cv->partial)
		return false;
	cv->sum_units = cv->classes * cv->g * cv->tiles_columns * cv->rows;
	cv->sum_slice_units =
		(int64_t)(OPENREG_SLICE_NS /
			  (double)(300 + (40 + 2 * cv->parts) *
						 cv->tile_columns)) +
		1;
	slices = openreg_div_up(cv->sum_units, cv->sum_slice_units);
	if (slices > UINT32_MAX)
		return false;
	job->phases = 2;
	job->slices[1] = (uint32_t)slices;
	return true;
}

static int64_t take(int64_t *i, int64_t n)
{
	int64_t digit = *i % n;

	*i /= n;
	return digit;
}

/* Limits the tile's columns to those of its class; t->columns may become <= 0. */
static void bound_columns(const struct openreg_conv *cv,
			  struct openreg_conv_tile *t)
{
	int64_t columns = cv->columns;
	unsigned int d;

	openreg_conv_axes(cv, t->class, t->axis);
	if (openreg_conv_is_gather(cv)) {
		columns = cv->n;
		for (d = 0; d < 3; d++)
			columns *= t->axis[d].count;
	}
	t->columns = openreg_least(cv->tile_columns, columns - t->column0);
}

static void find_tile(const struct openreg_conv *cv, int64_t unit,
		      struct openreg_conv_tile *t)
{
	t->row0 = take(&unit, cv->tiles_rows) * cv->tile_rows;
	t->column0 = take(&unit, cv->tiles_columns) * cv->tile_columns;
	t->part = take(&unit, cv->parts);
	t->g = take(&unit, cv->g);
	t->class = unit;
	t->rows = openreg_least(cv->tile_rows, cv->rows - t->row0);
	bound_columns(cv, t);
}

static struct openreg_conv_work *get_work(const struct openreg_conv *cv,
					  const struct openreg_conv_tile *t,
					  struct openreg_scratch *scratch)
{
	int64_t rows = openreg_div_up(t->rows, cv->gemm->rows) * cv->gemm->rows;
	int64_t columns = openreg_div_up(t->columns, cv->gemm->columns) *
			  cv->gemm->columns;
	size_t block = OPENREG_CONV_BLOCK * (size_t)cv->width;
	size_t head = (sizeof(struct openreg_conv_work) + 63) & ~(size_t)63;
	size_t a = ((size_t)rows * block + 63) & ~(size_t)63;
	size_t b = (size_t)columns * block;
	size_t out = (size_t)(rows * columns * cv->width);
	size_t inside =
		((size_t)(cv->slots * OPENREG_CONV_BLOCK * 4) + 63) & ~(size_t)63;
	struct openreg_conv_work *work = openreg_scratch_buffer(
		scratch, head + a + b + out + inside);

	if (!work)
		return NULL;
	work->a = (unsigned char *)work + head;
	work->b = work->a + a;
	work->out = work->b + b;
	work->inside = (uint32_t *)(work->out + out);
	work->rows = rows;
	work->columns = columns;
	return work;
}

/* Begins the sums with the bias. Returns false if the tile has none. */
static bool begin(const struct openreg_conv *cv,
		  const struct openreg_conv_tile *t,
		  struct openreg_conv_work *work)
{
	int64_t stride = cv->kind == OPENREG_CONV_FORWARD ? cv->bias.oc
							  : cv->bias.ic;
	int64_t r, bytes = work->columns * cv->width;

	if (!cv->has_bias || t->part)
		return false;
	for (r = 0; r < t->rows; r++) {
		int64_t at = openreg_offset_add(
			openreg_offset(t->g, cv->bias.g),
			openreg_offset(t->row0 + r, stride));

		cv->kernels->load[cv->dtype][cv->type](
			work->out + r * bytes,
			(const void *)(cv->bias.base +
				       (uintptr_t)openreg_offset(at,
								 cv->esize)),
			0, (size_t)t->columns);
	}
	return true;
}

static void multiply(const struct openreg_conv *cv,
		     struct openreg_conv_work *work, int64_t k,
		     bool accumulate)
{
	int64_t rows = cv->gemm->rows, columns = cv->gemm->columns, i, j;

	for (j = 0; j < work->columns; j += columns) {
		for (i = 0; i < work->rows; i += rows)
			cv->gemm->block(
				work->out + (i * work->columns + j) * cv->width,
				(size_t)work->columns,
				work->a + i * k * cv->width,
				work->b + j * k * cv->width, (size_t)k,
				accumulate);
	}
}

/* Stores one row of the tile in the result. */
static void store_row(const struct openreg_conv *cv,
		      const struct openreg_conv_work *work, uintptr_t to,
		      const unsigned char *from)
{
	const struct openreg_conv_run *run = work->run;
	int64_t i;

	for (i = 0; i < work->runs; i++, run++)
		cv->kernels->store[cv->dtype][cv->type](
			(void *)(to +
				 (uintptr_t)openreg_offset(run->at, cv->esize)),
			run->stride, from + run->first * cv->width,
			(size_t)run->n);
}

static uintptr_t result_row(const struct openreg_conv *cv, int64_t g,
			    int64_t row)
{
	const struct openreg_conv_view *to =
		cv->kind == OPENREG_CONV_FORWARD	 ? &cv->y
		: cv->kind == OPENREG_CONV_BACKWARD_DATA ? &cv->x
							 : &cv->weight;
	int64_t stride = cv->kind == OPENREG_CONV_BACKWARD_DATA ? to->ic
								: to->oc;
	int64_t at = openreg_offset_add(openreg_offset(g, to->g),
					openreg_offset(row, stride));

	return to->base + (uintptr_t)openreg_offset(at, cv->esize);
}

static unsigned char *partial_row(const struct openreg_conv *cv,
				  const struct openreg_conv_tile *t,
				  int64_t row)
{
	int64_t at = (t->part * cv->classes + t->class) * cv->g + t->g;

	at = (at * cv->rows + row) * cv->columns + t->column0;
	return cv->partial + at * cv->width;
}

static void end(const struct openreg_conv *cv,
		const struct openreg_conv_tile *t,
		const struct openreg_conv_work *work)
{
	const unsigned char *from = work->out;
	int64_t r, bytes = work->columns * cv->width;

	for (r = 0; r < t->rows; r++) {
		if (cv->partial)
			memcpy(partial_row(cv, t, t->row0 + r), from,
			       (size_t)(t->columns * cv->width));
		else
			store_row(cv, work, result_row(cv, t->g, t->row0 + r),
				  from);
		from += bytes;
	}
}

static bool run_unit(const struct openreg_conv *cv, int64_t unit,
		     struct openreg_scratch *scratch)
{
	struct openreg_conv_work *work;
	struct openreg_conv_tile t;
	int64_t block, last, k;
	bool begun;

	if (cv->slide.on)
		return openreg_conv_slide(cv, unit, scratch);
	find_tile(cv, unit, &t);
	if (t.columns <= 0)
		return true;
	work = get_work(cv, &t, scratch);
	if (!work)
		return false;
	openreg_conv_columns(cv, &t, work);
	begun = begin(cv, &t, work);
	block = t.part * cv->part_blocks;
	last = openreg_least(block + cv->part_blocks, cv->blocks);
	for (; block < last; block++) {
		k = openreg_conv_pack(cv, &t, block, work);
		if (!k)
			continue;
		multiply(cv, work, k, begun);
		begun = true;
	}
	if (!begun)
		memset(work->out, 0,
		       (size_t)(work->rows * work->columns * cv->width));
	end(cv, &t, work);
	return true;
}

/* Second phase: adds up the parts of a row of a tile, in order. */
static bool sum_unit(const struct openreg_conv *cv, int64_t unit,
		     struct openreg_scratch *scratch)
{
	struct openreg_conv_tile t = { .rows = 1 };
	struct openreg_conv_work *work;
	unsigned char *sum;
	size_t bytes;

	t.row0 = take(&unit, cv->rows);
	t.column0 = take(&unit, cv->tiles_columns) * cv->tile_columns;
	t.g = take(&unit, cv->g);
	t.class = unit;
	bound_columns(cv, &t);
	if (t.columns <= 0)
		return true;
	work = get_work(cv, &t, scratch);
	if (!work)
		return false;
	openreg_conv_columns(cv, &t, work);
	bytes = (size_t)(t.columns * cv->width);
	sum = work->out;
	memcpy(sum, partial_row(cv, &t, t.row0), bytes);
	for (t.part = 1; t.part < cv->parts; t.part++)
		cv->kernels->op[OPENREG_V_ADD][cv->type](
			sum, sum, partial_row(cv, &t, t.row0), sum,
			(size_t)t.columns);
	store_row(cv, work, result_row(cv, t.g, t.row0), sum);
	return true;
}

static bool conv_run(struct openreg_job *job, unsigned int phase,
		     uint32_t slice, struct openreg_scratch *scratch)
{
	const struct openreg_conv *cv = (const struct openreg_conv *)job->priv;
	int64_t each = phase ? cv->sum_slice_units : cv->slice_units;
	int64_t units = phase ? cv->sum_units : cv->units;
	int64_t unit = slice * each;
	int64_t last = openreg_least(unit + each, units);
	bool ok = true;

	if (cv->whole.on)
		return openreg_conv_whole(cv, phase, slice, scratch);
	for (; unit < last && ok; unit++)
		ok = phase ? sum_unit(cv, unit, scratch)
			   : run_unit(cv, unit, scratch);
	return ok;
}

const struct openreg_engine openreg_conv_engine = {
	.check = openreg_conv_check,
	.job_size = sizeof(struct openreg_conv),
	.setup = conv_setup,
	.run = conv_run,
};
