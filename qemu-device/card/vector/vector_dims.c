// SPDX-License-Identifier: MIT
/*
 * VECTOR: the order of the dimensions. Drops dimensions of size 1, puts small strides
 * first, and merges neighbours that form one dimension for every operand.
 */
#include <string.h>

#include "job/dims.h"
#include "vector.h"

#define UNIT_POINTS (1 << 17) /* that stay in the cache */
#define UNIT_WIDTH 64 /* least points of a tile */

struct dim {
	int64_t size;
	unsigned int from; /* its number in the packet */
	bool folded;
};

struct dims {
	struct dim dim[OPENREG_DIMS_MAX];
	unsigned int n;
};

/*
 * Returns > 0 if x should be further out than y, < 0 if further in, 0 if either order is
 * good. Stored operands decide first, then loaded ones.
 */
static int compare(const struct openreg_plan *plan, const struct dim *x,
		   const struct dim *y)
{
	unsigned int n = plan->naccess, i;

	for (i = 0; i < 2 * n; i++) {
		const struct openreg_access *access = &plan->access[i % n];
		uint64_t sx = openreg_magnitude(access->stride[x->from]);
		uint64_t sy = openreg_magnitude(access->stride[y->from]);

		if (access->result || access->stored != (i < n))
			continue;
		if (sx && sy && sx != sy)
			return sx > sy ? 1 : -1;
	}
	return 0;
}

/* Insertion sort; keeps the order of dimensions that compare as 0. */
static void sort(const struct openreg_plan *plan, struct dims *dims)
{
	unsigned int i, j, k;

	for (i = 1; i < dims->n; i++) {
		k = i;
		for (j = i; j-- > 0;) {
			int order = compare(plan, &dims->dim[j], &dims->dim[k]);
			struct dim swap = dims->dim[j];

			if (order < 0)
				break;
			if (order == 0)
				continue;
			dims->dim[j] = dims->dim[k];
			dims->dim[k] = swap;
			k = j;
		}
	}
}

static void collect(struct dims *dims, const struct openreg_args *args)
{
	unsigned int d;

	dims->n = 0;
	for (d = args->ndim; d-- > 0;) {
		if (args->size[d] == 1)
			continue;
		dims->dim[dims->n].size = args->size[d];
		dims->dim[dims->n].from = d;
		dims->dim[dims->n].folded = args->arg[0] >> d & 1;
		dims->n++;
	}
}

/*
 * Puts the group with the innermost dimension first. Folded dimensions keep the packet's
 * order if the packet wants the position of the extreme.
 */
static void group(struct openreg_plan *plan, struct dims *dims)
{
	struct dims sorted = *dims, out = { .n = 0 };
	const struct dims *source;
	unsigned int i, pass;
	bool first;

	sort(plan, &sorted);
	first = sorted.n && sorted.dim[0].folded;
	plan->red.folds_inner = first;
	plan->inner_dims = 0;
	for (pass = 0; pass < 2; pass++) {
		bool folded = pass == 0 ? first : !first;

		source = folded && plan->red.position ? dims : &sorted;
		for (i = 0; i < source->n; i++) {
			if (source->dim[i].folded == folded)
				out.dim[out.n++] = source->dim[i];
		}
		if (pass == 0)
			plan->inner_dims = out.n;
	}
	*dims = out;
}

/* Puts dims [first, end) behind the plan's dimensions, and merges them. */
static void add_dims(struct openreg_plan *plan, const struct dims *dims,
		     unsigned int first, unsigned int end,
		     int64_t packet[][OPENREG_DIMS_MAX])
{
	int64_t *stride[OPENREG_ACCESS_MAX];
	unsigned int i, d;

	for (d = first; d < end; d++)
		plan->size[plan->ndim + d - first] = dims->dim[d].size;
	for (i = 0; i < plan->naccess; i++) {
		stride[i] = plan->access[i].stride + plan->ndim;
		for (d = first; d < end; d++)
			stride[i][d - first] = packet[i][dims->dim[d].from];
	}
	plan->ndim += openreg_merge_dims(end - first, plan->size + plan->ndim, stride,
					 plan->naccess, OPENREG_INNER_FIRST);
}

/*
 * Writes the plan's sizes and every access's strides. A folded dimension does not merge
 * with one that is not.
 */
static void merge(struct openreg_plan *plan, const struct dims *dims)
{
	int64_t packet[OPENREG_ACCESS_MAX][OPENREG_DIMS_MAX];
	const unsigned int inner = plan->inner_dims;
	unsigned int i;

	for (i = 0; i < plan->naccess; i++)
		memcpy(packet[i], plan->access[i].stride, sizeof(packet[i]));
	plan->ndim = 0;
	add_dims(plan, dims, 0, inner, packet);
	plan->inner_dims = plan->ndim;
	add_dims(plan, dims, inner, dims->n, packet);
}

/* The best side of a square block that divides a dimension, or 0. */
static int64_t block_side(int64_t size)
{
	int64_t side;

	for (side = 32; side >= 16; side--) {
		if (size % side == 0)
			return side;
	}
	for (side = 33; side <= 64; side++) {
		if (size % side == 0)
			return side;
	}
	for (side = 15; side >= 8; side--) {
		if (size % side == 0)
			return side;
	}
	return 0;
}

