/* SPDX-License-Identifier: MIT */
/*
 * Operands of VECTOR in the memory of another card. Before the packet begins, the card
 * reads all bytes that the packet can reach into memory of its own, and computes on these.
 */
#include <stdlib.h>

#include "core.h"
#include "exec.h"
#include "queue.h"

static bool is_peer(const struct queue *q, unsigned int i)
{
	return q->reach[i].seg && q->reach[i].seg->kind == OPENREG_SEG_PEER;
}

static struct openreg_verdict bad(const struct queue *q, uint32_t code, unsigned int i,
				  uint64_t detail)
{
	struct openreg_verdict v = openreg_bad(code, i, detail);

	v.address = q->args.op[i].addr;
	return v;
}

/* Bytes of all such operands; each begins at a cache line. */
static struct openreg_verdict count(const struct queue *q, size_t *size)
{
	uint64_t bytes = 0;
	unsigned int i;

	for (i = 0; i < q->args.nops; i++) {
		if (!is_peer(q, i))
			continue;
		bytes += q->reach[i].hi - q->reach[i].lo;
		if (bytes > OPENREG_PEER_BYTES_MAX)
			return bad(q, OPENREG_FAULT_LIMIT, i, bytes);
		bytes = (bytes + 63) & ~63ULL;
	}
	*size = bytes;
	return openreg_good();
}

/* After address_check(). queue_release_operands() frees the memory, also after a fault. */
struct openreg_verdict peer_read(struct queue *q)
{
	struct openreg_verdict v = count(q, &q->job.peer_bytes);
	size_t at = 0;
	unsigned int i;

	if (v.code || !q->job.peer_bytes)
		return v;
	q->job.peer = aligned_alloc(64, q->job.peer_bytes);
	if (!q->job.peer)
		return openreg_bad(OPENREG_FAULT_MEMORY, OPENREG_NO_OPERAND, 0);
	for (i = 0; i < q->args.nops; i++) {
		const struct reach *r = &q->reach[i];

		if (!is_peer(q, i))
			continue;
		if (segment_read(q, r->seg, r->lo, q->job.peer + at, r->hi - r->lo))
			return bad(q, OPENREG_FAULT_DMA, i, 0);
		q->args.op[i].ptr = q->job.peer + at + (r->off - r->lo);
		at = (at + (r->hi - r->lo) + 63) & ~(size_t)63;
	}
	return v;
}

void peer_free(struct queue *q)
{
	if (!q->job.peer_bytes)
		return;
	free(q->job.peer);
	q->job.peer = NULL;
	q->job.peer_bytes = 0;
}
