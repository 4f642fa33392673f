// SPDX-License-Identifier: MIT
/* POOL: windows and their divisors; cuts the work into units and slices. */
#include <string.h>

#include "pool.h"

#define WINDOW_NS 25.0 /* time to find the position of a window */
#define ROW_MIN 16

/* How many k >= 0 have start + k * step < end. */
static int64_t taps_before(int64_t start, int64_t step, int64_t end)
{
	return start < end ? (end - 1 - start) / step + 1 : 0;
}

struct openreg_pool_span openreg_pool_span(const struct openreg_pool *pool,
					   unsigned int d, int64_t output)
{
	const struct openreg_geometry *w = &pool->w;
	int64_t in = w->input[d], out = w->output[d], k = w->kernel[d];
	struct openreg_pool_span s = { .step = w->dilation[d] };
	int64_t start, skip, last;

	if (pool->flags & OPENREG_POOL_ADAPTIVE) {
		s.first = output * in / out;
		s.count = openreg_div_up((output + 1) * in, out) - s.first;
		s.counted = s.count;
		return s;
	}
	start = output * w->stride[d] - w->padding[d];
	if (start >= 0 && start + (k - 1) * s.step < in) {
		s.first = start;
		s.count = s.counted = k;
		return s;
	}
	skip = taps_before(start, s.step, 0);
	last = openreg_least(k, taps_before(start, s.step, in));
	s.first = start + skip * s.step;
	s.count = openreg_greatest(last - skip, 0);
	s.counted = s.count;
	if (pool->flags & OPENREG_POOL_COUNT_PADDING)
		s.counted = openreg_least(
			k, taps_before(start, s.step, in + w->padding[d]));
	return s;
}

int64_t openreg_pool_divisor(const struct openreg_pool *pool,
			     const struct openreg_pool_span span[3])
{
	if (!span[0].count || !span[1].count || !span[2].count)
		return 0;
	if (pool->divisor)
		return pool->divisor;
	return span[0].counted * span[1].counted * span[2].counted;
}

void openreg_pool_row_spans(const struct openreg_pool *pool, int64_t first,
			    int64_t n, struct openreg_pool_work *work)
{
	int64_t i;

	for (i = 0; i < n; i++)
		work->span[i] = openreg_pool_span(pool, 2, first + i);
}

bool openreg_pool_is_dense(const struct openreg_pool *pool)
{
	int64_t next = 1;
	unsigned int d;

	for (d = 3; d-- > 0;) {
		if (pool->w.input[d] > 1 && pool->x.stride[2 + d] != next)
			return false;
		next *= pool->w.input[d];
	}
	return true;
}

void openreg_pool_divide(const struct openreg_pool *pool,
			 union openreg_pool_value *x, int64_t by, int64_t n)
{
	const double divisor = (double)by;
	int64_t i;

	if (pool->is_float) {
		pool->kernels->ones[2][OPENREG_V_DIV][OPENREG_VT_F64](
			x, x, &divisor, x, (size_t)n);
		return;
	}
	for (i = 0; i < n; i++) {
		if (by == -1)
			x[i].i = (int64_t)(0 - (uint64_t)x[i].i);
		else
			x[i].i /= by;
	}
}

void openreg_pool_divide_row(const struct openreg_pool *pool,
			     struct openreg_pool_span span[3],
			     struct openreg_pool_work *work,
			     union openreg_pool_value *x, int64_t n)
{
	int64_t first = 0, by = 0, next, i;

	for (i = 0; i < n; i++) {
		span[2] = work->span[i];
		next = openreg_pool_divisor(pool, span);
		if (next == by)
			continue;
		if (by)
			openreg_pool_divide(pool, x + first, by, i - first);
		first = i;
		by = next;
	}
	if (by)
		openreg_pool_divide(pool, x + first, by, n - first);
}

static struct openreg_pool_view view(const struct openreg_arg *op)
{
	struct openreg_pool_view v = { .base = (uintptr_t)op->ptr };

