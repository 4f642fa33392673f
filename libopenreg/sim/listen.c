// SPDX-License-Identifier: MIT
/*
 * SIGNALs between processes. A SIGNAL into shared memory counts in the header of the
 * memfd, and wakes the threads that sleep on this count: one thread for each card that has
 * waited on a word of the memfd. The thread then has its card look at its WAITs.
 *
 * A SIGNAL needs a system call only while such a thread sleeps. Other processes may write
 * the header as they like: they can delay a wake-up until the card's next poll, or cause
 * needless ones, which listen_main() limits.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim.h"

#define MAX_BELLS 127 /* and the futex of the listener itself: FUTEX_WAITV_MAX */
#define BURST 64 /* wake-ups in a row; then one in PACE_NS */
#define PACE_NS 20000

static void wake_futex(uint32_t *word, int flags)
{
	syscall(SYS_futex, word, FUTEX_WAKE | flags, INT_MAX, NULL, NULL, 0);
}

static void kick(struct sim_listener *l)
{
	__atomic_fetch_add(&l->kicks, 1, __ATOMIC_SEQ_CST);
	wake_futex(&l->kicks, FUTEX_PRIVATE_FLAG);
}

/* Under the card's lock. */
static void put_bell(struct sim_bell *b)
{
	if (--b->users)
		return;
	munmap(b->header, SIM_PAGE);
	free(b);
}

static uint32_t count(const struct sim_bell *b)
{
	return __atomic_load_n(&b->header->signals, __ATOMIC_SEQ_CST);
}

/* The listener's set of bells in this round. */
struct round {
	struct futex_waitv wait[1 + MAX_BELLS];
	struct sim_bell *bells[MAX_BELLS];
	unsigned int num;
	bool rang; /* a SIGNAL came since the last round */
};

static void watch(uint32_t *word, uint32_t value, int flags, struct futex_waitv *w)
{
	*w = (struct futex_waitv){
		.val = value,
		.uaddr = (uintptr_t)word,
		.flags = (uint32_t)(FUTEX_32 | flags),
	};
}

static void begin_round(struct sim_card *c, struct round *r)
{
	struct sim_file *f;

	r->num = 0;
	r->rang = false;
	watch(&c->listener.kicks, __atomic_load_n(&c->listener.kicks, __ATOMIC_SEQ_CST),
	      FUTEX_PRIVATE_FLAG, &r->wait[0]);
	pthread_mutex_lock(&c->lock);
	for (f = c->waited; f && r->num < MAX_BELLS; f = f->next_waited) {
		struct sim_bell *b = f->bell;
		uint32_t now;

		/* Say that this thread sleeps before reading the count, or lose a wake-up. */
		if (!b->readonly)
			__atomic_fetch_add(&b->header->sleepers, 1, __ATOMIC_SEQ_CST);
		now = count(b);
		r->rang |= now != b->seen;
		b->seen = now;
		b->users++;
		r->bells[r->num++] = b;
		watch(&b->header->signals, now, 0, &r->wait[r->num]);
	}
	pthread_mutex_unlock(&c->lock);
}

static void end_round(struct sim_card *c, struct round *r)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned int i = 0; i < r->num; i++) {
		struct sim_bell *b = r->bells[i];

		if (!b->readonly)
			__atomic_fetch_sub(&b->header->sleepers, 1, __ATOMIC_SEQ_CST);
		put_bell(b);
	}
	pthread_mutex_unlock(&c->lock);
}

/* A process that rings all the time takes only a part of a processor here. */
static void pace(int64_t *credit_ns, int64_t *last)
{
	const int64_t now = sim_now();

	*credit_ns += now - *last;
	if (*credit_ns > BURST * PACE_NS)
		*credit_ns = BURST * PACE_NS;
	*last = now;
	*credit_ns -= PACE_NS;
	if (*credit_ns < 0)
		sim_sleep_ms(1);
}

static void *listen_main(void *opaque)
{
	struct sim_card *c = opaque;
	struct sim_listener *l = &c->listener;
	int64_t credit_ns = 0, last = 0;
	struct round *r = malloc(sizeof(*r));
	long ret = 0;

	while (r && ret >= 0 && !__atomic_load_n(&l->stop, __ATOMIC_SEQ_CST)) {
		begin_round(c, r);
		if (r->rang)
			openreg_card_poke(c->card, OPENREG_POKE_ALL);
		else
			ret = syscall(SYS_futex_waitv, r->wait, 1 + r->num, 0, NULL, 0);
		end_round(c, r);
		/* EAGAIN: a count changed before the sleep. ENOSYS: the card polls. */
		if (ret < 0 && (errno == EAGAIN || errno == EINTR))
			ret = 0;
		if (r->rang)
			pace(&credit_ns, &last);
	}
	free(r);
	return NULL;
}

