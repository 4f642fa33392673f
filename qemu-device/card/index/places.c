// SPDX-License-Identifier: MIT
/*
 * PLACES: the positions of non-zero elements, in row-major order. The space is cut into
 * pieces in that order. Phase 0 counts the non-zero elements of each piece, phase 1 adds
 * up the counts before each piece, and phase 2 writes the positions.
 */
#include <string.h>

#include "index.h"

#define PIECE 32768 /* elements */
#define RUN 1024 /* elements that fit into scratch memory */
#define SOURCE_OF(args) ((unsigned int)(args)->ndim)

struct places {
	const struct openreg_kernels *kernels;
	const struct openreg_args *args;
	uint8_t type; /* register type of the source */
	int64_t n, wanted;
	int64_t pieces, slice_pieces;
	int64_t *count; /* of each piece; from phase 1 on, of all pieces before it */
};

/* The next run of elements along the last dimension. */
struct walk {
	int64_t at[OPENREG_DIMS_MAX];
	int64_t n;
};

static struct openreg_verdict check_operand(struct openreg_args *args,
					    unsigned int i)
{
	unsigned int d, last = args->ndim - 1;
	struct openreg_arg *op = &args->op[i];
	bool source = i == SOURCE_OF(args);

	if (source ? !openreg_dtype_size(op->dtype) : op->dtype != OPENREG_I64)
		return openreg_bad(OPENREG_FAULT_DTYPE, i, op->dtype);
	op->dims = source ? (1u << args->ndim) - 1 : 1u << last;
	op->read = source;
	op->written = !source;
	if (source)
		return openreg_good();
	op->sized = true;
	for (d = 0; d < args->ndim; d++)
		op->size[d] = d == last ? (int64_t)args->imm[0] : 1;
	if (op->size[last] > 1 && op->stride[last] == 0)
		return openreg_bad(OPENREG_FAULT_SHAPE, i, last);
	return openreg_good();
}

static uint64_t elements(const struct openreg_args *args)
{
	uint64_t n = 1;
	unsigned int d;

	for (d = 0; d < args->ndim; d++) {
		if (!args->size[d])
			return 0;
	}
	for (d = 0; d < args->ndim; d++)
		n *= (uint64_t)args->size[d];
	return n;
}

static struct openreg_verdict places_check(struct openreg_args *args)
{
	const uint32_t none = OPENREG_NO_OPERAND;
	struct openreg_verdict v = openreg_good();
	unsigned int i;

	if (args->arg[0] || args->arg[1] || args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->arg[0]);
	if (!args->ndim)
		return openreg_bad(OPENREG_FAULT_SHAPE, none, 0);
	if (args->nops != args->ndim + 1u || args->nimm != 1 || args->ninstr)
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->nops);
	if (args->imm[0] > elements(args))
		return openreg_bad(OPENREG_FAULT_SHAPE, none, args->imm[0]);
	for (i = 0; i < args->nops && !v.code; i++)
		v = check_operand(args, i);
	return v;
}

static bool places_setup(struct openreg_job *job,
			 struct openreg_scratch *scratch)
{
	struct places *p = (struct places *)job->priv;
	const struct openreg_args *args = job->args;
	double ns;

	(void)scratch;
	p->wanted = (int64_t)args->imm[0];
	if (!p->wanted)
		return true;
	p->kernels = openreg_kernels();
	p->args = args;
	p->type = openreg_dtype_register(args->op[SOURCE_OF(args)].dtype);
	p->n = (int64_t)elements(args);
	p->pieces = (p->n + PIECE - 1) / PIECE;
	/* An element costs more in short rows. */
	ns = PIECE * (3 + 60.0 / (double)args->size[args->ndim - 1]);
	p->slice_pieces =
		(int64_t)(openreg_slice_ns(ns * (double)p->pieces) / ns) + 1;
	p->count = openreg_job_extra(job,
				     (size_t)p->pieces * sizeof(*p->count));
	if (!p->count)
		return false;
	job->phases = 3;
	job->slices[0] = job->slices[2] =
		(uint32_t)((p->pieces + p->slice_pieces - 1) / p->slice_pieces);
	job->slices[1] = 1;
	return true;
}

