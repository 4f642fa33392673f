// SPDX-License-Identifier: GPL-2.0-only
/* Builds common packets. */
#include "card.h"

void packet_bad(struct packet *packet)
{
	openreg_encode(packet->bytes, 250, 0);
}

void packet_nop(struct packet *packet)
{
	openreg_encode_nop(packet->bytes, 1);
}

static void begin(struct packet *packet, unsigned int opcode, int64_t count)
{
	openreg_encode(packet->bytes, opcode, 0);
	openreg_encode_space(packet->bytes, 1, &count);
}

void packet_copy(struct packet *packet, __u64 dst, __u64 src,
		 __u64 count, unsigned int dtype)
{
	begin(packet, OPENREG_OP_COPY, count);
	openreg_encode_operand(packet->bytes, dst, dtype, NULL);
	openreg_encode_operand(packet->bytes, src, dtype, NULL);
}

void packet_fill(struct packet *packet, __u64 dst, __u64 count,
		 unsigned int dtype, __u64 bits)
{
	const uint64_t imm = bits;

	begin(packet, OPENREG_OP_FILL, count);
	openreg_encode_operand(packet->bytes, dst, dtype, NULL);
	openreg_encode_imm(packet->bytes, &imm, 1);
}

void packet_add(struct packet *packet, __u64 dst, __u64 a, __u64 b,
		__u64 count)
{
	static const struct openreg_instr program[] = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 1 },
		{ .op = OPENREG_V_LOAD, .dst = 1, .aux = 2 },
		{ .op = OPENREG_V_ADD, .dst = 2, .a = 0, .b = 1 },
		{ .op = OPENREG_V_STORE, .a = 2, .aux = 0 },
	};

	begin(packet, OPENREG_OP_VECTOR, count);
	openreg_encode_operand(packet->bytes, dst, OPENREG_F32, NULL);
	openreg_encode_operand(packet->bytes, a, OPENREG_F32, NULL);
	openreg_encode_operand(packet->bytes, b, OPENREG_F32, NULL);
	openreg_encode_instr(packet->bytes, program, 4);
}

/* A sum of count floats, or of their exponentials. */
static void sum(struct packet *packet, __u64 dst, __u64 src, int64_t stride,
		__u64 count, bool of_exp)
{
	static const struct openreg_instr load[] = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 1 },
		{ .op = OPENREG_V_EXP, .dst = 0, .a = 0 },
	};
	static const struct openreg_instr end = {
		.op = OPENREG_V_RED_SUM, .b = OPENREG_VNONE, .c = OPENREG_VNONE,
	};
	const int64_t still = 0;

	begin(packet, OPENREG_OP_VECTOR, count);
	openreg_encode_arg(packet->bytes, 0, 1);
	openreg_encode_operand(packet->bytes, dst, OPENREG_F32, &still);
	openreg_encode_operand(packet->bytes, src, OPENREG_F32, &stride);
	openreg_encode_instr(packet->bytes, load, 1 + of_exp);
	openreg_encode_instr(packet->bytes, &end, 1);
}

void packet_sum(struct packet *packet, __u64 dst, __u64 src,
		__u64 count)
{
	sum(packet, dst, src, 1, count, false);
}

void packet_busy(struct packet *packet, __u64 dst, __u64 src,
		 __u64 count)
{
	sum(packet, dst, src, 0, count, true);
}

void packet_endless(struct packet *packet, __u64 dst, __u64 src)
{
	static const struct openreg_instr load = { .op = OPENREG_V_LOAD, .aux = 1 };
	static const struct openreg_instr slow = { .op = OPENREG_V_LGAMMA };
	static const struct openreg_instr end = {
		.op = OPENREG_V_RED_SUM, .b = OPENREG_VNONE, .c = OPENREG_VNONE,
	};
	const int64_t still = 0;
	int i;

	/* No packet may visit more elements. */
	begin(packet, OPENREG_OP_VECTOR, 1ll << 36);
	openreg_encode_arg(packet->bytes, 0, 1);
	openreg_encode_operand(packet->bytes, dst, OPENREG_F32, &still);
	openreg_encode_operand(packet->bytes, src, OPENREG_F32, &still);
	openreg_encode_instr(packet->bytes, &load, 1);
	for (i = 0; i < 40; i++)
		openreg_encode_instr(packet->bytes, &slow, 1);
	openreg_encode_instr(packet->bytes, &end, 1);
}

void packet_word(struct packet *packet, unsigned int opcode, unsigned int arg,
		 __u64 address)
{
	const uint64_t one = 1;

	openreg_encode(packet->bytes, opcode, 0);
	openreg_encode_arg(packet->bytes, 0, arg);
	openreg_encode_operand(packet->bytes, address, OPENREG_I64, NULL);
	openreg_encode_imm(packet->bytes, &one,
			   opcode != OPENREG_OP_TIMESTAMP);
}

void packet_wait(struct packet *packet, __u64 address)
{
	packet_word(packet, OPENREG_OP_WAIT, OPENREG_WAIT_GE, address);
}

void packet_trace(struct packet *packet, __u64 address, __u64 records)
{
	const uint64_t imm = records;

	openreg_encode(packet->bytes, OPENREG_OP_TRACE, 0);
	openreg_encode_operand(packet->bytes, address, OPENREG_I64, NULL);
	openreg_encode_imm(packet->bytes, &imm, 1);
}
