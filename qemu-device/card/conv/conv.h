/* SPDX-License-Identifier: MIT */
/*
 * CONV as a product of matrices that never exist as a whole: rows times a reduction times
 * columns. The engine packs them piece by piece for the blocked loop.
 *
 *                    rows  columns              reduction
 *   FORWARD          oc    n, output positions  ic, taps
 *   BACKWARD_DATA    ic    n, input positions   oc, taps
 *   BACKWARD_WEIGHTS oc    ic, taps             n, output positions
 *
 * With a stride, the positions of BACKWARD_DATA fall into classes: position modulo
 * stride. All positions of a class have the same taps. So each class is a convolution
 * with stride 1, and the loop visits no tap without a product.
 */
#ifndef OPENREG_CONV_ENGINE_H
#define OPENREG_CONV_ENGINE_H

#include "kernels/kernels.h"
#include "job/window.h"

#define OPENREG_CONV_DIMS 7
#define OPENREG_CONV_ROWS_MAX 256 /* rows of a tile */
#define OPENREG_CONV_COLUMNS_MAX 512
#define OPENREG_CONV_BLOCK 256 /* longest block of the reduction */

/* An operand's strides in elements: batch, group, channels, space. */
struct openreg_conv_view {
	uintptr_t base;
	int64_t n, g, oc, ic, at[3];
};

/* The plan for CONV as weighted lines. A tile is a box of images and positions. */
struct openreg_conv_slide {
	bool on;
	int64_t groups; /* groups of a unit: one for each lane, or 1 */
	int64_t tile[4], tiles[4];
	int64_t all_tiles;  /* tiles of a class and group */
	int64_t part_tiles; /* BACKWARD_WEIGHTS: tiles of a part */
	int64_t tile_rows;  /* the others: rows of a tile */
	int64_t block;	    /* channels that are packed and summed at a time */
};

/* The plan for CONV by oneDNN. A slice is some images, or some rows of an image. */
struct openreg_conv_whole {
	bool on;
	unsigned int axis; /* axis along which images are cut */
	int64_t images, rows; /* of a slice */
	int64_t row_slices, slices;
	unsigned char *weights; /* in the layout that oneDNN chooses */
	float *bias;
};

struct openreg_conv {
	const struct openreg_kernels *kernels;
	const struct openreg_gemm_kernel *gemm;
	uint8_t kind, dtype, type;
	bool direct; /* elements have the same type in memory and in sums */
	bool has_bias;
	int64_t esize, width; /* bytes of an element in memory, in type */
	int64_t n, g, oc, ic;
	struct openreg_geometry w;
	struct openreg_conv_view x, y, weight, bias;
	int64_t classes; /* of positions of BACKWARD_DATA, else 1 */
	int64_t rows, columns; /* of the largest class */
	int64_t block_channels, block_taps;
	int64_t blocks, part_blocks;
	int64_t tile_rows, tile_columns;
	int64_t tiles_rows, tiles_columns, parts;
	int64_t slots; /* BACKWARD_WEIGHTS: taps of a tile, else 0 */
	int64_t units, slice_units;
	struct openreg_conv_slide slide;
	struct openreg_conv_whole whole;
	unsigned char *partial; /* [part][class][g][rows][columns] of type */
	int64_t sum_units, sum_slice_units;
};

/*
 * One dimension of a class of positions. Position i of the class is element
 * first + i * spread of the result. Its tap j is tap tap0 + j * tap_step of the kernel.
 * Tap j meets element i * step + at0 + j * at_step of the source.
 */
struct openreg_conv_axis {
	int64_t count, first, spread, step;
	int64_t taps, tap0, tap_step, at0, at_step;
};

/* Positions of a tile: the source elements of tap 0, which may be outside. */
struct openreg_conv_points {
	int64_t base[OPENREG_CONV_COLUMNS_MAX];
	int64_t at[3][OPENREG_CONV_COLUMNS_MAX];
};

struct openreg_conv_tile {
	int64_t class, g, row0, rows, column0, columns, part;
	struct openreg_conv_axis axis[3];
};

/* Columns of a tile with results that are one stride apart. */
struct openreg_conv_run {
	int64_t first, n, at, stride;
};

/* The memory of a worker for a unit. */
struct openreg_conv_work {
	struct openreg_conv_points points;
	struct openreg_conv_run run[OPENREG_CONV_COLUMNS_MAX];
	int64_t runs;
	/* A panel: arguments of the gather kernel */
	int64_t at[OPENREG_CONV_BLOCK], index[OPENREG_GATHER_WIDTH];
	uint32_t mask[OPENREG_CONV_BLOCK];
	int64_t tap[OPENREG_CONV_BLOCK]; /* offsets of taps */
	uint32_t tap_mask[OPENREG_CONV_BLOCK];
	uint16_t raw[OPENREG_CONV_BLOCK * OPENREG_GATHER_WIDTH];
	unsigned char *a, *b, *out;
	uint32_t *inside; /* [slots][OPENREG_CONV_BLOCK], all ones or 0 */
	int64_t rows, columns; /* of out, rounded up to whole blocks */
};

struct openreg_verdict openreg_conv_check(struct openreg_args *args);
/* Returns false if the packet has no work. */
bool openreg_conv_plan(struct openreg_conv *cv,
		       const struct openreg_args *args);
/* Sets axis[].taps to 0 where no tap meets the class. */
void openreg_conv_axes(const struct openreg_conv *cv, int64_t class,
		       struct openreg_conv_axis axis[3]);
bool openreg_conv_is_gather(const struct openreg_conv *cv);

/* Finds the columns of the tile in the result: sets work->run and work->points. */
void openreg_conv_columns(const struct openreg_conv *cv,
			  const struct openreg_conv_tile *t,
			  struct openreg_conv_work *work);
/* Packs a block of the reduction as panels. Returns its length, which may be 0. */
int64_t openreg_conv_pack(const struct openreg_conv *cv,
			  const struct openreg_conv_tile *t, int64_t block,
			  struct openreg_conv_work *work);

/* Sets slide, units and parts if weighted lines are faster. */
void openreg_conv_slide_plan(struct openreg_conv *cv);
bool openreg_conv_slide(const struct openreg_conv *cv, int64_t unit,
			struct openreg_scratch *scratch);

/*
 * Sets whole and the job's phases if oneDNN's convolutions are faster. Returns false if
 * memory is short.
 */
bool openreg_conv_whole_plan(struct openreg_conv *cv, struct openreg_job *job,
			     struct openreg_scratch *scratch);
bool openreg_conv_whole(const struct openreg_conv *cv, unsigned int phase,
			int64_t slice, struct openreg_scratch *scratch);

extern const struct openreg_engine openreg_conv_engine;

#endif
