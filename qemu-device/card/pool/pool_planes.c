// SPDX-License-Identifier: MIT
/*
 * POOL of small planes: computes several planes together, one in each lane, so that they
 * share the cost of finding a window. Windows, and the elements of a window, have the
 * same order as without lanes, so results have the same bits.
 */
#include <string.h>

#include "job/dims.h"
#include "pool.h"

#define LANES_MIN 8
#define UNITS_MIN 8 /* so that every worker gets some */
#define ROW_MAX 32 /* forward, a longer row of outputs is as fast without lanes */
#define LOAD_NS 1.5
#define TAP_NS 0.4
#define CALL_NS 10

static unsigned int type_of(const struct openreg_pool *pool)
{
	return pool->is_float ? OPENREG_VT_F64 : OPENREG_VT_I64;
}

static void swap(int64_t *a, int64_t *b)
{
	int64_t old = *a;

	*a = *b;
	*b = old;
}

/* Lanes are along c: moves all planes to c, or makes c the longer dimension. */
static void join_planes(struct openreg_pool *pool)
{
	int64_t *const stride[] = { pool->x.stride, pool->y.stride, pool->index.stride };
	const unsigned int nops = pool->has_index ? 3 : 2;
	int64_t size[] = { pool->n, pool->c };
	unsigned int i;

	if (openreg_merge_dims(2, size, stride, nops, OPENREG_OUTER_FIRST) < 2) {
		pool->c *= pool->n;
		pool->n = 1;
		for (i = 0; i < nops; i++)
			stride[i][1] = stride[i][0];
	} else if (pool->n > pool->c) {
		swap(&pool->n, &pool->c);
		for (i = 0; i < nops; i++)
			swap(&stride[i][0], &stride[i][1]);
	}
}

/* The number of elements of all windows of a plane. */
static double count_taps(const struct openreg_pool *pool)
{
	double taps = 1;
	unsigned int d;
	int64_t o;

	for (d = 0; d < 3; d++) {
		int64_t n = 0;

		for (o = 0; o < pool->w.output[d]; o++)
			n += openreg_pool_span(pool, d, o).count;
		taps *= (double)n;
	}
	return taps;
}

bool openreg_pool_planes_plan(struct openreg_pool *pool)
{
	int64_t in = openreg_window_volume(pool->w.input);
	int64_t out = openreg_window_volume(pool->w.output);
	int64_t longest = openreg_greatest(in, out), lanes;
	bool backward = pool->flags & OPENREG_POOL_BACKWARD;
	double taps, ns;

	pool->lanes = 0;
	if (in <= 0 || out <= 0 || longest > OPENREG_POOL_PLANE ||
	    (!backward && !pool->by_output && pool->w.output[2] > ROW_MAX))
		return false;
	join_planes(pool);
	lanes = openreg_least(pool->c, openreg_greatest(pool->n * pool->c /
								UNITS_MIN,
							LANES_MIN));
	lanes = openreg_least(lanes, OPENREG_POOL_LINE);
	lanes = openreg_least(lanes, OPENREG_POOL_BOX / longest);
	taps = count_taps(pool);
	do {
		ns = CALL_NS * (taps + (double)(in + out)) +
		     (double)lanes * (LOAD_NS * (double)(in + 2 * out) +
				      TAP_NS * taps);
		if (ns <= OPENREG_SLICE_NS)
			break;
		lanes /= 2;
	} while (lanes >= LANES_MIN);
	if (lanes < LANES_MIN)
		return false;
	pool->lanes = lanes;
	pool->groups = openreg_div_up(pool->c, lanes);
	openreg_pool_share(pool, pool->n * pool->groups, ns);
	return true;
}

static void find_spans(const struct openreg_pool *pool,
		       struct openreg_pool_work *work)
{
	struct openreg_pool_span *to = work->span;
	unsigned int d;
	int64_t o;

	for (d = 0; d < 3; d++) {
		for (o = 0; o < pool->w.output[d]; o++)
			*to++ = openreg_pool_span(pool, d, o);
	}
}

/* `lanes` planes of image n, from plane c on. */
struct group {
	const struct openreg_pool *pool;
	struct openreg_pool_work *work;
	int64_t n, c, lanes;
};

static uintptr_t address(const struct group *g,
			 const struct openreg_pool_view *v, int64_t esize,
			 const int64_t at[3])
{
	return openreg_pool_at(v, esize, g->n, g->c, at);
}

/* Handles one element of a window, for all lanes. */
typedef void visit_fn(const struct group *g, int64_t flat);

