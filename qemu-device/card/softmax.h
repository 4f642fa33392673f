/* SPDX-License-Identifier: MIT */
/*
 * SOFTMAX: rows along the axis are worked on in blocks of `lines` points of
 * the axis by `width` rows, in scratch memory. There the rows lie across lines
 * of `width` elements, or one after another. A row that is too long for one
 * block is cut; a first phase then finds each piece's greatest element and
 * sum, and a second one writes.
 */
#ifndef OPENREG_SOFTMAX_H
#define OPENREG_SOFTMAX_H

#include "engine_internal.h"
#include "kernels.h"

#define OPENREG_SOFTMAX_BLOCK 131072 /* elements of a block, at most */
#define OPENREG_SOFTMAX_ROWS 2048 /* of several rows one after another */

struct openreg_softmax_operand {
	uintptr_t base;
	uint8_t dtype;
	int64_t esize;
	int64_t stride[OPENREG_DIMS_MAX]; /* as the dimensions of the plan */
};

/* What is known of a row, or of a piece of one. */
struct openreg_softmax_stat {
	double max; /* forward; backward: 0 */
	double sum;
};

struct openreg_softmax {
	const struct openreg_kernels *kernels;
	uint8_t type; /* F32 or F64, in which it computes */
	int64_t esize; /* of the type */
	bool log, backward;
	bool output_as_type; /* its elements are of the type */
	bool rows; /* of a block lie one after another */
	/* Dimension 0 is the axis, 1 the one along which a block has rows. */
	unsigned int ndim;
	int64_t size[OPENREG_DIMS_MAX];
	struct openreg_softmax_operand result, input, output;
	int64_t width, lines; /* of a block, at most */
	int64_t units; /* groups of width rows */
	int64_t pieces; /* blocks that a row is cut into */
	int64_t slice_units; /* if pieces is 1 */
	struct openreg_softmax_stat *stats; /* [unit][piece][width] */
};

/* A block: where it is, and its scratch memory. */
struct openreg_softmax_block {
	int64_t at[OPENREG_DIMS_MAX];
	int64_t width, lines;
	void *x, *y, *z;
	const void *output; /* y, or memory */
	struct openreg_softmax_stat stat[OPENREG_SOFTMAX_WIDTH];
};

/* Finds stat of every row of a loaded block; whole: may change the block. */
void openreg_softmax_measure(const struct openreg_softmax *sm,
			     struct openreg_softmax_block *block);
/* From stat of the whole rows and a loaded block to the result, in x. */
void openreg_softmax_apply(const struct openreg_softmax *sm,
			   struct openreg_softmax_block *block);
/* Both, for blocks of whole rows. */
void openreg_softmax_whole(const struct openreg_softmax *sm,
			   struct openreg_softmax_block *block);
/* One more piece of a row. */
void openreg_softmax_merge(const struct openreg_softmax *sm,
			   struct openreg_softmax_stat *row,
			   const struct openreg_softmax_stat *piece);

#endif
