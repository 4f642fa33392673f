/* SPDX-License-Identifier: MIT */
/*
 * The scheduler: which queue runs next. Contexts share the time of the workers: the
 * context with the least virtual time is first. Priority orders the queues of a context.
 *
 * A queue is awake while workers poll its tail. The asleep word of its card page is 0
 * only while some thread is certain to poll the tail again.
 */
#include "core.h"
#include "exec.h"
#include "queue.h"

#define C_PAGE(field) offsetof(struct openreg_card_page, field)
#define LAG_NS OPENREG_DECIDE_NS /* credit that an idle context may keep */
#define BACKOFF_MIN_NS 5000ULL

static void list_add(struct queue *q)
{
	struct sched *sched = &q->card->sched;

	q->awake_next = sched->awake;
	if (q->awake_next)
		q->awake_next->awake_pprev = &q->awake_next;
	q->awake_pprev = &sched->awake;
	sched->awake = q;
	sched->nawake++;
	if (!q->ctx->nawake++)
		sched->nctx++;
	q->awake = true;
	q->asleep_clear = false;
	q->poll_round = 0;
	q->tail = q->head;
	q->last_active = now_ns();
}

/* sched.lock is held. */
void sched_queue_remove(struct queue *q)
{
	struct sched *sched = &q->card->sched;

	if (!q->awake)
		return;
	*q->awake_pprev = q->awake_next;
	if (q->awake_next)
		q->awake_next->awake_pprev = q->awake_pprev;
	sched->nawake--;
	if (!--q->ctx->nawake)
		sched->nctx--;
	q->awake = false;
}

static void store_awake(struct queue *q)
{
	const struct openreg_host_ops *ops = q->card->ops;
	void *host = q->card->host;

	/* In this order: a reader of the new wakes must not see the old asleep. */
	ops->store32(host, q->page, C_PAGE(asleep), 0);
	ops->store64(host, q->page, C_PAGE(wakes), ++q->wakes);
	q->asleep_clear = true;
}

/* sched.lock is held. The first poll of the tail clears the asleep word. */
void sched_queue_wake(struct queue *q)
{
	q->next_poll = 0;
	if (!q->awake && q->state == OPENREG_QUEUE_RUNNING)
		list_add(q);
}

/* Wakes the queues of every doorbell that rang since the last call. */
static void take_doorbells(struct openreg_card *card)
{
	struct queue *q;
	unsigned int i;

	for (i = 0; i < OPENREG_MAX_DOORBELLS / 64; i++) {
		uint64_t bits = atomic_load(&card->doors[i]);

		if (bits)
			bits = atomic_exchange(&card->doors[i], 0);
		while (bits) {
			unsigned int bit = (unsigned int)__builtin_ctzll(bits);

			bits &= bits - 1;
			q = card->sched.door[i * 64 + bit];
			for (; q; q = q->door_next)
				sched_queue_wake(q);
		}
	}
}

/* How many tails of a context may be polled in a round. */
static unsigned int max_polls(const struct sched *sched)
{
	unsigned int each = OPENREG_POLLS / sched->nctx;

	if (sched->nawake <= OPENREG_POLLS || each > OPENREG_POLLS_EACH)
		return OPENREG_POLLS_EACH;
	return each ? each : 1;
}

/*
 * Limits the polls of a round. A poll takes time, behind an IOMMU a lot, and the
 * scheduler picks no queue before the round ends. So the tails of a context with many
 * queues take turns over several rounds.
 */
static bool may_poll(struct queue *q)
{
	uint64_t round = q->card->sched.round;
	unsigned int most = max_polls(&q->card->sched);
	struct context *ctx = q->ctx;

	if (ctx->nawake > most) {
		if (ctx->round != round)
			ctx->polls = 0;
		ctx->round = round;
		if (ctx->polls >= most ||
		    round - q->poll_round < (ctx->nawake + most - 1) / most)
			return false;
		ctx->polls++;
	}
	q->poll_round = round;
	return true;
}

static bool has_packet(struct queue *q)
{
	/* An earlier poll found a packet, but another queue was picked. */
	if (q->tail != q->head)
		return true;
	if (!may_poll(q))
		return false;
	if (!q->asleep_clear)
		store_awake(q);
	q->tail = queue_tail(q);
	return q->tail != q->head;
}

static enum pick runnable(struct queue *q, uint64_t now)
{
	if (q->state != OPENREG_QUEUE_RUNNING || atomic_load(&q->stop))
		return PICK_NONE;
	if (q->active == ACTIVE_JOB)
		return q->job.next < q->job.slices && !q->job.failed ?
			       PICK_SLICE : PICK_NONE;
	if (q->owners || q->active != ACTIVE_NONE || q->stop_at_end)
		return PICK_NONE;
	if (q->waiting)
		return now >= q->next_poll ? PICK_TURN : PICK_NONE;
	return has_packet(q) ? PICK_TURN : PICK_NONE;
}

/* Is the queue in the line for memory, or does it hold memory while others are? */
static bool has_memory_priority(const struct queue *q)
{
	return q->ticket ||
	       (q->job.memory && atomic_load(&q->card->sched.ntickets));
}

