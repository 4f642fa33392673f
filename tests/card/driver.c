/* SPDX-License-Identifier: MIT */
/* The driver's part of the rig: admin commands and queues. */
#include <string.h>

#include "host.h"

#define C_PAGE(field) offsetof(struct openreg_card_page, field)

/* Loads a struct word by word, as the card stores it. */
static void load_words(struct rig *rig, uint64_t bus, void *to, size_t len)
{
	size_t off;

	for (off = 0; off < len; off += 8) {
		uint64_t value = rig_load(rig, bus + off);

		memcpy((uint8_t *)to + off, &value, 8);
	}
}

uint32_t rig_submit(struct rig *rig, const struct openreg_admin_cmd *cmd)
{
	uint32_t i = rig->admin_tail++;

	memcpy(rig_ptr(rig, rig->admin_base + (i % HOST_ADMIN_SLOTS) * 64), cmd,
	       sizeof(*cmd));
	openreg_card_reg_write(rig->card, OPENREG_REG_ADMIN_TAIL,
			       rig->admin_tail, 4);
	return i;
}

static uint64_t cpl(struct rig *rig, uint32_t index)
{
	return rig_load(rig,
			rig->admin_cpl + (index % HOST_ADMIN_SLOTS) * 16);
}

bool rig_completed(struct rig *rig, uint32_t index)
{
	return cpl(rig, index) >> 32 == index + 1;
}

uint32_t rig_status(struct rig *rig, uint32_t index)
{
	WAIT_FOR(rig_completed(rig, index));
	return (uint32_t)cpl(rig, index);
}

uint32_t rig_admin(struct rig *rig, const struct openreg_admin_cmd *cmd)
{
	return rig_status(rig, rig_submit(rig, cmd));
}

uint32_t rig_op(struct rig *rig, uint16_t opcode, uint32_t ctx, uint32_t id)
{
	struct openreg_admin_cmd cmd = { .opcode = opcode, .ctx = ctx,
					 .id = id };

	if (opcode == OPENREG_ADMIN_CTX_CREATE && ctx < OPENREG_MAX_CONTEXTS)
		cmd.create.released = rig->released + ctx * 4096;
	return rig_admin(rig, &cmd);
}

bool rig_released(struct rig *rig, uint32_t ctx, uint32_t id)
{
	uint64_t word = rig_load(rig, rig->released + ctx * 4096 + id / 64 * 8);

	return word >> id % 64 & 1;
}

bool rig_unbind(struct rig *rig, uint32_t ctx, uint32_t id)
{
	bool in_use;

	assert_int_equal(rig_op(rig, OPENREG_ADMIN_SEG_UNBIND, ctx, id),
			 OPENREG_ADMIN_OK);
	in_use = !rig_released(rig, ctx, id);
	WAIT_FOR(rig_released(rig, ctx, id));
	return in_use;
}

struct openreg_admin_cmd cmd_vram(uint32_t ctx, uint32_t id, uint64_t off,
				  uint64_t len, uint32_t perm)
{
	return (struct openreg_admin_cmd){
		.opcode = OPENREG_ADMIN_SEG_BIND,
		.ctx = ctx,
		.id = id,
		.seg = { .kind = OPENREG_SEG_VRAM,
			 .perm = perm,
			 .length = len,
			 .base = off },
	};
}

struct openreg_admin_cmd cmd_system(struct rig *rig, uint32_t ctx, uint32_t id,
				    uint64_t bus, uint64_t len, uint32_t perm,
				    bool scattered)
{
	uint64_t first = bus % 4096, pages = (first + len + 4095) / 4096, i;
	uint64_t list = rig_alloc(rig, pages * 8);

	for (i = 0; i < pages; i++)
		rig_store(rig, list + i * 8,
			  bus - first +
				  4096 * (scattered ? pages - 1 - i : i));
	return (struct openreg_admin_cmd){
		.opcode = OPENREG_ADMIN_SEG_BIND,
		.ctx = ctx,
		.id = id,
		.seg = { .kind = OPENREG_SEG_SYSTEM,
			 .perm = perm,
			 .length = len,
			 .base = list,
			 .npages = pages,
			 .page_shift = 12,
			 .offset = (uint32_t)first },
	};
}

void tq_init(struct rig *rig, struct tq *q, uint32_t ctx, uint32_t id,
	     uint32_t slots)
{
	memset(q, 0, sizeof(*q));
	q->rig = rig;
	q->ctx = ctx;
	q->id = id;
	q->slots = slots;
	q->door = id % rig->config.doorbells;
	q->vector = 1 + id % (rig->config.vectors - 1);
	q->ring = rig_alloc(rig, (uint64_t)slots * OPENREG_SLOT_SIZE);
	q->user = rig_alloc(rig, 4096);
	q->page = rig_alloc(rig, 4096);
	q->kernel = rig_alloc(rig, 4096);
	rig_store(rig, q->kernel, OPENREG_ARMED_NONE);
}

