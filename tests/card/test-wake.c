// SPDX-License-Identifier: MIT
/*
 * SIGNALs of other contexts and pokes of the host end a WAIT at once. The tests switch the
 * back-off poll off, so a WAIT that ends has been woken. The card has no threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "host.h"
#include "stepper.h"

#define NEVER UINT64_MAX
#define WORD 0x40 /* offset of a word in segment 1 */
#define VRAM_AT 0x2000 /* of segment 1 in VRAM */

#define SHARED 12 /* number of a segment in system memory that both may write */

static void share(struct stepper *rig, uint32_t ctx)
{
	struct openreg_admin_cmd cmd = stepper_bind_cmd(rig, ctx, &stepper_places[5]);

	cmd.id = SHARED;
	cmd.seg.perm = RW;
	must(!admin_seg_bind(rig->card, &cmd, 0).status);
}

/* Queue 0 is of context 1, queue 1 of context 2. Both contexts have the same segments. */
static int setup(void **state)
{
	struct stepper *rig = stepper_new();
	struct openreg_admin_cmd cmd = { .ctx = 2 };
	unsigned int i;

	stepper_make_queue(rig);
	must(!admin_ctx_create(rig->card, &cmd, 0).status);
	for (i = 0; i < STEPPER_PLACES; i++) {
		cmd = stepper_bind_cmd(rig, 2, &stepper_places[i]);
		must(!admin_seg_bind(rig->card, &cmd, 0).status);
	}
	share(rig, 1);
	share(rig, 2);
	cmd = stepper_queue_cmd(rig, 2, 1);
	must(!admin_queue_create(rig->card, &cmd, 0).status);
	stepper_fill(rig, 3); /* zeros */
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	struct stepper *rig = *state;
	unsigned int i;

	for (i = 0; i < OPENREG_WAIT_BITS; i++)
		if (!rig->card->queue[1]->waiting)
			assert_int_equal(rig->card->sched.words[i], 0);
	stepper_free_card(rig);
	free(rig->bus.mem);
	free(rig->vram);
	free(rig);
	return 0;
}

static void push(struct stepper *rig, unsigned int n, unsigned int op, unsigned int arg,
		 uint64_t addr, uint64_t value)
{
	struct pkt p;

	pkt_sync(&p, op, arg, addr, value);
	stepper_push(rig, n, p.bytes);
}

static void step(struct stepper *rig)
{
	unsigned int i;

	for (i = 0; i < 20; i++)
		stepper_step(rig, i % 2);
}

/* Queue 1 waits until the word is at least 5, for as long as nothing wakes it. */
static struct queue *begin(struct stepper *rig, uint64_t addr)
{
	struct queue *q = rig->card->queue[1];

	push(rig, 1, OPENREG_OP_WAIT, OPENREG_WAIT_GE, addr, 5);
	step(rig);
	assert_true(q->waiting);
	q->next_poll = NEVER;
	return q;
}

static void signal(struct stepper *rig, uint64_t addr, uint64_t value)
{
	push(rig, 0, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, addr, value);
	step(rig);
}

static void test_context(void **state)
{
	static const unsigned int segs[] = { 1, SHARED }; /* VRAM and system memory */
	struct stepper *rig = *state;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		uint64_t addr = OPENREG_ADDR(0, segs[i], WORD);
		struct queue *q = begin(rig, addr);

		signal(rig, addr + 8, 5);
		assert_true(q->waiting && q->next_poll == NEVER);
		/* A value that does not end the WAIT costs its context no try. */
		signal(rig, addr, 4);
		assert_true(q->waiting && q->next_poll == NEVER);
		signal(rig, addr, 5);
		assert_false(q->waiting);
		assert_int_equal(q->completed, i + 1);
	}
}

/* ADD wakes by the sum, not by what it adds. */
static void test_add(void **state)
{
	struct stepper *rig = *state;
	uint64_t addr = OPENREG_ADDR(0, 1, WORD);
	struct queue *q = begin(rig, addr);
	unsigned int i;

	for (i = 1; i <= 5; i++) {
		assert_true(q->waiting && q->next_poll == NEVER);
		push(rig, 0, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, addr, 1);
		step(rig);
	}
	assert_false(q->waiting);
}

static void store(struct stepper *rig, uint64_t value)
{
	memcpy(rig->vram + VRAM_AT + WORD, &value, 8);
}

