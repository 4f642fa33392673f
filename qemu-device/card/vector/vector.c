// SPDX-License-Identifier: MIT
/* VECTOR: running a plan over a range of tiles. */
#include <string.h>

#include "vector.h"

static void measure(const struct openreg_plan *plan, struct openreg_tile *tile)
{
	int64_t left = plan->size[plan->split] -
		       tile->at[plan->split] * plan->chunk;

	tile->chunk = left < plan->chunk ? left : plan->chunk;
	tile->n = plan->volume * tile->chunk;
}

void openreg_tile_seek(const struct openreg_plan *plan,
		       struct openreg_tile *tile, unsigned int lo,
		       unsigned int hi, int64_t i)
{
	unsigned int d;

	for (d = lo; d < hi; d++) {
		tile->at[d] = i % plan->digits[d];
		i /= plan->digits[d];
	}
	measure(plan, tile);
}

void openreg_tile_next(const struct openreg_plan *plan,
		       struct openreg_tile *tile, unsigned int lo,
		       unsigned int hi)
{
	unsigned int d;

	for (d = lo; d < hi; d++) {
		if (++tile->at[d] < plan->digits[d])
			break;
		tile->at[d] = 0;
	}
	measure(plan, tile);
}

uintptr_t openreg_tile_address(const struct openreg_plan *plan,
			       const struct openreg_tile *tile,
			       const struct openreg_access *access)
{
	unsigned int d = plan->split;
	int64_t elements = tile->at[d] * plan->chunk * access->stride[d];

	for (d++; d < plan->ndim; d++)
		elements += tile->at[d] * access->stride[d];
	return access->base + (uintptr_t)(elements * access->esize);
}

/* Coordinates within a tile along the dimensions lo .. hi. */
struct walk {
	unsigned int lo, hi;
	int64_t at[OPENREG_DIMS_MAX];
};

/* Moves to the next run of an access. Returns false after the last. */
static bool walk_next(const struct openreg_plan *plan,
		      const struct openreg_tile *tile,
		      const struct openreg_access *access, struct walk *walk,
		      uintptr_t *address)
{
	unsigned int d;

	for (d = walk->lo; d <= walk->hi; d++) {
		int64_t size = d == plan->split ? tile->chunk : plan->size[d];
		uintptr_t step = (uintptr_t)(access->stride[d] * access->esize);

		*address += step;
		if (++walk->at[d] < size)
			return true;
		*address -= step * (uintptr_t)size;
		walk->at[d] = 0;
	}
	return false;
}

/* Sets walk->lo to the end of the dimensions from lo on that form one run. */
static int64_t run_along(const struct openreg_plan *plan,
			 const struct openreg_tile *tile,
			 const struct openreg_access *access, unsigned int lo,
			 struct walk *walk)
{
	unsigned int d = lo;
	int64_t run = 1;

	do
		run *= d == plan->split ? tile->chunk : plan->size[d];
	while (++d <= walk->hi &&
	       access->stride[d] == access->stride[lo] * run);
	walk->lo = d;
	return run;
}

/* Loads n elements of an operand, an index or a random stream. */
static void fetch(const struct openreg_step *step, void *dst, uintptr_t address,
		  int64_t stride, int64_t n)
{
	if (step->kind == OPENREG_STEP_RANDOM)
		step->random(dst, step->philox, address, stride, (size_t)n);
	else
		step->load(dst, (const void *)address, stride, (size_t)n);
}

/* Loads lines along dimension 1, where the operand is denser, and transposes them. */
static void load_across(const struct openreg_plan *plan,
			const struct openreg_tile *tile,
			const struct openreg_step *step, uintptr_t address,
			unsigned char *dst)
{
	const struct openreg_access *access = &plan->access[step->access];
	uint64_t line[OPENREG_TILE];
	const uint32_t *narrow = (const uint32_t *)line;
	uint32_t *d32 = (uint32_t *)dst;
	uint64_t *d64 = (uint64_t *)dst;
	int64_t size = plan->size[0], i, j;

	if (step->alias && step->width == 4 && access->stride[1] == 1) {
		openreg_transpose((uintptr_t)dst, (uintptr_t)size * 4, address,
				  (uintptr_t)access->stride[0] * 4, size, tile->chunk);
		return;
	}
	for (i = 0; i < size; i++) {
		fetch(step, line, address, access->stride[1], tile->chunk);
		address += (uintptr_t)(access->stride[0] * access->esize);
		if (step->width == 4) {
			for (j = 0; j < tile->chunk; j++)
				d32[j * size + i] = narrow[j];
		} else {
			for (j = 0; j < tile->chunk; j++)
				d64[j * size + i] = line[j];
		}
	}
}

