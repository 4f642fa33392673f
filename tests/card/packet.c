/* SPDX-License-Identifier: MIT */
/* Packets of the rig. */
#include <string.h>

#include "../../libopenreg/include/openreg_encode.h"
#include "host.h"

/* Tests make a packet's own counts and length wrong, so the rig keeps the length. */
static void measure(struct pkt *p)
{
	const uint8_t *op = p->bytes + sizeof(struct openreg_packet);

	p->len = openreg_packet_bytes(op[0], op[1], op[2], op[3]);
	assert_true(p->len <= sizeof(p->bytes));
}

void pkt_begin(struct pkt *p, unsigned int opcode, unsigned int ndim,
	       const int64_t *size)
{
	memset(p, 0, sizeof(*p));
	openreg_encode(p->bytes, opcode, 0xc0de);
	openreg_encode_space(p->bytes, ndim, size);
	measure(p);
}

void pkt_arg(struct pkt *p, unsigned int i, uint8_t value)
{
	openreg_encode_arg(p->bytes, i, value);
}

void pkt_operand(struct pkt *p, uint64_t addr, unsigned int dtype,
		 const int64_t *stride)
{
	openreg_encode_operand(p->bytes, addr, dtype, stride);
	measure(p);
}

void pkt_imm(struct pkt *p, uint64_t value)
{
	openreg_encode_imm(p->bytes, &value, 1);
	measure(p);
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

	openreg_encode_instr(p->bytes, &instr, 1);
	measure(p);
}

static void push(struct client_queue *q, const void *packet, uint32_t slots)
{
	if (!client_has_room(q, slots)) {
		client_publish(q);
		WAIT_FOR(client_has_room(q, slots));
	}
	client_push(q, packet, slots);
}

void tq_push(struct client_queue *q, struct pkt *p)
{
	push(q, p->bytes, (uint32_t)((p->len + OPENREG_SLOT_SIZE - 1) / OPENREG_SLOT_SIZE));
}

void tq_nop(struct client_queue *q)
{
	uint8_t nop[OPENREG_SLOT_SIZE] = { 0 };

	openreg_encode_nop(nop, 1);
	push(q, nop, 1);
}

void tq_run(struct client_queue *q, struct pkt *p)
{
	tq_push(q, p);
	client_publish(q);
	tq_wait(q);
}

struct openreg_fault_summary tq_expect(struct client_queue *q, struct pkt *p,
				       uint32_t code)
{
	struct openreg_fault_summary fault = { .code = OPENREG_FAULT_NONE };

	tq_push(q, p);
	client_publish(q);
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

void tq_push_round(struct client_queue *q, uint64_t len, unsigned int ones)
{
	struct pkt p;

	pkt_grind(&p, VRAM(0), (int64_t)len / 4, ones);
	tq_push(q, &p);
	pkt_copy(&p, SYSTEM(0), VRAM(0), OPENREG_I64, (int64_t)len / 8);
	tq_push(q, &p);
	tq_nop(q);
	pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_I64, (int64_t)len / 8);
	tq_push(q, &p);
}
