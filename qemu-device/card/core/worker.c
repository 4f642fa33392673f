/* SPDX-License-Identifier: MIT */
/* The loop of a compute worker: pick work and run it; without work, poll, then sleep. */
#include <sched.h>

#include "core.h"
#include "exec.h"

#define RELAX 16 /* pauses of the processor between two rounds of polls */

static void note_sleep(struct openreg_card *card, uint64_t now)
{
	uint64_t last = card->sched.last_work;

	atomic_fetch_add(&card->stats.sleeps, 1);
	atomic_store(&card->stats.sleep_ns, now > last ? now - last : 0);
}

static void sleep_on(struct worker *w, unsigned int events, uint64_t timeout)
{
	worker_set_cpu(w, CPU_ASLEEP);
	gate_sleep(w->card, events, timeout);
}

/*
 * sched.lock is held; this drops it. One idle worker polls for all workers. It sleeps
 * when no queue needs polling and when it has had no work itself for spin_us.
 */
static void idle(struct worker *w, unsigned int events)
{
	struct openreg_card *card = w->card;
	uint64_t now = now_ns(), timeout = 0;
	unsigned int i;
	bool poll;

	if (card->sched.poller && card->sched.poller != w) {
		pthread_mutex_unlock(&card->sched.lock);
		sleep_on(w, events, 0);
		return;
	}
	card->sched.poller = w;
	poll = sched_sleep_idle(w, now, &timeout) ||
	       now < w->idle_since + card->config.spin_us * 1000ULL;
	if (!poll) {
		card->sched.poller = NULL;
		note_sleep(card, now);
		pthread_mutex_unlock(&card->sched.lock);
		sleep_on(w, events, timeout);
		return;
	}
	pthread_mutex_unlock(&card->sched.lock);
	if (atomic_load_explicit(&card->caller_cpu, memory_order_relaxed) == w->cpu)
		sched_yield();
	for (i = 0; i < RELAX; i++)
		cpu_relax();
}

static void poll_queues(struct worker *w)
{
	struct openreg_card *card = w->card;
	unsigned int events = atomic_load(&card->gate.events);
	struct queue *q = NULL;
	uint32_t slice = 0;
	enum pick pick;

	worker_set_cpu(w, sched_getcpu());
	pthread_mutex_lock(&card->sched.lock);
	pick = sched_pick(w, &q, &slice);
	if (pick == PICK_NONE) {
		idle(w, events);
		return;
	}
	if (card->sched.poller == w)
		card->sched.poller = NULL;
	pthread_mutex_unlock(&card->sched.lock);
	if (pick == PICK_TURN)
		exec_turn(w, q);
	else
		exec_slice(w, q, slice);
	w->idle_since = now_ns();
}

static void stop_polling(struct worker *w)
{
	pthread_mutex_lock(&w->card->sched.lock);
	if (w->card->sched.poller == w)
		w->card->sched.poller = NULL;
	pthread_mutex_unlock(&w->card->sched.lock);
}

void *worker_main(void *opaque)
{
	struct worker *w = opaque;
	struct openreg_card *card = w->card;
	bool go;

	card->ops->thread_enter(card->host);
	go = gate_enter(card);
	while (go) {
		if (!gate_held(card)) {
			poll_queues(w);
			continue;
		}
		stop_polling(w);
		gate_leave(card);
		go = gate_enter(card);
	}
	gate_leave(card);
	card->ops->thread_leave(card->host);
	return NULL;
}
