// SPDX-License-Identifier: MIT
/* CONV: pieces of the matrices that are never there as a whole. */
#include <string.h>

#include "conv.h"

/* Element i goes to dst + i * step; 0 where the mask is 0, else all ones. */
#define GATHER(type)                                                           \
	do {                                                                   \
		const type *from = (const type *)src;                          \
		type *to = dst;                                                \
		for (i = 0; i < n; i++)                                        \
			to[i * step] =                                         \
				from[off[i]] & (mask ? (type)mask[i]           \
						     : (type) - 1);            \
	} while (0)

static void gather_raw(unsigned int size, void *dst, int64_t step,
		       uintptr_t src, const int64_t *off, const int64_t *mask,
		       int64_t n)
{
	int64_t i;

	switch (size) {
	case 1:
		GATHER(uint8_t);
		break;
	case 2:
		GATHER(uint16_t);
		break;
	case 4:
		GATHER(uint32_t);
		break;
	default:
		GATHER(uint64_t);
	}
}

static void scatter(int64_t width, void *dst, int64_t step, const void *src,
		    int64_t n)
{
	int64_t i;

	if (width == 8) {
		for (i = 0; i < n; i++)
			((uint64_t *)dst)[i * step] =
				((const uint64_t *)src)[i];
		return;
	}
	for (i = 0; i < n; i++)
		((uint32_t *)dst)[i * step] = ((const uint32_t *)src)[i];
}

/* The same, in the type that is computed in. n <= OPENREG_CONV_BLOCK. */
static void gather(const struct openreg_conv *cv, void *dst, int64_t step,
		   uintptr_t src, const int64_t *off, const int64_t *mask,
		   int64_t n)
{
	uint64_t raw[OPENREG_CONV_BLOCK], line[OPENREG_CONV_BLOCK];

	if (cv->direct) {
		gather_raw((unsigned int)cv->esize, dst, step, src, off, mask,
			   n);
		return;
	}
	gather_raw((unsigned int)cv->esize, raw, 1, src, off, mask, n);
	cv->kernels->load[cv->dtype][cv->type](step == 1 ? dst : line, raw, 1,
					       (size_t)n);
	if (step != 1)
		scatter(cv->width, dst, step, line, n);
}

/* A linear index as batch and positions, the last of which run fastest. */
static void split(const struct openreg_conv_axis axis[3], int64_t i,
		  int64_t at[4])
{
	unsigned int d;

	for (d = 3; d-- > 0;) {
		at[d + 1] = i % axis[d].count;
		i /= axis[d].count;
	}
	at[0] = i;
}

static void step(const struct openreg_conv_axis axis[3], int64_t at[4])
{
	unsigned int d;

	for (d = 3; d > 0; d--) {
		if (++at[d] < axis[d - 1].count)
			return;
		at[d] = 0;
	}
	at[0]++;
}

/* Where tap 0 of positions first, first + 1, ... lies in the source. */
static void make_points(const struct openreg_conv_axis axis[3],
			const struct openreg_conv_view *source, int64_t first,
			int64_t n, struct openreg_conv_points *p)
{
	int64_t at[4], i;
	unsigned int d;

	split(axis, first, at);
	for (i = 0; i < n; i++) {
		int64_t base = openreg_offset(at[0], source->n);

		for (d = 0; d < 3; d++) {
			p->at[d][i] = at[d + 1] * axis[d].step + axis[d].at0;
			base = openreg_offset_add(
				base, openreg_offset(p->at[d][i],
						     source->at[d]));
		}
		p->base[i] = base;
		step(axis, at);
	}
}

/* Offsets and masks of one tap for points first, first + 1, ... */
static void tap_points(const struct openreg_conv_axis axis[3],
		       const struct openreg_conv_view *source,
		       const int64_t size[3], const int64_t tap[3],
		       const struct openreg_conv_points *p, int64_t first,
		       int64_t n, int64_t *off, int64_t *mask)
{
	int64_t delta[3], shift = 0, i;
	unsigned int d;

	for (d = 0; d < 3; d++) {
		delta[d] = tap[d] * axis[d].at_step;
		shift = openreg_offset_add(
			shift, openreg_offset(delta[d], source->at[d]));
	}
	for (i = 0; i < n; i++) {
		bool inside = true;

		for (d = 0; d < 3; d++)
			inside &= (uint64_t)(p->at[d][first + i] + delta[d]) <
				  (uint64_t)size[d];
		mask[i] = -(int64_t)inside;
		off[i] = openreg_offset_add(p->base[first + i], shift) &
			 mask[i];
	}
}

