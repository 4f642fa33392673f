// SPDX-License-Identifier: MIT
/*
 * CONV on the matrix unit: splits the source of a block of the reduction once, as lines
 * of 32 channels of a position. Finds the lines that positions and their taps meet.
 */
#include <string.h>

#include "conv_amx.h"

struct plane openreg_conv_plane(const struct openreg_conv_view *view,
				const int64_t size[3], int64_t channel)
{
	return (struct plane){
		.view = view,
		.size = size,
		.image = openreg_window_volume(size),
		.channel = channel,
		.dense = (size[1] == 1 ||
			  view->at[1] == size[2] * view->at[2]) &&
			 (size[0] == 1 ||
			  view->at[0] == size[1] * size[2] * view->at[2]),
	};
}

uintptr_t openreg_conv_position(const struct plane *p, int64_t i)
{
	int64_t in = i % p->image, row = in / p->size[2];
	int64_t at = openreg_offset(i / p->image, p->view->n);

	at = openreg_offset_add(at, openreg_offset(row / p->size[1],
						   p->view->at[0]));
	at = openreg_offset_add(at, openreg_offset(row % p->size[1],
						   p->view->at[1]));
	return (uintptr_t)openreg_offset_add(
		at, openreg_offset(in % p->size[2], p->view->at[2]));
}

uintptr_t openreg_conv_channel(const struct amx_tile *s, const struct plane *p,
			       int64_t c)
{
	return p->view->base +
	       (uintptr_t)openreg_offset(
		       openreg_offset_add(openreg_offset(s->t->g, p->view->g),
					  openreg_offset(c, p->channel)),
		       s->cv->esize);
}

/* Finds the runs of n positions of a channel. */
void openreg_conv_find_runs(const struct plane *p, int64_t first, int64_t n,
			    struct runs *runs)
{
	int64_t line = p->dense ? p->image : p->size[2], run;

	for (runs->count = 0; n; n -= run, first += run) {
		run = openreg_least(n, line - first % line);
		runs->at[runs->count] = openreg_conv_position(p, first);
		runs->length[runs->count++] = run;
	}
}

/* Loads these positions of a channel as f32. */
void openreg_conv_load_runs(const struct amx_tile *s, const struct plane *p,
			    uintptr_t from, const struct runs *runs, float *to)
{
	openreg_load_fn *load =
		s->cv->kernels->load[s->cv->dtype][OPENREG_VT_F32];
	int64_t i;

	for (i = 0; i < runs->count; i++) {
		load(to,
		     (const void *)(from +
				    runs->at[i] * (uintptr_t)s->cv->esize),
		     p->view->at[2], (size_t)runs->length[i]);
		to += runs->length[i];
	}
}

/* Are n positions adjacent floats? */
bool openreg_conv_is_run(const struct amx_tile *s, const struct plane *p,
			 int64_t first, int64_t n)
{
	return s->cv->dtype == OPENREG_F32 && p->dense && p->view->at[2] == 1 &&
	       first % p->image + n <= p->image;
}

static int64_t line_panels(const struct amx_tile *s)
{
	return openreg_div_up(s->lines, PANEL);
}

/* Splits PANEL lines of n channels from c on. */
static void split_panel(struct amx_tile *s, int64_t c, int64_t n, int64_t first,
			unsigned char *to)
{
	int64_t left = openreg_least(PANEL, s->line0 + s->lines - first), i;
	const struct plane *p = &s->source;
	const float *from = s->stage;
	int64_t ld = PANEL;
	struct runs runs;

	if (n == STEP && openreg_conv_is_run(s, p, first, PANEL)) {
		from = (const float *)(openreg_conv_channel(s, p, c) +
				       openreg_conv_position(p, first) * 4);
		ld = p->channel;
	} else {
		if (n < STEP || left < PANEL)
			memset(s->stage, 0, (size_t)PANEL * PANEL * 4);
		openreg_conv_find_runs(p, first, left, &runs);
		for (i = 0; i < n; i++)
			openreg_conv_load_runs(
				s, p, openreg_conv_channel(s, p, c + i), &runs,
				s->stage + i * PANEL);
	}
	s->amx->split(to, from, ld, false, 1, s->parts, OPENREG_AMX_A,
		      &s->range_lines);
}

