/* SPDX-License-Identifier: MIT */
/* A tile of CONV as weighted lines of its source; see conv_slide.c. */
#ifndef OPENREG_CONV_SLIDE_H
#define OPENREG_CONV_SLIDE_H

#include "conv.h"

#define OPENREG_SLIDE_TAPS 64 /* along a dimension, at most */
#define OPENREG_SLIDE_LINES 8 /* of a block of products, at most */
#define OPENREG_SLIDE_SLACK 128 /* floats that a kernel may read too many */

struct span {
	int64_t taps, phases;
	int64_t line;			     /* elements of a phase */
	int64_t begin[OPENREG_SLIDE_TAPS]; /* of a phase, from tap 0 */
	uint8_t phase[OPENREG_SLIDE_TAPS]; /* of a tap */
	int64_t shift[OPENREG_SLIDE_TAPS]; /* of a tap, in its phase */
	int64_t step;			     /* from one position to the next */
};

struct slide {
	const struct openreg_conv *cv;
	const struct openreg_slide_kernel *kernel;
	struct openreg_conv_axis axis[3];
	struct span span[3];
	int64_t g, first[4], count[4];
	int64_t channel0, channels;	/* of the block at work */
	int64_t row0, rows_there, rows; /* rows in whole blocks of width */
	int64_t width;			/* rows whose weights lie together */
	int64_t lines, taps;	/* lines: taps of all channels */
	int64_t plane;		/* elements of a phase of an image */
	int64_t length;		/* of results, the gaps included */
	int64_t ld;		/* of out */
	const struct openreg_conv_view *source, *to;
	const int64_t *source_size;
	int64_t source_channel;
	int64_t *at;
	float *x, *w, *out, *bias, *sums, *row;
};

/* Each row of positions of a tile. */
#define FOR_EACH_ROW(s, n, i, j)                                               \
	for (n = 0; n < (s)->count[0]; n++)                                    \
		for (i = 0; i < (s)->count[1]; i++)                            \
			for (j = 0; j < (s)->count[2]; j++)

/* The last digit of a number whose digits count n; the others stay. */
int64_t openreg_slide_take(int64_t *i, int64_t n);
/* false: the class that the axes are of has no such tile. */
bool openreg_slide_tile(struct slide *s, int64_t tile);
/* The group's taps along the last dimension, of a row and a channel. */
uintptr_t openreg_slide_weight(const struct slide *s, int64_t row,
			       int64_t channel, int64_t i, int64_t j);
/* A row of the tile's results, so many elements on. */
uintptr_t openreg_slide_result(const struct slide *s, int64_t n, int64_t i,
			       int64_t j, int64_t channel);
/* Of this and more groups, 0 if there is none. */
void openreg_slide_load_bias(const struct slide *s, int64_t row, float *to,
			     int64_t groups);

/* A unit whose group is set, of as many as there are lanes. */
bool openreg_conv_lanes(struct slide *s, int64_t unit,
			struct openreg_scratch *scratch);

/* Spans, plane and length from the axes and the tile's place and size. */
void openreg_slide_spans(struct slide *s);
int64_t openreg_slide_phases(const struct slide *s);
/* Where each tap of each channel begins. */
void openreg_slide_find_lines(const struct slide *s);
void openreg_slide_load_source(const struct slide *s);

static inline uintptr_t openreg_slide_element(const struct openreg_conv *cv,
					      uintptr_t base, int64_t at)
{
	return base + (uintptr_t)openreg_offset(at, cv->esize);
}

/* Of image n, the group's first channel and then so many elements. */
static inline uintptr_t
openreg_slide_channel(const struct slide *s,
		      const struct openreg_conv_view *view, int64_t n,
		      int64_t channel)
{
	int64_t at = openreg_offset_add(openreg_offset(s->g, view->g),
					openreg_offset(n, view->n));

	return openreg_slide_element(s->cv, view->base,
				     openreg_offset_add(at, channel));
}

/* Where a row of positions of image n is in a line. */
static inline int64_t openreg_slide_row(const struct slide *s, int64_t n,
					int64_t i, int64_t j)
{
	return n * s->plane + (i * s->span[1].line + j) * s->span[2].line;
}

#endif
