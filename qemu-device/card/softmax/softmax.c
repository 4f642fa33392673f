// SPDX-License-Identifier: MIT
/* SOFTMAX: checks a packet and cuts it into blocks; loads and stores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job/dims.h"
#include "softmax.h"

enum { RESULT, INPUT, OUTPUT };

static struct openreg_verdict softmax_check(struct openreg_args *args)
{
	bool backward = args->arg[1] & OPENREG_SOFTMAX_BACKWARD;
	unsigned int i, d, nops = backward ? 3 : 2;

	if (args->arg[1] & ~(OPENREG_SOFTMAX_LOG | OPENREG_SOFTMAX_BACKWARD) ||
	    args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->arg[1]);
	if (args->nops != nops || args->nimm || args->ninstr)
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->nops);
	if (args->arg[0] >= args->ndim)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   args->arg[0]);
	for (i = 0; i < nops; i++) {
		struct openreg_arg *op = &args->op[i];

		if (!openreg_dtype_is_float(op->dtype))
			return openreg_bad(OPENREG_FAULT_DTYPE, i, op->dtype);
		for (d = 0; d < args->ndim && i == RESULT; d++) {
			if (args->size[d] > 1 && op->stride[d] == 0)
				return openreg_bad(OPENREG_FAULT_SHAPE, i, d);
		}
		op->dims = (1u << args->ndim) - 1;
		op->written = i == RESULT;
		op->read = i != RESULT;
	}
	return openreg_good();
}

/*
 * The dimension along which a block has rows across its lines: one where the elements of
 * the input are closer than along the axis, or the longest one if the axis is short.
 * Returns -1 if rows one after another are faster.
 */
static int row_dim(const struct openreg_args *args)
{
	unsigned int axis = args->arg[0], d;
	const int64_t *stride = args->op[INPUT].stride;
	int best = -1;

	for (d = 0; d < args->ndim; d++) {
		if (d == axis || args->size[d] < 2)
			continue;
		if (stride[d] && openreg_magnitude(stride[d]) < openreg_magnitude(stride[axis]))
			if (best < 0 || openreg_magnitude(stride[d]) <
						openreg_magnitude(stride[best]))
				best = (int)d;
	}
	if (best >= 0 && args->size[best] >= 8)
		return best;
	if (args->size[axis] > 20)
		return args->size[axis] > 256 ? best : -1;
	for (d = 0; d < args->ndim; d++) {
		if (d != axis && (best < 0 || args->size[d] > args->size[best]))
			best = (int)d;
	}
	return best >= 0 && args->size[best] >= 8 ? best : -1;
}

static void add_dim(struct openreg_softmax *sm, const struct openreg_args *args,
		    int from)
{
	struct openreg_softmax_operand *op[] = { &sm->result, &sm->input,
						 &sm->output };
	unsigned int i;

	sm->size[sm->ndim] = from < 0 ? 1 : args->size[from];
	for (i = 0; i < args->nops; i++)
		op[i]->stride[sm->ndim] =
			from < 0 ? 0 : args->op[i].stride[from];
	sm->ndim++;
}

static void set_operand(struct openreg_softmax_operand *op,
			const struct openreg_arg *arg)
{
	op->base = (uintptr_t)arg->ptr;
	op->dtype = arg->dtype;
	op->esize = openreg_dtype_size(arg->dtype);
}

/*
 * The dimension along which a block has rows one after another: the longest, or the last
 * of those that are equally long.
 */
static int next_row_dim(const struct openreg_args *args)
{
	unsigned int axis = args->arg[0], d;
	int best = -1;

	for (d = 0; d < args->ndim; d++) {
		if (d != axis && args->size[d] > 1 &&
		    (best < 0 || args->size[d] >= args->size[best]))
			best = (int)d;
	}
	return best;
}

/* Drops dimensions of size 1, so that the others fit with one added for the rows. */
static void order_dims(struct openreg_softmax *sm,
		       const struct openreg_args *args)
{
	int rows = row_dim(args), axis = args->arg[0], d;

	sm->ndim = 0;
	sm->rows = rows < 0;
	if (sm->rows)
		rows = next_row_dim(args);
	add_dim(sm, args, axis);
	add_dim(sm, args, rows);
	for (d = 0; d < args->ndim; d++) {
		if (d != axis && d != rows && args->size[d] > 1)
			add_dim(sm, args, d);
	}
}

static int64_t block_width(const struct openreg_softmax *sm)
{
	int64_t width = OPENREG_SOFTMAX_WIDTH;

	if (sm->rows && width * sm->size[0] > OPENREG_SOFTMAX_ROWS)
		width = OPENREG_SOFTMAX_ROWS / sm->size[0];
	if (width > sm->size[1])
		width = sm->size[1];
	/* Keeps lines long enough for a call each; most blocks then hold whole rows. */
	while (width > 64 && width * sm->size[0] > OPENREG_SOFTMAX_BLOCK)
		width = (width + 1) / 2;
	return width < 1 ? 1 : width;
}

