/* SPDX-License-Identifier: MIT */
/* Copy engine: checks, and the order in which elements are visited. */
#include <stdlib.h>
#include <string.h>

#include "job/dims.h"
#include "queue.h"

/* The order of the elements is not defined, so no element may be written twice. */
static struct openreg_verdict check_once(const struct openreg_args *args)
{
	struct openreg_verdict v = openreg_good();
	unsigned int d;

	for (d = 0; d < args->ndim; d++) {
		if (!args->size[d])
			return openreg_good();
		if (!v.code && args->size[d] > 1 && !args->op[0].stride[d])
			v = openreg_bad(OPENREG_FAULT_SHAPE, 0, d);
	}
	return v;
}

struct openreg_verdict copy_check(struct openreg_args *args)
{
	bool fill = args->opcode == OPENREG_OP_FILL;
	uint32_t dims = (1u << args->ndim) - 1;
	unsigned int i, nops = fill ? 1 : 2;

	if (args->nops != nops || args->nimm != (fill ? 1 : 0) ||
	    args->ninstr || args->arg[0] || args->arg[1] || args->arg[2] ||
	    args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   sizeof(struct openreg_packet));
	for (i = 0; i < nops; i++) {
		if (!openreg_dtype_size(args->op[i].dtype))
			return openreg_bad(OPENREG_FAULT_DTYPE, i,
					   args->op[i].dtype);
		args->op[i].read = i == 1;
		args->op[i].written = i == 0;
		args->op[i].dims = dims;
	}
	return check_once(args);
}

static void swap_dims(struct copy *c, unsigned int a, unsigned int b)
{
	uint64_t size = c->size[a];
	int64_t dst = c->dst.stride[a], src = c->src.stride[a];

	c->size[a] = c->size[b];
	c->dst.stride[a] = c->dst.stride[b];
	c->src.stride[a] = c->src.stride[b];
	c->size[b] = size;
	c->dst.stride[b] = dst;
	c->src.stride[b] = src;
}

/*
 * The order of the elements is free. Puts dimensions with small strides last, by the
 * strides of the side in system memory, where a jump costs most.
 */
static void sort_dims(struct copy *c)
{
	const struct copy_side *key =
		c->fill || !c->dst.vram || c->src.vram ? &c->dst : &c->src;
	unsigned int i, j;

	for (i = 1; i < c->ndim; i++)
		for (j = i; j && openreg_magnitude(key->stride[j - 1]) <
					 openreg_magnitude(key->stride[j]); j--)
			swap_dims(c, j - 1, j);
}

static void merge_dims(struct copy *c)
{
	int64_t *const stride[] = { c->dst.stride, c->src.stride };

	c->ndim = openreg_merge_dims(c->ndim, (int64_t *)c->size, stride, 2,
				     OPENREG_OUTER_FIRST);
	if (c->ndim)
		return;
	c->ndim = 1;
	c->size[0] = 1;
	c->dst.stride[0] = 1;
	c->src.stride[0] = 1;
}

static bool is_dense(const struct copy *c, const struct copy_side *side)
{
	unsigned int d;

	if (side->stride[c->ndim - 1] != 1)
		return false;
	for (d = c->ndim - 1; d; d--)
		if (side->stride[d - 1] != side->stride[d] * (int64_t)c->size[d])
			return false;
	return true;
}

static void set_side(struct queue *q, unsigned int i, struct copy_side *side)
{
	const struct openreg_arg *op = &q->args.op[i];

	side->seg = q->reach[i].seg;
	side->vram = op->ptr;
	side->off = q->reach[i].off;
	side->at = 0;
	side->dtype = op->dtype;
	side->esize = (uint8_t)openreg_dtype_size(op->dtype);
	side->staged = false;
	memcpy(side->stride, op->stride, sizeof(side->stride));
}

void copy_begin(struct queue *q)
{
	const struct openreg_args *args = &q->args;
	struct copy *c = &q->copy;
	unsigned int d;

	c->fill = args->opcode == OPENREG_OP_FILL;
	c->pattern = args->imm[0];
	c->ndim = args->ndim;
	c->left = 1;
	for (d = 0; d < args->ndim; d++) {
		c->size[d] = (uint64_t)args->size[d];
		c->left = c->size[d] ? c->left * c->size[d] : 0;
		if (!c->left)
			return;
	}
	set_side(q, 0, &c->dst);
	set_side(q, c->fill ? 0 : 1, &c->src);
	/* A copy without a cast keeps the bits; a cast to BOOL would not. */
	if (c->dst.dtype == OPENREG_BOOL && c->src.dtype == OPENREG_BOOL)
		c->dst.dtype = c->src.dtype = OPENREG_U8;
	sort_dims(c);
	merge_dims(c);
	memset(c->index, 0, sizeof(c->index));
	if (c->ndim == 1 || c->fill)
		return;
	c->dst.staged = !c->dst.vram && is_dense(c, &c->dst);
	c->src.staged = !c->src.vram && is_dense(c, &c->src);
}

#define FILL_ROW(type)                                                         \
	do {                                                                   \
		type *p = dst;                                                 \
		for (i = 0; i < n; i++)                                        \
			p[(int64_t)i * stride] = (type)pattern;                \
	} while (0)

void copy_fill(void *dst, int64_t stride, unsigned int esize, uint64_t pattern,
	       uint64_t n)
{
	uint64_t bytes = (pattern & 0xff) * 0x0101010101010101ULL, i;
	uint64_t mask = esize == 8 ? ~0ULL : (1ULL << 8 * esize) - 1;

	if (stride == 1 && !((bytes ^ pattern) & mask)) {
		memset(dst, (int)(pattern & 0xff), n * esize);
		return;
	}
	switch (esize) {
	case 1:
		FILL_ROW(uint8_t);
		break;
	case 2:
		FILL_ROW(uint16_t);
		break;
	case 4:
		FILL_ROW(uint32_t);
		break;
	case 8:
		FILL_ROW(uint64_t);
		break;
	}
}
