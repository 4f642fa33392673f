// SPDX-License-Identifier: MIT
/* SORT: runs short rows, and the phases of long ones. */
#include <string.h>

#include "sort.h"

#define PAGE 4096
#define SCAN_COUNTS 256 /* least blocks of a slice of the SCAN step, in whole rows */

static bool sort_setup(struct openreg_job *job, struct openreg_scratch *scratch)
{
	struct openreg_sort *sort = (struct openreg_sort *)job->priv;
	int64_t slices;
	void *memory;

	(void)scratch;
	if (!openreg_sort_plan(sort, job->args))
		return true;
	if (!sort->slice_rows) {
		memory = openreg_job_extra(job, openreg_sort_memory(sort));
		if (!memory)
			return false;
		openreg_sort_place(sort, memory);
		job->phases = (unsigned int)openreg_sort_up(sort->rows,
							    sort->group) *
			      sort->steps;
		return true;
	}
	slices = openreg_sort_up(sort->rows, sort->slice_rows);
	if (slices > UINT32_MAX)
		return false;
	job->phases = 1;
	job->slices[0] = (uint32_t)slices;
	return true;
}

/* Rows of a slice of the SCAN step. */
static int64_t scan_rows(const struct openreg_sort *sort)
{
	return sort->blocks < SCAN_COUNTS ? SCAN_COUNTS / sort->blocks : 1;
}

static bool is_last(const struct openreg_sort *sort, unsigned int step)
{
	return step == sort->steps - 1;
}

static bool varies(const struct openreg_sort *sort, unsigned int digit)
{
	return sort->varying >> 8 * digit & 0xff;
}

static int64_t group_rows(const struct openreg_sort *sort, unsigned int phase)
{
	int64_t done = phase / sort->steps * sort->group;

	return openreg_sort_min(sort->group, sort->rows - done);
}

static uint32_t sort_slices(const struct openreg_job *job, unsigned int phase)
{
	const struct openreg_sort *sort =
		(const struct openreg_sort *)job->priv;
	unsigned int step = phase % (sort->slice_rows ? 1 : sort->steps);
	int64_t rows;

	if (sort->slice_rows)
		return job->slices[0];
	rows = group_rows(sort, phase);
	if (step == OPENREG_SORT_LOAD)
		return (uint32_t)(rows * sort->pieces);
	if (sort->entries <= OPENREG_SORT_PIECE)
		return (uint32_t)rows; /* FINISH */
	if (step == OPENREG_SORT_MERGE)
		return 1;
	if (is_last(sort, step))
		return (uint32_t)(rows * sort->stores);
	step -= OPENREG_SORT_DIGITS;
	if (!varies(sort, step / OPENREG_SORT_DIGIT_STEPS))
		return 0;
	if (step % OPENREG_SORT_DIGIT_STEPS == OPENREG_SORT_SCAN)
		return (uint32_t)openreg_sort_up(rows, scan_rows(sort));
	return (uint32_t)(rows * sort->blocks);
}

/* The address of a row in an operand. */
static uintptr_t row_of(const struct openreg_sort *sort,
			const struct openreg_sort_operand *op, int64_t row)
{
	uintptr_t at = op->base;
	unsigned int d;

	if (!sort->ndim)
		return at;
	for (d = sort->ndim - 1; d > 0; d--) {
		at += (uintptr_t)(row % sort->size[d]) *
		      (uintptr_t)op->stride[d];
		row /= sort->size[d];
	}
	/* No division for dimension 0: one takes as long as sorting a few elements. */
	return at + (uintptr_t)row * (uintptr_t)op->stride[0];
}

/* Stores n sorted entries as results `at` and up. */
static void store(const struct openreg_sort *sort, int64_t row, int64_t at,
		  const unsigned char *entries, int64_t n)
{
	uint32_t place[OPENREG_SORT_LINE];
	const void *source = (const void *)row_of(sort, &sort->source, row);
	uintptr_t values = row_of(sort, &sort->values, row);
	uintptr_t index = sort->has_index ? row_of(sort, &sort->index, row) : 0;
	int64_t i, line;

	values += (uintptr_t)at * (uintptr_t)sort->values.axis;
	index += (uintptr_t)at * (uintptr_t)sort->index.axis;
	for (; n; n -= line) {
		line = openreg_sort_min(n, OPENREG_SORT_LINE);
		sort->kernels->places(place, entries, line);
		sort->fetch((void *)values, sort->values.axis, source,
			    sort->source.axis, place, line);
		values += (uintptr_t)line * (uintptr_t)sort->values.axis;
		entries += (size_t)line * sort->kernels->entry;
		for (i = 0; i < line && sort->has_index; i++) {
			*(int64_t *)index = place[i];
			index += (uintptr_t)sort->index.axis;
		}
	}
}

