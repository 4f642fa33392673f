// SPDX-License-Identifier: MIT
/*
 * CONV as weighted lines of vectors, with one group in each lane. For depthwise
 * convolutions and groups of few channels.
 *
 * The engine packs the source of a tile once as f32, the groups of an element side by
 * side, with zeros around it. A tap is then one distance for the whole tile, with any
 * stride.
 */
#include <string.h>

#include "conv_slide.h"

#define LANES OPENREG_LANES

struct lanes {
	struct slide *s;
	const struct openreg_lanes_kernel *kernel;
	int64_t groups; /* lanes that have a group */
	int64_t ld;	/* distance of rows in stage */
	float *stage;	/* a row of each lane */
};

/* The strides of an operand along its groups and along a row. */
struct row {
	int64_t group, step;
};

/* Are the lanes of an element closer in memory than the elements of a lane? */
static bool lanes_first(const struct row *row)
{
	int64_t group = openreg_greatest(row->group, -row->group);

	return group <= openreg_greatest(row->step, -row->step);
}

/* Loads n elements; lanes without a group are 0. */
static void load(const struct lanes *l, float *to, uintptr_t from,
		 const struct row *row, int64_t n)
{
	const struct openreg_conv *cv = l->s->cv;
	openreg_load_fn *fn = cv->kernels->load[cv->dtype][OPENREG_VT_F32];
	int64_t i;

	if (lanes_first(row)) {
		if (l->groups < LANES)
			memset(to, 0, (size_t)(n * LANES) * 4);
		for (i = 0; i < n; i++, to += LANES)
			fn(to,
			   (const void *)openreg_slide_element(
				   cv, from, openreg_offset(i, row->step)),
			   row->group, (size_t)l->groups);
		return;
	}
	if (cv->dtype == OPENREG_F32 && row->step == 1 && l->groups == LANES) {
		l->kernel->from_rows(to, (const float *)from, row->group,
				     (size_t)n);
		return;
	}
	for (i = 0; i < LANES; i++) {
		float *lane = l->stage + i * l->ld;

		if (i < l->groups)
			fn(lane,
			   (const void *)openreg_slide_element(
				   cv, from, openreg_offset(i, row->group)),
			   row->step, (size_t)n);
		else
			memset(lane, 0, (size_t)n * 4);
	}
	l->kernel->from_rows(to, l->stage, l->ld, (size_t)n);
}

static void store(const struct lanes *l, uintptr_t to, const float *from,
		  const struct row *row, int64_t n)
{
	const struct openreg_conv *cv = l->s->cv;
	openreg_store_fn *fn = cv->kernels->store[cv->dtype][OPENREG_VT_F32];
	int64_t i;

	if (lanes_first(row)) {
		for (i = 0; i < n; i++, from += LANES)
			fn((void *)openreg_slide_element(
				   cv, to, openreg_offset(i, row->step)),
			   row->group, from, (size_t)l->groups);
		return;
	}
	l->kernel->to_rows(l->stage, l->ld, from, (size_t)n);
	for (i = 0; i < l->groups; i++)
		fn((void *)openreg_slide_element(cv, to,
						 openreg_offset(i, row->group)),
		   row->step, l->stage + i * l->ld, (size_t)n);
}

/* Loads a row of the source from position `first` on, with zeros outside. */
static void load_row(const struct lanes *l, float *to, uintptr_t from,
		     int64_t first, int64_t n)
{
	const struct slide *s = l->s;
	const struct row row = { s->source->g, s->source->at[2] };
	int64_t low = openreg_least(openreg_greatest(-first, 0), n);
	int64_t high = openreg_greatest(
		low, openreg_least(s->source_size[2] - first, n));

	memset(to, 0, (size_t)(low * LANES) * 4);
	memset(to + high * LANES, 0, (size_t)((n - high) * LANES) * 4);
	if (low < high)
		load(l, to + low * LANES,
		     openreg_slide_element(
			     s->cv, from,
			     openreg_offset(first + low, row.step)),
		     &row, high - low);
}

