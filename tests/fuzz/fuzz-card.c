// SPDX-License-Identifier: MIT
/*
 * Fuzzes the whole card as a hostile driver and hostile users: registers, admin commands,
 * rings, queue pages, doorbells, DMA errors, resets, and changed saved states. The fuzzer
 * runs the card's threads step by step.
 */
#include <string.h>

#include "../../libopenreg/include/openreg_encode.h"
#include "core/state.h"
#include "fuzz.h"
#include "packet.h"
#include "stepper.h"

#define STEPS_MAX 200 /* most steps of the card's threads for one input */
#define OPS_MAX 64

static struct stepper *rig;
static unsigned int steps;

/* Steps all threads until they have no work, at most most times. */
static void run_card(unsigned int most)
{
	bool more = true;

	while (more && most-- && steps < STEPS_MAX) {
		more = stepper_step(rig, steps++ & 1);
	}
	must(!bus_depth);
}

static void submit(struct openreg_admin_cmd cmd)
{
	client_submit(&rig->client, &cmd);
	admin_step(rig->card);
}

static void forget_tails(void)
{
	unsigned int i;

	for (i = 0; i < STEPPER_QUEUES; i++)
		rig->queue[i].tail = 0;
}

/* Enables the card with two contexts, some segments, and new queues. */
static void set_up(void)
{
	unsigned int i;

	stepper_enable(rig);
	for (i = 1; i <= 2; i++)
		submit(cmd_context(i, BUS_BASE + STEPPER_RELEASED));
	for (i = 0; i < STEPPER_PLACES; i++)
		submit(stepper_bind_cmd(rig, 1, &stepper_places[i]));
	submit(stepper_bind_cmd(rig, 2, &stepper_places[0]));
	for (i = 0; i < 3; i++)
		submit(stepper_queue_cmd(rig, 1 + i / 2, i));
}

static void op_reg_write(struct stream *s)
{
	static const uint16_t regs[] = {
		OPENREG_REG_CONTROL, OPENREG_REG_CARD_ID,
		OPENREG_REG_ADMIN_BASE, OPENREG_REG_ADMIN_BASE + 4,
		OPENREG_REG_ADMIN_CPL, OPENREG_REG_ADMIN_SLOTS,
		OPENREG_REG_ADMIN_TAIL, OPENREG_REG_FAULT_BASE,
		OPENREG_REG_FAULT_SLOTS, OPENREG_REG_FAULT_HEAD,
		OPENREG_REG_STATUS, OPENREG_REG_STAT_FAULTS,
	};
	unsigned int which = take8(s), how = take8(s);
	uint64_t off = regs[which % 12], value;

	if (which >= 240)
		off = take_odd(s);
	value = how & 1 ? take_odd(s) : take8(s) % 5;
	openreg_card_reg_write(rig->card, off, value,
			       how >= 250 ? how & 15 : how & 2 ? 8 : 4);
}

static void op_reg_read(struct stream *s)
{
	unsigned int which = take8(s), size = take(s, 12);
	uint64_t off = which * 4;

	if (which == 255)
		off = take_odd(s);
	if (size > 8)
		size = 4;
	openreg_card_reg_read(rig->card, off, size > 1 ? size & 12 : 3);
}

/* A command with valid fields, except for some. */
static void op_admin(struct stream *s)
{
	unsigned int opcode = take(s, OPENREG_ADMIN_FILL + 2), how = take8(s);
	struct openreg_admin_cmd cmd = cmd_of((uint16_t)opcode, 1 + how % 3, 0);

	switch (opcode) {
	case OPENREG_ADMIN_SEG_BIND:
		cmd = stepper_bind_cmd(rig, cmd.ctx,
				   &stepper_places[take(s, STEPPER_PLACES)]);
		cmd.id = 1 + take(s, 12);
		break;
	case OPENREG_ADMIN_SEG_UNBIND:
		cmd.id = 1 + take(s, 12);
		cmd.unbind.flags = how >> 7;
		break;
	case OPENREG_ADMIN_CTX_CREATE:
		if (how & 4)
			cmd.create.released = BUS_BASE + STEPPER_RELEASED;
		break;
	case OPENREG_ADMIN_QUEUE_CREATE:
		cmd = stepper_queue_cmd(rig, cmd.ctx, take(s, STEPPER_QUEUES + 1));
		break;
	case OPENREG_ADMIN_QUEUE_STOP:
	case OPENREG_ADMIN_QUEUE_DESTROY:
		cmd.id = take(s, STEPPER_QUEUES);
		break;
	case OPENREG_ADMIN_QUEUE_RESET:
		cmd.id = take(s, STEPPER_QUEUES);
		cmd.reset.head = rig->queue[cmd.id].tail;
		cmd.reset.seq = 100 + take8(s);
		/* Sometimes continue where the queue has stopped. */
		if (how & 16 && rig->card->queue[cmd.id]) {
			cmd.reset.head = rig->card->queue[cmd.id]->head;
			cmd.reset.seq = rig->card->queue[cmd.id]->completed;
		}
		break;
	case OPENREG_ADMIN_FILL:
		cmd.ctx = 0;
		cmd.fill.offset = 4096ULL * take8(s);
		cmd.fill.length = how & 8 ? STEPPER_VRAM - cmd.fill.offset : 8192;
		cmd.fill.value = take8(s);
		break;
	}
	if (rare(s, 4)) {
		unsigned int at = take(s, 8);
		uint64_t odd = take_odd(s);

		memcpy((uint8_t *)&cmd + 8 * at, &odd, 8);
	}
	submit(cmd);
}

static void op_packet(struct stream *s)
{
	unsigned int n = take(s, 3);
	struct packet p;

	packet_take(s, &p);
	stepper_push(rig, n, p.bytes);
}

