// SPDX-License-Identifier: MIT
/* TRACE: one record of each packet, never two; full and lost rings; what survives. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/state.h"
#include "lists.h"
#include "random.h"

#define LEN (1u << 20)
#define DATA(off) OPENREG_ADDR(0, SEG_DATA, off)
#define RING (LEN / 2) /* offset of the trace ring in SEG_DATA */
#define PAGE(field) offsetof(struct openreg_card_page, field)

static int setup(void **state)
{
	*state = lists_rig(2, LEN);
	return 0;
}

static void pkt_trace(struct pkt *p, uint64_t addr, uint64_t records)
{
	pkt_begin(p, OPENREG_OP_TRACE, 0, NULL);
	pkt_operand(p, addr, OPENREG_I64, NULL);
	pkt_imm(p, records);
}

static void begin_trace(struct client_queue *q, uint64_t addr, uint64_t records)
{
	struct pkt p;

	pkt_trace(&p, addr, records);
	tq_run(q, &p);
}

static uint64_t page(struct client_queue *q, size_t off)
{
	return rig_load(rig_of(q), q->page + off);
}

static uint64_t written(struct client_queue *q)
{
	return page(q, PAGE(trace_written));
}

static uint64_t lost(struct client_queue *q)
{
	return page(q, PAGE(trace_lost));
}

static void consume(struct client_queue *q, uint64_t head)
{
	rig_store(rig_of(q), q->user + offsetof(struct openreg_user_page, trace_head),
		  head);
}

static uint64_t consumed(struct client_queue *q)
{
	return rig_load(rig_of(q), q->user + offsetof(struct openreg_user_page,
						      trace_head));
}

/* Record n of the ring at DATA(RING). */
static struct openreg_trace_record record(struct rig *rig, uint64_t n, uint64_t records)
{
	struct openreg_trace_record r;

	memcpy(&r, rig->vram + RING + (n & (records - 1)) * sizeof(r), sizeof(r));
	return r;
}

static void push_cookie(struct client_queue *q, struct pkt *p, uint32_t cookie)
{
	memcpy(p->bytes + offsetof(struct openreg_packet, cookie), &cookie, 4);
	tq_push(q, p);
}

static void check_times(const struct openreg_trace_record *r)
{
	assert_true(r->begin <= r->end);
	assert_true(r->stall_ns <= r->end - r->begin);
	assert_true(r->slices);
	assert_int_in_range(r->workers, 1, 4);
	/* A slice is measured by another clock, and rounded. */
	assert_true(r->busy_ns <= (r->end - r->begin) * r->workers + 1000000);
}

/* Does a queue wait? The WAIT at its head has then been tried. */
static bool waiting(struct rig *rig)
{
	bool found;

	pthread_mutex_lock(&rig->card->sched.lock);
	found = rig->card->sched.nwaiting;
	pthread_mutex_unlock(&rig->card->sched.lock);
	return found;
}