struct openreg_admin_cmd cmd_queue(struct tq *q, uint32_t priority)
{
	return (struct openreg_admin_cmd){
		.opcode = OPENREG_ADMIN_QUEUE_CREATE,
		.ctx = q->ctx,
		.id = q->id,
		.queue = { .ring = q->ring,
			   .user_page = q->user,
			   .card_page = q->page,
			   .kernel_page = q->kernel,
			   .slots = q->slots,
			   .doorbell = (__u16)q->door,
			   .vector = (__u16)q->vector,
			   .priority = priority },
	};
}

void tq_create(struct rig *rig, struct tq *q, uint32_t ctx, uint32_t id)
{
	struct openreg_admin_cmd cmd;

	tq_init(rig, q, ctx, id, 256);
	cmd = cmd_queue(q, OPENREG_PRIORITY_NORMAL);
	assert_int_equal(rig_admin(rig, &cmd), OPENREG_ADMIN_OK);
	assert_int_equal(tq_state(q), OPENREG_QUEUE_RUNNING);
}

void tq_publish(struct tq *q)
{
	struct rig *rig = q->rig;
	uint32_t *asleep = rig_ptr(rig, q->page + C_PAGE(asleep));

	q->published = q->seq;
	rig_store(rig, q->user, q->tail);
	if (!__atomic_load_n(asleep, __ATOMIC_SEQ_CST))
		return;
	q->rings++;
	openreg_card_doorbell(rig->card, q->door);
}

uint64_t tq_completed(struct tq *q)
{
	return rig_load(q->rig, q->page + C_PAGE(completed));
}

uint32_t tq_state(struct tq *q)
{
	return __atomic_load_n(
		(uint32_t *)rig_ptr(q->rig, q->page + C_PAGE(state)),
		__ATOMIC_SEQ_CST);
}

void tq_arm(struct tq *q, uint64_t seq)
{
	rig_store(q->rig, q->kernel, seq);
}

void tq_wait(struct tq *q)
{
	WAIT_FOR(tq_completed(q) >= q->published ||
		 tq_state(q) != OPENREG_QUEUE_RUNNING);
	if (tq_state(q) != OPENREG_QUEUE_RUNNING) {
		struct openreg_fault_summary *f =
			rig_ptr(q->rig, q->page + C_PAGE(fault));

		fail_msg("queue stopped: state %u, fault %u, operand %d, detail %llu",
			 tq_state(q), f->code, (int)f->operand,
			 (unsigned long long)f->detail);
	}
}

struct openreg_fault_summary tq_wait_fault(struct tq *q)
{
	struct openreg_fault_summary fault;

	WAIT_FOR(tq_state(q) == OPENREG_QUEUE_FAULTED);
	load_words(q->rig, q->page + C_PAGE(fault), &fault, sizeof(fault));
	return fault;
}

struct openreg_fault_record rig_record(struct rig *rig, uint32_t i)
{
	struct openreg_fault_record record;
	uint64_t at = rig->fault_base + (i % HOST_FAULT_SLOTS) * 64;

	WAIT_FOR((uint32_t)rig_load(rig, at) == i + 1);
	load_words(rig, at, &record, sizeof(record));
	return record;
}

uint32_t tq_reset(struct tq *q, uint64_t head, uint64_t seq)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_QUEUE_RESET,
		.ctx = q->ctx,
		.id = q->id,
		.reset = { .head = head, .seq = seq },
	};

	return rig_admin(q->rig, &cmd);
}

void tq_recover(struct tq *q)
{
	assert_int_equal(tq_reset(q, q->tail, q->seq), OPENREG_ADMIN_OK);
	openreg_card_reg_write(q->rig->card, OPENREG_REG_FAULT_HEAD,
			       rig_reg(q->rig, OPENREG_REG_FAULT_TAIL), 4);
}

void rig_bind_two(struct rig *rig, uint64_t len)
{
	struct openreg_admin_cmd cmd;
	unsigned int ctx;

	for (ctx = 1; ctx <= 2; ctx++) {
		rig_op(rig, OPENREG_ADMIN_CTX_CREATE, ctx, 0);
		cmd = cmd_vram(ctx, 1, (ctx - 1) * len, len, RW);
		assert_int_equal(rig_admin(rig, &cmd), 0);
		cmd = cmd_system(rig, ctx, 2, rig_alloc(rig, len), len, RW,
				 ctx == 2);
		if (ctx == 2)
			cmd.seg.kind = OPENREG_SEG_PEER;
		assert_int_equal(rig_admin(rig, &cmd), 0);
	}
}
