/* SPDX-License-Identifier: MIT */
/* WAIT, SIGNAL and TIMESTAMP; the scheduler: fair sharing, priority, several workers. */
#include <pthread.h>
#include <string.h>

#include "host.h"

#define LARGE ((1 << 20) / SCALE) /* elements, of several slices */
#define ROUNDS (3000 / SCALE)
#define GRIND (40 / SCALE) /* rounds of a long packet */

static uint64_t memory; /* bus address of segment 2 */

static void give_segments(struct rig *rig, uint32_t ctx)
{
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, ctx, 0), 0);
	rig_do(rig, cmd_vram(ctx, 1, (ctx - 1) * (16u << 20), 16u << 20, RW));
	rig_do(rig, cmd_system(rig, ctx, 2, memory, 4096, RW, false));
}

static int setup_workers(void **state, unsigned int workers)
{
	struct rig *rig = rig_new(workers);

	memory = rig_alloc(rig, 4096);
	give_segments(rig, 1);
	give_segments(rig, 2);
	*state = rig;
	return 0;
}

static int setup(void **state)
{
	return setup_workers(state, 2);
}

static int setup_one(void **state)
{
	return setup_workers(state, 1);
}

static void push_sync(struct client_queue *q, unsigned int opcode, unsigned int arg,
		      uint64_t addr, uint64_t value)
{
	struct pkt p;

	pkt_sync(&p, opcode, arg, addr, value);
	tq_push(q, &p);
}

static uint64_t vram_word(struct rig *rig, uint64_t off)
{
	return __atomic_load_n((uint64_t *)(rig->vram + off), __ATOMIC_SEQ_CST);
}

static void test_signal(void **state)
{
	struct rig *rig = *state;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	push_sync(&q, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, VRAM(8), 41);
	push_sync(&q, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, VRAM(8), 1);
	push_sync(&q, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, SYSTEM(16), 7);
	push_sync(&q, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, SYSTEM(16),
		  (uint64_t)-8);
	push_sync(&q, OPENREG_OP_TIMESTAMP, 0, SYSTEM(24), 0);
	push_sync(&q, OPENREG_OP_TIMESTAMP, 0, VRAM(24), 0);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(vram_word(rig, 8), 42);
	assert_int_equal(rig_load(rig, memory + 16), (uint64_t)-1);
	assert_true(rig_load(rig, memory + 24) > 0);
	assert_true(vram_word(rig, 24) >= rig_load(rig, memory + 24));
}

/* Each condition on each kind of memory; the CPU or another queue sets the word. */
static void test_wait(void **state)
{
	static const struct {
		unsigned int cond;
		uint64_t value, no, yes;
	} cases[] = {
		{ OPENREG_WAIT_GE, 5, 4, 6 },
		{ OPENREG_WAIT_GE, 1ULL << 63, 1, UINT64_MAX },
		{ OPENREG_WAIT_EQ, 5, 6, 5 },
		{ OPENREG_WAIT_NE, 5, 5, 6 },
	};
	struct rig *rig = *state;
	unsigned int i, kind;
	struct client_queue q, other;

	tq_create(rig, &q, 1, 0);
	tq_create(rig, &other, 1, 1);
	for (i = 0; i < 4; i++)
		for (kind = 0; kind < 2; kind++) {
			uint64_t word = kind ? SYSTEM(0) : VRAM(0);

			push_sync(&other, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET,
				  word, cases[i].no);
			client_publish(&other);
			tq_wait(&other);
			push_sync(&q, OPENREG_OP_WAIT, cases[i].cond, word,
				  cases[i].value);
			tq_nop(&q);
			client_publish(&q);
			tq_nop(&other);
			client_publish(&other);
			tq_wait(&other);
			assert_int_equal(client_done(&q), q.seq - 2);
			push_sync(&other, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET,
				  word, cases[i].yes);
			client_publish(&other);
			tq_wait(&q);
		}
}

/* The CPU stores the word without a doorbell: the card's back-off poll finds it. */
static void test_wait_for_cpu(void **state)
{
	struct rig *rig = *state;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 1; i < 200; i++) {
		push_sync(&q, OPENREG_OP_WAIT, OPENREG_WAIT_GE, SYSTEM(8), i);
		client_publish(&q);
		rig_store(rig, memory + 8, i);
		tq_wait(&q);
	}
}

