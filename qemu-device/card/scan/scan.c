// SPDX-License-Identifier: MIT
/* SCAN: runs the phases; loads and stores. */
#include <string.h>

#include "scan.h"

/* Keeps the distance of rows off multiples of a page: rows would share cache sets. */
#define PAD 16
#define TOTALS_SLICE 16384

/* A block of elements of some rows. */
struct block {
	const struct openreg_scan_part *part;
	int64_t at[OPENREG_DIMS_MAX];
	int64_t width; /* rows */
	int64_t first, n; /* elements of each row */
	size_t ld; /* without lines: distance of rows in x */
	void *x;
	int64_t *index; /* or NULL */
	double *work;
};

static bool scan_setup(struct openreg_job *job, struct openreg_scratch *scratch)
{
	struct openreg_scan *scan = (struct openreg_scan *)job->priv;
	unsigned int i;
	int64_t totals;

	(void)scratch;
	for (i = 0; i < job->args->ndim; i++) {
		if (job->args->size[i] == 0)
			return true;
	}
	if (!openreg_scan_plan(scan, job->args))
		return false;
	job->phases = 1;
	if (scan->pieces > 1) {
		job->phases = 3;
		job->slices[0] = scan->part[0].slices;
		totals = scan->rows * scan->pieces;
		job->slices[1] =
			(uint32_t)((totals + TOTALS_SLICE - 1) / TOTALS_SLICE);
		scan->totals = openreg_job_extra(
			job, (size_t)totals * sizeof(*scan->totals));
		if (!scan->totals)
			return false;
	}
	job->slices[job->phases - 1] = scan->part[0].slices;
	if (scan->nparts > 1)
		job->slices[2] += scan->part[1].slices;
	return true;
}

static void find_unit(struct block *b, int64_t unit)
{
	const struct openreg_scan_part *part = b->part;
	int64_t groups = (part->size[0] + part->width - 1) / part->width;
	unsigned int d;

	b->at[0] = unit % groups * part->width;
	b->width = part->size[0] - b->at[0];
	if (b->width > part->width)
		b->width = part->width;
	unit /= groups;
	for (d = 1; d < part->ndim; d++) {
		b->at[d] = unit % part->size[d];
		unit /= part->size[d];
	}
}

static uintptr_t address(const struct block *b,
			 const struct openreg_scan_operand *op)
{
	uintptr_t at = (uintptr_t)b->first * (uintptr_t)op->axis;
	unsigned int d;

	for (d = 0; d < b->part->ndim; d++)
		at += (uintptr_t)b->at[d] * (uintptr_t)op->stride[d];
	return op->base + at * (uintptr_t)op->esize;
}

/* Runs of elements to copy between memory and scratch memory: lines, or rows. */
struct runs {
	int64_t stride, count;
	size_t length, step; /* elements; bytes to the next run in scratch memory */
	uintptr_t far; /* bytes to the next run in memory; the last may point anywhere */
};

static struct runs runs_of(const struct block *b,
			   const struct openreg_scan_operand *op, size_t esize)
{
	struct runs r;

	if (b->part->lines) {
		r = (struct runs){ op->stride[0], b->n, (size_t)b->width,
				   (size_t)b->width * esize,
				   (uintptr_t)op->axis };
	} else {
		r = (struct runs){ op->axis, b->width, (size_t)b->n,
				   b->ld * esize, (uintptr_t)op->stride[0] };
	}
	r.far *= (uintptr_t)op->esize;
	return r;
}

static void load(const struct openreg_scan *scan, const struct block *b)
{
	const struct openreg_scan_operand *op = &b->part->source;
	openreg_load_fn *fn = scan->kernels->load[op->dtype][scan->type];
	struct runs r = runs_of(b, op, (size_t)scan->esize);
	uintptr_t from = address(b, op);
	unsigned char *to = b->x;

	for (; r.count; r.count--, to += r.step, from += r.far)
		fn(to, (const void *)from, r.stride, r.length);
}

