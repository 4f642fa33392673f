/* SPDX-License-Identifier: MIT */
/* Saves a card at random moments and continues with a new card. */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/queue.h"
#include "core/state.h"
#include "host.h"
#include "random.h"

#define LEN ((4u << 20) / SCALE)

static int setup(void **state)
{
	struct rig *rig = rig_new(2);

	rig_bind_two(rig, LEN);
	*state = rig;
	return 0;
}

/* Replaces the card by a new one that loads the saved state. */
static void migrate(struct rig *rig)
{
	const char *error = NULL;
	uint32_t tail = rig->client.tail;
	size_t len;
	void *blob;

	rig_pause(rig);
	openreg_card_finish(rig->card);
	blob = openreg_card_save(rig->card, &len);
	assert_non_null(blob);
	openreg_card_free(rig->card);
	assert_int_equal(atomic_load(&rig->bus.mappings), 0);
	rig_make_card(rig);
	rig->client.tail = tail;
	rig_pause(rig);
	if (openreg_card_load(rig->card, blob, len, &error))
		fail_msg("load: %s", error);
	free(blob);
	openreg_card_resume(rig->card);
}

/* Saves during compute, copies and idle times: every packet runs exactly once. */
static void test_in_middle(void **state)
{
	struct rig *rig = *state;
	const uint32_t *words = (const uint32_t *)rig->vram;
	struct client_queue q[2];
	unsigned int i, k;

	tq_create(rig, &q[0], 1, 0);
	tq_create(rig, &q[1], 2, 513);
	for (i = 0; i < 30; i++) {
		tq_push_round(&q[0], LEN, 30);
		tq_push_round(&q[1], LEN, 30);
		client_publish(&q[0]);
		client_publish(&q[1]);
		random_delay(i % 5 ? 2000000 : 1);
		migrate(rig);
	}
	for (k = 0; k < 2; k++) {
		tq_wait(&q[k]);
		assert_int_equal(client_done(&q[k]), q[k].seq);
		for (i = 0; i < LEN / 4; i++)
			if (words[k * (LEN / 4) + i] != 30 * 30)
				fail_msg("element %u is wrong", i);
	}
}

/* A WAIT, a fault, a stopped queue, a pending command and an idle queue survive. */
static void test_all_states(void **state)
{
	struct rig *rig = *state;
	struct client_queue waits, faulted, stopped, idle;
	uint32_t fault_tail;
	struct pkt p;

	tq_create(rig, &waits, 1, 0);
	tq_create(rig, &faulted, 1, 1);
	tq_create(rig, &stopped, 2, 2);
	tq_create(rig, &idle, 2, 3);
	pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_GE, SYSTEM(0), 5);
	tq_push(&waits, &p);
	client_publish(&waits);
	pkt_copy(&p, 0, SYSTEM(0), OPENREG_U8, 1);
	tq_push(&faulted, &p);
	client_publish(&faulted);
	tq_wait_fault(&faulted);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP, 2, 2), 0);
	tq_nop(&idle);
	client_publish(&idle);
	tq_wait(&idle);
	openreg_card_reg_write(rig->card, OPENREG_REG_CARD_ID, 0, 4);
	fault_tail = rig_reg(rig, OPENREG_REG_FAULT_TAIL);
	migrate(rig);

	assert_int_equal(rig_reg(rig, OPENREG_REG_STATUS),
			 OPENREG_STATUS_READY);
	assert_int_equal(rig_reg(rig, OPENREG_REG_FAULT_TAIL), fault_tail);
	assert_int_equal(client_state(&faulted), OPENREG_QUEUE_FAULTED);
	assert_int_equal(tq_reset(&faulted, faulted.tail, faulted.seq), 0);
	assert_int_equal(tq_reset(&stopped, 0, 0), 0);
	tq_nop(&faulted);
	tq_nop(&stopped);
	tq_nop(&idle);
	client_publish(&faulted);
	client_publish(&stopped);
	client_publish(&idle);
	tq_wait(&faulted);
	tq_wait(&stopped);
	tq_wait(&idle);
	assert_int_equal(client_done(&waits), 0);
	pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, SYSTEM(0), 5);
	tq_run(&faulted, &p);
	tq_wait(&waits);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, 1, 0), 0);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, 2, 0), 0);
	assert_int_equal(atomic_load(&rig->bus.mappings), 2);
}

