/* SPDX-License-Identifier: MIT */
/* COPY and FILL: strided, casting, between any two segments. */
#ifndef OPENREG_COPY_H
#define OPENREG_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "openreg_isa.h"

struct queue;
struct worker;
struct verdict;
struct segment;
struct openreg_args;

struct copy_side {
	const struct segment *seg;
	uint8_t *vram; /* element 0; NULL in system memory */
	uint64_t off; /* of element 0 in the segment, bytes */
	int64_t at; /* of the next element, elements */
	int64_t stride[OPENREG_DIMS_MAX];
	uint8_t dtype;
	uint8_t esize;
	bool staged; /* system memory, dense in this order: whole tiles */
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

/* Before the address check: operands, types, immediates. */
struct verdict copy_check(struct openreg_args *args);
/* After it: takes the geometry from q->args and q->reach. */
void copy_begin(struct queue *q);
/* Within VRAM, and long: q->args become a program that all workers can run. */
bool copy_to_program(struct openreg_args *args);
/* About half a millisecond of it, more if the bus is slow. *failed: the operand the bus refused. */
enum copy_result copy_slice(struct worker *w, struct queue *q,
			    uint32_t *failed);
/* n elements of the bit pattern. */
void copy_fill(void *dst, int64_t stride, unsigned int esize, uint64_t pattern,
	       uint64_t n);

#endif
