/* SPDX-License-Identifier: MIT */
/* The admin ring and the thread that serves it. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "fill.h"
#include "segment.h"

struct handler {
	admin_fn *run;
	/* Late commands: returns true when the command can complete. */
	bool (*ended)(struct openreg_card *card, const struct pending *p);
};

static struct admin_result admin_nop(struct openreg_card *card,
				     const struct openreg_admin_cmd *cmd,
				     uint32_t index)
{
	(void)card;
	(void)cmd;
	(void)index;
	return (struct admin_result){ .status = OPENREG_ADMIN_OK };
}

static const struct handler handlers[] = {
	[OPENREG_ADMIN_NOP] = { admin_nop, NULL },
	[OPENREG_ADMIN_CTX_CREATE] = { admin_ctx_create, NULL },
	[OPENREG_ADMIN_CTX_DESTROY] = { admin_ctx_destroy, admin_ctx_gone },
	[OPENREG_ADMIN_SEG_BIND] = { admin_seg_bind, NULL },
	[OPENREG_ADMIN_SEG_UNBIND] = { admin_seg_unbind, NULL },
	[OPENREG_ADMIN_QUEUE_CREATE] = { admin_queue_create, NULL },
	[OPENREG_ADMIN_QUEUE_STOP] = { admin_queue_stop, admin_queue_stopped },
	[OPENREG_ADMIN_QUEUE_RESET] = { admin_queue_reset, NULL },
	[OPENREG_ADMIN_QUEUE_DESTROY] = { admin_queue_destroy,
					  admin_queue_gone },
	[OPENREG_ADMIN_FILL] = { admin_fill, admin_fill_done },
};
#define NHANDLERS (sizeof(handlers) / sizeof(handlers[0]))

static void fatal(struct openreg_card *card, const char *why)
{
	card_guest_error(card, "%s: reset the card", why);
	atomic_store(&card->regs.status, OPENREG_STATUS_FATAL);
	card_raise(card, 0);
}

static void complete(struct openreg_card *card, uint32_t index, uint32_t status,
		     uint64_t result)
{
	struct admin *admin = &card->admin;
	uint64_t off = (index & (admin->slots - 1)) *
		       sizeof(struct openreg_admin_cpl);

	card->ops->access_begin(card->host);
	card->ops->store64(card->host, admin->cpl, off + 8, result);
	card->ops->store64(card->host, admin->cpl, off,
			   status | (uint64_t)(index + 1) << 32);
	card->ops->access_end(card->host);
	card_raise(card, 0);
}

bool admin_is_late(unsigned int opcode)
{
	return opcode < NHANDLERS && handlers[opcode].ended;
}

bool admin_add_pending(struct openreg_card *card, const struct pending *from)
{
	struct pending *p = malloc(sizeof(*p));

	if (!p)
		return false;
	*p = *from;
	p->next = card->admin.pending;
	card->admin.pending = p;
	card->admin.npending++;
	return true;
}

/* Completes the late commands that have ended. */
static void check_pending(struct openreg_card *card)
{
	struct pending **link = &card->admin.pending;

	while (*link) {
		struct pending *p = *link;

		if (!handlers[p->opcode].ended(card, p)) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		card->admin.npending--;
		complete(card, p->index, OPENREG_ADMIN_OK, 0);
		free(p);
	}
}

/* Returns false if the command did nothing and must run again later. */
static bool run_command(struct openreg_card *card, uint32_t index,
			const struct openreg_admin_cmd *cmd)
{
	struct admin_result r = { .status = OPENREG_ADMIN_OK };

	if (cmd->opcode >= NHANDLERS)
		r.status = OPENREG_ADMIN_EOPCODE;
	else if (cmd->flags || cmd->reserved)
		r.status = OPENREG_ADMIN_EINVAL;
	else
		r = handlers[cmd->opcode].run(card, cmd, index);
	if (r.status == OPENREG_ADMIN_OK && r.late) {
		const struct pending p = { .index = index,
					   .opcode = cmd->opcode,
					   .ctx = cmd->ctx,
					   .id = cmd->id };

		if (!admin_add_pending(card, &p))
			fatal(card, "no memory for a late admin command");
		return true;
	}
	if (r.status == ADMIN_AGAIN)
		return false;
	complete(card, index, r.status, r.result);
	return true;
}

static void serve(struct openreg_card *card)
{
	struct admin *admin = &card->admin;
	struct openreg_admin_cmd cmd;
	uint32_t tail, slot;

	pthread_mutex_lock(&card->gate.lock);
	tail = card->regs.admin_tail;
	pthread_mutex_unlock(&card->gate.lock);
	if (tail - admin->done > admin->slots - admin->npending) {
		fatal(card, "admin tail beyond the free slots");
		return;
	}
	while (admin->done != tail && !gate_held(card)) {
		slot = admin->done & (admin->slots - 1);
		if (card->ops->dma_read(card->host,
					admin->base + slot * sizeof(cmd), &cmd,
					sizeof(cmd))) {
			fatal(card, "bus error on the admin ring");
			return;
		}
		if (!run_command(card, admin->done, &cmd))
			return;
		admin->done++;
		check_pending(card);
	}
}

