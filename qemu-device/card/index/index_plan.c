/* SPDX-License-Identifier: MIT */
/*
 * INDEX: orders the dimensions, and cuts the work into tiles, slices and phases.
 */
#include <string.h>

#include "index.h"
#include "job/dims.h"

enum { DST, SRC, FIRST_INDEX };

/* Parts that a destination is cut into, where other dimensions give few tiles. */
#define SHARES 8
#define SHARE_BYTES 1024 /* shortest part of a run, since each part reads all indices */
#define SHARE_WALK 256 /* shortest part of a walk, since each tile has a start cost */
#define NEAR_BYTES (1 << 21) /* an indirect operand up to this size is cached */
#define SHORT_WALK 32 /* with fewer points, the start of a tile costs too much */

/* Merged dimensions of the packet, outermost first. */
struct dims {
	unsigned int n;
	int64_t size[OPENREG_DIMS_MAX];
	int64_t stride[OPENREG_OPERANDS_MAX][OPENREG_DIMS_MAX];
	const struct openreg_args *args;
};

/* Returns false if the space is empty. */
static bool collect(struct dims *dims, const struct openreg_args *args)
{
	int64_t *stride[OPENREG_OPERANDS_MAX];
	unsigned int d, i;

	dims->args = args;
	for (d = 0; d < args->ndim; d++) {
		if (args->size[d] == 0)
			return false;
		dims->size[d] = args->size[d];
		for (i = 0; i < args->nops; i++)
			dims->stride[i][d] = args->op[i].stride[d];
	}
	for (i = 0; i < args->nops; i++)
		stride[i] = dims->stride[i];
	dims->n = openreg_merge_dims(args->ndim, dims->size, stride, args->nops,
				     OPENREG_OUTER_FIRST);
	return true;
}

/* Moves a dimension to the end. */
static void move_last(struct dims *dims, unsigned int from)
{
	int64_t size = dims->size[from], stride;
	unsigned int i, d;

	for (d = from; d + 1 < dims->n; d++)
		dims->size[d] = dims->size[d + 1];
	dims->size[d] = size;
	for (i = 0; i < dims->args->nops; i++) {
		stride = dims->stride[i][from];
		for (d = from; d + 1 < dims->n; d++)
			dims->stride[i][d] = dims->stride[i][d + 1];
		dims->stride[i][d] = stride;
	}
}

struct component {
	uint64_t stride;
	int64_t count;
};

static void insert(struct component *c, unsigned int *n, uint64_t stride,
		   int64_t count)
{
	unsigned int i = (*n)++;

	for (; i && c[i - 1].stride > stride; i--)
		c[i] = c[i - 1];
	c[i] = (struct component){ stride, count };
}

/*
 * Do coordinates and indices number the elements of the destination like digits? Then
 * only one combination of them reaches an element.
 */
static bool is_numbering(const struct dims *dims)
{
	struct component c[OPENREG_DIMS_MAX + OPENREG_INDEX_OPERANDS_MAX];
	const struct openreg_args *args = dims->args;
	unsigned __int128 below = 0;
	unsigned int n = 0, i;

	for (i = 0; i < dims->n; i++) {
		if (dims->stride[DST][i])
			insert(c, &n, openreg_magnitude(dims->stride[DST][i]),
			       dims->size[i]);
	}
	for (i = 0; i < args->nextents; i++) {
		if (args->op[DST].indirect & 1u << i && args->extent[i] > 1 &&
		    args->step[i])
			insert(c, &n, openreg_magnitude(args->step[i]),
			       args->extent[i]);
	}
	for (i = 0; i < n; i++) {
		if (c[i].stride <= below)
			return false;
		below += (unsigned __int128)c[i].stride *
			 (uint64_t)(c[i].count - 1);
	}
	return true;
}

static bool is_free(const struct dims *dims, unsigned int d, bool put,
		    bool numbering)
{
	return !put || (numbering && dims->stride[DST][d] != 0);
}

/* Can the dimension be the run? No index changes along it, and it is long enough. */
static bool can_run(const struct dims *dims, unsigned int d)
{
	unsigned int esize = openreg_dtype_size(dims->args->op[DST].dtype), i;
	bool dense = dims->stride[DST][d] == 1 && dims->stride[SRC][d] == 1;

	for (i = FIRST_INDEX; i < dims->args->nops; i++) {
		if (dims->stride[i][d])
			return false;
	}
	return dims->size[d] * (dense ? esize : 1) >= 8;
}

/*
 * Moves the best run to the end. Returns false if no dimension can be the run. Only free
 * dimensions may move: moving another one would change which write is the last.
 */