void openreg_conv_split_lines(struct amx_tile *s, int64_t c0, int64_t channels)
{
	unsigned char *to = s->line;
	int64_t c, i;

	for (c = 0; c < channels; c += STEP) {
		for (i = 0; i < s->lines; i += PANEL, to += step_bytes(s->cv))
			split_panel(s, c0 + c,
				    openreg_least(STEP, channels - c),
				    s->line0 + i, to);
	}
}

/* For each tap: which of n points have the tap inside the source. */
static void mask_points(struct amx_tile *s, int64_t first, int64_t n,
			int64_t panel)
{
	const struct openreg_conv_axis *axis = s->t->axis;
	uint32_t along[3][TAPS];
	int64_t tap[3], i, k;
	unsigned int d;

	for (d = 0; d < 3; d++) {
		const int64_t *at = s->work->points.at[d] + first;

		for (k = 0; k < axis[d].taps; k++) {
			int64_t shift = k * axis[d].at_step;

			along[d][k] = 0;
			for (i = 0; i < n; i++)
				along[d][k] |=
					(uint32_t)((uint64_t)(at[i] + shift) <
						   (uint64_t)s->source.size[d])
					<< i;
		}
	}
	for (k = 0; k < s->taps; k++) {
		openreg_conv_tap(axis, k, tap);
		s->mask[k][panel] =
			along[0][tap[0]] & along[1][tap[1]] & along[2][tap[2]];
	}
}

/* Finds the lines that n positions meet, from one in image n0 to one in image n1. */
static void bound_lines(struct amx_tile *s, int64_t n, int64_t n0, int64_t n1)
{
	const int64_t *base = s->work->points.base;
	int64_t low = INT64_MAX, high = INT64_MIN, least = 0, most = 0, i;

	for (i = 0; i < n; i++) {
		low = openreg_least(low, base[i]);
		high = openreg_greatest(high, base[i]);
	}
	for (i = 0; i < s->taps; i++) {
		least = openreg_least(least, s->shift[i]);
		most = openreg_greatest(most, s->shift[i]);
	}
	low = openreg_greatest(low + least, n0 * s->source.image);
	high = openreg_least(high + most + 1, (n1 + 1) * s->source.image);
	s->line0 = low;
	s->lines = openreg_greatest(high - low, 0);
}

/* Returns false if lines are too many, or if taps would use too few of them. */
bool openreg_conv_find_lines(struct amx_tile *s, int64_t first, int64_t n,
			     int64_t channels)
{
	const struct openreg_conv_axis *axis = s->t->axis;
	int64_t image = axis[0].count * axis[1].count * axis[2].count, i;
	struct openreg_conv_points *points = &s->work->points;
	const int64_t *size = s->source.size;
	const struct openreg_conv_view dense = {
		.n = s->source.image,
		.at = { size[1] * size[2], size[2], 1 },
	};
	int64_t tap[3];

	openreg_conv_points_at(axis, &dense, first, n, points);
	for (i = 0; i < s->taps; i++) {
		openreg_conv_tap(axis, i, tap);
		s->shift[i] = openreg_conv_tap_shift(axis, &dense, tap);
	}
	bound_lines(s, n, first / image, (first + n - 1) / image);
	for (i = 0; i < n; i += PANEL)
		mask_points(s, i, openreg_least(PANEL, n - i), i / PANEL);
	for (i = n; i % PANEL; i++)
		points->base[i] = 0;
	if (s->lines > 4 * n * openreg_window_volume(s->cv->w.stride) +
			       OPENREG_CONV_COLUMNS_MAX)
		return false;
	return line_panels(s) * step_bytes(s->cv) *
		       openreg_div_up(channels, STEP) <=
	       LINES_MAX;
}

const unsigned char *openreg_conv_lines(const struct amx_tile *s, int64_t c)
{
	return s->line + c / STEP * line_panels(s) * step_bytes(s->cv);
}
