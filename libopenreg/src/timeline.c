// SPDX-License-Identifier: MIT
/*
 * What the timeline says of devices and queues. The library traces every queue. A program
 * that traces a queue itself reads its part of the same records.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define RECORDS (1 << 15)
#define CLOCK_EVERY_NS 250000000
#define CLOCK_TRIES 10

static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
/* Protects the two lists. A child of fork() must not use them. */
static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;
static struct openreg_device *devices;
static struct openreg_queue *queues;

/* The read with the shortest bracket has the least error. */
static void put_clock(struct openreg_device *dev)
{
	struct openreg_timestamp t, best = { 0 };

	for (int i = 0; i < CLOCK_TRIES; i++) {
		if (dev->ops->timestamp(dev->t, &t))
			return;
		if (!i || t.cpu_after - t.cpu_before < best.cpu_after - best.cpu_before)
			best = t;
	}
	openreg_timeline_put(TIMELINE_CLOCK, dev->timeline.id, best.card,
			     (int64_t)best.cpu_before,
			     openreg_timeline_ns((int64_t)best.cpu_before,
						 (int64_t)best.cpu_after));
}

/* Under the queue's lock. */
static bool put_record(void *opaque, const struct openreg_trace_record *r)
{
	struct openreg_queue *q = opaque;
	struct queue_timeline *l = &q->timeline;

	if (l->kept && r->seq > l->from && r->seq <= l->until)
		return false;
	openreg_timeline_put_bytes(TIMELINE_RECORD, l->id, 0, r, sizeof(*r));
	return true;
}

static void put_lost(struct openreg_queue *q)
{
	const uint64_t lost = openreg_trace_lost(q);

	if (lost == q->timeline.lost)
		return;
	q->timeline.lost = lost;
	openreg_timeline_put(TIMELINE_LOST, q->timeline.id, lost, openreg_now_ns(), 0);
}

/* Moves records from the ring to the file, but not those that the program will read. */
static void drain(struct openreg_queue *q)
{
	openreg_trace_each(q, put_record, q);
	put_lost(q);
}

static void finish_queue(struct openreg_queue *q)
{
	struct queue_timeline *l = &q->timeline;

	l->kept = false;
	drain(q);
	openreg_timeline_put(TIMELINE_BUSY, l->id,
			     __atomic_load_n(&q->t.card->busy_ns, __ATOMIC_RELAXED),
			     openreg_now_ns(), 0);
	openreg_timeline_put(TIMELINE_QUEUE_END, l->id, q->submitted, openreg_now_ns(), 0);
}

/* The program has closed neither its queues nor its devices. */
static void finish(void)
{
	pthread_mutex_lock(&lists_lock);
	for (struct openreg_queue *q = queues; q; q = q->timeline.next)
		if (*q->mine && !pthread_mutex_trylock(&q->timeline.lock)) {
			finish_queue(q);
			pthread_mutex_unlock(&q->timeline.lock);
		}
	for (struct openreg_device *dev = devices; dev; dev = dev->timeline.next)
		if (*dev->mine)
			put_clock(dev);
	pthread_mutex_unlock(&lists_lock);
	openreg_timeline_close();
}

static void finish_in_child(void)
{
	pthread_mutex_init(&lists_lock, NULL);
	devices = NULL;
	queues = NULL;
}

/*
 * After the first card is there: exit handlers run in reverse order, so the cards of this
 * process still exist when finish() runs.
 */
static void finish_at_exit(void)
{
	atexit(finish);
	pthread_atfork(NULL, NULL, finish_in_child);
}

void openreg_timeline_device_opened(struct openreg_device *dev)
{
	if (!openreg_timeline_on())
		return;
	pthread_once(&exit_once, finish_at_exit);
	dev->timeline.id = openreg_timeline_number();
	dev->timeline.on = true;
	openreg_timeline_put_bytes(TIMELINE_DEVICE, dev->timeline.id,
				   dev->ops != &openreg_drm_transport, dev->info.path,
				   strlen(dev->info.path));
	put_clock(dev);
	dev->timeline.clock_at = openreg_now_ns();
	pthread_mutex_lock(&lists_lock);
	dev->timeline.next = devices;
	devices = dev;
	pthread_mutex_unlock(&lists_lock);
}

void openreg_timeline_device_closes(struct openreg_device *dev)
{
	struct openreg_device **link = &devices;

	if (!*dev->mine)
		return;
	put_clock(dev);
	pthread_mutex_lock(&lists_lock);
	while (*link && *link != dev)
		link = &(*link)->timeline.next;
	if (*link)
		*link = dev->timeline.next;
	pthread_mutex_unlock(&lists_lock);
}

/* The first packet of a queue. A queue without a trace works, and the file says why. */
int openreg_timeline_queue_created(struct openreg_queue *q)
{
	struct queue_timeline *l = &q->timeline;
	int ret;

	l->id = openreg_timeline_number();
	pthread_mutex_init(&l->lock, NULL);
	openreg_timeline_put(TIMELINE_QUEUE, l->id,
			     q->dev->timeline.id | (uint64_t)q->t.number << 32,
			     openreg_now_ns(), 0);
	ret = openreg_trace_start(q, RECORDS);
	if (ret)
		openreg_timeline_put_bytes(TIMELINE_UNTRACED, l->id, 0, openreg_last_error(),
					   strlen(openreg_last_error()));
	l->on = true;
	pthread_mutex_lock(&lists_lock);
	l->next = queues;
	queues = q;
	pthread_mutex_unlock(&lists_lock);
	return ret == -EOPNOTSUPP ? 0 : ret;
}

