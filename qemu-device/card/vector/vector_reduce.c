// SPDX-License-Identifier: MIT
/*
 * VECTOR: the reduction at the end of a program.
 *
 * Outputs are folded in units:
 *
 * - If the folded dimensions are the inner ones, a unit is one output that folds many
 *   tiles, or a tile with several whole outputs.
 * - Otherwise a unit is the outputs of one tile, which fold tile after tile.
 *
 * A unit with much work is cut into chunks, and a later phase merges their partial
 * results. One slice merges a whole unit, so the number of chunks has a limit. A chunk
 * that takes too long for a slice takes several phases, in pieces. Partial results need
 * memory, so units run in groups, one group after the other.
 *
 * All this depends on the packet only, so results do not depend on the number of workers.
 */
#include <string.h>

#include "vector.h"

struct fold {
	const struct openreg_plan *plan;
	const struct openreg_reduction *red;
	struct openreg_tile_state state;
	struct openreg_tile tile;
	union openreg_acc *acc; /* one for each output of the unit */
	int64_t *index;
	void *columns;
	int64_t outputs;
};

static const uint8_t type_width[OPENREG_VT_END] = { 4, 8, 4, 8 };

static bool is_float(const struct openreg_reduction *red)
{
	return red->type == OPENREG_VT_F32 || red->type == OPENREG_VT_F64;
}

static unsigned int table_row(const struct openreg_reduction *red)
{
	return red->op - OPENREG_V_RED_SUM;
}

static union openreg_acc neutral(const struct openreg_reduction *red)
{
	union openreg_acc acc = { .i = 0 };
	bool f = is_float(red);

	switch (red->op) {
	case OPENREG_V_RED_PROD:
		if (f)
			acc.f = 1;
		else
			acc.i = 1;
		break;
	case OPENREG_V_RED_MAX:
		if (f)
			acc.f = -__builtin_inf();
		else
			acc.i = INT64_MIN;
		break;
	case OPENREG_V_RED_MIN:
		if (f)
			acc.f = __builtin_inf();
		else
			acc.i = INT64_MAX;
		break;
	case OPENREG_V_RED_AND:
		acc.i = 1;
		break;
	default:
		break;
	}
	return acc;
}

/* Does v replace r, the extreme of earlier elements? */
static bool wins(const struct openreg_reduction *red, union openreg_acc v,
		 union openreg_acc r)
{
	bool max = red->op == OPENREG_V_RED_MAX;

	if (!is_float(red))
		return max ? v.i > r.i : v.i < r.i;
	if (v.f != v.f)
		return r.f == r.f;
	return max ? v.f > r.f : v.f < r.f;
}

/* Folds n elements of a register into one output; the first has position `position`. */
static void fold_run(struct fold *f, int64_t output, const void *reg,
		     int64_t position, int64_t n)
{
	const struct openreg_reduction *red = f->red;
	const struct openreg_kernels *k = f->plan->kernels;
	openreg_fold_fn *fn = k->fold[table_row(red)][red->type];
	union openreg_acc acc;

	if (!red->index) {
		fn(&f->acc[output], reg, (size_t)n);
		return;
	}
	acc = neutral(red);
	fn(&acc, reg, (size_t)n);
	if (f->index[output] < 0 || wins(red, acc, f->acc[output])) {
		size_t at = k->find[red->type](acc, reg, (size_t)n);

		/* If user space changes the memory meanwhile, no element may match. */
		if (at >= (size_t)n)
			at = 0;
		f->acc[output] = acc;
		f->index[output] = position + (int64_t)at;
	}
}

/*
 * Kernels fold rows that are shorter than this element by element. So folding columns
 * gives the same bits.
 */
static bool is_short(const struct openreg_reduction *red, int64_t run)
{
	return run < (red->op == OPENREG_V_RED_MAX ||
				      red->op == OPENREG_V_RED_MIN
			      ? 16 : 32);
}

/* Folds rows of n elements into an output each, column after column. */
static void fold_short(struct fold *f, const void *reg, int64_t n)
{
	const struct openreg_kernels *k = f->plan->kernels;
	unsigned int row = table_row(f->red), type = f->red->type;
	int64_t width = type_width[type], rows = f->outputs, i, j;
	const uint64_t *wide = reg;
	uint64_t *to = f->columns;

	if (width == 4) {
		openreg_transpose((uintptr_t)to, (uintptr_t)(rows * width),
				  (uintptr_t)reg, (uintptr_t)(n * width), rows, n);
	} else {
		for (j = 0; j < n; j++)
			for (i = 0; i < rows; i++)
				to[j * rows + i] = wide[i * n + j];
	}
	if (f->red->index)
		memset(f->index, 0, (size_t)rows * sizeof(*f->index));
	for (j = 0; j < n; j++) {
		const void *column = (char *)to + j * rows * width;

		if (f->red->index)
			k->accumulate_index[row][type](f->acc, f->index, column,
						       j, (size_t)rows);
		else
			k->accumulate[row][type](f->acc, column, (size_t)rows);
	}
}

