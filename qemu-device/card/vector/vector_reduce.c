// SPDX-License-Identifier: MIT
/*
 * VECTOR: runs the stages of a program with reductions.
 *
 * Outputs are folded in units:
 *
 * - If the folded dimensions are the inner ones, a unit is one output that folds many
 *   tiles, or a tile with several whole outputs.
 * - Otherwise a unit is the outputs of one tile, which fold tile after tile.
 *
 * A unit goes through all stages before the next one. A unit with much work is cut into
 * chunks instead. They go through a stage in a phase, and a later phase merges their
 * partial results. One slice merges a whole unit, so the number of chunks has a limit. A
 * chunk that takes too long for a slice takes several phases, in pieces. Partial results
 * need memory, so units run in groups, one group after the other.
 *
 * All this depends on the packet only, so results do not depend on the number of workers.
 */
#include <string.h>

#include "vector.h"

static void begin(struct openreg_folder *f, const struct openreg_plan *plan,
		  void *memory)
{
	f->plan = plan;
	openreg_tile_init(&f->state, memory);
	f->columns = (unsigned char *)memory + OPENREG_TILE_MEMORY;
	f->accs = (union openreg_acc *)f->columns + OPENREG_TILE;
	f->indices = (int64_t *)f->accs + OPENREG_REDUCTIONS_MAX * OPENREG_TILE;
	f->rows = (uint64_t *)f->indices + OPENREG_REDUCTIONS_MAX * OPENREG_TILE;
	f->spread = (unsigned char *)(f->rows +
				      OPENREG_INSTRS_MAX * OPENREG_TILE);
	memset(f->tile.at, 0, sizeof(f->tile.at));
}

/* Moves to the first tile of a unit. */
static void unit_begin(struct openreg_folder *f, int64_t unit)
{
	const struct openreg_plan *plan = f->plan;
	const struct openreg_reduction *red = &plan->red;

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
}

/* Sets neutral accumulators for a stage of a unit. */
static void stage_begin(struct openreg_folder *f,
			const struct openreg_stage *stage)
{
	const struct openreg_reduction *red = &f->plan->red;
	int64_t i, none = red->folds_inner ? -1 : 0;
	unsigned int k;

	for (k = stage->fold; k < stage->fold_end; k++) {
		const struct openreg_fold *fold = &red->fold[k];
		const union openreg_acc neutral = openreg_fold_neutral(fold);
		union openreg_acc *acc = openreg_accs(f, k);
		int64_t *index = f->indices + (size_t)k * OPENREG_TILE;

		for (i = 0; i < f->outputs; i++)
			acc[i] = neutral;
		for (i = 0; fold->index && i < f->outputs; i++)
			index[i] = none;
	}
}

static void run_tiles(struct openreg_folder *f, unsigned int s, int64_t first,
		      int64_t tiles)
{
	const struct openreg_plan *plan = f->plan;
	const struct openreg_reduction *red = &plan->red;
	const struct openreg_stage *stage = &plan->stage[s];
	unsigned int k;

	openreg_rows_run(f, s, first == 0);
	if (stage->step == stage->end && stage->fold == stage->fold_end)
		return;
	openreg_tile_seek(plan, &f->tile, red->tile_lo, red->tile_hi, first);
	while (tiles-- > 0) {
		openreg_tile_run(plan, s, &f->tile, &f->state);
		for (k = stage->fold; k < stage->fold_end; k++)
			openreg_fold_tile(f, k);
		openreg_tile_next(plan, &f->tile, red->tile_lo, red->tile_hi);
	}
}

/* f->tile is the first tile of the unit. */
static void stage_end(struct openreg_folder *f, unsigned int s)
{
	const struct openreg_plan *plan = f->plan;
	const struct openreg_stage *stage = &plan->stage[s];
	unsigned int k;

	for (k = stage->fold; k < stage->fold_end; k++) {
		openreg_result_finish(f, k);
		if (s + 1 < plan->nstages)
			openreg_result_keep(f, k);
	}
}

static void run_units(struct openreg_folder *f, uint32_t slice)
{
	const struct openreg_reduction *red = &f->plan->red;
	int64_t unit = (int64_t)slice * red->slice_units;
	int64_t end = unit + red->slice_units;
	unsigned int s;

	for (; unit < end && unit < red->units; unit++) {
		unit_begin(f, unit);
		for (s = 0; s < f->plan->nstages; s++) {
			stage_begin(f, &f->plan->stage[s]);
			if (!red->empty)
				run_tiles(f, s, 0, red->unit_tiles);
			stage_end(f, s);
		}
	}
}

