// SPDX-License-Identifier: GPL-2.0-only
/* Builds packets in the layout of the ring. */
#include <string.h>

#include "card.h"

static void *packet_more(struct packet *packet, size_t len)
{
	void *at = packet->bytes + packet->len;

	packet->len += len;
	return at;
}

static struct openreg_packet *packet_header(struct packet *packet)
{
	return (struct openreg_packet *)packet->bytes;
}

static struct openreg_op *packet_get_op(struct packet *packet)
{
	return (struct openreg_op *)(packet->bytes +
				     sizeof(struct openreg_packet));
}

void packet_begin(struct packet *packet, unsigned int opcode)
{
	memset(packet, 0, sizeof(*packet));
	packet_more(packet, sizeof(struct openreg_packet));
	packet_header(packet)->opcode = opcode;
}

struct openreg_op *packet_op(struct packet *packet, unsigned int ndim)
{
	struct openreg_op *op = packet_more(packet, sizeof(*op));

	op->ndim = ndim;
	return op;
}

void packet_size(struct packet *packet, __s64 size)
{
	memcpy(packet_more(packet, 8), &size, 8);
}

void packet_operand(struct packet *packet, __u64 addr, unsigned int dtype)
{
	struct openreg_operand operand = { .addr = addr, .dtype = dtype };

	memcpy(packet_more(packet, sizeof(operand)), &operand, sizeof(operand));
	packet_get_op(packet)->nops++;
}

void packet_stride(struct packet *packet, __s64 stride)
{
	memcpy(packet_more(packet, 8), &stride, 8);
}

void packet_imm(struct packet *packet, __u64 imm)
{
	memcpy(packet_more(packet, 8), &imm, 8);
	packet_get_op(packet)->nimm++;
}

void packet_instr(struct packet *packet, struct openreg_instr instr)
{
	memcpy(packet_more(packet, sizeof(instr)), &instr, sizeof(instr));
	packet_get_op(packet)->ninstr++;
}

void packet_nop(struct packet *packet)
{
	packet_begin(packet, OPENREG_OP_NOP);
}

void packet_copy(struct packet *packet, __u64 dst, __u64 src,
		 __u64 count, unsigned int dtype)
{
	packet_begin(packet, OPENREG_OP_COPY);
	packet_op(packet, 1);
	packet_size(packet, count);
	packet_operand(packet, dst, dtype);
	packet_stride(packet, 1);
	packet_operand(packet, src, dtype);
	packet_stride(packet, 1);
}

void packet_fill(struct packet *packet, __u64 dst, __u64 count,
		 unsigned int dtype, __u64 bits)
{
	packet_begin(packet, OPENREG_OP_FILL);
	packet_op(packet, 1);
	packet_size(packet, count);
	packet_operand(packet, dst, dtype);
	packet_stride(packet, 1);
	packet_imm(packet, bits);
}

void packet_add(struct packet *packet, __u64 dst, __u64 a, __u64 b,
		__u64 count)
{
	const __u64 addr[] = { dst, a, b };
	unsigned int i;

	packet_begin(packet, OPENREG_OP_VECTOR);
	packet_op(packet, 1);
	packet_size(packet, count);
	for (i = 0; i < 3; i++) {
		packet_operand(packet, addr[i], OPENREG_F32);
		packet_stride(packet, 1);
	}
	packet_instr(packet, (struct openreg_instr) {
		.op = OPENREG_V_LOAD, .dst = 0, .aux = 1 });
	packet_instr(packet, (struct openreg_instr) {
		.op = OPENREG_V_LOAD, .dst = 1, .aux = 2 });
	packet_instr(packet, (struct openreg_instr) {
		.op = OPENREG_V_ADD, .dst = 2, .a = 0, .b = 1 });
	packet_instr(packet, (struct openreg_instr) {
		.op = OPENREG_V_STORE, .a = 2, .aux = 0 });
}

/* Begins a sum of count floats. Instructions for each go before end_sum(). */
static void begin_sum(struct packet *packet, __u64 dst, __u64 src,
		      __s64 stride, __u64 count)
{
	struct openreg_op *op;

	packet_begin(packet, OPENREG_OP_VECTOR);
	op = packet_op(packet, 1);
	op->arg[0] = 1;
	packet_size(packet, count);
	packet_operand(packet, dst, OPENREG_F32);
	packet_stride(packet, 0);
	packet_operand(packet, src, OPENREG_F32);
	packet_stride(packet, stride);
	packet_instr(packet, (struct openreg_instr) {
		.op = OPENREG_V_LOAD, .dst = 0, .aux = 1 });
}

static void end_sum(struct packet *packet)
{
	packet_instr(packet, (struct openreg_instr) {
		.op = OPENREG_V_RED_SUM, .a = 0, .b = OPENREG_VNONE,
		.c = OPENREG_VNONE, .aux = 0 });
}

void packet_sum(struct packet *packet, __u64 dst, __u64 src,
		__u64 count)
{
	begin_sum(packet, dst, src, 1, count);
	end_sum(packet);
}

void packet_busy(struct packet *packet, __u64 dst, __u64 src,
		 __u64 count)
{
	begin_sum(packet, dst, src, 0, count);
	packet_instr(packet, (struct openreg_instr) {
		.op = OPENREG_V_EXP, .dst = 0, .a = 0 });
	end_sum(packet);
}

void packet_wait(struct packet *packet, __u64 address)
{
	packet_begin(packet, OPENREG_OP_WAIT);
	packet_op(packet, 0);
	packet_operand(packet, address, OPENREG_I64);
	packet_imm(packet, 1);
}
