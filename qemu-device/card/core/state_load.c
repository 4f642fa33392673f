/* SPDX-License-Identifier: MIT */
/* Loading a state that state.c saved. The blob may be hostile. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "fill.h"
#include "queue.h"
#include "state.h"

struct blob {
	const uint8_t *at;
	size_t left; /* words */
	bool lists; /* it has the queues' progress in LISTs */
	bool traces; /* it has the queues' traces */
	const char *error;
};

static uint64_t get(struct blob *b)
{
	uint64_t value;

	if (!b->left) {
		b->error = "the state is truncated";
		return UINT64_MAX;
	}
	memcpy(&value, b->at, 8);
	b->at += 8;
	b->left--;
	return value;
}

static uint32_t get32(struct blob *b)
{
	uint64_t value = get(b);

	if (value > UINT32_MAX) {
		b->error = "a number in the state is too large";
		return UINT32_MAX;
	}
	return (uint32_t)value;
}

static bool get_bool(struct blob *b)
{
	return get(b) == 1;
}

static void load_words(struct blob *b, uint64_t *words, unsigned int n)
{
	while (n--)
		*words++ = get(b);
}

static void load_regs(struct openreg_card *card, struct blob *b)
{
	uint64_t words[REGS_SAVED];

	load_words(b, words, REGS_SAVED);
	if (b->error)
		return;
	pthread_mutex_lock(&card->gate.lock);
	regs_load(card, words);
	pthread_mutex_unlock(&card->gate.lock);
}

/* Runs must ascend from 0, end in the segment and not wrap around the bus. */
static bool runs_ok(const struct segment *seg)
{
	uint32_t i;

	if (!seg->nruns || seg->runs[0].off)
		return false;
	for (i = 0; i < seg->nruns; i++) {
		const struct run *run = &seg->runs[i];
		uint64_t end = i + 1 < seg->nruns ? run[1].off : seg->length;

		if (end > seg->length || run->off >= end ||
		    run->bus > UINT64_MAX - (end - run->off))
			return false;
	}
	return true;
}

static bool segment_ok(const struct openreg_card *card,
		       const struct segment *seg)
{
	uint64_t size = card->config.vram_size;

	if (!seg->length || seg->length > 1ULL << OPENREG_ADDR_OFFSET_BITS ||
	    !seg->perm || seg->perm & ~(OPENREG_SEG_READ | OPENREG_SEG_WRITE))
		return false;
	if (seg->kind == OPENREG_SEG_SYSTEM || seg->kind == OPENREG_SEG_PEER)
		return runs_ok(seg) && !seg->clear;
	return seg->kind == OPENREG_SEG_VRAM && !seg->nruns &&
	       !(seg->base % OPENREG_QUEUE_PAGE_SIZE) && seg->length <= size &&
	       seg->base <= size - seg->length;
}

static bool load_runs(struct openreg_card *card, struct blob *b,
		      struct segment *seg)
{
	uint32_t i, n = get32(b);

	if (n > OPENREG_MAX_RUNS - card->nruns || n > b->left / 2)
		return false;
	seg->runs = n ? malloc(n * sizeof(*seg->runs)) : NULL;
	if (n && !seg->runs)
		return false;
	for (i = 0; i < n; i++) {
		seg->runs[i].off = get(b);
		seg->runs[i].bus = get(b);
	}
	seg->nruns = n;
	card->nruns += n;
	return true;
}

static bool load_segment(struct openreg_card *card, struct context *ctx,
			 struct blob *b, uint32_t id)
{
	struct segment *seg = calloc(1, sizeof(*seg));

	if (!seg)
		return false;
	seg->kind = get32(b);
	seg->perm = get32(b);
	seg->length = get(b);
	seg->base = get(b);
	seg->dead = get_bool(b);
	seg->clear = get_bool(b);
	seg->ctx = ctx;
	seg->id = id;
	if (id >= OPENREG_MAX_SEGMENTS || ctx->segs[id] ||
	    !load_runs(card, b, seg) || !segment_ok(card, seg)) {
		segment_free(card, seg);
		b->error = "a segment in the state is not valid";
		return false;
	}
	ctx->segs[id] = seg;
	if (seg->dead)
		segment_load_dead(card, seg);
	return true;
}

