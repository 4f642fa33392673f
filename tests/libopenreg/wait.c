// SPDX-License-Identifier: MIT
// test wait-one-cpu not sim: --cpus 1
/* Waits: polling and asleep, with timeouts, by many threads. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

/* A word on which a queue waits until gate_open() sets it. */
struct gate {
	struct card *c;
	struct openreg_bo *bo;
	uint64_t seq;
};

static void gate_close(struct gate *g, struct card *c)
{
	g->c = c;
	g->bo = vram(c, 4096);
	ok(openreg_push_wait(c->q, address(g->bo), OPENREG_WAIT_EQ, 1));
	g->seq = (uint64_t)ok(openreg_queue_submit(c->q));
}

static void gate_open(struct gate *g)
{
	struct card other = { .dev = g->c->dev };

	ok(openreg_queue_create(other.dev, NULL, &other.q));
	ok(openreg_push_signal(other.q, address(g->bo), OPENREG_SIGNAL_SET, 1));
	run(&other);
	openreg_queue_destroy(other.q);
}

static void gate_end(struct gate *g)
{
	ok(openreg_queue_wait(g->c->q, g->seq, LONG));
	openreg_bo_free(g->bo);
}

static void test_timeouts(void **state)
{
	static const int64_t spins[] = { 0, 1000, SECOND };
	struct card *c = *state;
	struct gate g;

	gate_close(&g, c);
	for (size_t i = 0; i < COUNT(spins); i++) {
		int64_t begin;

		openreg_queue_set_spin(c->q, spins[i]);
		fails(openreg_queue_wait(c->q, g.seq, 0), ETIME, "in time");
		begin = now();
		fails(openreg_queue_wait(c->q, g.seq, SECOND / 100), ETIME,
		      "in time");
		assert_true(now() - begin >= SECOND / 100);
		fails(openreg_queue_wait_until(c->q, g.seq, now() - 1), ETIME,
		      "in time");
		fails(openreg_queue_wait_until(c->q, g.seq, -5), ETIME,
		      "in time");
		begin = now() + SECOND / 100;
		fails(openreg_queue_wait_until(c->q, g.seq, begin), ETIME,
		      "in time");
		assert_true(now() >= begin);
	}
	gate_open(&g);
	gate_end(&g);
}

static void test_past(void **state)
{
	struct card *c = *state;

	ok(openreg_queue_wait(c->q, 0, 0));
	ok(openreg_push_nop(c->q));
	run(c);
	ok(openreg_queue_wait(c->q, 1, 0));
	ok(openreg_queue_wait(c->q, 1, INT64_MAX));
	ok(openreg_queue_wait_until(c->q, 1, INT64_MIN));
	/* A packet that was not submitted. */
	fails(openreg_queue_wait(c->q, 2, SECOND / 100), ETIME, "packet 2");
	fails(openreg_queue_wait(c->q, UINT64_MAX, SECOND / 100), ETIME, "");
}

static void test_asleep(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4 << 20);
	struct openreg_queue_stats stats;

	openreg_queue_set_spin(c->q, 0);
	for (int i = 0; i < 1000; i++) {
		/* Most packets complete before the wait; a large fill does not. */
		if (i % 10)
			ok(openreg_push_nop(c->q));
		else
			ok(openreg_fill_async(c->q, address(bo), 1, 4 << 20));
		run(c);
	}
	ok(openreg_queue_get_stats(c->q, &stats));
	assert_true(stats.sleeps > 0);
	assert_int_equal(openreg_queue_completed(c->q),
			 openreg_queue_submitted(c->q));
	openreg_bo_free(bo);
}

static void test_spinning(void **state)
{
	struct card *c = *state;
	struct openreg_queue_stats stats;

	openreg_queue_set_spin(c->q, LONG);
	for (int i = 0; i < 1000; i++) {
		ok(openreg_push_nop(c->q));
		run(c);
	}
	ok(openreg_queue_get_stats(c->q, &stats));
	assert_int_equal(stats.sleeps, 0);
	assert_int_equal(stats.interrupts, 0);
}

struct waiter {
	pthread_t thread;
	struct openreg_queue *q;
	uint64_t seq;
	int ret;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;
	const int64_t end = now() + LONG;

	w->ret = openreg_queue_wait_until(w->q, w->seq, end);
	/* The wait ended by its timeout, not by a wake-up. */
	if (now() >= end)
		w->ret = -ETIME;
	if (w->ret == 0 && openreg_queue_completed(w->q) < w->seq)
		w->ret = -EBADE;
	return NULL;
}

/* Many threads sleep, each on its own packet of one queue; all wake. */
static void test_many_waiters(void **state)
{
	struct card *c = *state;
	struct waiter w[16];
	struct gate g;

	openreg_queue_set_spin(c->q, 0);
	gate_close(&g, c);
	for (size_t i = 0; i < COUNT(w); i++) {
		ok(openreg_push_nop(c->q));
		w[i].q = c->q;
		w[i].seq = (uint64_t)ok(openreg_queue_submit(c->q));
	}
	for (size_t i = 0; i < COUNT(w); i++)
		assert_int_equal(pthread_create(&w[i].thread, NULL, waiter_main,
						&w[COUNT(w) - 1 - i]), 0);
	usleep(20000);
	gate_open(&g);
	for (size_t i = 0; i < COUNT(w); i++)
		pthread_join(w[i].thread, NULL);
	for (size_t i = 0; i < COUNT(w); i++)
		assert_int_equal(w[i].ret, 0);
	gate_end(&g);
}

