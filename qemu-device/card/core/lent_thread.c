/* SPDX-License-Identifier: MIT */
/*
 * Lent threads. A thread that waits for the card, on a processor that the card's threads
 * need too, runs the card's work itself. That saves a context switch.
 */
#include <fenv.h>
#include <sched.h>

#include "core.h"
#include "exec.h"

/* The calling worker runs on this processor; CPU_ASLEEP: it is about to sleep. */
void worker_set_cpu(struct worker *w, int cpu)
{
	if (atomic_load_explicit(&w->cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&w->cpu, cpu, memory_order_relaxed);
}

/* Records the caller's processor: a worker that polls there yields to the caller. */
void caller_set_cpu(struct openreg_card *card)
{
	int cpu = sched_getcpu();

	if (atomic_load_explicit(&card->caller_cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&card->caller_cpu, cpu, memory_order_relaxed);
}

static void note_worker(const struct worker *w, int here, bool *shared, bool *elsewhere)
{
	int cpu = atomic_load_explicit(&w->cpu, memory_order_relaxed);

	*shared |= cpu == here;
	*elsewhere |= cpu != CPU_ASLEEP && cpu != here;
}

/* Do threads of the card run on other processors, and none on this one? */
static bool runs_elsewhere(struct openreg_card *card)
{
	bool shared = false, elsewhere = false;
	int here = sched_getcpu();
	unsigned int i;

	for (i = 0; i < card->config.workers; i++)
		note_worker(&card->workers[i], here, &shared, &elsewhere);
	note_worker(&card->copier, here, &shared, &elsewhere);
	return elsewhere && !shared;
}

static bool run_one(struct openreg_card *card)
{
	struct worker *w = &card->lent;
	struct queue *q = NULL;
	uint32_t slice = 0;
	enum pick pick;
	fenv_t env;

	pthread_mutex_lock(&card->sched.lock);
	pick = sched_pick(w, &q, &slice);
	card->sched.lent = q;
	pthread_mutex_unlock(&card->sched.lock);
	if (pick == PICK_NONE)
		return false;
	/* Results must not depend on the caller's rounding mode. */
	fegetenv(&env);
	fesetenv(FE_DFL_ENV);
	if (pick == PICK_TURN)
		exec_turn(w, q);
	else
		exec_slice(w, q, slice);
	fesetenv(&env);
	pthread_mutex_lock(&card->sched.lock);
	card->sched.lent = NULL;
	pthread_mutex_unlock(&card->sched.lock);
	sched_ensure_polled(card);
	return true;
}

enum openreg_lend openreg_card_lend(struct openreg_card *card)
{
	bool done = false;

	caller_set_cpu(card);
	if (runs_elsewhere(card))
		return OPENREG_LEND_POLL;
	if (pthread_mutex_trylock(&card->lending))
		return OPENREG_LEND_SLEEP;
	if (gate_try_enter(card)) {
		done = run_one(card);
		gate_leave(card);
	}
	pthread_mutex_unlock(&card->lending);
	return done ? OPENREG_LEND_WORKED : OPENREG_LEND_SLEEP;
}
