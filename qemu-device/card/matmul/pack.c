// SPDX-License-Identifier: MIT
/* PACK: copies matrices into the order of packed matrices, and back. */
#include "packed.h"

enum { K, N }; /* dimensions */

struct pack {
	struct openreg_packed packed;
	struct openreg_matrix x;
	void *at; /* the packed matrix */
	bool unpack, empty;
	int64_t columns; /* of a slice */
};

static bool is_unpack(const struct openreg_args *args)
{
	return args->arg[0] == OPENREG_PACK_UNPACK;
}

/* The dtype is that of op 1, of which the card uses nothing else. */
static struct openreg_verdict check_size(struct openreg_args *args)
{
	unsigned int d;

	if (!openreg_packed_has(args->op[1].dtype))
		return openreg_bad(OPENREG_FAULT_DTYPE, 1, args->op[1].dtype);
	if (args->op[0].dtype != OPENREG_I64)
		return openreg_bad(OPENREG_FAULT_DTYPE, 0, args->op[0].dtype);
	for (d = 0; d < args->ndim; d++) {
		if (args->op[0].stride[d])
			return openreg_bad(OPENREG_FAULT_SHAPE, 0, d);
	}
	args->op[0].written = true;
	return openreg_good();
}

static struct openreg_verdict check_copy(struct openreg_args *args)
{
	unsigned int packed = is_unpack(args), plain = !packed, d;
	struct openreg_verdict v;

	v = openreg_packed_check(args, packed, N, args->size[K], args->size[N]);
	if (v.code)
		return v;
	if (args->op[plain].dtype != args->op[packed].dtype)
		return openreg_bad(OPENREG_FAULT_DTYPE, plain,
				   args->op[plain].dtype);
	for (d = 0; d < args->ndim && is_unpack(args); d++) {
		if (args->size[d] > 1 && args->op[plain].stride[d] == 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, plain, d);
	}
	args->op[plain].dims = 1u << K | 1u << N;
	args->op[0].written = true;
	args->op[1].read = true;
	return openreg_good();
}

static struct openreg_verdict pack_check(struct openreg_args *args)
{
	if (args->ndim != 2)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   args->ndim);
	if (args->nops != 2 || args->nimm || args->ninstr)
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->nops);
	if (args->arg[0] >= OPENREG_PACK_END || args->arg[1] || args->arg[2] ||
	    args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->arg[0]);
	return args->arg[0] == OPENREG_PACK_SIZE ? check_size(args)
						 : check_copy(args);
}

static void plan_copy(struct openreg_job *job, struct pack *p)
{
	const struct openreg_args *args = job->args;
	const struct openreg_arg *plain = &args->op[!is_unpack(args)];
	/* Elements of a column lie apart in one of the two matrices. */
	double ns = 2.0 * (double)p->packed.block;
	int64_t blocks = (p->packed.n + OPENREG_PACKED_COLUMNS - 1) /
			 OPENREG_PACKED_COLUMNS;
	int64_t each = (int64_t)(openreg_slice_ns(ns * (double)blocks) / ns) + 1;

	p->unpack = is_unpack(args);
	p->at = args->op[is_unpack(args)].ptr;
	p->x = (struct openreg_matrix){ (uintptr_t)plain->ptr, 0,
					plain->stride[K], plain->stride[N] };
	p->columns = each * OPENREG_PACKED_COLUMNS;
	job->slices[0] = (uint32_t)((blocks + each - 1) / each);
}

static bool pack_setup(struct openreg_job *job, struct openreg_scratch *scratch)
{
	struct pack *p = (struct pack *)job->priv;
	const struct openreg_args *args = job->args;
	bool size = args->arg[0] == OPENREG_PACK_SIZE;

	(void)scratch;
	p->empty = !args->size[K] || !args->size[N];
	if (p->empty && !size)
		return true;
	job->phases = 1;
	job->slices[0] = 1;
	if (p->empty)
		return true;
	p->packed = openreg_packed(args->op[1].dtype, args->size[K],
				   args->size[N]);
	if (!size)
		plan_copy(job, p);
	return true;
}

static bool run_size(const struct openreg_job *job, const struct pack *p)
{
	int64_t *to = job->args->op[0].ptr;

	*to = p->empty ? 0
		       : openreg_packed_elements(&p->packed) *
				 openreg_dtype_size(p->packed.dtype);
	return true;
}

static bool pack_run(struct openreg_job *job, unsigned int phase,
		     uint32_t slice, struct openreg_scratch *scratch)
{
	const struct pack *p = (const struct pack *)job->priv;
	struct openreg_packed_part part = { .k = p->packed.k };
	struct openreg_matrix x = p->x;

	(void)phase;
	(void)scratch;
	if (job->args->arg[0] == OPENREG_PACK_SIZE)
		return run_size(job, p);
	part.n0 = slice * p->columns;
	part.n = p->packed.n - part.n0;
	if (part.n > p->columns)
		part.n = p->columns;
	x.base = openreg_matrix_at(&p->x, openreg_dtype_size(p->packed.dtype),
				   0, 0, part.n0);
	if (p->unpack) {
		if (!openreg_packed_is(&p->packed, p->at))
			return openreg_job_fail(
				job, openreg_bad(OPENREG_FAULT_FORMAT, 1, 0));
		openreg_packed_unpack(&p->packed, p->at, &x, &part);
		return true;
	}
	if (slice == 0)
		openreg_packed_start(&p->packed, p->at);
	openreg_packed_pack(&p->packed, p->at, &x, &part);
	return true;
}

const struct openreg_engine openreg_pack_engine = {
	.check = pack_check,
	.job_size = sizeof(struct pack),
	.setup = pack_setup,
	.run = pack_run,
};
