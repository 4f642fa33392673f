// SPDX-License-Identifier: MIT
/*
 * Runs the decoder and all checks, and compares them with an oracle: every corner of an
 * operand's space, computed in 128 bits, lies in an existing segment that allows the
 * access.
 */
#include "decode.h"

#include <string.h>

struct space {
	unsigned int ndim;
	int64_t size[OPENREG_DIMS_MAX + OPENREG_INDEX_OPERANDS_MAX];
	int64_t stride[OPENREG_DIMS_MAX + OPENREG_INDEX_OPERANDS_MAX];
	bool empty;
};

static void add_dim(struct space *space, int64_t size, int64_t stride)
{
	space->empty |= size == 0;
	/* A dimension of one element has no corners; its stride does not matter. */
	if (size == 1)
		return;
	space->size[space->ndim] = size;
	space->stride[space->ndim++] = stride;
}

static struct space space_of(const struct openreg_args *args,
			     const struct openreg_arg *op)
{
	struct space space = { 0 };
	unsigned int d;

	for (d = 0; d < args->ndim; d++)
		if (op->dims >> d & 1)
			add_dim(&space, op->sized ? op->size[d] : args->size[d],
				op->stride[d]);
	for (d = 0; d < args->nextents; d++)
		if (op->indirect >> d & 1)
			add_dim(&space, args->extent[d], args->step[d]);
	return space;
}

static __int128 corner_at(const struct space *space, unsigned int corner)
{
	__int128 at = 0;
	unsigned int d;

	for (d = 0; d < space->ndim; d++)
		if (corner >> d & 1)
			at += (__int128)(space->size[d] - 1) * space->stride[d];
	return at;
}

static void check_operand(const struct queue *q, unsigned int i)
{
	const struct openreg_args *args = &q->args;
	const struct openreg_arg *op = &args->op[i];
	const struct reach *reach = &q->reach[i];
	struct space space = space_of(args, op);
	unsigned int esize = openreg_dtype_size(op->dtype), corner;
	uint64_t off = OPENREG_ADDR_OFFSET(op->addr);
	const struct segment *seg;

	if ((!op->read && !op->written) || space.empty) {
		must(!reach->seg && !op->ptr);
		return;
	}
	must(op->addr >> OPENREG_ADDR_CARD_SHIFT == 0x9f0);
	seg = q->ctx->segs[OPENREG_ADDR_SEG(op->addr)];
	must(seg && !seg->dead && reach->seg == seg && seg->refs);
	must(esize && !(off % esize));
	must(!op->read || seg->perm & OPENREG_SEG_READ);
	must(!op->written || seg->perm & OPENREG_SEG_WRITE);
	for (corner = 0; corner < 1u << space.ndim; corner++) {
		__int128 at = corner_at(&space, corner) * esize + off;

		must(at >= 0 && at + esize <= (__int128)seg->length);
		must(at >= (__int128)reach->lo && at < (__int128)reach->hi);
	}
	must((seg->kind == OPENREG_SEG_VRAM) == (op->ptr != NULL));
	must(seg->kind == OPENREG_SEG_VRAM || !openreg_is_compute(args->opcode) ||
	     (seg->kind == OPENREG_SEG_PEER && args->opcode == OPENREG_OP_VECTOR &&
	      !op->written));
}

void decode_check_rest(const struct queue *q)
{
	unsigned int i;

	for (i = 0; i <= STEPPER_DEAD + 8; i++)
		must(!q->ctx->segs[i] || !q->ctx->segs[i]->refs);
}

static void check_verdict(const struct queue *q,
			  const struct openreg_verdict *v)
{
	must(v->code <= OPENREG_FAULT_LIMIT);
	must(v->operand == OPENREG_NO_OPERAND ||
	     v->operand < OPENREG_OPERANDS_MAX || !v->code);
	decode_check_rest(q);
}

bool decode(struct queue *q, const struct packet *p)
{
	struct openreg_verdict v;
	unsigned int i;

	memcpy(&q->header, p->bytes, sizeof(q->header));
	q->args.nops = 0;
	v = decode_header(&q->header);
	if (!v.code && q->header.opcode == OPENREG_OP_NOP)
		return false;
	if (!v.code)
		v = decode_body(p->bytes, &q->args);
	if (!v.code)
		v = exec_check(q);
	if (v.code) {
		check_verdict(q, &v);
		return false;
	}
	for (i = 0; i < q->args.nops; i++)
		check_operand(q, i);
	return true;
}