/* A fault wakes the waiters of packets that will never run. */
static void test_fault_wakes(void **state)
{
	struct card *c = *state;
	struct waiter w = { .q = c->q };
	struct openreg_fault_summary f;
	struct gate g;

	openreg_queue_set_spin(c->q, 0);
	gate_close(&g, c);
	ok(openreg_fill_async(c->q, address(g.bo) + 4096, 0, 1));
	ok(openreg_push_nop(c->q));
	w.seq = (uint64_t)ok(openreg_queue_submit(c->q));
	assert_int_equal(pthread_create(&w.thread, NULL, waiter_main, &w), 0);
	usleep(20000);
	gate_open(&g);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.ret, -EIO);
	/* The packet before the fault has completed. */
	ok(openreg_queue_wait(c->q, g.seq, 0));
	assert_int_equal(openreg_queue_fault(c->q, &f), 1);
	assert_int_equal(f.seq, g.seq + 1);
	ok(openreg_queue_reset(c->q));
	ok(openreg_queue_wait(c->q, w.seq, 0));
	gate_end(&g);
	still_works(c);
}

/*
 * The wake rule: the pauses between packets are about the time in which the card falls
 * asleep. A lost doorbell makes a wait time out.
 */
static void test_wake_rule(void **state)
{
	struct card *c = *state;
	struct openreg_queue_stats stats;

	const int64_t end = now() + 10 * SECOND;

	openreg_queue_set_spin(c->q, LONG);
	/* Fewer rounds on a busy machine, where polling waiters delay the card. */
	for (int i = 0; i < 3000 && (i < 400 || now() < end); i++) {
		const int64_t rest = now() + i % 400 * 1000;

		ok(openreg_push_nop(c->q));
		run(c);
		while (now() < rest)
			;
	}
	ok(openreg_queue_get_stats(c->q, &stats));
	assert_true(stats.doorbells >= 1);
	assert_true(stats.wakes >= stats.doorbells);
}

static void *open_later(void *gate)
{
	usleep(50000);
	gate_open(gate);
	return NULL;
}

/* A spin of INT64_MAX does not overflow: the wait polls and does not sleep. */
static void test_spinning_for_ever(void **state)
{
	struct card *c = *state;
	struct openreg_queue_stats before, after;
	pthread_t thread;
	struct gate g;

	gate_close(&g, c);
	openreg_queue_set_spin(c->q, INT64_MAX);
	ok(openreg_queue_get_stats(c->q, &before));
	assert_int_equal(pthread_create(&thread, NULL, open_later, &g), 0);
	ok(openreg_queue_wait(c->q, g.seq, -1));
	ok(openreg_queue_get_stats(c->q, &after));
	assert_int_equal(after.sleeps, before.sleeps);
	pthread_join(thread, NULL);
	gate_end(&g);
}

struct dropped {
	struct gate *g;
	int result;
};

static void *wait_for_dropped(void *data)
{
	struct dropped *w = data;

	w->result = openreg_queue_wait(w->g->c->q, w->g->seq, LONG);
	return NULL;
}

/* A reset completes polling and sleeping waits, although the queue stops for a moment. */
static void test_reset_completes(void **state)
{
	struct card *c = *state;

	for (int i = 0; i < 40; i++) {
		struct dropped w[2];
		pthread_t thread[2];
		struct gate g;

		gate_close(&g, c);
		openreg_queue_set_spin(c->q, i % 2 ? LONG : 0);
		for (int k = 0; k < 2; k++) {
			w[k] = (struct dropped){ &g, 1 };
			assert_int_equal(pthread_create(&thread[k], NULL,
							wait_for_dropped, &w[k]), 0);
		}
		usleep((unsigned int)(i % 5) * 3000);
		ok(openreg_queue_reset(c->q));
		for (int k = 0; k < 2; k++) {
			pthread_join(thread[k], NULL);
			assert_int_equal(w[k].result, 0);
		}
		gate_end(&g);
	}
}

/*
 * The wake rule without waits: the tail moves while the card falls asleep, wakes, and
 * falls asleep again.
 */
static void test_wake_rule_unwatched(void **state)
{
	struct card *c = *state;

	for (int i = 0; i < 20000; i++) {
		const int64_t rest = now() + i % 331 * 700;

		ok(openreg_push_nop(c->q));
		ok(openreg_queue_submit(c->q));
		while (i % 7 == 0 && now() < rest)
			;
	}
	ok(openreg_queue_wait(c->q, openreg_queue_submitted(c->q), LONG));
}

#define CARD_TEST(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARD_TEST(test_timeouts),
		CARD_TEST(test_past),
		CARD_TEST(test_asleep),
		CARD_TEST(test_spinning),
		CARD_TEST(test_many_waiters),
		CARD_TEST(test_fault_wakes),
		CARD_TEST(test_spinning_for_ever),
		CARD_TEST(test_reset_completes),
		CARD_TEST(test_wake_rule),
		CARD_TEST(test_wake_rule_unwatched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