static bool load_context(struct openreg_card *card, struct blob *b,
			 uint64_t id)
{
	struct context *ctx;
	uint64_t released;
	uint32_t seg;

	if (id >= OPENREG_MAX_CONTEXTS || card->ctx[id]) {
		b->error = "a context in the state is not valid";
		return false;
	}
	ctx = context_new((uint32_t)id);
	if (!ctx) {
		b->error = "out of memory";
		return false;
	}
	card->ctx[id] = ctx;
	ctx->dying = get_bool(b);
	released = get(b);
	load_words(b, ctx->released_bits, OPENREG_MAX_SEGMENTS / 64);
	if (released % OPENREG_QUEUE_PAGE_SIZE ||
	    (released && !context_map_released(card, ctx, released))) {
		b->error = "a context's released page is not mapped";
		return false;
	}
	while (!b->error && (seg = get32(b)) && !b->error)
		if (!load_segment(card, ctx, b, seg))
			return false;
	return !b->error;
}

static void get_queue_cmd(struct blob *b, uint64_t id,
			  struct openreg_admin_cmd *cmd)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->id = id < OPENREG_MAX_QUEUES ? (uint32_t)id : UINT32_MAX;
	cmd->ctx = get32(b);
	cmd->queue.ring = get(b);
	cmd->queue.user_page = get(b);
	cmd->queue.card_page = get(b);
	cmd->queue.kernel_page = get(b);
	cmd->queue.slots = get32(b);
	cmd->queue.doorbell = (__u16)get(b);
	cmd->queue.vector = (__u16)get(b);
	cmd->queue.priority = get32(b);
}

static void load_trace(struct blob *b, struct queue *q)
{
	uint64_t addr = get(b), records = get(b);

	q->trace.written = get(b);
	q->trace.lost = get(b);
	if (!trace_set(q, addr, records))
		b->error = "a queue in the state is not valid";
}

static bool load_queue(struct openreg_card *card, struct blob *b, uint64_t id)
{
	struct openreg_admin_cmd cmd;
	struct queue *q = NULL;
	bool dying, awake;

	get_queue_cmd(b, id, &cmd);
	/* Late commands wait for the queues of a dying context: load these, too. */
	dying = cmd.ctx < OPENREG_MAX_CONTEXTS && card->ctx[cmd.ctx] &&
		card->ctx[cmd.ctx]->dying;
	if (dying)
		card->ctx[cmd.ctx]->dying = false;
	if (b->error || queue_make(card, &cmd, &q).status != OPENREG_ADMIN_OK)
		b->error = "a queue in the state is not valid, or not mapped";
	if (dying)
		card->ctx[cmd.ctx]->dying = true;
	if (!q)
		return false;
	queue_link(q);
	q->state = get32(b);
	awake = get_bool(b);
	q->dying = get_bool(b);
	q->head = get(b);
	q->completed = get(b);
	if (b->lists) {
		q->list.done_slots = get32(b);
		q->list.done_packets = get32(b);
	}
	if (b->traces)
		load_trace(b, q);
#define LOAD(name) q->name = get(b);
	QUEUE_STATS(LOAD)
	if (q->state < OPENREG_QUEUE_RUNNING || q->state > OPENREG_QUEUE_STOPPED)
		b->error = "a queue in the state is not valid";
	else if (awake && q->state == OPENREG_QUEUE_RUNNING)
		sched_queue_wake(q);
	return !b->error;
}

static bool load_pending(struct openreg_card *card, struct blob *b)
{
	struct pending p = { 0 };
	uint64_t opcode;

	p.index = get32(b);
	opcode = get(b);
	p.ctx = get32(b);
	p.id = get32(b);
	p.opcode = (uint16_t)opcode;
	if (b->error || opcode > UINT16_MAX || !admin_is_late(p.opcode) ||
	    p.ctx >= OPENREG_MAX_CONTEXTS ||
	    p.id >= OPENREG_MAX_QUEUES || !admin_add_pending(card, &p)) {
		b->error = "an admin command in the state is not valid";
		return false;
	}
	return true;
}

