/* SPDX-License-Identifier: MIT */
/* QUEUE_STOP after a packet: a packet that has begun completes, and none runs twice. */
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "random.h"

#define LEN ((4u << 20) / SCALE)

static uint64_t memory;

static int setup(void **state)
{
	struct rig *rig = rig_new(2);

	memory = rig_alloc(rig, LEN);
	rig_bind(rig, 1, 0, memory, LEN, true);
	*state = rig;
	return 0;
}

static uint32_t restart(struct client_queue *q)
{
	return tq_reset(q, client_head(q), client_done(q));
}

static void check_words(struct rig *rig, uint32_t want)
{
	const uint32_t *words = (const uint32_t *)rig->vram;
	unsigned int i;

	for (i = 0; i < LEN / 4; i++)
		if (words[i] != want)
			fail_msg("word %u is %u, not %u", i, words[i], want);
}

/* Stops at random moments. The result is wrong if a packet runs half or twice. */
static void test_after_packet(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd stop = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	uint32_t sum = 0;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 60; i++) {
		uint64_t before;

		tq_push_round(&q, LEN, 1 + i);
		sum += 1 + i;
		client_publish(&q);
		random_delay(2000000);
		rig_do(rig, stop);
		assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
		before = client_done(&q);
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_NOP, 0, 0), 0);
		assert_int_equal(client_done(&q), before);
		/* A second stop has no effect. */
		rig_do(rig, stop);
		assert_int_equal(restart(&q), OPENREG_ADMIN_OK);
	}
	tq_wait(&q);
	check_words(rig, sum);
}

/* An unmet WAIT counts as not begun: the stop does not wait for it. */
static void test_at_wait(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd stop = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	tq_nop(&q);
	pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_GE, VRAM(0), 5);
	tq_push(&q, &p);
	tq_nop(&q);
	client_publish(&q);
	WAIT_FOR(client_done(&q) == 1);
	rig_do(rig, stop);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
	assert_int_equal(client_done(&q), 1);
	assert_int_equal(restart(&q), OPENREG_ADMIN_OK);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_NOP, 0, 0), 0);
	assert_int_equal(client_done(&q), 1);
	__atomic_store_n((uint64_t *)rig->vram, 5, __ATOMIC_SEQ_CST);
	tq_wait(&q);
}

/* A stop that waits for an endless packet ends by STOP_NOW or CTX_DESTROY. */
static void test_endless(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd gentle = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	struct openreg_admin_cmd stop = cmd_stop(1, 0, OPENREG_STOP_NOW);
	unsigned int i;
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 2; i++) {
		uint64_t busy = rig_reg(rig, OPENREG_REG_STAT_COMPUTE_NS);
		uint32_t index;

		pkt_endless(&p, VRAM(0));
		tq_push(&q, &p);
		client_publish(&q);
		WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_COMPUTE_NS) != busy);
		index = rig_submit(rig, &gentle);
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_NOP, 0, 0), 0);
		assert_false(rig_completed(rig, index));
		assert_int_equal(client_state(&q), OPENREG_QUEUE_RUNNING);
		if (i)
			break;
		rig_do(rig, stop);
		assert_int_equal(rig_status(rig, index), OPENREG_ADMIN_OK);
		assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
		assert_int_equal(client_done(&q), i);
		assert_int_equal(tq_reset(&q, q.tail, q.seq), OPENREG_ADMIN_OK);
	}
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, 1, 0), 0);
}

static void test_faulted(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd stop = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	pkt_copy(&p, 0, SYSTEM(0), OPENREG_U8, 1);
	tq_push(&q, &p);
	client_publish(&q);
	tq_wait_fault(&q);
	rig_do(rig, stop);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_FAULTED);
	tq_recover(&q);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
}

static void test_bad_arguments(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd stop = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	struct client_queue q;

	assert_int_equal(rig_admin(rig, &stop), OPENREG_ADMIN_ENOENT);
	tq_create(rig, &q, 1, 0);
	stop.stop.when = OPENREG_STOP_AFTER_PACKET + 1;
	assert_int_equal(rig_admin(rig, &stop), OPENREG_ADMIN_EINVAL);
	stop.stop.when = 1ULL << 32;
	assert_int_equal(rig_admin(rig, &stop), OPENREG_ADMIN_EINVAL);
	stop = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	stop.arg[1] = 1;
	assert_int_equal(rig_admin(rig, &stop), OPENREG_ADMIN_EINVAL);
	stop = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	stop.opcode = OPENREG_ADMIN_QUEUE_DESTROY;
	assert_int_equal(rig_admin(rig, &stop), OPENREG_ADMIN_EINVAL);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_RUNNING);
}

