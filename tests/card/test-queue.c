/* SPDX-License-Identifier: MIT */
/* Queues: order, completion, interrupts, sleep and wake-up. */
#include <pthread.h>
#include <string.h>

#include "host.h"

static int setup(void **state)
{
	rig_setup(state);
	return (int)rig_op(*state, OPENREG_ADMIN_CTX_CREATE, 1, 0);
}

static void test_nop(void **state)
{
	struct client_queue q;

	tq_create(*state, &q, 1, 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(q.rings, 1);
	assert_int_equal(client_done(&q), 1);
	assert_int_equal(rig_load(*state, q.page), 1); /* head */
}

/* Packets of every length, ten times around the ring. */
static void test_many_nops(void **state)
{
	uint8_t bytes[OPENREG_PACKET_SLOTS_MAX * 64] = { 0 };
	struct pkt p;
	struct client_queue q;
	unsigned int i;

	tq_create(*state, &q, 1, 0);
	for (i = 0; i < 2560; i++) {
		memset(&p, 0, sizeof(p));
		p.len = 64 * (1 + i % OPENREG_PACKET_SLOTS_MAX);
		bytes[1] = (uint8_t)(p.len / 64);
		memcpy(p.bytes, bytes, p.len);
		tq_push(&q, &p);
		if (i % 7 == 0)
			client_publish(&q);
	}
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(client_done(&q), q.seq);
	assert_int_equal(rig_load(*state, q.page), q.tail);
}

/* The card raises the vector once, when the completion counter reaches armed. */
static void test_armed(void **state)
{
	struct rig *rig = *state;
	atomic_uint *raised;
	struct client_queue q;
	unsigned int i;

	tq_create(rig, &q, 1, 5);
	raised = &rig->bus.raised[q.vector];
	for (i = 0; i < 4; i++)
		tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(atomic_load(raised), 0);

	tq_arm(&q, 8);
	for (i = 0; i < 3; i++)
		tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(atomic_load(raised), 0);
	for (i = 0; i < 5; i++)
		tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	WAIT_FOR(atomic_load(raised) == 1);
	assert_int_equal(client_done(&q), 12);

	/* No interrupt for a packet that has already completed: the kernel checks. */
	tq_arm(&q, 3);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(atomic_load(raised), 1);
	WAIT_FOR(rig_load(rig, q.page + offsetof(struct openreg_card_page,
						 interrupts)) == 1);
}

static void test_shared_door_and_vector(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd;
	struct client_queue a, b, other;

	tq_create(rig, &a, 1, 0);
	tq_init(rig, &b, 1, 1, 64);
	b.door = a.door;
	b.vector = a.vector;
	rig_do(rig, cmd_queue(&b, OPENREG_PRIORITY_LOW));
	tq_arm(&a, 1);
	tq_arm(&b, 1);
	tq_nop(&a);
	tq_nop(&b);
	client_publish(&a);
	client_publish(&b);
	tq_wait(&a);
	tq_wait(&b);
	WAIT_FOR(atomic_load(&rig->bus.raised[a.vector]) == 2);

	/* Another context cannot share the doorbell page. */
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 2, 0), 0);
	tq_init(rig, &other, 2, 2, 64);
	other.door = a.door;
	cmd = cmd_queue(&other, OPENREG_PRIORITY_NORMAL);
	assert_int_equal(rig_admin(rig, &cmd), OPENREG_ADMIN_EINVAL);
}

/* An idle card sets asleep, sleeps, and counts the sleep. */
static void test_sleeps(void **state)
{
	struct rig *rig = *state;
	uint32_t sleeps = rig_reg(rig, OPENREG_REG_STAT_SLEEPS);
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	assert_int_equal(client_asleep(&q), 1);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	WAIT_FOR(client_asleep(&q));
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_SLEEPS) > sleeps);
	assert_true(rig_reg(rig, OPENREG_REG_STAT_SLEEP_NS) > 0);
	assert_int_equal(rig_load(rig, q.page + offsetof(struct openreg_card_page,
							 wakes)), 1);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(q.rings, 2);
}

#define LITMUS (2000000 / SCALE / SCALE) /* hand-offs */

/*
 * The wake rule: one producer publishes one packet at a time, at varying times around the
 * moment at which the card falls asleep. A lost wake-up fails the test.
 */
