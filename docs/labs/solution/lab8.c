// SPDX-License-Identifier: MIT
/*
 * Lab 8: the instruction AVERAGE of VECTOR, and the engine of the packet ROLL, opcode
 * OPENREG_OP_EXPERIMENT.
 *
 * AVERAGE: dst = (a + b) / 2, rounded toward -inf; I32 and I64.
 * ROLL: ndim 2, space [rows, n]; op 0 result, op 1 source, of one dtype; imm 0 shift. Element
 * (row, (i + shift) % n) of the result is element (row, i) of the source.
 */
#include <string.h>

#include "lab8.h"

#define ELEMENT_NS 2.0

enum { RESULT, SOURCE };

/* The private part of a job. */
struct roll {
	int64_t total; /* elements */
	int64_t part; /* elements of a slice */
};

static struct openreg_verdict roll_check(struct openreg_args *args)
{
	const uint32_t none = OPENREG_NO_OPERAND;
	unsigned int i;

	if (args->arg[0] || args->arg[1] || args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->arg[0]);
	if (args->nops != 2 || args->nimm != 1 || args->ninstr)
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->nops);
	if (args->ndim != 2)
		return openreg_bad(OPENREG_FAULT_SHAPE, none, args->ndim);
	if (args->imm[0] && args->imm[0] >= (uint64_t)args->size[1])
		return openreg_bad(OPENREG_FAULT_SHAPE, none, args->imm[0]);
	for (i = RESULT; i <= SOURCE; i++) {
		if (!openreg_dtype_size(args->op[i].dtype) ||
		    args->op[i].dtype != args->op[RESULT].dtype)
			return openreg_bad(OPENREG_FAULT_DTYPE, i, args->op[i].dtype);
		args->op[i].dims = 3; /* both dimensions */
	}
	/* Several elements would go to one place. */
	for (i = 0; i < 2; i++)
		if (args->size[i] > 1 && !args->op[RESULT].stride[i])
			return openreg_bad(OPENREG_FAULT_SHAPE, RESULT, i);
	args->op[RESULT].written = true;
	args->op[SOURCE].read = true;
	return openreg_good();
}

static bool roll_setup(struct openreg_job *job, struct openreg_scratch *scratch)
{
	struct roll *roll = (struct roll *)job->priv;

	(void)scratch;
	roll->total = job->args->size[0] * job->args->size[1];
	if (!roll->total)
		return true;
	roll->part = (int64_t)(openreg_slice_ns(ELEMENT_NS * (double)roll->total) /
			       ELEMENT_NS);
	job->phases = 1;
	job->slices[0] = (uint32_t)((roll->total + roll->part - 1) / roll->part);
	return true;
}

static unsigned char *element(const struct openreg_arg *op, int64_t row, int64_t column)
{
	return (unsigned char *)op->ptr + (row * op->stride[0] + column * op->stride[1]) *
						  openreg_dtype_size(op->dtype);
}

static bool roll_run(struct openreg_job *job, unsigned int phase, uint32_t slice,
		     struct openreg_scratch *scratch)
{
	const struct roll *roll = (const struct roll *)job->priv;
	const struct openreg_args *args = job->args;
	const size_t size = openreg_dtype_size(args->op[RESULT].dtype);
	const int64_t n = args->size[1], shift = (int64_t)args->imm[0];
	int64_t i = slice * roll->part, end = i + roll->part;

	(void)phase;
	(void)scratch;
	if (end > roll->total)
		end = roll->total;
	for (; i < end; i++)
		memcpy(element(&args->op[RESULT], i / n, (i % n + shift) % n),
		       element(&args->op[SOURCE], i / n, i % n), size);
	return true;
}

const struct openreg_engine lab8_engine = {
	.check = roll_check,
	.job_size = sizeof(struct roll),
	.setup = roll_setup,
	.run = roll_run,
};

/* No sum of a and b: it could overflow. */
static void average_i32(void *dst, const void *a, const void *b, const void *c, size_t n)
{
	const int32_t *x = a, *y = b;
	int32_t *to = dst;
	size_t i;

	(void)c;
	for (i = 0; i < n; i++)
		to[i] = (x[i] & y[i]) + ((x[i] ^ y[i]) >> 1);
}

static void average_i64(void *dst, const void *a, const void *b, const void *c, size_t n)
{
	const int64_t *x = a, *y = b;
	int64_t *to = dst;
	size_t i;

	(void)c;
	for (i = 0; i < n; i++)
		to[i] = (x[i] & y[i]) + ((x[i] ^ y[i]) >> 1);
}

const struct lab8_instruction lab8_average = {
	.form = OPENREG_VFORM_BINARY,
	.types = OPENREG_VTYPES_INT,
	.kernel = { [OPENREG_VT_I32] = average_i32, [OPENREG_VT_I64] = average_i64 },
};
