/* SPDX-License-Identifier: MIT */
/* Saving a paused card as a string of 64-bit words. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "exec.h"
#include "fill.h"
#include "queue.h"
#include "state.h"

struct blob {
	uint64_t *words;
	size_t n;
	size_t room;
	bool failed;
};

static void put(struct blob *b, uint64_t value)
{
	if (b->n == b->room) {
		size_t room = b->room ? b->room * 2 : 1024;
		uint64_t *words = realloc(b->words, room * 8);

		if (!words) {
			b->failed = true;
			return;
		}
		b->words = words;
		b->room = room;
	}
	b->words[b->n++] = value;
}

static void save_words(struct blob *b, const uint64_t *words, unsigned int n)
{
	while (n--)
		put(b, *words++);
}

static void save_segment(struct blob *b, uint32_t id, const struct segment *seg)
{
	uint32_t i;

	put(b, id);
	put(b, seg->kind);
	put(b, seg->perm);
	put(b, seg->length);
	put(b, seg->base);
	put(b, seg->dead);
	put(b, seg->clear);
	put(b, seg->nruns);
	for (i = 0; i < seg->nruns; i++) {
		put(b, seg->runs[i].off);
		put(b, seg->runs[i].bus);
	}
}

static void save_context(struct blob *b, const struct context *ctx)
{
	uint32_t i;

	put(b, ctx->id);
	put(b, ctx->dying);
	put(b, ctx->released_base);
	save_words(b, ctx->released_bits, OPENREG_MAX_SEGMENTS / 64);
	for (i = 0; i < OPENREG_MAX_SEGMENTS; i++)
		if (ctx->segs[i])
			save_segment(b, i, ctx->segs[i]);
	put(b, 0); /* ends the list: no segment has this number */
}

static void save_queue(struct blob *b, struct queue *q)
{
	put(b, q->id);
	put(b, q->ctx->id);
	put(b, q->cfg.ring);
	put(b, q->cfg.user_page);
	put(b, q->cfg.card_page);
	put(b, q->cfg.kernel_page);
	put(b, q->cfg.slots);
	put(b, q->cfg.doorbell);
	put(b, q->cfg.vector);
	put(b, q->cfg.priority);
	put(b, q->state);
	put(b, q->awake);
	put(b, q->dying);
	put(b, q->head);
	put(b, q->completed);
	put(b, q->list.done_slots);
	put(b, q->list.done_packets);
	put(b, q->trace.addr);
	put(b, q->trace.records);
	put(b, q->trace.written);
	put(b, q->trace.lost);
#define SAVE(name) put(b, q->name);
	QUEUE_STATS(SAVE)
}

static void save_admin(struct blob *b, const struct openreg_card *card)
{
	const struct admin *admin = &card->admin;
	const struct pending *p;
	const struct fill *fill;

	put(b, admin->enabled);
	put(b, admin->base);
	put(b, admin->cpl_base);
	put(b, admin->slots);
	put(b, admin->done);
	put(b, card->faults.base);
	put(b, card->faults.slots);
	put(b, admin->npending);
	for (p = admin->pending; p; p = p->next) {
		put(b, p->index);
		put(b, p->opcode);
		put(b, p->ctx);
		put(b, p->id);
	}
	for (fill = card->sched.fills; fill; fill = fill->next) {
		put(b, 1);
		put(b, fill->off);
		put(b, fill->end);
		put(b, fill->value);
		put(b, fill->index);
	}
	put(b, 0);
}

static void save_regs(struct blob *b, struct openreg_card *card)
{
	uint64_t words[REGS_SAVED];

	pthread_mutex_lock(&card->gate.lock);
	regs_save(card, words);
	pthread_mutex_unlock(&card->gate.lock);
	save_words(b, words, REGS_SAVED);
}

/* Continues unfinished packets in turn. Returns false if all are done, or at `end`. */
static bool finish_round(struct openreg_card *card, struct worker *w,
			 uint64_t end)
{
	bool left = false;
	unsigned int i;

	for (i = 0; i < OPENREG_MAX_QUEUES; i++) {
		struct queue *q = card->queue[i];

		if (!q || q->active == ACTIVE_NONE)
			continue;
		if (now_ns() >= end)
			return false;
		left |= exec_finish(w, q);
	}
	return left;
}

/* Finishes the packets; those that are not done at `end` fault with HANG. */
void state_finish(struct openreg_card *card, uint64_t end)
{
	/* The card is paused, so no thread uses this worker's scratch memory. */
	struct worker *w = &card->workers[0];
	unsigned int i;

	while (finish_round(card, w, end))
		;
	for (i = 0; i < OPENREG_MAX_QUEUES; i++)
		if (card->queue[i] && card->queue[i]->active != ACTIVE_NONE)
			exec_abort(w, card->queue[i]);
	/* These queues have no owner that would stop them at the end of the packet. */
	for (i = 0; i < OPENREG_MAX_QUEUES; i++)
		if (card->queue[i] && card->queue[i]->stop_at_end)
			queue_request_stop_at_end(card->queue[i]);
}

void openreg_card_finish(struct openreg_card *card)
{
	state_finish(card, now_ns() + OPENREG_FINISH_NS);
}

void *openreg_card_save(struct openreg_card *card, size_t *len)
{
	struct blob b = { 0 };
	unsigned int i;

	openreg_card_finish(card);
	put(&b, STATE_MAGIC);
	put(&b, card->config.vram_size);
	put(&b, card->config.vectors);
	put(&b, card->config.doorbells);
	save_regs(&b, card);
	for (i = 0; i < OPENREG_MAX_CONTEXTS; i++)
		if (card->ctx[i])
			save_context(&b, card->ctx[i]);
	put(&b, UINT64_MAX);
	for (i = 0; i < OPENREG_MAX_QUEUES; i++)
		if (card->queue[i])
			save_queue(&b, card->queue[i]);
	put(&b, UINT64_MAX);
	save_admin(&b, card);
	if (b.failed) {
		free(b.words);
		return NULL;
	}
	*len = b.n * 8;
	return b.words;
}
