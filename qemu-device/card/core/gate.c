/* SPDX-License-Identifier: MIT */
/*
 * The gate: which of the card's threads may run, and how they sleep.
 *
 * A thread is active while it may touch guest memory, VRAM or a queue. During a hold no
 * further thread becomes active. A pause is a hold; the admin thread takes one to disable
 * or reset the card.
 */
#include <time.h>

#include "core.h"

bool gate_init(struct gate *gate)
{
	pthread_condattr_t attr;
	bool ok;

	if (pthread_mutex_init(&gate->lock, NULL))
		return false;
	if (pthread_condattr_init(&attr))
		return false;
	ok = !pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) &&
	     !pthread_cond_init(&gate->idle, &attr) &&
	     !pthread_cond_init(&gate->copy, &attr) &&
	     !pthread_cond_init(&gate->admin, &attr) &&
	     !pthread_cond_init(&gate->quiet, &attr);
	pthread_condattr_destroy(&attr);
	return ok;
}

void gate_fini(struct gate *gate)
{
	pthread_cond_destroy(&gate->idle);
	pthread_cond_destroy(&gate->copy);
	pthread_cond_destroy(&gate->admin);
	pthread_cond_destroy(&gate->quiet);
	pthread_mutex_destroy(&gate->lock);
}

bool gate_held(struct openreg_card *card)
{
	return atomic_load(&card->gate.hold) || atomic_load(&card->gate.exit);
}

/* gate.lock is held. Waits for the end of a hold; returns false if the card exits. */
static bool enter_locked(struct gate *gate)
{
	while (atomic_load(&gate->hold) && !atomic_load(&gate->exit))
		pthread_cond_wait(&gate->quiet, &gate->lock);
	gate->active++;
	return !atomic_load(&gate->exit);
}

/* gate.lock is held. Drops it before the callback, which may call into the card. */
static void leave_unlock(struct gate *gate)
{
	void (*cb)(void *) = NULL;
	void *opaque = NULL;

	if (--gate->active <= 1)
		pthread_cond_broadcast(&gate->quiet);
	if (!gate->active && !gate->paused &&
	    (atomic_load(&gate->hold) & HOLD_PAUSE)) {
		gate->paused = true;
		cb = gate->paused_cb;
		opaque = gate->paused_opaque;
	}
	pthread_mutex_unlock(&gate->lock);
	if (cb)
		cb(opaque);
}

bool gate_enter(struct openreg_card *card)
{
	bool go;

	pthread_mutex_lock(&card->gate.lock);
	go = enter_locked(&card->gate);
	pthread_mutex_unlock(&card->gate.lock);
	return go;
}

/* Does not wait: returns false if the card is held. */
bool gate_try_enter(struct openreg_card *card)
{
	struct gate *gate = &card->gate;
	bool go;

	pthread_mutex_lock(&gate->lock);
	go = !gate_held(card);
	gate->active += go;
	pthread_mutex_unlock(&gate->lock);
	return go;
}

void gate_leave(struct openreg_card *card)
{
	pthread_mutex_lock(&card->gate.lock);
	leave_unlock(&card->gate);
}

/* Makes a worker that is about to sleep poll again instead. */
void gate_count_event(struct openreg_card *card)
{
	atomic_fetch_add(&card->gate.events, 1);
}

/*
 * Counts an event and wakes workers, until n are waking. A worker that is already waking
 * is one of the n: it polls every queue once it runs, and a further worker would only
 * compete with the caller for its processor.
 */
void gate_wake(struct openreg_card *card, unsigned int n)
{
	struct gate *gate = &card->gate;

	gate_count_event(card);
	if (!atomic_load(&gate->sleepers))
		return;
	pthread_mutex_lock(&gate->lock);
	n = n < gate->asleep ? n : gate->asleep;
	for (; gate->waking < n; gate->waking++)
		pthread_cond_signal(&gate->idle);
	pthread_mutex_unlock(&gate->lock);
}

static struct timespec deadline(uint64_t timeout_ns)
{
	uint64_t at = now_ns() + timeout_ns;

	return (struct timespec){ .tv_sec = (time_t)(at / 1000000000),
				  .tv_nsec = (long)(at % 1000000000) };
}

/*
 * Puts an active worker to sleep, unless an event came after it read the counter.
 * timeout_ns 0: no timeout.
 */
