/* SPDX-License-Identifier: MIT */
/* Engine time: each packet counts once, for the engine that ran it. */
#include <unistd.h>

#include "core/core.h"
#include "core/queue.h"
#include "host.h"
#include "random.h"

#define DATA VRAM(1 << 20)
#define LEN (8u << 20)
#define SMALL (32768 / SCALE) /* elements: a packet of few slices */
#define LARGE (LEN / 4 / SCALE) /* elements: many slices; copies use the copy thread */

enum kind { NOP, SIGNAL, WAIT, TIMESTAMP, COPY, FILL, VECTOR, KINDS };

struct times {
	uint64_t wall;
	uint64_t busy;
	uint64_t compute;
	uint64_t copy;
};

static int setup_workers(void **state, unsigned int workers)
{
	struct rig *rig = rig_new(workers);
	uint32_t ctx;

	for (ctx = 1; ctx <= 2; ctx++) {
		rig_op(rig, OPENREG_ADMIN_CTX_CREATE, ctx, 0);
		rig_do(rig, cmd_vram(ctx, 1, (ctx - 1) * HOST_VRAM / 2, HOST_VRAM / 2, RW));
	}
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

static void push(struct client_queue *q, enum kind kind, int64_t n)
{
	const int64_t one = 1;
	struct pkt p;

	switch (kind) {
	case NOP:
		tq_nop(q);
		return;
	case SIGNAL:
		pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, VRAM(0), 1);
		break;
	case WAIT:
		pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_EQ, VRAM(8), 0);
		break;
	case TIMESTAMP:
		pkt_sync(&p, OPENREG_OP_TIMESTAMP, 0, VRAM(16), 0);
		break;
	case COPY:
		pkt_copy(&p, DATA + LEN, DATA, OPENREG_I32, n);
		break;
	case FILL:
		pkt_begin(&p, OPENREG_OP_FILL, 1, &n);
		pkt_operand(&p, DATA, OPENREG_I32, &one);
		pkt_imm(&p, 0);
		break;
	default:
		pkt_grind(&p, DATA, n, 50);
	}
	tq_push(q, &p);
}

static uint64_t reg64(struct rig *rig, uint32_t off)
{
	return openreg_card_reg_read(rig->card, off, 8);
}

/* Reads all times while the card is paused. */
static struct times look(struct rig *rig)
{
	struct times t = { 0 };
	unsigned int i;

	rig_pause(rig);
	for (i = 0; i < OPENREG_MAX_QUEUES; i++)
		if (rig->card->queue[i])
			t.busy += atomic_load(&rig->card->queue[i]->busy_ns);
	t.compute = reg64(rig, OPENREG_REG_STAT_COMPUTE_NS);
	t.copy = reg64(rig, OPENREG_REG_STAT_COPY_NS);
	t.wall = host_now();
	openreg_card_resume(rig->card);
	return t;
}

/* Checks the times since from: limits that hold on any busy machine. */
static struct times check(struct rig *rig, struct times from,
			  unsigned int threads)
{
	struct times t = look(rig);

	t.wall -= from.wall;
	t.busy -= from.busy;
	t.compute -= from.compute;
	t.copy -= from.copy;
	if (t.busy > t.wall * threads || t.busy < t.compute + t.copy)
		fail_msg("%llu ns with %u threads: busy %llu, compute %llu, copy %llu",
			 (unsigned long long)t.wall, threads,
			 (unsigned long long)t.busy,
			 (unsigned long long)t.compute,
			 (unsigned long long)t.copy);
	return t;
}

static uint64_t busy_in_page(struct client_queue *q)
{
	return rig_load(rig_of(q), q->page + offsetof(struct openreg_card_page,
						   busy_ns));
}

/* Each kind of packet alone (with a NOP), and any two kinds in one ring. */
static void test_pairs(void **state)
{
	struct rig *rig = *state;
	uint64_t before;
	struct times t;
	struct client_queue q;
	int a, b, tries;

	tq_create(rig, &q, 1, 0);
	for (a = NOP; a < KINDS; a++)
		for (b = NOP; b < KINDS; b++) {
			t = look(rig);
			before = busy_in_page(&q);
			push(&q, a, SMALL);
			push(&q, b, SMALL);
			client_publish(&q);
			tq_wait(&q);
			t = check(rig, t, 3);
			assert_true(t.busy > 0);
			/* The last thread stores the sum after the completion. */
			for (tries = 0; tries < 10000 &&
			     busy_in_page(&q) - before != t.busy; tries++)
				usleep(100);
			assert_int_equal(busy_in_page(&q) - before, t.busy);
			assert_int_equal(t.compute > 0,
					 a == VECTOR || b == VECTOR);
			assert_int_equal(t.copy > 0,
					 a == COPY || a == FILL ||
						 b == COPY || b == FILL);
		}
}

/* Packets of one queue run one after the other: busy is at most the elapsed time. */
static void test_vector_first(void **state)
{
	struct rig *rig = *state;
	struct times from, t;
	unsigned int i;
	uint64_t end;
	struct client_queue q;
	int kind;

	tq_create(rig, &q, 1, 0);
	for (kind = NOP; kind < KINDS; kind++) {
		from = look(rig);
		for (i = 0; i < 100; i++) {
			push(&q, VECTOR, SMALL);
			push(&q, kind, SMALL);
			client_publish(&q);
			end = host_now() + 60000000000ULL;
			while (client_done(&q) < q.seq)
				if (host_now() > end)
					fail_msg("packet %u does not complete", i);
		}
		t = check(rig, from, 1);
		print_message("kind %d: busy %llu of %llu us\n", kind,
			      (unsigned long long)t.busy / 1000,
			      (unsigned long long)t.wall / 1000);
	}
}

static void create_both(struct rig *rig, struct client_queue *q)
{
	tq_create(rig, &q[0], 1, 0);
	tq_create(rig, &q[1], 2, 1);
}

static void run_both(struct client_queue *q)
{
	client_publish(&q[0]);
	client_publish(&q[1]);
	tq_wait(&q[0]);
	tq_wait(&q[1]);
}

/* Random packets of all kinds on two queues, run by all threads. */
static void test_at_random(void **state)
{
	struct rig *rig = *state;
	struct times from;
	struct client_queue q[2];
	unsigned int i;

	create_both(rig, q);
	from = look(rig);
	for (i = 0; i < 400 / SCALE; i++)
		push(&q[i % 2], below(KINDS), below(4) ? SMALL : LARGE);
	run_both(q);
	check(rig, from, 3);
}

/* Copies run on the copy thread because the workers have other packets. */
static void test_copy_thread(void **state)
{
	struct rig *rig = *state;
	struct times from;
	struct client_queue q[2];
	unsigned int i;

	create_both(rig, q);
	from = look(rig);
	for (i = 0; i < 20; i++)
		push(&q[0], COPY, LARGE);
	for (i = 0; i < 200; i++)
		push(&q[1], VECTOR, SMALL);
	run_both(q);
	check(rig, from, 2);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
#define ONE(f) cmocka_unit_test_setup_teardown(f, setup_one, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_pairs),
		ONE(test_pairs),
		ONE(test_vector_first),
		T(test_at_random),
		ONE(test_copy_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
