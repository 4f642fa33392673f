// SPDX-License-Identifier: MIT
/* CONV: checks a packet. */
#include <string.h>

#include "conv.h"

/* Bit i: the operand has dimension i of [n, g, oc, ic, three of space]. */
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

/*
 * BACKWARD_DATA: one of every `common` inputs has taps. There, one of every
 * stride / common taps meets an output, or the space beyond the outputs.
 */
static void count_data(const struct openreg_geometry *w, unsigned int d,
		       int64_t *inputs, int64_t *taps)
{
	int64_t common = openreg_gcd(w->stride[d], w->dilation[d]);

	*inputs = openreg_div_up(w->input[d], common);
	*taps = openreg_div_up(w->kernel[d], w->stride[d] / common);
}

/* Limits the sum of one result, because a slice adds it up without a stop. */
static struct openreg_verdict check_sum(const struct openreg_args *args,
					const struct openreg_geometry *w)
{
	static const uint8_t channels[] = { 3, 2, 0 };
	bool weights = args->arg[0] == OPENREG_CONV_BACKWARD_WEIGHTS;
	int64_t factor[4] = { args->size[channels[args->arg[0]]] };
	uint64_t sum;

	memcpy(factor + 1, weights ? w->output : w->kernel,
	       3 * sizeof(*factor));
	sum = openreg_window_count(factor, 4);
	if (sum > OPENREG_CONV_SUM_MAX)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND,
				   sum);
	return openreg_good();
}

static struct openreg_verdict check_work(const struct openreg_args *args,
					 const struct openreg_geometry *w)
{
	bool data = args->arg[0] == OPENREG_CONV_BACKWARD_DATA;
	int64_t factor[10];
	uint64_t products;
	unsigned int d;

	memcpy(factor, args->size, 4 * sizeof(*factor));
	for (d = 0; d < 3; d++) {
		factor[4 + d] = w->output[d];
		factor[7 + d] = w->kernel[d];
		if (data)
			count_data(w, d, &factor[4 + d], &factor[7 + d]);
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

		if (!openreg_dtype_is_common(dtype) || dtype == OPENREG_BOOL ||
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
	if (!v.code)
		v = check_work(args, &w);
	return v.code ? v : check_sum(args, &w);
}