/* A LIST of some packets, of which any may be bad. */
static void op_list(struct stream *s)
{
	const struct stepper_place *place = &stepper_places[0];
	unsigned int n = take(s, 3), count = 1 + take(s, 8), i;
	uint64_t imm[2] = { 0, count };
	struct packet p;

	for (i = 0; i < count; i++) {
		unsigned int slots;

		packet_take(s, &p);
		slots = p.bytes[1] % (OPENREG_PACKET_SLOTS_MAX + 1);
		memcpy(rig->vram + place->offset + imm[0] * OPENREG_SLOT_SIZE,
		       p.bytes, slots * OPENREG_SLOT_SIZE);
		imm[0] += slots;
	}
	if (rare(s, 8))
		imm[take(s, 2)] = take_odd(s);
	memset(&p, 0, sizeof(p));
	openreg_encode(p.bytes, OPENREG_OP_LIST, 0);
	openreg_encode_operand(p.bytes, OPENREG_ADDR(0, place->id, 0),
			       OPENREG_I64, NULL);
	openreg_encode_imm(p.bytes, imm, 2);
	stepper_push(rig, n, p.bytes);
}

static void op_memory(struct stream *s)
{
	unsigned int where = take(s, 4), n = take(s, STEPPER_QUEUES);
	struct client_queue *q = &rig->queue[n];
	struct client *c = &rig->client;
	uint32_t off = 8u * take8(s);
	uint64_t value = take(s, 2) ? take_odd(s) : take8(s);

	if (where == 0)
		client_store(c, q->user, q->tail + value);
	else if (where == 1)
		client_store(c, q->kernel, value);
	else if (where == 2)
		client_store(c, q->ring + off, value);
	else
		client_store(c, BUS_BASE + STEPPER_LISTS + off % 512, value);
	openreg_card_doorbell(rig->card, n);
}

/* Resets a queue to its tail and consumes the fault records. */
static void op_recover(struct stream *s)
{
	unsigned int n = take(s, 3);

	submit(cmd_reset(1 + n / 2, n, rig->queue[n].tail, 1000 + rig->client.tail));
	client_forget_faults(&rig->client);
}

static void op_reset(struct stream *s)
{
	if (take(s, 2)) {
		openreg_card_pause_begin(rig->card, NULL, NULL);
		must(openreg_card_is_paused(rig->card));
		openreg_card_reset(rig->card);
		must(!rig->bus.mappings && !rig->card->nruns);
	} else {
		client_write(&rig->client, OPENREG_REG_CONTROL, OPENREG_CONTROL_RESET);
		admin_step(rig->card);
		must(!rig->bus.mappings);
	}
	forget_tails();
	set_up();
}

/* Saves the card, sometimes changes words of the state, and loads it into a new card. */
static void op_migrate(struct stream *s)
{
	const char *error = NULL;
	uint8_t *blob;
	unsigned int n, i;
	size_t len;

	openreg_card_pause_begin(rig->card, NULL, NULL);
	state_finish(rig->card, now_ns() + 500000);
	blob = openreg_card_save(rig->card, &len);
	must(blob && len && !(len % 8));
	stepper_free_card(rig);
	stepper_make_card(rig);
	n = take8(s);
	for (i = 0; n >= 128 && i <= (n & 7); i++) {
		uint64_t at = (take8(s) | (uint64_t)take8(s) << 8) % (len / 8);
		uint64_t value = take_odd(s);

		memcpy(blob + 8 * at, &value, 8);
	}
	if (n >= 240)
		len -= 8ULL * take(s, 16) % len;
	openreg_card_pause_begin(rig->card, NULL, NULL);
	if (openreg_card_load(rig->card, blob, len, &error)) {
		must(error && !rig->bus.mappings && n >= 128);
		openreg_card_reset(rig->card);
		forget_tails();
		set_up();
	} else {
		openreg_card_resume(rig->card);
	}
	free(blob);
}

static void one_op(struct stream *s)
{
	unsigned int op = take8(s);

	switch (op % 16) {
	case 0:
		op_reg_write(s);
		break;
	case 1:
		op_reg_read(s);
		break;
	case 2:
	case 3:
	case 4:
		op_admin(s);
		break;
	case 5:
		op_memory(s);
		break;
	case 6:
		openreg_card_doorbell(rig->card, take8(s));
		break;
	case 7:
		rig->bus.refuse = !rig->bus.refuse;
		break;
	case 8:
		op_recover(s);
		break;
	case 9:
		if (op >= 192)
			op_reset(s);
		else
			op_migrate(s);
		break;
	case 10:
		if (op >= 192)
			op_list(s);
		else
			op_packet(s);
		break;
	default:
		op_packet(s);
	}
	if (op & 16)
		run_card(op & 32 ? 1 : 8);
}

/* Resets the card, which must hold no mapping, reference or memory afterwards. */
static void tear_down(void)
{
	rig->bus.refuse = false;
	run_card(STEPS_MAX);
	openreg_card_pause_begin(rig->card, NULL, NULL);
	openreg_card_reset(rig->card);
	must(!rig->bus.mappings && !bus_depth && !rig->card->nruns);
	must(!atomic_load(&rig->card->extra) && !rig->card->sched.nawake);
	must(!rig->card->sched.nwaiting && !rig->card->sched.fills);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream s = { data, size };
	unsigned int i;

	if (!rig)
		rig = stepper_new();
	steps = 0;
	forget_tails();
	memset(rig->bus.mem, 0, STEPPER_PAGES);
	stepper_fill(rig, take8(&s));
	set_up();
	for (i = 0; i < OPS_MAX && s.left; i++)
		one_op(&s);
	tear_down();
	return 0;
}