/* The folded dimensions are the inner ones: each run of the register is one output. */
static void fold_tile_inner(struct fold *f)
{
	const unsigned char *reg = f->state.reg[f->red->buffer];
	int64_t width = type_width[f->red->type], run, position = 0, i;

	if (f->red->position && f->red->tile_lo < f->red->tile_hi)
		position = (int64_t)openreg_tile_address(f->plan, &f->tile,
							 f->red->position);
	run = f->plan->split < f->plan->inner_dims ? f->tile.n
						   : openreg_inner_volume(f->plan);
	if (f->plan->split >= f->plan->inner_dims && f->outputs > 1 &&
	    is_short(f->red, run)) {
		fold_short(f, reg, run);
		return;
	}
	for (i = 0; i * run < f->tile.n; i++)
		fold_run(f, i, reg + i * run * width, position, run);
}

/* The folded dimensions are the outer ones: the register holds rows of outputs. */
static void fold_tile_outer(struct fold *f)
{
	const struct openreg_reduction *red = f->red;
	const struct openreg_kernels *k = f->plan->kernels;
	const unsigned char *reg = f->state.reg[red->buffer];
	int64_t width = type_width[red->type], position = 0, i;

	if (red->position)
		position = (int64_t)openreg_tile_address(f->plan, &f->tile,
							 red->position);
	for (i = 0; i * f->outputs < f->tile.n; i++) {
		const void *row = reg + i * f->outputs * width;

		if (red->index)
			k->accumulate_index[table_row(red)][red->type](
				f->acc, f->index, row, position + i,
				(size_t)f->outputs);
		else
			k->accumulate[table_row(red)][red->type](
				f->acc, row, (size_t)f->outputs);
	}
}

static void fold_begin(struct fold *f, const struct openreg_plan *plan,
		       void *memory)
{
	f->plan = plan;
	f->red = &plan->red;
	openreg_tile_init(&f->state, memory);
	f->acc = (union openreg_acc *)((unsigned char *)memory +
				       OPENREG_TILE_MEMORY);
	f->index = (int64_t *)(f->acc + OPENREG_TILE);
	f->columns = f->index + OPENREG_TILE;
	memset(f->tile.at, 0, sizeof(f->tile.at));
}

/* Sets neutral accumulators for a unit, and moves to the tile of its outputs. */
static void unit_begin(struct fold *f, int64_t unit)
{
	const struct openreg_reduction *red = f->red;
	const struct openreg_plan *plan = f->plan;
	const union openreg_acc acc = neutral(red);
	int64_t i, none = red->folds_inner ? -1 : 0;

	memset(f->tile.at, 0, sizeof(f->tile.at));
	openreg_tile_seek(plan, &f->tile, red->unit_lo, red->unit_hi, unit);
	if (!red->folds_inner)
		f->outputs = plan->split < plan->inner_dims
				     ? f->tile.n
				     : openreg_inner_volume(plan);
	else if (plan->split < plan->inner_dims)
		f->outputs = 1;
	else
		f->outputs = f->tile.n / openreg_inner_volume(plan);
	for (i = 0; i < f->outputs; i++)
		f->acc[i] = acc;
	for (i = 0; red->index && i < f->outputs; i++)
		f->index[i] = none;
}

static void unit_fold(struct fold *f, int64_t first, int64_t tiles)
{
	const struct openreg_reduction *red = f->red;

	openreg_tile_seek(f->plan, &f->tile, red->tile_lo, red->tile_hi, first);
	while (tiles-- > 0) {
		openreg_tile_run(f->plan, &f->tile, &f->state);
		if (red->folds_inner)
			fold_tile_inner(f);
		else
			fold_tile_outer(f);
		openreg_tile_next(f->plan, &f->tile, red->tile_lo,
				  red->tile_hi);
	}
}

/* Converts accumulators to the register type, in place. */
static void finish_values(struct fold *f)
{
	const struct openreg_reduction *red = f->red;
	int64_t i, n = f->outputs;
	float *narrow = (float *)f->acc;
	uint32_t *words = (uint32_t *)f->acc;

	if (is_float(red) && red->scaled) {
		for (i = 0; i < n; i++)
			f->acc[i].f *= red->scale;
	}
	if (red->type == OPENREG_VT_F32) {
		for (i = 0; i < n; i++)
			narrow[i] = (float)f->acc[i].f;
	} else if (red->type == OPENREG_VT_I32) {
		for (i = 0; i < n; i++)
			words[i] = (uint32_t)f->acc[i].i;
	}
}