static void load(const struct openreg_plan *plan,
		 const struct openreg_tile *tile,
		 const struct openreg_step *step,
		 struct openreg_tile_state *state)
{
	const struct openreg_access *access = &plan->access[step->access];
	struct walk walk = { .lo = access->run_dims, .hi = plan->split };
	uintptr_t address = openreg_tile_address(plan, tile, access);
	unsigned char *dst = state->buffer[step->dst];
	int64_t stride = access->stride[0];

	state->reg[step->dst] = dst;
	if (access->run_dims > plan->split) {
		if (step->alias && stride == 1)
			state->reg[step->dst] = (const void *)address;
		else
			fetch(step, dst, address, stride,
			      step->one ? 1 : tile->n);
		return;
	}
	if (access->across) {
		load_across(plan, tile, step, address, dst);
		return;
	}
	do {
		fetch(step, dst, address, stride, access->run);
		dst += access->run * step->width;
	} while (walk_next(plan, tile, access, &walk, &address));
}

void openreg_tile_store(const struct openreg_plan *plan,
			const struct openreg_tile *tile,
			const struct openreg_access *access, unsigned int lo,
			unsigned int hi, openreg_store_fn *fn, const void *reg,
			unsigned int width)
{
	struct walk walk = { .hi = hi };
	uintptr_t address = openreg_tile_address(plan, tile, access);
	int64_t run = run_along(plan, tile, access, lo, &walk);
	const unsigned char *src = reg;

	do {
		fn((void *)address, access->stride[lo], src, (size_t)run);
		src += run * width;
	} while (walk_next(plan, tile, access, &walk, &address));
}

void openreg_tile_load(const struct openreg_plan *plan,
		       const struct openreg_tile *tile,
		       const struct openreg_step *step, unsigned int lo,
		       unsigned int hi, void *dst)
{
	const struct openreg_access *access = &plan->access[step->access];
	struct walk walk = { .hi = hi };
	uintptr_t address = openreg_tile_address(plan, tile, access);
	int64_t run = run_along(plan, tile, access, lo, &walk);
	unsigned char *to = dst;

	do {
		fetch(step, to, address, access->stride[lo], run);
		to += run * step->width;
	} while (walk_next(plan, tile, access, &walk, &address));
}

static void store(const struct openreg_plan *plan,
		  const struct openreg_tile *tile,
		  const struct openreg_step *step,
		  struct openreg_tile_state *state)
{
	const struct openreg_access *access = &plan->access[step->access];
	const void *reg = state->reg[step->a];

	if (access->run_dims > plan->split)
		step->store((void *)openreg_tile_address(plan, tile, access),
			    access->stride[0], reg, (size_t)tile->n);
	else
		openreg_tile_store(plan, tile, access, 0, plan->split,
				   step->store, reg, step->width);
}

static void fill(const struct openreg_step *step, int64_t n,
		 struct openreg_tile_state *state)
{
	uint32_t *narrow = (uint32_t *)state->buffer[step->dst];
	uint64_t *wide = (uint64_t *)state->buffer[step->dst];
	int64_t i;

	state->reg[step->dst] = narrow;
	n = step->one ? 1 : n;
	if (step->width == 4) {
		for (i = 0; i < n; i++)
			narrow[i] = (uint32_t)step->imm;
	} else {
		for (i = 0; i < n; i++)
			wide[i] = step->imm;
	}
}

void openreg_tile_init(struct openreg_tile_state *state, void *memory)
{
	unsigned int i;

	for (i = 0; i < OPENREG_TILE_BUFFERS; i++) {
		state->buffer[i] =
			(unsigned char *)memory + (size_t)i * OPENREG_TILE * 8;
		state->reg[i] = state->buffer[i];
	}
	memset(state->filled, 0, sizeof(state->filled));
}

static void find_ahead(const struct openreg_plan *plan,
		       const struct openreg_tile *tile,
		       const struct openreg_stage *stage,
		       struct openreg_tile_state *state)
{
	unsigned int i;

	state->naheads = 0;
	for (i = stage->step; plan->lines_ahead && i < stage->end; i++) {
		const struct openreg_step *step = &plan->step[i];
		const struct openreg_access *access = &plan->access[step->access];

		if ((step->kind == OPENREG_STEP_LOAD ||
		     step->kind == OPENREG_STEP_STORE) &&
		    access->run_dims > plan->split && access->stride[0] == 1 &&
		    state->naheads < OPENREG_OPERANDS_MAX)
			state->ahead[state->naheads++] =
				openreg_tile_address(plan, tile, access) +
				(uintptr_t)(tile->n * access->esize);
	}
}

/*
 * Long programs compute for longer than the host's own prefetcher looks ahead. Fetches a part
 * of the next tile after each step, so that memory is not idle meanwhile.
 */