static void cut(struct openreg_softmax *sm)
{
	double ns = (sm->type == OPENREG_VT_F64 ? 16 : 4);
	int64_t width = block_width(sm);
	unsigned int d;

	sm->width = width;
	sm->lines = OPENREG_SOFTMAX_BLOCK / width;
	if (sm->lines > sm->size[0])
		sm->lines = sm->size[0];
	sm->pieces = (sm->size[0] + sm->lines - 1) / sm->lines;
	sm->units = (sm->size[1] + width - 1) / width;
	for (d = 2; d < sm->ndim; d++)
		sm->units *= sm->size[d];
	ns = 100 + ns * (double)(width * sm->size[0]);
	sm->slice_units =
		(int64_t)(openreg_slice_ns(ns * (double)sm->units) / ns) + 1;
}

static bool plan(struct openreg_softmax *sm, const struct openreg_args *args)
{
	unsigned int i;

	sm->type = OPENREG_VT_F32;
	for (i = 0; i < args->nops; i++) {
		if (args->op[i].dtype == OPENREG_F64)
			sm->type = OPENREG_VT_F64;
	}
	for (i = 0; i < args->ndim; i++) {
		if (args->size[i] == 0)
			return false;
	}
	sm->kernels = openreg_kernels();
	sm->esize = sm->type == OPENREG_VT_F64 ? 8 : 4;
	sm->log = args->arg[1] & OPENREG_SOFTMAX_LOG;
	sm->backward = args->arg[1] & OPENREG_SOFTMAX_BACKWARD;
	set_operand(&sm->result, &args->op[RESULT]);
	set_operand(&sm->input, &args->op[INPUT]);
	if (sm->backward) {
		set_operand(&sm->output, &args->op[OUTPUT]);
		sm->output_as_type = sm->output.dtype ==
				     (sm->type == OPENREG_VT_F64 ? OPENREG_F64
								 : OPENREG_F32);
	}
	order_dims(sm, args);
	cut(sm);
	return true;
}

static bool softmax_setup(struct openreg_job *job,
			  struct openreg_scratch *scratch)
{
	struct openreg_softmax *sm = (struct openreg_softmax *)job->priv;
	int64_t slices;

	(void)scratch;
	if (!plan(sm, job->args))
		return true;
	if (sm->pieces == 1) {
		job->phases = 1;
		slices = (sm->units + sm->slice_units - 1) / sm->slice_units;
	} else {
		job->phases = 2;
		slices = sm->units * sm->pieces;
		if (slices > UINT32_MAX)
			return false;
		sm->stats = openreg_job_extra(job, (size_t)(slices * sm->width) *
							   sizeof(*sm->stats));
		if (!sm->stats)
			return false;
	}
	if (slices > UINT32_MAX)
		return false;
	job->slices[0] = job->slices[1] = (uint32_t)slices;
	return true;
}

static void find_block(const struct openreg_softmax *sm,
		       struct openreg_softmax_block *b, int64_t unit,
		       int64_t piece)
{
	int64_t groups = (sm->size[1] + sm->width - 1) / sm->width;
	unsigned int d;

	b->at[0] = piece * sm->lines;
	b->lines = sm->size[0] - b->at[0];
	if (b->lines > sm->lines)
		b->lines = sm->lines;
	b->at[1] = unit % groups * sm->width;
	b->width = sm->size[1] - b->at[1];
	if (b->width > sm->width)
		b->width = sm->width;
	unit /= groups;
	for (d = 2; d < sm->ndim; d++) {
		b->at[d] = unit % sm->size[d];
		unit /= sm->size[d];
	}
}

static uintptr_t block_address(const struct openreg_softmax *sm,
			       const struct openreg_softmax_block *b,
			       const struct openreg_softmax_operand *op)
{
	int64_t at = 0;
	unsigned int d;

	for (d = 0; d < sm->ndim; d++)
		at += b->at[d] * op->stride[d];
	return op->base + (uintptr_t)(at * op->esize);
}

/*
 * The runs of elements to load or store for a block: its lines, or its rows, or all rows
 * at once if they follow one another in memory, too.
 */
struct runs {
	int64_t count, n;
	int64_t stride; /* elements */
	uintptr_t step; /* bytes to the next run, modulo 2^64; the last is not used */
};