static void seek(const struct places *p, struct walk *w, int64_t i)
{
	unsigned int d;

	for (d = p->args->ndim; d-- > 0;) {
		w->at[d] = i % p->args->size[d];
		i /= p->args->size[d];
	}
}

/* Sets w->n for the run at w, at most `most` elements. Returns its address. */
static uintptr_t next_run(const struct places *p, struct walk *w, int64_t most)
{
	const struct openreg_arg *op = &p->args->op[SOURCE_OF(p->args)];
	unsigned int d, last = p->args->ndim - 1;
	uintptr_t at = 0;

	w->n = p->args->size[last] - w->at[last];
	if (w->n > RUN)
		w->n = RUN;
	if (w->n > most)
		w->n = most;
	for (d = 0; d <= last; d++)
		at += (uintptr_t)w->at[d] * (uintptr_t)op->stride[d];
	return (uintptr_t)op->ptr + at * openreg_dtype_size(op->dtype);
}

static void step(const struct places *p, struct walk *w)
{
	unsigned int d = p->args->ndim - 1;

	w->at[d] += w->n;
	while (d && w->at[d] == p->args->size[d]) {
		w->at[d] = 0;
		w->at[--d]++;
	}
}

/* Writes the n positions found in the run at w, as results k and up. */
static void write_run(const struct places *p, const struct walk *w, int64_t k,
		      int64_t *found, int64_t n)
{
	unsigned int d, last = p->args->ndim - 1;
	int64_t i;

	if (n > p->wanted - k)
		n = p->wanted - k;
	for (d = last + 1; d-- > 0 && n > 0;) {
		const struct openreg_arg *op = &p->args->op[d];
		int64_t stride = op->stride[last];

		for (i = 0; i < n && d < last; i++)
			found[i] = w->at[d];
		p->kernels->store[OPENREG_I64][OPENREG_VT_I64](
			(int64_t *)op->ptr + k * stride, stride, found,
			(size_t)n);
	}
}

static void run_piece(const struct places *p, int64_t piece, bool writes,
		      void *x, int64_t *found)
{
	const struct openreg_arg *op = &p->args->op[SOURCE_OF(p->args)];
	openreg_load_fn *load = p->kernels->load[op->dtype][p->type];
	unsigned int last = p->args->ndim - 1;
	int64_t left = p->n - piece * PIECE, k = 0;
	struct walk w;

	if (writes)
		k = p->count[piece];
	seek(p, &w, piece * PIECE);
	for (left = left < PIECE ? left : PIECE; left > 0; left -= w.n) {
		uintptr_t from = next_run(p, &w, left);
		int64_t n;

		load(x, (const void *)from, op->stride[last], (size_t)w.n);
		n = p->kernels->places[p->type](writes ? found : NULL, x,
						w.at[last], (size_t)w.n);
		if (writes && n)
			write_run(p, &w, k, found, n);
		k += n;
		step(p, &w);
	}
	if (!writes)
		p->count[piece] = k;
}

static bool places_run(struct openreg_job *job, unsigned int phase,
		       uint32_t slice, struct openreg_scratch *scratch)
{
	const struct places *p = (const struct places *)job->priv;
	int64_t piece = slice * p->slice_pieces, end, sum = 0, n;
	unsigned char *memory = openreg_scratch_buffer(scratch, 2 * RUN * 8);

	if (!memory)
		return false;
	if (phase == 1) {
		for (piece = 0; piece < p->pieces; piece++) {
			n = p->count[piece];
			p->count[piece] = sum;
			sum += n;
		}
		return true;
	}
	end = piece + p->slice_pieces;
	for (; piece < end && piece < p->pieces; piece++)
		run_piece(p, piece, phase == 2, memory,
			  (int64_t *)memory + RUN);
	return true;
}

const struct openreg_engine openreg_places_engine = {
	.check = places_check,
	.job_size = sizeof(struct places),
	.setup = places_setup,
	.run = places_run,
};
