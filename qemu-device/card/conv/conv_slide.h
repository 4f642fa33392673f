/* SPDX-License-Identifier: MIT */
/* A tile of CONV as weighted lines of the source; see conv_slide.c. */
#ifndef OPENREG_CONV_SLIDE_H
#define OPENREG_CONV_SLIDE_H

#include "conv.h"

#define OPENREG_SLIDE_TAPS 64 /* most taps along a dimension */
#define OPENREG_SLIDE_LINES 8 /* most lines of a block of products */
#define OPENREG_SLIDE_SLACK 128 /* floats that a kernel may read beyond the end */

struct span {
	int64_t taps, phases;
	int64_t line;			     /* elements of a phase */
	int64_t begin[OPENREG_SLIDE_TAPS]; /* first element of a phase, from tap 0 */
	uint8_t phase[OPENREG_SLIDE_TAPS]; /* phase of a tap */
	int64_t shift[OPENREG_SLIDE_TAPS]; /* distance of a tap within its phase */
	int64_t step;			     /* from one position to the next */
};

struct slide {
	const struct openreg_conv *cv;
	const struct openreg_slide_kernel *kernel;
	struct openreg_conv_axis axis[3];
	struct span span[3];
	int64_t g, first[4], count[4];
	int64_t channel0, channels;	/* of this block */
	int64_t row0, rows_there, rows; /* rows: rounded up to blocks of width */
	int64_t width;			/* rows of weights that are packed together */
	int64_t lines, taps;	/* lines: taps of all channels */
	int64_t plane;		/* elements of a phase of an image */
	int64_t length;		/* of results, including gaps */
	int64_t ld;		/* distance of rows in out */
	const struct openreg_conv_view *source, *to;
	const int64_t *source_size;
	int64_t source_channel;
	int64_t *at;
	float *x, *w, *out, *bias, *sums, *row;
};

/* Loops over the rows of positions of a tile. */
#define FOR_EACH_ROW(s, n, i, j)                                               \
	for (n = 0; n < (s)->count[0]; n++)                                    \
		for (i = 0; i < (s)->count[1]; i++)                            \
			for (j = 0; j < (s)->count[2]; j++)

/* Returns *i modulo n, and divides *i by n. */
int64_t openreg_slide_take(int64_t *i, int64_t n);
/* Sets a tile. Returns false if the class of s->axis does not have the tile. */
bool openreg_slide_tile(struct slide *s, int64_t tile);
/* The address of the taps of a row and a channel along the last dimension. */
uintptr_t openreg_slide_weight(const struct slide *s, int64_t row,
			       int64_t channel, int64_t i, int64_t j);
/* The address of a row of the tile's results, plus `channel` elements. */
uintptr_t openreg_slide_result(const struct slide *s, int64_t n, int64_t i,
			       int64_t j, int64_t channel);
/* Loads the bias of a row for `groups` groups from s->g on; 0 without a bias. */
void openreg_slide_load_bias(const struct slide *s, int64_t row, float *to,
			     int64_t groups);

/* Runs a unit of the groups from s->g on, with a group in each lane. */
bool openreg_conv_lanes(struct slide *s, int64_t unit,
			struct openreg_scratch *scratch);

/* Sets spans, plane, lines and length from the axes and the tile's size. */
void openreg_slide_spans(struct slide *s);
int64_t openreg_slide_phases(const struct slide *s);
/* Sets s->at: the beginning of the line of each tap of each channel. */
void openreg_slide_find_lines(const struct slide *s);
void openreg_slide_load_source(const struct slide *s);

static inline uintptr_t openreg_slide_element(const struct openreg_conv *cv,
					      uintptr_t base, int64_t at)
{
	return base + (uintptr_t)openreg_offset(at, cv->esize);
}

/* The address of the group's first channel in image n, plus `channel` elements. */
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

/* The offset of a row of positions of image n in a line. */
static inline int64_t openreg_slide_row(const struct slide *s, int64_t n,
					int64_t i, int64_t j)
{
	return n * s->plane + (i * s->span[1].line + j) * s->span[2].line;
}

#endif
