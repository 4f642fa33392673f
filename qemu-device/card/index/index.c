/* SPDX-License-Identifier: MIT */
/* INDEX: checks a packet and runs tiles. */
#include "index.h"

enum { DST, SRC, FIRST_INDEX };

static struct openreg_verdict check_form(const struct openreg_args *args)
{
	const uint32_t none = OPENREG_NO_OPERAND;

	if (args->arg[0] >= OPENREG_INDEX_END)
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->arg[0]);
	if (args->arg[1] & ~OPENREG_INDEX_WRAP || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->arg[1]);
	if (args->nops <= FIRST_INDEX ||
	    args->nops > FIRST_INDEX + OPENREG_INDEX_OPERANDS_MAX ||
	    args->nimm != 2 * (args->nops - FIRST_INDEX) || args->ninstr)
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->nops);
	if (args->arg[2] >> (args->nops - FIRST_INDEX) ||
	    (args->arg[2] && args->arg[0] == OPENREG_INDEX_GET))
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->arg[2]);
	return openreg_good();
}

static struct openreg_verdict check_data(struct openreg_args *args)
{
	bool get = args->arg[0] == OPENREG_INDEX_GET;
	bool moves = args->arg[0] <= OPENREG_INDEX_PUT;
	unsigned int all = (1u << (args->nops - FIRST_INDEX)) - 1, d;

	for (d = DST; d <= SRC; d++) {
		if (!(moves ? openreg_dtype_size(args->op[d].dtype) :
			      openreg_dtype_is_common(args->op[d].dtype)) ||
		    args->op[d].dtype != args->op[DST].dtype)
			return openreg_bad(OPENREG_FAULT_DTYPE, d,
					   args->op[d].dtype);
	}
	for (d = 0; d < args->ndim && get; d++) {
		if (args->size[d] > 1 && args->op[DST].stride[d] == 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, DST, d);
	}
	args->op[DST].written = true;
	args->op[DST].read = args->arg[0] > OPENREG_INDEX_PUT;
	args->op[SRC].read = true;
	args->op[SRC].indirect = get ? (uint8_t)all : args->arg[2];
	args->op[DST].indirect = get ? 0 : (uint8_t)(all & ~args->arg[2]);
	return openreg_good();
}

static struct openreg_verdict check_indices(struct openreg_args *args)
{
	unsigned int i, k;

	args->nextents = args->nops - FIRST_INDEX;
	for (k = 0; k < args->nextents; k++) {
		i = FIRST_INDEX + k;
		if (args->op[i].dtype != OPENREG_I64 &&
		    args->op[i].dtype != OPENREG_I32)
			return openreg_bad(OPENREG_FAULT_DTYPE, i,
					   args->op[i].dtype);
		args->extent[k] = (int64_t)args->imm[2 * k];
		args->step[k] = (int64_t)args->imm[2 * k + 1];
		if (args->extent[k] < 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, i,
					   args->imm[2 * k]);
		args->op[i].read = true;
	}
	return openreg_good();
}

static struct openreg_verdict index_check(struct openreg_args *args)
{
	struct openreg_verdict v = check_form(args);
	unsigned int i;

	if (!v.code)
		v = check_data(args);
	if (!v.code)
		v = check_indices(args);
	for (i = 0; i < args->nops && !v.code; i++)
		args->op[i].dims = (1u << args->ndim) - 1;
	return v;
}

static bool index_setup(struct openreg_job *job,
			struct openreg_scratch *scratch)
{
	struct openreg_index_plan *plan =
		(struct openreg_index_plan *)job->priv;
	int64_t slices, phases;

	(void)scratch;
	if (!openreg_index_make(plan, job->args))
		return true;
	slices = (plan->free_units + plan->slice_units - 1) / plan->slice_units;
	phases = (plan->ordered_units + plan->phase_units - 1) /
		 plan->phase_units;
	if (slices > UINT32_MAX || phases > UINT32_MAX)
		return false;
	job->slices[0] = (uint32_t)slices;
	job->phases = (unsigned int)phases;
	return true;
}

static uint32_t index_slices(const struct openreg_job *job, unsigned int phase)
{
	(void)phase;
	return job->slices[0];
}

/* The dimension of digit i. */
static unsigned int digit(const struct openreg_index_plan *plan, unsigned int i)
{
	return plan->short_first && (i == 1 || i == 2) ? 3 - i : i;
}

/* Moves to number i in one group of digits. */
static void seek(const struct openreg_index_plan *plan, int64_t *at, bool free,
		 int64_t i)
{
	unsigned int k, d;

	for (k = 0; k < plan->ndim; k++) {
		d = digit(plan, k);
		if (plan->free[d] != free)
			continue;
		at[d] = i % plan->digits[d];
		i /= plan->digits[d];
	}
}

static void next(const struct openreg_index_plan *plan, int64_t *at, bool free)
{
	unsigned int k, d;

	for (k = 0; k < plan->ndim; k++) {
		d = digit(plan, k);
		if (plan->free[d] != free)
			continue;
		if (++at[d] < plan->digits[d])
			return;
		at[d] = 0;
	}
}

