/* SPDX-License-Identifier: MIT */
/* Queues: mapping their pages, publishing progress, stopping, faulting. */
#include <stdlib.h>

#include "core.h"
#include "exec.h"
#include "note.h"
#include "queue.h"

#define C_PAGE(field) offsetof(struct openreg_card_page, field)
#define FAULT_WORDS (sizeof(struct openreg_fault_summary) / 8)

bool queue_map(struct queue *q)
{
	const struct openreg_host_ops *ops = q->card->ops;
	void *host = q->card->host;

	q->ring = ops->map(host, q->cfg.ring,
			   (uint64_t)q->cfg.slots * OPENREG_SLOT_SIZE,
			   false);
	q->user = ops->map(host, q->cfg.user_page,
			   OPENREG_QUEUE_PAGE_SIZE, false);
	q->page = ops->map(host, q->cfg.card_page,
			   OPENREG_QUEUE_PAGE_SIZE, true);
	q->kernel = ops->map(host, q->cfg.kernel_page,
			     OPENREG_QUEUE_PAGE_SIZE, false);
	return q->ring && q->user && q->page && q->kernel;
}

static void unmap(struct openreg_card *card, struct openreg_mapping *mapping)
{
	if (mapping)
		card->ops->unmap(card->host, mapping);
}

void queue_free(struct queue *q)
{
	if (q->check)
		note_queue_free(q);
	unmap(q->card, q->ring);
	unmap(q->card, q->user);
	unmap(q->card, q->page);
	unmap(q->card, q->kernel);
	free(q);
}

/* sched.lock is held. */
void queue_link(struct queue *q)
{
	struct sched *sched = &q->card->sched;

	q->card->queue[q->id] = q;
	q->door_next = sched->door[q->cfg.doorbell];
	sched->door[q->cfg.doorbell] = q;
}

/* sched.lock is held. */
void queue_unlink(struct queue *q)
{
	struct queue **link = &q->card->sched.door[q->cfg.doorbell];

	while (*link != q)
		link = &(*link)->door_next;
	*link = q->door_next;
	q->card->queue[q->id] = NULL;
}

void access_begin(struct worker *w)
{
	if (!w->access)
		w->card->ops->access_begin(w->card->host);
	w->access = true;
}

void access_end(struct worker *w)
{
	if (w->access)
		w->card->ops->access_end(w->card->host);
	w->access = false;
}

uint64_t queue_tail(struct queue *q)
{
	return q->card->ops->load64(
		q->card->host, q->user,
		offsetof(struct openreg_user_page, tail));
}

static void store64(struct queue *q, uint64_t off, uint64_t value)
{
	q->card->ops->store64(q->card->host, q->page, off, value);
}

static void store32(struct queue *q, uint64_t off, uint32_t value)
{
	q->card->ops->store32(q->card->host, q->page, off, value);
}

/* Publishes progress; raises the vector if armed is reached. Needs access_begin(). */
void queue_publish(struct queue *q, uint64_t head, uint64_t seq)
{
	struct openreg_card *card = q->card;
	uint64_t old = q->completed, armed;

	q->head = head;
	q->completed = seq;
	store64(q, C_PAGE(head), head);
	store64(q, C_PAGE(completed), seq);
	/* Accesses to mappings are sequentially consistent: the load follows the stores. */
	armed = card->ops->load64(
		card->host, q->kernel,
		offsetof(struct openreg_kernel_page, armed));
	if (old < armed && armed <= seq) {
		store64(q, C_PAGE(interrupts), ++q->interrupts);
		card_raise(card, q->cfg.vector);
	}
}

void queue_store_state(struct queue *q, enum openreg_queue_state state)
{
	q->card->ops->access_begin(q->card->host);
	if (state == OPENREG_QUEUE_STOPPED)
		store64(q, C_PAGE(list_done),
			q->list.done_slots |
				(uint64_t)q->list.done_packets << 32);
	store32(q, C_PAGE(state), state);
	q->card->ops->access_end(q->card->host);
}

void queue_store_stats(struct queue *q)
{
	store64(q, C_PAGE(dma_read), atomic_load(&q->dma_read));
	store64(q, C_PAGE(dma_written), atomic_load(&q->dma_written));
	store64(q, C_PAGE(busy_ns), atomic_load(&q->busy_ns));
}

/* Drops the segment references. Reports VRAM that the packet wrote as dirty. */
void queue_release_operands(struct queue *q)
{
	struct openreg_card *card = q->card;
	bool any = false;
	unsigned int i;

	peer_free(q);
	for (i = 0; i < q->args.nops; i++) {
		struct reach *r = &q->reach[i];

		any |= r->seg != NULL;
		if (r->seg && r->written && r->seg->kind == OPENREG_SEG_VRAM)
			card->ops->vram_written(card->host,
						r->seg->base + r->lo,
						r->hi - r->lo);
	}
	if (any)
		segments_put(q, q->args.nops);
	q->args.nops = 0;
}

/*
 * Completes the packet at the head, or one of the LIST there. Publishes before it drops
 * the references: a segment is released only after the completions of the packets that
 * used it. A process may free what a LIST still uses: then the LIST faults.
 */
void queue_done(struct worker *w, struct queue *q)
{
	unsigned int slots = q->header.slots;

	trace_end(w, q, OPENREG_FAULT_NONE);
	if (q->list.runs) {
		if (!list_next(q)) {
			queue_release_operands(q);
			return;
		}
		slots = q->list.header.slots;
	}
	access_begin(w);
	if (q->list.runs || q->header.opcode == OPENREG_OP_COPY ||
	    q->header.opcode == OPENREG_OP_FILL)
		queue_store_stats(q);
	list_end(q);
	queue_publish(q, q->head + slots, q->completed + 1);
	queue_release_operands(q);
}

