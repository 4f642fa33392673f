/* SPDX-License-Identifier: MIT */
/* Checks that every byte that a packet can reach lies in a segment that allows it. */
#include "core.h"
#include "exec.h"
#include "note.h"
#include "queue.h"

#define OP_FAULT(c, i, a, d)                                                   \
	((struct openreg_verdict){ .code = OPENREG_FAULT_##c,                  \
				   .operand = (i),                             \
				   .address = (a),                             \
				   .detail = (d) })

static uint64_t clamp64(__int128 v)
{
	if (v > INT64_MAX)
		return INT64_MAX;
	return v < INT64_MIN ? (uint64_t)INT64_MIN : (uint64_t)(int64_t)v;
}

static int64_t size_of(const struct openreg_args *args,
		       const struct openreg_arg *op, unsigned int d)
{
	return op->sized ? op->size[d] : args->size[d];
}

static bool is_empty(const struct openreg_args *args,
		     const struct openreg_arg *op)
{
	unsigned int d;

	for (d = 0; d < args->ndim; d++)
		if (op->dims & 1u << d && !size_of(args, op, d))
			return true;
	for (d = 0; d < args->nextents; d++)
		if (op->indirect & 1u << d && !args->extent[d])
			return true;
	return false;
}

static void add_reach(__int128 steps, int64_t stride, unsigned int esize,
		      __int128 *lo, __int128 *hi)
{
	const __int128 far = (__int128)1 << 62;
	__int128 reach = steps * stride;

	reach = reach > far ? far : reach < -far ? -far : reach;
	*(reach < 0 ? lo : hi) += reach * esize;
}

/*
 * Offsets of the first byte reached and of the end, relative to element 0. A product of
 * two 64-bit numbers fits into 128 bits; it saturates far outside every segment.
 */
static void span(const struct openreg_args *args, const struct openreg_arg *op,
		 unsigned int esize, __int128 *lo, __int128 *hi)
{
	unsigned int d;

	*lo = 0;
	*hi = 0;
	for (d = 0; d < args->ndim; d++)
		if (op->dims & 1u << d)
			add_reach(size_of(args, op, d) - 1, op->stride[d],
				  esize, lo, hi);
	for (d = 0; d < args->nextents; d++)
		if (op->indirect & 1u << d)
			add_reach(args->extent[d] - 1, args->step[d], esize, lo,
				  hi);
	*hi += esize;
}

/* Detail of a BOUNDS fault: the first offset reached if negative, else the end. */
static struct openreg_verdict check_bounds(const struct openreg_args *args,
					   unsigned int i, const struct segment *seg,
					   struct reach *reach)
{
	const struct openreg_arg *op = &args->op[i];
	uint64_t off = OPENREG_ADDR_OFFSET(op->addr), at = op->addr;
	unsigned int esize = openreg_dtype_size(op->dtype);
	__int128 lo, hi;

	if (!esize)
		return OP_FAULT(DTYPE, i, op->addr, op->dtype);
	if (off % esize)
		return OP_FAULT(ALIGNMENT, i, op->addr, esize);
	span(args, op, esize, &lo, &hi);
	lo += off;
	hi += off;
	if (lo < 0)
		return OP_FAULT(BOUNDS, i, op->addr, clamp64(lo));
	if (hi > (__int128)seg->length) {
		if (off < seg->length)
			at += seg->length - off;
		return OP_FAULT(BOUNDS, i, at, clamp64(hi));
	}
	reach->off = off;
	reach->lo = (uint64_t)lo;
	reach->hi = (uint64_t)hi;
	return openreg_good();
}

static struct segment *find_segment(struct queue *q, uint64_t addr)
{
	struct segment *seg;

	if (!OPENREG_ADDR_IS_VALID(addr) ||
	    OPENREG_ADDR_CARD(addr) != atomic_load(&q->card->regs.card_id))
		return NULL;
	seg = q->ctx->segs[OPENREG_ADDR_SEG(addr)];
	return seg && !seg->dead ? seg : NULL;
}

