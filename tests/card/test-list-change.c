// SPDX-License-Identifier: MIT
/* LISTs that change, end or lose their memory while they run. */
#include <pthread.h>
#include <string.h>

#include "lists.h"

#define DATA(off) OPENREG_ADDR(0, SEG_DATA, off)
#define LEN (1u << 20)

static int setup(void **state)
{
	*state = lists_rig(2, LEN);
	return 0;
}

static int setup_one(void **state)
{
	*state = lists_rig(1, LEN);
	return 0;
}

/* Makes a LIST of n counts, a WAIT for DATA(8) >= 1, and n more counts. */
static void make_parked(struct list *list, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < 2 * n; i++) {
		if (i == n)
			list_sync(list, OPENREG_OP_WAIT, OPENREG_WAIT_GE, DATA(8), 1);
		list_count(list, DATA(0));
	}
}

/* A LIST that waits does not keep its segment; it faults where the card must read on. */
static void test_unbind_list(void **state)
{
	struct rig *rig = *state;
	struct openreg_fault_summary f;
	struct list list;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_VRAM);
	make_parked(&list, 300);
	list_push(&q, &list);
	client_publish(&q);
	WAIT_FOR(list_data(rig, 0) == 300);
	rig_unbind(rig, 1, SEG_VRAM);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_RUNNING);
	__atomic_store_n((uint64_t *)(rig->vram + 8), 1, __ATOMIC_SEQ_CST);
	f = tq_wait_fault(&q);
	assert_int_equal(f.code, OPENREG_FAULT_ADDRESS);
	assert_int_equal(f.opcode, OPENREG_OP_LIST);
	assert_int_equal(f.operand, 0);
	assert_true(f.in_list > 301);
	assert_int_equal(list_data(rig, 0), f.in_list - 2u);
}

/* The segment of a later packet's operand is unbound. */
static void test_unbind_operand(void **state)
{
	struct rig *rig = *state;
	struct openreg_fault_summary f;
	struct list list;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_VRAM);
	list_count(&list, DATA(0));
	list_sync(&list, OPENREG_OP_WAIT, OPENREG_WAIT_GE, DATA(8), 1);
	list_count(&list, OPENREG_ADDR(0, SEG_SYSTEM, 0));
	list_push(&q, &list);
	client_publish(&q);
	WAIT_FOR(list_data(rig, 0) == 1);
	rig_unbind(rig, 1, SEG_SYSTEM);
	__atomic_store_n((uint64_t *)(rig->vram + 8), 1, __ATOMIC_SEQ_CST);
	f = tq_wait_fault(&q);
	assert_int_equal(f.code, OPENREG_FAULT_ADDRESS);
	assert_int_equal(f.in_list, 3);
}

/* A fault after a stop in a LIST, or a reset to another packet, forgets the LIST. */
static void test_reset(void **state)
{
	struct rig *rig = *state;
	uint64_t done;
	struct list list;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_SYSTEM);
	make_parked(&list, 3);
	list_push(&q, &list);
	client_publish(&q);
	WAIT_FOR(list_data(rig, 0) == 3);
	rig_do(rig, cmd_stop(1, 0, OPENREG_STOP_AFTER_PACKET));
	assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
	done = rig_load(rig, q.page + offsetof(struct openreg_card_page, list_done));
	assert_int_equal(done, 3 | 3ULL << 32);
	assert_int_equal(tq_reset(&q, q.tail, q.seq), 0);
	__atomic_store_n((uint64_t *)(rig->vram + 8), 1, __ATOMIC_SEQ_CST);
	list_push(&q, &list);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(list_data(rig, 0), 9);
}