/* What a record says of each kind of packet. */
static void test_fields(void **state)
{
	struct rig *rig = *state;
	struct openreg_trace_record r;
	struct client_queue q, other;
	uint64_t n = 0, end = 0;
	struct pkt p;

	tq_create(rig, &q, 1, 0);
	tq_create(rig, &other, 1, 1);
	begin_trace(&q, DATA(RING), 16);
	assert_int_equal(page(&q, PAGE(trace_addr)), DATA(RING));
	assert_int_equal(page(&q, PAGE(trace_records)), 16);
	assert_int_equal(written(&q), 0);
	pkt_grind(&p, DATA(0), 16, 1);
	push_cookie(&q, &p, 100);
	pkt_grind(&p, DATA(0), LEN / 8, 40);
	push_cookie(&q, &p, 101);
	pkt_copy(&p, OPENREG_ADDR(0, SEG_SYSTEM, 0), DATA(0), OPENREG_I32, LEN / 8);
	push_cookie(&q, &p, 102);
	pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_GE, DATA(LEN - 8), 1);
	push_cookie(&q, &p, 103);
	tq_nop(&q);
	client_publish(&q);
	WAIT_FOR(client_done(&q) == 4 && waiting(rig));
	random_delay(5000000);
	pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, DATA(LEN - 8), 1);
	tq_run(&other, &p);
	tq_wait(&q);

	assert_int_equal(written(&q), 5);
	for (n = 0; n < 5; n++) {
		r = record(rig, n, 16);
		check_times(&r);
		assert_int_equal(r.seq, n + 2);
		assert_int_equal(r.cookie, n < 4 ? 100 + n : 0);
		assert_true(r.begin >= end);
		assert_int_equal(r.in_list, 0);
		assert_int_equal(r.fault, 0);
		assert_int_equal(r.stall_ns > 0, n == 3);
		end = r.end;
	}
	r = record(rig, 0, 16);
	assert_int_equal(r.opcode, OPENREG_OP_VECTOR);
	assert_int_equal(r.bytes, 16 * 4);
	assert_int_equal(r.slices, 1);
	assert_int_equal(r.workers, 1);
	r = record(rig, 1, 16);
	assert_int_equal(r.bytes, LEN / 2);
	assert_true(r.slices > 1);
	assert_true(r.busy_ns > 0);
	r = record(rig, 2, 16);
	assert_int_equal(r.opcode, OPENREG_OP_COPY);
	assert_int_equal(r.bytes, 2 * LEN / 2);
	r = record(rig, 3, 16);
	assert_int_equal(r.opcode, OPENREG_OP_WAIT);
	assert_int_equal(r.bytes, 8);
	assert_int_equal(record(rig, 4, 16).opcode, OPENREG_OP_NOP);
}

/* A ring that nobody reads: later records are lost, and counted; then it goes on. */
static void test_overflow(void **state)
{
	struct rig *rig = *state;
	struct client_queue q;
	unsigned int i;

	tq_create(rig, &q, 1, 0);
	begin_trace(&q, DATA(RING), 16);
	for (i = 0; i < 50; i++)
		tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 16);
	assert_int_equal(lost(&q), 34);
	for (i = 0; i < 16; i++)
		assert_int_equal(record(rig, i, 16).seq, i + 2);
	consume(&q, 10);
	for (i = 0; i < 12; i++)
		tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 26);
	assert_int_equal(lost(&q), 36);
	assert_int_equal(record(rig, 15, 16).seq, 17);
	assert_int_equal(record(rig, 25, 16).seq, 1 + 50 + 10);
	/* A head that is no count of records loses them; the queue goes on. */
	consume(&q, 1ULL << 60);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 26);
	assert_int_equal(lost(&q), 37);
}

/* The trace ends and begins again, with another ring; the counters go on. */
static void test_again(void **state)
{
	struct rig *rig = *state;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	tq_nop(&q);
	client_publish(&q);
	begin_trace(&q, DATA(RING), 4);
	tq_nop(&q);
	client_publish(&q);
	begin_trace(&q, 0, 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 1);
	assert_int_equal(record(rig, 0, 4).seq, 3);
	consume(&q, 1);
	begin_trace(&q, DATA(RING), 2);
	tq_nop(&q);
	client_publish(&q);
	begin_trace(&q, DATA(RING), 8); /* a trace in place of a trace */
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 3);
	assert_int_equal(record(rig, 1, 2).seq, 7);
	assert_int_equal(record(rig, 2, 8).seq, 9);
	assert_int_equal(lost(&q), 0);
}

