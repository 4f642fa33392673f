// SPDX-License-Identifier: MIT
/* LIST: its packets run as in the ring; checks and faults. */
#include <string.h>

#include "lists.h"

#define DATA(off) OPENREG_ADDR(0, SEG_DATA, off)
#define LEN (1u << 20)
#define NONE OPENREG_NO_OPERAND

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

/* Compute packets of one and several slices, copies on both engines, NOPs. */
static void add_work(struct list *list, unsigned int rounds)
{
	struct pkt p;

	while (rounds--) {
		pkt_grind(&p, DATA(0), LEN / 16, 3);
		list_add(list, &p);
		pkt_copy(&p, OPENREG_ADDR(0, SEG_SYSTEM, LIST_LEN / 2), DATA(0),
			 OPENREG_I32, LEN / 16);
		list_add(list, &p);
		list_nop(list, 1 + rounds % OPENREG_PACKET_SLOTS_MAX);
		pkt_copy(&p, DATA(0), OPENREG_ADDR(0, SEG_SYSTEM, LIST_LEN / 2),
			 OPENREG_I32, LEN / 16);
		list_add(list, &p);
		pkt_grind(&p, DATA(0), 16, 2);
		list_add(list, &p);
	}
}

/* A LIST of several pieces in each kind of memory: one completion, one interrupt. */
static void test_runs(void **state)
{
	struct rig *rig = *state;
	const int32_t *words = (const int32_t *)rig->vram;
	const unsigned int rounds = 40;
	unsigned int seg, raised, i;
	uint64_t packets;
	struct list list;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (seg = SEG_VRAM; seg < SEG_END; seg++) {
		memset(rig->vram, 0, LEN);
		list_init(rig, &list, seg);
		add_work(&list, rounds);
		assert_true(list.slots > 300);
		packets = rig_reg(rig, OPENREG_REG_STAT_PACKETS);
		raised = atomic_load(&rig->bus.raised[q.vector]);
		tq_arm(&q, q.seq + 1);
		list_push(&q, &list);
		tq_nop(&q);
		client_publish(&q);
		tq_wait(&q);
		for (i = 0; i < LEN / 16; i++)
			assert_int_equal(words[i], rounds * (i < 16 ? 5 : 3));
		WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_PACKETS) ==
			 packets + list.packets + 1);
		WAIT_FOR(atomic_load(&rig->bus.raised[q.vector]) == raised + 1);
	}
}

/* The same list many times, and several lists in a row. */
static void test_again(void **state)
{
	struct rig *rig = *state;
	struct list list, other;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_VRAM);
	list_count(&list, DATA(0));
	list_init(rig, &other, SEG_SYSTEM);
	for (i = 0; i < 100; i++)
		list_count(&other, DATA(8));
	for (i = 0; i < 1000; i++) {
		list_push(&q, &list);
		if (i % 10 == 0)
			list_push(&q, &other);
	}
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(list_data(rig, 0), 1000);
	assert_int_equal(list_data(rig, 8), 10000);
}

/* Slots after the last packet do not matter; the last packet may end the segment. */
static void test_extent(void **state)
{
	struct rig *rig = *state;
	struct list list;
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_VRAM);
	list_count(&list, DATA(0));
	memset(list.at + OPENREG_SLOT_SIZE, 0xff, OPENREG_SLOT_SIZE);
	pkt_list(&p, list.addr, 2, 1);
	tq_run(&q, &p);
	memcpy(list.at + LIST_LEN - OPENREG_SLOT_SIZE, list.at, OPENREG_SLOT_SIZE);
	pkt_list(&p, list.addr + LIST_LEN - OPENREG_SLOT_SIZE, 1, 1);
	tq_run(&q, &p);
	/* Aligned to 8 bytes, not to slots. */
	memmove(list.at + 8, list.at, OPENREG_SLOT_SIZE);
	pkt_list(&p, list.addr + 8, 1, 1);
	tq_run(&q, &p);
	assert_int_equal(list_data(rig, 0), 3);
}

