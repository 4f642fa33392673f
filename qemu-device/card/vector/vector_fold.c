// SPDX-License-Identifier: MIT
/* VECTOR: folds the elements of a tile into accumulators. */
#include <string.h>

#include "vector.h"

struct fold {
	const struct openreg_fold *as;
	const struct openreg_kernels *k;
	union openreg_acc *acc; /* one for each output of the unit */
	int64_t *index;
	int64_t outputs;
	void *columns;
};

static const uint8_t type_width[OPENREG_VT_END] = { 4, 8, 4, 8 };

static bool is_float(const struct openreg_fold *as)
{
	return as->type == OPENREG_VT_F32 || as->type == OPENREG_VT_F64;
}

static unsigned int table_row(const struct openreg_fold *as)
{
	return as->op - OPENREG_V_RED_SUM;
}

union openreg_acc openreg_fold_neutral(const struct openreg_fold *as)
{
	union openreg_acc acc = { .i = 0 };
	bool f = is_float(as);

	switch (as->op) {
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
static bool wins(const struct openreg_fold *as, union openreg_acc v,
		 union openreg_acc r)
{
	bool max = as->op == OPENREG_V_RED_MAX;

	if (!is_float(as))
		return max ? v.i > r.i : v.i < r.i;
	if (v.f != v.f)
		return r.f == r.f;
	return max ? v.f > r.f : v.f < r.f;
}

/* Folds n elements of a register into one output; the first has position `position`. */
static void fold_run(const struct fold *f, int64_t output, const void *reg,
		     int64_t position, int64_t n)
{
	openreg_fold_fn *fn = f->k->fold[table_row(f->as)][f->as->type];
	union openreg_acc acc;

	if (!f->as->index) {
		fn(&f->acc[output], reg, (size_t)n);
		return;
	}
	acc = openreg_fold_neutral(f->as);
	fn(&acc, reg, (size_t)n);
	if (f->index[output] < 0 || wins(f->as, acc, f->acc[output])) {
		size_t at = f->k->find[f->as->type](acc, reg, (size_t)n);

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
static bool is_short(const struct openreg_fold *as, int64_t run)
{
	return run < (as->op == OPENREG_V_RED_MAX ||
				      as->op == OPENREG_V_RED_MIN
			      ? 16 : 32);
}

/* Folds rows of n elements into an output each, column after column. */
static void fold_short(const struct fold *f, const void *reg, int64_t n)
{
	unsigned int row = table_row(f->as), type = f->as->type;
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
	if (f->as->index)
		memset(f->index, 0, (size_t)rows * sizeof(*f->index));
	for (j = 0; j < n; j++) {
		const void *column = (char *)to + j * rows * width;

		if (f->as->index)
			f->k->accumulate_index[row][type](f->acc, f->index,
							  column, j,
							  (size_t)rows);
		else
			f->k->accumulate[row][type](f->acc, column,
						    (size_t)rows);
	}
}

/* The folded dimensions are the inner ones: each run of the register is one output. */
static void fold_inner(const struct fold *f, const struct openreg_plan *plan,
		       const struct openreg_tile *tile, const unsigned char *reg)
{
	const struct openreg_reduction *red = &plan->red;
	int64_t width = type_width[f->as->type], run, position = 0, i;

	if (f->as->index && red->tile_lo < red->tile_hi)
		position = (int64_t)openreg_tile_address(plan, tile,
							 red->position);
	run = plan->split < plan->inner_dims ? tile->n
					     : openreg_inner_volume(plan);
	if (plan->split >= plan->inner_dims && f->outputs > 1 &&
	    is_short(f->as, run)) {
		fold_short(f, reg, run);
		return;
	}
	for (i = 0; i * run < tile->n; i++)
		fold_run(f, i, reg + i * run * width, position, run);
}

/* The folded dimensions are the outer ones: the register holds rows of outputs. */
static void fold_outer(const struct fold *f, const struct openreg_plan *plan,
		       const struct openreg_tile *tile, const unsigned char *reg)
{
	unsigned int row = table_row(f->as), type = f->as->type;
	int64_t width = type_width[type], position = 0, i;

	if (f->as->index)
		position = (int64_t)openreg_tile_address(plan, tile,
							 plan->red.position);
	for (i = 0; i * f->outputs < tile->n; i++) {
		const void *line = reg + i * f->outputs * width;

		if (f->as->index)
			f->k->accumulate_index[row][type](f->acc, f->index,
							  line, position + i,
							  (size_t)f->outputs);
		else
			f->k->accumulate[row][type](f->acc, line,
						    (size_t)f->outputs);
	}
}

static struct fold fold_of(const struct openreg_folder *f, unsigned int fold)
{
	return (struct fold){
		.as = &f->plan->red.fold[fold],
		.k = f->plan->kernels,
		.acc = openreg_accs(f, fold),
		.index = f->indices + (size_t)fold * OPENREG_TILE,
		.outputs = f->outputs,
		.columns = f->columns,
	};
}

void openreg_fold_tile(struct openreg_folder *f, unsigned int fold)
{
	const struct fold to = fold_of(f, fold);
	const void *reg = f->state.reg[to.as->buffer];

	if (f->plan->red.folds_inner)
		fold_inner(&to, f->plan, &f->tile, reg);
	else
		fold_outer(&to, f->plan, &f->tile, reg);
}

void openreg_fold_merge(struct openreg_folder *f, unsigned int fold,
			const union openreg_acc *partial, const int64_t *index)
{
	const struct fold to = fold_of(f, fold);
	unsigned int type = is_float(to.as) ? OPENREG_VT_F64 : OPENREG_VT_I64;
	int64_t i;

	if (!to.as->index) {
		to.k->accumulate[table_row(to.as)][type](to.acc, partial,
							 (size_t)f->outputs);
		return;
	}
	for (i = 0; i < f->outputs; i++) {
		if (!wins(to.as, partial[i], to.acc[i]))
			continue;
		to.acc[i] = partial[i];
		to.index[i] = index[i];
	}
}
