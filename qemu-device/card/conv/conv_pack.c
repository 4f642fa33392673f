// SPDX-License-Identifier: MIT
/*
 * CONV: packs pieces of the matrices that never exist as a whole. A piece is a panel of
 * lines of the reduction. Each line holds rows or columns, at the same offsets in every
 * line.
 */
#include <string.h>

#include "conv.h"

static unsigned int log2_size(int64_t size)
{
	return size == 8 ? 3 : (unsigned int)size / 2;
}

/* Packs k lines of a panel, from work's at, mask and index, in the type of the sums. */
static void pack_panel(const struct openreg_conv *cv, unsigned char *to,
		       int64_t width, uintptr_t src,
		       struct openreg_conv_work *work, int64_t k)
{
	openreg_gather_fn *gather = cv->kernels->gather[log2_size(cv->esize)];

	if (cv->direct) {
		gather(to, (size_t)width, src, work->at, work->mask,
		       work->index, (size_t)k);
		return;
	}
	gather(work->raw, (size_t)width, src, work->at, work->mask, work->index,
	       (size_t)k);
	cv->kernels->load[cv->dtype][cv->type](to, work->raw, 1,
					       (size_t)(width * k));
}

/* Continues the index for elements that the mask leaves out, so that runs stay runs. */
static void extend_index(struct openreg_conv_work *work, int64_t n)
{
	for (; n < OPENREG_GATHER_WIDTH; n++)
		work->index[n] = openreg_offset_add(work->index[n - 1], 1);
}

/* Splits a linear index into image and positions; the last dimension is the fastest. */
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

/* Finds the source elements of tap 0 for n positions from `first` on. */
static void find_points(const struct openreg_conv_axis axis[3],
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
				base,
				openreg_offset(p->at[d][i], source->at[d]));
		}
		p->base[i] = base;
		step(axis, at);
	}
}

/* The distance in the source from tap 0 to a tap. */
static int64_t tap_shift(const struct openreg_conv_axis axis[3],
			 const struct openreg_conv_view *source,
			 const int64_t tap[3])
{
	int64_t shift = 0;
	unsigned int d;

	for (d = 0; d < 3; d++)
		shift = openreg_offset_add(
			shift, openreg_offset(tap[d] * axis[d].at_step,
					      source->at[d]));
	return shift;
}

/* Returns all ones if a tap of point i is inside the source, else 0. */
static uint32_t tap_inside(const struct openreg_conv_axis axis[3],
			   const int64_t size[3], const int64_t tap[3],
			   const struct openreg_conv_points *p, int64_t i)
{
	bool inside = true;
	unsigned int d;

	for (d = 0; d < 3; d++)
		inside &= (uint64_t)(p->at[d][i] + tap[d] * axis[d].at_step) <
			  (uint64_t)size[d];
	return -(uint32_t)inside;
}

/* The coordinates of tap i. */
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
			at,
			openreg_offset(axis[d].tap0 + tap[d] * axis[d].tap_step,
				       cv->weight.at[d]));
	return at;
}

static int64_t taps_of(const struct openreg_conv_axis axis[3])
{
	return axis[0].taps * axis[1].taps * axis[2].taps;
}

static int64_t result_at(const struct openreg_conv *cv,
			 const struct openreg_conv_tile *t, int64_t column)
{
	const struct openreg_conv_view *to =
		cv->kind == OPENREG_CONV_FORWARD ? &cv->y : &cv->x;
	int64_t at[4], off, taps;
	unsigned int d;

	if (!openreg_conv_is_gather(cv)) {
		taps = taps_of(t->axis);
		off = openreg_offset(column / taps, cv->weight.ic);
		return openreg_offset_add(off, tap_offset(cv, t->axis,
							  column % taps));
	}
	split(t->axis, column, at);
	off = openreg_offset(at[0], to->n);
	for (d = 0; d < 3; d++) {
		at[d + 1] = t->axis[d].first + at[d + 1] * t->axis[d].spread;
		off = openreg_offset_add(off,
					 openreg_offset(at[d + 1], to->at[d]));
	}
	return off;
}

void openreg_conv_columns(const struct openreg_conv *cv,
			  const struct openreg_conv_tile *t,
			  struct openreg_conv_work *work)
{
	struct openreg_conv_run *run = work->run;
	int64_t i, at = result_at(cv, t, t->column0), last;