static void visit_max(const struct group *g, int64_t flat)
{
	g->pool->kernels->window_max[type_of(g->pool)](
		g->work->sum, g->work->index, g->work->box + flat * g->lanes,
		flat, 0, (size_t)g->lanes);
}

static void add(const struct group *g, union openreg_pool_value *to,
		const union openreg_pool_value *x)
{
	g->pool->kernels->op[OPENREG_V_ADD][type_of(g->pool)](
		to, to, x, x, (size_t)g->lanes);
}

static void visit_sum(const struct group *g, int64_t flat)
{
	add(g, g->work->sum, g->work->box + flat * g->lanes);
}

static void visit_spread(const struct group *g, int64_t flat)
{
	add(g, g->work->box + flat * g->lanes, g->work->line);
}

static void visit_window(const struct group *g,
			 const struct openreg_pool_span span[3],
			 visit_fn *visit)
{
	const int64_t *size = g->pool->w.input;
	int64_t i, j, k;

	for (i = 0; i < span[0].count; i++) {
		for (j = 0; j < span[1].count; j++) {
			int64_t row = (span[0].first + i * span[0].step) *
					      size[1] +
				      span[1].first + j * span[1].step;

			for (k = 0; k < span[2].count; k++)
				visit(g, row * size[2] + span[2].first +
						 k * span[2].step);
		}
	}
}

static void window_forward(const struct group *g,
			   const struct openreg_pool_span span[3],
			   const int64_t at[3])
{
	const struct openreg_pool *pool = g->pool;
	struct openreg_pool_work *work = g->work;
	bool max = pool->kind == OPENREG_POOL_MAX;
	int64_t by, i;

	for (i = 0; i < g->lanes; i++) {
		work->sum[i] = openreg_pool_neutral(pool);
		work->index[i] = -1;
	}
	visit_window(g, span, max ? visit_max : visit_sum);
	by = max ? 0 : openreg_pool_divisor(pool, span);
	if (by)
		openreg_pool_divide(pool, work->sum, by, g->lanes);
	openreg_pool_store(pool, address(g, &pool->y, pool->esize, at),
			   pool->y.stride[1], work->sum, g->lanes);
	if (pool->has_index)
		pool->kernels->store[OPENREG_I64][OPENREG_VT_I64](
			(void *)address(g, &pool->index, 8, at),
			pool->index.stride[1], work->index, (size_t)g->lanes);
}

/* Marks the elements that an index may name: the window's, and those between them. */
static void mark(const struct group *g, const struct openreg_pool_span span[3],
		 bool inside)
{
	const int64_t *size = g->pool->w.input;
	int64_t extent[3], i, j;
	unsigned int d;

	for (d = 0; d < 3; d++) {
		if (!span[d].count)
			return;
		extent[d] = (span[d].count - 1) * span[d].step + 1;
	}
	for (i = 0; i < extent[0]; i++) {
		for (j = 0; j < extent[1]; j++)
			memset(g->work->inside +
				       ((span[0].first + i) * size[1] +
					span[1].first + j) * size[2] +
				       span[2].first,
			       inside, (size_t)extent[2]);
	}
}

/* Adds the gradients of MAX. In this box, one plane follows the other. */
static void place(const struct group *g,
		  const struct openreg_pool_span span[3], const int64_t at[3])
{
	const struct openreg_pool *pool = g->pool;
	struct openreg_pool_work *work = g->work;
	int64_t volume = openreg_window_volume(pool->w.input), flat, i;
	uintptr_t index = address(g, &pool->index, 8, at);
	uintptr_t from = address(g, &pool->y, pool->esize, at);
	uintptr_t step = (uintptr_t)pool->index.stride[1] * 8;
	uintptr_t from_step =
		(uintptr_t)pool->y.stride[1] * (uintptr_t)pool->esize;
	bool f32 = pool->dtype == OPENREG_F32;
	union openreg_pool_value *to = work->box;

	if (!f32)
		openreg_pool_load(pool, work->line, from, pool->y.stride[1],
				  g->lanes);
	mark(g, span, true);
	for (i = 0; i < g->lanes; i++, to += volume) {
		/* The index comes from memory: it may have any value, so read it once. */
		flat = *(const volatile int64_t *)(index + (uintptr_t)i * step);
		if (flat < 0 || flat >= volume || !work->inside[flat])
			continue;
		if (f32)
			to[flat].f += *(const float *)(from + (uintptr_t)i *
								      from_step);
		else if (pool->is_float)
			to[flat].f += work->line[i].f;
		else
			to[flat].i = openreg_offset_add(to[flat].i,
							work->line[i].i);
	}
	mark(g, span, false);
}

