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

#define OPENREG_INDEX_WALK 1024 /* points of the walk in a tile, at most */
#define OPENREG_INDEX_RUN 65536 /* bytes of the run in a tile, roughly */
/* A run and a walk may come on top of a packet's dimensions. */
#define OPENREG_INDEX_DIMS (OPENREG_DIMS_MAX + 2)

/* Where a tile's elements are; strides in bytes. */
struct openreg_index_tile {
	char *dst;
	const char *src;
	const int64_t *off; /* of every point of the walk, in bytes */
	int64_t walk, run; /* points */
	int64_t dst_walk, dst_run, src_walk, src_run;
};

typedef void openreg_index_fn(const struct openreg_index_tile *tile);

/* For a mode and a dtype that the check has let pass. */
openreg_index_fn *openreg_index_kernel(unsigned int mode, unsigned int dtype);

struct openreg_index_operand {
	uintptr_t base;
	int64_t stride[OPENREG_INDEX_DIMS]; /* bytes */
	bool narrow; /* I32 */
	uint64_t extent;
	uint64_t step; /* bytes, of the indirect operand; modulo 2^64 */
};

struct openreg_index_plan {
	openreg_index_fn *kernel;
	bool wrap;
	unsigned int ndim; /* at least 2 */
	/* Dimension 2 is counted before the walk: its points share cache lines. */
	bool short_first;
	int64_t size[OPENREG_INDEX_DIMS];
	int64_t block[2];
	int64_t digits[OPENREG_INDEX_DIMS]; /* tiles along a dimension */
	bool free[OPENREG_INDEX_DIMS];
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