/* The VM is paused, or saved and loaded, while the stop command is pending. */
static void test_while_paused(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd stop = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	uint32_t index, sum = 0;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 40; i++) {
		const char *error = NULL;
		size_t len;
		void *blob;

		tq_push_round(&q, LEN, 7);
		sum += 7;
		client_publish(&q);
		random_delay(1000000);
		index = rig_submit(rig, &stop);
		random_delay(50000);
		rig_pause(rig);
		openreg_card_finish(rig->card);
		if (i % 2) {
			blob = openreg_card_save(rig->card, &len);
			assert_non_null(blob);
			openreg_card_reset(rig->card);
			rig_pause(rig);
			assert_int_equal(openreg_card_load(rig->card, blob, len,
							   &error), 0);
			free(blob);
		}
		openreg_card_resume(rig->card);
		assert_int_equal(rig_status(rig, index), OPENREG_ADMIN_OK);
		assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
		assert_int_equal(restart(&q), OPENREG_ADMIN_OK);
	}
	tq_wait(&q);
	check_words(rig, sum);
}

/* Resets the card and restores contexts, segments and the queue, as the driver does. */
static void reset_and_restore(struct rig *rig, struct client_queue *q)
{
	struct openreg_admin_cmd cmd = cmd_queue(q, OPENREG_PRIORITY_NORMAL);
	uint64_t brk = rig->brk;

	rig_pause(rig);
	openreg_card_reset(rig->card);
	rig_enable(rig);
	rig_bind(rig, 1, 0, memory, LEN, true);
	rig->brk = brk;
	cmd.queue.flags = OPENREG_QUEUE_KEEP;
	rig_do(rig, cmd);
}

/* With OPENREG_QUEUE_KEEP a queue continues after a reset of the card. */
static void test_keep_over_reset(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd stop = cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET);
	const uint64_t wakes = offsetof(struct openreg_card_page, wakes);
	uint32_t sum = 0;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 40; i++) {
		uint64_t before, woken;

		tq_push_round(&q, LEN, 3);
		sum += 3;
		client_publish(&q);
		random_delay(2000000);
		rig_do(rig, stop);
		before = client_done(&q);
		woken = rig_load(rig, q.page + wakes);
		reset_and_restore(rig, &q);
		assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
		assert_int_equal(client_done(&q), before);
		assert_int_equal(rig_load(rig, q.page + wakes), woken);
		assert_int_equal(restart(&q), OPENREG_ADMIN_OK);
		/* wakes must change, or the producer would not ring again. */
		WAIT_FOR(rig_load(rig, q.page + wakes) > woken);
	}
	tq_wait(&q);
	check_words(rig, sum);
}

static void test_keep_faulted(void **state)
{
	struct rig *rig = *state;
	struct openreg_fault_summary fault;
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	tq_nop(&q);
	pkt_copy(&p, 0, SYSTEM(0), OPENREG_U8, 1);
	tq_push(&q, &p);
	client_publish(&q);
	tq_wait_fault(&q);
	reset_and_restore(rig, &q);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_FAULTED);
	fault = tq_wait_fault(&q);
	assert_int_equal(fault.code, OPENREG_FAULT_ADDRESS);
	assert_int_equal(fault.seq, 2);
	assert_int_equal(tq_reset(&q, 0, 0), OPENREG_ADMIN_EINVAL);
	tq_recover(&q);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	/* A kept page with invalid contents only leaves the queue stopped. */
	rig_store(rig, q.page + 16, 0xffffffff00000000);
	rig_store(rig, q.page, UINT64_MAX);
	reset_and_restore(rig, &q);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
	assert_int_equal(tq_reset(&q, q.tail, q.seq), OPENREG_ADMIN_OK);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_after_packet),
		T(test_at_wait),
		T(test_endless),
		T(test_faulted),
		T(test_bad_arguments),
		T(test_while_paused),
		T(test_keep_over_reset),
		T(test_keep_faulted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
