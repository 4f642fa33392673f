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

/* As fold_max(), for one element of one window: a NaN stays. */
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

static void fold_sum(const struct openreg_pool *pool,
		     union openreg_pool_value *sum,
		     const union openreg_pool_value *line, int64_t n)
{
	unsigned int type = pool->is_float ? OPENREG_VT_F64 : OPENREG_VT_I64;

	pool->kernels->op[OPENREG_V_ADD][type](sum, sum, line, line, (size_t)n);
}

/* Finds outputs *o .. *o + n - 1 of a row, which have tap k inside. Returns n. */
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

static void load_row(const struct openreg_pool *pool,
		     const struct openreg_pool_place *at, const int64_t from[3],
		     int64_t step, int64_t n, struct openreg_pool_work *work)
{
	openreg_pool_load(pool, work->line,
			  openreg_pool_at(&pool->x, pool->esize, at->n, at->c,
					  from),
			  openreg_offset(step, pool->x.stride[4]), n);
}

/* Folds one row of the input into all outputs that have the row in their window. */
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
		load_row(pool, at, from, w->stride[2], n, work);
		if (pool->kind == OPENREG_POOL_MAX)
			fold_max(pool, work, slot, work->line, flat + from[2],
				 w->stride[2], n);
		else
			fold_sum(pool, work->sum + slot, work->line, n);
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

/* Folds n elements of a row of a window into a slot; `apart`: their distance in line. */
static void fold_piece(const struct openreg_pool *pool, int64_t at,
		       int64_t step, int64_t n, int64_t slot,
		       const union openreg_pool_value *line, int64_t apart,
		       struct openreg_pool_work *work)
{
	union openreg_pool_value *sum = &work->sum[slot];
	double total;
	int64_t i;

	if (pool->kind == OPENREG_POOL_MAX) {
		for (i = 0; i < n; i++)
			fold_one(pool->is_float, sum, work->index + slot,
				 line + i * apart, at + i * step);
	} else if (pool->is_float) {
		total = sum->f;
		for (i = 0; i < n; i++)
			total += line[i * apart].f;
		sum->f = total;
	} else {
		for (i = 0; i < n; i++)
			sum->i = openreg_offset_add(sum->i, line[i * apart].i);
	}
}

/* Folds row from[0], from[1] of the input into the windows; loads each part anew. */
static void fold_wide(const struct openreg_pool *pool,
		      const struct openreg_pool_place *at, int64_t from[3],
		      struct openreg_pool_work *work)
{
	const struct openreg_geometry *w = &pool->w;
	int64_t i, k, n;

	for (i = 0; i < at->count[2]; i++) {
		const struct openreg_pool_span *s = &work->span[i];

		for (k = 0; k < s->count; k += n) {
			n = openreg_least(s->count - k, OPENREG_POOL_LINE);
			from[2] = s->first + k * s->step;
			load_row(pool, at, from, s->step, n, work);
			fold_piece(pool,
				   (from[0] * w->input[1] + from[1]) *
						   w->input[2] +
					   from[2],
				   s->step, n, i, work->line, 1, work);
		}
	}
}

/* As fold_wide(), for a row that fits into a line and is loaded once. */
static void fold_line(const struct openreg_pool *pool,
		      const struct openreg_pool_place *at, int64_t from[3],
		      int64_t first, int64_t n, struct openreg_pool_work *work)
{
	const struct openreg_geometry *w = &pool->w;
	int64_t flat = (from[0] * w->input[1] + from[1]) * w->input[2], i;

	from[2] = first;
	load_row(pool, at, from, 1, n, work);
	for (i = 0; i < at->count[2]; i++) {
		const struct openreg_pool_span *s = &work->span[i];

		if (!s->count)
			continue;
		fold_piece(pool, flat + s->first, s->step, s->count, i,
			   work->line + (s->first - first), s->step, work);
	}
}

static void by_output(const struct openreg_pool *pool,
		      const struct openreg_pool_place *at,
		      const struct openreg_pool_span span[3],
		      struct openreg_pool_work *work)
{
	int64_t first = pool->w.input[2], end = 0, from[3], i, j;

	for (i = 0; i < at->count[2]; i++) {
		const struct openreg_pool_span *s = &work->span[i];

		if (!s->count)
			continue;
		first = openreg_least(first, s->first);
		end = openreg_greatest(end, s->first + (s->count - 1) * s->step +
						    1);
	}
	for (i = 0; i < span[0].count && first < end; i++) {
		for (j = 0; j < span[1].count; j++) {
			from[0] = span[0].first + i * span[0].step;
			from[1] = span[1].first + j * span[1].step;
			if (end - first <= OPENREG_POOL_LINE)
				fold_line(pool, at, from, first, end - first,
					  work);
			else
				fold_wide(pool, at, from, work);
		}
	}
}

static void make_row(const struct openreg_pool *pool,
		     const struct openreg_pool_place *at,
		     struct openreg_pool_span span[3],
		     struct openreg_pool_work *work)
{
	int64_t i, n = at->count[2];

	for (i = 0; i < n; i++) {
		work->sum[i] = openreg_pool_neutral(pool);
		work->index[i] = -1;
	}
	if (pool->by_output)
		by_output(pool, at, span, work);
	else
		by_rows(pool, at, span, work);
	if (pool->kind == OPENREG_POOL_AVG)
		openreg_pool_divide_row(pool, span, work, work->sum, n);
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

void openreg_pool_forward(const struct openreg_pool *pool,
			  const struct openreg_pool_place *at,
			  struct openreg_pool_work *work)
{
	struct openreg_pool_place row = *at;
	struct openreg_pool_span span[3];
	int64_t i;

	span[0] = openreg_pool_span(pool, 0, at->first[0]);
	if (pool->by_output || pool->kind == OPENREG_POOL_AVG)
		openreg_pool_row_spans(pool, at->first[2], at->count[2], work);
	for (i = 0; i < at->count[1]; i++) {
		row.first[1] = at->first[1] + i;
		span[1] = openreg_pool_span(pool, 1, row.first[1]);
		make_row(pool, &row, span, work);
	}
}
