/* SPDX-License-Identifier: MIT */
/*
 * SCAN: running sums along an axis. A row of more than OPENREG_SCAN_PIECE elements is
 * cut into pieces. Then phase 0 finds the total of each piece, phase 1 what comes before
 * each, and the last phase scans all pieces, each from there.
 *
 * A unit is some rows, or pieces of rows, that are scanned together: neighbours in
 * memory line by line, others in turns.
 */
#ifndef OPENREG_SCAN_H
#define OPENREG_SCAN_H

#include "engine_internal.h"
#include "kernels.h"

#define OPENREG_SCAN_WIDTH 256 /* rows of a unit, at most */
#define OPENREG_SCAN_BLOCK 8192 /* elements that a unit has in scratch memory */

struct openreg_scan_operand {
	uintptr_t base;
	uint8_t dtype;
	int64_t esize;
	int64_t axis; /* stride along it */
	int64_t stride[OPENREG_DIMS_MAX]; /* as the dimensions of the rows */
};

/* Where a chain is: of a row, or of a piece of one. */
struct openreg_scan_total {
	union openreg_acc acc;
	int64_t where; /* MAX, MIN: place of the winner; PROD: flags */
};

/* For PROD: what the elements of a piece are not. */
#define OPENREG_SCAN_HAS_ZERO 1
#define OPENREG_SCAN_HAS_INFINITE 2 /* or NaN */

/* All whole pieces, or all last ones, or all rows that need not be cut. */
struct openreg_scan_part {
	unsigned int ndim; /* of the rows; 0 is the one that units group */
	int64_t size[OPENREG_DIMS_MAX];
	int64_t dim[OPENREG_DIMS_MAX]; /* of the packet, or PIECE_DIM */
	int64_t n; /* elements of a row or piece */
	int64_t first; /* piece */
	int64_t width; /* rows of a unit */
	int64_t block; /* elements of each that are worked on at a time */
	int64_t units, slice_units;
	uint32_t slices;
	bool lines;
	struct openreg_scan_operand values, source, index;
	int64_t total[OPENREG_DIMS_MAX]; /* strides of totals */
};

struct openreg_scan {
	const struct openreg_kernels *kernels;
	uint8_t mode;
	uint8_t type; /* of what is in scratch memory */
	int64_t esize;
	bool has_index;
	int64_t n, pieces, rows;
	unsigned int nparts;
	struct openreg_scan_part part[2];
	struct openreg_scan_total *totals; /* [row][piece] */
};

/* Some rows at work. */
struct openreg_scan_chain {
	union openreg_acc acc[OPENREG_SCAN_WIDTH];
	int64_t where[OPENREG_SCAN_WIDTH];
};

struct openreg_verdict openreg_scan_check(struct openreg_args *args);
bool openreg_scan_plan(struct openreg_scan *scan,
		       const struct openreg_args *args);

void openreg_scan_begin(const struct openreg_scan *scan,
			union openreg_acc *acc, int64_t *where);
/* *to, which is what comes before *total, becomes what comes after it. */
void openreg_scan_join(const struct openreg_scan *scan,
		       struct openreg_scan_total *to,
		       const struct openreg_scan_total *total);
/* One row of n f64 from acc, the logarithm so far. work: n elements. */
void openreg_scan_log_row(const struct openreg_kernels *kernels, double *acc,
			  double *x, double *work, size_t n);
/* OPENREG_SCAN_HAS_* of n elements. */
int64_t openreg_scan_flags(uint8_t type, const void *x, size_t n);

#endif
