// SPDX-License-Identifier: MIT
/* VECTOR: values of rows: results of reductions, and what is computed from them. */
#include <string.h>

#include "vector.h"

static const uint8_t type_width[OPENREG_VT_END] = { 4, 8, 4, 8 };

/* Converts accumulators to the register type, in place. */
static void convert(const struct openreg_fold *fold, union openreg_acc *acc,
		    int64_t n)
{
	float *narrow = (float *)acc;
	uint32_t *words = (uint32_t *)acc;
	int64_t i;

	if (fold->type <= OPENREG_VT_F64 && fold->scaled) {
		for (i = 0; i < n; i++)
			acc[i].f *= fold->scale;
	}
	if (fold->type == OPENREG_VT_F32) {
		for (i = 0; i < n; i++)
			narrow[i] = (float)acc[i].f;
	} else if (fold->type == OPENREG_VT_I32) {
		for (i = 0; i < n; i++)
			words[i] = (uint32_t)acc[i].i;
	}
}

/* The dimensions of a tile along which its outputs lie. */
struct range {
	unsigned int lo, hi;
	bool one; /* the tile has a single output */
};

static struct range outputs_of(const struct openreg_plan *plan)
{
	unsigned int last = plan->inner_dims - 1;

	if (!plan->red.folds_inner)
		return (struct range){
			.hi = plan->split < last ? plan->split : last
		};
	return (struct range){ .lo = plan->inner_dims, .hi = plan->split,
			       .one = plan->split < plan->inner_dims };
}

static void store_rows(const struct openreg_folder *f,
		       const struct openreg_access *access, openreg_store_fn *fn,
		       const void *reg, unsigned int width)
{
	struct range r = outputs_of(f->plan);

	if (r.one)
		fn((void *)openreg_tile_address(f->plan, &f->tile, access), 1,
		   reg, 1);
	else
		openreg_tile_store(f->plan, &f->tile, access, r.lo, r.hi, fn,
				   reg, width);
}

static void load_rows(const struct openreg_folder *f,
		      const struct openreg_step *step, void *to)
{
	const struct openreg_access *access = &f->plan->access[step->access];
	struct range r = outputs_of(f->plan);

	if (r.one)
		step->load(to, (const void *)openreg_tile_address(
				       f->plan, &f->tile, access), 1, 1);
	else
		openreg_tile_load(f->plan, &f->tile, step, r.lo, r.hi, to);
}

/* Repeats each of n elements `times` times; may write SPREAD_MORE elements more. */
#define REPEAT(type)                                                           \
	static void repeat_##type(type *to, const type *from, int64_t n,       \
				  int64_t times)                               \
	{                                                                      \
		int64_t i, j, k;                                               \
                                                                               \
		for (i = 0; i < n; i++, to += times) {                         \
			for (j = 0; j < times; j += OPENREG_SPREAD_MORE)       \
				for (k = 0; k < OPENREG_SPREAD_MORE; k++)      \
					to[j + k] = from[i];                   \
		}                                                              \
	}

REPEAT(uint32_t)
REPEAT(uint64_t)

/* Gives each point of a tile the value of its row. */
static void spread(const struct openreg_folder *f, unsigned char *to,
		   const void *from, size_t width)
{
	size_t line = (size_t)f->outputs * width, end;
	size_t at;

	if (f->plan->red.folds_inner) {
		if (width == 4)
			repeat_uint32_t((uint32_t *)to, from, f->outputs,
					f->tile.n / f->outputs);
		else
			repeat_uint64_t((uint64_t *)to, from, f->outputs,
					f->tile.n / f->outputs);
		return;
	}
	end = (size_t)f->tile.n * width;
	for (at = 0; at < end; at += line)
		memcpy(to + at, from, line);
}

/*
 * Lets steps read the values of a slot. f->tile is the first tile of the unit: it has the
 * most points.
 */
static void keep(struct openreg_folder *f, unsigned int slot, const void *values,
		 size_t width)
{
	const void **reg = &f->state.reg[OPENREG_PLAN_BUFFERS + slot];
	unsigned char *to = f->spread + (size_t)slot * OPENREG_SPREAD_MEMORY;

	f->slot[slot] = *reg = values;
	if (!f->plan->red.whole[slot] || f->outputs == f->tile.n)
		return;
	spread(f, to, values, width);
	*reg = to;
}

void openreg_result_keep(struct openreg_folder *f, unsigned int fold)
{
	keep(f, fold, openreg_accs(f, fold),
	     type_width[f->plan->red.fold[fold].type]);
}

void openreg_result_finish(struct openreg_folder *f, unsigned int fold)
{
	const struct openreg_fold *as = &f->plan->red.fold[fold];
	const struct openreg_kernels *k = f->plan->kernels;
	union openreg_acc *acc = openreg_accs(f, fold);

	if (as->index)
		store_rows(f, as->index, k->store[OPENREG_I64][OPENREG_VT_I64],
			   f->indices + (size_t)fold * OPENREG_TILE, 8);
	if (!as->value && !as->kept)
		return;
	convert(as, acc, f->outputs);
	if (as->value)
		store_rows(f, as->value, k->store[as->value_dtype][as->type],
			   acc, type_width[as->type]);
}

static void fill(const struct openreg_step *step, uint64_t *to, int64_t n)
{
	uint32_t *narrow = (uint32_t *)to;
	int64_t i;

	for (i = 0; i < n; i++) {
		if (step->width == 4)
			narrow[i] = (uint32_t)step->imm;
		else
			to[i] = step->imm;
	}
}

void openreg_rows_run(struct openreg_folder *f, unsigned int s, bool stores)
{
	const struct openreg_plan *plan = f->plan;
	const struct openreg_stage *stage = &plan->stage[s];
	unsigned int i;

	for (i = stage->row; i < stage->row_end; i++) {
		const struct openreg_step *step = &plan->red.row[i];
		uint64_t *to = f->rows + (size_t)i * OPENREG_TILE;

		switch (step->kind) {
		case OPENREG_STEP_STORE:
			if (stores)
				store_rows(f, &plan->access[step->access],
					   step->store, f->slot[step->a],
					   step->width);
			continue;
		case OPENREG_STEP_IMM:
			fill(step, to, f->outputs);
			break;
		case OPENREG_STEP_LOAD:
		case OPENREG_STEP_INDEX:
			load_rows(f, step, to);
			break;
		default:
			step->kernel(to, f->slot[step->a], f->slot[step->b],
				     f->slot[step->c], (size_t)f->outputs);
		}
		keep(f, step->dst, to, step->width);
	}
}
