// SPDX-License-Identifier: MIT
/* VECTOR: cuts a reduction into units, chunks, pieces and groups. */
#include "vector.h"

#define MERGE_MAX (1 << 17) /* partial results of one unit */
#define PARTIAL_MAX (16 << 20) /* bytes of the partial results of a group */

int64_t openreg_inner_volume(const struct openreg_plan *plan)
{
	int64_t volume = 1;
	unsigned int d;

	for (d = 0; d < plan->inner_dims; d++)
		volume *= plan->size[d];
	return volume;
}

static int64_t slices_of(int64_t units, int64_t slice_units)
{
	return (units + slice_units - 1) / slice_units;
}

/* Phases of a group: the pieces of each stage, and the merging of its folds. */
static int64_t group_phases(const struct openreg_plan *plan)
{
	const struct openreg_stage *last = &plan->stage[plan->nstages - 1];

	return plan->nstages * (plan->red.pieces + 1) -
	       (last->fold == last->fold_end);
}

struct openreg_phase openreg_reduce_phase(const struct openreg_plan *plan,
					  unsigned int phase)
{
	const struct openreg_reduction *red = &plan->red;
	int64_t phases = group_phases(plan), group = phase / phases;
	struct openreg_phase p = { .first = group * red->group_units };

	phase = (unsigned int)(phase % phases);
	p.stage = (unsigned int)(phase / (red->pieces + 1));
	p.piece = phase % (red->pieces + 1);
	p.merges = p.piece == red->pieces;
	p.units = red->units - p.first;
	if (p.units > red->group_units)
		p.units = red->group_units;
	return p;
}

uint32_t openreg_reduce_slices(const struct openreg_plan *plan,
			       unsigned int phase)
{
	const struct openreg_reduction *red = &plan->red;
	struct openreg_phase p;

	if (red->chunks == 1)
		return (uint32_t)slices_of(red->units, red->slice_units);
	p = openreg_reduce_phase(plan, phase);
	return (uint32_t)(p.merges ? slices_of(p.units, red->slice_units)
				   : p.units * red->chunks);
}

static int64_t count(const struct openreg_plan *plan, unsigned int lo,
		     unsigned int hi)
{
	int64_t n = 1;
	unsigned int d;

	for (d = lo; d < hi; d++)
		n *= plan->digits[d];
	return n;
}

void openreg_plan_units(struct openreg_plan *plan)
{
	struct openreg_reduction *red = &plan->red;
	unsigned int inner = plan->inner_dims, split = plan->split;
	bool cuts_inner = split < inner;
	int64_t most = plan->volume * plan->chunk;

	red->unit_lo = red->unit_hi = red->tile_lo = red->tile_hi = split;
	if (red->folds_inner) {
		red->unit_lo = cuts_inner ? inner : split;
		red->unit_hi = plan->ndim;
		red->tile_hi = cuts_inner ? inner : split;
		red->unit_outputs = cuts_inner ? 1 : most / openreg_inner_volume(plan);
	} else {
		red->unit_hi = cuts_inner ? inner : split;
		red->tile_lo = cuts_inner ? inner : split;
		red->tile_hi = plan->ndim;
		red->unit_outputs = cuts_inner ? most : openreg_inner_volume(plan);
	}
	red->units = count(plan, red->unit_lo, red->unit_hi);
	red->unit_tiles = count(plan, red->tile_lo, red->tile_hi);
}

static int64_t at_least_1(double x)
{
	return x < 1 ? 1 : (int64_t)x;
}

/* Cuts units if they have much work each, so that workers can share it. */
static void cut_units(struct openreg_plan *plan)
{
	struct openreg_reduction *red = &plan->red;
	double unit_ns = plan->tile_ns * (double)red->unit_tiles;
	double slice = openreg_slice_ns(unit_ns * (double)red->units);
	double most = red->units >= 8 ? 2 * OPENREG_SLICE_NS : slice;

	red->chunks = 1;
	red->chunk_tiles = red->unit_tiles;
	red->slice_units = at_least_1(slice / unit_ns);
	if (unit_ns <= most || red->empty)
		return;
	red->chunk_tiles = plan->slice_tiles;
	red->chunks = slices_of(red->unit_tiles, red->chunk_tiles);
	if (red->chunks > MERGE_MAX / red->unit_outputs) {
		red->chunks = MERGE_MAX / red->unit_outputs;
		red->chunk_tiles = slices_of(red->unit_tiles, red->chunks);
		red->chunks = slices_of(red->unit_tiles, red->chunk_tiles);
	}
	red->pieces = slices_of(red->chunk_tiles, plan->slice_tiles);
	unit_ns = red->nfolds *
		  (2.0 * (double)(red->chunks * red->unit_outputs) + 50);
	red->slice_units = at_least_1(OPENREG_SLICE_NS / unit_ns);
}

/* Forms groups of units and allocates memory for the results of one group. */
static bool group_units(struct openreg_job *job, struct openreg_plan *plan)
{
	struct openreg_reduction *red = &plan->red;
	int64_t outputs = red->chunks * red->unit_outputs, unit, phases;
	int64_t folds = 0, size = sizeof(*red->partial), kept;
	unsigned int i;

	for (i = 0; i < plan->nstages; i++) {
		const struct openreg_stage *stage = &plan->stage[i];

		if (folds < stage->fold_end - stage->fold)
			folds = stage->fold_end - stage->fold;
	}
	if (red->position)
		size += sizeof(*red->partial_index);
	kept = plan->nstages > 1 ? red->nfolds * red->unit_outputs : 0;
	unit = folds * outputs * size + kept * (int64_t)sizeof(*red->results);
	red->group_units = at_least_1((double)(PARTIAL_MAX / unit));
	if (red->group_units > red->units)
		red->group_units = red->units;
	phases = slices_of(red->units, red->group_units) * group_phases(plan);
	if (phases > UINT32_MAX)
		return false;
	job->phases = (unsigned int)phases;
	red->partials = outputs * red->group_units;
	red->partial = openreg_job_extra(job, (size_t)(unit * red->group_units));
	red->results = red->partial + folds * red->partials;
	red->partial_index = (int64_t *)(red->results + kept * red->group_units);
	return red->partial;
}

bool openreg_reduce_setup(struct openreg_job *job, struct openreg_plan *plan)
{
	struct openreg_reduction *red = &plan->red;

	cut_units(plan);
	if (red->chunks > 1)
		return group_units(job, plan);
	job->phases = 1;
	return slices_of(red->units, red->slice_units) <= UINT32_MAX;
}