static void store(const struct openreg_scan *scan, const struct block *b,
		  const struct openreg_scan_operand *op, const void *x,
		  unsigned int type, size_t esize)
{
	openreg_store_fn *fn = scan->kernels->store[op->dtype][type];
	struct runs r = runs_of(b, op, esize);
	uintptr_t to = address(b, op);
	const unsigned char *from = x;

	for (; r.count; r.count--, from += r.step, to += r.far)
		fn((void *)to, r.stride, from, r.length);
}

static void scan_lines(const struct openreg_scan *scan, const struct block *b,
		       struct openreg_scan_chain *chain, int64_t at)
{
	openreg_scan_line_fn *fn = scan->kernels->scan_line[scan->mode][scan->type];
	unsigned char *x = b->x;
	int64_t *index = b->index, i;

	for (i = 0; i < b->n; i++) {
		fn(chain->acc, chain->where, x, index, (size_t)b->width, at + i);
		x += b->width * scan->esize;
		if (index)
			index += b->width;
	}
}

static void scan_block(const struct openreg_scan *scan, const struct block *b,
		       struct openreg_scan_chain *chain, int64_t at)
{
	/* The rows of a unit may be the pieces of one row. */
	const struct openreg_scan_places places = {
		at, scan->pieces > 1 && b->part->total[0] == 1 ? OPENREG_SCAN_PIECE : 0
	};
	int64_t i;

	if (b->part->lines) {
		scan_lines(scan, b, chain, at);
	} else if (scan->mode == OPENREG_SCAN_LOGSUMEXP) {
		for (i = 0; i < b->width; i++)
			openreg_scan_log_row(scan->kernels, &chain->acc[i].f,
					     (double *)b->x + (size_t)i * b->ld,
					     b->work, (size_t)b->n);
	} else {
		scan->kernels->scan_rows[scan->mode][scan->type](
			chain->acc, chain->where, b->x, b->index, b->ld,
			(size_t)b->width, (size_t)b->n, &places);
	}
}

/* Adds the flags of the loaded block to each row. */
static void add_flags(const struct openreg_scan *scan, const struct block *b,
		      struct openreg_scan_chain *chain)
{
	const unsigned char *x = b->x;
	int64_t i, j;

	for (i = 0; i < b->width && !b->part->lines; i++)
		chain->where[i] |= openreg_scan_flags(
			scan->type, x + (size_t)i * b->ld * (size_t)scan->esize,
			(size_t)b->n);
	for (j = 0; j < b->n && b->part->lines; j++) {
		for (i = 0; i < b->width; i++, x += scan->esize)
			chain->where[i] |= openreg_scan_flags(scan->type, x, 1);
	}
}

static struct openreg_scan_total *total_of(const struct openreg_scan *scan,
					   const struct block *b)
{
	int64_t at = b->part->first;
	unsigned int d;

	for (d = 0; d < b->part->ndim; d++)
		at += b->at[d] * b->part->total[d];
	return scan->totals + at;
}

static void begin(const struct openreg_scan *scan, const struct block *b,
		  struct openreg_scan_chain *chain, bool from_totals)
{
	struct openreg_scan_total *total =
		from_totals ? total_of(scan, b) : NULL;
	int64_t i;

	for (i = 0; i < b->width; i++) {
		if (!total) {
			openreg_scan_begin(scan, &chain->acc[i],
					   &chain->where[i]);
			continue;
		}
		chain->acc[i] = total->acc;
		chain->where[i] = total->where;
		total += b->part->total[0];
	}
}

static void keep_totals(const struct openreg_scan *scan, const struct block *b,
			const struct openreg_scan_chain *chain)
{
	struct openreg_scan_total *total = total_of(scan, b);
	int64_t i;

	for (i = 0; i < b->width; i++, total += b->part->total[0])
		*total = (struct openreg_scan_total){ chain->acc[i],
						      chain->where[i] };
}

