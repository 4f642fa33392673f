// SPDX-License-Identifier: MIT
/*
 * CONV without a matrix: each tap of each channel is a line of the source that
 * begins elsewhere, and results are weighted sums of lines. It pays where few
 * rows share what they read: depthwise, grouped and first convolutions.
 *
 * A tile is a box of images and positions. The source that it meets is packed
 * once as f32, with zeros around it, so that a tap is one distance for the whole
 * tile. What a stride visits lies together: positions modulo stride are phases.
 */
#include <string.h>

#include "conv_slide.h"

/* Taps along the last dimension, of a row and a channel. */
uintptr_t openreg_slide_weight(const struct slide *s, int64_t row,
			       int64_t channel, int64_t i, int64_t j)
{
	const struct openreg_conv_view *w = &s->cv->weight;
	bool data = s->cv->kind == OPENREG_CONV_BACKWARD_DATA;
	int64_t tap[2] = { s->axis[0].tap0 + i * s->axis[0].tap_step,
			   s->axis[1].tap0 + j * s->axis[1].tap_step };
	int64_t at = openreg_offset_add(
		openreg_offset(data ? channel : row, w->oc),
		openreg_offset(data ? row : channel, w->ic));

	at = openreg_offset_add(at, openreg_offset(s->g, w->g));
	at = openreg_offset_add(at, openreg_offset(tap[0], w->at[0]));
	at = openreg_offset_add(at, openreg_offset(tap[1], w->at[1]));
	at = openreg_offset_add(at, openreg_offset(s->axis[2].tap0, w->at[2]));
	return openreg_slide_element(s->cv, w->base, at);
}

/* Of a row, each line's `rows` elements after the last one's. */
static void load_weights(const struct slide *s, int64_t row, float *to,
			 int64_t rows)
{
	int64_t stride = openreg_offset(s->axis[2].tap_step,
					s->cv->weight.at[2]);
	int64_t c, i, j, k, n = s->span[2].taps;

	for (c = 0; c < s->channels; c++) {
		for (i = 0; i < s->span[0].taps; i++) {
			for (j = 0; j < s->span[1].taps; j++, to += n * rows) {
				s->cv->kernels->load[s->cv->dtype][OPENREG_VT_F32](
					rows == 1 ? to : s->row,
					(const void *)openreg_slide_weight(s, row, c, i, j),
					stride, (size_t)n);
				for (k = 0; k < n && rows > 1; k++)
					to[k * rows] = s->row[k];
			}
		}
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

static void run_rows(struct slide *s)
{
	int64_t rows = s->kernel->rows, all = s->cv->rows, row, i, r;

	for (row = 0; row < all; row += rows) {
		int64_t left = openreg_least(rows, all - row);

		for (r = 0; r < rows; r++) {
			/* Rows that are not there are some other, again. */
			int64_t from = row + openreg_least(r, left - 1);

			load_weights(s, from, s->w + r, rows);
			openreg_slide_load_bias(s, from, s->bias + r, 1);
		}
		for (i = 0; i < s->length; i += s->kernel->columns)
			s->kernel->run(s->out + i, (size_t)s->ld, s->x + i,
				       s->at, s->w, s->bias, (size_t)s->lines);
		for (r = 0; r < left; r++)
			store_results(s, row + r, s->out + r * s->ld);
	}
}

/* The gradients of the tile's results, with zeros between them. */
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

/* false: this class has no such tile. */
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

/* Divides scratch memory; false if it is short. */
static bool place(struct slide *s, struct openreg_scratch *scratch)
{
	bool gather = openreg_conv_is_gather(s->cv);
	int64_t at = s->lines + OPENREG_SLIDE_LINES;
	int64_t x = whole(s->channels * openreg_slide_phases(s) * s->count[0] * s->plane +
			  OPENREG_SLIDE_SLACK);
	int64_t rows = gather ? s->kernel->rows : s->rows;
	int64_t w = whole(gather ? rows * s->lines : s->rows * sums_ld(s));
	float *memory;

	s->ld = openreg_div_up(s->length, s->kernel->columns) *
			s->kernel->columns +
		16; /* lines a power of two apart would share a cache's set */
	memory = openreg_scratch_buffer(
		scratch,
		(size_t)(whole(2 * at) + x + w + rows * s->ld +
			 2 * OPENREG_SLIDE_TAPS) * 4);
	if (!memory)
		return false;
	s->at = (int64_t *)memory;
	s->x = memory + whole(2 * at);
	s->w = s->sums = s->x + x;
	s->out = s->w + w;
	s->bias = s->out + rows * s->ld;
	s->row = s->bias + OPENREG_SLIDE_TAPS;
	return true;
}

static void set_up(struct slide *s, const struct openreg_conv *cv)
{
	bool data = cv->kind == OPENREG_CONV_BACKWARD_DATA;

	s->cv = cv;
	s->kernel = openreg_slide_kernel(cv);
	s->channels = data ? cv->oc : cv->ic;
	s->rows = openreg_div_up(cv->rows, s->kernel->rows) * s->kernel->rows;
	s->source = data ? &cv->y : &cv->x;
	s->source_size = data ? cv->w.output : cv->w.input;
	s->source_channel = data ? cv->y.oc : cv->x.ic;
	s->to = data ? &cv->x : &cv->y;
}

static bool run_gather(struct slide *s, int64_t unit,
		       struct openreg_scratch *scratch)
{
	int64_t tile = openreg_slide_take(&unit, s->cv->slide.all_tiles);

	openreg_conv_axes(s->cv, unit, s->axis);
	if (!openreg_slide_tile(s, tile))
		return true;
	if (!place(s, scratch))
		return false;
	openreg_slide_find_lines(s);
	openreg_slide_load_source(s);
	run_rows(s);
	return true;
}

/* All tiles of a part, one after the other. */
static bool run_weights(struct slide *s, int64_t part,
			struct openreg_scratch *scratch)
{
	const struct openreg_conv_slide *plan = &s->cv->slide;
	int64_t tile = part * plan->part_tiles;
	int64_t last = openreg_least(tile + plan->part_tiles, plan->all_tiles);

	openreg_conv_axes(s->cv, 0, s->axis);
	/* The first tile is the greatest: memory is for that. */
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
	/* Neighbours in memory one after the other. */
	s.g = openreg_slide_take(&unit, openreg_div_up(cv->g, cv->slide.groups));
	s.g *= cv->slide.groups;
	if (cv->slide.groups > 1)
		return openreg_conv_lanes(&s, unit, scratch);
	return openreg_conv_is_gather(cv) ? run_gather(&s, unit, scratch)
					  : run_weights(&s, unit, scratch);
}
