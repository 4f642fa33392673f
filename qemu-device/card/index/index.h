/* SPDX-License-Identifier: MIT */
/*
 * INDEX: the plan of a packet.
 *
 * Dimension 0 of the plan is the run, along which no index changes. Dimension 1 is the
 * walk, along which a tile reads its indices. The other dimensions only number tiles. A
 * tile is `block[1]` points of the walk by `block[0]` elements of the run.
 *
 * Two groups of digits number the tiles. Two coordinates of the free group never name the
 * same destination element, so tiles of the free group may run in any order. Tiles of the
 * ordered group run in row-major order. If the destination is not indirect, every digit
 * is free.
 */
#ifndef OPENREG_INDEX_H
#define OPENREG_INDEX_H

#include "job/work.h"
#include "kernels/kernels.h"

#define OPENREG_INDEX_WALK 1024 /* most points of the walk in a tile */
#define OPENREG_INDEX_RUN 65536 /* bytes of the run in a tile, about */
/* A plan may have a run and a walk besides the packet's dimensions. */
#define OPENREG_INDEX_DIMS (OPENREG_DIMS_MAX + 2)

struct openreg_index_operand {
	uintptr_t base;
	int64_t stride[OPENREG_INDEX_DIMS]; /* bytes */
	bool narrow; /* I32, else I64 */
	bool of_source; /* indexes the source, else the destination */
	struct openreg_index_range range;
};

struct openreg_index_plan {
	const struct openreg_kernels *kernels;
	openreg_index_fn *run;
	unsigned int ndim; /* at least 2 */
	/* Dimension 2 counts faster than the walk: its points share cache lines. */
	bool short_first;
	int64_t size[OPENREG_INDEX_DIMS];
	int64_t block[2];
	int64_t digits[OPENREG_INDEX_DIMS]; /* tiles along a dimension */
	bool free[OPENREG_INDEX_DIMS];
	/* get: only the source is indirect; both: source and destination are. */
	bool get, both;
	bool lines; /* one line of the walk after another: only the walk is dense */
	uintptr_t dst, src;
	int64_t dst_stride[OPENREG_INDEX_DIMS]; /* bytes */
	int64_t src_stride[OPENREG_INDEX_DIMS];
	unsigned int nindex;
	struct openreg_index_operand index[OPENREG_INDEX_OPERANDS_MAX];
	int64_t free_units, ordered_units; /* their product is the number of tiles */
	int64_t slice_units; /* free units of a slice */
	int64_t phase_units; /* ordered units of a phase */
};

/* Returns false if the packet has no work. */
bool openreg_index_make(struct openreg_index_plan *plan,
			const struct openreg_args *args);

extern const struct openreg_engine openreg_index_engine;
extern const struct openreg_engine openreg_places_engine;

#endif
