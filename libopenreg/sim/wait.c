// SPDX-License-Identifier: MIT
/*
 * Waits for a packet's completion. As in the kernel's driver, armed is the least sequence
 * number of all waiters. Store armed before reading the completion counter again, or a
 * completion in between is missed.
 */
#include <errno.h>
#include <time.h>

#include "sim.h"

#define PENDING 1

static uint64_t completed(const struct sim_queue *q)
{
	return __atomic_load_n(&q->card->completed, __ATOMIC_SEQ_CST);
}

/*
 * The card raises the vector only when the completion counter passes armed. Until armed
 * changes, the card may complete packets of other waiters without an interrupt: wake
 * these waiters here.
 */
void sim_queue_arm(struct sim_queue *q)
{
	const struct sim_waiter *w;
	uint64_t done, armed;
	bool over = false;

	do {
		done = completed(q);
		armed = OPENREG_ARMED_NONE;
		for (w = q->waiters; w; w = w->next) {
			if (w->seq <= done)
				over = true;
			else if (w->seq < armed)
				armed = w->seq;
		}
		__atomic_store_n(&q->kernel->armed, armed, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	} while (completed(q) >= armed);
	if (over)
		pthread_cond_broadcast(&q->vector->raised);
}

static int check(const struct sim_queue *q, uint64_t seq)
{
	uint32_t state = __atomic_load_n(&q->card->state, __ATOMIC_SEQ_CST);

	/* Read state first: the card counts the last packet before it stops a queue. */
	if (completed(q) >= seq)
		return 0;
	if (sim_stopped())
		return -ENODEV;
	return state == OPENREG_QUEUE_RUNNING || q->resetting ? PENDING : -EIO;
}

static void remove_waiter(struct sim_queue *q, const struct sim_waiter *w)
{
	struct sim_waiter **at = &q->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	sim_queue_arm(q);
}

int sim_vector_wait(struct sim_vector *v, int64_t deadline_ns)
{
	const struct timespec ts = {
		.tv_sec = deadline_ns / 1000000000,
		.tv_nsec = deadline_ns % 1000000000,
	};

	if (deadline_ns == INT64_MAX)
		return pthread_cond_wait(&v->raised, &v->lock);
	return pthread_cond_clockwait(&v->raised, &v->lock, CLOCK_MONOTONIC,
				      &ts);
}

enum lend sim_lend(struct transport *t)
{
	int cancel = sim_cancel_off();
	enum openreg_lend found = openreg_card_lend(t->card->card);

	sim_cancel_restore(cancel);
	if (found == OPENREG_LEND_WORKED)
		return LEND_WORKED;
	return found == OPENREG_LEND_POLL ? LEND_POLL : LEND_SLEEP;
}

int sim_queue_wait(struct transport *t, struct transport_queue *tq,
		   uint64_t seq, int64_t deadline_ns)
{
	struct sim_queue *q = tq->state;
	struct sim_waiter w = { .seq = seq };
	bool late = deadline_ns <= 0;
	int cancel = sim_cancel_off();
	int ret;

	(void)t;
	pthread_mutex_lock(&q->vector->lock);
	w.next = q->waiters;
	q->waiters = &w;
	sim_queue_arm(q);
	while ((ret = check(q, seq)) == PENDING && !late)
		late = sim_vector_wait(q->vector, deadline_ns) == ETIMEDOUT;
	remove_waiter(q, &w);
	pthread_mutex_unlock(&q->vector->lock);
	sim_cancel_restore(cancel);
	return ret == PENDING ? -ETIME : ret;
}
