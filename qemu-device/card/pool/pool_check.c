// SPDX-License-Identifier: MIT
/* POOL: checks a packet. */
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

static bool is_adaptive_form(const struct openreg_geometry *w, unsigned int d)
{
	return w->kernel[d] == 1 && w->stride[d] == 1 && w->dilation[d] == 1 &&
	       !w->padding[d];
}

static int64_t count_taps(const struct openreg_args *args,
			  const struct openreg_geometry *w, unsigned int d)
{
	if (!(args->arg[1] & OPENREG_POOL_ADAPTIVE) || !w->output[d])
		return w->kernel[d];
	return openreg_greatest(
		openreg_least(w->input[d], w->input[d] / w->output[d] + 2), 1);
}

/* Backward, the engine visits all windows that can have an element. */
static struct openreg_verdict check_meets(const struct openreg_args *args,
					  const struct openreg_geometry *w)
{
	int64_t factor[8];
	uint64_t n;
	unsigned int d;

	for (d = 0; d < 3; d++) {
		factor[d] = openreg_pool_meets(w, args->arg[1], d, 1);
		factor[3 + d] = w->input[d];
	}
	factor[6] = args->size[1];
	factor[7] = args->size[0];
	n = openreg_window_count(factor, 3);
	if (n <= OPENREG_POOL_MEET_MAX)
		n = openreg_window_count(factor, 8);
	else
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, n);
	if (n > OPENREG_WINDOW_WORK_MAX)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, n);
	return openreg_good();
}

static struct openreg_verdict check_windows(const struct openreg_args *args,
					    const struct openreg_geometry *w)
{
	/* Taps of a window, windows of a channel, channels, batch. */
	int64_t factor[8];
	static const uint64_t limit[] = { OPENREG_WINDOW_TAPS_MAX,
					  OPENREG_WINDOW_WORK_MAX };
	static const uint8_t counted[] = { 3, 8 };
	uint64_t n;
	unsigned int d;

	for (d = 0; d < 3; d++) {
		if (args->arg[1] & OPENREG_POOL_ADAPTIVE &&
		    !is_adaptive_form(w, d))
			return openreg_bad(OPENREG_FAULT_SHAPE,
					   OPENREG_NO_OPERAND, d);
		factor[d] = count_taps(args, w, d);
		factor[3 + d] = w->output[d];
	}
	factor[6] = args->size[1];
	factor[7] = args->size[0];
	for (d = 0; d < 2; d++) {
		n = openreg_window_count(factor, counted[d]);
		if (n > limit[d])
			return openreg_bad(OPENREG_FAULT_LIMIT,
					   OPENREG_NO_OPERAND, n);
	}
	return openreg_good();
}

static struct openreg_verdict check_dtypes(const struct openreg_args *args)
{
	unsigned int i;

	for (i = 0; i < args->nops; i++) {
		unsigned int dtype = args->op[i].dtype;
		bool good = i == 2 ? dtype == OPENREG_I64
				   : openreg_dtype_is_common(dtype) &&
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
	if (!v.code)
		v = check_windows(args, &w);
	return v.code || !backward ? v : check_meets(args, &w);
}
