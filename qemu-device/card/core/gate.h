/* SPDX-License-Identifier: MIT */
/* The gate: which of the card's threads may run, and how they sleep. */
#ifndef OPENREG_CORE_GATE_H
#define OPENREG_CORE_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct openreg_card;

/* Which threads may run: pausing, sleeping, waking. See gate.c. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t idle; /* workers */
	pthread_cond_t copy;
	pthread_cond_t admin;
	pthread_cond_t quiet; /* active fell to 1 or 0, or the hold ended */
	unsigned int active; /* threads that may touch memory or a queue */
	unsigned int asleep; /* workers that wait for idle */
	unsigned int waking; /* of these, signalled but not running yet */
	atomic_uint hold; /* HOLD_*; written under lock */
	atomic_uint events; /* changes; a worker sleeps only if none is new */
	atomic_uint sleepers; /* workers in gate_sleep() */
	atomic_bool exit;
	bool copy_kick;
	bool admin_kick;
	bool paused;
	void (*paused_cb)(void *opaque);
	void *paused_opaque;
};
#define HOLD_PAUSE 1u
#define HOLD_ADMIN 2u

bool gate_init(struct gate *gate);
void gate_fini(struct gate *gate);
bool gate_enter(struct openreg_card *card);
bool gate_try_enter(struct openreg_card *card);
void gate_leave(struct openreg_card *card);
bool gate_held(struct openreg_card *card);
void gate_wake(struct openreg_card *card, unsigned int n);
void gate_count_event(struct openreg_card *card);
void gate_sleep(struct openreg_card *card, unsigned int events,
		uint64_t timeout_ns);
void gate_kick_copy(struct openreg_card *card);
void gate_kick_admin(struct openreg_card *card);
bool gate_wait_kick(struct openreg_card *card, pthread_cond_t *cond,
		    bool *kick);
void gate_hold_admin(struct openreg_card *card);
void gate_release_admin(struct openreg_card *card);
void gate_exit(struct openreg_card *card);

#endif
