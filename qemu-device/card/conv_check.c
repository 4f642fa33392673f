// SPDX-License-Identifier: MIT
/* CONV: what a packet may ask for. */
#include <string.h>

#include "conv.h"

/* Bit i: dimension i of [n, g, oc, ic, three of space] counts. */
#define DIMS_X 0x7b
#define DIMS_Y 0x77
#define DIMS_W 0x7e
#define DIMS_FORWARD_BIAS 0x06
#define DIMS_BACKWARD_BIAS 0x0a

static struct openreg_verdict check_form(const struct openreg_args *args)
{
	unsigned int kind = args->arg[0];

	if (kind > OPENREG_CONV_BACKWARD_WEIGHTS || args->arg[1] ||
	    args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   kind);
	if (args->ndim != OPENREG_CONV_DIMS)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   args->ndim);
	if (args->nops < 3 ||
	    args->nops > (kind == OPENREG_CONV_BACKWARD_WEIGHTS ? 3 : 4) ||
	    args->nimm != OPENREG_WINDOW_DIVISOR || args->ninstr)
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->nops);
	return openreg_window_check(args);
}

/* Products that BACKWARD_DATA's inputs may need, in reach or not. */
static struct openreg_verdict check_work(const struct openreg_args *args,
					 const struct openreg_geometry *w)
{
	bool data = args->arg[0] == OPENREG_CONV_BACKWARD_DATA;
	int64_t factor[10];
	uint64_t products;
	unsigned int d;

	memcpy(factor, args->size, 4 * sizeof(*factor));
	for (d = 0; d < 3; d++) {
		factor[4 + d] = data ? w->input[d] : w->output[d];
		factor[7 + d] = data ? openreg_div_up(w->kernel[d],
						      w->stride[d])
				     : w->kernel[d];
	}
	products = openreg_window_count(factor, 10);
	if (products > OPENREG_WINDOW_WORK_MAX)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND,
				   products);
	return openreg_good();
}

static struct openreg_verdict check_dtypes(const struct openreg_args *args)
{
	unsigned int i;

	for (i = 0; i < args->nops; i++) {
		unsigned int dtype = args->op[i].dtype;

		if (!openreg_dtype_size(dtype) || dtype == OPENREG_BOOL ||
		    dtype != args->op[0].dtype)
			return openreg_bad(OPENREG_FAULT_DTYPE, i, dtype);
	}
	return openreg_good();
}

struct openreg_verdict openreg_conv_check(struct openreg_args *args)
{
	static const uint32_t dims[][4] = {
		{ DIMS_Y, DIMS_X, DIMS_W, DIMS_FORWARD_BIAS },
		{ DIMS_X, DIMS_Y, DIMS_W, DIMS_BACKWARD_BIAS },
		{ DIMS_W, DIMS_Y, DIMS_X, 0 },
	};
	struct openreg_verdict v = check_form(args);
	struct openreg_geometry w;
	unsigned int i;

	if (!v.code)
		v = check_dtypes(args);
	if (v.code)
		return v;
	openreg_window_get(&w, args);
	for (i = 0; i < args->nops && !v.code; i++) {
		uint32_t has = dims[args->arg[0]][i];

		v = openreg_window_operand(args, i, has,
					   has == DIMS_X   ? w.input
					   : has == DIMS_W ? w.kernel
							   : w.output,
					   i == 0);
	}
	return v.code ? v : check_work(args, &w);
}