	memcpy(v.stride, op->stride, sizeof(v.stride));
	return v;
}

static void set_operands(struct openreg_pool *pool,
			 const struct openreg_args *args)
{
	bool backward = args->arg[1] & OPENREG_POOL_BACKWARD;

	pool->kernels = openreg_kernels();
	pool->kind = args->arg[0];
	pool->flags = args->arg[1];
	pool->dtype = args->op[0].dtype;
	pool->is_float = openreg_dtype_is_float(pool->dtype);
	pool->esize = openreg_dtype_size(pool->dtype);
	pool->n = args->size[0];
	pool->c = args->size[1];
	pool->divisor = (int64_t)args->imm[OPENREG_WINDOW_DIVISOR];
	pool->x = view(&args->op[backward ? 0 : 1]);
	pool->y = view(&args->op[backward ? 1 : 0]);
	pool->has_index = args->nops == 3;
	if (pool->has_index)
		pool->index = view(&args->op[2]);
}

/* The number of elements of a window, about. */
static double window_volume(const struct openreg_pool *pool)
{
	const struct openreg_geometry *w = &pool->w;
	double volume = 1;
	unsigned int d;

	for (d = 0; d < 3; d++) {
		bool adaptive = pool->flags & OPENREG_POOL_ADAPTIVE;
		double n = (double)w->kernel[d];

		if (adaptive && w->output[d])
			n = (double)w->input[d] / (double)w->output[d] + 1;
		volume *= n;
	}
	return volume;
}

void openreg_pool_share(struct openreg_pool *pool, int64_t units, double ns)
{
	pool->units = units;
	pool->slice_units = (int64_t)(openreg_slice_ns(ns * (double)units) /
				      ns) + 1;
}

static void count_units(struct openreg_pool *pool, const int64_t size[3],
			double unit_ns)
{
	int64_t factor[5] = { pool->n, pool->c };
	unsigned int d;

	for (d = 0; d < 3; d++) {
		pool->pieces[d] = openreg_div_up(size[d], pool->piece[d]);
		factor[2 + d] = pool->pieces[d];
	}
	openreg_pool_share(pool, openreg_window_product(factor, 5), unit_ns);
}

/* Cuts units, from the last dimension on; ns: time of an element. */
static void cut(struct openreg_pool *pool, const int64_t size[3], double ns)
{
	int64_t most = pool->flags & OPENREG_POOL_BACKWARD ? OPENREG_POOL_BOX
							   : OPENREG_POOL_LINE;
	double volume = 1;
	unsigned int d;

	if (OPENREG_SLICE_NS / ns < (double)most)
		most = (int64_t)(OPENREG_SLICE_NS / ns) + 1;
	for (d = 3; d-- > 0;) {
		int64_t piece = openreg_least(size[d], most);

		if (d == 2)
			piece = openreg_least(piece, OPENREG_POOL_LINE);
		else if (d == 0 && !(pool->flags & OPENREG_POOL_BACKWARD))
			piece = 1;
		pool->piece[d] = piece;
		volume *= (double)piece;
		most = openreg_greatest(most / piece, 1);
	}
	count_units(pool, size, 200 + ns * volume);
}

/* Time of a box in ns, if all windows that can meet the box do. */
static double box_ns(const struct openreg_pool *pool)
{
	const struct openreg_geometry *w = &pool->w;
	double met = 1, each = 1, volume = 1;
	unsigned int d;

	for (d = 0; d < 3; d++) {
		int64_t one = openreg_pool_meets(w, pool->flags, d, 1);

		if (!(pool->flags & OPENREG_POOL_ADAPTIVE))
			one = openreg_least(one, w->kernel[d]);
		met *= (double)openreg_pool_meets(w, pool->flags, d,
						  pool->piece[d]);
		each *= (double)one;
		volume *= (double)pool->piece[d];
	}
	if (pool->kind == OPENREG_POOL_MAX)
		each = 0;
	return 200 + WINDOW_NS * met + volume * (8 + 3 * each);
}