/*
 * Charges the job's memory to its context. Returns false above the limit, which leaves
 * memory for other contexts. A context without a job may always have one.
 */
bool queue_take_memory(struct queue *q)
{
	size_t size = openreg_job_memory(q->job.engine) + q->job.peer_bytes;
	size_t old = atomic_fetch_add(&q->ctx->memory, size);

	q->job.memory = size;
	return !size || !old || old + size <= OPENREG_CONTEXT_MEMORY;
}

void queue_free_job(struct queue *q)
{
	atomic_fetch_sub(&q->ctx->memory, q->job.memory);
	q->job.memory = 0;
	openreg_job_free(q->job.engine);
}

/* sched.lock is held, and the queue has no owner. */
void queue_drop_work(struct queue *q)
{
	if (q->active == ACTIVE_JOB)
		queue_free_job(q);
	if (q->active != ACTIVE_NONE)
		queue_release_operands(q);
	q->active = ACTIVE_NONE;
	q->trace.open = false;
	sched_set_waiting(q, false);
}

/* sched.lock is held, and the queue has no owner. Returns false if it did not run. */
static bool stop_unowned(struct queue *q)
{
	if (q->state != OPENREG_QUEUE_RUNNING)
		return false;
	queue_drop_work(q);
	sched_queue_remove(q);
	q->state = OPENREG_QUEUE_STOPPED;
	return true;
}

/* Stops the queue at once. If it has owners, it stops when they end their slices. */
void queue_request_stop(struct queue *q)
{
	struct openreg_card *card = q->card;
	bool now = false;

	pthread_mutex_lock(&card->sched.lock);
	atomic_store(&q->stop, true);
	if (!q->owners)
		now = stop_unowned(q);
	pthread_mutex_unlock(&card->sched.lock);
	if (now)
		queue_store_state(q, OPENREG_QUEUE_STOPPED);
}

/* Stops the queue after the packet that runs; a packet that waits does not run. */
void queue_request_stop_at_end(struct queue *q)
{
	struct openreg_card *card = q->card;
	bool now = false;

	pthread_mutex_lock(&card->sched.lock);
	atomic_store(&q->stop_at_end, true);
	if (!q->owners && q->active == ACTIVE_NONE)
		now = stop_unowned(q);
	pthread_mutex_unlock(&card->sched.lock);
	if (now)
		queue_store_state(q, OPENREG_QUEUE_STOPPED);
}

static void store_summary(struct queue *q,
			  const struct openreg_fault_summary *fault)
{
	const uint64_t *words = (const uint64_t *)fault;
	unsigned int i;

	for (i = 0; i < FAULT_WORDS; i++)
		store64(q, C_PAGE(fault) + 8 * i, words[i]);
	store32(q, C_PAGE(state), OPENREG_QUEUE_FAULTED);
}

static void write_record(struct queue *q,
			 const struct openreg_fault_summary *fault)
{
	struct openreg_card *card = q->card;
	struct fault_ring *ring = &card->faults;
	uint32_t tail = atomic_load(&card->regs.fault_tail);
	uint64_t base = (tail & (ring->slots - 1)) *
			(uint64_t)sizeof(struct openreg_fault_record);
	const uint64_t *words = (const uint64_t *)fault;
	unsigned int i;

	if (!ring->mapping ||
	    tail - atomic_load(&card->regs.fault_head) >= ring->slots) {
		atomic_fetch_add(&card->regs.fault_dropped, 1);
		return;
	}
	for (i = 0; i < FAULT_WORDS; i++)
		card->ops->store64(card->host, ring->mapping,
				   base + 16 + 8 * i, words[i]);
	card->ops->store64(card->host, ring->mapping, base + 56,
			   card->ops->clock_ns(card->host));
	card->ops->store64(card->host, ring->mapping, base + 8, q->id);
	card->ops->store64(card->host, ring->mapping, base,
			   (tail + 1) | (uint64_t)q->ctx->id << 32);
	atomic_store(&card->regs.fault_tail, tail + 1);
}

/* The packet at the head faults: stops the queue there and reports the fault. */
void queue_fault(struct worker *w, struct queue *q, struct openreg_verdict v)
{
	struct openreg_card *card = q->card;
	struct openreg_fault_summary fault = {
		.code = v.code,
		.operand = v.operand,
		.seq = q->completed + 1,
		.address = v.address,
		.opcode = q->header.opcode,
		.in_list = (uint16_t)(q->list.runs ?
					  q->list.done_packets + 1 : 0),
		.cookie = q->header.cookie,
		.detail = v.detail,
	};

	trace_end(w, q, v.code);
	list_end(q);
	queue_release_operands(q);
	pthread_mutex_lock(&card->sched.lock);
	q->state = OPENREG_QUEUE_FAULTED;
	pthread_mutex_unlock(&card->sched.lock);
	access_begin(w);
	store_summary(q, &fault);
	pthread_mutex_lock(&card->faults.lock);
	write_record(q, &fault);
	pthread_mutex_unlock(&card->faults.lock);
	access_end(w);
	atomic_fetch_add(&card->stats.faults, 1);
	card_guest_error(card, "context %u queue %u: fault %u, operand %d",
			 q->ctx->id, q->id, v.code, (int)v.operand);
	card_raise(card, q->cfg.vector);
	card_raise(card, 0);
}
