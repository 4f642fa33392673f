// SPDX-License-Identifier: MIT
/*
 * CONV without a matrix. Each tap of each channel is a line of the source with its own
 * start, and results are weighted sums of lines. This is faster where few rows share the
 * elements that they read: depthwise, grouped and first convolutions.
 *
 * A tile is a box of images and positions. The engine packs its source once as f32, with
 * zeros around it, so that a tap is one distance for the whole tile. Positions with the
 * same remainder modulo the stride form a phase, and the elements of a phase are packed
 * together.
 */
#include <string.h>

#include "conv_slide.h"

/* The taps of a row and a channel along the last dimension. */
uintptr_t openreg_slide_weight(const struct slide *s, int64_t row,
			       int64_t channel, int64_t i, int64_t j)
{
	const struct openreg_conv_view *w = &s->cv->weight;
	bool data = s->cv->kind == OPENREG_CONV_BACKWARD_DATA;
	int64_t tap[2] = { s->axis[0].tap0 + i * s->axis[0].tap_step,
			   s->axis[1].tap0 + j * s->axis[1].tap_step };
	int64_t at = openreg_offset_add(
		openreg_offset(data ? s->channel0 + channel : row, w->oc),
		openreg_offset(data ? row : s->channel0 + channel, w->ic));

	at = openreg_offset_add(at, openreg_offset(s->g, w->g));
	at = openreg_offset_add(at, openreg_offset(tap[0], w->at[0]));
	at = openreg_offset_add(at, openreg_offset(tap[1], w->at[1]));
	at = openreg_offset_add(at, openreg_offset(s->axis[2].tap0, w->at[2]));
	return openreg_slide_element(s->cv, w->base, at);
}

static int64_t row_stride(const struct slide *s)
{
	return s->cv->kind == OPENREG_CONV_FORWARD ? s->cv->weight.oc
						   : s->cv->weight.ic;
}

/* Are the weights of a row and a channel adjacent, in the order of the lines? */
static bool is_dense(const struct slide *s)
{
	const int64_t *at = s->cv->weight.at;
	int64_t next = 1;
	unsigned int d;

	for (d = 3; d-- > 0; next *= s->span[d].taps) {
		if (s->span[d].taps > 1 &&
		    openreg_offset(s->axis[d].tap_step, at[d]) != next)
			return false;
	}
	return true;
}

/* Loads OPENREG_LANES rows; repeats the last one for rows that do not exist. */
static void load_dense(const struct slide *s, int64_t row, int64_t left,
		       float *to)
{
	const struct openreg_conv *cv = s->cv;
	int64_t channel = cv->kind == OPENREG_CONV_FORWARD ? cv->weight.ic
							   : cv->weight.oc;
	int64_t n = channel == s->taps ? s->lines : s->taps, c, r;

	for (c = 0; c < s->lines / n; c++, to += n * OPENREG_LANES) {
		if (cv->dtype == OPENREG_F32 && left >= OPENREG_LANES) {
			cv->kernels->lanes.from_rows(
				to,
				(const float *)openreg_slide_weight(s, row, c,
								    0, 0),
				row_stride(s), (size_t)n);
			continue;
		}
		for (r = 0; r < OPENREG_LANES; r++)
			cv->kernels->load[cv->dtype][OPENREG_VT_F32](
				s->row + r * n,
				(const void *)openreg_slide_weight(
					s, row + openreg_least(r, left - 1), c,
					0, 0),
				1, (size_t)n);
		cv->kernels->lanes.from_rows(to, s->row, n, (size_t)n);
	}
}

/* Loads the weights of a row; those of two lines are s->width elements apart. */
static void load_row(const struct slide *s, int64_t row, float *to)
{
	int64_t stride = openreg_offset(s->axis[2].tap_step,
					s->cv->weight.at[2]);
	int64_t c, i, j, k, n = s->span[2].taps;

	for (c = 0; c < s->channels; c++) {
		for (i = 0; i < s->span[0].taps; i++) {
			for (j = 0; j < s->span[1].taps; j++) {
				uintptr_t from =
					openreg_slide_weight(s, row, c, i, j);

				s->cv->kernels->load[s->cv->dtype]
						    [OPENREG_VT_F32](
					s->row, (const void *)from, stride,
					(size_t)n);
				for (k = 0; k < n; k++, to += s->width)
					*to = s->row[k];
			}
		}
	}
}