/* A dimension along which an operand is denser than along dimension 0, or 0. */
static unsigned int crossing_dim(const struct openreg_plan *plan)
{
	unsigned int i, d, best = 0;

	for (i = 0; i < plan->naccess && !best; i++) {
		const int64_t *stride = plan->access[i].stride;

		for (d = 1; d < plan->ndim; d++) {
			if (stride[d] && openreg_magnitude(stride[0]) >= 8 &&
			    openreg_magnitude(stride[d]) < openreg_magnitude(stride[best]) &&
			    plan->size[d] >= 8)
				best = d;
		}
	}
	return best;
}

static void move_dim(struct openreg_plan *plan, unsigned int from,
		     unsigned int to)
{
	int64_t size = plan->size[from], stride;
	unsigned int i, d;

	for (d = from; d > to; d--)
		plan->size[d] = plan->size[d - 1];
	plan->size[to] = size;
	for (i = 0; i < plan->naccess; i++) {
		struct openreg_access *access = &plan->access[i];

		stride = access->stride[from];
		for (d = from; d > to; d--)
			access->stride[d] = access->stride[d - 1];
		access->stride[to] = stride;
	}
}

/*
 * If one operand is dense along dimension 0 and another along d, a long line of a tile
 * would touch a cache line for each point. So tiles become squares: this splits dimension
 * 0 in two and moves d between them.
 */
static void make_squares(struct openreg_plan *plan)
{
	unsigned int d, i, last = plan->ndim;
	int64_t side;

	if (plan->ndim < 2 || plan->ndim == OPENREG_DIMS_MAX ||
	    plan->size[0] <= 64)
		return;
	d = crossing_dim(plan);
	side = block_side(plan->size[0]);
	if (!d || !side)
		return;
	move_dim(plan, d, 1);
	plan->size[last] = plan->size[0] / side;
	plan->size[0] = side;
	for (i = 0; i < plan->naccess; i++)
		plan->access[i].stride[last] = plan->access[i].stride[0] * side;
	plan->ndim++;
	move_dim(plan, last, 2);
	plan->inner_dims = plan->ndim;
}

/*
 * Rows across lines: gives a tile fewer of them, so that all tiles of a unit stay in the
 * cache from stage to stage. Rows that are too long for that keep wide tiles, which touch
 * fewer pages.
 */
static void narrow_units(struct openreg_plan *plan)
{
	int64_t row = 1, points;
	unsigned int d;

	for (d = plan->inner_dims; d < plan->ndim; d++)
		row *= plan->size[d];
	points = UNIT_POINTS / row;
	if (points >= UNIT_WIDTH && points < plan->points &&
	    points < openreg_inner_volume(plan))
		plan->points = points;
}

static void cut(struct openreg_plan *plan)
{
	unsigned int d, split = 0;
	int64_t volume = 1;

	if (plan->nstages > 1 && !plan->red.folds_inner)
		narrow_units(plan);
	while (split + 1 < plan->ndim &&
	       volume * plan->size[split] <= plan->points)
		volume *= plan->size[split++];
	plan->split = split;
	plan->volume = volume;
	plan->chunk = plan->points / volume;
	if (plan->chunk > plan->size[split])
		plan->chunk = plan->size[split];
	plan->tiles = 1;
	for (d = split; d < plan->ndim; d++) {
		plan->digits[d] = plan->size[d];
		if (d == split)
			plan->digits[d] =
				(plan->size[d] + plan->chunk - 1) / plan->chunk;
		plan->tiles *= plan->digits[d];
	}
}

/*
 * Finds how far an access has one stride. With chunk 1, a tile has a single coordinate
 * along dimension split, so the stride along it does not matter.
 */
static void find_runs(const struct openreg_plan *plan,
		      struct openreg_access *access)
{
	unsigned int d = 1;

	access->run = plan->size[0];
	while (d <= plan->split &&
	       (access->stride[d] == access->stride[0] * access->run ||
		(d == plan->split && plan->chunk == 1)))
		access->run *= plan->size[d++];
	access->run_dims = d;
	access->across = plan->split == 1 && d == 1 && plan->chunk >= 8 &&
			 access->stride[1] &&
			 openreg_magnitude(access->stride[1]) <
				 openreg_magnitude(access->stride[0]);
}

void openreg_plan_dims(struct openreg_plan *plan,
		       const struct openreg_args *args)
{
	struct dims dims;
	unsigned int i;

	collect(&dims, args);
	if (plan->red.nfolds) {
		group(plan, &dims);
	} else {
		if (dims.n > 1)
			sort(plan, &dims);
		plan->inner_dims = dims.n;
	}
	merge(plan, &dims);
	if (plan->ndim == 0) {
		plan->ndim = 1;
		plan->inner_dims = 1;
		plan->size[0] = 1;
		plan->red.folds_inner = false;
		for (i = 0; i < plan->naccess; i++)
			plan->access[i].stride[0] = 0;
	}
	if (!plan->red.nfolds)
		make_squares(plan);
	cut(plan);
	for (i = 0; i < plan->naccess; i++)
		find_runs(plan, &plan->access[i]);
}