static void start(struct sim_card *c)
{
	struct sim_listener *l = &c->listener;
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	l->started = !pthread_create(&l->thread, NULL, listen_main, c);
	if (l->started)
		pthread_setname_np(l->thread, "openreg-listen");
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* The number of shared files before this address. Every SIGNAL and WAIT looks here. */
static size_t before(const struct sim_card *c, const uint8_t *at)
{
	size_t low = 0, high = c->num_shared;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (c->shared[middle]->at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool make_room(struct sim_card *c)
{
	const size_t room = c->room_shared ? 2 * c->room_shared : 16;
	struct sim_file **more;

	if (c->num_shared < c->room_shared)
		return true;
	more = realloc(c->shared, room * sizeof(struct sim_file *));
	if (!more)
		return false;
	c->shared = more;
	c->room_shared = room;
	return true;
}

/* Without memory, WAITs on this file end at the next poll of their card. */
void sim_listen_add(struct sim_card *c, struct sim_file *f)
{
	size_t i;

	if (!make_room(c))
		return;
	i = before(c, f->at);
	memmove(c->shared + i + 1, c->shared + i, (c->num_shared - i) * sizeof(c->shared[0]));
	c->shared[i] = f;
	__atomic_store_n(&c->num_shared, c->num_shared + 1, __ATOMIC_RELEASE);
	if (!c->listener.started)
		start(c);
}

void sim_listen_remove(struct sim_card *c, struct sim_file *f)
{
	const size_t i = before(c, f->at);

	if (!f->bell)
		return;
	if (i < c->num_shared && c->shared[i] == f) {
		memmove(c->shared + i, c->shared + i + 1,
			(c->num_shared - i - 1) * sizeof(c->shared[0]));
		__atomic_store_n(&c->num_shared, c->num_shared - 1, __ATOMIC_RELEASE);
	}
	put_bell(f->bell);
	f->bell = NULL;
	if (!f->waited)
		return;
	*f->prev_waited = f->next_waited;
	if (f->next_waited)
		f->next_waited->prev_waited = f->prev_waited;
	kick(&c->listener);
}

/* Under the card's lock. */
static void listen_to(struct sim_card *c, struct sim_file *f)
{
	/* The card reads the word again after this: a later SIGNAL counts. */
	f->waited = true;
	f->bell->seen = count(f->bell);
	f->next_waited = c->waited;
	f->prev_waited = &c->waited;
	if (c->waited)
		c->waited->prev_waited = &f->next_waited;
	c->waited = f;
	kick(&c->listener);
}

void sim_listen_stop(struct sim_card *c)
{
	if (!c->listener.started)
		return;
	__atomic_store_n(&c->listener.stop, true, __ATOMIC_SEQ_CST);
	kick(&c->listener);
	pthread_join(c->listener.thread, NULL);
}

/* Under the card's lock: the shared memory that has this word, or NULL. */
static struct sim_file *find(struct sim_card *c, bool vram, uint64_t at)
{
	const uint8_t *p = vram ? c->vram + at : (const uint8_t *)(uintptr_t)at;
	const size_t i = before(c, p + 1);

	return i && p < c->shared[i - 1]->at + c->shared[i - 1]->size ? c->shared[i - 1] :
									NULL;
}

static void ring(struct sim_bell *b)
{
	struct sim_header *h = b->header;

	__atomic_fetch_add(&h->signals, 1, __ATOMIC_SEQ_CST);
	/* A process that may only read cannot say that it sleeps. */
	if (b->sealed || __atomic_load_n(&h->sleepers, __ATOMIC_SEQ_CST))
		wake_futex(&h->signals, 0);
}

/* Locks the card and returns the shared object of a word; NULL, unlocked, if it has none. */
static struct sim_file *find_locked(struct sim_card *c, bool vram, uint64_t at)
{
	struct sim_file *f;

	if (!__atomic_load_n(&c->num_shared, __ATOMIC_ACQUIRE))
		return NULL;
	pthread_mutex_lock(&c->lock);
	f = find(c, vram, at);
	if (!f)
		pthread_mutex_unlock(&c->lock);
	return f;
}

void sim_signalled(void *host, bool vram, uint64_t at)
{
	struct sim_card *c = host;
	struct sim_file *f = find_locked(c, vram, at);

	if (!f)
		return;
	if (!f->bell->readonly)
		ring(f->bell);
	pthread_mutex_unlock(&c->lock);
}

void sim_waiting(void *host, bool vram, uint64_t at)
{
	struct sim_card *c = host;
	struct sim_file *f = find_locked(c, vram, at);

	if (!f)
		return;
	if (!f->waited)
		listen_to(c, f);
	pthread_mutex_unlock(&c->lock);
}
