/* SPDX-License-Identifier: MIT */
/* COPY and FILL: strided, casting, between any two segments. */
#ifndef OPENREG_COPY_H
#define OPENREG_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "openreg_isa.h"

struct queue;
struct worker;
struct openreg_verdict;
struct segment;
struct openreg_args;

struct copy_side {
	const struct segment *seg;
	uint8_t *vram; /* element 0; NULL in system memory */
	uint64_t off; /* segment offset of element 0, bytes */
	int64_t at; /* next element, in elements from element 0 */
	int64_t stride[OPENREG_DIMS_MAX]; /* elements */
	uint8_t dtype;
	uint8_t esize;
	bool staged; /* dense in system memory: one transfer moves a whole tile */
};

struct copy {
	bool fill;
	uint64_t pattern;
	unsigned int ndim; /* at least 1 */
	uint64_t size[OPENREG_DIMS_MAX];
	uint64_t index[OPENREG_DIMS_MAX];
	uint64_t left; /* elements */
	struct copy_side dst;
	struct copy_side src;
};

enum copy_result { COPY_MORE, COPY_DONE, COPY_FAILED };

/* Checks operands, types and immediates. Call it before the address check. */
struct openreg_verdict copy_check(struct openreg_args *args);
/* Takes the geometry from q->args and q->reach. Call it after the address check. */
void copy_begin(struct queue *q);
/*
 * If the copy is long and within VRAM, turns q->args into a VECTOR program, which all
 * workers can run, and returns true.
 */
bool copy_to_program(struct openreg_args *args);
/*
 * Copies for about half a millisecond, or longer if the bus is slow. On COPY_FAILED,
 * *failed is the operand that the bus refused.
 */
enum copy_result copy_slice(struct worker *w, struct queue *q,
			    uint32_t *failed);
/* Stores the bit pattern in n elements. */
void copy_fill(void *dst, int64_t stride, unsigned int esize, uint64_t pattern,
	       uint64_t n);

#endif
