// SPDX-License-Identifier: MIT
/* VECTOR: results of reductions, in memory and as registers of later stages. */
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

void openreg_result_store(const struct openreg_plan *plan,
			  const struct openreg_tile *tile,
			  const struct openreg_access *access,
			  openreg_store_fn *fn, const void *reg,
			  unsigned int width)
{
	unsigned int last = plan->inner_dims - 1;

	if (!plan->red.folds_inner)
		openreg_tile_store(plan, tile, access, 0,
				   plan->split < last ? plan->split : last, fn,
				   reg, width);
	else if (plan->split < plan->inner_dims)
		fn((void *)openreg_tile_address(plan, tile, access), 1, reg, 1);
	else
		openreg_tile_store(plan, tile, access, plan->inner_dims,
				   plan->split, fn, reg, width);
}

void openreg_row_store(const struct openreg_plan *plan,
		       const struct openreg_tile *tile,
		       const struct openreg_step *step, const void *reg)
{
	const struct openreg_access *access = &plan->access[step->access];
	int64_t row = openreg_inner_volume(plan), i;
	uint64_t line[OPENREG_TILE];
	uint32_t *words = (uint32_t *)line;

	if (plan->red.folds_inner && plan->split >= plan->inner_dims) {
		for (i = 0; i * row < tile->n; i++) {
			if (step->width == 4)
				words[i] = ((const uint32_t *)reg)[i * row];
			else
				line[i] = ((const uint64_t *)reg)[i * row];
		}
		reg = line;
	}
	openreg_result_store(plan, tile, access, step->store, reg, step->width);
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

/* f->tile is the first tile of the unit: it has the most points. */
void openreg_result_keep(struct openreg_folder *f, unsigned int fold)
{
	const struct openreg_fold *as = &f->plan->red.fold[fold];
	unsigned char *to = f->spread + (size_t)fold * OPENREG_SPREAD_MEMORY;
	const void **reg = &f->state.reg[OPENREG_TILE_BUFFERS + fold];

	*reg = openreg_accs(f, fold);
	if (!as->kept || !as->whole || f->outputs == f->tile.n)
		return;
	spread(f, to, *reg, type_width[as->type]);
	*reg = to;
}

void openreg_result_finish(struct openreg_folder *f, unsigned int fold)
{
	const struct openreg_plan *plan = f->plan;
	const struct openreg_fold *as = &plan->red.fold[fold];
	const struct openreg_kernels *k = plan->kernels;
	union openreg_acc *acc = openreg_accs(f, fold);

	if (as->index)
		openreg_result_store(plan, &f->tile, as->index,
				     k->store[OPENREG_I64][OPENREG_VT_I64],
				     f->indices + (size_t)fold * OPENREG_TILE,
				     8);
	if (!as->value && !as->kept)
		return;
	convert(as, acc, f->outputs);
	if (as->value)
		openreg_result_store(plan, &f->tile, as->value,
				     k->store[as->value_dtype][as->type], acc,
				     type_width[as->type]);
}
