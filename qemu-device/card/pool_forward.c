// SPDX-License-Identifier: MIT
/* POOL, forward. */
#include <math.h>
#include <string.h>

#include "pool.h"

union openreg_pool_value openreg_pool_neutral(const struct openreg_pool *pool)
{
	union openreg_pool_value v = { .i = 0 };

	if (pool->kind == OPENREG_POOL_MAX && pool->is_float)
		v.f = -INFINITY;
	else if (pool->kind == OPENREG_POOL_MAX)
		v.i = INT64_MIN;
	else if (pool->is_float)
		v.f = 0;
	return v;
}

static void fold_max(const struct openreg_pool *pool,
		     struct openreg_pool_work *work, int64_t slot,
		     const union openreg_pool_value *line, int64_t at,
		     int64_t step, int64_t n)
{
	unsigned int type = pool->is_float ? OPENREG_VT_F64 : OPENREG_VT_I64;

	pool->kernels->window_max[type](work->sum + slot, work->index + slot,
					line, at, step, (size_t)n);
}

/* The same of one element, where windows are taken one by one: a NaN stays. */
static void fold_one(bool is_float, union openreg_pool_value *most,
		     int64_t *index, const union openreg_pool_value *value,
		     int64_t at)
{
	bool take = is_float ? value->f > most->f || value->f != value->f :
			       value->i > most->i;

	if (*index >= 0 && !take)
		return;
	*most = *value;
	*index = at;
}

static void fold_sum(bool is_float, union openreg_pool_value *sum,
		     const union openreg_pool_value *line, int64_t n)
{
	int64_t i;

	if (is_float) {
		for (i = 0; i < n; i++)
			sum[i].f += line[i].f;
		return;
	}
	for (i = 0; i < n; i++)
		sum[i].i = openreg_offset_add(sum[i].i, line[i].i);
}

/* Outputs o .. o + n - 1 of a row have tap k inside: returns n. */
static int64_t outputs_of_tap(const struct openreg_pool *pool, int64_t k,
			      const struct openreg_pool_place *at, int64_t *o)
{
	const struct openreg_geometry *w = &pool->w;
	int64_t shift = w->padding[2] - k * w->dilation[2];
	int64_t last = w->input[2] - 1 + shift;
	int64_t end = last < 0 ? 0 : last / w->stride[2] + 1;

	*o = shift > 0 ? openreg_div_up(shift, w->stride[2]) : 0;
	*o = openreg_greatest(*o, at->first[2]);
	end = openreg_least(end, at->first[2] + at->count[2]);
	return end - *o;
}

/* One row of the input to all outputs that have it in their windows. */
static void fold_row(const struct openreg_pool *pool,
		     const struct openreg_pool_place *at, const int64_t row[2],
		     struct openreg_pool_work *work)
{
	const struct openreg_geometry *w = &pool->w;
	int64_t flat = (row[0] * w->input[1] + row[1]) * w->input[2], k;

	for (k = 0; k < w->kernel[2]; k++) {
		int64_t o, n = outputs_of_tap(pool, k, at, &o), slot;
		int64_t from[3] = { row[0], row[1], 0 };

		if (n <= 0)
			continue;
		from[2] = o * w->stride[2] - w->padding[2] +
			  k * w->dilation[2];
		slot = o - at->first[2];
		openreg_pool_load(pool, work->line,
				  openreg_pool_at(&pool->x, pool->esize, at->n,
						  at->c, from),
				  openreg_offset(w->stride[2],
						 pool->x.stride[4]),
				  n);
		if (pool->kind == OPENREG_POOL_MAX)
			fold_max(pool, work, slot, work->line, flat + from[2],
				 w->stride[2], n);
		else
			fold_sum(pool->is_float, work->sum + slot, work->line,
				 n);
	}
}

static void by_rows(const struct openreg_pool *pool,
		    const struct openreg_pool_place *at,
		    const struct openreg_pool_span span[3],
		    struct openreg_pool_work *work)
{
	int64_t i, j, row[2];