static bool load_fill(struct openreg_card *card, struct blob *b)
{
	struct fill *fill = calloc(1, sizeof(*fill));

	if (!fill)
		return false;
	fill->off = get(b);
	fill->end = get(b);
	fill->value = (uint8_t)get(b);
	fill->index = get32(b);
	fill_append(card, fill);
	if (fill->off > fill->end || fill->end > card->config.vram_size)
		b->error = "a FILL in the state is not valid";
	return !b->error;
}

static bool load_admin(struct openreg_card *card, struct blob *b)
{
	struct admin *admin = &card->admin;
	uint32_t n, fills = 0;

	admin->enabled = get_bool(b);
	admin->base = get(b);
	admin->cpl_base = get(b);
	admin->slots = get32(b);
	admin->done = get32(b);
	card->faults.base = get(b);
	card->faults.slots = get32(b);
	n = get32(b);
	/* A wrong number of slots is not an error here: such a card is FATAL. */
	if (b->error || n > admin->slots || n > ADMIN_SLOTS_MAX ||
	    (n && !admin->enabled))
		return false;
	while (n--)
		if (!load_pending(card, b))
			return false;
	while (get(b) == 1)
		if (fills++ == admin->npending || !load_fill(card, b))
			return false;
	if (b->error || !admin->enabled ||
	    atomic_load(&card->regs.status) != OPENREG_STATUS_READY)
		return !b->error;
	return admin_map(card);
}

static void check_head(struct openreg_card *card, struct blob *b)
{
	const uint64_t magic = get(b);

	b->traces = magic == STATE_MAGIC;
	b->lists = b->traces || magic == STATE_MAGIC_NO_TRACE;
	if (!b->lists && magic != STATE_MAGIC_NO_LISTS)
		b->error = "not a card's state";
	else if (get(b) != card->config.vram_size ||
		 get(b) != card->config.vectors ||
		 get(b) != card->config.doorbells)
		b->error = "VRAM, vectors or doorbells differ from the saved card's";
}

static bool load_all(struct openreg_card *card, struct blob *b)
{
	uint64_t id;

	check_head(card, b);
	if (b->error)
		return false;
	load_regs(card, b);
	while (!b->error && (id = get(b)) != UINT64_MAX)
		if (!load_context(card, b, id))
			return false;
	while (!b->error && (id = get(b)) != UINT64_MAX)
		if (!load_queue(card, b, id))
			return false;
	return !b->error && load_admin(card, b) && !b->left;
}

/*
 * Rings every doorbell, because some may have been lost in the migration. Skips a queue
 * if its tail cannot be read: its doorbell never rang, or the queue would have faulted.
 */
static void ring_doors(struct openreg_card *card)
{
	unsigned int i, door;

	card->ops->access_begin(card->host);
	for (i = 0; i < OPENREG_MAX_QUEUES; i++) {
		struct queue *q = card->queue[i];

		if (!q || queue_tail(q) == UINT64_MAX)
			continue;
		door = q->cfg.doorbell;
		atomic_fetch_or(&card->doors[door / 64], 1ULL << (door % 64));
	}
	card->ops->access_end(card->host);
}

int openreg_card_load(struct openreg_card *card, const void *blob, size_t len,
		      const char **error)
{
	struct blob b = { .at = blob, .left = len / 8 };
	bool ok;

	card_clear(card); /* a migration stream may hold more than one state */
	pthread_mutex_lock(&card->sched.lock);
	ok = len % 8 == 0 && load_all(card, &b);
	pthread_mutex_unlock(&card->sched.lock);
	if (!ok) {
		card_clear(card);
		*error = b.error ? b.error : "the state is not valid";
		return -1;
	}
	ring_doors(card);
	card->loaded = true;
	return 0;
}