/* The partial results of a chunk for fold k of a stage. */
static int64_t partial_at(const struct openreg_reduction *red, int64_t chunk,
			  unsigned int k)
{
	return k * red->partials + chunk * red->unit_outputs;
}

static void save_partial(struct openreg_folder *f,
			 const struct openreg_stage *stage, int64_t chunk)
{
	const struct openreg_reduction *red = &f->plan->red;
	unsigned int k;

	for (k = stage->fold; k < stage->fold_end; k++) {
		int64_t at = partial_at(red, chunk, k - stage->fold);

		memcpy(red->partial + at, openreg_accs(f, k),
		       (size_t)f->outputs * sizeof(*red->partial));
		if (red->fold[k].index)
			memcpy(red->partial_index + at,
			       f->indices + (size_t)k * OPENREG_TILE,
			       (size_t)f->outputs * sizeof(*f->indices));
	}
}

static void load_partial(struct openreg_folder *f,
			 const struct openreg_stage *stage, int64_t chunk)
{
	const struct openreg_reduction *red = &f->plan->red;
	unsigned int k;

	for (k = stage->fold; k < stage->fold_end; k++) {
		int64_t at = partial_at(red, chunk, k - stage->fold);

		memcpy(openreg_accs(f, k), red->partial + at,
		       (size_t)f->outputs * sizeof(*red->partial));
		if (red->fold[k].index)
			memcpy(f->indices + (size_t)k * OPENREG_TILE,
			       red->partial_index + at,
			       (size_t)f->outputs * sizeof(*f->indices));
	}
}

/* The result of a fold for a unit of the group, between phases. */
static union openreg_acc *result_at(const struct openreg_reduction *red,
				    unsigned int k, int64_t unit)
{
	return red->results + (k * red->group_units + unit) * red->unit_outputs;
}

/* Folds one piece of a chunk, into the partial result of the earlier pieces. */
static void run_piece(struct openreg_folder *f, const struct openreg_phase *p,
		      uint32_t slice)
{
	const struct openreg_plan *plan = f->plan;
	const struct openreg_reduction *red = &plan->red;
	const struct openreg_stage *stage = &plan->stage[p->stage];
	int64_t first = slice % red->chunks * red->chunk_tiles;
	int64_t end = first + red->chunk_tiles, unit = slice / red->chunks;
	int64_t tiles = plan->slice_tiles;
	unsigned int k;

	if (end > red->unit_tiles)
		end = red->unit_tiles;
	first += p->piece * tiles;
	if (first >= end && p->piece)
		return;
	unit_begin(f, p->first + unit);
	for (k = 0; k < stage->fold; k++) {
		memcpy(openreg_accs(f, k), result_at(red, k, unit),
		       (size_t)f->outputs * sizeof(*red->results));
		openreg_result_keep(f, k);
	}
	if (p->piece)
		load_partial(f, stage, slice);
	else
		stage_begin(f, stage);
	run_tiles(f, p->stage, first, end - first < tiles ? end - first : tiles);
	save_partial(f, stage, slice);
}

static void merge_unit(struct openreg_folder *f, unsigned int s, int64_t unit)
{
	const struct openreg_reduction *red = &f->plan->red;
	const struct openreg_stage *stage = &f->plan->stage[s];
	int64_t chunk, first = unit * red->chunks;
	unsigned int k;

	load_partial(f, stage, first);
	for (k = stage->fold; k < stage->fold_end; k++) {
		for (chunk = 1; chunk < red->chunks; chunk++) {
			int64_t at = partial_at(red, first + chunk,
						k - stage->fold);

			openreg_fold_merge(f, k, red->partial + at,
					   red->partial_index + at);
		}
		openreg_result_finish(f, k);
		if (s + 1 < f->plan->nstages)
			memcpy(result_at(red, k, unit), openreg_accs(f, k),
			       (size_t)f->outputs * sizeof(*red->results));
	}
}

static void merge_units(struct openreg_folder *f, const struct openreg_phase *p,
			uint32_t slice)
{
	const struct openreg_reduction *red = &f->plan->red;
	int64_t unit = (int64_t)slice * red->slice_units;
	int64_t end = unit + red->slice_units;

	for (; unit < end && unit < p->units; unit++) {
		unit_begin(f, p->first + unit);
		merge_unit(f, p->stage, unit);
	}
}

void openreg_reduce_run(const struct openreg_plan *plan, unsigned int phase,
			uint32_t slice, void *memory)
{
	struct openreg_folder f;
	struct openreg_phase p;

	begin(&f, plan, memory);
	if (plan->red.chunks == 1) {
		run_units(&f, slice);
		return;
	}
	p = openreg_reduce_phase(plan, phase);
	if (p.merges)
		merge_units(&f, &p, slice);
	else
		run_piece(&f, &p, slice);
}