/* Packs the weights as [rows / width][lines][width]. */
static void load_weights(const struct slide *s)
{
	bool dense = s->width == OPENREG_LANES && is_dense(s);
	int64_t row, r;

	for (row = 0; row < s->rows && s->lines; row += s->width) {
		float *to = s->w + row * s->lines;
		int64_t left = s->rows_there - row;

		if (dense) {
			load_dense(s, s->row0 + row, left, to);
			continue;
		}
		for (r = 0; r < s->width; r++)
			load_row(s, s->row0 + row + openreg_least(r, left - 1),
				 to + r);
	}
}

void openreg_slide_load_bias(const struct slide *s, int64_t row, float *to,
			     int64_t groups)
{
	const struct openreg_conv_view *bias = &s->cv->bias;
	int64_t stride = s->cv->kind == OPENREG_CONV_FORWARD ? bias->oc
							     : bias->ic;

	if (!s->cv->has_bias)
		memset(to, 0, (size_t)groups * 4);
	else
		s->cv->kernels->load[s->cv->dtype][OPENREG_VT_F32](
			to,
			(const void *)openreg_slide_channel(
				s, bias, 0, openreg_offset(row, stride)),
			bias->g, (size_t)groups);
}

uintptr_t openreg_slide_result(const struct slide *s, int64_t n, int64_t i,
			       int64_t j, int64_t channel)
{
	int64_t at = channel, index[3] = { i, j, 0 };
	unsigned int d;

	for (d = 0; d < 3; d++) {
		index[d] = s->axis[d].first +
			   (s->first[d + 1] + index[d]) * s->axis[d].spread;
		at = openreg_offset_add(at,
					openreg_offset(index[d], s->to->at[d]));
	}
	return openreg_slide_channel(s, s->to, s->first[0] + n, at);
}

static void store_results(const struct slide *s, int64_t row, const float *from)
{
	int64_t stride = openreg_offset(s->axis[2].spread, s->to->at[2]);
	int64_t channel = openreg_offset(
		row, s->cv->kind == OPENREG_CONV_FORWARD ? s->to->oc
							 : s->to->ic);
	int64_t n, i, j;

	FOR_EACH_ROW(s, n, i, j)
		s->cv->kernels->store[s->cv->dtype][OPENREG_VT_F32](
			(void *)openreg_slide_result(s, n, i, j, channel), stride,
			from + openreg_slide_row(s, n, i, j), (size_t)s->count[3]);
}

/* Runs the kernel for rows from `row` on. bias NULL: adds to the sums in s->out. */
static void run_kernel(const struct slide *s,
		       const struct openreg_slide_kernel *k, int64_t row,
		       int64_t i, const float *bias)
{
	const float *w = s->w + (row - row % s->width) * s->lines +
			 row % s->width;

	k->run(s->out + row * s->ld + i, (size_t)s->ld, s->x + i, s->at, w,
	       (size_t)s->width, bias ? bias + row : NULL, (size_t)s->lines);
}

/* Runs all rows of some columns, then the next columns, to keep the source cached. */
static void add_lines(const struct slide *s, const float *bias)
{
	const struct openreg_slide_kernel *many =
		&s->cv->kernels->slide[s->width == OPENREG_LANES ? 2 : 1];
	const struct openreg_slide_kernel *some = s->kernel;
	int64_t last = s->rows_there, i, row;

	if (last % many->rows && last % many->rows <= some->rows)
		last -= last % many->rows;
	if (s->width == 1)
		last = 0;
	for (i = 0; i < s->length && last; i += many->columns) {
		for (row = 0; row < last; row += many->rows)
			run_kernel(s, many, row, i, bias);
	}
	for (i = 0; i < s->length && last < s->rows_there; i += some->columns)
		run_kernel(s, some, last, i, bias);
}

