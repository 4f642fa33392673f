// SPDX-License-Identifier: MIT
/* POOL, backward: what the windows over a box of the input leave there. */
#include <string.h>

#include "pool.h"

/* Outputs whose windows may meet the box along a dimension. */
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
	int64_t skip = 0, last;

	if (s.first < first)
		skip = openreg_div_up(first - s.first, s.step);
	last = first + count - 1;
	last = last < s.first ? -1 : (last - s.first) / s.step;
	s.count = openreg_greatest(openreg_least(s.count - 1, last) - skip + 1,
				   0);
	s.first += skip * s.step;
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

static void spread(const struct openreg_pool *pool,
		   const struct openreg_pool_place *box,
		   const struct openreg_pool_span span[3],
		   union openreg_pool_value value,
		   struct openreg_pool_work *work)
{
	int64_t divisor = openreg_pool_divisor(pool, span), i, j, k;
	struct openreg_pool_span in[3];
	unsigned int d;

	if (!divisor)
		return;
	value = openreg_pool_divide(pool, value, divisor);
	for (d = 0; d < 3; d++) {
		in[d] = clip(span[d], box->first[d], box->count[d]);
		in[d].first -= box->first[d];
	}
	for (i = 0; i < in[0].count; i++) {
		for (j = 0; j < in[1].count; j++) {
			int64_t at = (in[0].first + i * in[0].step) *
					     box->count[1] +
				     in[1].first + j * in[1].step;
			union openreg_pool_value *to =
				work->box + at * box->count[2] + in[2].first;

			for (k = 0; k < in[2].count; k++)
				add(pool, to + k * in[2].step, value);
		}
	}
}

/* From memory, so it may be anything. */
static void place(const struct openreg_pool *pool,
		  const struct openreg_pool_place *box,
		  const struct openreg_pool_span span[3], int64_t index,
		  union openreg_pool_value value,
		  struct openreg_pool_work *work)
{
	const int64_t *size = pool->w.input;
	int64_t at[3], slot = 0;
	unsigned int d;

	if (index < 0)
		return;
	at[2] = index % size[2];
	index /= size[2];
	at[1] = index % size[1];
	at[0] = index / size[1];
	for (d = 0; d < 3; d++) {
		int64_t i = at[d] - box->first[d];

		if (i < 0 || i >= box->count[d] || at[d] < span[d].first ||
		    at[d] > span[d].first + (span[d].count - 1) * span[d].step)
			return;
		slot = slot * box->count[d] + i;
	}
	add(pool, &work->box[slot], value);
}

static void add_row(const struct openreg_pool *pool,
		    const struct openreg_pool_place *box,
		    struct openreg_pool_span span[3], int64_t at[3], int64_t n,
		    struct openreg_pool_work *work)
{
	int64_t i, first = at[2];

	openreg_pool_load(pool, work->line,
			  openreg_pool_at(&pool->y, pool->esize, box->n, box->c,
					  at),
			  pool->y.stride[4], n);
	if (pool->kind == OPENREG_POOL_MAX)
		pool->kernels->load[OPENREG_I64][OPENREG_VT_I64](
			work->index,
			(const void *)openreg_pool_at(&pool->index, 8, box->n,
						      box->c, at),
			pool->index.stride[4], (size_t)n);
	for (i = 0; i < n; i++) {
		span[2] = openreg_pool_span(pool, 2, first + i);
		if (pool->kind == OPENREG_POOL_MAX)
			place(pool, box, span, work->index[i], work->line[i],
			      work);
		else
			spread(pool, box, span, work->line[i], work);
	}
}

static void store_box(const struct openreg_pool *pool,
		      const struct openreg_pool_place *box,
		      const struct openreg_pool_work *work)
{
	const union openreg_pool_value *from = work->box;
	int64_t at[3] = { 0, 0, box->first[2] }, i, j;

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

void openreg_pool_backward(const struct openreg_pool *pool,
			   const struct openreg_pool_place *box,
			   struct openreg_pool_work *work)
{
	int64_t volume = box->count[0] * box->count[1] * box->count[2];
	int64_t first[3], end[3], at[3], n;
	struct openreg_pool_span span[3];
	unsigned int d;

	memset(work->box, 0, (size_t)volume * sizeof(*work->box));
	for (d = 0; d < 3; d++)
		outputs_of_box(pool, d, box, &first[d], &end[d]);
	/* Or the loops over two dimensions count to nothing in the third. */
	for (d = 0; d < 3; d++) {
		if (first[d] >= end[d])
			end[0] = first[0];
	}
	for (at[0] = first[0]; at[0] < end[0]; at[0]++) {
		span[0] = openreg_pool_span(pool, 0, at[0]);
		for (at[1] = first[1]; at[1] < end[1]; at[1]++) {
			span[1] = openreg_pool_span(pool, 1, at[1]);
			for (at[2] = first[2]; at[2] < end[2]; at[2] += n) {
				n = openreg_least(end[2] - at[2],
						  OPENREG_POOL_LINE);
				add_row(pool, box, span, at, n, work);
			}
		}
	}
	store_box(pool, box, work);
}