static void load_image(const struct lanes *l, float *to, uintptr_t from,
		       const int64_t first[3])
{
	const struct slide *s = l->s;
	const int64_t *stride = s->source->at, *size = s->source_size;
	int64_t i, j, line = s->span[2].line;

	/* Positions may wrap: those far outside of the source are zeros, too. */
	for (i = 0; i < s->span[0].line; i++) {
		for (j = 0; j < s->span[1].line; j++) {
			int64_t y = openreg_offset_add(first[0], i);
			int64_t x = openreg_offset_add(first[1], j);
			int64_t at = openreg_offset_add(
				openreg_offset(y, stride[0]),
				openreg_offset(x, stride[1]));

			if ((uint64_t)y >= (uint64_t)size[0] ||
			    (uint64_t)x >= (uint64_t)size[1])
				memset(to, 0, (size_t)(line * LANES) * 4);
			else
				load_row(l, to,
					 openreg_slide_element(s->cv, from, at),
					 first[2], line);
			to += line * LANES;
		}
	}
}

/* Packs the source as [channels][images][plane]. */
static void load_source(const struct lanes *l)
{
	const struct slide *s = l->s;
	int64_t c, n, first[3];
	float *to = s->x;
	unsigned int d;

	for (d = 0; d < 3; d++)
		first[d] = s->axis[d].at0 + s->span[d].begin[0] +
			   s->first[d + 1] * s->axis[d].step;
	for (c = 0; c < s->channels; c++) {
		for (n = 0; n < s->count[0]; n++, to += s->plane * LANES)
			load_image(l, to,
				   openreg_slide_channel(
					   s, s->source, s->first[0] + n,
					   openreg_offset(c, s->source_channel)),
				   first);
	}
}

/* The packed source of a row of positions, for tap 0. */
static const float *source_row(const struct slide *s, int64_t n, int64_t i,
			       int64_t j)
{
	return s->x + openreg_slide_row(s, n, i * s->span[0].step,
					j * s->span[1].step) * LANES;
}

/* Loads all weights of a row into w, or stores w as the weights. */
static void move_weights(const struct lanes *l, int64_t row, float *w,
			 bool store_them)
{
	const struct slide *s = l->s;
	const struct openreg_conv *cv = s->cv;
	int64_t step = openreg_offset(s->axis[2].tap_step, cv->weight.at[2]);
	const struct row strides = { cv->weight.g, step };
	int64_t c, i, j, n = s->span[2].taps;

	for (c = 0; c < s->channels; c++) {
		for (i = 0; i < s->span[0].taps; i++) {
			for (j = 0; j < s->span[1].taps; j++) {
				uintptr_t at = openreg_slide_weight(s, row, c,
								    i, j);

				if (store_them)
					store(l, at, w, &strides, n);
				else
					load(l, w, at, &strides, n);
				w += n * LANES;
			}
		}
	}
}

static void run_rows(const struct lanes *l)
{
	const struct slide *s = l->s;
	bool forward = s->cv->kind == OPENREG_CONV_FORWARD;
	const struct row to = { s->to->g,
				openreg_offset(s->axis[2].spread, s->to->at[2]) };
	int64_t row, n, i, j;

	memset(s->bias, 0, LANES * 4);
	for (row = 0; row < s->cv->rows; row++) {
		int64_t channel = openreg_offset(row, forward ? s->to->oc
							      : s->to->ic);

		move_weights(l, row, s->w, false);
		openreg_slide_load_bias(s, row, s->bias, l->groups);
		FOR_EACH_ROW(s, n, i, j) {
			l->kernel->run(s->out, source_row(s, n, i, j),
				       s->span[2].step * LANES, s->at, s->w,
				       s->bias, (size_t)s->lines,
				       (size_t)s->count[3]);
			store(l, openreg_slide_result(s, n, i, j, channel),
			      s->out, &to, s->count[3]);
		}
	}
}

static int64_t sums_of_row(const struct slide *s)
{
	return (s->lines + OPENREG_SLIDE_LINES) * LANES;
}

static void add_products(const struct lanes *l)
{
	const struct slide *s = l->s;
	const struct row from = { s->to->g, s->to->at[2] };
	int64_t row, n, i, j;

	for (row = 0; row < s->cv->rows; row++) {
		int64_t channel = openreg_offset(row, s->to->oc);

		FOR_EACH_ROW(s, n, i, j) {
			load(l, s->out,
			     openreg_slide_result(s, n, i, j, channel), &from,
			     s->count[3]);
			l->kernel->dot(s->sums + row * sums_of_row(s), s->out,
				       source_row(s, n, i, j),
				       s->span[2].step * LANES, s->at,
				       (size_t)s->lines, (size_t)s->count[3]);
		}
	}
}