/* Two queues that take turns, each waiting for the other. */
static void test_ping_pong(void **state)
{
	struct rig *rig = *state;
	struct client_queue a, b;
	unsigned int i;

	tq_create(rig, &a, 1, 0);
	tq_create(rig, &b, 2, 1);
	for (i = 1; i <= ROUNDS; i++) {
		push_sync(&a, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, SYSTEM(0),
			  i);
		push_sync(&a, OPENREG_OP_WAIT, OPENREG_WAIT_GE, SYSTEM(8), i);
		push_sync(&b, OPENREG_OP_WAIT, OPENREG_WAIT_GE, SYSTEM(0), i);
		push_sync(&b, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, SYSTEM(8),
			  i);
		client_publish(&a);
		client_publish(&b);
		if (i % 50 == 0) {
			tq_wait(&a);
			tq_wait(&b);
		}
	}
	tq_wait(&a);
	tq_wait(&b);
	assert_int_equal(rig_load(rig, memory + 8), ROUNDS);
}

/* ADD is atomic among the queues of a card, on each kind of memory. */
static void test_adds(void **state)
{
	struct rig *rig = *state;
	struct client_queue q[4];
	unsigned int i, k;

	for (i = 0; i < 4; i++)
		tq_create(rig, &q[i], 1, i);
	for (k = 0; k < 1000; k++)
		for (i = 0; i < 4; i++) {
			push_sync(&q[i], OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD,
				  SYSTEM(64), 1);
			push_sync(&q[i], OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD,
				  VRAM(64), 1);
			client_publish(&q[i]);
		}
	for (i = 0; i < 4; i++)
		tq_wait(&q[i]);
	assert_int_equal(rig_load(rig, memory + 64), 4000);
	assert_int_equal(vram_word(rig, 64), 4000);
}

/* A waiting queue gives up the only worker, and can be stopped. */
static void test_wait_gives_up_worker(void **state)
{
	struct rig *rig = *state;
	struct client_queue q, other;
	unsigned int i;

	tq_create(rig, &q, 1, 0);
	tq_create(rig, &other, 2, 1);
	push_sync(&q, OPENREG_OP_WAIT, OPENREG_WAIT_EQ, VRAM(0), 99);
	client_publish(&q);
	for (i = 0; i < 100; i++) {
		tq_nop(&other);
		client_publish(&other);
		tq_wait(&other);
	}
	assert_int_equal(client_done(&q), 0);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP, 1, 0), 0);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
	/* The stopped WAIT holds no reference on its segment. */
	assert_int_equal(tq_reset(&q, 0, 0), 0);
	rig_unbind(rig, 1, 1);
	assert_int_equal(tq_wait_fault(&q).code, OPENREG_FAULT_ADDRESS);
}

static void push_grind(struct client_queue *q, uint64_t off, int64_t n,
		       unsigned int rounds)
{
	struct pkt p;

	pkt_grind(&p, VRAM(off), n, rounds);
	tq_push(q, &p);
}

/* A flood of packets does not starve another context. */
static void test_flood(void **state)
{
	struct rig *rig = *state;
	const unsigned int n = 200;
	struct client_queue flood, q;
	unsigned int i;

	tq_create(rig, &flood, 1, 0);
	tq_create(rig, &q, 2, 1);
	for (i = 0; i < n; i++)
		push_grind(&flood, 0, LARGE, GRIND);
	client_publish(&flood);
	WAIT_FOR(client_done(&flood) > 1);
	push_grind(&q, 0, 16, 1);
	client_publish(&q);
	tq_wait(&q);
	assert_true(client_done(&flood) < n);
	tq_wait(&flood);
}

/* Two floods of the same packets get about the same time. */
static void test_fair(void **state)
{
	struct rig *rig = *state;
	const unsigned int n = 200;
	uint64_t done[2];
	struct client_queue q[2];
	unsigned int i;

	for (i = 0; i < 2; i++)
		tq_create(rig, &q[i], 1 + i, i);
	rig_pause(rig);
	for (i = 0; i < n; i++) {
		push_grind(&q[0], 0, LARGE / 4, GRIND);
		push_grind(&q[1], 0, LARGE / 4, GRIND);
		client_publish(&q[0]);
		client_publish(&q[1]);
		if (i == 20)
			openreg_card_resume(rig->card);
	}
	WAIT_FOR(client_done(&q[0]) >= n || client_done(&q[1]) >= n);
	done[0] = client_done(&q[0]);
	done[1] = client_done(&q[1]);
	assert_true(done[0] > n / 4 && done[1] > n / 4);
	tq_wait(&q[0]);
	tq_wait(&q[1]);
}

