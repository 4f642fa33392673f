/* SPDX-License-Identifier: MIT */
/*
 * A small driver of the card, over access to its registers and to the memory that it
 * reaches: the admin ring, and queues. For the card inside the process, and for tests and
 * fuzzers of the card.
 *
 * - Nothing waits here, and nothing is locked. The caller polls, or sleeps on a vector.
 * - All addresses are bus addresses. The caller allocates the memory.
 */
#ifndef OPENREG_CLIENT_H
#define OPENREG_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "openreg_isa.h"
#include "openreg_regs.h"

struct client_ops {
	uint32_t (*read_reg)(void *host, uint32_t off);
	void (*write_reg)(void *host, uint32_t off, uint32_t value);
	/* An access to 4 or 8 aligned bytes is atomic. */
	void (*load)(void *host, uint64_t bus, void *to, size_t len);
	void (*store)(void *host, uint64_t bus, const void *from, size_t len);
	void (*ring)(void *host, uint32_t doorbell);
};

struct client {
	const struct client_ops *ops;
	void *host;
	uint64_t cmds, cpls, faults; /* the rings */
	uint32_t slots, fault_slots;
	uint32_t tail; /* commands submitted */
};

struct client_queue {
	struct client *client;
	uint32_t ctx, id, slots, door, vector;
	uint64_t ring, user, page, kernel; /* page: the card's page */
	uint64_t tail; /* slots written */
	uint64_t seq; /* packets written */
	uint64_t published; /* packets published */
	uint64_t rings; /* of the doorbell */
};

static inline uint64_t client_load(struct client *c, uint64_t bus)
{
	uint64_t value;

	c->ops->load(c->host, bus, &value, 8);
	return value;
}

static inline void client_store(struct client *c, uint64_t bus, uint64_t value)
{
	c->ops->store(c->host, bus, &value, 8);
}

static inline uint32_t client_reg(struct client *c, uint32_t off)
{
	return c->ops->read_reg(c->host, off);
}

static inline void client_write(struct client *c, uint32_t off, uint32_t value)
{
	c->ops->write_reg(c->host, off, value);
}

static inline void client_write64(struct client *c, uint32_t off, uint64_t value)
{
	client_write(c, off, (uint32_t)value);
	client_write(c, off + 4, (uint32_t)(value >> 32));
}

/* Sets up the rings, which are all zeros. Then STATUS becomes READY or FATAL. */
static inline void client_enable(struct client *c)
{
	c->tail = 0;
	client_write64(c, OPENREG_REG_ADMIN_BASE, c->cmds);
	client_write64(c, OPENREG_REG_ADMIN_CPL, c->cpls);
	client_write(c, OPENREG_REG_ADMIN_SLOTS, c->slots);
	client_write64(c, OPENREG_REG_FAULT_BASE, c->faults);
	client_write(c, OPENREG_REG_FAULT_SLOTS, c->fault_slots);
	client_write(c, OPENREG_REG_CONTROL, OPENREG_CONTROL_ENABLE);
}

/* Submits a command, for which the ring has a free slot. Returns its index. */
static inline uint32_t client_submit(struct client *c,
				     const struct openreg_admin_cmd *cmd)
{
	const uint32_t i = c->tail++;

	c->ops->store(c->host, c->cmds + i % c->slots * sizeof(*cmd), cmd,
		      sizeof(*cmd));
	client_write(c, OPENREG_REG_ADMIN_TAIL, c->tail);
	return i;
}

/* True if the command has completed; then cpl is its completion. */
static inline bool client_completed(struct client *c, uint32_t index,
				    struct openreg_admin_cpl *cpl)
{
	const uint64_t at = c->cpls + index % c->slots * sizeof(*cpl);
	const uint64_t word = client_load(c, at);

	cpl->status = (uint32_t)word;
	cpl->seq = (uint32_t)(word >> 32);
	if (cpl->seq != index + 1)
		return false;
	cpl->result = client_load(c, at + offsetof(struct openreg_admin_cpl, result));
	return true;
}

static inline void client_forget_faults(struct client *c)
{
	client_write(c, OPENREG_REG_FAULT_HEAD, client_reg(c, OPENREG_REG_FAULT_TAIL));
}

/* Commands */

static inline struct openreg_admin_cmd cmd_of(uint16_t opcode, uint32_t ctx, uint32_t id)
{
	return (struct openreg_admin_cmd){ .opcode = opcode, .ctx = ctx, .id = id };
}

static inline struct openreg_admin_cmd cmd_context(uint32_t ctx, uint64_t released)
{
	struct openreg_admin_cmd cmd = cmd_of(OPENREG_ADMIN_CTX_CREATE, ctx, 0);

	cmd.create.released = released;
	return cmd;
}

static inline struct openreg_admin_cmd cmd_vram(uint32_t ctx, uint32_t id, uint64_t off,
						uint64_t len, uint32_t perm)
{
	struct openreg_admin_cmd cmd = cmd_of(OPENREG_ADMIN_SEG_BIND, ctx, id);

	cmd.seg.kind = OPENREG_SEG_VRAM;
	cmd.seg.perm = perm;
	cmd.seg.length = len;
	cmd.seg.base = off;
	return cmd;
}

