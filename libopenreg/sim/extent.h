/* SPDX-License-Identifier: MIT */
/* Free ranges of device memory: best fit, neighbours joined. */
#ifndef OPENREG_SIM_EXTENT_H
#define OPENREG_SIM_EXTENT_H

#include <stdint.h>

struct sim_extent;

struct sim_extents {
	struct sim_extent *first; /* by offset */
};

/* All of [0, size) is free. 0 or -ENOMEM. */
int sim_extents_init(struct sim_extents *e, uint64_t size);
void sim_extents_fini(struct sim_extents *e);
/* 0, or -ENOSPC if no free range is that long. */
int sim_extents_take(struct sim_extents *e, uint64_t size, uint64_t *offset);
/* 0, or -ENOMEM; the range is lost then. */
int sim_extents_give(struct sim_extents *e, uint64_t offset, uint64_t size);
void sim_extents_sum(const struct sim_extents *e, uint64_t *total,
		     uint64_t *largest);

#endif
