// SPDX-License-Identifier: MIT
/* Window geometry of CONV and POOL. */
#include <string.h>

#include "window.h"

uint64_t openreg_window_count(const int64_t *factor, unsigned int n)
{
	uint64_t product = 1;
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (!factor[i])
			return 0;
	}
	for (i = 0; i < n && product <= OPENREG_WINDOW_WORK_MAX; i++) {
		if (__builtin_mul_overflow(product, (uint64_t)factor[i],
					   &product))
			return UINT64_MAX;
	}
	return product;
}

int64_t openreg_window_product(const int64_t *factor, unsigned int n)
{
	uint64_t product = openreg_window_count(factor, n);

	return product > OPENREG_WINDOW_WORK_MAX ? -1 : (int64_t)product;
}

/* Detail of a fault: the number of the immediate, or the output size. */
struct openreg_verdict openreg_window_check(const struct openreg_args *args)
{
	unsigned int i;

	for (i = 0; i < OPENREG_WINDOW_DIVISOR; i++) {
		bool zero = (i >= OPENREG_WINDOW_INPUT &&
			     i < OPENREG_WINDOW_STRIDE) ||
			    (i >= OPENREG_WINDOW_PADDING &&
			     i < OPENREG_WINDOW_DILATION);

		if (args->imm[i] > OPENREG_WINDOW_SIZE_MAX ||
		    (!zero && !args->imm[i]))
			return openreg_bad(OPENREG_FAULT_SHAPE,
					   OPENREG_NO_OPERAND, i);
	}
	for (i = args->ndim - OPENREG_WINDOW_DIMS; i < args->ndim; i++) {
		if (args->size[i] > OPENREG_WINDOW_SIZE_MAX)
			return openreg_bad(OPENREG_FAULT_SHAPE,
					   OPENREG_NO_OPERAND,
					   (uint64_t)args->size[i]);
	}
	return openreg_good();
}

void openreg_window_get(struct openreg_geometry *w,
			const struct openreg_args *args)
{
	const size_t bytes = 3 * sizeof(int64_t);

	memcpy(w->kernel, &args->imm[OPENREG_WINDOW_KERNEL], bytes);
	memcpy(w->input, &args->imm[OPENREG_WINDOW_INPUT], bytes);
	memcpy(w->stride, &args->imm[OPENREG_WINDOW_STRIDE], bytes);
	memcpy(w->padding, &args->imm[OPENREG_WINDOW_PADDING], bytes);
	memcpy(w->dilation, &args->imm[OPENREG_WINDOW_DILATION], bytes);
	memcpy(w->output, &args->size[args->ndim - 3], bytes);
}

struct openreg_verdict openreg_window_operand(struct openreg_args *args,
					      unsigned int i, uint32_t dims,
					      const int64_t size[3],
					      bool written)
{
	struct openreg_arg *op = &args->op[i];
	int64_t counted[OPENREG_DIMS_MAX];
	unsigned int d, n = 0;
	uint64_t elements;

	memcpy(op->size, args->size, args->ndim * sizeof(*op->size));
	memcpy(op->size + args->ndim - 3, size, 3 * sizeof(*size));
	op->sized = true;
	op->dims = dims;
	op->written = written;
	op->read = !written;
	for (d = 0; d < args->ndim; d++) {
		bool has = dims >> d & 1;

		if (!has && op->stride[d] != 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, i, d);
		if (has && written && op->size[d] > 1 && op->stride[d] == 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, i, d);
		if (has)
			counted[n++] = op->size[d];
	}
	elements = openreg_window_count(counted, n);
	if (elements > OPENREG_WINDOW_WORK_MAX)
		return openreg_bad(OPENREG_FAULT_LIMIT, i, elements);
	return openreg_good();
}