/* Takes a reference to the segment if a packet may write these bytes; else NULL. */
struct segment *segment_get(struct queue *q, uint64_t addr, uint64_t len)
{
	const uint64_t off = OPENREG_ADDR_OFFSET(addr);
	struct segment *seg;

	pthread_mutex_lock(&q->ctx->lock);
	seg = find_segment(q, addr);
	if (seg && (!(seg->perm & OPENREG_SEG_WRITE) || off > seg->length ||
		    len > seg->length - off))
		seg = NULL;
	if (seg)
		seg->refs++;
	pthread_mutex_unlock(&q->ctx->lock);
	return seg;
}

/* context.lock is held. Takes a reference to the operand's segment. */
static struct openreg_verdict check_operand(struct queue *q,
					    struct openreg_args *args,
					    unsigned int i, unsigned int flags)
{
	struct openreg_arg *op = &args->op[i];
	struct reach *reach = &q->reach[i];
	struct segment *seg;
	struct openreg_verdict v;
	uint32_t need;

	seg = find_segment(q, op->addr);
	if (!seg)
		return OP_FAULT(ADDRESS, i, op->addr,
				OPENREG_ADDR_SEG(op->addr));
	if (flags & ADDRESS_COMPUTE && seg->kind != OPENREG_SEG_VRAM &&
	    !(flags & ADDRESS_PEER && seg->kind == OPENREG_SEG_PEER && !op->written))
		return OP_FAULT(ENGINE, i, op->addr, seg->kind);
	need = (op->read ? OPENREG_SEG_READ : 0) |
	       (op->written ? OPENREG_SEG_WRITE : 0);
	if (need & ~seg->perm)
		return OP_FAULT(PERMISSION, i, op->addr, need & ~seg->perm);
	v = check_bounds(args, i, seg, reach);
	if (v.code)
		return v;
	seg->refs++;
	reach->seg = seg;
	reach->written = op->written;
	if (seg->kind == OPENREG_SEG_VRAM)
		op->ptr = card_vram(q->card) + seg->base + reach->off;
	return v;
}

/*
 * Fills q->reach and the pointers of the operands, and takes references to the segments.
 * After a fault the packet holds no reference. Empty operands never fault.
 */
struct openreg_verdict address_check(struct queue *q, struct openreg_args *args,
				     unsigned int flags)
{
	struct openreg_verdict v = openreg_good();
	unsigned int i;

	for (i = 0; i < args->nops; i++) {
		q->reach[i].seg = NULL;
		args->op[i].ptr = NULL;
	}
	pthread_mutex_lock(&q->ctx->lock);
	for (i = 0; i < args->nops && !v.code; i++) {
		struct openreg_arg *op = &args->op[i];

		if ((op->read || op->written) && !is_empty(args, op))
			v = check_operand(q, args, i, flags);
	}
	pthread_mutex_unlock(&q->ctx->lock);
	if (v.code)
		segments_put(q, args->nops);
	return v;
}

/* Checks the operands against the opcode, then their addresses. */
struct openreg_verdict exec_check(struct queue *q)
{
	struct openreg_args *args = &q->args;
	unsigned int flags = 0;
	struct openreg_verdict v;

	switch (args->opcode) {
	case OPENREG_OP_COPY:
	case OPENREG_OP_FILL:
		v = copy_check(args);
		break;
	case OPENREG_OP_WAIT:
	case OPENREG_OP_SIGNAL:
	case OPENREG_OP_TIMESTAMP:
		v = sync_check(args);
		break;
	case OPENREG_OP_LIST:
		v = list_check(args);
		break;
	case OPENREG_OP_TRACE:
		v = trace_check(args);
		break;
	case OPENREG_OP_NOTE:
		v = note_check(q, args);
		break;
	default:
		v = openreg_engine_check(args);
		flags = ADDRESS_COMPUTE;
		if (args->opcode == OPENREG_OP_VECTOR)
			flags |= ADDRESS_PEER;
	}
	if (!v.code)
		return address_check(q, args, flags);
	if (v.operand < args->nops)
		v.address = args->op[v.operand].addr;
	return v;
}
