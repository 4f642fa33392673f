/* SPDX-License-Identifier: MIT */
/* Packet builders of the rig, independent of libopenreg. */
#include <string.h>

#include "host.h"

static struct openreg_op *op_of(struct pkt *p)
{
	return (struct openreg_op *)(p->bytes + sizeof(struct openreg_packet));
}

static void put(struct pkt *p, const void *data, size_t len)
{
	assert_true(p->len + len <= sizeof(p->bytes));
	if (len)
		memcpy(p->bytes + p->len, data, len);
	p->len += len;
	p->bytes[1] = (uint8_t)((p->len + OPENREG_SLOT_SIZE - 1) /
				OPENREG_SLOT_SIZE);
}

void pkt_begin(struct pkt *p, unsigned int opcode, unsigned int ndim,
	       const int64_t *size)
{
	const struct openreg_packet header = { .opcode = (uint8_t)opcode,
					       .cookie = 0xc0de };
	const struct openreg_op op = { .ndim = (uint8_t)ndim };

	memset(p, 0, sizeof(*p));
	put(p, &header, sizeof(header));
	put(p, &op, sizeof(op));
	put(p, size, 8 * ndim);
}

void pkt_arg(struct pkt *p, unsigned int i, uint8_t value)
{
	op_of(p)->arg[i] = value;
}

void pkt_operand(struct pkt *p, uint64_t addr, unsigned int dtype,
		 const int64_t *stride)
{
	const struct openreg_operand operand = { .addr = addr,
						 .dtype = (uint8_t)dtype };

	put(p, &operand, sizeof(operand));
	put(p, stride, 8u * op_of(p)->ndim);
	op_of(p)->nops++;
}

void pkt_imm(struct pkt *p, uint64_t value)
{
	put(p, &value, 8);
	op_of(p)->nimm++;
}

void pkt_instr(struct pkt *p, unsigned int op, unsigned int type,
	       unsigned int dst, unsigned int a, unsigned int b, unsigned int c,
	       unsigned int aux)
{
	const struct openreg_instr instr = {
		.op = (uint8_t)op, .type = (uint8_t)type, .dst = (uint8_t)dst,
		.a = (uint8_t)a,   .b = (uint8_t)b,	  .c = (uint8_t)c,
		.aux = (uint16_t)aux,
	};

	put(p, &instr, sizeof(instr));
	op_of(p)->ninstr++;
}

static uint64_t head(struct tq *q)
{
	return rig_load(q->rig, q->page);
}

static void push(struct tq *q, const void *bytes, uint32_t n)
{
	uint64_t at = q->tail % q->slots;

	if (q->tail + n - head(q) > q->slots) {
		tq_publish(q);
		WAIT_FOR(q->tail + n - head(q) <= q->slots);
	}
	memcpy(rig_ptr(q->rig, q->ring + at * OPENREG_SLOT_SIZE), bytes,
	       (size_t)n * OPENREG_SLOT_SIZE);
	q->tail += n;
	q->seq++;
}

static void pad(struct tq *q, uint32_t n)
{
	uint8_t bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE] = { 0 };

	bytes[1] = (uint8_t)n;
	push(q, bytes, n);
}

void tq_push(struct tq *q, struct pkt *p)
{
	uint32_t left = q->slots - (uint32_t)(q->tail % q->slots);
	uint32_t n = (uint32_t)((p->len + OPENREG_SLOT_SIZE - 1) /
				OPENREG_SLOT_SIZE);

	if (n > left)
		pad(q, left);
	push(q, p->bytes, n);
}

void tq_nop(struct tq *q)
{
	pad(q, 1);
}

void tq_run(struct tq *q, struct pkt *p)
{
	tq_push(q, p);
	tq_publish(q);
	tq_wait(q);
}

struct openreg_fault_summary tq_expect(struct tq *q, struct pkt *p,
				       uint32_t code)
{
	struct openreg_fault_summary fault = { .code = OPENREG_FAULT_NONE };

	tq_push(q, p);
	tq_publish(q);
	if (code == OPENREG_FAULT_NONE) {
		tq_wait(q);
		return fault;
	}
	fault = tq_wait_fault(q);
	assert_int_equal(fault.code, code);
	tq_recover(q);
	return fault;
}

void pkt_copy(struct pkt *p, uint64_t dst, uint64_t src, unsigned int dtype,
	      int64_t n)
{
	const int64_t one = 1;

	pkt_begin(p, OPENREG_OP_COPY, 1, &n);
	pkt_operand(p, dst, dtype, &one);
	pkt_operand(p, src, dtype, &one);
}

void pkt_sync(struct pkt *p, unsigned int opcode, unsigned int arg,
	      uint64_t addr, uint64_t value)
{
	pkt_begin(p, opcode, 0, NULL);
	pkt_arg(p, 0, (uint8_t)arg);
	pkt_operand(p, addr, OPENREG_I64, NULL);
	if (opcode != OPENREG_OP_TIMESTAMP)
		pkt_imm(p, value);
}

void pkt_grind(struct pkt *p, uint64_t addr, int64_t n, unsigned int rounds)
{
	const int64_t one = 1;

	pkt_begin(p, OPENREG_OP_VECTOR, 1, &n);
	pkt_operand(p, addr, OPENREG_I32, &one);
	pkt_imm(p, 1);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_I32, 0, 0, 0, 0, 0);
	pkt_instr(p, OPENREG_V_IMM, OPENREG_VT_I32, 1, 0, 0, 0, 0);
	while (rounds--)
		pkt_instr(p, OPENREG_V_ADD, OPENREG_VT_I32, 0, 0, 1, 0, 0);
	pkt_instr(p, OPENREG_V_STORE, OPENREG_VT_I32, 0, 0, 0, 0, 0);
}

void pkt_endless(struct pkt *p, uint64_t addr)
{
	const int64_t n = 1LL << 36, none = 0;
	unsigned int i;

	pkt_begin(p, OPENREG_OP_VECTOR, 1, &n);
	pkt_arg(p, 0, 1);
	pkt_operand(p, addr, OPENREG_I64, &none);
	pkt_operand(p, addr + 8, OPENREG_I32, &none);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_I32, 0, 0, 0, 0, 1);
	for (i = 0; i < 40; i++)
		pkt_instr(p, OPENREG_V_MUL, OPENREG_VT_I32, 0, 0, 0, 0, 0);
	pkt_instr(p, OPENREG_V_RED_SUM, OPENREG_VT_I32, 0, 0,
		  OPENREG_VNONE, OPENREG_VNONE, 0);
}
