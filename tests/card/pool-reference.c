// SPDX-License-Identifier: MIT
#include "pool-reference.h"

#include <math.h>
#include <stdlib.h>

#include "job/work.h"

void make(struct problem *p, struct operand *op, unsigned int dtype,
	  const int64_t space[3])
{
	const int64_t size[DIMS] = { p->n, p->c, space[0], space[1], space[2] };

	memcpy(op->size, size, sizeof(size));
	op->dtype = dtype;
	random_layout(&op->at, DIMS, size, false);
	op->memory = calloc((size_t)op->at.extent + 1,
			    openreg_dtype_size(dtype));
	assert_non_null(op->memory);
	fill_small(dtype, op->memory, op->at.extent, -40, 60);
}

static void add_operand(struct openreg_args *args, struct operand *op)
{
	args_operand(args, op->dtype,
		     op->memory +
			     op->at.origin * openreg_dtype_size(op->dtype),
		     op->at.stride);
}

void make_args(struct openreg_args *args, struct problem *p)
{
	const int64_t size[DIMS] = { p->n, p->c, p->output[0], p->output[1],
				     p->output[2] };
	const int64_t *imm[] = { p->kernel, p->input, p->stride, p->padding,
				 p->dilation };
	bool backward = p->flags & OPENREG_POOL_BACKWARD;
	unsigned int i;

	args_begin(args, OPENREG_OP_POOL, DIMS, size);
	args->arg[0] = (uint8_t)p->kind;
	args->arg[1] = (uint8_t)p->flags;
	add_operand(args, backward ? &p->x : &p->y);
	add_operand(args, backward ? &p->y : &p->x);
	if (p->has_index)
		add_operand(args, &p->index);
	for (i = 0; i < 15; i++)
		args_imm_i(args, imm[i / 3][i % 3]);
	args_imm_i(args, p->divisor);
}

/* Finds tap k of output o along d. Returns true if it is in the input. */
static bool tap(const struct problem *p, unsigned int d, int64_t o, int64_t k,
		int64_t *i)
{
	if (p->flags & OPENREG_POOL_ADAPTIVE) {
		int64_t in = p->input[d], out = p->output[d];

		*i = o * in / out + k;
		return *i < ((o + 1) * in + out - 1) / out;
	}
	*i = o * p->stride[d] - p->padding[d] + k * p->dilation[d];
	return k < p->kernel[d] && *i >= 0 && *i < p->input[d];
}

/* The number of taps in the input or its padding. */
static int64_t padded_taps(const struct problem *p, unsigned int d, int64_t o)
{
	int64_t n = 0, k;

	for (k = 0; k < p->kernel[d]; k++)
		n += o * p->stride[d] + k * p->dilation[d] <
		     p->input[d] + 2 * p->padding[d];
	return n;
}

struct window {
	double max, sum;
	int64_t winner, count, divisor;
	int64_t flat[4096];
};

static double get(const struct operand *op, const int64_t *at)
{
	return element_get(op->dtype, op->memory,
			   layout_at(&op->at, DIMS, at));
}

static void measure(const struct problem *p, const int64_t *at,
		    struct window *w)
{
	int64_t most[3], k[3] = { 0, 0, 0 }, x[DIMS] = { at[0], at[1] };
	unsigned int d;

	w->max = -INFINITY;
	w->sum = 0;
	w->winner = -1;
	w->count = 0;
	w->divisor = 1;
	for (d = 0; d < 3; d++) {
		most[d] = p->flags & OPENREG_POOL_ADAPTIVE ? p->input[d]
							   : p->kernel[d];
		w->divisor *= padded_taps(p, d, at[2 + d]);
	}
	do {
		double v;

		if (!tap(p, 0, at[2], k[0], &x[2]) ||
		    !tap(p, 1, at[3], k[1], &x[3]) ||
		    !tap(p, 2, at[4], k[2], &x[4]))
			continue;
		v = get(&p->x, x);
		w->flat[w->count] = (x[2] * p->input[1] + x[3]) * p->input[2] +
				    x[4];
		if (!w->count || v > w->max) {
			w->max = v;
			w->winner = w->flat[w->count];
		}
		w->sum += v;
		w->count++;
	} while (next_point(3, most, k));
	if (!(p->flags & OPENREG_POOL_COUNT_PADDING))
		w->divisor = w->count;
	if (p->divisor)
		w->divisor = p->divisor;
}

static bool is_float(unsigned int dtype)
{
	return dtype <= OPENREG_BF16;
}

static double divided(const struct problem *p, double x, int64_t by)
{
	return is_float(p->dtype) ? x / (double)by
				  : (double)((int64_t)x / by);
}

