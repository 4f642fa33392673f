// SPDX-License-Identifier: MIT
/* POOL, backward: sums the gradients of the windows that meet a box of the input. */
#include <string.h>

#include "pool.h"

/* Finds the outputs with windows that can meet the box along a dimension. */
static void outputs_of_box(const struct openreg_pool *pool, unsigned int d,
			   const struct openreg_pool_place *box, int64_t *first,
			   int64_t *end)
{
	const struct openreg_geometry *w = &pool->w;
	int64_t from = box->first[d], last = from + box->count[d] - 1;
	int64_t out = w->output[d], reach;

	if (pool->flags & OPENREG_POOL_ADAPTIVE) {
		*first = openreg_greatest(from * out / w->input[d] - 1, 0);
		*end = openreg_least((last + 1) * out / w->input[d] + 1, out);
		return;
	}
	reach = (w->kernel[d] - 1) * w->dilation[d];
	from += w->padding[d] - reach;
	*first = from > 0 ? openreg_div_up(from, w->stride[d]) : 0;
	*end = openreg_least((last + w->padding[d]) / w->stride[d] + 1, out);
}

/* The part of a window's span that is in the box. */
static struct openreg_pool_span clip(struct openreg_pool_span s, int64_t first,
				     int64_t count)
{
	int64_t skip = 0, last = first + count - 1;

	if (s.first >= first && s.first + (s.count - 1) * s.step <= last)
		return s;
	if (s.first < first)
		skip = openreg_div_up(first - s.first, s.step);
	last = last < s.first ? -1 : (last - s.first) / s.step;
	s.count = openreg_greatest(openreg_least(s.count - 1, last) - skip + 1,
				   0);
	s.first += skip * s.step;
	return s;
}

/*
 * The part of a window in the box, from the box's first element on. For MAX the part
 * includes the elements between the taps of the window.
 */
static struct openreg_pool_span find_part(const struct openreg_pool *pool,
					  const struct openreg_pool_place *box,
					  unsigned int d,
					  struct openreg_pool_span s)
{
	if (pool->kind == OPENREG_POOL_MAX && s.count) {
		s.count = (s.count - 1) * s.step + 1;
		s.step = 1;
	}
	s = clip(s, box->first[d], box->count[d]);
	s.first -= box->first[d];
	return s;
}

static void add(const struct openreg_pool *pool, union openreg_pool_value *to,
		union openreg_pool_value x)
{
	if (pool->is_float)
		to->f += x.f;
	else
		to->i = openreg_offset_add(to->i, x.i);
}

/* A row of n windows: their spans, and their parts in the box. */
struct row {
	const struct openreg_pool_place *box;
	struct openreg_pool_span span[3], part[2];
	uint64_t inverse[2]; /* 2^64 / size of the input's last two dimensions */
	int64_t n;
};

static void add_to_all(const struct openreg_pool *pool,
		       union openreg_pool_value *to, int64_t step, int64_t n,
		       union openreg_pool_value x)
{
	int64_t i;

	if (pool->is_float && step == 1) {
		for (i = 0; i < n; i++)
			to[i].f += x.f;
		return;
	}
	for (i = 0; i < n; i++)
		add(pool, to + i * step, x);
}

/* Adds the windows in their order, for each row of the box. */
static void spread(const struct openreg_pool *pool, struct row *row,
		   struct openreg_pool_work *work)
{
	const struct openreg_pool_place *box = row->box;
	int64_t i, j, o;

	openreg_pool_divide_row(pool, row->span, work, work->line, row->n);
	for (i = 0; i < row->part[0].count; i++) {
		for (j = 0; j < row->part[1].count; j++) {
			int64_t at = (row->part[0].first +
				      i * row->part[0].step) * box->count[1] +
				     row->part[1].first +
				     j * row->part[1].step;
			union openreg_pool_value *to =
				work->box + at * box->count[2];

			for (o = 0; o < row->n; o++) {
				const struct openreg_pool_span *s =
					&work->part[o];

				add_to_all(pool, to + s->first, s->step,
					   s->count, work->line[o]);
			}
		}
	}
}

/* i / by, with a multiplication by the inverse for i below 2^32 and by above 1. */
static int64_t quotient(int64_t i, int64_t by, uint64_t inverse)
{
	if (by == 1)
		return i;
	if (i > UINT32_MAX)
		return i / by;
	return (int64_t)((unsigned __int128)i * inverse >> 64);
}

static bool is_in(const struct openreg_pool_span *s, int64_t at)
{
	return (uint64_t)(at - s->first) < (uint64_t)s->count;
}

/* Adds the gradients of MAX. An index comes from memory, so it may have any value. */
static void place(const struct openreg_pool *pool, const struct row *row,
		  struct openreg_pool_work *work)
{
	const struct openreg_pool_place *box = row->box;
	const int64_t *size = pool->w.input;
	int64_t o;