/* Halves the longest side. Returns false if no side is longer than 1 now. */
static bool halve_box(struct openreg_pool *pool)
{
	unsigned int d, longest = 0;

	for (d = 1; d < 3; d++) {
		if (pool->piece[d] > pool->piece[longest])
			longest = d;
	}
	pool->piece[longest] = openreg_div_up(pool->piece[longest], 2);
	return pool->piece[longest] > 1;
}

static void cut_backward(struct openreg_pool *pool)
{
	cut(pool, pool->w.input, 8);
	while (box_ns(pool) > OPENREG_SLICE_NS && halve_box(pool))
		;
	count_units(pool, pool->w.input, box_ns(pool));
}

static bool plan(struct openreg_pool *pool, const struct openreg_args *args)
{
	unsigned int d;

	for (d = 0; d < OPENREG_POOL_DIMS; d++) {
		if (!args->op[0].size[d])
			return false;
	}
	openreg_window_get(&pool->w, args);
	set_operands(pool, args);
	pool->by_output = pool->flags & OPENREG_POOL_ADAPTIVE ||
			  pool->w.kernel[2] > pool->w.output[2];
	if (openreg_pool_planes_plan(pool))
		return true;
	if (pool->flags & OPENREG_POOL_BACKWARD)
		cut_backward(pool);
	else
		cut(pool, pool->w.output, 8 + 4 * window_volume(pool));
	/* A tap costs as much along a short piece of a row as along a long one. */
	if (!(pool->flags & OPENREG_POOL_BACKWARD) &&
	    pool->piece[2] < openreg_least(ROW_MIN, pool->w.output[2]))
		pool->by_output = true;
	return true;
}

static bool pool_setup(struct openreg_job *job, struct openreg_scratch *scratch)
{
	struct openreg_pool *pool = (struct openreg_pool *)job->priv;
	int64_t slices;

	(void)scratch;
	if (!plan(pool, job->args))
		return true;
	slices = openreg_div_up(pool->units, pool->slice_units);
	if (pool->units < 0 || slices > UINT32_MAX)
		return false;
	job->phases = 1;
	job->slices[0] = (uint32_t)slices;
	return true;
}

static void find_place(const struct openreg_pool *pool, int64_t unit,
		       struct openreg_pool_place *at)
{
	const int64_t *size = pool->flags & OPENREG_POOL_BACKWARD
				      ? pool->w.input
				      : pool->w.output;
	unsigned int d;

	for (d = 3; d-- > 0;) {
		at->first[d] = unit % pool->pieces[d] * pool->piece[d];
		at->count[d] = openreg_least(pool->piece[d],
					     size[d] - at->first[d]);
		unit /= pool->pieces[d];
	}
	at->c = unit % pool->c;
	at->n = unit / pool->c;
}

static bool pool_run(struct openreg_job *job, unsigned int phase,
		     uint32_t slice, struct openreg_scratch *scratch)
{
	const struct openreg_pool *pool =
		(const struct openreg_pool *)job->priv;
	int64_t unit = slice * pool->slice_units;
	int64_t last = openreg_least(unit + pool->slice_units, pool->units);
	struct openreg_pool_work *work =
		openreg_scratch_buffer(scratch, sizeof(*work));
	struct openreg_pool_place at;

	(void)phase;
	if (!work)
		return false;
	if (pool->lanes) {
		openreg_pool_planes_run(pool, unit, last, work);
		return true;
	}
	for (; unit < last; unit++) {
		find_place(pool, unit, &at);
		if (pool->flags & OPENREG_POOL_BACKWARD)
			openreg_pool_backward(pool, &at, work);
		else
			openreg_pool_forward(pool, &at, work);
	}
	return true;
}

const struct openreg_engine openreg_pool_engine = {
	.check = openreg_pool_check,
	.job_size = sizeof(struct openreg_pool),
	.setup = pool_setup,
	.run = pool_run,
};