static void litmus(unsigned int workers, unsigned int spin_us, unsigned int n)
{
	struct rig *rig = rig_new_spin(workers, spin_us);
	struct client_queue q;
	unsigned int i, k;

	rig_enable(rig);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0), 0);
	tq_create(rig, &q, 1, 0);
	for (i = 0; i < n; i++) {
		uint64_t end = host_now() + 60000000000ULL;

		tq_nop(&q);
		client_publish(&q);
		while (client_done(&q) < q.seq)
			if (host_now() > end)
				fail_msg("wake-up %u of %u was lost", i, n);
		for (k = i % 512; k; k--)
			__asm__ volatile("");
	}
	print_message("%u hand-offs, %llu doorbells, spin %u us\n", n,
		      (unsigned long long)q.rings, spin_us);
	assert_true(q.rings > 0);
	rig_free(rig);
}

static void test_litmus_polling(void **state)
{
	(void)state;
	litmus(2, 100, LITMUS);
}

static void test_litmus_sleeping(void **state)
{
	(void)state;
	litmus(1, 0, LITMUS / 10);
}

static void test_litmus_short_spin(void **state)
{
	(void)state;
	litmus(2, 1, LITMUS / 10);
}

static void *produce(void *opaque)
{
	struct client_queue *q = opaque;
	unsigned int i;

	for (i = 0; i < LITMUS / 20; i++) {
		tq_nop(q);
		if (i % 3 == 0)
			client_publish(q);
	}
	client_publish(q);
	return NULL;
}

/* Eight producers and eight contexts at once. */
static void test_many_queues(void **state)
{
	struct rig *rig = *state;
	pthread_t threads[8];
	struct client_queue q[8];
	unsigned int i;

	for (i = 0; i < 8; i++) {
		if (i)
			assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE,
						1 + i, 0), 0);
		tq_create(rig, &q[i], 1 + i, i * 100);
	}
	for (i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, produce,
						&q[i]), 0);
	for (i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 8; i++)
		tq_wait(&q[i]);
}

static void test_stop_and_reset(void **state)
{
	struct rig *rig = *state;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(tq_reset(&q, 1, 1), OPENREG_ADMIN_EINVAL);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP, 1, 0), 0);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
	tq_nop(&q);
	tq_nop(&q);
	client_publish(&q);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_NOP, 0, 0), 0);
	assert_int_equal(client_done(&q), 1);
	/* Skip the second packet and run the third; the waiter gets an interrupt. */
	tq_arm(&q, 2);
	assert_int_equal(tq_reset(&q, 2, 0), OPENREG_ADMIN_EINVAL);
	assert_int_equal(tq_reset(&q, 2, 2), OPENREG_ADMIN_OK);
	tq_wait(&q);
	assert_int_equal(client_done(&q), 3);
	assert_int_equal(atomic_load(&rig->bus.raised[q.vector]), 1);
}

static void test_destroy_and_reuse(void **state)
{
	struct rig *rig = *state;
	unsigned int i, mappings;
	struct client_queue q;

	tq_create(rig, &q, 1, 7);
	mappings = atomic_load(&rig->bus.mappings);
	for (i = 0; i < 200; i++) {
		struct openreg_admin_cmd cmd =
			cmd_queue(&q, OPENREG_PRIORITY_NORMAL);

		tq_nop(&q);
		client_publish(&q);
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_DESTROY, 1, 7),
				 0);
		assert_int_equal(atomic_load(&rig->bus.mappings), mappings - 4);
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_DESTROY, 1, 7),
				 OPENREG_ADMIN_ENOENT);
		q.tail = q.seq = q.published = 0;
		rig_store(rig, q.user, 0); /* the new queue begins with this tail */
		rig_do(rig, cmd);
	}
}

