/* SPDX-License-Identifier: MIT */
/* Lent threads: waiting threads that do the card's work, on a single processor. */
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "host.h"

#define ROUNDS (20000 / SCALE)
#define THREADS 3
#define PART (64u << 10) /* bytes of VRAM for each thread */
#define NUMBERS 4096

#define ADDR(off) OPENREG_ADDR(0, 1, off)

static void finish(struct client_queue *q, unsigned int *lent)
{
	uint64_t end = host_now() + 60000000000ULL;

	while (client_done(q) < q->seq) {
		if (openreg_card_lend(rig_of(q)->card))
			++*lent;
		else
			host_rest();
		if (host_now() > end)
			fail_msg("packet %llu was lost", (unsigned long long)q->seq);
	}
}

static int setup(void **state)
{
	struct openreg_admin_cmd cmd = cmd_vram(1, 1, 0, HOST_VRAM, RW);

	if (rig_setup(state) || rig_op(*state, OPENREG_ADMIN_CTX_CREATE, 1, 0))
		return 1;
	return rig_admin(*state, &cmd) != 0;
}

/* One slow worker that does not poll. */
static int setup_slow(void **state)
{
	struct rig *rig = rig_new_spin(1, 0);

	*state = rig;
	openreg_card_free(rig->card);
	rig->config.slow_us = 2000;
	rig_make_card(rig);
	rig_enable(rig);
	return rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0) != 0;
}

/* The test hangs if a wake-up is lost or if no thread serves the queue any more. */
static void test_hand_offs(void **state)
{
	unsigned int i, lent = 0;
	struct client_queue q;

	tq_create(*state, &q, 1, 0);
	for (i = 0; i < ROUNDS; i++) {
		tq_nop(&q);
		client_publish(&q);
		if (i % 16)
			finish(&q, &lent);
		else
			tq_wait(&q);
	}
	assert_true(lent > 0);
}

static void pkt_add(struct pkt *p, uint64_t to, uint64_t a, uint64_t b, int64_t n)
{
	const int64_t one = 1;

	pkt_begin(p, OPENREG_OP_VECTOR, 1, &n);
	pkt_operand(p, to, OPENREG_F32, &one);
	pkt_operand(p, a, OPENREG_F32, &one);
	pkt_operand(p, b, OPENREG_F32, &one);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2);
	pkt_instr(p, OPENREG_V_ADD, OPENREG_VT_F32, 2, 0, 1, 0, 0);
	pkt_instr(p, OPENREG_V_STORE, OPENREG_VT_F32, 0, 2, 0, 0, 0);
}

/* The result does not depend on the rounding mode of the lent thread. */
static void test_rounding(void **state)
{
	struct rig *rig = *state;
	float *m = (float *)rig->vram;
	unsigned int i, lent = 0;
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	m[1] = 1;
	m[2] = 0x1p-25f;
	pkt_add(&p, ADDR(0), ADDR(4), ADDR(8), 1);
	for (i = 0; i < ROUNDS / 10; i++) {
		fesetround(i % 2 ? FE_UPWARD : FE_DOWNWARD);
		m[0] = 0;
		tq_push(&q, &p);
		client_publish(&q);
		finish(&q, &lent);
		assert_int_equal(fegetround(), i % 2 ? FE_UPWARD : FE_DOWNWARD);
		fesetround(FE_TONEAREST);
		assert_true(m[0] == 1);
	}
	assert_true(lent > 0);
}

struct thread {
	pthread_t thread;
	struct rig *rig;
	struct client_queue q;
	unsigned int index;
	unsigned int lent;
	unsigned int wrong;
};

/* x += y; every eighth packet is so large that several workers share it. */
static void *add_many(void *arg)
{
	struct thread *t = arg;
	const uint64_t at = t->index * PART;
	float *x = (float *)(t->rig->vram + at), *y = x + NUMBERS;
	unsigned int i, k;
	struct pkt p;

	for (k = 0; k < NUMBERS; k++) {
		x[k] = 0;
		y[k] = (float)(k % 7);
	}
	for (i = 0; i < ROUNDS / 20; i++) {
		pkt_add(&p, ADDR(at), ADDR(at), ADDR(at + NUMBERS * 4),
			i % 8 ? 16 : NUMBERS);
		tq_push(&t->q, &p);
		client_publish(&t->q);
		finish(&t->q, &t->lent);
	}
	for (k = 0; k < NUMBERS; k++)
		t->wrong += x[k] != (float)((k % 7) * (k < 16 ? i : (i + 7) / 8));
	return NULL;
}

static void test_threads(void **state)
{
	struct thread t[THREADS];
	unsigned int i, lent = 0;

	for (i = 0; i < THREADS; i++) {
		t[i] = (struct thread){ .rig = *state, .index = i };
		tq_create(*state, &t[i].q, 1, i);
	}
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i].thread, NULL, add_many,
						&t[i]), 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i].thread, NULL);
		lent += t[i].lent;
		assert_int_equal(t[i].wrong, 0);
	}
	assert_true(lent > 0);
}

/*
 * The lent thread meets a WAIT while the only worker has no work and sleeps. The CPU then
 * stores the word without a doorbell.
 */
static void test_waiting(void **state)
{
	const uint64_t word = rig_alloc(*state, 4096);
	struct rig *rig = *state;
	unsigned int i;
	struct pkt p;
	struct client_queue q;

	rig_do(rig, cmd_system(rig, 1, 2, word, 4096, RW, false));
	tq_create(rig, &q, 1, 0);
	for (i = 1; i <= 100; i++) {
		pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_GE,
			 OPENREG_ADDR(0, 2, 0), i);
		tq_push(&q, &p);
		client_publish(&q);
		openreg_card_lend(rig->card);
		rig_store(rig, word, i);
		tq_wait(&q);
	}
}

/* A paused card runs no packet in a lent thread. */
static void test_paused(void **state)
{
	struct rig *rig = *state;
	unsigned int i, lent = 0;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 100; i++) {
		rig_pause(rig);
		tq_nop(&q);
		client_publish(&q);
		openreg_card_lend(rig->card);
		assert_int_equal(client_done(&q), q.seq - 1);
		openreg_card_resume(rig->card);
		finish(&q, &lent);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hand_offs, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_rounding, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_waiting, setup_slow, rig_teardown),
		cmocka_unit_test_setup_teardown(test_paused, setup, rig_teardown),
	};
	cpu_set_t set;

	/* The card's threads inherit the affinity. */
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
	return cmocka_run_group_tests_name("lend", tests, NULL, NULL);
}
