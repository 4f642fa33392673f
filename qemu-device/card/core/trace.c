/* SPDX-License-Identifier: MIT */
/*
 * The trace of a queue: the card writes a record of each packet into a ring in the
 * process's memory. The ring is not mapped: the card looks up its segment for each
 * record, so a process may free the ring, and records are then lost.
 */
#include <string.h>

#include "core.h"
#include "exec.h"
#include "queue.h"

#define RECORD sizeof(struct openreg_trace_record)
#define PAGE(field) offsetof(struct openreg_card_page, field)

static uint64_t clock_ns(struct queue *q)
{
	return q->card->ops->clock_ns(q->card->host);
}

static void add_thread(struct worker *w, struct queue *q)
{
	struct openreg_card *card = w->card;
	uintptr_t i = 64;

	if (w == &card->copier)
		i = 65;
	else if (w != &card->lent)
		i = (uintptr_t)(w - card->workers);
	q->trace.threads[i / 64] |= 1ULL << (i % 64);
}

static unsigned int count_threads(const struct trace *t)
{
	return (unsigned int)(__builtin_popcountll(t->threads[0]) +
			      __builtin_popcountll(t->threads[1]));
}

/* The card has loaded a tail that publishes the packet at the head. */
void trace_published(struct queue *q)
{
	if (q->trace.records && !q->trace.next)
		q->trace.next = clock_ns(q);
}

/* The card has the packet's header; or it tries a packet again that had to wait. */
void trace_begin(struct worker *w, struct queue *q)
{
	struct trace *t = &q->trace;
	uint64_t now = t->next ? t->next : clock_ns(q);

	t->next = 0;
	if (!t->open) {
		memset(&t->record, 0, sizeof(t->record));
		memset(t->threads, 0, sizeof(t->threads));
		t->record.begin = now;
		t->stalled = 0;
		t->open = true;
	}
	if (t->stalled)
		t->record.stall_ns += now - t->stalled;
	t->stalled = 0;
	t->from = now;
	add_thread(w, q);
}

/* The operands have passed the checks. */
void trace_operands(struct queue *q)
{
	unsigned int i;

	q->trace.record.bytes = 0;
	for (i = 0; i < q->args.nops; i++)
		if (q->reach[i].seg)
			q->trace.record.bytes += q->reach[i].hi - q->reach[i].lo;
}

/* The calling thread no longer works on the packet, but others will. */
void trace_pause(struct queue *q)
{
	struct trace *t = &q->trace;
	uint64_t now;

	if (!t->open)
		return;
	now = clock_ns(q);
	t->record.busy_ns += now - t->from;
	t->from = now;
}

/* The packet must wait. */
void trace_stall(struct queue *q)
{
	if (!q->trace.open)
		return;
	trace_pause(q);
	q->trace.stalled = q->trace.from;
}

/* The calling thread is the only one to work on the packet from here on. */
void trace_resume(struct worker *w, struct queue *q)
{
	if (!q->trace.open)
		return;
	add_thread(w, q);
	q->trace.from = clock_ns(q);
}

/* A thread has run a slice. Needs sched.lock if other threads run slices. */
void trace_slice(struct worker *w, struct queue *q, uint64_t ns)
{
	if (!q->trace.open)
		return;
	add_thread(w, q);
	q->trace.record.slices++;
	q->trace.record.busy_ns += ns;
}

static bool has_room(struct worker *w, struct queue *q)
{
	struct trace *t = &q->trace;

	if (t->written - t->head < t->records)
		return true;
	access_begin(w);
	t->head = w->card->ops->load64(w->card->host, q->user,
				       offsetof(struct openreg_user_page, trace_head));
	return t->written - t->head < t->records;
}

static void write_record(struct worker *w, struct queue *q)
{
	const struct openreg_host_ops *ops = w->card->ops;
	struct trace *t = &q->trace;
	uint64_t at = t->addr + (t->written & (t->records - 1)) * RECORD;
	bool ok = has_room(w, q);

	access_end(w);
	ok = ok && !segment_store(q, at, &t->record, RECORD);
	access_begin(w);
	if (ok)
		ops->store64(w->card->host, q->page, PAGE(trace_written), ++t->written);
	else
		ops->store64(w->card->host, q->page, PAGE(trace_lost), ++t->lost);
}

/* Does the tail publish a packet after the one at the head? */
static bool has_next(struct worker *w, struct queue *q)
{
	if (q->list.runs)
		return q->list.done_packets + 1 < q->list.packets;
	if (q->tail - q->head == q->header.slots) {
		access_begin(w);
		q->tail = queue_tail(q);
	}
	return q->tail - q->head > q->header.slots;
}

/* The packet is done or has faulted, and is still at the head. */
void trace_end(struct worker *w, struct queue *q, uint32_t fault)
{
	struct openreg_trace_record *record = &q->trace.record;
	bool next;

	if (!q->trace.open)
		return;
	next = !fault && has_next(w, q);
	record->end = clock_ns(q);
	record->busy_ns += record->end - q->trace.from;
	record->seq = q->completed + 1;
	record->cookie = q->header.cookie;
	record->opcode = q->header.opcode;
	record->in_list = (uint16_t)(q->list.runs ? q->list.done_packets + 1 : 0);
	record->slices += !record->slices;
	record->workers = (uint16_t)count_threads(&q->trace);
	record->fault = (uint16_t)fault;
	q->trace.open = false;
	/* One read of the clock a packet. exec_turn() forgets it. */
	q->trace.next = next ? record->end : 0;
	write_record(w, q);
}

/* Can a ring have so many records? 0: there is no ring. */
static bool is_valid(uint64_t records)
{
	return records <= OPENREG_TRACE_RECORDS_MAX && !(records & (records - 1));
}

/* Returns false, and changes nothing, if a ring cannot have so many records. */
bool trace_set(struct queue *q, uint64_t addr, uint64_t records)
{
	if (!is_valid(records))
		return false;
	q->trace.addr = addr;
	q->trace.records = records;
	/* Full until the card has loaded the head. */
	q->trace.head = q->trace.written - records;
	q->trace.open = false;
	return true;
}

/* Detail of a LIMIT fault: the number of records. */
struct openreg_verdict trace_check(struct openreg_args *args)
{
	uint64_t records;

	if (args->nops != 1 || args->ninstr || args->nimm != 1 || args->arg[0] ||
	    args->arg[1] || args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   sizeof(struct openreg_packet));
	if (args->ndim)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   args->ndim);
	if (args->op[0].dtype != OPENREG_I64)
		return openreg_bad(OPENREG_FAULT_DTYPE, 0, args->op[0].dtype);
	records = args->imm[0];
	if (!is_valid(records))
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, records);
	args->op[0].read = false;
	args->op[0].written = true;
	list_cover(args, records * (RECORD / 8));
	return openreg_good();
}

enum step trace_exec(struct worker *w, struct queue *q)
{
	const struct openreg_host_ops *ops = w->card->ops;

	trace_set(q, q->args.op[0].addr, q->args.imm[0]);
	access_begin(w);
	ops->store64(w->card->host, q->page, PAGE(trace_addr), q->trace.addr);
	ops->store64(w->card->host, q->page, PAGE(trace_records), q->trace.records);
	return STEP_DONE;
}