static bool place_run(struct dims *dims, bool put, bool numbering)
{
	const int64_t *stride = dims->stride[DST];
	unsigned int d, best = dims->n;

	for (d = 0; d < dims->n; d++) {
		bool last = d == dims->n - 1;

		if (!can_run(dims, d) ||
		    !(last || is_free(dims, d, put, numbering)))
			continue;
		if (best == dims->n ||
		    openreg_magnitude(stride[d]) < openreg_magnitude(stride[best]))
			best = d;
	}
	if (best == dims->n)
		return false;
	move_last(dims, best);
	return true;
}

/*
 * Replaces a short walk by a longer free dimension, from the first n. Returns true if it
 * did.
 */
static bool place_walk(struct dims *dims, unsigned int n, bool put,
		       bool numbering)
{
	unsigned int d, best = n - 1;
	bool runs = n < dims->n;

	if (n < 2 || dims->size[n - 1] >= SHORT_WALK)
		return false;
	for (d = 0; d + 1 < n; d++) {
		if (is_free(dims, d, put, numbering) &&
		    dims->size[d] > dims->size[best])
			best = d;
	}
	if (best == n - 1)
		return false;
	move_last(dims, best);
	if (runs)
		move_last(dims, n - 1);
	return true;
}

static void add_dim(struct openreg_index_plan *plan, const struct dims *dims,
		    int from, bool free)
{
	uint64_t esize = openreg_dtype_size(dims->args->op[DST].dtype);
	unsigned int to = plan->ndim++, k;

	plan->size[to] = from < 0 ? 1 : dims->size[from];
	plan->free[to] = from < 0 || free;
	plan->dst_stride[to] = 0;
	plan->src_stride[to] = 0;
	for (k = 0; k < plan->nindex; k++)
		plan->index[k].stride[to] = 0;
	if (from < 0)
		return;
	plan->dst_stride[to] =
		(int64_t)((uint64_t)dims->stride[DST][from] * esize);
	plan->src_stride[to] =
		(int64_t)((uint64_t)dims->stride[SRC][from] * esize);
	for (k = 0; k < plan->nindex; k++) {
		esize = plan->index[k].narrow ? 4 : 8;
		plan->index[k].stride[to] = (int64_t)(
			(uint64_t)dims->stride[FIRST_INDEX + k][from] * esize);
	}
}

static openreg_index_fn *find_run(const struct openreg_kernels *k,
				  unsigned int mode, unsigned int dtype)
{
	unsigned int size =
		(unsigned int)__builtin_ctz(openreg_dtype_size(dtype));

	if (mode == OPENREG_INDEX_GET)
		return k->index_get[size];
	if (mode == OPENREG_INDEX_PUT)
		return k->index_put[size];
	return k->index_combine[dtype][mode - OPENREG_INDEX_ADD];
}

static void set_operands(struct openreg_index_plan *plan,
			 const struct openreg_args *args)
{
	uint64_t esize = openreg_dtype_size(args->op[DST].dtype);
	unsigned int k;

	plan->kernels = openreg_kernels();
	plan->run = find_run(plan->kernels, args->arg[0], args->op[DST].dtype);
	plan->get = args->arg[0] == OPENREG_INDEX_GET;
	plan->both = args->arg[2] != 0;
	plan->dst = (uintptr_t)args->op[DST].ptr;
	plan->src = (uintptr_t)args->op[SRC].ptr;
	plan->nindex = args->nextents;
	for (k = 0; k < plan->nindex; k++) {
		struct openreg_index_operand *op = &plan->index[k];

		op->base = (uintptr_t)args->op[FIRST_INDEX + k].ptr;
		op->narrow = args->op[FIRST_INDEX + k].dtype == OPENREG_I32;
		op->range.extent = (uint64_t)args->extent[k];
		/* With an extent of 1 the step is not used, and can have any value. */
		op->range.step = args->extent[k] > 1 ?
					 (uint64_t)args->step[k] * esize :
					 0;
		op->of_source = args->op[SRC].indirect & 1u << k;
		op->range.wrap = args->arg[1] & OPENREG_INDEX_WRAP;
	}
}

static void set_dims(struct openreg_index_plan *plan, struct dims *dims,
		     bool put)
{
	bool numbering = put && is_numbering(dims);
	bool runs = place_run(dims, put, numbering);
	unsigned int walks = dims->n - runs;
	int d;

	plan->short_first = place_walk(dims, walks, put, numbering);
	plan->ndim = 0;
	d = (int)dims->n - 1;
	add_dim(plan, dims, runs ? d : -1,
		runs && is_free(dims, (unsigned int)d, put, numbering));
	d -= runs;
	add_dim(plan, dims, d, d >= 0 && is_free(dims, (unsigned int)d, put,
						 numbering));
	while (--d >= 0)
		add_dim(plan, dims, d,
			is_free(dims, (unsigned int)d, put, numbering));
}

