/* SPDX-License-Identifier: MIT */
/*
 * SOFTMAX computes rows along the axis in blocks of `lines` points of the axis by `width`
 * rows, in scratch memory. There the rows lie across lines of `width` elements, or one
 * after another. A row that is too long for one block is cut into pieces. A first phase
 * then finds the greatest element and the sum of each piece, and a second phase writes.
 */
#ifndef OPENREG_SOFTMAX_H
#define OPENREG_SOFTMAX_H

#include "job/work.h"
#include "kernels/kernels.h"

#define OPENREG_SOFTMAX_BLOCK 131072 /* most elements of a block */
#define OPENREG_SOFTMAX_ROWS 2048 /* most elements of a block of several whole rows */

struct openreg_softmax_operand {
	uintptr_t base;
	uint8_t dtype;
	int64_t esize;
	int64_t stride[OPENREG_DIMS_MAX]; /* along the dimensions of the plan */
};

/* Maximum and sum of a row, or of a piece of a row. */
struct openreg_softmax_stat {
	double max; /* forward; backward: 0 */
	double sum;
};

struct openreg_softmax {
	const struct openreg_kernels *kernels;
	uint8_t type; /* F32 or F64, for the computation */
	int64_t esize; /* bytes of the type */
	bool log, backward;
	bool output_as_type; /* elements of output have the type */
	bool rows; /* the rows of a block lie one after another */
	/* Dimension 0 is the axis; a block has rows along dimension 1. */
	unsigned int ndim;
	int64_t size[OPENREG_DIMS_MAX];
	struct openreg_softmax_operand result, input, output;
	int64_t width, lines; /* largest of a block */
	int64_t units; /* groups of width rows */
	int64_t pieces; /* blocks that a row is cut into */
	int64_t slice_units; /* if pieces is 1 */
	struct openreg_softmax_stat *stats; /* [unit][piece][width] */
};

/* A block: its position and size, and its scratch memory. */
struct openreg_softmax_block {
	int64_t at[OPENREG_DIMS_MAX];
	int64_t width, lines;
	void *x, *y, *z;
	const void *output; /* y, or the operand itself */
	struct openreg_softmax_stat stat[OPENREG_SOFTMAX_WIDTH];
};

/* Sets stat for every row of a loaded block. May change the block. */
void openreg_softmax_measure(const struct openreg_softmax *sm,
			     struct openreg_softmax_block *block);
/* Computes the result in x, from a loaded block and the stat of the whole rows. */
void openreg_softmax_apply(const struct openreg_softmax *sm,
			   struct openreg_softmax_block *block);
/* Does both, for blocks of whole rows. */
void openreg_softmax_whole(const struct openreg_softmax *sm,
			   struct openreg_softmax_block *block);
/* Adds a piece to the stat of a row. */
void openreg_softmax_merge(const struct openreg_softmax *sm,
			   struct openreg_softmax_stat *row,
			   const struct openreg_softmax_stat *piece);

extern const struct openreg_engine openreg_softmax_engine;

#endif