/* A packet of minutes does not delay a save, and shorter packets complete. */
static void test_endless(void **state)
{
	struct rig *rig = *state;
	struct openreg_fault_summary fault;
	struct client_queue endless, q;
	uint64_t start;
	struct pkt p;

	tq_create(rig, &endless, 1, 0);
	tq_create(rig, &q, 2, 1);
	pkt_endless(&p, VRAM(0));
	tq_push(&endless, &p);
	client_publish(&endless);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_COMPUTE_NS));
	tq_push_round(&q, LEN, 30);
	client_publish(&q);
	random_delay(2000000);
	start = host_now();
	migrate(rig);
	assert_true(host_now() - start < 30000000000ULL);
	fault = tq_wait_fault(&endless);
	assert_int_equal(fault.code, OPENREG_FAULT_HANG);
	assert_int_equal(fault.operand, OPENREG_NO_OPERAND);
	assert_int_equal(fault.seq, 1);
	assert_int_equal(rig_record(rig, 0).fault.code, OPENREG_FAULT_HANG);
	tq_wait(&q);
	assert_int_equal(tq_reset(&endless, endless.tail, endless.seq), 0);
	rig_unbind(rig, 1, 1);
}

/* Pauses the card during a compute packet, the last packet of the queue. */
static void pause_in_job(struct rig *rig, struct client_queue *q)
{
	struct pkt p;
	unsigned int i;

	pkt_grind(&p, VRAM(0), LEN / 4, 50);
	for (i = 0; i < 10000; i++) {
		tq_push(q, &p);
		client_publish(q);
		random_delay(1000000);
		rig_pause(rig);
		if (rig->card->queue[q->id]->active == ACTIVE_JOB)
			return;
		openreg_card_resume(rig->card);
		tq_wait(q);
	}
	fail_msg("no pause came during a packet");
}

/* After its time limit state_finish() runs no further slice. */
static void test_finish_in_time(void **state)
{
	struct rig *rig = *state;
	uint8_t *before = malloc(LEN);
	struct client_queue q[2];

	assert_non_null(before);
	tq_create(rig, &q[0], 1, 0);
	tq_create(rig, &q[1], 2, 1);
	pause_in_job(rig, &q[0]);
	memcpy(before, rig->vram, LEN);
	state_finish(rig->card, 0);
	assert_int_equal(memcmp(before, rig->vram, LEN), 0);
	openreg_card_resume(rig->card);
	assert_int_equal(tq_wait_fault(&q[0]).code, OPENREG_FAULT_HANG);
	assert_int_equal(client_done(&q[0]), q[0].seq - 1);
	tq_nop(&q[1]);
	client_publish(&q[1]);
	tq_wait(&q[1]);
	free(before);
}

/* The card counts each packet once, also one that state_finish() completes. */
static void test_finish_counts(void **state)
{
	struct rig *rig = *state;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 20; i++) {
		tq_push_round(&q, LEN, 30);
		client_publish(&q);
		random_delay(2000000);
		migrate(rig);
	}
	tq_wait(&q);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_PACKETS) == q.seq);
}