void openreg_timeline_queue_ends(struct openreg_queue *q)
{
	struct openreg_queue **link = &queues;

	if (!*q->mine)
		return;
	finish_queue(q);
	pthread_mutex_lock(&lists_lock);
	while (*link && *link != q)
		link = &(*link)->timeline.next;
	if (*link)
		*link = q->timeline.next;
	pthread_mutex_unlock(&lists_lock);
	pthread_mutex_destroy(&q->timeline.lock);
}

void openreg_timeline_span(struct openreg_queue *q, enum timeline_kind kind, uint64_t value,
			   int64_t begin)
{
	openreg_timeline_put(kind, q->timeline.id, value, begin,
			     openreg_timeline_ns(begin, openreg_now_ns()));
}

void openreg_timeline_begin_call(struct openreg_queue *q, enum timeline_kind kind,
				 uint64_t seq)
{
	openreg_timeline_put(kind, q->timeline.id, seq, openreg_now_ns(), 0);
}

void openreg_timeline_end_call(struct openreg_queue *q, int result)
{
	openreg_timeline_put(TIMELINE_CALL_END, q->timeline.id, (uint64_t)(int64_t)-result,
			     openreg_now_ns(), 0);
}

/* Reads the records before the card has to drop some. */
void openreg_timeline_submitted(struct openreg_queue *q, int64_t begin)
{
	openreg_timeline_span(q, TIMELINE_SUBMIT, q->submitted, begin);
	if (openreg_trace_unread(q) < RECORDS / 4 ||
	    pthread_mutex_trylock(&q->timeline.lock))
		return;
	drain(q);
	pthread_mutex_unlock(&q->timeline.lock);
}

/* Any thread; one that cannot get the lock leaves the records to the one that has it. */
void openreg_timeline_waited(struct openreg_queue *q)
{
	struct openreg_device *dev = q->dev;
	const int64_t now = openreg_now_ns();
	int64_t last;

	if (!*q->mine)
		return;
	if (!pthread_mutex_trylock(&q->timeline.lock)) {
		drain(q);
		pthread_mutex_unlock(&q->timeline.lock);
	}
	last = __atomic_load_n(&dev->timeline.clock_at, __ATOMIC_RELAXED);
	if (now - last > CLOCK_EVERY_NS &&
	    __atomic_compare_exchange_n(&dev->timeline.clock_at, &last, now, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		put_clock(dev);
}

void openreg_timeline_fault(struct openreg_queue *q)
{
	struct openreg_fault_summary f;
	char text[360];

	if (!*q->mine || openreg_queue_fault(q, &f) != 1 ||
	    __atomic_exchange_n(&q->timeline.faulted, f.seq, __ATOMIC_RELAXED) == f.seq)
		return;
	openreg_fault_text(&f, text, sizeof(text));
	openreg_timeline_put_bytes(TIMELINE_FAULT, q->timeline.id, f.seq, text,
				   strnlen(text, sizeof(text)));
}

void openreg_timeline_reset(struct openreg_queue *q)
{
	openreg_timeline_put(TIMELINE_RESET, q->timeline.id, q->submitted, openreg_now_ns(), 0);
}

/* ---- traces of the program --------------------------------------------- */

int openreg_timeline_trace_start(struct openreg_queue *q, uint64_t records)
{
	struct queue_timeline *l = &q->timeline;
	int64_t seq;
	int ret;

	if (q->trace.ring && records && !(records & (records - 1)) &&
	    records <= q->trace.mask + 1) {
		seq = openreg_queue_submit(q);
		ret = seq < 0 ? (int)seq : 0;
		pthread_mutex_lock(&l->lock);
	} else {
		pthread_mutex_lock(&l->lock);
		l->kept = false;
		drain(q);
		ret = openreg_trace_start(q, records);
	}
	if (!ret) {
		l->kept = true;
		l->from = q->submitted;
		l->until = UINT64_MAX;
		l->program_lost = openreg_trace_lost(q);
	}
	pthread_mutex_unlock(&l->lock);
	return ret;
}

int openreg_timeline_trace_stop(struct openreg_queue *q)
{
	struct queue_timeline *l = &q->timeline;
	int64_t seq = openreg_queue_submit(q);

	if (seq < 0)
		return (int)seq;
	pthread_mutex_lock(&l->lock);
	if (l->until == UINT64_MAX)
		l->until = q->submitted;
	pthread_mutex_unlock(&l->lock);
	return 0;
}

struct reading {
	struct openreg_queue *q;
	struct openreg_trace_record *records;
	size_t n, got;
};

static bool give_record(void *opaque, const struct openreg_trace_record *r)
{
	struct reading *to = opaque;
	struct queue_timeline *l = &to->q->timeline;

	if (r->seq > l->from && r->seq <= l->until) {
		if (to->got == to->n)
			return false;
		to->records[to->got++] = *r;
	}
	openreg_timeline_put_bytes(TIMELINE_RECORD, l->id, 0, r, sizeof(*r));
	return true;
}

int64_t openreg_timeline_trace_read(struct openreg_queue *q,
				    struct openreg_trace_record *records, size_t n,
				    uint64_t *lost)
{
	struct reading to = { .q = q, .records = records, .n = n };

	if (!q->timeline.kept)
		return 0;
	pthread_mutex_lock(&q->timeline.lock);
	openreg_trace_each(q, give_record, &to);
	put_lost(q);
	if (lost)
		*lost = q->timeline.lost - q->timeline.program_lost;
	pthread_mutex_unlock(&q->timeline.lock);
	return (int64_t)to.got;
}
