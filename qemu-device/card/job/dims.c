/* SPDX-License-Identifier: MIT */
#include "dims.h"

#include <stdbool.h>

static bool mergeable(const int64_t *size, int64_t *const *stride, unsigned int nops,
		      unsigned int inner, unsigned int outer)
{
	unsigned int i;
	int64_t step;

	for (i = 0; i < nops; i++) {
		if (__builtin_mul_overflow(stride[i][inner], size[inner], &step) ||
		    stride[i][outer] != step)
			return false;
	}
	return true;
}

/* A merged dimension has the stride of the innermost. */
static void merge(int64_t *size, int64_t *const *stride, unsigned int nops,
		  unsigned int inner, unsigned int outer)
{
	const unsigned int to = inner < outer ? inner : outer;
	unsigned int i;

	size[to] = size[inner] * size[outer];
	for (i = 0; i < nops; i++)
		stride[i][to] = stride[i][inner];
}

static void move(int64_t *size, int64_t *const *stride, unsigned int nops,
		 unsigned int from, unsigned int to)
{
	unsigned int i;

	size[to] = size[from];
	for (i = 0; i < nops; i++)
		stride[i][to] = stride[i][from];
}

unsigned int openreg_merge_dims(unsigned int ndim, int64_t *size, int64_t *const *stride,
				unsigned int nops, enum openreg_dims_order order)
{
	unsigned int d, inner, outer, n = 0;

	for (d = 0; d < ndim; d++) {
		if (size[d] == 1)
			continue;
		move(size, stride, nops, d, n);
		inner = order == OPENREG_INNER_FIRST ? n - 1 : n;
		outer = order == OPENREG_INNER_FIRST ? n : n - 1;
		if (n && mergeable(size, stride, nops, inner, outer))
			merge(size, stride, nops, inner, outer);
		else
			n++;
	}
	return n;
}
