/* SPDX-License-Identifier: MIT */
/* Admin commands for queues. */
#include <sched.h>
#include <stdlib.h>

#include "core.h"
#include "exec.h"
#include "queue.h"
#include "state.h"

#define RESULT(s) ((struct admin_result){ .status = OPENREG_ADMIN_##s })
#define LATE ((struct admin_result){ .late = true })

static bool no_args(const struct openreg_admin_cmd *cmd, unsigned int from)
{
	unsigned int i;

	for (i = from; i < 6; i++)
		if (cmd->arg[i])
			return false;
	return true;
}

static struct queue *find_queue(struct openreg_card *card,
				const struct openreg_admin_cmd *cmd)
{
	struct queue *q;

	if (cmd->id >= OPENREG_MAX_QUEUES || cmd->ctx >= OPENREG_MAX_CONTEXTS)
		return NULL;
	q = card->queue[cmd->id];
	if (!q || q->ctx->id != cmd->ctx || q->ctx->dying || q->dying)
		return NULL;
	return q;
}

/* A doorbell page belongs to one context at a time. */
static bool door_free(struct openreg_card *card, uint32_t door,
		      const struct context *ctx)
{
	struct queue *q = card->sched.door[door];

	return !q || q->ctx == ctx;
}

static bool create_ok(struct openreg_card *card, const struct context *ctx,
		      const struct openreg_admin_cmd *cmd)
{
	const uint64_t pages = cmd->queue.ring | cmd->queue.user_page |
			       cmd->queue.card_page | cmd->queue.kernel_page;
	uint32_t slots = cmd->queue.slots;

	return cmd->id < OPENREG_MAX_QUEUES &&
	       !(pages % OPENREG_QUEUE_PAGE_SIZE) &&
	       slots >= OPENREG_RING_SLOTS_MIN &&
	       slots <= OPENREG_RING_SLOTS_MAX && !(slots & (slots - 1)) &&
	       cmd->queue.doorbell < card->config.doorbells &&
	       cmd->queue.vector >= 1 &&
	       cmd->queue.vector < card->config.vectors &&
	       cmd->queue.priority <= OPENREG_PRIORITY_HIGH &&
	       !(cmd->queue.flags & ~OPENREG_QUEUE_KEEP) &&
	       door_free(card, cmd->queue.doorbell, ctx);
}

static struct queue *make_queue(struct openreg_card *card, struct context *ctx,
				const struct openreg_admin_cmd *cmd)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->card = card;
	q->ctx = ctx;
	q->id = cmd->id;
	q->cfg.ring = cmd->queue.ring;
	q->cfg.user_page = cmd->queue.user_page;
	q->cfg.card_page = cmd->queue.card_page;
	q->cfg.kernel_page = cmd->queue.kernel_page;
	q->cfg.slots = cmd->queue.slots;
	q->cfg.doorbell = cmd->queue.doorbell;
	q->cfg.vector = cmd->queue.vector;
	q->cfg.priority = cmd->queue.priority;
	return q;
}

/* A new queue starts asleep, so that user space rings for the first packet. */
static void init_page(struct queue *q)
{
	struct openreg_card *card = q->card;
	uint64_t off;

	card->ops->access_begin(card->host);
	for (off = 0; off < sizeof(struct openreg_card_page); off += 8)
		card->ops->store64(card->host, q->page, off, 0);
	card->ops->store32(card->host, q->page,
			   offsetof(struct openreg_card_page, asleep), 1);
	card->ops->access_end(card->host);
	q->state = OPENREG_QUEUE_RUNNING;
	queue_store_state(q, q->state);
}

static uint64_t load_page(struct queue *q, uint64_t off)
{
	return q->card->ops->load64(q->card->host, q->page, off);
}

/* A queue from before a reset: its card page says how far the queue got. */
static void keep_page(struct queue *q)
{
	struct openreg_card *card = q->card;
	uint64_t list_done;
	uint32_t state;

	card->ops->access_begin(card->host);
	q->head = load_page(q, offsetof(struct openreg_card_page, head));
	q->completed = load_page(q, offsetof(struct openreg_card_page,
					     completed));
#define LOAD(name) \
	q->name = load_page(q, offsetof(struct openreg_card_page, name));
	QUEUE_STATS(LOAD)
	q->trace.written = load_page(q, offsetof(struct openreg_card_page,
						 trace_written));
	q->trace.lost = load_page(q, offsetof(struct openreg_card_page,
					      trace_lost));
	trace_set(q, load_page(q, offsetof(struct openreg_card_page, trace_addr)),
		  load_page(q, offsetof(struct openreg_card_page, trace_records)));
	state = card->ops->load32(card->host, q->page,
				  offsetof(struct openreg_card_page,
					   state));
	/* A card that stops a queue stores how far it got in a LIST. */
	list_done = load_page(q, offsetof(struct openreg_card_page, list_done));
	if (state == OPENREG_QUEUE_STOPPED) {
		q->list.done_slots = (uint32_t)list_done;
		q->list.done_packets = (uint32_t)(list_done >> 32);
	}
	card->ops->access_end(card->host);
	q->state = state == OPENREG_QUEUE_FAULTED ? OPENREG_QUEUE_FAULTED :
						    OPENREG_QUEUE_STOPPED;
	queue_store_state(q, q->state);
}

