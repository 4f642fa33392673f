/* SPDX-License-Identifier: MIT */
/*
 * CONV as a product of matrices that are never there as a whole: rows times a
 * reduction times columns, packed piece by piece as the blocked loop wants it.
 *
 *                    rows  columns              reduction
 *   FORWARD          oc    n, output positions  ic, taps
 *   BACKWARD_DATA    ic    n, input positions   oc, taps
 *   BACKWARD_WEIGHTS oc    ic, taps             n, output positions
 *
 * With a stride, BACKWARD_DATA's positions fall into classes, position modulo
 * stride: those of one class have their taps in common, so each class is a
 * convolution with stride 1 and no tap is visited in vain.
 */
#ifndef OPENREG_CONV_ENGINE_H
#define OPENREG_CONV_ENGINE_H

#include "kernels.h"
#include "window.h"

#define OPENREG_CONV_DIMS 7
#define OPENREG_CONV_ROWS_MAX 256 /* of a tile */
#define OPENREG_CONV_COLUMNS_MAX 512
#define OPENREG_CONV_BLOCK 288 /* of the reduction, at most */

/* An operand's strides in elements: batch, group, channels, space. */
struct openreg_conv_view {
	uintptr_t base;
	int64_t n, g, oc, ic, at[3];
};

/* Work as weighted lines: tiles are boxes of images and of positions. */
struct openreg_conv_slide {
	bool on;
	int64_t groups; /* at once, one a lane; or 1 */
	int64_t tile[4], tiles[4];
	int64_t all_tiles;  /* of a class and group */
	int64_t part_tiles; /* of a part of BACKWARD_WEIGHTS */
	int64_t tile_rows;  /* of the others */
	int64_t block;	    /* channels whose products are added up at once */
};

/* Work by oneDNN's convolutions: slices are of images, or of rows of one. */
struct openreg_conv_whole {
	bool on;
	unsigned int axis; /* along which images are cut */
	int64_t images, rows; /* of a slice */
	int64_t row_slices, slices;
	unsigned char *weights; /* as oneDNN likes them */
	float *bias;
};

struct openreg_conv {
	const struct openreg_kernels *kernels;
	const struct openreg_gemm_kernel *gemm;
	uint8_t kind, dtype, type;
	bool direct; /* elements are in memory as they are computed with */
	bool has_bias;
	unsigned int amx_parts; /* of numbers on a matrix unit; 0: not there */
	int64_t esize, width; /* bytes in memory, bytes in type */
	int64_t n, g, oc, ic;
	struct openreg_geometry w;
	struct openreg_conv_view x, y, weight, bias;
	int64_t classes; /* of BACKWARD_DATA's positions, else 1 */
	int64_t rows, columns; /* of the greatest class */
	int64_t block; /* of the reduction, at most */
	int64_t block_channels, block_taps;
	int64_t blocks, part_blocks;
	int64_t tile_rows, tile_columns;
	int64_t tiles_rows, tiles_columns, parts;
	int64_t slots; /* of BACKWARD_WEIGHTS: taps that a tile has, else 0 */
	int64_t units, slice_units;
	struct openreg_conv_slide slide;
	struct openreg_conv_whole whole;
	unsigned char *partial; /* [part][class][g][rows][columns] of type */
	int64_t sum_units, sum_slice_units;
};

/*
 * One dimension of a class of positions. Position i of the class is element
 * first + i * spread of the result; its tap j is tap0 + j * tap_step of the
 * kernel and lies at i * step + at0 + j * at_step of the source.
 */
struct openreg_conv_axis {
	int64_t count, first, spread, step;
	int64_t taps, tap0, tap_step, at0, at_step;
};

/* A row of positions: where tap 0 lies, before it is known to be inside. */
struct openreg_conv_points {
	int64_t base[OPENREG_CONV_COLUMNS_MAX];
	int64_t at[3][OPENREG_CONV_COLUMNS_MAX];
};

struct openreg_conv_tile {
	int64_t class, g, row0, rows, column0, columns, part;
	struct openreg_conv_axis axis[3];
};