static void store_results(struct fold *f, const struct openreg_access *access,
			  openreg_store_fn *fn, const void *reg,
			  unsigned int width)
{
	const struct openreg_plan *plan = f->plan;
	unsigned int last = plan->inner_dims - 1;

	if (!f->red->folds_inner)
		openreg_tile_store(plan, &f->tile, access, 0,
				   plan->split < last ? plan->split : last, fn,
				   reg, width);
	else if (plan->split < plan->inner_dims)
		fn((void *)openreg_tile_address(plan, &f->tile, access), 1, reg,
		   1);
	else
		openreg_tile_store(plan, &f->tile, access, plan->inner_dims,
				   plan->split, fn, reg, width);
}

static void unit_end(struct fold *f)
{
	const struct openreg_reduction *red = f->red;
	const struct openreg_kernels *k = f->plan->kernels;

	if (red->index)
		store_results(f, red->index,
			      k->store[OPENREG_I64][OPENREG_VT_I64], f->index,
			      8);
	if (!red->value)
		return;
	finish_values(f);
	store_results(f, red->value, k->store[red->value_dtype][red->type],
		      f->acc, type_width[red->type]);
}

static void save_partial(struct fold *f, int64_t at)
{
	const struct openreg_reduction *red = f->red;

	memcpy(red->partial + at, f->acc,
	       (size_t)f->outputs * sizeof(*f->acc));
	if (red->index)
		memcpy(red->partial_index + at, f->index,
		       (size_t)f->outputs * sizeof(*f->index));
}

static void load_partial(struct fold *f, int64_t at)
{
	const struct openreg_reduction *red = f->red;

	memcpy(f->acc, red->partial + at,
	       (size_t)f->outputs * sizeof(*f->acc));
	if (red->index)
		memcpy(f->index, red->partial_index + at,
		       (size_t)f->outputs * sizeof(*f->index));
}

/* Folds one piece of a chunk, into the partial result of the earlier pieces. */
static void run_piece(struct fold *f, const struct openreg_stage *s, uint32_t slice)
{
	const struct openreg_reduction *red = f->red;
	int64_t first = slice % red->chunks * red->chunk_tiles;
	int64_t end = first + red->chunk_tiles, at = slice * red->unit_outputs;
	int64_t tiles = f->plan->slice_tiles;

	if (end > red->unit_tiles)
		end = red->unit_tiles;
	first += s->piece * tiles;
	if (first >= end && s->piece)
		return;
	unit_begin(f, s->first + slice / red->chunks);
	if (s->piece)
		load_partial(f, at);
	unit_fold(f, first, end - first < tiles ? end - first : tiles);
	save_partial(f, at);
}

static void run_units(struct fold *f, uint32_t slice)
{
	const struct openreg_reduction *red = f->red;
	int64_t unit = (int64_t)slice * red->slice_units;
	int64_t end = unit + red->slice_units;

	for (; unit < end && unit < red->units; unit++) {
		unit_begin(f, unit);
		if (!red->empty)
			unit_fold(f, 0, red->unit_tiles);
		unit_end(f);
	}
}

static void merge_partial(struct fold *f, int64_t at)
{
	const struct openreg_reduction *red = f->red;
	unsigned int type = is_float(red) ? OPENREG_VT_F64 : OPENREG_VT_I64;
	int64_t i;

	if (!red->index) {
		f->plan->kernels->accumulate[table_row(red)][type](
			f->acc, red->partial + at, (size_t)f->outputs);
		return;
	}
	for (i = 0; i < f->outputs; i++) {
		if (!wins(red, red->partial[at + i], f->acc[i]))
			continue;
		f->acc[i] = red->partial[at + i];
		f->index[i] = red->partial_index[at + i];
	}
}

static void merge_units(struct fold *f, const struct openreg_stage *s, uint32_t slice)
{
	const struct openreg_reduction *red = f->red;
	int64_t unit = (int64_t)slice * red->slice_units, chunk;
	int64_t end = unit + red->slice_units;

	for (; unit < end && unit < s->units; unit++) {
		int64_t at = unit * red->chunks * red->unit_outputs;

		unit_begin(f, s->first + unit);
		if (red->index)
			load_partial(f, at);
		for (chunk = red->index ? 1 : 0; chunk < red->chunks; chunk++)
			merge_partial(f, at + chunk * red->unit_outputs);
		unit_end(f);
	}
}

void openreg_reduce_run(const struct openreg_plan *plan, unsigned int phase,
			uint32_t slice, void *memory)
{
	struct openreg_stage s;
	struct fold f;

	fold_begin(&f, plan, memory);
	if (plan->red.chunks == 1) {
		run_units(&f, slice);
		return;
	}
	s = openreg_reduce_stage(&plan->red, phase);
	if (s.merges)
		merge_units(&f, &s, slice);
	else
		run_piece(&f, &s, slice);
}