/* Faults of the LIST itself. */
static void test_checks(void **state)
{
	static const struct {
		uint8_t at, value;
		uint32_t code, operand;
	} bytes[] = {
		{ 20, 1, OPENREG_FAULT_PACKET, NONE }, /* arg */
		{ 23, 1, OPENREG_FAULT_PACKET, NONE },
		{ 17, 0, OPENREG_FAULT_PACKET, NONE }, /* nops */
		{ 18, 1, OPENREG_FAULT_PACKET, NONE }, /* nimm */
		{ 19, 1, OPENREG_FAULT_PACKET, NONE }, /* ninstr */
		{ 40, OPENREG_U8, OPENREG_FAULT_DTYPE, 0 },
		{ 32, 4, OPENREG_FAULT_ALIGNMENT, 0 },
		{ 39, 0, OPENREG_FAULT_ADDRESS, 0 },
	};
	static const struct {
		uint64_t slots, packets;
		uint32_t code;
	} counts[] = {
		{ 0, 0, OPENREG_FAULT_LIMIT },
		{ 4, 0, OPENREG_FAULT_LIMIT },
		{ 4, 5, OPENREG_FAULT_LIMIT },
		{ OPENREG_LIST_SLOTS_MAX + 1, 1, OPENREG_FAULT_LIMIT },
		{ UINT64_MAX, 1, OPENREG_FAULT_LIMIT },
		{ UINT64_MAX, UINT64_MAX, OPENREG_FAULT_LIMIT },
		{ LIST_LEN / OPENREG_SLOT_SIZE + 1, 1, OPENREG_FAULT_BOUNDS },
		{ OPENREG_LIST_SLOTS_MAX, 1, OPENREG_FAULT_BOUNDS },
	};
	const int64_t one = 1;
	struct rig *rig = *state;
	struct openreg_fault_summary f;
	struct list list;
	unsigned int i;
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_SYSTEM);
	list_count(&list, DATA(0));
	for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		pkt_list(&p, list.addr, 1, 1);
		p.bytes[bytes[i].at] = bytes[i].value;
		f = tq_expect(&q, &p, bytes[i].code);
		assert_int_equal(f.operand, bytes[i].operand);
		assert_int_equal(f.opcode, OPENREG_OP_LIST);
		assert_int_equal(f.in_list, 0);
	}
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		pkt_list(&p, list.addr, counts[i].slots, counts[i].packets);
		f = tq_expect(&q, &p, counts[i].code);
		assert_int_equal(f.in_list, 0);
	}
	pkt_begin(&p, OPENREG_OP_LIST, 1, &one);
	pkt_operand(&p, list.addr, OPENREG_I64, &one);
	pkt_imm(&p, 1);
	pkt_imm(&p, 1);
	tq_expect(&q, &p, OPENREG_FAULT_SHAPE);
	rig_do(rig, cmd_system(rig, 1, SEG_END, rig_alloc(rig, 4096), 4096,
			 OPENREG_SEG_WRITE, false));
	pkt_list(&p, OPENREG_ADDR(0, SEG_END, 0), 1, 1);
	tq_expect(&q, &p, OPENREG_FAULT_PERMISSION);
	assert_int_equal(list_data(rig, 0), 0);
}

/*
 * Makes a LIST of three counts with p as the third of four packets. The fault names p, and
 * the packets before p have run.
 */
static void expect_inside(struct client_queue *q, struct pkt *p, uint32_t code,
			  uint32_t operand)
{
	struct rig *rig = rig_of(q);
	uint64_t before = list_data(rig, 0), seq;
	struct openreg_fault_summary f;
	struct list list;

	list_init(rig, &list, SEG_VRAM);
	list_count(&list, DATA(0));
	list_count(&list, DATA(0));
	list_add(&list, p);
	list_count(&list, DATA(0));
	tq_nop(q);
	list_push(q, &list);
	client_publish(q);
	f = tq_wait_fault(q);
	seq = q->seq;
	assert_int_equal(f.code, code);
	assert_int_equal(f.operand, operand);
	assert_int_equal(f.opcode, p->bytes[0]);
	assert_int_equal(f.cookie, 0xc0de);
	assert_int_equal(f.in_list, 3);
	assert_int_equal(f.seq, seq);
	assert_int_equal(client_done(q), seq - 1);
	assert_int_equal(list_data(rig, 0), before + 2);
	tq_recover(q);
	tq_nop(q);
	client_publish(q);
	tq_wait(q);
}