static void split_tap(const struct openreg_conv_axis axis[3], int64_t i,
		      int64_t tap[3])
{
	unsigned int d;

	for (d = 3; d-- > 0;) {
		tap[d] = i % axis[d].taps;
		i /= axis[d].taps;
	}
}

static int64_t tap_offset(const struct openreg_conv *cv,
			  const struct openreg_conv_axis axis[3], int64_t i)
{
	int64_t tap[3], at = 0;
	unsigned int d;

	split_tap(axis, i, tap);
	for (d = 0; d < 3; d++)
		at = openreg_offset_add(
			at, openreg_offset(axis[d].tap0 +
						   tap[d] * axis[d].tap_step,
					   cv->weight.at[d]));
	return at;
}

static int64_t taps_of(const struct openreg_conv_axis axis[3])
{
	return axis[0].taps * axis[1].taps * axis[2].taps;
}

void openreg_conv_columns(const struct openreg_conv *cv,
			  const struct openreg_conv_tile *t,
			  struct openreg_conv_work *work)
{
	bool forward = cv->kind == OPENREG_CONV_FORWARD;
	const struct openreg_conv_view *to = forward ? &cv->y : &cv->x;
	int64_t at[4], i;
	unsigned int d;

	if (!openreg_conv_is_gather(cv)) {
		for (i = 0; i < t->columns; i++) {
			int64_t column = t->column0 + i;

			work->result[i] = openreg_offset_add(
				tap_offset(cv, t->axis, column / cv->ic),
				openreg_offset(column % cv->ic,
					       cv->weight.ic));
		}
		return;
	}
	make_points(t->axis, forward ? &cv->x : &cv->y, t->column0, t->columns,
		    &work->points);
	split(t->axis, t->column0, at);
	for (i = 0; i < t->columns; i++) {
		int64_t off = openreg_offset(at[0], to->n);

		for (d = 0; d < 3; d++)
			off = openreg_offset_add(
				off, openreg_offset(
					     t->axis[d].first +
						     at[d + 1] *
							     t->axis[d].spread,
					     to->at[d]));
		work->result[i] = off;
		step(t->axis, at);
	}
}

/* Rows of A: off[] along the reduction, each row `stride` further. */
static void pack_rows(const struct openreg_conv *cv,
		      const struct openreg_conv_tile *t, uintptr_t src,
		      int64_t stride, const int64_t *off, int64_t k,
		      unsigned char *to)
{
	int64_t rows = cv->gemm->rows, i, r;

	for (i = 0; i < t->rows; i += rows) {
		int64_t left = openreg_least(rows, t->rows - i);

		if (left < rows)
			memset(to, 0, (size_t)(rows * k * cv->width));
		for (r = 0; r < left; r++) {
			int64_t at = openreg_offset(t->row0 + i + r, stride);

			gather(cv, to + r * cv->width, rows,
			       src + (uintptr_t)openreg_offset(at, cv->esize),
			       off, NULL, k);
		}
		to += rows * k * cv->width;
	}
}

/* A block of channels and taps of FORWARD and BACKWARD_DATA. */
struct block {
	int64_t channel0, channels, tap0, taps;
	uintptr_t source, weight;
	int64_t source_channel, weight_channel, weight_row;
	const struct openreg_conv_view *view;
	const int64_t *size;
};

static bool find_block(const struct openreg_conv *cv,
		       const struct openreg_conv_tile *t, int64_t block,
		       struct block *b)
{
	bool forward = cv->kind == OPENREG_CONV_FORWARD;
	const struct openreg_conv_view *w = &cv->weight;
	int64_t channels = forward ? cv->ic : cv->oc, at;
	int64_t pieces = openreg_div_up(channels, cv->block_channels);

	b->channel0 = block % pieces * cv->block_channels;
	b->channels = openreg_least(cv->block_channels, channels - b->channel0);
	b->tap0 = block / pieces * cv->block_taps;
	b->taps = openreg_least(cv->block_taps, taps_of(t->axis) - b->tap0);
	b->view = forward ? &cv->x : &cv->y;
	b->size = forward ? cv->w.input : cv->w.output;
	b->source_channel = forward ? cv->x.ic : cv->y.oc;
	b->weight_channel = forward ? w->ic : w->oc;
	b->weight_row = forward ? w->oc : w->ic;
	at = openreg_offset_add(openreg_offset(t->g, b->view->g),
				openreg_offset(b->channel0, b->source_channel));
	b->source = b->view->base + (uintptr_t)openreg_offset(at, cv->esize);
	at = openreg_offset_add(openreg_offset(t->g, w->g),
				openreg_offset(b->channel0, b->weight_channel));
	b->weight = w->base + (uintptr_t)openreg_offset(at, cv->esize);
	return b->taps > 0;
}

