/* SPDX-License-Identifier: MIT */
/* Queues, and the packet of each that is in progress. */
#ifndef OPENREG_CORE_QUEUE_H
#define OPENREG_CORE_QUEUE_H

#include "copy.h"
#include "engine/engine.h"
#include "segment.h"

struct openreg_check_queue;
struct worker;

enum active {
	ACTIVE_NONE,
	ACTIVE_JOB, /* every worker may take slices of it */
	ACTIVE_COPY, /* the copy thread continues it */
};

struct job {
	struct openreg_job *engine;
	size_t memory; /* bytes that it holds */
	uint8_t *peer; /* copies of operands in PEER segments; see peer.c */
	size_t peer_bytes;
	unsigned int phase;
	unsigned int phases;
	uint32_t next; /* next slice to hand out */
	uint32_t slices; /* of this phase */
	uint32_t running; /* slices handed out and not done */
	bool failed;
};

#define LIST_PIECE 128 /* slots of a LIST that the card fetches at once */

/* The LIST at the head. */
struct list {
	bool runs; /* the card has begun it, and its next packet comes from it */
	struct openreg_packet header;
	uint64_t addr; /* of its first slot */
	uint32_t slots;
	uint32_t packets;
	uint32_t done_slots; /* also without runs: the card skips them */
	uint32_t done_packets;
	uint32_t first; /* piece holds the slots from first to before end */
	uint32_t end;
	uint8_t piece[LIST_PIECE * OPENREG_SLOT_SIZE];
};

/* The card's records of the queue's packets. For the owners. */
struct trace {
	uint64_t addr; /* of the ring */
	uint64_t records; /* of the ring, a power of two; 0: no trace */
	uint64_t written;
	uint64_t lost;
	uint64_t head; /* at the last load */
	bool open; /* record is of the packet in progress */
	struct openreg_trace_record record;
	uint64_t stalled; /* when the packet began to wait, or 0 */
	uint64_t from; /* when the present owner began */
	uint64_t next; /* begin of the next packet; 0: not known yet */
	uint64_t threads[2]; /* a bit for each that worked on the packet */
};

struct queue_config {
	uint64_t ring;
	uint64_t user_page;
	uint64_t card_page;
	uint64_t kernel_page;
	uint32_t slots;
	uint32_t doorbell;
	uint32_t vector;
	uint32_t priority;
};

/* Statistics, by their names in struct openreg_card_page; the order of a saved state. */
#define QUEUE_STATS(X) X(wakes) X(interrupts) X(dma_read) X(dma_written) X(busy_ns)

struct queue {
	struct openreg_card *card;
	struct context *ctx;
	uint32_t id;
	bool dying; /* admin thread only */
	struct queue_config cfg;
	struct openreg_mapping *ring;
	struct openreg_mapping *user;
	struct openreg_mapping *page;
	struct openreg_mapping *kernel;

	/* sched.lock */
	unsigned int owners; /* threads that work on it */
	enum active active;
	enum openreg_queue_state state;
	bool awake; /* on sched.awake: workers poll its tail */
	bool asleep_clear; /* the asleep word of its card page is 0 */
	uint64_t poll_round; /* round of the last poll of its tail */
	struct queue *awake_next;
	struct queue **awake_pprev;
	struct queue *door_next; /* next queue of the same doorbell page */
	uint64_t last_active;
	uint64_t served; /* sched.served when a thread last picked it */
	bool waiting; /* its next packet is an unmet WAIT, or lacks memory */
	atomic_bool stop_at_end; /* stop after the current packet */
	uint64_t next_poll; /* a waiting queue: when to try its packet again */
	uint64_t backoff_ns; /* a waiting queue: time between two tries */
	uint64_t polled_signals; /* ctx->signals when a thread last picked it */
	uint64_t ticket; /* its place in the line for memory, or 0 */
	/* The unmet WAIT at its head; its owner writes them. */
	atomic_uint_fast64_t word; /* number of the word, or 0; see wake.c */
	atomic_uint wait_mode;
	atomic_uint_fast64_t wait_value;
	bool signalled; /* the word was stored while a thread owned the queue */
	struct job job;

	/* For the owners; without an owner, under sched.lock */
	uint64_t head;
	uint64_t tail; /* at the last poll */
	uint64_t completed;
	struct openreg_packet header;
	struct openreg_args args;
	struct reach reach[OPENREG_OPERANDS_MAX];
	struct copy copy;
	struct list list;
	struct trace trace;
	struct openreg_check_queue *check; /* NULL: no packet yet, or the card does not check */

#define STAT(name) atomic_uint_fast64_t name;
	QUEUE_STATS(STAT)
#undef STAT
	atomic_bool stop;
};

bool queue_map(struct queue *q);
void queue_link(struct queue *q);
void queue_unlink(struct queue *q);
void queue_free(struct queue *q);
void queue_request_stop(struct queue *q);
void queue_request_stop_at_end(struct queue *q);
bool queue_take_memory(struct queue *q);
void queue_free_job(struct queue *q);
void queue_drop_work(struct queue *q);
uint64_t queue_tail(struct queue *q);
void queue_publish(struct queue *q, uint64_t head, uint64_t seq);
void queue_store_state(struct queue *q, enum openreg_queue_state state);
void queue_store_stats(struct queue *q);
void queue_release_operands(struct queue *q);
void queue_done(struct worker *w, struct queue *q);
void queue_fault(struct worker *w, struct queue *q, struct openreg_verdict v);
void access_begin(struct worker *w);
void access_end(struct worker *w);

/* trace.c */
void trace_published(struct queue *q);
void trace_begin(struct worker *w, struct queue *q);
void trace_operands(struct queue *q);
void trace_stall(struct queue *q);
void trace_pause(struct queue *q);
void trace_resume(struct worker *w, struct queue *q);
void trace_slice(struct worker *w, struct queue *q, uint64_t ns);
void trace_end(struct worker *w, struct queue *q, uint32_t fault);
bool trace_set(struct queue *q, uint64_t addr, uint64_t records);

#endif
