/* SPDX-License-Identifier: MIT */
/*
 * INDEX: the plan of a packet and the kernels that walk it.
 *
 * Dimension 0 of the plan is the run, along which no index changes; dimension 1
 * is the walk, along which a tile reads its indices; the rest is counted. A
 * tile is `block[1]` points of the walk by `block[0]` of the run.
 *
 * Tiles are numbered by two groups of digits. No two coordinates of the free
 * group name one destination element, so its tiles may run in any order; those
 * of the other group run in row-major order. Where the destination is not
 * indirect every digit is free.
 */
#ifndef OPENREG_INDEX_H
#define OPENREG_INDEX_H

#include "engine_internal.h"
#include "kernels.h"

#define OPENREG_INDEX_WALK 1024 /* points of the walk in a tile, at most */
#define OPENREG_INDEX_RUN 65536 /* bytes of the run in a tile, roughly */
/* A run and a walk may come on top of a packet's dimensions. */
#define OPENREG_INDEX_DIMS (OPENREG_DIMS_MAX + 2)

struct openreg_index_operand {
	uintptr_t base;
	int64_t stride[OPENREG_INDEX_DIMS]; /* bytes */
	bool narrow; /* I32 */
	bool of_source; /* which it is an index of, else of the destination */
	struct openreg_index_range range;
};

struct openreg_index_plan {
	const struct openreg_kernels *kernels;
	openreg_index_fn *run;
	unsigned int ndim; /* at least 2 */
	/* Dimension 2 is counted before the walk: its points share cache lines. */
	bool short_first;
	int64_t size[OPENREG_INDEX_DIMS];
	int64_t block[2];
	int64_t digits[OPENREG_INDEX_DIMS]; /* tiles along a dimension */
	bool free[OPENREG_INDEX_DIMS];
	/* Only the source is indirect; both are; else only the destination is. */
	bool get, both;
	bool lines; /* one after another: the walk is dense, and the run is not */
	uintptr_t dst, src;
	int64_t dst_stride[OPENREG_INDEX_DIMS]; /* bytes */
	int64_t src_stride[OPENREG_INDEX_DIMS];
	unsigned int nindex;
	struct openreg_index_operand index[OPENREG_INDEX_OPERANDS_MAX];
	int64_t free_units, ordered_units; /* tiles: the product of both */
	int64_t slice_units; /* free ones of a slice */
	int64_t phase_units; /* ordered ones of a phase */
};

/* false: there is nothing to do. */
bool openreg_index_make(struct openreg_index_plan *plan,
			const struct openreg_args *args);

#endif
