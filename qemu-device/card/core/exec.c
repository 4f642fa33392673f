/* SPDX-License-Identifier: MIT */
/* Fetching packets and running them. */
#include <string.h>

#include "core.h"
#include "exec.h"
#include "note.h"
#include "queue.h"

#define BATCH 16 /* NOPs between two reads of the clock */
#define LONG_WORK (1ULL << 17) /* elements that keep a worker busy for long */

/* Copies the packet at the head of the ring into w->packet. */
static enum step fetch(struct worker *w, struct queue *q,
		       struct openreg_verdict *v)
{
	const struct openreg_host_ops *ops = w->card->ops;
	uint64_t index = q->head & (q->cfg.slots - 1), tail, have;
	uint32_t n;

	access_begin(w);
	tail = queue_tail(q);
	have = tail - q->head;
	q->tail = tail;
	if (!have)
		return STEP_EMPTY;
	trace_published(q);
	memset(&q->header, 0, sizeof(q->header));
	*v = openreg_bad(OPENREG_FAULT_RING, OPENREG_NO_OPERAND, tail);
	if (have > q->cfg.slots)
		return STEP_FAULT;
	ops->read(w->card->host, q->ring, index * OPENREG_SLOT_SIZE,
		  w->packet, OPENREG_SLOT_SIZE);
	memcpy(&q->header, w->packet, sizeof(q->header));
	*v = decode_header(&q->header);
	if (v->code)
		return STEP_FAULT;
	n = q->header.slots;
	if (n > have || index + n > q->cfg.slots) {
		*v = openreg_bad(OPENREG_FAULT_RING, OPENREG_NO_OPERAND, n);
		return STEP_FAULT;
	}
	if (n > 1)
		ops->read(w->card->host, q->ring,
			  (index + 1) * OPENREG_SLOT_SIZE,
			  w->packet + OPENREG_SLOT_SIZE,
			  (uint64_t)(n - 1) * OPENREG_SLOT_SIZE);
	return STEP_DONE;
}

static void set_active(struct queue *q, enum active active)
{
	pthread_mutex_lock(&q->card->sched.lock);
	q->active = active;
	pthread_mutex_unlock(&q->card->sched.lock);
}

static bool must_leave(struct queue *q)
{
	return atomic_load(&q->stop) || gate_held(q->card);
}

/* Offers the slices of the current phase to every worker. */
static enum step offer_slices(struct queue *q, uint32_t slices)
{
	struct openreg_card *card = q->card;

	trace_pause(q);
	pthread_mutex_lock(&card->sched.lock);
	q->job.next = 0;
	q->job.slices = slices;
	q->job.running = 0;
	q->active = ACTIVE_JOB;
	pthread_mutex_unlock(&card->sched.lock);
	gate_wake(card, slices - 1);
	return STEP_BUSY;
}

/*
 * Runs phases of one slice in this thread. Offers the next phase to all workers if it has
 * more slices, or if this thread must leave or has run for OPENREG_DECIDE_NS.
 */
static enum step run_phases(struct worker *w, struct queue *q,
			    struct openreg_verdict *v)
{
	struct job *job = &q->job;
	uint64_t end = now_ns() + OPENREG_DECIDE_NS;

	for (; job->phase < job->phases; job->phase++) {
		uint32_t n = openreg_job_slices(job->engine, job->phase);

		if (n > 1 || (n && job->phase &&
			      (must_leave(q) || now_ns() > end)))
			return offer_slices(q, n);
		if (n && !openreg_job_run(job->engine, job->phase, 0,
					  w->scratch)) {
			job->failed = true;
			break;
		}
	}
	if (job->failed) {
		*v = openreg_job_verdict(job->engine, job->phase);
		if (v->code != OPENREG_FAULT_INDEX &&
		    v->operand < q->args.nops)
			v->address = q->args.op[v->operand].addr;
	}
	queue_free_job(q);
	set_active(q, ACTIVE_NONE);
	return job->failed ? STEP_FAULT : STEP_DONE;
}

static uint64_t work_of(const struct openreg_args *args)
{
	uint64_t work = 1;
	unsigned int d;

	for (d = 0; d < args->ndim; d++)
		work *= (uint64_t)args->size[d];
	return work;
}