/* Checks the command, makes a queue and maps its pages. Does not link it. */
struct admin_result queue_make(struct openreg_card *card,
			       const struct openreg_admin_cmd *cmd,
			       struct queue **made)
{
	struct context *ctx;
	struct queue *q;

	ctx = cmd->ctx < OPENREG_MAX_CONTEXTS ? card->ctx[cmd->ctx] : NULL;
	if (!ctx || ctx->dying)
		return RESULT(ENOENT);
	if (!create_ok(card, ctx, cmd))
		return RESULT(EINVAL);
	if (card->queue[cmd->id])
		return RESULT(EEXIST);
	q = make_queue(card, ctx, cmd);
	if (!q)
		return RESULT(ENOMEM);
	if (!queue_map(q)) {
		queue_free(q);
		return RESULT(EDMA);
	}
	*made = q;
	return RESULT(OK);
}

struct admin_result admin_queue_create(struct openreg_card *card,
				       const struct openreg_admin_cmd *cmd,
				       uint32_t index)
{
	struct admin_result r;
	struct queue *q;

	(void)index;
	r = queue_make(card, cmd, &q);
	if (r.status != OPENREG_ADMIN_OK)
		return r;
	if (cmd->queue.flags & OPENREG_QUEUE_KEEP)
		keep_page(q);
	else
		init_page(q);
	pthread_mutex_lock(&card->sched.lock);
	queue_link(q);
	pthread_mutex_unlock(&card->sched.lock);
	return r;
}

struct admin_result admin_queue_stop(struct openreg_card *card,
				     const struct openreg_admin_cmd *cmd,
				     uint32_t index)
{
	struct queue *q = find_queue(card, cmd);

	(void)index;
	if (!no_args(cmd, 1) || cmd->stop.when > OPENREG_STOP_AFTER_PACKET)
		return RESULT(EINVAL);
	if (!q)
		return RESULT(ENOENT);
	if (cmd->stop.when == OPENREG_STOP_AFTER_PACKET)
		queue_request_stop_at_end(q);
	else
		queue_request_stop(q);
	return LATE;
}

static void get_activity(struct queue *q, bool *runs, bool *owned)
{
	pthread_mutex_lock(&q->card->sched.lock);
	*runs = q->state == OPENREG_QUEUE_RUNNING;
	*owned = q->owners;
	pthread_mutex_unlock(&q->card->sched.lock);
}

static bool is_stopped(struct queue *q)
{
	bool runs, owned;

	get_activity(q, &runs, &owned);
	return !runs && !owned;
}

/*
 * Returns false if the queue runs. A queue that does not run may still have an owner, for
 * example one that stores a fault; the owner has no work left, so the wait is short.
 */
static bool wait_stopped(struct queue *q)
{
	bool runs, owned;

	for (;;) {
		get_activity(q, &runs, &owned);
		if (runs || !owned)
			return !runs;
		sched_yield();
	}
}

bool admin_queue_stopped(struct openreg_card *card, const struct pending *p)
{
	struct queue *q = card->queue[p->id];

	return !q || q->ctx->id != p->ctx || is_stopped(q);
}

struct admin_result admin_queue_reset(struct openreg_card *card,
				      const struct openreg_admin_cmd *cmd,
				      uint32_t index)
{
	struct queue *q = find_queue(card, cmd);

	(void)index;
	if (!q)
		return RESULT(ENOENT);
	if (!no_args(cmd, 2) || !wait_stopped(q) ||
	    cmd->reset.seq < q->completed)
		return RESULT(EINVAL);
	q->list.runs = false;
	if (cmd->reset.head != q->head || cmd->reset.seq != q->completed)
		list_end(q);
	card->ops->access_begin(card->host);
	queue_publish(q, cmd->reset.head, cmd->reset.seq);
	card->ops->access_end(card->host);
	queue_store_state(q, OPENREG_QUEUE_RUNNING);
	pthread_mutex_lock(&card->sched.lock);
	atomic_store(&q->stop, false);
	atomic_store(&q->stop_at_end, false);
	q->state = OPENREG_QUEUE_RUNNING;
	q->tail = q->head;
	sched_queue_wake(q);
	pthread_mutex_unlock(&card->sched.lock);
	gate_wake(card, 1);
	return RESULT(OK);
}

struct admin_result admin_queue_destroy(struct openreg_card *card,
					const struct openreg_admin_cmd *cmd,
					uint32_t index)
{
	struct queue *q = find_queue(card, cmd);

	(void)index;
	if (!no_args(cmd, 0))
		return RESULT(EINVAL);
	if (!q)
		return RESULT(ENOENT);
	queue_request_stop(q);
	q->dying = true;
	return LATE;
}

/* Frees the queue once it has stopped. */
bool admin_queue_gone(struct openreg_card *card, const struct pending *p)
{
	struct queue *q = card->queue[p->id];

	if (!q || q->ctx->id != p->ctx)
		return true;
	if (!is_stopped(q))
		return false;
	pthread_mutex_lock(&card->sched.lock);
	sched_queue_remove(q);
	queue_unlink(q);
	pthread_mutex_unlock(&card->sched.lock);
	queue_free(q);
	return true;
}
