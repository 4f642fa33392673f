/* SPDX-License-Identifier: MIT */
/* The scheduler. */
#ifndef OPENREG_CORE_SCHED_H
#define OPENREG_CORE_SCHED_H

#include <pthread.h>
#include <stdatomic.h>

#include "card.h"

#define OPENREG_POLLS 64 /* tails polled in a round; at least one for each context */
#define OPENREG_POLLS_EACH 16 /* tails of one context polled in a round, at most */
#define OPENREG_BACKOFF_MAX_NS 1000000ULL /* longest time between two polls of a WAIT */

#define OPENREG_WAIT_BITS 64 /* words of WAITs are told apart by so many bits */

struct fill;
struct openreg_card;
struct queue;
struct segment;
struct worker;

struct sched {
	pthread_mutex_t lock;
	struct queue *awake;
	struct queue *lent; /* queue that a lent thread works on */
	unsigned int nawake; /* queues on awake */
	unsigned int nctx; /* contexts with a queue on awake */
	uint64_t round; /* number of this round of polls */
	unsigned int nwaiting; /* queues with waiting set */
	atomic_uint words[OPENREG_WAIT_BITS]; /* queues that wait on a word with this bit */
	atomic_uint_fast64_t poked; /* bits of the words that others have stored */
	atomic_bool poked_all;
	atomic_uint ntickets; /* queues that hold a ticket */
	uint64_t tickets; /* the last ticket */
	struct queue *door[OPENREG_MAX_DOORBELLS]; /* queues of each page */
	struct worker *poller; /* the idle worker that polls for all */
	uint64_t min_vruntime;
	uint64_t served; /* counts picks */
	uint64_t last_work; /* when a thread last released a queue */
	struct fill *fills;
	struct segment *clears; /* for the copy thread, after the fills */
	struct segment *last_clear; /* valid unless clears is empty */
	struct segment *cleared; /* for the admin thread to release */
	bool fill_turn; /* the copy thread's next slice is a fill or a clear */
};

enum pick { PICK_NONE, PICK_TURN, PICK_SLICE };
enum pick sched_pick(struct worker *w, struct queue **q, uint32_t *slice);
bool sched_better(const struct queue *a, const struct queue *b);
bool sched_ready(struct worker *w, const struct queue *but);
bool sched_sleep_idle(struct worker *w, uint64_t now, uint64_t *timeout);
void sched_queue_wake(struct queue *q);
void sched_queue_remove(struct queue *q);
void sched_release(struct queue *q, uint64_t ns);
void sched_set_waiting(struct queue *q, bool waiting);
bool sched_must_wait_for_memory(struct queue *q);
void sched_add_memory_waiter(struct queue *q);
void sched_got_memory(struct queue *q);
void sched_signal(struct queue *from, uint64_t word, uint64_t value);
void sched_wake_poller(struct openreg_card *card);
void sched_ensure_polled(struct openreg_card *card);

/* wake.c */
#define WORD_VRAM 1ULL /* set in the number of a word in VRAM */
#define WORD_BUS 2ULL /* set in the number of a word on the bus */
void wake_expect(struct queue *q, uint64_t word);
void wake_forget(struct queue *q);
bool wake_try(struct queue *q, uint64_t word, uint64_t value);
void wake_take_pokes(struct openreg_card *card);

#endif
