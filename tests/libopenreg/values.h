/* SPDX-License-Identifier: MIT */
/* What the ranks of a communicator reduce and move in tests, and what must come out. */
#ifndef VALUES_H
#define VALUES_H

#include "ranks.h"

#define SIZES 9
#define UNEVEN 4

extern const uint64_t sizes[SIZES]; /* elements */
extern const uint64_t uneven[UNEVEN][RANKS];

/* Elements of the ranks before this one. */
uint64_t begin_of(const uint64_t *counts, uint32_t rank);

#define FACTOR(rank) (2 - (int64_t)(rank)) /* for PREMUL_SUM */

/* Element i of a rank. */
int64_t value(uint32_t rank, uint64_t i);
void put(uint8_t *p, enum openreg_dtype dtype, uint64_t i, int64_t v);
/* Stores elements first to first + count - 1 of this rank. */
void fill(uint8_t *p, enum openreg_dtype dtype, uint64_t first, uint64_t count);
/* Elements from first on are the reduction of all ranks; the next byte is untouched. */
void check_reduced(const uint8_t *p, enum openreg_dtype dtype, uint64_t first,
		   uint64_t count, enum openreg_comm_op op);
/* Elements from first on are those of one rank; returns their end. */
uint8_t *check_values(uint8_t *p, enum openreg_dtype dtype, uint32_t rank, uint64_t first,
		      uint64_t count);

#endif