/* Within a context all packets of HIGH run before the first packet of LOW. */
static void test_priority(void **state)
{
	struct rig *rig = *state;
	struct client_queue low, high;
	unsigned int i;

	tq_init(rig, &low, 1, 0, 256);
	tq_init(rig, &high, 1, 1, 256);
	rig_do(rig, cmd_queue(&low, OPENREG_PRIORITY_LOW));
	rig_do(rig, cmd_queue(&high, OPENREG_PRIORITY_HIGH));
	rig_pause(rig);
	push_sync(&low, OPENREG_OP_TIMESTAMP, 0, SYSTEM(0), 0);
	for (i = 0; i < 20; i++)
		push_grind(&high, 0, LARGE / 4, GRIND / 2);
	push_sync(&high, OPENREG_OP_TIMESTAMP, 0, SYSTEM(8), 0);
	client_publish(&low);
	client_publish(&high);
	openreg_card_resume(rig->card);
	tq_wait(&low);
	tq_wait(&high);
	assert_true(rig_load(rig, memory) >= rig_load(rig, memory + 8));
}

static uint64_t f32_pair(float a, float b)
{
	float pair[2] = { a, b };
	uint64_t bits;

	memcpy(&bits, pair, 8);
	return bits;
}

/* In order within a queue: each packet sees what the one before it wrote. */
static void test_order(void **state)
{
	struct rig *rig = *state;
	const int64_t size = LARGE, one = 1, n = 1000;
	uint64_t expect = 0;
	struct client_queue q;
	struct pkt p;
	unsigned int i;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 40; i++) {
		push_grind(&q, 0, size, i % 7 + 1);
		expect += i % 7 + 1;
		/* Copy the data away and back: both engines keep the order. */
		pkt_copy(&p, VRAM(8 << 20), VRAM(0), OPENREG_I32, size);
		tq_push(&q, &p);
		pkt_begin(&p, OPENREG_OP_FILL, 1, &n);
		pkt_operand(&p, VRAM(0), OPENREG_I32, &one);
		pkt_imm(&p, 0);
		tq_push(&q, &p);
		pkt_copy(&p, VRAM(0), VRAM(8 << 20), OPENREG_I32, size);
		tq_push(&q, &p);
	}
	client_publish(&q);
	tq_wait(&q);
	for (i = 0; i < (unsigned int)size; i++)
		if (((uint32_t *)rig->vram)[i] != expect)
			fail_msg("element %u is wrong", i);
}

/* A MATMUL from the ring, large enough for every worker. */
static void test_matmul(void **state)
{
	struct rig *rig = *state;
	const int64_t n = 512, size[] = { 1, n, n, n };
	const int64_t d[] = { 0, n, 1, 0 }, a[] = { 0, n, 0, 1 };
	const int64_t b[] = { 0, 0, 1, n };
	float *m = (float *)rig->vram;
	struct client_queue q;
	struct pkt p;
	int64_t i;

	/* A: rows of i % 8; B: 2 I, so D = 2 A */
	for (i = 0; i < n * n; i++) {
		m[i] = (float)(i / n % 8);
		m[n * n + i] = i / n == i % n ? 2.0f : 0.0f;
	}
	tq_create(rig, &q, 1, 0);
	pkt_begin(&p, OPENREG_OP_MATMUL, 4, size);
	pkt_operand(&p, VRAM((uint64_t)(2 * n * n * 4)), OPENREG_F32, d);
	pkt_operand(&p, VRAM(0), OPENREG_F32, a);
	pkt_operand(&p, VRAM((uint64_t)(n * n * 4)), OPENREG_F32, b);
	pkt_imm(&p, f32_pair(0, 1.875f)); /* 1.0 as an f64 */
	pkt_imm(&p, 0);
	tq_run(&q, &p);
	for (i = 0; i < n * n; i++)
		if (m[2 * n * n + i] != 2 * m[i])
			fail_msg("element %d is wrong", (int)i);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
#define ONE(f) cmocka_unit_test_setup_teardown(f, setup_one, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_signal),
		T(test_wait),
		ONE(test_wait),
		T(test_wait_for_cpu),
		T(test_ping_pong),
		ONE(test_ping_pong),
		T(test_adds),
		ONE(test_wait_gives_up_worker),
		ONE(test_flood),
		T(test_flood),
		ONE(test_fair),
		ONE(test_priority),
		T(test_order),
		T(test_matmul),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