static bool ring_ok(uint64_t base, uint32_t slots, uint32_t align)
{
	return slots >= 2 && slots <= ADMIN_SLOTS_MAX &&
	       !(slots & (slots - 1)) && !(base & (align - 1));
}

/* Checks and maps the rings at the addresses in admin and faults. */
bool admin_map(struct openreg_card *card)
{
	struct admin *admin = &card->admin;
	struct fault_ring *faults = &card->faults;

	if (!ring_ok(admin->base, admin->slots, 64) ||
	    !ring_ok(admin->cpl_base, admin->slots, 16) ||
	    !ring_ok(faults->base, faults->slots, 64))
		return false;
	admin->cpl = card->ops->map(card->host, admin->cpl_base,
				    (uint64_t)admin->slots * 16, true);
	faults->mapping = card->ops->map(card->host, faults->base,
					 (uint64_t)faults->slots * 64,
					 true);
	return admin->cpl && faults->mapping;
}

/* gate.lock is held. */
static void clear_counters(struct regs *r)
{
	r->admin_tail = 0;
	atomic_store(&r->fault_head, 0);
	atomic_store(&r->fault_tail, 0);
	atomic_store(&r->fault_dropped, 0);
}

static void enable(struct openreg_card *card)
{
	struct admin *admin = &card->admin;
	struct regs *r = &card->regs;

	pthread_mutex_lock(&card->gate.lock);
	admin->base = r->admin_base;
	admin->cpl_base = r->admin_cpl;
	admin->slots = r->admin_slots;
	card->faults.base = r->fault_base;
	card->faults.slots = r->fault_slots;
	clear_counters(r);
	pthread_mutex_unlock(&card->gate.lock);
	admin->enabled = true;
	admin->done = 0;
	if (admin_map(card))
		atomic_store(&r->status, OPENREG_STATUS_READY);
	else
		fatal(card, "admin or fault ring is not usable");
}

/* Also for reset and free. No other thread of the card may be active. */
void admin_drop_state(struct openreg_card *card)
{
	struct admin *admin = &card->admin;
	struct pending *p;
	struct fill *fill;

	while ((p = admin->pending)) {
		admin->pending = p->next;
		free(p);
	}
	while ((fill = card->sched.fills)) {
		card->sched.fills = fill->next;
		free(fill);
	}
	admin->npending = 0;
	admin->dead = NULL;
	card->sched.clears = card->sched.cleared = NULL;
	if (admin->cpl)
		card->ops->unmap(card->host, admin->cpl);
	if (card->faults.mapping)
		card->ops->unmap(card->host, card->faults.mapping);
	admin->cpl = NULL;
	card->faults.mapping = NULL;
	admin->enabled = false;
	admin->done = 0;
}

static void disable(struct openreg_card *card, bool reset)
{
	struct regs *r = &card->regs;

	gate_hold_admin(card);
	card_drop_state(card);
	pthread_mutex_lock(&card->gate.lock);
	if (reset)
		regs_clear(card);
	clear_counters(r);
	atomic_store(&r->status, 0);
	r->control &= ~CONTROL_FELL;
	pthread_mutex_unlock(&card->gate.lock);
	gate_release_admin(card);
	/* The driver may have set ENABLE again meanwhile. */
	gate_kick_admin(card);
}

void admin_step(struct openreg_card *card)
{
	struct admin *admin = &card->admin;
	uint32_t control;

	pthread_mutex_lock(&card->gate.lock);
	control = card->regs.control;
	pthread_mutex_unlock(&card->gate.lock);
	if (control & OPENREG_CONTROL_RESET)
		disable(card, true);
	else if (control & CONTROL_FELL ||
		 (admin->enabled && !(control & OPENREG_CONTROL_ENABLE)))
		disable(card, false);
	else if (!admin->enabled && (control & OPENREG_CONTROL_ENABLE))
		enable(card);
	if (admin->enabled &&
	    atomic_load(&card->regs.status) == OPENREG_STATUS_READY) {
		segments_release(card);
		check_pending(card);
		serve(card);
	}
}

void *admin_main(void *opaque)
{
	struct openreg_card *card = opaque;
	bool go;

	card->ops->thread_enter(card->host);
	go = gate_enter(card);
	while (go) {
		admin_step(card);
		go = gate_wait_kick(card, &card->gate.admin,
				    &card->gate.admin_kick);
	}
	gate_leave(card);
	card->ops->thread_leave(card->host);
	return NULL;
}