/* Position in its row of the first element of a unit's first row. */
static int64_t place(const struct openreg_scan *scan, const struct block *b)
{
	if (scan->pieces == 1)
		return 0;
	return (total_of(scan, b) - scan->totals) % scan->pieces *
	       OPENREG_SCAN_PIECE;
}

static void run_unit(const struct openreg_scan *scan, struct block *b,
		     bool totals)
{
	const struct openreg_scan_part *part = b->part;
	struct openreg_scan_chain chain;
	bool flags = totals && scan->mode == OPENREG_SCAN_PROD;

	begin(scan, b, &chain, scan->totals && !totals);
	for (b->first = 0; b->first < part->n; b->first += b->n) {
		b->n = part->n - b->first;
		if (b->n > part->block)
			b->n = part->block;
		load(scan, b);
		if (flags)
			add_flags(scan, b, &chain);
		scan_block(scan, b, &chain, place(scan, b) + b->first);
		if (totals)
			continue;
		store(scan, b, &part->values, b->x, scan->type,
		      (size_t)scan->esize);
		if (b->index)
			store(scan, b, &part->index, b->index, OPENREG_VT_I64,
			      sizeof(*b->index));
	}
	if (totals)
		keep_totals(scan, b, &chain);
}

/* Replaces the total of each piece by the total of all pieces before it. */
static void sum_totals(const struct openreg_scan *scan, uint32_t slice)
{
	int64_t per_slice = (TOTALS_SLICE + scan->pieces - 1) / scan->pieces;
	int64_t row = slice * per_slice, end = row + per_slice, i;
	struct openreg_scan_total *total, before, next;

	for (; row < end && row < scan->rows; row++) {
		total = scan->totals + row * scan->pieces;
		openreg_scan_begin(scan, &before.acc, &before.where);
		for (i = 0; i < scan->pieces; i++) {
			next = before;
			if (i < scan->pieces - 1)
				openreg_scan_join(scan, &next, &total[i]);
			total[i] = before;
			before = next;
		}
	}
}

static bool set_block(const struct openreg_scan *scan, struct block *b,
		      bool totals, struct openreg_scratch *scratch)
{
	const struct openreg_scan_part *part = b->part;
	bool index = scan->has_index && !totals;
	size_t row = (size_t)part->block + (part->lines ? 0 : PAD);
	size_t elements = (size_t)part->width * row;
	unsigned char *at;

	/* A multiple of 8, so that the buffers after it are aligned. */
	elements = (elements + 7) & ~(size_t)7;
	at = openreg_scratch_buffer(scratch,
				    elements * (size_t)scan->esize +
					    (index ? elements * 8 : 0) +
					    row * sizeof(double));
	if (!at)
		return false;
	b->ld = row;
	b->x = at;
	at += elements * (size_t)scan->esize;
	b->index = index ? (int64_t *)at : NULL;
	at += index ? elements * 8 : 0;
	b->work = (double *)at;
	return true;
}

static bool scan_run(struct openreg_job *job, unsigned int phase,
		     uint32_t slice, struct openreg_scratch *scratch)
{
	const struct openreg_scan *scan =
		(const struct openreg_scan *)job->priv;
	bool totals = scan->pieces > 1 && phase == 0;
	struct block b = { .part = &scan->part[0] };
	int64_t unit, end;

	if (scan->pieces > 1 && phase == 1) {
		sum_totals(scan, slice);
		return true;
	}
	if (slice >= b.part->slices) {
		slice -= b.part->slices;
		b.part++;
	}
	if (!set_block(scan, &b, totals, scratch))
		return false;
	unit = slice * b.part->slice_units;
	end = unit + b.part->slice_units;
	for (; unit < end && unit < b.part->units; unit++) {
		find_unit(&b, unit);
		b.first = 0;
		run_unit(scan, &b, totals);
	}
	return true;
}

const struct openreg_engine openreg_scan_engine = {
	.check = openreg_scan_check,
	.job_size = sizeof(struct openreg_scan),
	.setup = scan_setup,
	.run = scan_run,
};