/* Columns of a tile whose results lie one stride apart. */
struct openreg_conv_run {
	int64_t first, n, at, stride;
};

/* A worker's memory for a unit. */
struct openreg_conv_work {
	struct openreg_conv_points points;
	struct openreg_conv_run run[OPENREG_CONV_COLUMNS_MAX];
	int64_t runs;
	/* A panel: what the gather kernel takes. */
	int64_t at[OPENREG_CONV_BLOCK], index[OPENREG_GATHER_WIDTH];
	uint32_t mask[OPENREG_CONV_BLOCK];
	int64_t tap[OPENREG_CONV_BLOCK]; /* offsets */
	uint32_t tap_mask[OPENREG_CONV_BLOCK];
	uint16_t raw[OPENREG_CONV_BLOCK * OPENREG_GATHER_WIDTH];
	unsigned char *a, *b, *out, *amx;
	uint32_t *inside; /* [slots][OPENREG_CONV_BLOCK], all ones or 0 */
	int64_t rows, columns; /* of out, in whole blocks */
};

struct openreg_verdict openreg_conv_check(struct openreg_args *args);
/* false if there is nothing to do. */
bool openreg_conv_plan(struct openreg_conv *cv,
		       const struct openreg_args *args);
/* taps are 0 where no tap meets the class. */
void openreg_conv_axes(const struct openreg_conv *cv, int64_t class,
		       struct openreg_conv_axis axis[3]);
bool openreg_conv_is_gather(const struct openreg_conv *cv);

/* Where the tile's columns are in the result. */
void openreg_conv_columns(const struct openreg_conv *cv,
			  const struct openreg_conv_tile *t,
			  struct openreg_conv_work *work);
/* Block `block` of the reduction, as panels; returns its length, maybe 0. */
int64_t openreg_conv_pack(const struct openreg_conv *cv,
			  const struct openreg_conv_tile *t, int64_t block,
			  struct openreg_conv_work *work);

/* Where tap 0 of positions first, first + 1, ... lies in the source. */
void openreg_conv_points_at(const struct openreg_conv_axis axis[3],
			    const struct openreg_conv_view *source,
			    int64_t first, int64_t n,
			    struct openreg_conv_points *p);
/* The taps along each dimension of tap i; and from tap 0 to these. */
void openreg_conv_tap(const struct openreg_conv_axis axis[3], int64_t i,
		      int64_t tap[3]);
int64_t openreg_conv_tap_shift(const struct openreg_conv_axis axis[3],
			       const struct openreg_conv_view *source,
			       const int64_t tap[3]);

/* Sets slide, units and parts where weighted lines pay. */
void openreg_conv_slide_plan(struct openreg_conv *cv);
bool openreg_conv_slide(const struct openreg_conv *cv, int64_t unit,
			struct openreg_scratch *scratch);

/*
 * Sets whole, and the job's phases where oneDNN's convolutions pay. false: memory
 * is short.
 */
bool openreg_conv_whole_plan(struct openreg_conv *cv, struct openreg_job *job,
			     struct openreg_scratch *scratch);
bool openreg_conv_whole(const struct openreg_conv *cv, unsigned int phase,
			int64_t slice, struct openreg_scratch *scratch);

/* Sets amx_parts where it pays. */
void openreg_conv_amx_plan(struct openreg_conv *cv);
/* Channels of a block, so that it is no longer than OPENREG_CONV_BLOCK. */
int64_t openreg_conv_amx_channels(const struct openreg_conv *cv);
/* Scratch memory of a tile. */
int64_t openreg_conv_amx_memory(const struct openreg_conv *cv,
				const struct openreg_conv_tile *t);
/*
 * Adds blocks of the reduction to work->out, or begins with 0. false: not with
 * these numbers, nothing is changed.
 */
bool openreg_conv_amx(const struct openreg_conv *cv,
		      const struct openreg_conv_tile *t, int64_t block,
		      int64_t last, bool accumulate,
		      struct openreg_conv_work *work);

#endif