static void test_stats(void **state)
{
	struct rig *rig = *state;
	uint64_t mem = rig_alloc(rig, 4096);
	struct openreg_admin_cmd cmd = cmd_system(rig, 1, 2, mem, 4096, RW,
						  false);
	struct pkt p;
	struct client_queue q;

	rig_do(rig, cmd);
	rig_do(rig, cmd_vram(1, 1, 0, 8192, RW));
	tq_create(rig, &q, 1, 0);
	pkt_copy(&p, OPENREG_ADDR(0, 1, 0), OPENREG_ADDR(0, 2, 0), OPENREG_U8,
		 4096);
	tq_run(&q, &p);
	pkt_copy(&p, OPENREG_ADDR(0, 2, 0), OPENREG_ADDR(0, 1, 8), OPENREG_U8,
		 100);
	tq_run(&q, &p);
	assert_int_equal(rig_load(rig, q.page + offsetof(struct openreg_card_page,
							 dma_read)), 4096);
	assert_int_equal(rig_load(rig, q.page + offsetof(struct openreg_card_page,
							 dma_written)), 100);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_PACKETS) == 2);
	assert_int_equal(rig_reg(rig, OPENREG_REG_STAT_DMA_READ), 4096);
	assert_int_equal(rig_reg(rig, OPENREG_REG_STAT_DMA_WRITTEN), 100);
	assert_true(rig_reg(rig, OPENREG_REG_STAT_DOORBELLS) >= 1);
	assert_true(rig_reg(rig, OPENREG_REG_STAT_COPY_NS) > 0);
	WAIT_FOR(rig_load(rig, q.page + offsetof(struct openreg_card_page,
						 busy_ns)) > 0);
}

#define COLUMNS 16384
#define HOGS 80

/* Sums of columns, with stride 0 along the rows. 64 KiB at addr; the results follow. */
static void pkt_columns(struct pkt *p, uint64_t addr, int64_t rows)
{
	const int64_t size[2] = { rows, COLUMNS }, stride[2] = { 0, 1 };

	pkt_begin(p, OPENREG_OP_VECTOR, 2, size);
	pkt_arg(p, 0, 1);
	pkt_operand(p, addr, OPENREG_I32, stride);
	pkt_operand(p, addr + 4 * COLUMNS, OPENREG_I64, stride);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_I32, 0, 0, 0, 0, 0);
	pkt_instr(p, OPENREG_V_RED_SUM, OPENREG_VT_I32, 0, 0, OPENREG_VNONE,
		  OPENREG_VNONE, 1);
}

/* A packet waits for card memory that other packets hold, and then runs. */
static void test_memory_of_jobs(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd = cmd_vram(2, 1, 1 << 20, 1 << 20, RW);
	int64_t *sums = (int64_t *)(rig->vram + (1 << 20) + 4 * COLUMNS);
	struct client_queue hog[HOGS], q;
	unsigned int i;
	struct pkt p;

	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 2, 0), 0);
	rig_do(rig, cmd);
	rig_do(rig, cmd_vram(1, 1, 0, 1 << 20, RW));
	pkt_columns(&p, OPENREG_ADDR(0, 1, 0), 1 << 22);
	for (i = 0; i < HOGS; i++) {
		tq_init(rig, &hog[i], 1, 100 + i, 64);
		hog[i].door = i % 16;
		rig_do(rig, cmd_queue(&hog[i], OPENREG_PRIORITY_NORMAL));
		tq_push(&hog[i], &p);
		client_publish(&hog[i]);
	}
	for (i = 0; i < COLUMNS; i++)
		((int32_t *)(rig->vram + (1 << 20)))[i] = (int32_t)i;
	tq_create(rig, &q, 2, 40);
	pkt_columns(&p, OPENREG_ADDR(0, 1, 0), 4000);
	tq_push(&q, &p);
	client_publish(&q);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_COMPUTE_NS) > 200000000);
	for (i = 0; i < HOGS; i++)
		assert_int_equal(client_state(&hog[i]), OPENREG_QUEUE_RUNNING);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, 1, 0), 0);
	tq_wait(&q);
	for (i = 0; i < COLUMNS; i++)
		assert_int_equal(sums[i], 4000 * (int64_t)i);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_nop),
		T(test_many_nops),
		T(test_armed),
		T(test_shared_door_and_vector),
		T(test_sleeps),
		cmocka_unit_test(test_litmus_polling),
		cmocka_unit_test(test_litmus_sleeping),
		cmocka_unit_test(test_litmus_short_spin),
		T(test_many_queues),
		T(test_stop_and_reset),
		T(test_destroy_and_reuse),
		T(test_stats),
		T(test_memory_of_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