static bool short_rows(const struct openreg_sort *sort, uint32_t slice,
		       struct openreg_scratch *scratch)
{
	int64_t row = slice * sort->slice_rows;
	int64_t last = openreg_sort_min(row + sort->slice_rows, sort->rows);
	size_t entry = sort->kernels->entry;
	unsigned char *a, *b, *sorted;

	a = openreg_scratch_buffer(scratch, 2 * (size_t)sort->room * entry);
	if (!a)
		return false;
	b = a + (size_t)sort->room * entry;
	for (; row < last; row++) {
		const void *from =
			(const void *)row_of(sort, &sort->source, row);

		sorted = a;
		if (sort->keep) {
			sort->kernels->least(sort, from, 0, sort->n, a, b);
		} else {
			sort->kernels->load(sort, from, 0, sort->n, a);
			sorted = sort->kernels->sort(a, b, sort->n,
						     sort->digits);
		}
		store(sort, row, 0, sorted + (size_t)sort->first * entry,
		      sort->count);
	}
	return true;
}

static unsigned char *entry_at(const struct openreg_sort *sort,
			       unsigned char *entries, int64_t row, int64_t i)
{
	return entries +
	       (size_t)(row * sort->entries + i) * sort->kernels->entry;
}

/*
 * Touches the pages of the other buffer. Otherwise the first move, which writes all over
 * the buffer, would make the host allocate all pages at once.
 */
static void touch(unsigned char *at, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i += PAGE)
		*(volatile unsigned char *)(at + i) = 0;
}

static bool load_piece(const struct openreg_sort *sort, int64_t first_row,
		       uint32_t slice, struct openreg_scratch *scratch)
{
	int64_t row = slice / sort->pieces, piece = slice % sort->pieces;
	int64_t at = piece * sort->piece;
	int64_t n = openreg_sort_min(sort->piece, sort->n - at);
	size_t bytes = (size_t)sort->room * sort->kernels->entry;
	uintptr_t from = row_of(sort, &sort->source, first_row + row) +
			 (uintptr_t)at * (uintptr_t)sort->source.axis;
	int64_t first = sort->keep ? piece * sort->keep : at;
	unsigned char *to = entry_at(sort, sort->from, row, first);
	unsigned char *work;

	if (sort->keep) {
		work = openreg_scratch_buffer(scratch, 2 * bytes);
		if (!work)
			return false;
		n = sort->kernels->least(sort, (const void *)from, (uint32_t)at,
					 n, work, work + bytes);
		memcpy(to, work, (size_t)n * sort->kernels->entry);
	} else {
		sort->kernels->load(sort, (const void *)from, (uint32_t)at, n,
				    to);
	}
	touch(entry_at(sort, sort->to, row, first),
	      (size_t)n * sort->kernels->entry);
	sort->kernels->find_bits(to, n, sort->seen[slice]);
	return true;
}

/* Finds the bits that vary. A digit that is the same in a whole row needs no step. */
static void merge_seen(struct openreg_sort *sort, int64_t rows)
{
	int64_t row, piece;

	sort->varying = 0;
	for (row = 0; row < rows; row++) {
		uint64_t ones = 0, zeros = 0;

		for (piece = 0; piece < sort->pieces; piece++) {
			ones |= sort->seen[row * sort->pieces + piece][0];
			zeros |= sort->seen[row * sort->pieces + piece][1];
		}
		sort->varying |= ones & zeros;
	}
}

static void finish_row(const struct openreg_sort *sort, int64_t first_row,
		       uint32_t slice)
{
	unsigned char *sorted =
		sort->kernels->sort(entry_at(sort, sort->from, slice, 0),
				    entry_at(sort, sort->to, slice, 0),
				    sort->entries, sort->digits);

	store(sort, first_row + slice, 0,
	      sorted + (size_t)sort->first * sort->kernels->entry, sort->count);
}