/* Returns STEP_DONE if q->job is ready to run. */
static enum step make_job(struct worker *w, struct queue *q,
			  struct openreg_verdict *v)
{
	struct job *job = &q->job;
	bool later;

	*v = peer_read(q);
	if (v->code)
		return STEP_FAULT;
	openreg_scratch_refuse(w->scratch, sched_must_wait_for_memory(q));
	job->engine = openreg_job_new(&q->args, w->scratch, &later);
	if (job->engine) {
		bool ok = queue_take_memory(q);

		if (job->memory)
			sched_got_memory(q);
		if (ok)
			return STEP_DONE;
		queue_free_job(q);
		job->engine = NULL;
	} else if (later) {
		sched_add_memory_waiter(q);
	} else {
		*v = openreg_bad(OPENREG_FAULT_MEMORY, OPENREG_NO_OPERAND, 0);
		return STEP_FAULT;
	}
	queue_release_operands(q);
	return STEP_WAIT;
}

static enum step run_compute(struct worker *w, struct queue *q,
			     struct openreg_verdict *v)
{
	struct job *job = &q->job;
	enum step step = make_job(w, q, v);

	if (step != STEP_DONE)
		return step;
	job->phase = 0;
	job->phases = openreg_job_phases(job->engine);
	job->failed = false;
	job->slices = 0;
	job->next = 0;
	if (work_of(&q->args) >= LONG_WORK)
		sched_wake_poller(w->card);
	return run_phases(w, q, v);
}

static struct openreg_verdict dma_fault(struct queue *q, uint32_t operand)
{
	return (struct openreg_verdict){
		.code = OPENREG_FAULT_DMA,
		.operand = operand,
		.address = q->args.op[operand].addr,
	};
}

/* Copies in this thread until other work is ready; the copy thread does the rest. */
static enum step run_copy(struct worker *w, struct queue *q,
			  struct openreg_verdict *v)
{
	uint64_t start = now_ns();
	enum step step = STEP_BUSY;
	enum copy_result r;
	uint32_t failed = 0;

	copy_begin(q);
	if (q->copy.left >= LONG_WORK)
		sched_wake_poller(w->card);
	do
		r = copy_slice(w, q, &failed);
	while (r == COPY_MORE && !must_leave(q) && !sched_ready(w, q));
	if (r == COPY_MORE) {
		trace_pause(q);
		set_active(q, ACTIVE_COPY);
	}
	if (r == COPY_DONE)
		step = STEP_DONE;
	if (r == COPY_FAILED) {
		step = STEP_FAULT;
		*v = dma_fault(q, failed);
	}
	atomic_fetch_add(&w->card->stats.copy_ns, now_ns() - start);
	return step;
}

/* Runs a copy within VRAM on all workers. */
static enum step run_program(struct worker *w, struct queue *q,
			     struct openreg_verdict *v)
{
	uint64_t start = now_ns();
	enum step step = run_compute(w, q, v);

	atomic_fetch_add(&w->card->stats.copy_ns, now_ns() - start);
	return step;
}

static enum step run(struct worker *w, struct queue *q, const uint8_t *packet,
		     struct openreg_verdict *v)
{
	access_end(w);
	*v = decode_body(packet, &q->args);
	if (!v->code)
		*v = exec_check(q);
	if (v->code)
		return STEP_FAULT;
	if (q->trace.open)
		trace_operands(q);
	if (__builtin_expect(q->card->check != NULL, false))
		note_packet(q);
	switch (q->args.opcode) {
	case OPENREG_OP_COPY:
	case OPENREG_OP_FILL:
		return copy_to_program(&q->args) ? run_program(w, q, v)
						  : run_copy(w, q, v);
	case OPENREG_OP_WAIT:
	case OPENREG_OP_SIGNAL:
	case OPENREG_OP_TIMESTAMP:
		return sync_exec(q, v);
	case OPENREG_OP_TRACE:
		return trace_exec(w, q);
	case OPENREG_OP_NOTE:
		return note_exec(q);
	}
	return run_compute(w, q, v);
}

/*
 * Fetches the next packet of the ring, or of the LIST at its head. *packet points to the
 * card's copy. The access section may be open or closed, before and after.
 */