/* list: the bus addresses of the pages; the segment begins at offset in the first. */
static inline struct openreg_admin_cmd cmd_pages(uint32_t ctx, uint32_t id, uint64_t list,
						 uint32_t offset, uint64_t len,
						 uint32_t perm)
{
	struct openreg_admin_cmd cmd = cmd_vram(ctx, id, list, len, perm);

	cmd.seg.kind = OPENREG_SEG_SYSTEM;
	cmd.seg.npages = (offset + len + 4095) / 4096;
	cmd.seg.page_shift = 12;
	cmd.seg.offset = offset;
	return cmd;
}

static inline struct openreg_admin_cmd cmd_unbind(uint32_t ctx, uint32_t id, uint64_t flags)
{
	struct openreg_admin_cmd cmd = cmd_of(OPENREG_ADMIN_SEG_UNBIND, ctx, id);

	cmd.unbind.flags = flags;
	return cmd;
}

static inline struct openreg_admin_cmd cmd_queue(const struct client_queue *q,
						 uint32_t priority)
{
	struct openreg_admin_cmd cmd = cmd_of(OPENREG_ADMIN_QUEUE_CREATE, q->ctx, q->id);

	cmd.queue.ring = q->ring;
	cmd.queue.user_page = q->user;
	cmd.queue.card_page = q->page;
	cmd.queue.kernel_page = q->kernel;
	cmd.queue.slots = q->slots;
	cmd.queue.doorbell = (uint16_t)q->door;
	cmd.queue.vector = (uint16_t)q->vector;
	cmd.queue.priority = priority;
	return cmd;
}

static inline struct openreg_admin_cmd cmd_stop(uint32_t ctx, uint32_t id, uint64_t when)
{
	struct openreg_admin_cmd cmd = cmd_of(OPENREG_ADMIN_QUEUE_STOP, ctx, id);

	cmd.stop.when = when;
	return cmd;
}

static inline struct openreg_admin_cmd cmd_reset(uint32_t ctx, uint32_t id, uint64_t head,
						 uint64_t seq)
{
	struct openreg_admin_cmd cmd = cmd_of(OPENREG_ADMIN_QUEUE_RESET, ctx, id);

	cmd.reset.head = head;
	cmd.reset.seq = seq;
	return cmd;
}

static inline struct openreg_admin_cmd cmd_fill(uint64_t off, uint64_t len, uint64_t value)
{
	struct openreg_admin_cmd cmd = cmd_of(OPENREG_ADMIN_FILL, 0, 0);

	cmd.fill.offset = off;
	cmd.fill.length = len;
	cmd.fill.value = value;
	return cmd;
}

/* Queues */

static inline uint64_t client_head(struct client_queue *q)
{
	return client_load(q->client, q->page + offsetof(struct openreg_card_page, head));
}

static inline uint64_t client_done(struct client_queue *q)
{
	return client_load(q->client,
			   q->page + offsetof(struct openreg_card_page, completed));
}

/* A word of the card's page: client_word(q, offsetof(struct openreg_card_page, FIELD)) */
static inline uint32_t client_word(struct client_queue *q, size_t off)
{
	uint32_t word;

	q->client->ops->load(q->client->host, q->page + off, &word, sizeof(word));
	return word;
}

static inline uint32_t client_state(struct client_queue *q)
{
	return client_word(q, offsetof(struct openreg_card_page, state));
}

static inline uint32_t client_asleep(struct client_queue *q)
{
	return client_word(q, offsetof(struct openreg_card_page, asleep));
}

static inline struct openreg_fault_summary client_fault(struct client_queue *q)
{
	struct openreg_fault_summary fault;

	q->client->ops->load(q->client->host,
			     q->page + offsetof(struct openreg_card_page, fault), &fault,
			     sizeof(fault));
	return fault;
}

/* Slots that a pad takes, if the packet does not fit before the end of the ring. */
static inline uint32_t client_pad(struct client_queue *q, uint32_t slots)
{
	const uint32_t left = q->slots - (uint32_t)(q->tail % q->slots);

	return slots > left ? left : 0;
}

/* True if a packet of so many slots overwrites nothing that the card has not read. */
static inline bool client_has_room(struct client_queue *q, uint32_t slots)
{
	return q->tail + client_pad(q, slots) + slots - client_head(q) <= q->slots;
}

static inline void client_put(struct client_queue *q, const void *packet, uint32_t slots)
{
	q->client->ops->store(q->client->host,
			      q->ring + q->tail % q->slots * OPENREG_SLOT_SIZE, packet,
			      (size_t)slots * OPENREG_SLOT_SIZE);
	q->tail += slots;
	q->seq++;
}

/* Writes a packet, and a pad before it at the end of the ring. Does not publish. */
static inline void client_push(struct client_queue *q, const void *packet, uint32_t slots)
{
	const uint32_t pad = client_pad(q, slots);

	if (pad) {
		uint8_t nop[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE] = { 0 };

		nop[offsetof(struct openreg_packet, slots)] = (uint8_t)pad;
		client_put(q, nop, pad);
	}
	client_put(q, packet, slots);
}

/* Publishes all packets. Rings the doorbell if the queue is asleep. */
static inline void client_publish(struct client_queue *q)
{
	struct client *c = q->client;

	q->published = q->seq;
	client_store(c, q->user + offsetof(struct openreg_user_page, tail), q->tail);
	if (!client_asleep(q))
		return;
	q->rings++;
	c->ops->ring(c->host, q->door);
}

#endif