	for (o = 0; o < row->n; o++) {
		int64_t index = work->index[o], line, at[3];

		if (index < 0)
			continue;
		line = quotient(index, size[2], row->inverse[1]);
		at[0] = quotient(line, size[1], row->inverse[0]);
		at[2] = index - line * size[2] - box->first[2];
		at[1] = line - at[0] * size[1] - box->first[1];
		at[0] -= box->first[0];
		if (is_in(&row->part[0], at[0]) &&
		    is_in(&row->part[1], at[1]) && is_in(&work->part[o], at[2]))
			add(pool,
			    &work->box[(at[0] * box->count[1] + at[1]) *
					       box->count[2] +
				       at[2]],
			    work->line[o]);
	}
}

/* Finds windows o .. o + n - 1 of a row, and their parts in the box. */
static void find_windows(const struct openreg_pool *pool,
			 const struct openreg_pool_place *box, int64_t o,
			 int64_t n, struct openreg_pool_work *work)
{
	int64_t i;

	openreg_pool_row_spans(pool, o, n, work);
	for (i = 0; i < n; i++)
		work->part[i] = find_part(pool, box, 2, work->span[i]);
}

static void add_row(const struct openreg_pool *pool, struct row *row,
		    int64_t at[3], struct openreg_pool_work *work)
{
	const struct openreg_pool_place *box = row->box;

	openreg_pool_load(pool, work->line,
			  openreg_pool_at(&pool->y, pool->esize, box->n, box->c,
					  at),
			  pool->y.stride[4], row->n);
	if (pool->kind == OPENREG_POOL_AVG) {
		spread(pool, row, work);
		return;
	}
	pool->kernels->load[OPENREG_I64][OPENREG_VT_I64](
		work->index,
		(const void *)openreg_pool_at(&pool->index, 8, box->n, box->c,
					      at),
		pool->index.stride[4], (size_t)row->n);
	place(pool, row, work);
}

static void store_box(const struct openreg_pool *pool,
		      const struct openreg_pool_place *box,
		      const struct openreg_pool_work *work)
{
	const union openreg_pool_value *from = work->box;
	int64_t at[3] = { 0, 0, box->first[2] }, i, j;

	if (box->count[1] == pool->w.input[1] &&
	    box->count[2] == pool->w.input[2] && openreg_pool_is_dense(pool)) {
		openreg_pool_store(pool,
				   openreg_pool_at(&pool->x, pool->esize,
						   box->n, box->c, box->first),
				   1, from,
				   box->count[0] * box->count[1] *
					   box->count[2]);
		return;
	}
	for (i = 0; i < box->count[0]; i++) {
		for (j = 0; j < box->count[1]; j++) {
			at[0] = box->first[0] + i;
			at[1] = box->first[1] + j;
			openreg_pool_store(pool,
					   openreg_pool_at(&pool->x,
							   pool->esize, box->n,
							   box->c, at),
					   pool->x.stride[4], from,
					   box->count[2]);
			from += box->count[2];
		}
	}
}

static void find_rows(const struct openreg_pool *pool, struct row *row,
		      unsigned int d, int64_t output)
{
	row->span[d] = openreg_pool_span(pool, d, output);
	row->part[d] = find_part(pool, row->box, d, row->span[d]);
}

void openreg_pool_backward(const struct openreg_pool *pool,
			   const struct openreg_pool_place *box,
			   struct openreg_pool_work *work)
{
	int64_t volume = box->count[0] * box->count[1] * box->count[2];
	int64_t first[3], end[3], at[3];
	struct row row = { .box = box };
	unsigned int d;
	bool all;

	memset(work->box, 0, (size_t)volume * sizeof(*work->box));
	for (d = 0; d < 2; d++)
		row.inverse[d] = UINT64_MAX / (uint64_t)pool->w.input[1 + d] +
				 1;
	for (d = 0; d < 3; d++)
		outputs_of_box(pool, d, box, &first[d], &end[d]);
	/* If no window meets the box along one dimension, run no loop at all. */
	for (d = 0; d < 3; d++) {
		if (first[d] >= end[d])
			end[0] = first[0];
	}
	all = end[0] > first[0] && end[2] - first[2] <= OPENREG_POOL_LINE;
	if (all)
		find_windows(pool, box, first[2], end[2] - first[2], work);
	for (at[0] = first[0]; at[0] < end[0]; at[0]++) {
		find_rows(pool, &row, 0, at[0]);
		for (at[1] = first[1]; at[1] < end[1]; at[1]++) {
			find_rows(pool, &row, 1, at[1]);
			for (at[2] = first[2]; at[2] < end[2]; at[2] += row.n) {
				row.n = openreg_least(end[2] - at[2],
						      OPENREG_POOL_LINE);
				if (!all)
					find_windows(pool, box, at[2], row.n,
						     work);
				add_row(pool, &row, at, work);
			}
		}
	}
	store_box(pool, box, work);
}