static void run_rows(struct slide *s)
{
	int64_t all = s->cv->kind == OPENREG_CONV_FORWARD ? s->cv->ic
							  : s->cv->oc;
	int64_t block = s->cv->slide.block, r;

	for (r = 0; r < s->rows; r++)
		openreg_slide_load_bias(
			s, s->row0 + openreg_least(r, s->rows_there - 1),
			s->bias + r, 1);
	for (; s->channel0 < all; s->channel0 += block) {
		s->channels = openreg_least(block, all - s->channel0);
		s->lines = s->channels * s->taps;
		openreg_slide_find_lines(s);
		openreg_slide_load_source(s);
		load_weights(s);
		add_lines(s, s->channel0 ? NULL : s->bias);
	}
	for (r = 0; r < s->rows_there; r++)
		store_results(s, s->row0 + r, s->out + r * s->ld);
}

/* Loads the gradients of the tile's results, with zeros between the rows. */
static void load_results(const struct slide *s)
{
	int64_t row, n, i, j;

	memset(s->out, 0, (size_t)(s->rows * s->ld) * 4);
	for (row = 0; row < s->cv->rows; row++) {
		int64_t channel = openreg_offset(row, s->to->oc);

		FOR_EACH_ROW(s, n, i, j)
			s->cv->kernels->load[s->cv->dtype][OPENREG_VT_F32](
				s->out + row * s->ld + openreg_slide_row(s, n, i, j),
				(const void *)openreg_slide_result(s, n, i, j, channel),
				s->to->at[2], (size_t)s->count[3]);
	}
}

static int64_t sums_ld(const struct slide *s)
{
	return s->lines + OPENREG_SLIDE_LINES;
}

static void add_products(const struct slide *s)
{
	int64_t row, line;

	for (row = 0; row < s->rows; row += s->kernel->rows) {
		for (line = 0; line < s->lines; line += s->kernel->lines)
			s->kernel->dot(s->sums + row * sums_ld(s) + line,
				       (size_t)sums_ld(s),
				       s->out + row * s->ld, (size_t)s->ld,
				       s->x, s->at + line, (size_t)s->length);
	}
}

static void end_sums(const struct slide *s, int64_t part)
{
	const struct openreg_conv *cv = s->cv;
	int64_t stride = cv->weight.at[2], taps = s->span[2].taps, r, c, i, j;

	for (r = 0; r < cv->rows; r++) {
		const float *from = s->sums + r * sums_ld(s);

		if (cv->partial) {
			int64_t at = (part * cv->g + s->g) * cv->rows + r;

			memcpy(cv->partial + at * cv->columns * 4, from,
			       (size_t)s->lines * 4);
			continue;
		}
		for (c = 0; c < s->channels; c++) {
			for (i = 0; i < s->span[0].taps; i++) {
				for (j = 0; j < s->span[1].taps; j++) {
					cv->kernels->store[cv->dtype]
							  [OPENREG_VT_F32](
						(void *)openreg_slide_weight(s, r, c, i, j),
						stride, from, (size_t)taps);
					from += taps;
				}
			}
		}
	}
}

int64_t openreg_slide_take(int64_t *i, int64_t n)
{
	int64_t digit = *i % n;

	*i /= n;
	return digit;
}

/* Sets a tile of the class. Returns false if the class does not have the tile. */
bool openreg_slide_tile(struct slide *s, int64_t tile)
{
	const struct openreg_conv_slide *plan = &s->cv->slide;
	unsigned int d;

	for (d = 4; d-- > 0;) {
		int64_t all = d ? s->axis[d - 1].count : s->cv->n;

		s->first[d] = openreg_slide_take(&tile, plan->tiles[d]) * plan->tile[d];
		s->count[d] = openreg_least(plan->tile[d], all - s->first[d]);
		if (s->count[d] <= 0)
			return false;
	}
	openreg_slide_spans(s);
	return true;
}

static int64_t whole(int64_t floats)
{
	return (floats + 15) / 16 * 16;
}