static struct runs runs_of(const struct openreg_softmax *sm,
			   const struct openreg_softmax_block *b,
			   const struct openreg_softmax_operand *op)
{
	unsigned int along = sm->rows ? 0 : 1;
	struct runs r = {
		.count = sm->rows ? b->width : b->lines,
		.n = sm->rows ? b->lines : b->width,
		.stride = op->stride[along],
		.step = (uintptr_t)op->stride[!along] * (uintptr_t)op->esize,
	};

	if (sm->rows && op->stride[1] == op->stride[0] * r.n) {
		r.n *= r.count;
		r.count = 1;
	}
	return r;
}

static void load(const struct openreg_softmax *sm,
		 const struct openreg_softmax_block *b,
		 const struct openreg_softmax_operand *op, void *to)
{
	openreg_load_fn *fn = sm->kernels->load[op->dtype][sm->type];
	uintptr_t from = block_address(sm, b, op);
	struct runs r = runs_of(sm, b, op);
	unsigned char *line = to;

	for (; r.count > 0; r.count--) {
		fn(line, (const void *)from, r.stride, (size_t)r.n);
		line += r.n * sm->esize;
		from += r.step;
	}
}

static void store(const struct openreg_softmax *sm,
		  const struct openreg_softmax_block *b)
{
	const struct openreg_softmax_operand *op = &sm->result;
	openreg_store_fn *fn = sm->kernels->store[op->dtype][sm->type];
	uintptr_t to = block_address(sm, b, op);
	struct runs r = runs_of(sm, b, op);
	const unsigned char *line = b->x;

	for (; r.count > 0; r.count--) {
		fn((void *)to, r.stride, line, (size_t)r.n);
		line += r.n * sm->esize;
		to += r.step;
	}
}

/* Loads a block. Reads the output in place if its layout is that of the block. */
static void load_all(const struct openreg_softmax *sm,
		     struct openreg_softmax_block *b)
{
	struct runs r;

	load(sm, b, &sm->input, b->x);
	if (!sm->backward)
		return;
	r = runs_of(sm, b, &sm->output);
	b->output = b->y;
	if (r.count == 1 && r.stride == 1 && sm->output_as_type)
		b->output = (const void *)block_address(sm, b, &sm->output);
	else
		load(sm, b, &sm->output, b->y);
}

/* Merges the stats of the pieces to those of whole rows. */
static void merge(const struct openreg_softmax *sm,
		  struct openreg_softmax_block *b, int64_t unit)
{
	const struct openreg_softmax_stat *stat =
		sm->stats + unit * sm->pieces * sm->width;
	int64_t i, piece;

	for (i = 0; i < b->width; i++) {
		b->stat[i].max = sm->backward ? 0 : -INFINITY;
		b->stat[i].sum = 0;
		for (piece = 0; piece < sm->pieces; piece++)
			openreg_softmax_merge(sm, &b->stat[i],
					      &stat[piece * sm->width + i]);
	}
}

static void run_piece(const struct openreg_softmax *sm, unsigned int phase,
		      uint32_t slice, struct openreg_softmax_block *b)
{
	int64_t unit = slice / sm->pieces;

	find_block(sm, b, unit, slice % sm->pieces);
	load_all(sm, b);
	if (phase == 0) {
		openreg_softmax_measure(sm, b);
		memcpy(sm->stats + slice * sm->width, b->stat,
		       (size_t)b->width * sizeof(*b->stat));
		return;
	}
	merge(sm, b, unit);
	openreg_softmax_apply(sm, b);
	store(sm, b);
}

static bool softmax_run(struct openreg_job *job, unsigned int phase,
			uint32_t slice, struct openreg_scratch *scratch)
{
	const struct openreg_softmax *sm =
		(const struct openreg_softmax *)job->priv;
	size_t bytes = (size_t)(sm->width * sm->lines * sm->esize);
	struct openreg_softmax_block b;
	int64_t unit, end;

	bytes = (bytes + 63) & ~(size_t)63;
	b.x = openreg_scratch_buffer(scratch, 3 * bytes);
	if (!b.x)
		return false;
	b.y = (unsigned char *)b.x + bytes;
	b.z = (unsigned char *)b.y + bytes;
	if (sm->pieces > 1) {
		run_piece(sm, phase, slice, &b);
		return true;
	}
	unit = slice * sm->slice_units;
	end = unit + sm->slice_units < sm->units ? unit + sm->slice_units
						 : sm->units;
	for (; unit < end; unit++) {
		find_block(sm, &b, unit, 0);
		load_all(sm, &b);
		openreg_softmax_whole(sm, &b);
		store(sm, &b);
	}
	return true;
}

const struct openreg_engine openreg_softmax_engine = {
	.check = softmax_check,
	.job_size = sizeof(struct openreg_softmax),
	.setup = softmax_setup,
	.run = softmax_run,
};
