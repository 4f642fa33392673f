/* SPDX-License-Identifier: MIT */
/* The bytes that an operand accesses, as nested rows. */
#ifndef OPENREG_CHECK_SHAPE_H
#define OPENREG_CHECK_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "job/args.h"

#define SHAPE_DIMS (OPENREG_DIMS_MAX + OPENREG_INDEX_OPERANDS_MAX)

/* Rows of `row` bytes. Steps are positive, and the first dimension has the least. */
struct shape {
	uint64_t lo; /* first byte */
	uint64_t hi; /* after the last byte */
	uint64_t row;
	unsigned int ndim; /* 0: the bytes from lo to hi, without gaps */
	uint64_t count[SHAPE_DIMS];
	uint64_t step[SHAPE_DIMS]; /* bytes */
};

/* off: offset of element 0. The core has checked that all bytes lie in the segment. */
void shape_of(struct shape *s, const struct openreg_args *args,
	      const struct openreg_arg *op, uint64_t off);
/*
 * Is it certain that both have a byte in common? Takes the rounds that it needs from
 * *rounds, and returns false when none are left.
 */
bool shape_meets(const struct shape *a, const struct shape *b, uint64_t *rounds);
/* Is it certain that a has every byte of b? */
bool shape_covers(const struct shape *a, const struct shape *b);

/* Goes through the rows. */
struct rows {
	const struct shape *shape;
	uint64_t at[SHAPE_DIMS];
	uint64_t lo;
	bool done;
};
/* Returns false if there are too many rows. */
bool rows_begin(struct rows *rows, const struct shape *shape);
void rows_next(struct rows *rows);

#endif
