/* SPDX-License-Identifier: MIT */
/* The dimensions of a packet, as an engine visits them. */
#ifndef OPENREG_DIMS_H
#define OPENREG_DIMS_H

#include <stdint.h>

enum openreg_dims_order { OPENREG_OUTER_FIRST, OPENREG_INNER_FIRST };

static inline uint64_t openreg_magnitude(int64_t stride)
{
	return stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
}

/*
 * Drops dimensions of size 1, and merges neighbours that form one dimension for each of
 * the nops operands. stride[i] has the strides of operand i, in any unit. Returns the
 * number of dimensions that are left, which may be 0.
 */
unsigned int openreg_merge_dims(unsigned int ndim, int64_t *size, int64_t *const *stride,
				unsigned int nops, enum openreg_dims_order order);

#endif