static void test_poke(void **state)
{
	struct stepper *rig = *state;
	struct queue *q = begin(rig, OPENREG_ADDR(0, 1, WORD));

	store(rig, 4);
	openreg_card_poke(rig->card, VRAM_AT + WORD);
	openreg_card_poke(rig->card, OPENREG_POKE_ALL);
	step(rig);
	assert_true(q->waiting && q->next_poll == NEVER);
	store(rig, 5);
	/* A poke for a word on which no queue waits is dropped. */
	openreg_card_poke(rig->card, VRAM_AT + WORD + 8);
	assert_int_equal(rig->card->sched.poked, 0);
	openreg_card_poke(rig->card, VRAM_AT + WORD);
	step(rig);
	assert_false(q->waiting);
}

static void test_poke_all(void **state)
{
	struct stepper *rig = *state;
	uint64_t five = 5;
	struct queue *q = begin(rig, OPENREG_ADDR(0, 1, WORD));

	store(rig, five);
	openreg_card_poke(rig->card, OPENREG_POKE_ALL);
	step(rig);
	assert_false(q->waiting);

	/* System memory: the card tries again, as it cannot read the word here. */
	q = begin(rig, OPENREG_ADDR(0, 6, 8));
	openreg_card_poke(rig->card, OPENREG_POKE_ALL);
	step(rig);
	assert_true(q->waiting && q->next_poll != NEVER);
	q->next_poll = NEVER;
	memcpy(rig->bus.mem + STEPPER_PAGES + 4 * 4096 + 8, &five, 8);
	openreg_card_poke(rig->card, OPENREG_POKE_ALL);
	step(rig);
	assert_false(q->waiting);
}

static struct stepper *poked;

/* The word is stored after the WAIT has read it for the first time. */
static void store_late(void *host, bool vram, uint64_t at)
{
	(void)host;
	assert_true(vram);
	assert_int_equal(at, VRAM_AT + WORD);
	store(poked, 5);
	openreg_card_poke(poked->card, at);
}

static void test_race(void **state)
{
	struct openreg_host_ops ops = bus_ops;
	struct stepper *rig = *state;

	ops.waiting = store_late;
	poked = rig;
	rig->card->ops = &ops;
	push(rig, 1, OPENREG_OP_WAIT, OPENREG_WAIT_GE, OPENREG_ADDR(0, 1, WORD), 5);
	step(rig);
	assert_false(rig->card->queue[1]->waiting);
	rig->card->ops = &bus_ops;
}

/* The word is stored while a thread still owns the queue: the next try is due at once. */
static void test_owned(void **state)
{
	struct stepper *rig = *state;
	struct queue *q = rig->card->queue[1];
	struct openreg_card *card = rig->card;

	begin(rig, OPENREG_ADDR(0, 1, WORD));
	pthread_mutex_lock(&card->sched.lock);
	sched_set_waiting(q, true);
	assert_true(q->next_poll > 0);
	assert_true(wake_try(q, (VRAM_AT + WORD) | WORD_VRAM, 5));
	sched_set_waiting(q, true);
	assert_int_equal(q->next_poll, 0);
	sched_set_waiting(q, true);
	assert_true(q->next_poll > 0);
	pthread_mutex_unlock(&card->sched.lock);
}

/* A queue that stops or faults while it waits is no longer found by its word. */
static void test_stop(void **state)
{
	struct stepper *rig = *state;
	struct queue *q = begin(rig, OPENREG_ADDR(0, 1, WORD));

	queue_request_stop(q);
	step(rig);
	assert_int_equal(q->state, OPENREG_QUEUE_STOPPED);
	assert_int_equal(q->word, 0);
	openreg_card_poke(rig->card, VRAM_AT + WORD);
	assert_int_equal(rig->card->sched.poked, 0);
}

static void test_fault(void **state)
{
	struct stepper *rig = *state;
	struct queue *q = begin(rig, OPENREG_ADDR(0, 1, WORD));

	rig->card->ctx[2]->segs[1]->dead = true;
	q->next_poll = 0;
	step(rig);
	assert_int_equal(q->state, OPENREG_QUEUE_FAULTED);
	assert_int_equal(q->word, 0);
	rig->card->ctx[2]->segs[1]->dead = false;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_context), T(test_add), T(test_poke), T(test_poke_all), T(test_race),
		T(test_owned), T(test_stop), T(test_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
