/* SPDX-License-Identifier: MIT */
/* Destroys queues, segments, contexts and the card while packets use them. */
#include <string.h>

#include "host.h"
#include "random.h"

#define LEN ((8u << 20) / SCALE)

static uint64_t memory;

static void give(struct rig *rig, uint32_t ctx)
{
	uint64_t brk = rig->brk;

	rig_bind(rig, ctx, (ctx - 1) * (uint64_t)LEN, memory, LEN, true);
	rig->brk = brk; /* the list has been read */
}

static int setup(void **state)
{
	struct rig *rig = rig_new(2);

	memory = rig_alloc(rig, LEN);
	give(rig, 1);
	give(rig, 2);
	*state = rig;
	return 0;
}

static void push_grind(struct client_queue *q, unsigned int rounds)
{
	struct pkt p;

	pkt_grind(&p, VRAM(0), LEN / 4, rounds);
	tq_push(q, &p);
}

static void push_copy(struct client_queue *q)
{
	struct pkt p;

	pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_I64, LEN / 8);
	tq_push(q, &p);
}

static void bystander(struct client_queue *q)
{
	tq_nop(q);
	client_publish(q);
	tq_wait(q);
}

/* Destroys a context a hundred times while its packets run. */
static void test_kill(void **state)
{
	struct rig *rig = *state;
	uint64_t brk = rig->brk;
	unsigned int i, k, mappings;
	struct client_queue q, other;

	tq_create(rig, &other, 2, 1);
	/* Without the mapping of the context's released page. */
	mappings = atomic_load(&rig->bus.mappings) - 1;
	for (i = 0; i < 100; i++) {
		brk = rig->brk;
		tq_create(rig, &q, 1, 0);
		for (k = 0; k < 10; k++) {
			if ((i + k) % 2)
				push_copy(&q);
			else
				push_grind(&q, 60);
			tq_nop(&q);
		}
		if (i % 4 == 3) {
			struct pkt p;

			pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_EQ, VRAM(0),
				 ~0ULL);
			tq_push(&q, &p);
		}
		client_publish(&q);
		bystander(&other);
		for (k = (unsigned int)below(20000); k; k--)
			__asm__ volatile("");
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, 1, 0),
				 0);
		assert_int_equal(atomic_load(&rig->bus.mappings), mappings);
		bystander(&other);
		rig->brk = brk;
		give(rig, 1);
	}
}

/* Commands about objects that are being destroyed complete, in any order. */
static void test_destroy_twice(void **state)
{
	struct rig *rig = *state;
	static const uint16_t ops[] = {
		OPENREG_ADMIN_QUEUE_STOP,    OPENREG_ADMIN_SEG_UNBIND,
		OPENREG_ADMIN_QUEUE_DESTROY, OPENREG_ADMIN_QUEUE_STOP,
		OPENREG_ADMIN_QUEUE_DESTROY, OPENREG_ADMIN_CTX_DESTROY,
		OPENREG_ADMIN_SEG_UNBIND,    OPENREG_ADMIN_QUEUE_STOP,
		OPENREG_ADMIN_CTX_DESTROY,
	};
	const unsigned int n = sizeof(ops) / sizeof(ops[0]);
	unsigned int i, round;
	uint32_t first;

	for (round = 0; round < 40; round++) {
		uint64_t brk = rig->brk;
		struct client_queue q;

		tq_create(rig, &q, 1, 1);
		push_grind(&q, 60);
		push_copy(&q);
		client_publish(&q);
		first = rig->client.tail;
		for (i = 0; i < n; i++) {
			struct openreg_admin_cmd cmd =
				cmd_of(ops[i], 1, ops[i] != OPENREG_ADMIN_CTX_DESTROY);

			rig_submit(rig, &cmd);
		}
		for (i = 0; i < n; i++) {
			uint32_t status = rig_status(rig, first + i);

			assert_true(status == OPENREG_ADMIN_OK ||
				    status == OPENREG_ADMIN_ENOENT);
		}
		rig->brk = brk;
		give(rig, 1);
	}
}

/* A queue stops at the end of a slice; its other packets do not run. */
static void test_stop_in_middle(void **state)
{
	struct rig *rig = *state;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 50; i++) {
		uint64_t before;

		push_grind(&q, 60);
		push_copy(&q);
		push_grind(&q, 60);
		client_publish(&q);
		if (i % 2)
			WAIT_FOR(client_done(&q) > q.seq - 3);
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP, 1, 0),
				 0);
		before = client_done(&q);
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_NOP, 0, 0), 0);
		assert_int_equal(client_done(&q), before);
		assert_int_equal(tq_reset(&q, q.tail, q.seq), 0);
		bystander(&q);
	}
}