/* Ring fields of which each is bad. */
static void test_checks(void **state)
{
	static const struct {
		uint64_t addr, records;
		uint32_t code;
	} bad[] = {
		{ DATA(0), 3, OPENREG_FAULT_LIMIT },
		{ DATA(0), 2 * OPENREG_TRACE_RECORDS_MAX, OPENREG_FAULT_LIMIT },
		{ DATA(0), 1ULL << 63, OPENREG_FAULT_LIMIT },
		{ DATA(0), 32768, OPENREG_FAULT_BOUNDS },
		{ DATA(LEN - 56), 1, OPENREG_FAULT_BOUNDS },
		{ DATA(4), 1, OPENREG_FAULT_ALIGNMENT },
		{ OPENREG_ADDR(0, SEG_END, 0), 1, OPENREG_FAULT_ADDRESS },
		{ OPENREG_ADDR(1, SEG_DATA, 0), 1, OPENREG_FAULT_ADDRESS },
		{ OPENREG_ADDR(0, SEG_PEER, 0), 1, OPENREG_FAULT_PERMISSION },
	};
	const int64_t one = 1;
	struct client_queue q;
	struct pkt p;
	size_t i;

	tq_create(*state, &q, 1, 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pkt_trace(&p, bad[i].addr, bad[i].records);
		tq_expect(&q, &p, bad[i].code);
		assert_int_equal(page(&q, PAGE(trace_records)), 0);
	}
	pkt_begin(&p, OPENREG_OP_TRACE, 1, &one);
	pkt_operand(&p, DATA(0), OPENREG_I64, &one);
	pkt_imm(&p, 1);
	tq_expect(&q, &p, OPENREG_FAULT_SHAPE);
	pkt_begin(&p, OPENREG_OP_TRACE, 0, NULL);
	pkt_operand(&p, DATA(0), OPENREG_I32, NULL);
	pkt_imm(&p, 1);
	tq_expect(&q, &p, OPENREG_FAULT_DTYPE);
	pkt_trace(&p, DATA(0), 1);
	pkt_imm(&p, 1);
	tq_expect(&q, &p, OPENREG_FAULT_PACKET);
	pkt_trace(&p, DATA(0), 1);
	pkt_arg(&p, 2, 1);
	tq_expect(&q, &p, OPENREG_FAULT_PACKET);
	/* The largest ring that fits, and the end of a trace that there is not. */
	begin_trace(&q, DATA(0), LEN / 64);
	begin_trace(&q, 0, 0);
	begin_trace(&q, 0, 0);
}

/* Each packet of a LIST has a record; a TRACE in a LIST faults. */
static void test_list(void **state)
{
	struct rig *rig = *state;
	struct openreg_fault_summary f;
	struct openreg_trace_record r;
	struct client_queue q;
	struct list list;
	struct pkt p;
	unsigned int i;

	tq_create(rig, &q, 1, 0);
	begin_trace(&q, DATA(RING), 1024);
	list_init(rig, &list, SEG_SYSTEM);
	for (i = 0; i < 400; i++)
		list_nop(&list, 1 + i % 3);
	pkt_trace(&p, 0, 0);
	list_add(&list, &p);
	tq_nop(&q);
	list_push(&q, &list);
	client_publish(&q);
	f = tq_wait_fault(&q);
	assert_int_equal(f.code, OPENREG_FAULT_PACKET);
	assert_int_equal(f.detail, 0);
	assert_int_equal(f.in_list, 401);
	WAIT_FOR(written(&q) == 402);
	for (i = 0; i < 402; i++) {
		r = record(rig, i, 1024);
		assert_int_equal(r.seq, i ? 3 : 2);
		assert_int_equal(r.in_list, i);
		assert_int_equal(r.fault, i == 401 ? OPENREG_FAULT_PACKET : 0);
	}
	assert_int_equal(lost(&q), 0);
}