/* Divides the scratch memory. Returns false if memory is short. */
static bool place(struct slide *s, struct openreg_scratch *scratch)
{
	bool gather = openreg_conv_is_gather(s->cv);
	int64_t at = s->lines + OPENREG_SLIDE_LINES;
	int64_t x = whole(s->channels * openreg_slide_phases(s) * s->count[0] * s->plane +
			  OPENREG_SLIDE_SLACK);
	int64_t w = whole(s->rows * (gather ? s->lines : sums_ld(s)));
	int64_t stage = OPENREG_LANES * s->lines + OPENREG_SLIDE_TAPS;
	float *memory;

	/* Lines at a distance of a power of two would share a set of the cache. */
	s->ld = whole(s->length + OPENREG_SLIDE_SLACK) + 16;
	memory = openreg_scratch_buffer(
		scratch, (size_t)(whole(2 * at) + x + w + s->rows * s->ld +
				  whole(s->rows) + stage) * 4);
	if (!memory)
		return false;
	s->at = (int64_t *)memory;
	s->x = memory + whole(2 * at);
	s->w = s->sums = s->x + x;
	s->out = s->w + w;
	s->bias = s->out + s->rows * s->ld;
	s->row = s->bias + whole(s->rows);
	return true;
}

static void set_up(struct slide *s, const struct openreg_conv *cv)
{
	bool data = cv->kind == OPENREG_CONV_BACKWARD_DATA;

	s->cv = cv;
	s->kernel = &cv->kernels->slide[cv->rows > 1];
	s->channel0 = 0;
	s->channels = data ? cv->oc : cv->ic;
	s->row0 = 0;
	s->rows_there = cv->rows;
	s->width = s->kernel->rows;
	s->rows = openreg_div_up(cv->rows, s->width) * s->width;
	s->source = data ? &cv->y : &cv->x;
	s->source_size = data ? cv->w.output : cv->w.input;
	s->source_channel = data ? cv->y.oc : cv->x.ic;
	s->to = data ? &cv->x : &cv->y;
}

static bool run_gather(struct slide *s, int64_t unit,
		       struct openreg_scratch *scratch)
{
	const struct openreg_conv_slide *plan = &s->cv->slide;
	int64_t tile = openreg_slide_take(&unit, plan->all_tiles), rows;

	rows = openreg_div_up(s->cv->rows, plan->tile_rows);
	s->row0 = openreg_slide_take(&unit, rows) * plan->tile_rows;
	s->rows_there = openreg_least(plan->tile_rows, s->cv->rows - s->row0);
	if (s->cv->rows > s->kernel->rows)
		s->width = OPENREG_LANES;
	s->rows = openreg_div_up(s->rows_there, s->width) * s->width;
	s->channels = openreg_least(plan->block, s->channels);
	openreg_conv_axes(s->cv, unit, s->axis);
	if (!openreg_slide_tile(s, tile))
		return true;
	if (!place(s, scratch))
		return false;
	run_rows(s);
	return true;
}

/* Runs all tiles of a part, one after the other. */
static bool run_weights(struct slide *s, int64_t part,
			struct openreg_scratch *scratch)
{
	const struct openreg_conv_slide *plan = &s->cv->slide;
	int64_t tile = part * plan->part_tiles;
	int64_t last = openreg_least(tile + plan->part_tiles, plan->all_tiles);

	openreg_conv_axes(s->cv, 0, s->axis);
	/* Allocates for the first tile, which is the largest. */
	if (!openreg_slide_tile(s, 0) || !place(s, scratch))
		return false;
	memset(s->sums, 0, (size_t)(s->rows * sums_ld(s)) * 4);
	for (; tile < last; tile++) {
		openreg_slide_tile(s, tile);
		openreg_slide_find_lines(s);
		openreg_slide_load_source(s);
		load_results(s);
		add_products(s);
	}
	end_sums(s, part);
	return true;
}

bool openreg_conv_slide(const struct openreg_conv *cv, int64_t unit,
			struct openreg_scratch *scratch)
{
	struct slide s;

	set_up(&s, cv);
	/* Groups that are neighbours in memory run one after the other. */
	s.g = openreg_slide_take(&unit, openreg_div_up(cv->g, cv->slide.groups));
	s.g *= cv->slide.groups;
	if (cv->slide.groups > 1)
		return openreg_conv_lanes(&s, unit, scratch);
	return openreg_conv_is_gather(cv) ? run_gather(&s, unit, scratch)
					  : run_weights(&s, unit, scratch);
}