static enum step fetch_next(struct worker *w, struct queue *q,
			    const uint8_t **packet, struct openreg_verdict *v)
{
	enum step step;

	*packet = w->packet;
	if (!q->list.runs) {
		step = fetch(w, q, v);
		if (step != STEP_DONE || q->header.opcode != OPENREG_OP_LIST)
			return step;
		access_end(w);
		*v = list_begin(q, w->packet);
		if (v->code)
			return STEP_FAULT;
	}
	access_end(w);
	*v = list_fetch(q, packet);
	return v->code ? STEP_FAULT : STEP_DONE;
}

/* Runs one packet. The access section may be open or closed, before and after. */
static enum step exec_step(struct worker *w, struct queue *q)
{
	struct openreg_verdict v = openreg_good();
	const uint8_t *packet;
	enum step step;

	step = fetch_next(w, q, &packet, &v);
	if (q->trace.records && step != STEP_EMPTY)
		trace_begin(w, q);
	if (step == STEP_DONE && q->header.opcode != OPENREG_OP_NOP)
		step = run(w, q, packet, &v);
	if (step == STEP_DONE)
		queue_done(w, q);
	if (step == STEP_FAULT)
		queue_fault(w, q, v);
	if (step == STEP_WAIT)
		trace_stall(q);
	return step;
}

/* Adds a thread's time on a queue to the statistics; compute: its share of compute. */
static void account(struct queue *q, uint64_t ns, uint64_t compute)
{
	atomic_fetch_add(&q->busy_ns, ns);
	if (compute)
		atomic_fetch_add(&q->card->stats.compute_ns, compute);
}

static bool is_compute(const struct queue *q)
{
	return openreg_is_compute(q->header.opcode);
}

/* Ends a worker's turn or slice: the worker no longer owns the queue. */
static void release_queue(struct worker *w, struct queue *q, uint64_t ns,
			  enum step step)
{
	struct openreg_card *card = w->card;
	bool offload;

	access_end(w);
	pthread_mutex_lock(&card->sched.lock);
	access_begin(w);
	/* Other workers may have finished the packet that this thread offered. */
	if (step != STEP_BUSY || q->active == ACTIVE_NONE)
		queue_store_stats(q);
	access_end(w);
	sched_set_waiting(q, step == STEP_WAIT);
	offload = q->active == ACTIVE_COPY;
	sched_release(q, ns);
	pthread_mutex_unlock(&card->sched.lock);
	if (offload)
		gate_kick_copy(card);
}

/* Runs packets of a queue that the caller owns in a row, then releases the queue. */
void exec_turn(struct worker *w, struct queue *q)
{
	uint64_t start = now_ns(), last = start, now = start, compute = 0;
	unsigned int n = 0, light = 0;
	enum step step;

	q->trace.next = 0;
	do {
		if (w->card->config.slow_us) {
			access_end(w);
			delay_step(w);
		}
		step = exec_step(w, q);
		/* A look at an empty ring is no work. */
		if (step == STEP_EMPTY)
			break;
		n += step == STEP_DONE;
		if (q->header.opcode == OPENREG_OP_NOP && ++light % BATCH)
			continue;
		access_end(w);
		now = now_ns();
		if (is_compute(q))
			compute += now - last;
		last = now;
	} while (step == STEP_DONE && now - start < OPENREG_TURN_NS &&
		 !must_leave(q) && !atomic_load(&q->stop_at_end));
	if (light % BATCH)
		now = now_ns();
	account(q, now - start, compute);
	atomic_fetch_add(&w->card->stats.packets, n);
	release_queue(w, q, now - start, step);
}

/* After the last slice of a phase: begins the next phase or ends the packet. */
static enum step next_phase(struct worker *w, struct queue *q)
{
	enum step step;
	struct openreg_verdict v;

	q->job.phase += !q->job.failed;
	if (q->job.failed)
		q->job.phases = q->job.phase;
	step = run_phases(w, q, &v);
	if (step == STEP_DONE) {
		atomic_fetch_add(&w->card->stats.packets, 1);
		queue_done(w, q);
	}
	if (step == STEP_FAULT)
		queue_fault(w, q, v);
	return step;
}