static void pack_weights(const struct openreg_conv *cv,
			 const struct openreg_conv_tile *t,
			 const struct block *b, struct openreg_conv_work *work)
{
	int64_t *off = work->other, i, c;

	for (i = 0; i < b->taps; i++) {
		int64_t at = tap_offset(cv, t->axis, b->tap0 + i);

		for (c = 0; c < b->channels; c++)
			*off++ = openreg_offset_add(
				at, openreg_offset(c, b->weight_channel));
	}
	pack_rows(cv, t, b->weight, b->weight_row, work->other,
		  b->taps * b->channels, work->a);
}

static void pack_source(const struct openreg_conv *cv,
			const struct openreg_conv_tile *t,
			const struct block *b, struct openreg_conv_work *work)
{
	int64_t columns = cv->gemm->columns, i, k, c, tap[3];
	int64_t far = openreg_offset(b->source_channel, cv->esize);
	unsigned char *to = work->b;

	for (i = 0; i < t->columns; i += columns) {
		int64_t left = openreg_least(columns, t->columns - i);

		for (k = 0; k < b->taps; k++) {
			uintptr_t from = b->source;

			split_tap(t->axis, b->tap0 + k, tap);
			tap_points(t->axis, b->view, b->size, tap,
				   &work->points, i, left, work->off,
				   work->mask);
			for (c = 0; c < b->channels; c++) {
				gather(cv, to, 1, from, work->off, work->mask,
				       left);
				if (left < columns)
					memset(to + left * cv->width, 0,
					       (size_t)((columns - left) *
							cv->width));
				to += columns * cv->width;
				from += (uintptr_t)far;
			}
		}
	}
}

/* BACKWARD_WEIGHTS: Y by position times X by position, tap and channel. */
static void pack_y(const struct openreg_conv *cv,
		   const struct openreg_conv_tile *t, int64_t first, int64_t k,
		   struct openreg_conv_work *work)
{
	int64_t at[4], g = openreg_offset(t->g, cv->y.g), i;
	unsigned int d;

	split(t->axis, first, at);
	for (i = 0; i < k; i++) {
		work->other[i] = openreg_offset(at[0], cv->y.n);
		for (d = 0; d < 3; d++)
			work->other[i] = openreg_offset_add(
				work->other[i],
				openreg_offset(at[d + 1], cv->y.at[d]));
		step(t->axis, at);
	}
	pack_rows(cv, t,
		  cv->y.base + (uintptr_t)openreg_offset(g, cv->esize),
		  cv->y.oc, work->other, k, work->a);
}

static void pack_x(const struct openreg_conv *cv,
		   const struct openreg_conv_tile *t, int64_t first, int64_t k,
		   struct openreg_conv_work *work)
{
	int64_t width = cv->gemm->columns, i, last = -1, tap[3];
	int64_t g = openreg_offset(t->g, cv->x.g);

	make_points(t->axis, &cv->x, first, k, &work->points);
	for (i = 0; i < t->columns; i++) {
		int64_t column = t->column0 + i, at;
		unsigned char *to = work->b + (i / width * width * k +
					       i % width) * cv->width;

		if (column / cv->ic != last) {
			last = column / cv->ic;
			split_tap(t->axis, last, tap);
			tap_points(t->axis, &cv->x, cv->w.input, tap,
				   &work->points, 0, k, work->off, work->mask);
		}
		if (i % width == 0 && t->columns - i < width)
			memset(to, 0, (size_t)(width * k * cv->width));
		at = openreg_offset_add(g, openreg_offset(column % cv->ic,
							  cv->x.ic));
		gather(cv, to, width,
		       cv->x.base + (uintptr_t)openreg_offset(at, cv->esize),
		       work->off, work->mask, k);
	}
}

int64_t openreg_conv_pack(const struct openreg_conv *cv,
			  const struct openreg_conv_tile *t, int64_t block,
			  struct openreg_conv_work *work)
{
	int64_t first = block * OPENREG_CONV_BLOCK, k;
	struct block b;

	if (openreg_conv_is_gather(cv)) {
		if (!find_block(cv, t, block, &b))
			return 0;
		pack_weights(cv, t, &b, work);
		pack_source(cv, t, &b, work);
		return b.taps * b.channels;
	}
	k = cv->n * openreg_window_volume(cv->w.output) - first;
	k = openreg_least(k, OPENREG_CONV_BLOCK);
	pack_y(cv, t, first, k, work);
	pack_x(cv, t, first, k, work);
	return k;
}