/* sched.lock is held. */
bool sched_better(const struct queue *a, const struct queue *b)
{
	if (a->ctx != b->ctx)
		return a->ctx->vruntime < b->ctx->vruntime;
	if (has_memory_priority(a) != has_memory_priority(b))
		return has_memory_priority(a);
	if (a->cfg.priority != b->cfg.priority)
		return a->cfg.priority > b->cfg.priority;
	return a->served < b->served;
}

static void claim(struct openreg_card *card, struct queue *q, enum pick pick,
		  uint32_t *slice)
{
	struct sched *sched = &card->sched;
	struct context *ctx = q->ctx;

	if (ctx->vruntime + LAG_NS < sched->min_vruntime)
		ctx->vruntime = sched->min_vruntime - LAG_NS;
	if (ctx->vruntime > sched->min_vruntime)
		sched->min_vruntime = ctx->vruntime;
	q->served = ++sched->served;
	q->polled_signals = ctx->signals;
	q->owners++;
	if (pick == PICK_SLICE) {
		*slice = q->job.next++;
		q->job.running++;
	}
}

/* sched.lock is held. Picks a queue and counts the caller as one of its owners. */
enum pick sched_pick(struct worker *w, struct queue **picked, uint32_t *slice)
{
	struct openreg_card *card = w->card;
	enum pick best = PICK_NONE;
	uint64_t now = now_ns();
	struct queue *q;

	take_doorbells(card);
	wake_take_pokes(card);
	if (!card->sched.awake)
		return PICK_NONE;
	card->sched.round++;
	access_begin(w);
	for (q = card->sched.awake; q; q = q->awake_next) {
		enum pick pick = runnable(q, now);

		if (pick == PICK_NONE)
			continue;
		if (best == PICK_NONE || sched_better(q, *picked)) {
			*picked = q;
			best = pick;
		}
	}
	access_end(w);
	if (best != PICK_NONE)
		claim(card, *picked, best, slice);
	return best;
}

/* Is there work for a compute worker in a queue other than this one? */
bool sched_ready(struct worker *w, const struct queue *but)
{
	struct openreg_card *card = w->card;
	uint64_t now = now_ns();
	bool ready = false;
	struct queue *q;

	pthread_mutex_lock(&card->sched.lock);
	take_doorbells(card);
	wake_take_pokes(card);
	card->sched.round++;
	access_begin(w);
	for (q = card->sched.awake; q && !ready; q = q->awake_next)
		ready = q != but && runnable(q, now) != PICK_NONE;
	/* The loop ended early: the queues that it did not reach keep their round. */
	if (ready)
		card->sched.round--;
	access_end(w);
	pthread_mutex_unlock(&card->sched.lock);
	return ready;
}

/* Sets asleep, then reads the tail again: a packet published before that is seen. */
static bool put_to_sleep(struct queue *q)
{
	q->card->ops->store32(q->card->host, q->page, C_PAGE(asleep), 1);
	q->tail = queue_tail(q);
	if (q->tail == q->head) {
		sched_queue_remove(q);
		return true;
	}
	store_awake(q);
	return false;
}

/*
 * sched.lock is held, and was not dropped after sched_pick() found no work. Puts queues
 * to sleep that this round polled and that have been idle for spin_us. Returns true if
 * a queue still needs polling. *timeout: ns until a waiting queue is due, or 0.
 */
bool sched_sleep_idle(struct worker *w, uint64_t now, uint64_t *timeout)
{
	struct openreg_card *card = w->card;
	uint64_t spin = card->config.spin_us * 1000ULL;
	struct queue *q, *next;
	bool poll = false;

	*timeout = 0;
	access_begin(w);
	for (q = card->sched.awake; q; q = next) {
		next = q->awake_next;
		if (q->owners || q->active != ACTIVE_NONE) {
			/* A worker polls again after its work; a lent thread need not. */
			poll |= q == card->sched.lent;
			continue;
		}
		if (q->state != OPENREG_QUEUE_RUNNING) {
			sched_queue_remove(q);
		} else if (q->waiting) {
			uint64_t due = q->next_poll > now ?
					       q->next_poll - now : 1;

			if (!*timeout || due < *timeout)
				*timeout = due;
		} else if (now < q->last_active + spin ||
			   q->poll_round != card->sched.round || !put_to_sleep(q)) {
			poll = true;
		}
	}
	access_end(w);
	return poll;
}

/* sched.lock is held. Moves the queue to the end of the line for memory, or out. */
static void set_ticket(struct queue *q, bool wanted)
{
	struct sched *sched = &q->card->sched;

	if (wanted && !q->ticket)
		atomic_fetch_add(&sched->ntickets, 1);
	if (!wanted && q->ticket)
		atomic_fetch_sub(&sched->ntickets, 1);
	q->ticket = wanted ? ++sched->tickets : 0;
}