	for (i = 0; i < span[0].count; i++) {
		for (j = 0; j < span[1].count; j++) {
			row[0] = span[0].first + i * span[0].step;
			row[1] = span[1].first + j * span[1].step;
			fold_row(pool, at, row, work);
		}
	}
}

/* A piece of a row of one window, into slot. */
static void fold_piece(const struct openreg_pool *pool, int64_t at,
		       int64_t step, int64_t n, int64_t slot,
		       struct openreg_pool_work *work)
{
	int64_t i;

	for (i = 0; i < n; i++) {
		if (pool->kind == OPENREG_POOL_MAX)
			fold_one(pool->is_float, work->sum + slot,
				 work->index + slot, work->line + i,
				 at + i * step);
		else
			fold_sum(pool->is_float, work->sum + slot,
				 work->line + i, 1);
	}
}

static void fold_window(const struct openreg_pool *pool,
			const struct openreg_pool_place *at,
			const struct openreg_pool_span span[3], int64_t slot,
			struct openreg_pool_work *work)
{
	const struct openreg_geometry *w = &pool->w;
	int64_t i, j, k, n, from[3];

	for (i = 0; i < span[0].count; i++) {
		for (j = 0; j < span[1].count; j++) {
			for (k = 0; k < span[2].count; k += n) {
				n = openreg_least(span[2].count - k,
						  OPENREG_POOL_LINE);
				from[0] = span[0].first + i * span[0].step;
				from[1] = span[1].first + j * span[1].step;
				from[2] = span[2].first + k * span[2].step;
				openreg_pool_load(
					pool, work->line,
					openreg_pool_at(&pool->x, pool->esize,
							at->n, at->c, from),
					openreg_offset(span[2].step,
						       pool->x.stride[4]),
					n);
				fold_piece(pool,
					   (from[0] * w->input[1] + from[1]) *
							   w->input[2] +
						   from[2],
					   span[2].step, n, slot, work);
			}
		}
	}
}

static void divide(const struct openreg_pool *pool,
		   const struct openreg_pool_place *at,
		   struct openreg_pool_span span[3],
		   struct openreg_pool_work *work)
{
	int64_t i, by;

	for (i = 0; i < at->count[2]; i++) {
		span[2] = openreg_pool_span(pool, 2, at->first[2] + i);
		by = openreg_pool_divisor(pool, span);
		if (by)
			work->sum[i] = openreg_pool_divide(pool, work->sum[i],
							   by);
	}
}

void openreg_pool_forward(const struct openreg_pool *pool,
			  const struct openreg_pool_place *at,
			  struct openreg_pool_work *work)
{
	struct openreg_pool_span span[3];
	int64_t i, n = at->count[2];

	for (i = 0; i < n; i++) {
		work->sum[i] = openreg_pool_neutral(pool);
		work->index[i] = -1;
	}
	span[0] = openreg_pool_span(pool, 0, at->first[0]);
	span[1] = openreg_pool_span(pool, 1, at->first[1]);
	for (i = 0; i < n && pool->by_output; i++) {
		span[2] = openreg_pool_span(pool, 2, at->first[2] + i);
		fold_window(pool, at, span, i, work);
	}
	if (!pool->by_output)
		by_rows(pool, at, span, work);
	if (pool->kind == OPENREG_POOL_AVG)
		divide(pool, at, span, work);
	openreg_pool_store(pool,
			   openreg_pool_at(&pool->y, pool->esize, at->n, at->c,
					   at->first),
			   pool->y.stride[4], work->sum, n);
	if (!pool->has_index)
		return;
	pool->kernels->store[OPENREG_I64][OPENREG_VT_I64](
		(void *)openreg_pool_at(&pool->index, 8, at->n, at->c,
					at->first),
		pool->index.stride[4], work->index, (size_t)n);
}
