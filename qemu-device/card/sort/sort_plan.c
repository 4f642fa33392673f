// SPDX-License-Identifier: MIT
/* SORT: merges dimensions, and cuts the work into slices and phases. */
#include <string.h>

#include "job/dims.h"
#include "sort.h"

enum { VALUES, SOURCE, INDEX };

/* Limits of a group of rows; a group of one row may have more. */
#define GROUP_BYTES (32u << 20)
#define GROUP_PIECES 65536
#define LEAST_ROOM 256 /* least room for entries beyond those that are kept */
#define SHORT 64 /* rows up to this are always sorted as a whole */

/* Modulo 2^64: strides along unused coordinates can have any value. */
static int64_t bytes(int64_t stride, int64_t esize)
{
	return (int64_t)((uint64_t)stride * (uint64_t)esize);
}

static void set_operand(struct openreg_sort_operand *op,
			const struct openreg_args *args, unsigned int i)
{
	op->base = (uintptr_t)args->op[i].ptr;
	op->axis = bytes(args->op[i].stride[args->arg[0]],
			 openreg_dtype_size(args->op[i].dtype));
}

static void set_dims(struct openreg_sort *sort, const struct openreg_args *args)
{
	int64_t *const stride[] = { [VALUES] = sort->values.stride,
				    [SOURCE] = sort->source.stride,
				    [INDEX] = sort->index.stride };
	unsigned int d, i, n = 0;

	sort->rows = 1;
	for (d = 0; d < args->ndim; d++) {
		if (d == args->arg[0])
			continue;
		sort->rows *= args->size[d];
		sort->size[n] = args->size[d];
		for (i = 0; i < args->nops; i++)
			stride[i][n] = bytes(args->op[i].stride[d],
					     openreg_dtype_size(args->op[i].dtype));
		n++;
	}
	sort->ndim = openreg_merge_dims(n, sort->size, stride, args->nops,
					OPENREG_OUTER_FIRST);
}

static void set_operands(struct openreg_sort *sort,
			 const struct openreg_args *args)
{
	unsigned int dtype = args->op[SOURCE].dtype;

	sort->esize = openreg_dtype_size(dtype);
	sort->digits = (unsigned int)sort->esize;
	sort->kernels = sort->esize == 8 ? &openreg_sort_wide
					 : &openreg_sort_narrow;
	sort->keys = openreg_sort_keys(dtype);
	sort->fetch = openreg_sort_fetch((unsigned int)sort->esize);
	sort->flip = args->arg[1] & OPENREG_SORT_DESCENDING
			     ? UINT64_MAX >> (64 - 8 * sort->digits)
			     : 0;
	set_operand(&sort->values, args, VALUES);
	set_operand(&sort->source, args, SOURCE);
	sort->index = (struct openreg_sort_operand){ 0 };
	sort->has_index = args->nops > INDEX;
	if (sort->has_index)
		set_operand(&sort->index, args, INDEX);
}

/* Time of a row in the worst case: in reverse order, with elements far apart. */
static double short_row_ns(const struct openreg_sort *sort)
{
	double n = (double)sort->n, digits = sort->digits;
	double each = 8 + 5 * digits;

	if (sort->keep)
		each *= 2;
	if (n <= SHORT)
		return 80 + n * (12 + 0.5 * n);
	return 600 + 250 * digits + n * each + 12 * (double)sort->count;
}

static void cut_long(struct openreg_sort *sort)
{
	int64_t each = sort->keep ? OPENREG_SORT_PIECE : OPENREG_SORT_BLOCK;
	int64_t entries, row, most;

	sort->piece = each;
	sort->pieces = openreg_sort_up(sort->n, each);
	entries = sort->n;
	if (sort->keep)
		entries = (sort->pieces - 1) * sort->keep +
			  openreg_sort_min(sort->keep,
					   sort->n - (sort->pieces - 1) * each);
	sort->entries = entries;
	sort->blocks = openreg_sort_up(entries, OPENREG_SORT_BLOCK);
	sort->stores = openreg_sort_up(sort->count, OPENREG_SORT_PIECE);
	sort->steps = OPENREG_SORT_FINISH + 1;
	if (entries > OPENREG_SORT_PIECE)
		sort->steps = OPENREG_SORT_DIGITS +
			      OPENREG_SORT_DIGIT_STEPS * sort->digits + 1;
	sort->group = 1;
	row = (int64_t)openreg_sort_memory(sort);
	most = openreg_sort_min(GROUP_BYTES / row, GROUP_PIECES / sort->pieces);
	most = openreg_sort_min(most, sort->rows);
	sort->group = most > 1 ? most : 1;
}

bool openreg_sort_plan(struct openreg_sort *sort,
		       const struct openreg_args *args)
{
	int64_t last, slack;
	unsigned int d;
	double ns;

	sort->n = args->size[args->arg[0]];
	sort->first = (int64_t)args->imm[0];
	sort->count = (int64_t)args->imm[1];
	if (!sort->count)
		return false;
	/* In an empty space the other sizes can have any value. */
	for (d = 0; d < args->ndim; d++) {
		if (!args->size[d])
			return false;
	}
	set_operands(sort, args);
	set_dims(sort, args);
	last = sort->first + sort->count;
	slack = last > LEAST_ROOM ? last : LEAST_ROOM;
	sort->keep = 0;
	sort->room = sort->n;
	if (sort->n > SHORT && last <= sort->n / 4 &&
	    last <= OPENREG_SORT_KEEP) {
		sort->keep = last;
		sort->room = openreg_sort_min(last + slack, sort->n);
	}
	sort->slice_rows = 0;
	ns = short_row_ns(sort);
	if (sort->n <= OPENREG_SORT_PIECE)
		sort->slice_rows =
			1 + (int64_t)(openreg_slice_ns(ns * (double)sort->rows) /
				      ns);
	else
		cut_long(sort);
	return true;
}

static size_t entries_bytes(const struct openreg_sort *sort)
{
	size_t size = (size_t)(sort->group * sort->entries) *
		      sort->kernels->entry;

	return (size + 63) & ~(size_t)63;
}

static size_t counts_bytes(const struct openreg_sort *sort)
{
	return (size_t)(sort->group * sort->blocks) * OPENREG_SORT_BUCKETS *
	       sizeof(*sort->counts);
}

size_t openreg_sort_memory(const struct openreg_sort *sort)
{
	return 2 * entries_bytes(sort) + counts_bytes(sort) +
	       (size_t)(sort->group * sort->pieces) * sizeof(*sort->seen);
}

void openreg_sort_place(struct openreg_sort *sort, unsigned char *memory)
{
	sort->from = memory;
	memory += entries_bytes(sort);
	sort->to = memory;
	memory += entries_bytes(sort);
	sort->counts = (uint32_t *)memory;
	memory += counts_bytes(sort);
	sort->seen = (uint64_t (*)[2])memory;
}