static void fetch_ahead(const struct openreg_plan *plan,
			struct openreg_tile_state *state)
{
	unsigned int i, j;

	for (i = 0; i < state->naheads; i++) {
		for (j = 0; j < plan->lines_ahead; j++) {
			__builtin_prefetch((const void *)state->ahead[i]);
			state->ahead[i] += OPENREG_LINE;
		}
	}
}

void openreg_tile_run(const struct openreg_plan *plan, unsigned int stage,
		      const struct openreg_tile *tile,
		      struct openreg_tile_state *state)
{
	bool filled = tile->n <= state->filled[stage];
	unsigned int i;

	find_ahead(plan, tile, &plan->stage[stage], state);
	for (i = plan->stage[stage].step; i < plan->stage[stage].end; i++) {
		const struct openreg_step *step = &plan->step[i];
		void *dst;

		if (step->once && filled)
			continue;
		switch (step->kind) {
		case OPENREG_STEP_LOAD:
		case OPENREG_STEP_INDEX:
		case OPENREG_STEP_RANDOM:
			load(plan, tile, step, state);
			break;
		case OPENREG_STEP_STORE:
			store(plan, tile, step, state);
			break;
		case OPENREG_STEP_IMM:
			fill(step, tile->n, state);
			break;
		default:
			dst = state->buffer[step->dst];
			step->kernel(dst, state->reg[step->a],
				     state->reg[step->b], state->reg[step->c],
				     step->one ? 1 : (size_t)tile->n);
			state->reg[step->dst] = dst;
			fetch_ahead(plan, state);
		}
	}
	if (!filled)
		state->filled[stage] = tile->n;
}

static void run_tiles(const struct openreg_plan *plan, uint32_t slice,
		      void *memory)
{
	int64_t first = (int64_t)slice * plan->slice_tiles;
	int64_t left = plan->tiles - first;
	struct openreg_tile_state state;
	struct openreg_tile tile;

	if (left > plan->slice_tiles)
		left = plan->slice_tiles;
	memset(tile.at, 0, sizeof(tile.at));
	openreg_tile_init(&state, memory);
	openreg_tile_seek(plan, &tile, plan->split, plan->ndim, first);
	while (left-- > 0) {
		openreg_tile_run(plan, 0, &tile, &state);
		openreg_tile_next(plan, &tile, plan->split, plan->ndim);
	}
}

/* Did the core set the pointers of all operands that the plan accesses? */
static bool has_memory(const struct openreg_plan *plan,
		       const struct openreg_args *args)
{
	const struct openreg_reduction *red = &plan->red;
	unsigned int i;

	for (i = 0; i < red->nfolds; i++) {
		const struct openreg_fold *fold = &red->fold[i];

		if ((fold->value && !fold->value->base) ||
		    (fold->index && !fold->index->base))
			return false;
	}
	for (i = 0; i < args->nops && !red->empty; i++) {
		const struct openreg_arg *op = &args->op[i];

		if ((op->read || op->written) && !op->ptr)
			return false;
	}
	return true;
}

static bool vector_setup(struct openreg_job *job,
			 struct openreg_scratch *scratch)
{
	struct openreg_plan *plan = (struct openreg_plan *)job->priv;
	int64_t slices;

	(void)scratch;
	if (!openreg_plan_make(plan, job->args))
		return true;
	if (!has_memory(plan, job->args))
		return false;
	if (plan->red.nfolds)
		return openreg_reduce_setup(job, plan);
	slices = (plan->tiles + plan->slice_tiles - 1) / plan->slice_tiles;
	if (slices > UINT32_MAX)
		return false;
	job->phases = 1;
	job->slices[0] = (uint32_t)slices;
	return true;
}

static uint32_t vector_slices(const struct openreg_job *job, unsigned int phase)
{
	const struct openreg_plan *plan =
		(const struct openreg_plan *)job->priv;

	return plan->red.nfolds ? openreg_reduce_slices(plan, phase)
			    : job->slices[0];
}

static bool vector_run(struct openreg_job *job, unsigned int phase,
		       uint32_t slice, struct openreg_scratch *scratch)
{
	const struct openreg_plan *plan =
		(const struct openreg_plan *)job->priv;
	void *memory = openreg_scratch_buffer(
		scratch, plan->red.nfolds ? OPENREG_VECTOR_MEMORY
					  : OPENREG_TILE_MEMORY);

	if (!memory)
		return false;
	if (plan->red.nfolds)
		openreg_reduce_run(plan, phase, slice, memory);
	else
		run_tiles(plan, slice, memory);
	return true;
}

const struct openreg_engine openreg_vector_engine = {
	.check = openreg_vector_check,
	.job_size = sizeof(struct openreg_plan),
	.setup = vector_setup,
	.slices = vector_slices,
	.run = vector_run,
};