static void end_sums(const struct lanes *l, int64_t part)
{
	const struct slide *s = l->s;
	const struct openreg_conv *cv = s->cv;
	int64_t row, g, k;

	for (row = 0; row < cv->rows; row++) {
		float *from = s->sums + row * sums_of_row(s);

		if (!cv->partial) {
			move_weights(l, row, from, true);
			continue;
		}
		for (g = 0; g < l->groups; g++) {
			int64_t at = (part * cv->g + s->g + g) * cv->rows + row;
			float *to = (float *)cv->partial + at * cv->columns;

			for (k = 0; k < s->lines; k++)
				to[k] = from[k * LANES + g];
		}
	}
}

static int64_t whole(int64_t floats)
{
	return (floats + 15) / 16 * 16;
}

/* Divides the scratch memory. Returns false if memory is short. */
static bool place(struct lanes *l, struct openreg_scratch *scratch)
{
	struct slide *s = l->s;
	int64_t at = whole(2 * (s->lines + OPENREG_SLIDE_LINES));
	int64_t x = s->channels * s->count[0] * s->plane * LANES;
	int64_t rows = openreg_conv_is_gather(s->cv) ? 1 : s->cv->rows;
	int64_t w = rows * sums_of_row(s), out = s->count[3] * LANES;
	float *memory;

	/* Rows at a distance of a power of two would share a set of the cache. */
	l->ld = whole(openreg_greatest(s->span[2].line, s->count[3])) + 16;
	memory = openreg_scratch_buffer(
		scratch, (size_t)(at + x + w + out + (l->ld + 1) * LANES) * 4);
	if (!memory)
		return false;
	s->at = (int64_t *)memory;
	s->x = memory + at;
	s->w = s->sums = s->x + x;
	s->out = s->w + w;
	s->bias = s->out + out;
	l->stage = s->bias + LANES;
	return true;
}

static void find_lines(const struct slide *s)
{
	int64_t k;

	openreg_slide_find_lines(s);
	for (k = 0; k < s->lines; k++)
		s->at[k] *= LANES;
}

static bool run_gather(struct lanes *l, int64_t unit,
		       struct openreg_scratch *scratch)
{
	struct slide *s = l->s;
	int64_t tile = openreg_slide_take(&unit, s->cv->slide.all_tiles);

	openreg_conv_axes(s->cv, unit, s->axis);
	if (!openreg_slide_tile(s, tile))
		return true;
	if (!place(l, scratch))
		return false;
	find_lines(s);
	load_source(l);
	run_rows(l);
	return true;
}

/* Runs all tiles of a part, one after the other. */
static bool run_weights(struct lanes *l, int64_t part,
			struct openreg_scratch *scratch)
{
	struct slide *s = l->s;
	const struct openreg_conv_slide *plan = &s->cv->slide;
	int64_t tile = part * plan->part_tiles;
	int64_t last = openreg_least(tile + plan->part_tiles, plan->all_tiles);

	openreg_conv_axes(s->cv, 0, s->axis);
	/* Allocates for the first tile, which is the largest. */
	if (!openreg_slide_tile(s, 0) || !place(l, scratch))
		return false;
	memset(s->sums, 0, (size_t)(s->cv->rows * sums_of_row(s)) * 4);
	for (; tile < last; tile++) {
		openreg_slide_tile(s, tile);
		find_lines(s);
		load_source(l);
		add_products(l);
	}
	end_sums(l, part);
	return true;
}

bool openreg_conv_lanes(struct slide *s, int64_t unit,
			struct openreg_scratch *scratch)
{
	struct lanes l = {
		.s = s,
		.kernel = &s->cv->kernels->lanes,
		.groups = openreg_least(LANES, s->cv->g - s->g),
	};

	return openreg_conv_is_gather(s->cv) ? run_gather(&l, unit, scratch)
					     : run_weights(&l, unit, scratch);
}