/* The record of a packet that faults says why; the trace goes on after the reset. */
static void test_faults(void **state)
{
	struct rig *rig = *state;
	struct openreg_trace_record r;
	struct client_queue q;
	struct pkt p;

	tq_create(rig, &q, 1, 0);
	begin_trace(&q, DATA(RING), 16);
	pkt_copy(&p, DATA(0), DATA(LEN), OPENREG_U8, 1);
	push_cookie(&q, &p, 77);
	client_publish(&q);
	tq_wait_fault(&q);
	WAIT_FOR(written(&q) == 1);
	r = record(rig, 0, 16);
	assert_int_equal(r.fault, OPENREG_FAULT_BOUNDS);
	assert_int_equal(r.cookie, 77);
	assert_int_equal(r.bytes, 0);
	assert_true(r.begin && r.begin <= r.end);
	tq_recover(&q);
	pkt_begin(&p, OPENREG_OP_END, 0, NULL);
	tq_push(&q, &p);
	client_publish(&q);
	tq_wait_fault(&q);
	WAIT_FOR(written(&q) == 2);
	assert_int_equal(record(rig, 1, 16).opcode, OPENREG_OP_END);
	tq_recover(&q);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 3);
	assert_int_equal(record(rig, 2, 16).seq, 4);
	assert_int_equal(record(rig, 2, 16).fault, 0);
}

/* The ring's segment goes: released at once, and the records are lost. */
static void test_unbind(void **state)
{
	struct rig *rig = *state;
	const uint64_t bus = rig_alloc(rig, 8192);
	struct client_queue q;
	uint64_t i;

	tq_create(rig, &q, 1, 0);
	rig_do(rig, cmd_system(rig, 1, 10, bus, 8192, RW, true));
	begin_trace(&q, OPENREG_ADDR(0, 10, 0), 128);
	for (i = 0; i < 100; i++)
		tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 100);
	/* The second page of the segment is the first on the bus. */
	assert_int_equal(rig_load(rig, bus + 4096), 2);
	assert_int_equal(rig_load(rig, bus), 2 + 64);
	rig_unbind(rig, 1, 10);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 100);
	assert_int_equal(lost(&q), 1);
	/* The same number again, read-only: lost, too. */
	rig_do(rig, cmd_system(rig, 1, 10, bus, 8192, OPENREG_SEG_READ, true));
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(lost(&q), 2);
	rig_unbind(rig, 1, 10);
	rig_do(rig, cmd_system(rig, 1, 10, bus, 8192, RW, false));
	atomic_store(&rig->bus.bad_bus, bus);
	atomic_store(&rig->bus.bad_len, 8192);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(lost(&q), 3);
	atomic_store(&rig->bus.bad_len, 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 101);
	assert_int_equal(rig_load(rig, bus + 100 * 64), 2 + 103);
}

struct reader {
	struct client_queue *q;
	_Atomic uint64_t want; /* records in all, once they are known */
	_Atomic(const char *) error;
};

/* Reads while the card writes: no gap, none twice, the record before the completion. */
static void *read_all(void *opaque)
{
	struct reader *reader = opaque;
	struct client_queue *q = reader->q;
	struct openreg_trace_record r;
	uint64_t n = 0, done, end = 0;

	while (n < reader->want && !reader->error) {
		done = client_done(q);
		if (written(q) + 1 < done)
			reader->error = "a packet without a record";
		for (; n < written(q); n++) {
			r = record(rig_of(q), n, 256);
			if (r.seq != n + 2 || r.begin > r.end || r.begin < end)
				reader->error = "a wrong record";
			end = r.end;
			consume(q, n + 1);
		}
	}
	return NULL;
}

static void test_stream(void **state)
{
	const uint64_t packets = 40000 / SCALE;
	struct rig *rig = *state;
	struct client_queue q;
	struct reader reader = { &q, UINT64_MAX, NULL };
	pthread_t thread;
	struct pkt p;
	uint64_t i;

	tq_create(rig, &q, 1, 0);
	begin_trace(&q, DATA(RING), 256);
	pthread_create(&thread, NULL, read_all, &reader);
	for (i = 0; i < packets; i++) {
		if (i % 200 == 0) {
			pkt_grind(&p, DATA(0), LEN / 32, 5);
			tq_push(&q, &p);
		} else if (i % 100 == 0) {
			pkt_copy(&p, OPENREG_ADDR(0, SEG_SYSTEM, 0), DATA(0),
				 OPENREG_I32, LEN / 32);
			tq_push(&q, &p);
		} else {
			pkt_grind(&p, DATA(0), 16, 1);
			tq_push(&q, &p);
		}
		client_publish(&q);
		/* Never more unread records than the ring has. */
		WAIT_FOR(q.seq - consumed(&q) < 200 || reader.error);
	}
	tq_wait(&q);
	reader.want = written(&q);
	pthread_join(thread, NULL);
	if (reader.error)
		fail_msg("%s", (const char *)reader.error);
	assert_int_equal(written(&q) + lost(&q), q.seq - 1);
	assert_int_equal(lost(&q), 0);
}