void gate_sleep(struct openreg_card *card, unsigned int events,
		uint64_t timeout_ns)
{
	struct gate *gate = &card->gate;
	struct timespec at = deadline(timeout_ns);

	atomic_fetch_add(&gate->sleepers, 1);
	if (atomic_load(&gate->events) != events) {
		atomic_fetch_sub(&gate->sleepers, 1);
		return;
	}
	gate_leave(card);
	pthread_mutex_lock(&gate->lock);
	/* gate_wake() counts its event before it takes the lock: no wake-up is lost. */
	if (atomic_load(&gate->events) == events && !gate_held(card)) {
		gate->asleep++;
		if (timeout_ns)
			pthread_cond_timedwait(&gate->idle, &gate->lock, &at);
		else
			pthread_cond_wait(&gate->idle, &gate->lock);
		gate->asleep--;
		gate->waking -= gate->waking > 0;
	}
	atomic_fetch_sub(&gate->sleepers, 1);
	enter_locked(gate);
	pthread_mutex_unlock(&gate->lock);
}

void gate_kick_copy(struct openreg_card *card)
{
	pthread_mutex_lock(&card->gate.lock);
	card->gate.copy_kick = true;
	pthread_cond_signal(&card->gate.copy);
	pthread_mutex_unlock(&card->gate.lock);
}

void gate_kick_admin(struct openreg_card *card)
{
	pthread_mutex_lock(&card->gate.lock);
	card->gate.admin_kick = true;
	pthread_cond_signal(&card->gate.admin);
	pthread_mutex_unlock(&card->gate.lock);
}

/* The active copy or admin thread sleeps until its kick. Returns false at exit. */
bool gate_wait_kick(struct openreg_card *card, pthread_cond_t *cond, bool *kick)
{
	struct gate *gate = &card->gate;
	bool go;

	gate_leave(card);
	pthread_mutex_lock(&gate->lock);
	while (!*kick && !atomic_load(&gate->exit))
		pthread_cond_wait(cond, &gate->lock);
	*kick = false;
	go = enter_locked(gate);
	pthread_mutex_unlock(&gate->lock);
	return go;
}

/* Begins a hold and waits until the calling admin thread is the only active one. */
void gate_hold_admin(struct openreg_card *card)
{
	struct gate *gate = &card->gate;

	pthread_mutex_lock(&gate->lock);
	atomic_fetch_or(&gate->hold, HOLD_ADMIN);
	atomic_fetch_add(&gate->events, 1);
	pthread_cond_broadcast(&gate->idle);
	while (gate->active > 1)
		pthread_cond_wait(&gate->quiet, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
}

void gate_release_admin(struct openreg_card *card)
{
	struct gate *gate = &card->gate;

	pthread_mutex_lock(&gate->lock);
	atomic_fetch_and(&gate->hold, ~HOLD_ADMIN);
	pthread_cond_broadcast(&gate->quiet);
	pthread_mutex_unlock(&gate->lock);
}

void gate_exit(struct openreg_card *card)
{
	struct gate *gate = &card->gate;

	pthread_mutex_lock(&gate->lock);
	atomic_store(&gate->exit, true);
	atomic_fetch_add(&gate->events, 1);
	pthread_cond_broadcast(&gate->idle);
	pthread_cond_broadcast(&gate->copy);
	pthread_cond_broadcast(&gate->admin);
	pthread_cond_broadcast(&gate->quiet);
	pthread_mutex_unlock(&gate->lock);
}

void openreg_card_pause_begin(struct openreg_card *card,
			      void (*paused_cb)(void *opaque), void *opaque)
{
	struct gate *gate = &card->gate;
	bool now;

	pthread_mutex_lock(&gate->lock);
	gate->paused_cb = paused_cb;
	gate->paused_opaque = opaque;
	atomic_fetch_or(&gate->hold, HOLD_PAUSE);
	atomic_fetch_add(&gate->events, 1);
	now = !gate->active;
	gate->paused = now;
	pthread_mutex_unlock(&gate->lock);
	if (now && paused_cb)
		paused_cb(opaque);
}

bool openreg_card_is_paused(struct openreg_card *card)
{
	bool paused;

	pthread_mutex_lock(&card->gate.lock);
	paused = card->gate.paused;
	pthread_mutex_unlock(&card->gate.lock);
	return paused;
}

void openreg_card_resume(struct openreg_card *card)
{
	struct gate *gate = &card->gate;
	unsigned int vector;

	if (card->loaded) {
		card->loaded = false;
		for (vector = 0; vector < card->config.vectors; vector++)
			card_raise(card, vector);
	}
	pthread_mutex_lock(&gate->lock);
	gate->paused = false;
	gate->paused_cb = NULL;
	gate->admin_kick = true;
	gate->copy_kick = true;
	atomic_fetch_and(&gate->hold, ~HOLD_PAUSE);
	atomic_fetch_add(&gate->events, 1);
	pthread_cond_broadcast(&gate->idle);
	pthread_cond_broadcast(&gate->copy);
	pthread_cond_broadcast(&gate->admin);
	pthread_cond_broadcast(&gate->quiet);
	pthread_mutex_unlock(&gate->lock);
}
