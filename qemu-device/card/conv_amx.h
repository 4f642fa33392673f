/* SPDX-License-Identifier: MIT */
/*
 * A tile of CONV on the matrix unit.
 *
 *                          panels of A    panels of B      a step
 *   FORWARD, _DATA         positions      rows             channels of a tap
 *   BACKWARD_WEIGHTS       rows           channels, a tap  positions
 */
#ifndef OPENREG_CONV_AMX_H
#define OPENREG_CONV_AMX_H

#include "amx.h"
#include "conv.h"

#define PANEL OPENREG_AMX_PANEL
#define STEP OPENREG_AMX_STEP
#define STEPS (OPENREG_CONV_BLOCK / STEP)
#define TAPS STEPS /* most taps of a kernel */
#define PANELS (OPENREG_CONV_COLUMNS_MAX / PANEL)
#define LINES_MAX ((int64_t)3 << 19) /* bytes */

/* x or y as a sequence of the positions of all images. */
struct plane {
	const struct openreg_conv_view *view;
	const int64_t *size;
	int64_t image;	 /* positions */
	int64_t channel; /* stride */
	bool dense;	 /* all positions of an image have one stride */
};

/* Positions of a channel, in runs that have one stride. */
struct runs {
	int64_t count, length[OPENREG_CONV_BLOCK];
	uintptr_t at[OPENREG_CONV_BLOCK];
};

struct amx_tile {
	const struct openreg_conv *cv;
	const struct openreg_conv_tile *t;
	struct openreg_conv_work *work;
	const struct openreg_amx *amx;
	unsigned int parts;
	int64_t m, n;	      /* panels of A and B */
	int64_t volume, taps; /* taps of the kernel, taps of the class */
	struct plane source;
	int64_t line0, lines; /* source positions that are split into lines */
	int64_t shift[TAPS];  /* distance in lines from tap 0 to a tap */
	int64_t tap[TAPS];    /* a tap of the class as a tap of the kernel */
	uint32_t mask[TAPS][PANELS];
	unsigned char *line, *a, *b;
	float *stage, *sums; /* [n][m] */
	struct openreg_amx_range range_lines, range_other;
};

static inline int64_t step_bytes(const struct openreg_conv *cv)
{
	return (int64_t)OPENREG_AMX_PART * cv->amx_parts;
}

struct plane openreg_conv_plane(const struct openreg_conv_view *view,
				const int64_t size[3], int64_t channel);
/* Offset of position i in elements, and address of a channel. */
uintptr_t openreg_conv_position(const struct plane *p, int64_t i);
uintptr_t openreg_conv_channel(const struct amx_tile *s, const struct plane *p,
			       int64_t c);
void openreg_conv_find_runs(const struct plane *p, int64_t first, int64_t n,
			    struct runs *runs);
/* Loads these positions of a channel as f32. */
void openreg_conv_load_runs(const struct amx_tile *s, const struct plane *p,
			    uintptr_t from, const struct runs *runs, float *to);
/* Are n positions adjacent floats? */
bool openreg_conv_is_run(const struct amx_tile *s, const struct plane *p,
			 int64_t first, int64_t n);

/*
 * Finds the source positions that the taps of n points of the class meet. Sets line0,
 * lines, shift and mask; the base of a point becomes the line of tap 0. Returns false if
 * there would be too many lines, or if taps would use too few of them.
 */
bool openreg_conv_find_lines(struct amx_tile *s, int64_t first, int64_t n,
			     int64_t channels);
/* Splits all lines of `channels` channels from c0 on. */
void openreg_conv_split_lines(struct amx_tile *s, int64_t c0, int64_t channels);
const unsigned char *openreg_conv_lines(const struct amx_tile *s, int64_t c);

#endif