/* The number of free tiles, without those along the run. */
static int64_t free_parts(const struct openreg_index_plan *plan)
{
	int64_t parts = 1;
	unsigned int d;

	for (d = 1; d < plan->ndim; d++) {
		if (plan->free[d])
			parts *= plan->digits[d];
	}
	return parts;
}

static int64_t pieces(int64_t size, int64_t piece)
{
	return (size + piece - 1) / piece;
}

/* Points of a part of a walk that workers share. */
static int64_t share_of(int64_t size, int64_t most)
{
	int64_t share = pieces(size, SHARES);

	if (share < SHARE_WALK)
		share = SHARE_WALK;
	return share < most ? share : most;
}

/* Sets the size of a tile. An ordered run must end before the next point begins. */
static void set_blocks(struct openreg_index_plan *plan, int64_t esize, bool put)
{
	int64_t run = OPENREG_INDEX_RUN / esize, walk = plan->size[1], shares;
	unsigned int d;

	if (walk > OPENREG_INDEX_WALK)
		walk = OPENREG_INDEX_WALK;
	plan->digits[1] = pieces(plan->size[1], walk);
	for (d = 2; d < plan->ndim; d++)
		plan->digits[d] = plan->size[d];
	/* There are few other free tiles: cuts the walk, so that workers can share it. */
	if (put && plan->size[0] == 1 && plan->free[1] && free_parts(plan) < SHARES)
		walk = share_of(plan->size[1], walk);
	plan->block[1] = walk;
	plan->digits[1] = pieces(plan->size[1], walk);
	/* Lines along a dense walk: keeps them long, and takes less of the run. */
	plan->lines = plan->size[0] > 1 && plan->free[0] && !plan->both &&
		      (put ? plan->src_stride : plan->dst_stride)[1] == esize;
	if (plan->lines && run > OPENREG_INDEX_RUN / esize / walk)
		run = OPENREG_INDEX_RUN / esize / walk;
	shares = put && plan->free[0] ? SHARES / free_parts(plan) : 0;
	if (shares > 1 && pieces(plan->size[0], shares) < run)
		run = pieces(plan->size[0], shares);
	if (shares > 1 && !plan->lines && run * esize < SHARE_BYTES)
		run = SHARE_BYTES / esize;
	plan->block[0] = plan->size[0] < run ? plan->size[0] : run;
	plan->digits[0] = pieces(plan->size[0], plan->block[0]);
	/* No other point may come between the pieces of an ordered run. */
	run = OPENREG_INDEX_RUN / esize / plan->block[0];
	if (plan->digits[0] > 1 && !plan->free[0])
		run = 1;
	if (run < 1)
		run = 1;
	if (plan->block[1] > run)
		plan->block[1] = run;
	plan->digits[1] = pieces(plan->size[1], plan->block[1]);
}

/* Estimated time of a tile in ns; slow memory may take several times as long. */
static double tile_ns(const struct openreg_index_plan *plan, int64_t esize)
{
	double run = (double)plan->block[0];
	double point = 2 * plan->nindex + 3;
	double reach = 0;
	unsigned int k;
	bool dense = plan->dst_stride[0] == esize &&
		     plan->src_stride[0] == esize;

	for (k = 0; k < plan->nindex; k++)
		reach += (double)plan->index[k].range.extent *
			 (double)openreg_magnitude((int64_t)plan->index[k].range.step);
	if (reach > NEAR_BYTES)
		point += 15;
	if (plan->block[0] > 1)
		point += 5 + run * (dense ? 0.15 * (double)esize : 2);
	return 60 + point * (double)plan->block[1];
}

static void cut(struct openreg_index_plan *plan, int64_t esize)
{
	double ns = tile_ns(plan, esize), total;
	int64_t budget = (int64_t)(OPENREG_SLICE_NS / ns) + 1;
	unsigned int d;

	plan->free_units = 1;
	plan->ordered_units = 1;
	for (d = 0; d < plan->ndim; d++)
		*(plan->free[d] ? &plan->free_units : &plan->ordered_units) *=
			plan->digits[d];
	plan->phase_units = budget < plan->ordered_units ? budget :
							   plan->ordered_units;
	ns *= (double)plan->phase_units;
	total = ns * (double)plan->free_units;
	plan->slice_units = (int64_t)(openreg_slice_ns(total) / ns) + 1;
}

bool openreg_index_make(struct openreg_index_plan *plan,
			const struct openreg_args *args)
{
	bool put = args->arg[0] != OPENREG_INDEX_GET;
	int64_t esize = openreg_dtype_size(args->op[DST].dtype);
	struct dims dims;

	if (!collect(&dims, args))
		return false;
	set_operands(plan, args);
	set_dims(plan, &dims, put);
	set_blocks(plan, esize, put);
	cut(plan, esize);
	return true;
}
