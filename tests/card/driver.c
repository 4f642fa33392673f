/* SPDX-License-Identifier: MIT */
/* The driver's part of the rig: admin commands and queues. */
#include <string.h>

#include "host.h"

uint32_t rig_submit(struct rig *rig, const struct openreg_admin_cmd *cmd)
{
	return client_submit(&rig->client, cmd);
}

bool rig_completed(struct rig *rig, uint32_t index)
{
	struct openreg_admin_cpl cpl;

	return client_completed(&rig->client, index, &cpl);
}

uint32_t rig_status(struct rig *rig, uint32_t index)
{
	struct openreg_admin_cpl cpl;

	WAIT_FOR(client_completed(&rig->client, index, &cpl));
	return cpl.status;
}

uint32_t rig_admin(struct rig *rig, const struct openreg_admin_cmd *cmd)
{
	return rig_status(rig, rig_submit(rig, cmd));
}

void rig_do(struct rig *rig, struct openreg_admin_cmd cmd)
{
	assert_int_equal(rig_admin(rig, &cmd), OPENREG_ADMIN_OK);
}

uint32_t rig_op(struct rig *rig, uint16_t opcode, uint32_t ctx, uint32_t id)
{
	struct openreg_admin_cmd cmd = cmd_of(opcode, ctx, id);

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
	return cmd_pages(ctx, id, list, (uint32_t)first, len, perm);
}

void tq_init(struct rig *rig, struct client_queue *q, uint32_t ctx, uint32_t id,
	     uint32_t slots)
{
	memset(q, 0, sizeof(*q));
	q->client = &rig->client;
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

void tq_create(struct rig *rig, struct client_queue *q, uint32_t ctx, uint32_t id)
{

	tq_init(rig, q, ctx, id, 256);
	rig_do(rig, cmd_queue(q, OPENREG_PRIORITY_NORMAL));
	assert_int_equal(client_state(q), OPENREG_QUEUE_RUNNING);
}

void tq_arm(struct client_queue *q, uint64_t seq)
{
	rig_store(rig_of(q), q->kernel, seq);
}

void tq_wait(struct client_queue *q)
{
	WAIT_FOR(client_done(q) >= q->published ||
		 client_state(q) != OPENREG_QUEUE_RUNNING);
	if (client_state(q) != OPENREG_QUEUE_RUNNING) {
		struct openreg_fault_summary f = client_fault(q);

		fail_msg("queue stopped: state %u, fault %u, operand %d, detail %llu",
			 client_state(q), f.code, (int)f.operand, (unsigned long long)f.detail);
	}
}

struct openreg_fault_summary tq_wait_fault(struct client_queue *q)
{
	WAIT_FOR(client_state(q) == OPENREG_QUEUE_FAULTED);
	return client_fault(q);
}

struct openreg_fault_record rig_record(struct rig *rig, uint32_t i)
{
	struct openreg_fault_record record;
	uint64_t at = rig->client.faults + (i % HOST_FAULT_SLOTS) * 64;

	WAIT_FOR((uint32_t)rig_load(rig, at) == i + 1);
	rig->client.ops->load(rig->client.host, at, &record, sizeof(record));
	return record;
}

uint32_t tq_reset(struct client_queue *q, uint64_t head, uint64_t seq)
{
	struct openreg_admin_cmd cmd = cmd_reset(q->ctx, q->id, head, seq);

	return rig_admin(rig_of(q), &cmd);
}

void tq_recover(struct client_queue *q)
{
	assert_int_equal(tq_reset(q, q->tail, q->seq), OPENREG_ADMIN_OK);
	client_forget_faults(q->client);
}

void rig_bind(struct rig *rig, uint32_t ctx, uint64_t off, uint64_t bus, uint64_t len,
	      bool scattered)
{
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, ctx, 0), OPENREG_ADMIN_OK);
	rig_do(rig, cmd_vram(ctx, 1, off, len, RW));
	rig_do(rig, cmd_system(rig, ctx, 2, bus, len, RW, scattered));
}

void rig_bind_two(struct rig *rig, uint64_t len)
{
	struct openreg_admin_cmd cmd;
	unsigned int ctx;

	for (ctx = 1; ctx <= 2; ctx++) {
		rig_op(rig, OPENREG_ADMIN_CTX_CREATE, ctx, 0);
		rig_do(rig, cmd_vram(ctx, 1, (ctx - 1) * len, len, RW));
		cmd = cmd_system(rig, ctx, 2, rig_alloc(rig, len), len, RW,
				 ctx == 2);
		if (ctx == 2)
			cmd.seg.kind = OPENREG_SEG_PEER;
		assert_int_equal(rig_admin(rig, &cmd), 0);
	}
}