/* Pending commands complete after the load. */
static void test_late_commands(void **state)
{
	struct rig *rig = *state;
	uint64_t brk = rig->brk;
	unsigned int i;

	for (i = 0; i < 20; i++) {
		struct openreg_admin_cmd fill = cmd_fill(32 << 20, 32 << 20, i);
		struct openreg_admin_cmd destroy = cmd_of(OPENREG_ADMIN_QUEUE_DESTROY, 1, 0);
		struct openreg_admin_cmd bind = cmd_vram(1, 1, 0, LEN, RW);
		struct openreg_admin_cmd unbind = cmd_unbind(1, 1, 0);
		uint32_t a, b, c;
		struct client_queue q;

		tq_create(rig, &q, 1, 0);
		tq_push_round(&q, LEN, 30);
		client_publish(&q);
		random_delay(200000);
		a = rig_submit(rig, &fill);
		b = rig_submit(rig, &unbind);
		c = rig_submit(rig, &destroy);
		random_delay(100000);
		migrate(rig);
		assert_int_equal(rig_status(rig, a), 0);
		assert_int_equal(rig_status(rig, b), 0);
		assert_int_equal(rig_status(rig, c), 0);
		WAIT_FOR(rig_released(rig, 1, 1));
		assert_int_equal(rig->vram[HOST_VRAM - 1], i);
		assert_int_equal(rig->vram[32 << 20], i);
		openreg_card_reg_write(
			rig->card, OPENREG_REG_FAULT_HEAD,
			rig_reg(rig, OPENREG_REG_FAULT_TAIL), 4);
		rig->brk = brk;
		rig_do(rig, bind);
	}
}

/* A long command that the save interrupts starts again after the load. */
static void test_long_bind(void **state)
{
	struct rig *rig = *state;
	const uint64_t pages = 1 << 20;
	uint64_t list = rig_alloc(rig, pages * 8), i;
	struct openreg_admin_cmd bind = cmd_pages(1, 3, list, 0, pages * 4096, RW);
	unsigned int midway = 0;
	uint32_t index;

	for (i = 0; i < pages; i++)
		rig_store(rig, list + i * 8, (pages - i) * 4096);
	for (i = 0; i < 20; i++) {
		index = rig_submit(rig, &bind);
		random_delay(100000);
		rig_pause(rig);
		midway += !rig_completed(rig, index);
		openreg_card_resume(rig->card);
		migrate(rig);
		assert_int_equal(rig_status(rig, index), 0);
		rig_unbind(rig, 1, 3);
	}
	assert_true(midway > 0);
}

/* A page at the end of the bus, where the whole segment would not fit. */
static void test_end_of_bus(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd =
		cmd_system(rig, 1, 3, rig_alloc(rig, 3 * 4096), 3 * 4096, RW,
			   true);

	rig_store(rig, cmd.seg.base + 8, UINT64_MAX - 2 * 4096 + 1);
	rig_do(rig, cmd);
	migrate(rig);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_SEG_UNBIND, 1, 3), 0);
}

/* A loaded card raises every vector once, in case an interrupt was lost. */
static void test_vectors_after_load(void **state)
{
	struct rig *rig = *state;
	unsigned int before = atomic_load(&rig->bus.raised[5]);

	migrate(rig);
	assert_true(atomic_load(&rig->bus.raised[5]) > before);
}

/* A card that is FATAL because of bad rings can be saved and loaded. */
static void test_fatal(void **state)
{
	struct rig *rig = *state;

	rig_pause(rig);
	openreg_card_reset(rig->card);
	openreg_card_reg_write(rig->card, OPENREG_REG_ADMIN_SLOTS, 1 << 20, 4);
	openreg_card_reg_write(rig->card, OPENREG_REG_CONTROL,
			       OPENREG_CONTROL_ENABLE, 4);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STATUS) == OPENREG_STATUS_FATAL);
	migrate(rig);
	assert_int_equal(rig_reg(rig, OPENREG_REG_STATUS),
			 OPENREG_STATUS_FATAL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_in_middle),
		T(test_all_states),
		T(test_endless),
		T(test_finish_in_time),
		T(test_finish_counts),
		T(test_late_commands),
		T(test_long_bind),
		T(test_end_of_bus),
		T(test_vectors_after_load),
		T(test_fatal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
