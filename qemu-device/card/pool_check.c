// SPDX-License-Identifier: MIT
/* POOL: what a packet may ask for. */
#include "pool.h"

#define ALL_DIMS 0x1f
#define FLAGS                                                                  \
	(OPENREG_POOL_BACKWARD | OPENREG_POOL_COUNT_PADDING |                  \
	 OPENREG_POOL_ADAPTIVE)

static struct openreg_verdict check_form(const struct openreg_args *args)
{
	bool max = args->arg[0] == OPENREG_POOL_MAX;
	unsigned int flags = args->arg[1], least = 2;

	if (max && flags & OPENREG_POOL_BACKWARD)
		least = 3;
	if (args->arg[0] > OPENREG_POOL_AVG || flags & ~FLAGS ||
	    args->arg[2] || args->arg[3] ||
	    (max && flags & OPENREG_POOL_COUNT_PADDING))
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   flags);
	if (args->ndim != OPENREG_POOL_DIMS)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   args->ndim);
	if (args->nops < least || args->nops > (max ? 3 : 2) ||
	    args->nimm != OPENREG_WINDOW_DIVISOR + 1 || args->ninstr)
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->nops);
	if (max && args->imm[OPENREG_WINDOW_DIVISOR])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   OPENREG_WINDOW_DIVISOR);
	return openreg_window_check(args);
}

static struct openreg_verdict check_windows(const struct openreg_args *args,
					    const struct openreg_geometry *w)
{
	bool adaptive = args->arg[1] & OPENREG_POOL_ADAPTIVE;
	int64_t factor[6];
	unsigned int d;

	factor[0] = args->size[0];
	factor[1] = args->size[1];
	factor[2] = 1;
	for (d = 0; d < 3; d++) {
		int64_t taps = w->kernel[d], out = w->output[d];

		if (adaptive && (taps != 1 || w->stride[d] != 1 ||
				 w->dilation[d] != 1 || w->padding[d]))
			return openreg_bad(OPENREG_FAULT_SHAPE,
					   OPENREG_NO_OPERAND, d);
		if (adaptive && out)
			taps = openreg_least(w->input[d],
					     w->input[d] / out + 2);
		if (__builtin_mul_overflow(factor[2],
					   openreg_greatest(taps, 1),
					   &factor[2]) ||
		    factor[2] > OPENREG_WINDOW_TAPS_MAX)
			return openreg_bad(OPENREG_FAULT_LIMIT,
					   OPENREG_NO_OPERAND, d);
		factor[3 + d] = out;
	}
	if (openreg_window_product(factor, 6) < 0)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, 0);
	factor[1] = 1LL << 4;
	/* So that few windows enough meet in one element. */
	if (args->arg[1] & OPENREG_POOL_BACKWARD &&
	    openreg_window_product(factor + 1, 5) < 0)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, 1);
	return openreg_good();
}

static struct openreg_verdict check_dtypes(const struct openreg_args *args)
{
	unsigned int i;

	for (i = 0; i < args->nops; i++) {
		unsigned int dtype = args->op[i].dtype;
		bool good = i == 2 ? dtype == OPENREG_I64
				   : openreg_dtype_size(dtype) &&
					     dtype != OPENREG_BOOL &&
					     dtype == args->op[0].dtype;

		if (!good)
			return openreg_bad(OPENREG_FAULT_DTYPE, i, dtype);
	}
	return openreg_good();
}

struct openreg_verdict openreg_pool_check(struct openreg_args *args)
{
	bool backward = args->arg[1] & OPENREG_POOL_BACKWARD;
	struct openreg_verdict v = check_form(args);
	struct openreg_geometry w;
	unsigned int i;

	if (!v.code)
		v = check_dtypes(args);
	if (v.code)
		return v;
	openreg_window_get(&w, args);
	for (i = 0; i < args->nops && !v.code; i++) {
		bool input = i == (backward ? 0 : 1);

		v = openreg_window_operand(args, i, ALL_DIMS,
					   input ? w.input : w.output,
					   i == 0 || (i == 2 && !backward));
	}
	return v.code ? v : check_windows(args, &w);
}
