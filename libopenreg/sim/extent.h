/* SPDX-License-Identifier: MIT */
/* List of free ranges of device memory: best fit; free neighbours are merged. */
#ifndef OPENREG_SIM_EXTENT_H
#define OPENREG_SIM_EXTENT_H

#include <stdint.h>

struct sim_extent;

struct sim_extents {
	struct sim_extent *first; /* by offset */
};

/* Begins with [0, size) free. 0 or -ENOMEM. */
int sim_extents_init(struct sim_extents *e, uint64_t size);
void sim_extents_fini(struct sim_extents *e);
/* 0, or -ENOSPC if no free range has size bytes. */
int sim_extents_take(struct sim_extents *e, uint64_t size, uint64_t *offset);
/* 0, or -ENOMEM: then the range is lost. */
int sim_extents_give(struct sim_extents *e, uint64_t offset, uint64_t size);
void sim_extents_sum(const struct sim_extents *e, uint64_t *total,
		     uint64_t *largest);

#endif