	*run = (struct openreg_conv_run){ 0, 1, at, 1 };
	for (i = 1; i < t->columns; i++) {
		last = at;
		at = result_at(cv, t, t->column0 + i);
		if (run->n == 1)
			run->stride = openreg_offset_add(at, -run->at);
		if (openreg_offset_add(last, run->stride) == at)
			run->n++;
		else
			*++run = (struct openreg_conv_run){ i, 1, at, 1 };
	}
	work->runs = run + 1 - work->run;
	if (openreg_conv_is_gather(cv))
		find_points(
			t->axis,
			cv->kind == OPENREG_CONV_FORWARD ? &cv->x : &cv->y,
			t->column0, t->columns, &work->points);
}

/* Packs panels of A: rows are `stride` elements apart, lines begin at work->at. */
static void pack_rows(const struct openreg_conv *cv,
		      const struct openreg_conv_tile *t, uintptr_t src,
		      int64_t stride, struct openreg_conv_work *work, int64_t k)
{
	int64_t rows = cv->gemm->rows, i, r;
	unsigned char *to = work->a;

	for (i = 0; i < t->rows; i += rows) {
		int64_t left = openreg_least(rows, t->rows - i);

		for (r = 0; r < left; r++)
			work->index[r] =
				openreg_offset(t->row0 + i + r, stride);
		extend_index(work, left);
		for (r = 0; r < k; r++)
			work->mask[r] = (1u << left) - 1;
		pack_panel(cv, to, rows, src, work, k);
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

/* Orders lines by channel, then by tap, because most weights have that layout. */
static void place_lines(const struct block *b, int64_t channel_stride,
			struct openreg_conv_work *work)
{
	int64_t *at = work->at, c, k;

	for (c = 0; c < b->channels; c++) {
		int64_t channel = openreg_offset(c, channel_stride);

		for (k = 0; k < b->taps; k++)
			*at++ = openreg_offset_add(channel, work->tap[k]);
	}
}

static void pack_weights(const struct openreg_conv *cv,
			 const struct openreg_conv_tile *t,
			 const struct block *b, struct openreg_conv_work *work)
{
	int64_t k;

	for (k = 0; k < b->taps; k++)
		work->tap[k] = tap_offset(cv, t->axis, b->tap0 + k);
	place_lines(b, b->weight_channel, work);
	pack_rows(cv, t, b->weight, b->weight_row, work, b->taps * b->channels);
}

/* Sets the masks of the lines for the points of one panel. */
static void mask_points(const struct openreg_conv_tile *t,
			const struct block *b, int64_t first, int64_t n,
			struct openreg_conv_work *work)
{
	int64_t k, c, i, tap[3];

	for (k = 0; k < b->taps; k++) {
		uint32_t mask = 0;

		split_tap(t->axis, b->tap0 + k, tap);
		for (i = 0; i < n; i++)
			mask |= tap_inside(t->axis, b->size, tap, &work->points,
					   first + i) &
				1u << i;
		work->tap_mask[k] = mask;
	}
	for (c = 0; c < b->channels; c++)
		memcpy(work->mask + c * b->taps, work->tap_mask,
		       (size_t)b->taps * sizeof(*work->mask));
}

static void pack_source(const struct openreg_conv *cv,
			const struct openreg_conv_tile *t,
			const struct block *b, struct openreg_conv_work *work)
{
	int64_t columns = cv->gemm->columns, lines = b->taps * b->channels;
	int64_t i, k, tap[3];
	unsigned char *to = work->b;

	for (k = 0; k < b->taps; k++) {
		split_tap(t->axis, b->tap0 + k, tap);
		work->tap[k] = tap_shift(t->axis, b->view, tap);
	}
	place_lines(b, b->source_channel, work);
	for (i = 0; i < t->columns; i += columns) {
		int64_t left = openreg_least(columns, t->columns - i);

		mask_points(t, b, i, left, work);
		memcpy(work->index, work->points.base + i,
		       (size_t)left * sizeof(*work->index));
		extend_index(work, left);
		pack_panel(cv, to, columns, b->source, work, lines);
		to += columns * lines * cv->width;
	}
}

/* BACKWARD_WEIGHTS: packs y by position, to multiply with x by position, channel, tap. */
static void pack_y(const struct openreg_conv *cv,
		   const struct openreg_conv_tile *t, int64_t first, int64_t k,
		   struct openreg_conv_work *work)
{
	int64_t at[4], g = openreg_offset(t->g, cv->y.g), i;
	unsigned int d;

	split(t->axis, first, at);
	for (i = 0; i < k; i++) {
		work->at[i] = openreg_offset(at[0], cv->y.n);
		for (d = 0; d < 3; d++)
			work->at[i] = openreg_offset_add(
				work->at[i],
				openreg_offset(at[d + 1], cv->y.at[d]));
		step(t->axis, at);
	}
	pack_rows(cv, t, cv->y.base + (uintptr_t)openreg_offset(g, cv->esize),
		  cv->y.oc, work, k);
}

/*
 * Column i of the tile has the tap of slot i modulo slots. A tile has either all taps, or
 * one for each column.
 */
static int64_t count_slots(const struct openreg_conv_tile *t)
{
	return openreg_least(t->columns, taps_of(t->axis));
}

static void find_inside(const struct openreg_conv *cv,
			const struct openreg_conv_tile *t, int64_t k,
			struct openreg_conv_work *work)
{
	int64_t taps = taps_of(t->axis), slots = count_slots(t), s, i, tap[3];
	uint32_t *inside = work->inside;

	for (s = 0; s < slots; s++) {
		split_tap(t->axis, (t->column0 + s) % taps, tap);
		for (i = 0; i < k; i++)
			inside[i] = tap_inside(t->axis, cv->w.input, tap,
					       &work->points, i);
		inside += OPENREG_CONV_BLOCK;
	}
}

/* Sets the masks of k lines for n columns of the tile, from column `first` on. */
static void mask_columns(const struct openreg_conv_tile *t, int64_t first,
			 int64_t n, int64_t k, struct openreg_conv_work *work)
{
	int64_t slots = count_slots(t), i, j;

	memset(work->mask, 0, (size_t)k * sizeof(*work->mask));
	for (i = 0; i < openreg_least(n, slots); i++) {
		const uint32_t *inside =
			work->inside + (first + i) % slots * OPENREG_CONV_BLOCK;
		uint32_t columns = 0;

		for (j = i; j < n; j += slots)
			columns |= 1u << j;
		for (j = 0; j < k; j++)
			work->mask[j] |= inside[j] & columns;
	}
}

static void pack_x(const struct openreg_conv *cv,
		   const struct openreg_conv_tile *t, int64_t first, int64_t k,
		   struct openreg_conv_work *work)
{
	int64_t columns = cv->gemm->columns, taps = taps_of(t->axis), i, j;
	int64_t g = openreg_offset(t->g, cv->x.g), tap[3];
	unsigned char *to = work->b;

	find_points(t->axis, &cv->x, first, k, &work->points);
	find_inside(cv, t, k, work);
	memcpy(work->at, work->points.base, (size_t)k * sizeof(*work->at));
	for (i = 0; i < t->columns; i += columns) {
		int64_t left = openreg_least(columns, t->columns - i);

		for (j = 0; j < left; j++) {
			int64_t column = t->column0 + i + j;

			split_tap(t->axis, column % taps, tap);
			work->index[j] = openreg_offset_add(
				tap_shift(t->axis, &cv->x, tap),
				openreg_offset(column / taps, cv->x.ic));
		}
		extend_index(work, left);
		mask_columns(t, i, left, k, work);
		pack_panel(cv, to, columns,
			   cv->x.base + (uintptr_t)openreg_offset(g, cv->esize),
			   work, k);
		to += columns * k * cv->width;
	}
}

int64_t openreg_conv_pack(const struct openreg_conv *cv,
			  const struct openreg_conv_tile *t, int64_t block,
			  struct openreg_conv_work *work)
{
	int64_t first, k;
	struct block b;

	if (openreg_conv_is_gather(cv)) {
		if (!find_block(cv, t, block, &b))
			return 0;
		pack_weights(cv, t, &b, work);
		pack_source(cv, t, &b, work);
		return b.taps * b.channels;
	}
	first = block * OPENREG_CONV_BLOCK;
	k = cv->n * openreg_window_volume(cv->w.output) - first;
	k = openreg_least(k, OPENREG_CONV_BLOCK);
	pack_y(cv, t, first, k, work);
	pack_x(cv, t, first, k, work);
	return k;
}