/* Turns the counts of all blocks of a row into the positions of their buckets. */
static void scan_row(const struct openreg_sort *sort, int64_t row)
{
	uint32_t *counts = sort->counts +
			   row * sort->blocks * OPENREG_SORT_BUCKETS;
	uint32_t place[OPENREG_SORT_BUCKETS] = { 0 }, n;
	int64_t block;
	unsigned int i;

	for (block = 0; block < sort->blocks; block++) {
		for (i = 0; i < OPENREG_SORT_BUCKETS; i++)
			place[i] += counts[block * OPENREG_SORT_BUCKETS + i];
	}
	openreg_sort_sum(place);
	for (block = 0; block < sort->blocks; block++) {
		for (i = 0; i < OPENREG_SORT_BUCKETS; i++) {
			n = counts[block * OPENREG_SORT_BUCKETS + i];
			counts[block * OPENREG_SORT_BUCKETS + i] = place[i];
			place[i] += n;
		}
	}
}

static void scan(const struct openreg_sort *sort, int64_t rows, uint32_t slice)
{
	int64_t row = slice * scan_rows(sort);
	int64_t last = openreg_sort_min(row + scan_rows(sort), rows);

	for (; row < last; row++)
		scan_row(sort, row);
}

/* Are the entries in sort->to? Each digit that varies moves them to the other buffer. */
static bool swapped(const struct openreg_sort *sort, unsigned int digits)
{
	bool odd = false;
	unsigned int d;

	for (d = 0; d < digits; d++)
		odd ^= varies(sort, d);
	return odd;
}

static void digit_step(const struct openreg_sort *sort, unsigned int step,
		       int64_t rows, uint32_t slice)
{
	unsigned int digit = step / OPENREG_SORT_DIGIT_STEPS;
	bool odd = swapped(sort, digit);
	int64_t row = slice / sort->blocks;
	int64_t at = slice % sort->blocks * OPENREG_SORT_BLOCK;
	int64_t n = openreg_sort_min(OPENREG_SORT_BLOCK, sort->entries - at);
	uint32_t *count = sort->counts + (size_t)slice * OPENREG_SORT_BUCKETS;
	unsigned char *from = odd ? sort->to : sort->from;
	unsigned char *to = odd ? sort->from : sort->to;

	switch (step % OPENREG_SORT_DIGIT_STEPS) {
	case OPENREG_SORT_COUNT:
		sort->kernels->count(entry_at(sort, from, row, at), n, digit,
				     count);
		break;
	case OPENREG_SORT_SCAN:
		scan(sort, rows, slice);
		break;
	default:
		sort->kernels->move(entry_at(sort, to, row, 0),
				    entry_at(sort, from, row, at), n, digit,
				    count);
	}
}

static void store_piece(const struct openreg_sort *sort, int64_t first_row,
			uint32_t slice)
{
	int64_t row = slice / sort->stores;
	int64_t at = slice % sort->stores * OPENREG_SORT_PIECE;
	int64_t n = openreg_sort_min(OPENREG_SORT_PIECE, sort->count - at);
	unsigned char *entries = swapped(sort, sort->digits) ? sort->to
							     : sort->from;

	store(sort, first_row + row, at,
	      entry_at(sort, entries, row, sort->first + at), n);
}

static bool sort_run(struct openreg_job *job, unsigned int phase,
		     uint32_t slice, struct openreg_scratch *scratch)
{
	struct openreg_sort *sort = (struct openreg_sort *)job->priv;
	int64_t first_row, rows;
	unsigned int step;

	if (sort->slice_rows)
		return short_rows(sort, slice, scratch);
	first_row = phase / sort->steps * sort->group;
	rows = group_rows(sort, phase);
	step = phase % sort->steps;
	if (step == OPENREG_SORT_LOAD)
		return load_piece(sort, first_row, slice, scratch);
	if (sort->entries <= OPENREG_SORT_PIECE)
		finish_row(sort, first_row, slice);
	else if (step == OPENREG_SORT_MERGE)
		merge_seen(sort, rows);
	else if (is_last(sort, step))
		store_piece(sort, first_row, slice);
	else
		digit_step(sort, step - OPENREG_SORT_DIGITS, rows, slice);
	return true;
}

const struct openreg_engine openreg_sort_engine = {
	.check = openreg_sort_check,
	.job_size = sizeof(struct openreg_sort),
	.setup = sort_setup,
	.slices = sort_slices,
	.run = sort_run,
};
