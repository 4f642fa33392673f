// SPDX-License-Identifier: MIT
#include "lists.h"

#include <string.h>

static uint64_t memory[SEG_END]; /* VRAM offset or bus address */

struct rig *lists_rig(unsigned int workers, uint64_t len)
{
	struct rig *rig = rig_new(workers);
	struct openreg_admin_cmd cmd;
	unsigned int ctx;

	for (ctx = 2; ctx; ctx--) {
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, ctx, 0), 0);
		rig_do(rig, cmd_vram(ctx, SEG_DATA, (ctx - 1) * len, len, RW));
		memory[SEG_VRAM] = HOST_VRAM - ctx * LIST_LEN;
		rig_do(rig, cmd_vram(ctx, SEG_VRAM, memory[SEG_VRAM], LIST_LEN, RW));
		memory[SEG_SYSTEM] = rig_alloc(rig, LIST_LEN);
		rig_do(rig, cmd_system(rig, ctx, SEG_SYSTEM, memory[SEG_SYSTEM],
				 LIST_LEN, RW, false));
		memory[SEG_PEER] = rig_alloc(rig, LIST_LEN);
		cmd = cmd_system(rig, ctx, SEG_PEER, memory[SEG_PEER], LIST_LEN,
				 OPENREG_SEG_READ, false);
		cmd.seg.kind = OPENREG_SEG_PEER;
		rig_do(rig, cmd);
	}
	return rig;
}

void list_init(struct rig *rig, struct list *list, unsigned int seg)
{
	*list = (struct list){
		.rig = rig,
		.addr = OPENREG_ADDR(0, seg, 0),
		.at = seg == SEG_VRAM ? rig->vram + memory[seg] :
					rig_ptr(rig, memory[seg]),
	};
}

static void add(struct list *list, const uint8_t *bytes, uint32_t slots)
{
	assert_true((list->slots + slots) * OPENREG_SLOT_SIZE <= LIST_LEN);
	memcpy(list->at + list->slots * OPENREG_SLOT_SIZE, bytes,
	       slots * OPENREG_SLOT_SIZE);
	list->slots += slots;
	list->packets++;
}

void list_add(struct list *list, const struct pkt *p)
{
	add(list, p->bytes,
	    (uint32_t)((p->len + OPENREG_SLOT_SIZE - 1) / OPENREG_SLOT_SIZE));
}

void list_nop(struct list *list, unsigned int slots)
{
	uint8_t bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE] = { 0 };

	bytes[1] = (uint8_t)slots;
	add(list, bytes, slots);
}

void list_sync(struct list *list, unsigned int opcode, unsigned int arg, uint64_t addr,
	       uint64_t value)
{
	struct pkt p;

	pkt_sync(&p, opcode, arg, addr, value);
	list_add(list, &p);
}

void list_count(struct list *list, uint64_t addr)
{
	list_sync(list, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, addr, 1);
}

uint64_t list_data(struct rig *rig, uint64_t off)
{
	return __atomic_load_n((uint64_t *)(rig->vram + off), __ATOMIC_SEQ_CST);
}

void pkt_list(struct pkt *p, uint64_t addr, uint64_t slots, uint64_t packets)
{
	pkt_begin(p, OPENREG_OP_LIST, 0, NULL);
	pkt_operand(p, addr, OPENREG_I64, NULL);
	pkt_imm(p, slots);
	pkt_imm(p, packets);
}

void list_push(struct client_queue *q, const struct list *list)
{
	struct pkt p;

	pkt_list(&p, list->addr, list->slots, list->packets);
	tq_push(q, &p);
}