/* Modulo 2^64: strides along unused coordinates can have any value. */
static uintptr_t place(const struct openreg_index_plan *plan, const int64_t *at,
		       uintptr_t base, const int64_t *stride)
{
	unsigned int d;

	for (d = 0; d < plan->ndim; d++) {
		uint64_t n = (uint64_t)at[d];

		if (d < 2)
			n *= (uint64_t)plan->block[d];
		base += n * (uint64_t)stride[d];
	}
	return base;
}

static struct openreg_verdict outside(const struct openreg_index_operand *op,
				      unsigned int k, const int64_t *index)
{
	const struct openreg_index_range *range = &op->range;
	struct openreg_verdict v = { .code = OPENREG_FAULT_INDEX,
				     .operand = FIRST_INDEX + k,
				     .address = range->extent };

	for (;; index++) {
		uint64_t at = (uint64_t)*index;

		if (range->wrap && *index < 0)
			at += range->extent;
		if (at >= range->extent)
			break;
	}
	v.detail = (uint64_t)*index;
	return v;
}

/* Finds the offsets of a tile's points in one of the data operands, in bytes. */
static bool find_offsets(struct openreg_job *job,
			 const struct openreg_index_plan *plan,
			 const int64_t *at, bool of_source, uint64_t *off,
			 int64_t n)
{
	const struct openreg_kernels *kernels = plan->kernels;
	int64_t index[OPENREG_INDEX_WALK];
	uint64_t walk = (uint64_t)(of_source ? plan->src_stride[1] :
					       plan->dst_stride[1]);
	unsigned int k;
	int64_t i;

	kernels->index_walk(off, walk, (size_t)n);
	for (k = 0; k < plan->nindex; k++) {
		const struct openreg_index_operand *op = &plan->index[k];

		if (op->of_source != of_source)
			continue;
		kernels->index_read[!op->narrow](
			index, place(plan, at, op->base, op->stride),
			op->stride[1], (size_t)n);
		if (!kernels->index_offsets(&op->range, index, off, (size_t)n))
			return openreg_job_fail(job, outside(op, k, index));
	}
	for (i = n; i < n + OPENREG_INDEX_AHEAD; i++)
		off[i] = off[n - 1];
	return true;
}

/* Runs one point at a time, because each has its own source. */
static bool run_points(struct openreg_job *job,
		       const struct openreg_index_plan *plan, const int64_t *at,
		       struct openreg_index_tile tile)
{
	uint64_t from[OPENREG_INDEX_WALK + OPENREG_INDEX_AHEAD];
	const char *src = tile.src;
	int64_t n = tile.walk, i;

	if (!find_offsets(job, plan, at, true, from, n))
		return false;
	tile.walk = 1;
	for (i = 0; i < n; i++, tile.off++) {
		tile.src = (const char *)((uintptr_t)src + from[i]);
		plan->run(&tile);
	}
	return true;
}

static int64_t part(const struct openreg_index_plan *plan, const int64_t *at,
		    unsigned int d)
{
	int64_t left = plan->size[d] - at[d] * plan->block[d];

	return left < plan->block[d] ? left : plan->block[d];
}

static void run_lines(const struct openreg_index_plan *plan,
		      struct openreg_index_tile tile)
{
	int64_t n = tile.run;

	for (tile.run = 1; n; n--) {
		plan->run(&tile);
		tile.dst += tile.dst_run;
		tile.src += tile.src_run;
	}
}

static bool run_tile(struct openreg_job *job,
		     const struct openreg_index_plan *plan, const int64_t *at)
{
	uint64_t off[OPENREG_INDEX_WALK + OPENREG_INDEX_AHEAD];
	struct openreg_index_tile tile = {
		.off = (const int64_t *)off,
		.walk = part(plan, at, 1),
		.run = part(plan, at, 0),
		.direct = plan->get ? plan->dst_stride[1] : plan->src_stride[1],
		.dst_run = plan->dst_stride[0],
		.src_run = plan->src_stride[0],
	};

	if (!find_offsets(job, plan, at, plan->get, off, tile.walk))
		return false;
	tile.dst = (char *)place(plan, at, plan->dst, plan->dst_stride);
	tile.src = (const char *)place(plan, at, plan->src, plan->src_stride);
	if (plan->both)
		return run_points(job, plan, at, tile);
	if (plan->lines)
		run_lines(plan, tile);
	else
		plan->run(&tile);
	return true;
}

static bool index_run(struct openreg_job *job, unsigned int phase,
		      uint32_t slice, struct openreg_scratch *scratch)
{
	const struct openreg_index_plan *plan =
		(const struct openreg_index_plan *)job->priv;
	int64_t first = slice * plan->slice_units, i, k;
	int64_t begin = phase * plan->phase_units;
	int64_t at[OPENREG_INDEX_DIMS];

	(void)scratch;
	seek(plan, at, true, first);
	for (i = first; i < first + plan->slice_units && i < plan->free_units;
	     i++) {
		seek(plan, at, false, begin);
		for (k = begin; k < begin + plan->phase_units &&
				k < plan->ordered_units; k++) {
			if (!run_tile(job, plan, at))
				return false;
			next(plan, at, false);
		}
		next(plan, at, true);
	}
	return true;
}

const struct openreg_engine openreg_index_engine = {
	.check = index_check,
	.job_size = sizeof(struct openreg_index_plan),
	.setup = index_setup,
	.slices = index_slices,
	.run = index_run,
};
