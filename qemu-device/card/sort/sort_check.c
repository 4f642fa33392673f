// SPDX-License-Identifier: MIT
/* SORT: checks a packet. */
#include "sort.h"

enum { VALUES, SOURCE, INDEX };

static struct openreg_verdict check_form(const struct openreg_args *args)
{
	const uint32_t none = OPENREG_NO_OPERAND;

	if (args->arg[1] & ~OPENREG_SORT_DESCENDING || args->arg[2] ||
	    args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->arg[1]);
	if (args->nops < INDEX || args->nops > INDEX + 1 || args->nimm != 2 ||
	    args->ninstr)
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->nops);
	if (args->arg[0] >= args->ndim)
		return openreg_bad(OPENREG_FAULT_SHAPE, none, args->arg[0]);
	return openreg_good();
}

static struct openreg_verdict check_row(const struct openreg_args *args)
{
	uint64_t n = (uint64_t)args->size[args->arg[0]];
	uint64_t first = args->imm[0], count = args->imm[1];

	if (n > OPENREG_SORT_ROW_MAX)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, n);
	if (first > n)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   first);
	if (count > n - first)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   count);
	return openreg_good();
}

static struct openreg_verdict check_operand(struct openreg_args *args,
					    unsigned int i)
{
	struct openreg_arg *op = &args->op[i];
	unsigned int d;

	if (i == INDEX ? op->dtype != OPENREG_I64
		       : !openreg_dtype_is_common(op->dtype) ||
				 op->dtype != args->op[VALUES].dtype)
		return openreg_bad(OPENREG_FAULT_DTYPE, i, op->dtype);
	op->dims = (1u << args->ndim) - 1;
	op->read = i == SOURCE;
	op->written = i != SOURCE;
	op->sized = op->written;
	for (d = 0; d < args->ndim && op->written; d++) {
		op->size[d] = d == args->arg[0] ? (int64_t)args->imm[1]
						: args->size[d];
		if (op->size[d] > 1 && op->stride[d] == 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, i, d);
	}
	return openreg_good();
}

struct openreg_verdict openreg_sort_check(struct openreg_args *args)
{
	struct openreg_verdict v = check_form(args);
	unsigned int i;

	if (!v.code)
		v = check_row(args);
	for (i = 0; i < args->nops && !v.code; i++)
		v = check_operand(args, i);
	return v;
}