static void enable_again(struct rig *rig)
{
	rig_enable(rig);
	give(rig, 1);
	give(rig, 2);
}

/* Resets at random moments, by the host and by the register. */
static void test_reset(void **state)
{
	struct rig *rig = *state;
	unsigned int i, k;

	for (i = 0; i < 60; i++) {
		uint64_t brk = rig->brk;
		struct client_queue q[2];

		for (k = 0; k < 2; k++) {
			tq_create(rig, &q[k], 1 + k, k);
			push_grind(&q[k], 60);
			push_copy(&q[k]);
			push_grind(&q[k], 60);
			client_publish(&q[k]);
		}
		for (k = (unsigned int)below(100000); k; k--)
			__asm__ volatile("");
		if (i % 2) {
			rig_pause(rig);
			openreg_card_reset(rig->card);
		} else {
			openreg_card_reg_write(rig->card, OPENREG_REG_CONTROL,
					       OPENREG_CONTROL_RESET, 4);
			WAIT_FOR(!rig_reg(rig, OPENREG_REG_CONTROL));
		}
		assert_int_equal(rig_reg(rig, OPENREG_REG_STATUS), 0);
		assert_int_equal(atomic_load(&rig->bus.mappings), 0);
		rig->brk = brk;
		enable_again(rig);
	}
}

/* After a pause at a random moment each packet has run exactly once. */
static void test_pause(void **state)
{
	struct rig *rig = *state;
	const uint32_t *words = (const uint32_t *)rig->vram;
	unsigned int i, k;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 40; i++) {
		push_grind(&q, 30);
		tq_nop(&q);
	}
	client_publish(&q);
	for (i = 0; i < 60; i++) {
		uint64_t before;

		rig_pause(rig);
		if (i % 3 == 0)
			openreg_card_finish(rig->card);
		before = client_done(&q);
		for (k = (unsigned int)below(20000); k; k--)
			__asm__ volatile("");
		assert_int_equal(client_done(&q), before);
		openreg_card_resume(rig->card);
		for (k = (unsigned int)below(200000); k; k--)
			__asm__ volatile("");
	}
	tq_wait(&q);
	for (i = 0; i < LEN / 4; i++)
		if (words[i] != 40 * 30)
			fail_msg("element %u is wrong", i);
}

static void push_sort(struct client_queue *q)
{
	const int64_t n = LEN / 8, stride = 1;
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_SORT, 1, &n);
	pkt_operand(&p, VRAM(LEN / 2), OPENREG_I32, &stride);
	pkt_operand(&p, VRAM(0), OPENREG_I32, &stride);
	pkt_imm(&p, 0);
	pkt_imm(&p, (uint64_t)n);
	tq_push(q, &p);
	client_publish(q);
}

/* Destroys a context during SORT, which has phases and card memory. */
static void test_sort_in_middle(void **state)
{
	struct rig *rig = *state;
	uint32_t *x = (uint32_t *)rig->vram, sum = 0;
	const int32_t *y = (const int32_t *)(rig->vram + LEN / 2);
	unsigned int i, k;
	struct client_queue q;

	for (i = 0; i < LEN / 8; i++)
		sum += x[i] = (uint32_t)random64();
	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 60; i++) {
		push_sort(&q);
		for (k = (unsigned int)below(10000000); k; k--)
			__asm__ volatile("");
		if (i % 3 == 0) {
			assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP,
						1, 0), 0);
			assert_int_equal(tq_reset(&q, q.tail, q.seq), 0);
			continue;
		}
		rig_pause(rig);
		if (i % 3 == 1)
			openreg_card_finish(rig->card);
		openreg_card_resume(rig->card);
		tq_wait(&q);
		for (k = 0; k < LEN / 8; k++) {
			assert_true(!k || y[k - 1] <= y[k]);
			sum -= (uint32_t)y[k];
		}
		assert_int_equal(sum, 0);
		for (k = 0; k < LEN / 8; k++)
			sum += x[k];
		memset(rig->vram + LEN / 2, 0, LEN / 2);
	}
}

/* Frees the card while packets run. */
static void test_free_in_middle(void **state)
{
	struct rig *rig = *state;
	struct client_queue q[2];
	unsigned int k;

	for (k = 0; k < 2; k++) {
		tq_create(rig, &q[k], 1 + k, k);
		push_grind(&q[k], 60);
		push_copy(&q[k]);
		client_publish(&q[k]);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_kill),		T(test_destroy_twice),
		T(test_stop_in_middle), T(test_reset),
		T(test_pause),		T(test_free_in_middle),
		T(test_sort_in_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