static void expect(const struct problem *p, double have, double want)
{
	double limit = !is_float(p->dtype)	 ? 0
		       : p->dtype == OPENREG_F64 ? 1e-13
		       : p->dtype == OPENREG_F32 ? 1e-6
		       : p->dtype == OPENREG_F16 ? 2e-3
						 : 1.6e-2;

	want = element_round(p->dtype, want);
	if (!(fabs(have - want) <= limit * (1 + fabs(want))))
		fail_msg("kind %u, flags %u, dtype %u: %g is not %g", p->kind,
			 p->flags, p->dtype, have, want);
}

static void compare_forward(const struct problem *p)
{
	int64_t at[DIMS] = { 0 };
	static struct window w;

	do {
		measure(p, at, &w);
		if (p->kind == OPENREG_POOL_AVG)
			expect(p, get(&p->y, at),
			       w.count ? divided(p, w.sum, w.divisor) : 0);
		else if (w.count || openreg_dtype_is_float(p->dtype))
			assert_true(get(&p->y, at) == (w.count ? w.max
							       : -INFINITY));
		if (p->has_index)
			assert_int_equal(
				element_get_int(OPENREG_I64, p->index.memory,
						layout_at(&p->index.at, DIMS,
							  at)),
				w.winner);
	} while (next_point(DIMS, p->y.size, at));
}

/* Adds up the gradients of one plane, window by window. */
static void plane_gradient(const struct problem *p, int64_t n, int64_t c,
			   double *sum)
{
	int64_t at[DIMS] = { n, c }, i;
	static struct window w;

	do {
		double g = get(&p->y, at);

		measure(p, at, &w);
		if (p->kind == OPENREG_POOL_AVG) {
			for (i = 0; i < w.count; i++)
				sum[w.flat[i]] += divided(p, g, w.divisor);
			continue;
		}
		i = element_get_int(OPENREG_I64, p->index.memory,
				    layout_at(&p->index.at, DIMS, at));
		if (i >= 0)
			sum[i] += g;
	} while (next_point(3, p->output, at + 2));
}

static void compare_backward(const struct problem *p)
{
	int64_t volume = p->input[0] * p->input[1] * p->input[2], n, c;
	double *sum = calloc((size_t)volume, sizeof(*sum));

	assert_non_null(sum);
	for (n = 0; n < p->n; n++) {
		for (c = 0; c < p->c; c++) {
			int64_t at[DIMS] = { n, c }, i = 0;

			memset(sum, 0, (size_t)volume * sizeof(*sum));
			plane_gradient(p, n, c, sum);
			do
				expect(p, get(&p->x, at), sum[i++]);
			while (next_point(3, p->input, at + 2));
		}
	}
	free(sum);
}

void fill_index(struct problem *p)
{
	int64_t at[DIMS] = { 0 };
	static struct window w;

	do {
		measure(p, at, &w);
		memcpy(p->index.memory + 8 * layout_at(&p->index.at, DIMS, at),
		       &w.winner, 8);
	} while (next_point(DIMS, p->index.size, at));
}

void run(struct problem *p, bool reverse)
{
	struct openreg_args args;

	make(p, &p->x, p->dtype, p->input);
	make(p, &p->y, p->dtype, p->output);
	make(p, &p->index, OPENREG_I64, p->output);
	if (p->flags & OPENREG_POOL_BACKWARD)
		fill_index(p);
	make_args(&args, p);
	args_run_order(&args, reverse);
	if (p->flags & OPENREG_POOL_BACKWARD)
		compare_backward(p);
	else
		compare_forward(p);
	free(p->x.memory);
	free(p->y.memory);
	free(p->index.memory);
}

void random_space(struct problem *p, unsigned int d, bool used)
{
	bool adaptive = p->flags & OPENREG_POOL_ADAPTIVE;
	int64_t reach, fit;

	p->kernel[d] = p->stride[d] = p->dilation[d] = 1;
	p->padding[d] = 0;
	p->input[d] = used ? random_range(1, 12) : 1;
	p->output[d] = used ? random_range(1, 7) : 1;
	if (!used || adaptive)
		return;
	p->kernel[d] = random_range(1, 5);
	p->stride[d] = random_range(1, 4);
	p->padding[d] = random_range(0, p->kernel[d] / 2);
	if (random_range(0, 2) == 0)
		p->dilation[d] = random_range(2, 3);
	reach = (p->kernel[d] - 1) * p->dilation[d] + 1;
	fit = p->input[d] + 2 * p->padding[d] - reach;
	p->output[d] = fit < 0 ? 1 : fit / p->stride[d] + 1 + random_range(0, 1);
}
