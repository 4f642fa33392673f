/* SPDX-License-Identifier: MIT */
/*
 * SCAN: running sums along an axis. A row of more than OPENREG_SCAN_PIECE elements is cut
 * into pieces. Then phase 0 computes the total of each piece, and phase 1 the total of
 * all pieces before it. Phase 2 scans all pieces, each from that total on.
 *
 * A unit is some rows, or pieces of rows, that are scanned together. Rows that are
 * neighbours in memory are scanned line by line, others interleaved.
 */
#ifndef OPENREG_SCAN_H
#define OPENREG_SCAN_H

#include "job/work.h"
#include "kernels/kernels.h"

#define OPENREG_SCAN_WIDTH 256 /* most rows of a unit */
#define OPENREG_SCAN_BLOCK 8192 /* elements of a unit in scratch memory */

struct openreg_scan_operand {
	uintptr_t base;
	uint8_t dtype;
	int64_t esize;
	int64_t axis; /* stride along the axis */
	int64_t stride[OPENREG_DIMS_MAX]; /* along the dimensions of the rows */
};

/* The accumulator of a row, or of a piece of a row. */
struct openreg_scan_total {
	union openreg_acc acc;
	int64_t where; /* MAX, MIN: position of the extreme; PROD: flags */
};

/* Flags of a piece for PROD: whether it has such elements. */
#define OPENREG_SCAN_HAS_ZERO 1
#define OPENREG_SCAN_HAS_INFINITE 2 /* or NaN */

/* All full pieces, or all last pieces, or all rows if they are not cut. */
struct openreg_scan_part {
	unsigned int ndim; /* dimensions of the rows; units are along dimension 0 */
	int64_t size[OPENREG_DIMS_MAX];
	int64_t dim[OPENREG_DIMS_MAX]; /* dimension of the packet, or PIECE_DIM */
	int64_t n; /* elements of a row or piece */
	int64_t first; /* first piece */
	int64_t width; /* rows of a unit */
	int64_t block; /* elements of each row that are loaded at a time */
	int64_t units, slice_units;
	uint32_t slices;
	bool lines;
	struct openreg_scan_operand values, source, index;
	int64_t total[OPENREG_DIMS_MAX]; /* strides of totals */
};

struct openreg_scan {
	const struct openreg_kernels *kernels;
	uint8_t mode;
	uint8_t type; /* register type in scratch memory */
	int64_t esize;
	bool has_index;
	int64_t n, pieces, rows;
	unsigned int nparts;
	struct openreg_scan_part part[2];
	struct openreg_scan_total *totals; /* [row][piece] */
};

/* The accumulators of the rows of a unit. */
struct openreg_scan_chain {
	union openreg_acc acc[OPENREG_SCAN_WIDTH];
	int64_t where[OPENREG_SCAN_WIDTH];
};

struct openreg_verdict openreg_scan_check(struct openreg_args *args);
bool openreg_scan_plan(struct openreg_scan *scan,
		       const struct openreg_args *args);

void openreg_scan_begin(const struct openreg_scan *scan,
			union openreg_acc *acc, int64_t *where);
/* Adds *total, the total of the next piece, to *to, the total of all before. */
void openreg_scan_join(const struct openreg_scan *scan,
		       struct openreg_scan_total *to,
		       const struct openreg_scan_total *total);
/* LOGSUMEXP of a row of n f64. *acc: the result so far. work: room for n elements. */
void openreg_scan_log_row(const struct openreg_kernels *kernels, double *acc,
			  double *x, double *work, size_t n);
/* Returns OPENREG_SCAN_HAS_* of n elements. */
int64_t openreg_scan_flags(uint8_t type, const void *x, size_t n);

extern const struct openreg_engine openreg_scan_engine;

#endif
