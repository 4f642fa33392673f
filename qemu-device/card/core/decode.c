/* SPDX-License-Identifier: MIT */
/* Decodes the card's own copy of a packet into struct openreg_args. */
#include <stddef.h>
#include <string.h>

#include "engine/engine.h"
#include "exec.h"

/* An engine may have a number for experiments. */
static bool has_packet(unsigned int opcode)
{
	return opcode < OPENREG_OP_END ||
	       (opcode >= OPENREG_OP_EXPERIMENT && openreg_is_compute(opcode));
}

uint64_t decode_packets(bool checks)
{
	uint64_t packets = 0;
	unsigned int i;

	for (i = 0; i < OPENREG_OP_EXPERIMENT_END; i++)
		packets |= (uint64_t)has_packet(i) << i;
	return checks ? packets : packets & ~(1ULL << OPENREG_OP_NOTE);
}

/* Detail of a PACKET fault: byte offset of the wrong field. */
struct openreg_verdict decode_header(const struct openreg_packet *header)
{
	const uint32_t code = OPENREG_FAULT_PACKET;

	if (!header->slots || header->slots > OPENREG_PACKET_SLOTS_MAX)
		return openreg_bad(code, OPENREG_NO_OPERAND,
				   offsetof(struct openreg_packet, slots));
	if (!has_packet(header->opcode))
		return openreg_bad(code, OPENREG_NO_OPERAND,
				   offsetof(struct openreg_packet, opcode));
	if (header->flags)
		return openreg_bad(code, OPENREG_NO_OPERAND,
				   offsetof(struct openreg_packet, flags));
	if (header->reserved)
		return openreg_bad(code, OPENREG_NO_OPERAND,
				   offsetof(struct openreg_packet, reserved));
	return openreg_good();
}

static bool counts_ok(const struct openreg_op *op)
{
	return op->ndim <= OPENREG_DIMS_MAX &&
	       op->nops <= OPENREG_OPERANDS_MAX &&
	       op->nimm <= OPENREG_IMMS_MAX &&
	       op->ninstr <= OPENREG_INSTRS_MAX && !op->reserved;
}

static size_t body_size(const struct openreg_op *op)
{
	return sizeof(struct openreg_packet) + sizeof(*op) +
	       8u * op->ndim + op->nops * (16u + 8u * op->ndim) +
	       8u * op->nimm + 8u * op->ninstr;
}

/* Detail of a SHAPE fault: the negative size; of a LIMIT fault: the elements. */
static struct openreg_verdict check_sizes(const struct openreg_args *args)
{
	uint64_t work = 1;
	unsigned int d;
	bool empty = false;

	for (d = 0; d < args->ndim; d++) {
		if (args->size[d] < 0)
			return openreg_bad(OPENREG_FAULT_SHAPE,
					   OPENREG_NO_OPERAND,
					   (uint64_t)args->size[d]);
		empty |= !args->size[d];
	}
	for (d = 0; d < args->ndim && !empty; d++) {
		if (__builtin_mul_overflow(work, (uint64_t)args->size[d],
					   &work))
			work = UINT64_MAX;
		if (work > 1ULL << OPENREG_MAX_WORK_LOG2)
			return openreg_bad(OPENREG_FAULT_LIMIT,
					   OPENREG_NO_OPERAND, work);
	}
	return openreg_good();
}

static struct openreg_verdict get_operand(const uint8_t **p, unsigned int ndim,
					  unsigned int i, struct openreg_arg *arg)
{
	struct openreg_operand op;
	unsigned int k;

	memcpy(&op, *p, sizeof(op));
	*p += sizeof(op);
	for (k = 0; k < sizeof(op.reserved); k++)
		if (op.reserved[k])
			return (struct openreg_verdict){
				.code = OPENREG_FAULT_PACKET,
				.operand = i,
				.address = op.addr,
				.detail = op.reserved[k],
			};
	arg->addr = op.addr;
	arg->dtype = op.dtype;
	arg->read = false;
	arg->written = false;
	arg->own = false;
	arg->ptr = NULL;
	arg->dims = 0;
	arg->indirect = 0;
	arg->sized = false;
	memcpy(arg->stride, *p, 8u * ndim);
	*p += 8u * ndim;
	return openreg_good();
}

static const uint8_t *get_op(const uint8_t *p, struct openreg_op *op,
			     struct openreg_args *args)
{
	memcpy(op, p, sizeof(*op));
	args->ndim = op->ndim;
	args->nops = op->nops;
	args->nimm = op->nimm;
	args->ninstr = op->ninstr;
	memcpy(args->arg, op->arg, sizeof(args->arg));
	return p + sizeof(*op);
}

/* packet has header.slots slots, and decode_header() has accepted the header. */
struct openreg_verdict decode_body(const uint8_t *packet,
				   struct openreg_args *args)
{
	const uint8_t *p = packet + sizeof(struct openreg_packet);
	struct openreg_verdict v = openreg_good();
	struct openreg_op op;
	unsigned int i;

	args->opcode = packet[offsetof(struct openreg_packet, opcode)];
	args->nops = 0;
	args->nextents = 0;
	p = get_op(p, &op, args);
	if (!counts_ok(&op) ||
	    body_size(&op) > packet[offsetof(struct openreg_packet, slots)] *
				     (size_t)OPENREG_SLOT_SIZE) {
		args->nops = 0;
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   sizeof(struct openreg_packet));
	}
	memcpy(args->size, p, 8u * op.ndim);
	p += 8u * op.ndim;
	for (i = 0; i < op.nops && !v.code; i++)
		v = get_operand(&p, op.ndim, i, &args->op[i]);
	if (v.code)
		return v;
	memcpy(args->imm, p, 8u * op.nimm);
	p += 8u * op.nimm;
	memcpy(args->instr, p, 8u * op.ninstr);
	return check_sizes(args);
}