/* Call before job.running falls: the last worker stores the sums of all workers. */
static void account_slice(struct queue *q, uint64_t ns)
{
	account(q, ns, is_compute(q) ? ns : 0);
	if (!is_compute(q))
		atomic_fetch_add(&q->card->stats.copy_ns, ns);
}

/* Runs a slice from sched_pick(). */
void exec_slice(struct worker *w, struct queue *q, uint32_t slice)
{
	struct openreg_card *card = w->card;
	uint64_t start = now_ns(), ns, rest = 0;
	enum step step = STEP_BUSY;
	bool ok, last;

	delay_step(w);
	ok = openreg_job_run(q->job.engine, q->job.phase, slice, w->scratch);
	ns = now_ns() - start;
	account_slice(q, ns);
	pthread_mutex_lock(&card->sched.lock);
	trace_slice(w, q, ns);
	q->job.running--;
	if (!ok)
		q->job.failed = true;
	last = !q->job.running && !atomic_load(&q->stop) &&
	       (q->job.failed || q->job.next == q->job.slices);
	pthread_mutex_unlock(&card->sched.lock);
	if (last) {
		trace_resume(w, q);
		step = next_phase(w, q);
		rest = now_ns() - start - ns;
		account_slice(q, rest);
	}
	release_queue(w, q, ns + rest, step);
}

static void finish_copy(struct worker *w, struct queue *q)
{
	enum copy_result r;
	uint32_t failed = 0;

	r = copy_slice(w, q, &failed);
	if (r == COPY_MORE)
		return;
	set_active(q, ACTIVE_NONE);
	if (r == COPY_DONE) {
		atomic_fetch_add(&w->card->stats.packets, 1);
		queue_done(w, q);
	} else {
		queue_fault(w, q, dma_fault(q, failed));
	}
}

static void finish_slice(struct worker *w, struct queue *q)
{
	struct job *job = &q->job;

	if (!job->failed && job->next < job->slices &&
	    !openreg_job_run(job->engine, job->phase, job->next++, w->scratch))
		job->failed = true;
	if (job->failed || job->next >= job->slices)
		next_phase(w, q);
}

/*
 * Continues a packet in the caller's thread, while the card is paused. Returns true if
 * the packet is not done yet.
 */
bool exec_finish(struct worker *w, struct queue *q)
{
	uint64_t end = now_ns() + OPENREG_TURN_NS;

	trace_resume(w, q);
	while (q->active != ACTIVE_NONE && now_ns() < end) {
		if (q->active == ACTIVE_COPY)
			finish_copy(w, q);
		else
			finish_slice(w, q);
	}
	access_end(w);
	trace_pause(q);
	return q->active != ACTIVE_NONE;
}

/* Ends an unfinished packet with a HANG fault, so that user space sees the loss. */
void exec_abort(struct worker *w, struct queue *q)
{
	if (q->active == ACTIVE_JOB)
		queue_free_job(q);
	set_active(q, ACTIVE_NONE);
	queue_fault(w, q,
		    openreg_bad(OPENREG_FAULT_HANG, OPENREG_NO_OPERAND, 0));
}

/* Runs a slice of a copy in the copy thread, which owns the queue. */
void exec_copy(struct worker *w, struct queue *q)
{
	uint64_t start = now_ns(), ns;
	enum step step = STEP_BUSY;
	enum copy_result r;
	uint32_t failed = 0;

	trace_resume(w, q);
	delay_step(w);
	r = copy_slice(w, q, &failed);
	trace_slice(w, q, 0);
	ns = now_ns() - start;
	atomic_fetch_add(&w->card->stats.copy_ns, ns);
	account(q, ns, 0);
	if (r == COPY_MORE)
		trace_pause(q);
	if (r != COPY_MORE) {
		set_active(q, ACTIVE_NONE);
		step = r == COPY_DONE ? STEP_DONE : STEP_FAULT;
	}
	if (r == COPY_DONE) {
		atomic_fetch_add(&w->card->stats.packets, 1);
		queue_done(w, q);
	}
	if (r == COPY_FAILED)
		queue_fault(w, q, dma_fault(q, failed));
	release_queue(w, q, ns, step);
}