/* The process replaces the LIST while the queue is stopped in it. */
static void test_replaced(void **state)
{
	struct rig *rig = *state;
	uint32_t short_slots = 2;
	struct list list;
	uint8_t *packet;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_SYSTEM);
	make_parked(&list, 3);
	list_push(&q, &list);
	client_publish(&q);
	WAIT_FOR(list_data(rig, 0) == 3);
	rig_do(rig, cmd_stop(1, 0, OPENREG_STOP_NOW));
	packet = rig_ptr(rig, q.ring);
	memcpy(packet + 48, &short_slots, 4);
	memcpy(packet + 56, &short_slots, 4);
	assert_int_equal(tq_reset(&q, 0, 0), 0);
	assert_int_equal(tq_wait_fault(&q).code, OPENREG_FAULT_RING);
	assert_int_equal(tq_reset(&q, 0, 0), 0);
	/* After the fault the LIST begins again. */
	tq_wait(&q);
	assert_int_equal(list_data(rig, 0), 5);
}

struct vandal {
	struct list *list;
	atomic_bool stop;
};

/* Writes random bytes into a LIST. */
static void *vandal_main(void *opaque)
{
	struct vandal *v = opaque;
	const uint32_t slots = v->list->slots;
	uint64_t x = 88172645463325252ULL;

	while (!atomic_load(&v->stop)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		__atomic_store_n(v->list->at + x % (slots * (uint64_t)OPENREG_SLOT_SIZE),
				 (uint8_t)(x >> 32), __ATOMIC_RELAXED);
		host_rest();
	}
	return NULL;
}

/* A LIST that changes while it runs runs or faults; the other context is not affected. */
static void test_changed(void **state)
{
	struct rig *rig = *state;
	static uint8_t good[1 << 16];
	struct vandal v = { 0 };
	struct client_queue q, bystander;
	struct list list;
	pthread_t thread;
	unsigned int i;
	size_t len;

	tq_create(rig, &q, 1, 0);
	tq_create(rig, &bystander, 2, 1);
	list_init(rig, &list, SEG_SYSTEM);
	for (i = 0; i < 200; i++) {
		struct pkt p;

		pkt_grind(&p, DATA(64), 64, 2);
		list_add(&list, &p);
	}
	len = list.slots * (size_t)OPENREG_SLOT_SIZE;
	assert_true(len <= sizeof(good));
	memcpy(good, list.at, len);
	v.list = &list;
	assert_int_equal(pthread_create(&thread, NULL, vandal_main, &v), 0);
	for (i = 0; i < 2000 / SCALE; i++) {
		if (i % 4 == 0)
			memcpy(list.at, good, len);
		list_push(&q, &list);
		client_publish(&q);
		tq_nop(&bystander);
		client_publish(&bystander);
		tq_wait(&bystander);
		/* A changed WAIT may wait for ever. */
		if (i % 16 == 15 && client_done(&q) < q.seq &&
		    client_state(&q) == OPENREG_QUEUE_RUNNING)
			rig_do(rig, cmd_stop(1, 0, OPENREG_STOP_NOW));
		if (client_state(&q) != OPENREG_QUEUE_RUNNING)
			tq_recover(&q);
	}
	atomic_store(&v.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(client_state(&bystander), OPENREG_QUEUE_RUNNING);
}

/* The longest LISTs, again and again, share the only worker with another context. */
static void test_endless(void **state)
{
	struct rig *rig = *state;
	const uint32_t slots = LIST_LEN / OPENREG_SLOT_SIZE;
	struct client_queue flood, q;
	struct list list;
	unsigned int i;

	tq_create(rig, &flood, 1, 0);
	tq_create(rig, &q, 2, 1);
	list_init(rig, &list, SEG_VRAM);
	while (list.slots + 8 < slots) {
		struct pkt p;

		pkt_grind(&p, DATA(64), 4096, 30);
		list_add(&list, &p);
		list_nop(&list, 1);
	}
	for (i = 0; i < 200; i++)
		list_push(&flood, &list);
	client_publish(&flood);
	for (i = 0; i < 200; i++) {
		tq_nop(&q);
		client_publish(&q);
		tq_wait(&q);
	}
	assert_true(client_done(&flood) < 200);
	rig_do(rig, cmd_stop(1, 0, OPENREG_STOP_NOW));
	assert_int_equal(client_state(&flood), OPENREG_QUEUE_STOPPED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unbind_list, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_unbind_operand, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_reset, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_replaced, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_changed, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_endless, setup_one, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