/* Has a queue of another context waited for memory for longer than this one? */
bool sched_must_wait_for_memory(struct queue *q)
{
	struct sched *sched = &q->card->sched;
	bool must = false;
	struct queue *o;

	if (!atomic_load(&sched->ntickets))
		return false;
	pthread_mutex_lock(&sched->lock);
	for (o = sched->awake; o && !must; o = o->awake_next)
		must = o->ticket && o->ctx != q->ctx &&
		       (!q->ticket || o->ticket < q->ticket);
	pthread_mutex_unlock(&sched->lock);
	return must;
}

/* The card had no memory for the queue's job: the queue joins the line for memory. */
void sched_add_memory_waiter(struct queue *q)
{
	struct sched *sched = &q->card->sched;

	pthread_mutex_lock(&sched->lock);
	if (!q->ticket)
		set_ticket(q, true);
	pthread_mutex_unlock(&sched->lock);
}

/* The queue got memory: others of its context go to the end of the line. */
void sched_got_memory(struct queue *q)
{
	struct sched *sched = &q->card->sched;
	struct queue *o;

	if (!atomic_load(&sched->ntickets))
		return;
	pthread_mutex_lock(&sched->lock);
	set_ticket(q, false);
	for (o = sched->awake; o; o = o->awake_next)
		if (o->ticket && o->ctx == q->ctx)
			set_ticket(o, true);
	pthread_mutex_unlock(&sched->lock);
}

static void begin_wait(struct queue *q)
{
	if (!q->waiting) {
		q->card->sched.nwaiting++;
		q->backoff_ns = BACKOFF_MIN_NS;
	} else if (q->backoff_ns < OPENREG_BACKOFF_MAX_NS / 2) {
		q->backoff_ns *= 2;
	} else {
		q->backoff_ns = OPENREG_BACKOFF_MAX_NS;
	}
	q->waiting = true;
	q->next_poll = now_ns() + q->backoff_ns;
	/* A SIGNAL came after the queue was picked: try again at once. */
	if (q->polled_signals != q->ctx->signals || q->signalled)
		q->next_poll = 0;
	q->signalled = false;
}

/* sched.lock is held. */
void sched_set_waiting(struct queue *q, bool waiting)
{
	if (waiting) {
		/* The slot may hold another packet by now; only compute needs memory. */
		if (!openreg_is_compute(q->header.opcode))
			set_ticket(q, false);
		begin_wait(q);
		return;
	}
	if (q->waiting)
		q->card->sched.nwaiting--;
	q->waiting = false;
	q->signalled = false;
	wake_forget(q);
	set_ticket(q, false);
}

static bool must_stop(const struct queue *q)
{
	return atomic_load(&q->stop) ||
	       (q->stop_at_end && q->active == ACTIVE_NONE);
}

/* sched.lock is held. An owner releases the queue after ns of work. */
void sched_release(struct queue *q, uint64_t ns)
{
	struct openreg_card *card = q->card;
	uint64_t now = now_ns();

	q->ctx->vruntime += ns;
	q->last_active = now;
	card->sched.last_work = now;
	q->owners--;
	if (q->owners || !must_stop(q))
		return;
	queue_drop_work(q);
	sched_queue_remove(q);
	if (q->state == OPENREG_QUEUE_RUNNING) {
		queue_store_state(q, OPENREG_QUEUE_STOPPED);
		q->state = OPENREG_QUEUE_STOPPED;
	}
	gate_kick_admin(card);
}

/*
 * A SIGNAL was stored. Every waiting queue of its context is due at once. A queue of
 * another context is due only if it waits on this word and the value ends its WAIT: each
 * try is charged to its context, which a flood of SIGNALs must not slow down.
 */
void sched_signal(struct queue *from, uint64_t word, uint64_t value)
{
	struct openreg_card *card = from->card;
	struct sched *sched = &card->sched;
	struct queue *q;
	bool any = false;

	pthread_mutex_lock(&sched->lock);
	from->ctx->signals++;
	for (q = sched->nctx > 1 || sched->nwaiting ? sched->awake : NULL; q;
	     q = q->awake_next) {
		if (q->ctx != from->ctx) {
			any |= wake_try(q, word, value);
		} else if (q->waiting) {
			q->next_poll = 0;
			any = true;
		}
	}
	pthread_mutex_unlock(&sched->lock);
	if (any)
		gate_wake(card, 1);
}

/* The calling worker will be busy for long: wakes another one to poll the tails. */
void sched_wake_poller(struct openreg_card *card)
{
	bool watch;

	pthread_mutex_lock(&card->sched.lock);
	watch = card->sched.nawake > 1 && !card->sched.poller;
	pthread_mutex_unlock(&card->sched.lock);
	if (watch)
		gate_wake(card, 1);
}

/*
 * A queue has lost its owner, so a worker must poll its tail. A worker that is awake does
 * so after its work. If that work is long, sched_wake_poller() has woken another one. So
 * this wakes a worker only if all of them sleep.
 */
void sched_ensure_polled(struct openreg_card *card)
{
	gate_count_event(card);
	if (atomic_load(&card->gate.sleepers) == card->config.workers)
		gate_wake(card, 1);
}