static void test_faults_inside(void **state)
{
	struct rig *rig = *state;
	struct list nested;
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	pkt_copy(&p, DATA(0), DATA(LEN), OPENREG_F32, 1);
	expect_inside(&q, &p, OPENREG_FAULT_BOUNDS, 1);
	pkt_grind(&p, OPENREG_ADDR(0, SEG_SYSTEM, 0), 4, 1);
	expect_inside(&q, &p, OPENREG_FAULT_ENGINE, 0);
	p.bytes[2] = 1;
	expect_inside(&q, &p, OPENREG_FAULT_PACKET, NONE);
	pkt_sync(&p, OPENREG_OP_WAIT, 3, DATA(0), 0);
	expect_inside(&q, &p, OPENREG_FAULT_PACKET, NONE);
	pkt_begin(&p, OPENREG_OP_END, 0, NULL);
	expect_inside(&q, &p, OPENREG_FAULT_PACKET, NONE);
	/* A LIST in a LIST, also in itself. */
	list_init(rig, &nested, SEG_SYSTEM);
	list_count(&nested, DATA(8));
	pkt_list(&p, nested.addr, 1, 1);
	expect_inside(&q, &p, OPENREG_FAULT_PACKET, NONE);
	pkt_list(&p, OPENREG_ADDR(0, SEG_VRAM, 0), 4, 4);
	expect_inside(&q, &p, OPENREG_FAULT_PACKET, NONE);
	assert_int_equal(list_data(rig, 8), 0);
}

/* A packet that goes past the slots, and fewer packets than the LIST says. */
static void test_past_the_end(void **state)
{
	struct rig *rig = *state;
	struct openreg_fault_summary f;
	struct list list;
	struct pkt p;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_VRAM);
	list_count(&list, DATA(0));
	list_nop(&list, 3);
	pkt_list(&p, list.addr, 3, 2);
	f = tq_expect(&q, &p, OPENREG_FAULT_RING);
	assert_int_equal(f.in_list, 2);
	assert_int_equal(f.opcode, OPENREG_OP_NOP);
	assert_int_equal(f.detail, 3);
	pkt_list(&p, list.addr, 4, 3);
	f = tq_expect(&q, &p, OPENREG_FAULT_RING);
	assert_int_equal(f.in_list, 3);
	assert_int_equal(f.opcode, OPENREG_OP_LIST);
	assert_int_equal(f.detail, 4);
	assert_int_equal(list_data(rig, 0), 2);
}

/* The bus refuses a later piece. */
static void test_dma(void **state)
{
	struct rig *rig = *state;
	struct openreg_fault_summary f;
	struct list list;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_SYSTEM);
	for (i = 0; i < 200; i++)
		list_count(&list, DATA(0));
	atomic_store(&rig->bus.bad_len, 4096);
	atomic_store(&rig->bus.bad_bus, BUS_BASE +
		     (uint64_t)(list.at - (uint8_t *)rig_ptr(rig, BUS_BASE)) +
		     2 * 4096);
	list_push(&q, &list);
	client_publish(&q);
	f = tq_wait_fault(&q);
	assert_int_equal(f.code, OPENREG_FAULT_DMA);
	assert_int_equal(f.opcode, OPENREG_OP_LIST);
	assert_int_equal(f.operand, 0);
	assert_true(f.in_list > 1 && f.in_list <= 129);
	assert_int_equal(list_data(rig, 0), f.in_list - 1u);
	atomic_store(&rig->bus.bad_bus, 0);
	tq_recover(&q);
	list_push(&q, &list);
	client_publish(&q);
	tq_wait(&q);
}

/* A WAIT in a LIST gives up the worker; SIGNALs in another LIST end it. */
static void test_wait(void **state)
{
	struct rig *rig = *state;
	struct list list, other;
	struct client_queue a, b;
	unsigned int i;

	tq_create(rig, &a, 1, 0);
	tq_create(rig, &b, 1, 1);
	list_init(rig, &list, SEG_VRAM);
	list_init(rig, &other, SEG_SYSTEM);
	for (i = 1; i <= 300; i++) {
		list_sync(&list, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, DATA(0), i);
		list_sync(&list, OPENREG_OP_WAIT, OPENREG_WAIT_GE, DATA(8), i);
		list_sync(&other, OPENREG_OP_WAIT, OPENREG_WAIT_GE, DATA(0), i);
		list_sync(&other, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, DATA(8), i);
	}
	list_push(&a, &list);
	client_publish(&a);
	WAIT_FOR(list_data(rig, 0) == 1);
	tq_nop(&b);
	client_publish(&b);
	tq_wait(&b);
	assert_int_equal(client_done(&a), 0);
	list_push(&b, &other);
	client_publish(&b);
	tq_wait(&a);
	tq_wait(&b);
	assert_int_equal(list_data(rig, 8), 300);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
#define ONE(f) cmocka_unit_test_setup_teardown(f, setup_one, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_runs),
		T(test_again),
		T(test_extent),
		T(test_checks),
		T(test_faults_inside),
		T(test_past_the_end),
		T(test_dma),
		T(test_wait),
		ONE(test_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
