// SPDX-License-Identifier: MIT
/*
 * Fuzzes the whole card as a hostile driver and hostile users: registers, admin commands,
 * rings, queue pages, doorbells, DMA errors, resets, and changed saved states. The fuzzer
 * runs the card's threads step by step.
 */
#include <string.h>

#include "core/state.h"
#include "fuzz.h"
#include "packet.h"
#include "stepper.h"

#define STEPS_MAX 200 /* most steps of the card's threads for one input */
#define OPS_MAX 64

static struct stepper *rig;
static uint64_t tail[STEPPER_QUEUES]; /* last published tails */
static uint32_t admin_tail;
static unsigned int steps;

static void store64(uint32_t off, uint64_t value)
{
	memcpy(rig->mem + off, &value, 8);
}

static void write_reg(uint32_t off, uint64_t value)
{
	openreg_card_reg_write(rig->card, off, (uint32_t)value, 4);
}

/* Steps all threads until they have no work, at most most times. */
static void run_card(unsigned int most)
{
	bool more = true;

	while (more && most-- && steps < STEPS_MAX) {
		more = stepper_step(rig, steps++ & 1);
	}
	must(!rig->depth);
}

static void submit(const struct openreg_admin_cmd *cmd)
{
	uint32_t slot = admin_tail++ % STEPPER_ADMIN_SLOTS;

	memcpy(rig->mem + STEPPER_ADMIN + slot * 64, cmd, 64);
	write_reg(OPENREG_REG_ADMIN_TAIL, admin_tail);
	admin_step(rig->card);
}

static void enable(void)
{
	admin_tail = 0;
	write_reg(OPENREG_REG_ADMIN_BASE, STEPPER_BUS + STEPPER_ADMIN);
	write_reg(OPENREG_REG_ADMIN_BASE + 4, STEPPER_BUS >> 32);
	write_reg(OPENREG_REG_ADMIN_CPL, STEPPER_BUS + STEPPER_CPL);
	write_reg(OPENREG_REG_ADMIN_CPL + 4, STEPPER_BUS >> 32);
	write_reg(OPENREG_REG_ADMIN_SLOTS, STEPPER_ADMIN_SLOTS);
	write_reg(OPENREG_REG_FAULT_BASE, STEPPER_BUS + STEPPER_FAULTS);
	write_reg(OPENREG_REG_FAULT_BASE + 4, STEPPER_BUS >> 32);
	write_reg(OPENREG_REG_FAULT_SLOTS, 8);
	write_reg(OPENREG_REG_CONTROL, OPENREG_CONTROL_ENABLE);
	admin_step(rig->card);
}

/* Enables the card with two contexts, some segments, and new queues. */
static void set_up(void)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_CTX_CREATE,
		.create.released = STEPPER_BUS + STEPPER_RELEASED,
	};
	unsigned int i;

	enable();
	for (cmd.ctx = 1; cmd.ctx <= 2; cmd.ctx++)
		submit(&cmd);
	for (i = 0; i < STEPPER_PLACES; i++) {
		cmd = stepper_bind_cmd(rig, 1, &stepper_places[i]);
		submit(&cmd);
	}
	cmd = stepper_bind_cmd(rig, 2, &stepper_places[0]);
	submit(&cmd);
	for (i = 0; i < 3; i++) {
		cmd = stepper_queue_cmd(1 + i / 2, i);
		submit(&cmd);
	}
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
	struct openreg_admin_cmd cmd = { .opcode = (uint16_t)opcode,
					 .ctx = 1 + how % 3 };

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
			cmd.create.released = STEPPER_BUS + STEPPER_RELEASED;
		break;
	case OPENREG_ADMIN_QUEUE_CREATE:
		cmd = stepper_queue_cmd(cmd.ctx, take(s, STEPPER_QUEUES + 1));
		break;
	case OPENREG_ADMIN_QUEUE_STOP:
	case OPENREG_ADMIN_QUEUE_DESTROY:
		cmd.id = take(s, STEPPER_QUEUES);
		break;
	case OPENREG_ADMIN_QUEUE_RESET:
		cmd.id = take(s, STEPPER_QUEUES);
		cmd.reset.head = tail[cmd.id];
		cmd.reset.seq = 100 + take8(s);
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
	submit(&cmd);
}

static void op_packet(struct stream *s)
{
	unsigned int n = take(s, 3);
	struct packet p;

	packet_take(s, &p);
	stepper_push(rig, n, &tail[n], p.bytes);
}

static void op_memory(struct stream *s)
{
	unsigned int where = take(s, 4), n = take(s, STEPPER_QUEUES);
	uint32_t off = 8u * take8(s);
	uint64_t value = take(s, 2) ? take_odd(s) : take8(s);

	if (where == 0)
		store64(STEPPER_QUEUE(n) + 0x1000, tail[n] + value);
	else if (where == 1)
		store64(STEPPER_QUEUE(n) + 0x3000, value);
	else if (where == 2)
		store64(STEPPER_QUEUE(n) + off, value);
	else
		store64(STEPPER_LISTS + off % 512, value);
	openreg_card_doorbell(rig->card, n);
}

/* Resets a queue to its tail and consumes the fault records. */
static void op_recover(struct stream *s)
{
	unsigned int n = take(s, 3);
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_QUEUE_RESET,
		.ctx = 1 + n / 2,
		.id = n,
		.reset = { .head = tail[n], .seq = 1000 + admin_tail },
	};

	submit(&cmd);
	write_reg(OPENREG_REG_FAULT_HEAD,
		  (uint32_t)openreg_card_reg_read(
			  rig->card, OPENREG_REG_FAULT_TAIL, 4));
}

static void op_reset(struct stream *s)
{
	if (take(s, 2)) {
		openreg_card_pause_begin(rig->card, NULL, NULL);
		must(openreg_card_is_paused(rig->card));
		openreg_card_reset(rig->card);
		must(!rig->mappings && !rig->card->nruns);
	} else {
		write_reg(OPENREG_REG_CONTROL, OPENREG_CONTROL_RESET);
		admin_step(rig->card);
		must(!rig->mappings);
	}
	memset(tail, 0, sizeof(tail));
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
		must(error && !rig->mappings && n >= 128);
		openreg_card_reset(rig->card);
		memset(tail, 0, sizeof(tail));
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
		rig->refuse = !rig->refuse;
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
	default:
		op_packet(s);
	}
	if (op & 16)
		run_card(op & 32 ? 1 : 8);
}

/* Resets the card, which must hold no mapping, reference or memory afterwards. */
static void tear_down(void)
{
	rig->refuse = false;
	run_card(STEPS_MAX);
	openreg_card_pause_begin(rig->card, NULL, NULL);
	openreg_card_reset(rig->card);
	must(!rig->mappings && !rig->depth && !rig->card->nruns);
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
	memset(tail, 0, sizeof(tail));
	memset(rig->mem, 0, STEPPER_PAGES);
	stepper_fill(rig, take8(&s));
	set_up();
	for (i = 0; i < OPS_MAX && s.left; i++)
		one_op(&s);
	tear_down();
	return 0;
}