/* A queue that is made again after a reset of the card goes on with its trace. */
static void test_keep(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	begin_trace(&q, DATA(RING), 16);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	consume(&q, 1);
	rig_do(rig, cmd_stop(1, q.id, OPENREG_STOP_AFTER_PACKET));
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_DESTROY, 1, 0), 0);
	cmd = cmd_queue(&q, OPENREG_PRIORITY_NORMAL);
	cmd.queue.flags = OPENREG_QUEUE_KEEP;
	rig_do(rig, cmd);
	assert_int_equal(tq_reset(&q, client_head(&q), client_done(&q)), 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 2);
	assert_int_equal(record(rig, 1, 16).seq, 3);
	/* A page with a ring that a TRACE could not have set: no trace. */
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_DESTROY, 1, 0), 0);
	rig_store(rig, q.page + PAGE(trace_records), 5);
	rig_do(rig, cmd);
	assert_int_equal(tq_reset(&q, client_head(&q), client_done(&q)), 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 2);
}

/* A trace goes on in another card, with a WAIT that has begun in the first. */
static void test_migrate(void **state)
{
	struct rig *rig = *state;
	const char *error = NULL;
	struct client_queue q;
	struct pkt p;
	uint32_t tail;
	size_t len;
	void *blob;

	tq_create(rig, &q, 1, 0);
	begin_trace(&q, DATA(RING), 16);
	tq_nop(&q);
	pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_GE, DATA(8), 1);
	tq_push(&q, &p);
	client_publish(&q);
	WAIT_FOR(client_done(&q) == 2);
	tail = rig->client.tail;
	rig_pause(rig);
	openreg_card_finish(rig->card);
	blob = openreg_card_save(rig->card, &len);
	assert_non_null(blob);
	openreg_card_free(rig->card);
	rig_make_card(rig);
	rig->client.tail = tail;
	rig_pause(rig);
	if (openreg_card_load(rig->card, blob, len, &error))
		fail_msg("load: %s", error);
	free(blob);
	openreg_card_resume(rig->card);
	__atomic_store_n((uint64_t *)(rig->vram + 8), 1, __ATOMIC_SEQ_CST);
	tq_wait(&q);
	assert_int_equal(written(&q), 2);
	assert_int_equal(record(rig, 1, 16).opcode, OPENREG_OP_WAIT);
	assert_int_equal(record(rig, 1, 16).seq, 3);
}

/* A queue that is stopped in a packet has no record of it. */
static void test_stop(void **state)
{
	struct rig *rig = *state;
	struct client_queue q;
	struct pkt p;

	tq_create(rig, &q, 1, 0);
	begin_trace(&q, DATA(RING), 16);
	pkt_endless(&p, DATA(0));
	tq_push(&q, &p);
	client_publish(&q);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_COMPUTE_NS));
	rig_do(rig, cmd_stop(1, q.id, OPENREG_STOP_NOW));
	assert_int_equal(written(&q), 0);
	assert_int_equal(tq_reset(&q, q.tail, q.seq), 0);
	tq_nop(&q);
	client_publish(&q);
	tq_wait(&q);
	assert_int_equal(written(&q), 1);
	assert_int_equal(record(rig, 0, 16).seq, 3);
	assert_int_equal(record(rig, 0, 16).slices, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_fields),
		T(test_overflow),
		T(test_again),
		T(test_checks),
		T(test_list),
		T(test_faults),
		T(test_unbind),
		T(test_stream),
		T(test_keep),
		T(test_migrate),
		T(test_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
