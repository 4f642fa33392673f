/* SPDX-License-Identifier: MIT */
/*
 * LIST: a run of packets in memory. While a LIST is at the head of a queue, the next
 * packet of the queue is the next one of the LIST. A queue that stops between two packets
 * of a LIST continues there after its reset, on another card after a migration, too: the
 * card then fetches the LIST again and skips the packets that are done.
 */
#include <string.h>

#include "core.h"
#include "exec.h"
#include "queue.h"

/* Makes op 0 cover this many words, and nothing but op 0. */
void list_cover(struct openreg_args *args, uint64_t words)
{
	struct openreg_arg *op = &args->op[0];

	op->dims = 0;
	op->indirect = 1;
	op->sized = false;
	args->nextents = 1;
	args->extent[0] = (int64_t)words;
	args->step[0] = 1;
}

static void cover(struct openreg_args *args, uint64_t slots)
{
	args->op[0].read = true;
	args->op[0].written = false;
	list_cover(args, slots * (OPENREG_SLOT_SIZE / 8));
}

/* Detail of a LIMIT fault: the count that is 0 or too large. */
struct openreg_verdict list_check(struct openreg_args *args)
{
	const uint64_t *imm = args->imm;

	if (args->nops != 1 || args->ninstr || args->nimm != 2 || args->arg[0] ||
	    args->arg[1] || args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   sizeof(struct openreg_packet));
	if (args->ndim)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   args->ndim);
	if (args->op[0].dtype != OPENREG_I64)
		return openreg_bad(OPENREG_FAULT_DTYPE, 0, args->op[0].dtype);
	if (!imm[0] || imm[0] > OPENREG_LIST_SLOTS_MAX)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, imm[0]);
	if (!imm[1] || imm[1] > imm[0])
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, imm[1]);
	cover(args, imm[0]);
	return openreg_good();
}

/* Begins or continues the LIST at the head; packet is the card's copy of it. */
struct openreg_verdict list_begin(struct queue *q, const uint8_t *packet)
{
	struct list *list = &q->list;
	struct openreg_verdict v = decode_body(packet, &q->args);

	if (!v.code)
		v = exec_check(q);
	if (v.code)
		return v;
	queue_release_operands(q);
	list->addr = q->args.op[0].addr;
	list->slots = (uint32_t)q->args.imm[0];
	list->packets = (uint32_t)q->args.imm[1];
	list->first = 0;
	list->end = 0;
	/* The process may have replaced the LIST before the card continued it. */
	if (list->done_slots >= list->slots || list->done_packets >= list->packets)
		return openreg_bad(OPENREG_FAULT_RING, OPENREG_NO_OPERAND,
				   list->done_slots);
	list->header = q->header;
	list->runs = true;
	return openreg_good();
}

/* The queue is no longer in a LIST. */
void list_end(struct queue *q)
{
	q->list.runs = false;
	q->list.done_slots = 0;
	q->list.done_packets = 0;
}

/*
 * Copies slots, from the next packet on, into list->piece. Takes the segment anew each
 * time, so that a LIST which waits does not keep it from being released.
 */
static struct openreg_verdict fetch_piece(struct queue *q)
{
	struct list *list = &q->list;
	struct openreg_args *args = &q->args;
	uint32_t n = list->slots - list->done_slots;
	struct openreg_verdict v;

	if (n > LIST_PIECE)
		n = LIST_PIECE;
	args->opcode = OPENREG_OP_LIST;
	args->ndim = 0;
	args->nops = 1;
	args->op[0].addr = list->addr +
			   list->done_slots * (uint64_t)OPENREG_SLOT_SIZE;
	args->op[0].dtype = OPENREG_I64;
	cover(args, n);
	v = address_check(q, args, 0);
	if (v.code)
		return v;
	if (args->op[0].ptr) {
		memcpy(list->piece, args->op[0].ptr, n * OPENREG_SLOT_SIZE);
	} else if (segment_read(q, q->reach[0].seg, q->reach[0].off, list->piece,
				n * OPENREG_SLOT_SIZE)) {
		v = openreg_bad(OPENREG_FAULT_DMA, 0, 0);
		v.address = args->op[0].addr;
	}
	queue_release_operands(q);
	list->first = list->done_slots;
	list->end = list->first + n;
	return v;
}

/* A packet may be as long as this: the card must have so many of its slots. */
static uint32_t slots_to_have(const struct list *list)
{
	uint32_t left = list->slots - list->done_slots;

	return left < OPENREG_PACKET_SLOTS_MAX ? left : OPENREG_PACKET_SLOTS_MAX;
}

/*
 * Gets the next packet of the LIST. *packet points to the card's copy. A fault before the
 * card has the packet's header is a fault of the LIST.
 */
struct openreg_verdict list_fetch(struct queue *q, const uint8_t **packet)
{
	struct list *list = &q->list;
	uint32_t left = list->slots - list->done_slots;
	struct openreg_verdict v;

	q->header = list->header;
	if (!left)
		return openreg_bad(OPENREG_FAULT_RING, OPENREG_NO_OPERAND,
				   list->slots);
	if (list->done_slots < list->first ||
	    list->done_slots + slots_to_have(list) > list->end) {
		v = fetch_piece(q);
		if (v.code)
			return v;
	}
	*packet = list->piece +
		  (list->done_slots - list->first) * (size_t)OPENREG_SLOT_SIZE;
	memcpy(&q->header, *packet, sizeof(q->header));
	v = decode_header(&q->header);
	if (!v.code && (q->header.opcode == OPENREG_OP_LIST ||
			q->header.opcode == OPENREG_OP_TRACE))
		v = openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				offsetof(struct openreg_packet, opcode));
	if (!v.code && q->header.slots > left)
		v = openreg_bad(OPENREG_FAULT_RING, OPENREG_NO_OPERAND,
				q->header.slots);
	return v;
}

/* A packet of the LIST is done. Returns true after the last one. */
bool list_next(struct queue *q)
{
	q->list.done_slots += q->header.slots;
	return ++q->list.done_packets == q->list.packets;
}