static void window_backward(const struct group *g,
			    const struct openreg_pool_span span[3],
			    const int64_t at[3])
{
	const struct openreg_pool *pool = g->pool;
	struct openreg_pool_work *work = g->work;
	int64_t by;

	if (pool->kind == OPENREG_POOL_MAX) {
		place(g, span, at);
		return;
	}
	openreg_pool_load(pool, work->line,
			  address(g, &pool->y, pool->esize, at),
			  pool->y.stride[1], g->lanes);
	by = openreg_pool_divisor(pool, span);
	if (!by)
		return;
	openreg_pool_divide(pool, work->line, by, g->lanes);
	visit_window(g, span, visit_spread);
}

/* Loads the box from the input, or, backward, stores the box in the input. */
static void move_box(const struct group *g)
{
	const struct openreg_pool *pool = g->pool;
	const struct openreg_pool_view *x = &pool->x;
	union openreg_pool_value *box = g->work->box;
	int64_t at[3];

	for (at[0] = 0; at[0] < pool->w.input[0]; at[0]++) {
		for (at[1] = 0; at[1] < pool->w.input[1]; at[1]++) {
			for (at[2] = 0; at[2] < pool->w.input[2]; at[2]++) {
				uintptr_t p = address(g, x, pool->esize, at);

				if (pool->flags & OPENREG_POOL_BACKWARD)
					openreg_pool_store(pool, p,
							   x->stride[1], box,
							   g->lanes);
				else
					openreg_pool_load(pool, box, p,
							  x->stride[1],
							  g->lanes);
				box += g->lanes;
			}
		}
	}
}

/* Stores the box of place(). */
static void store_planes(const struct group *g, int64_t volume)
{
	const struct openreg_pool *pool = g->pool;
	const struct openreg_pool_view *x = &pool->x;
	const union openreg_pool_value *box = g->work->box;
	const int64_t *in = pool->w.input;
	int64_t at[3] = { 0, 0, 0 }, i;

	if (openreg_pool_is_dense(pool) && x->stride[1] == volume) {
		openreg_pool_store(pool, address(g, x, pool->esize, at), 1, box,
				   volume * g->lanes);
		return;
	}
	for (i = 0; i < g->lanes; i++) {
		for (at[0] = 0; at[0] < in[0]; at[0]++) {
			for (at[1] = 0; at[1] < in[1]; at[1]++) {
				openreg_pool_store(
					pool,
					openreg_pool_at(x, pool->esize, g->n,
							g->c + i, at),
					x->stride[4], box, in[2]);
				box += in[2];
			}
		}
	}
}

static void run_group(const struct group *g)
{
	const int64_t *out = g->pool->w.output;
	const struct openreg_pool_span *spans = g->work->span;
	bool backward = g->pool->flags & OPENREG_POOL_BACKWARD;
	bool max = g->pool->kind == OPENREG_POOL_MAX;
	int64_t volume = openreg_window_volume(g->pool->w.input), at[3];
	struct openreg_pool_span span[3];

	if (backward)
		memset(g->work->box, 0,
		       (size_t)(volume * g->lanes) * sizeof(*g->work->box));
	else
		move_box(g);
	for (at[0] = 0; at[0] < out[0]; at[0]++) {
		span[0] = spans[at[0]];
		for (at[1] = 0; at[1] < out[1]; at[1]++) {
			span[1] = spans[out[0] + at[1]];
			for (at[2] = 0; at[2] < out[2]; at[2]++) {
				span[2] = spans[out[0] + out[1] + at[2]];
				if (backward)
					window_backward(g, span, at);
				else
					window_forward(g, span, at);
			}
		}
	}
	if (backward && max)
		store_planes(g, volume);
	else if (backward)
		move_box(g);
}

void openreg_pool_planes_run(const struct openreg_pool *pool, int64_t unit,
			     int64_t end, struct openreg_pool_work *work)
{
	struct group g = { .pool = pool, .work = work };

	find_spans(pool, work);
	memset(work->inside, 0, sizeof(work->inside));
	for (; unit < end; unit++) {
		g.n = unit / pool->groups;
		g.c = unit % pool->groups * pool->lanes;
		g.lanes = openreg_least(pool->lanes, pool->c - g.c);
		run_group(&g);
	}
}
