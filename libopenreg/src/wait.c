// SPDX-License-Identifier: MIT
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <unistd.h>

#include "internal.h"

/* About the time to wake a sleeping card, plus the time to wake a sleeping waiter. */
#define DEFAULT_SPIN_NS 100000
#define POLLS_PER_CLOCK 32

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

/*
 * With one CPU do not poll: polling only keeps the card from this CPU. A transport with
 * lend() decides at each poll instead.
 */
static int64_t default_spin(const struct openreg_queue *q)
{
	cpu_set_t set;

	if (!q->dev->ops->lend && sched_getaffinity(0, sizeof(set), &set) == 0 &&
	    CPU_COUNT(&set) == 1)
		return 0;
	return DEFAULT_SPIN_NS;
}

API void openreg_queue_set_spin(struct openreg_queue *q, int64_t spin_ns)
{
	if (spin_ns < 0)
		spin_ns = -default_spin(q);
	__atomic_store_n(&q->spin_ns, spin_ns, __ATOMIC_RELAXED);
}

uint64_t openreg_queue_progress(const struct openreg_queue *q)
{
	if (unlikely(!*q->mine))
		return 0;
	return __atomic_load_n(&q->t.card->completed, __ATOMIC_ACQUIRE);
}

API uint64_t openreg_queue_completed(const struct openreg_queue *q)
{
	const uint64_t seq = openreg_queue_progress(q);

	if (unlikely(q->dev->checks))
		openreg_checks_seen(q, seq);
	return seq;
}

API int openreg_queue_done(const struct openreg_queue *q, uint64_t seq)
{
	if (openreg_queue_progress(q) < seq)
		return 0;
	if (unlikely(q->dev->checks))
		openreg_checks_seen(q, seq);
	return 1;
}

static uint32_t queue_state(const struct openreg_queue *q)
{
	return __atomic_load_n(&q->t.card->state, __ATOMIC_ACQUIRE);
}

/* 1: completed, 0: not yet, -errno: never. */
static int poll_queue(struct openreg_queue *q, uint64_t seq)
{
	uint32_t state;

	if (openreg_queue_progress(q) >= seq)
		return 1;
	state = queue_state(q);
	if (likely(state == OPENREG_QUEUE_RUNNING))
		return 0;
	/* Ask the kernel: the queue stopped for good, or a reset will restart it. */
	if (state == OPENREG_QUEUE_STOPPED)
		return 0;
	/* Read the counter again: seq may have completed just before the fault. */
	if (openreg_queue_progress(q) >= seq)
		return 1;
	return openreg_queue_fail(q, state);
}

static enum lend lend(struct openreg_queue *q)
{
	const struct transport_ops *ops = q->dev->ops;

	return ops->lend ? ops->lend(q->dev->t) : LEND_POLL;
}

/* End of a spin of ns nanoseconds that begins now. */
static int64_t end_of_spin(int64_t ns, int64_t deadline)
{
	int64_t now = openreg_now_ns();

	return ns < deadline - now ? now + ns : deadline;
}

static int spin(struct openreg_queue *q, uint64_t seq, int64_t deadline)
{
	int64_t ns = __atomic_load_n(&q->spin_ns, __ATOMIC_RELAXED);
	const bool given = ns > 0;
	enum lend found;
	int64_t end;
	int ret;

	if (!ns)
		return 0;
	if (!given)
		ns = -ns;
	end = end_of_spin(ns, deadline);
	do {
		found = lend(q);
		/* A spin time that the caller has set applies without exception. */
		if (found == LEND_SLEEP && !given)
			return 0;
		/* The thread has worked for the card: begin the spin again. */
		if (found == LEND_WORKED)
			end = end_of_spin(ns, deadline);
		for (int i = 0; i < POLLS_PER_CLOCK; i++) {
			ret = poll_queue(q, seq);
			if (ret)
				return ret;
			relax();
		}
	} while (openreg_now_ns() < end);
	return 0;
}

static int fail_wait(struct openreg_queue *q, uint64_t seq, int error)
{
	uint64_t done = openreg_queue_progress(q);

	if (error == -ETIME)
		return openreg_fail(error,
				    "packet %" PRIu64 " of queue %u has not completed in time: the last completed packet is %" PRIu64,
				    seq, q->t.number, done);
	if (error == -EIO && queue_state(q) != OPENREG_QUEUE_RUNNING)
		return openreg_queue_fail(q, queue_state(q));
	return openreg_fail(error,
			    "waiting for packet %" PRIu64 " of queue %u on %s: %s",
			    seq, q->t.number, q->dev->info.path,
			    openreg_strerror(error));
}

static int wait_until(struct openreg_queue *q, uint64_t seq, int64_t deadline_ns)
{
	int ret;

	if (unlikely(!*q->mine))
		return openreg_fail_forked();
	ret = poll_queue(q, seq);
	if (ret)
		return ret > 0 ? 0 : ret;
	if (queue_state(q) != OPENREG_QUEUE_STOPPED) {
		if (deadline_ns <= 0)
			return fail_wait(q, seq, -ETIME);
		ret = spin(q, seq, deadline_ns);
		if (ret)
			return ret > 0 ? 0 : ret;
	}
	__atomic_fetch_add(&q->sleeps, 1, __ATOMIC_RELAXED);
	if (unlikely(q->timeline.on))
		openreg_timeline_begin_call(q, TIMELINE_SLEEP_BEGIN, seq);
	ret = q->dev->ops->queue_wait(q->dev->t, &q->t, seq, deadline_ns);
	if (unlikely(q->timeline.on))
		openreg_timeline_end_call(q, ret);
	return ret ? fail_wait(q, seq, ret) : 0;
}

static int wait_on_timeline(struct openreg_queue *q, uint64_t seq, int64_t deadline_ns)
{
	int ret;

	if (!*q->mine || openreg_queue_progress(q) >= seq)
		return wait_until(q, seq, deadline_ns);
	openreg_timeline_begin_call(q, TIMELINE_WAIT_BEGIN, seq);
	ret = wait_until(q, seq, deadline_ns);
	openreg_timeline_end_call(q, ret);
	openreg_timeline_waited(q);
	return ret;
}

API int openreg_queue_wait_until(struct openreg_queue *q, uint64_t seq,
				 int64_t deadline_ns)
{
	const int ret = unlikely(q->timeline.on) ? wait_on_timeline(q, seq, deadline_ns) :
						   wait_until(q, seq, deadline_ns);

	if (unlikely(q->dev->checks)) {
		if (!ret)
			openreg_checks_seen(q, seq);
		openreg_checks_print(q->dev);
	}
	return ret;
}

API int openreg_queue_wait(struct openreg_queue *q, uint64_t seq,
			   int64_t timeout_ns)
{
	int64_t now;

	if (timeout_ns < 0)
		return openreg_queue_wait_until(q, seq, INT64_MAX);
	if (timeout_ns == 0)
		return openreg_queue_wait_until(q, seq, 0);
	now = openreg_now_ns();
	if (timeout_ns > INT64_MAX - now)
		return openreg_queue_wait_until(q, seq, INT64_MAX);
	return openreg_queue_wait_until(q, seq, now + timeout_ns);
}
