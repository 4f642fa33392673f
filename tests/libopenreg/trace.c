// SPDX-License-Identifier: MIT
/* Traces: a record of each packet, on the card's clock; full rings; start after start. */
#include <pthread.h>
#include <unistd.h>

#include "harness.h"

#define RECORDS 64

static struct openreg_trace_record records[4 * RECORDS];

static size_t read_all(struct card *c, uint64_t lost)
{
	uint64_t now = 1;
	size_t n = (size_t)ok(openreg_queue_trace_read(c->q, records, COUNT(records), &now));

	assert_int_equal(now, lost);
	return n;
}

static void push_nops(struct card *c, unsigned int n)
{
	while (n--)
		ok(openreg_push_nop(c->q));
	run(c);
}

static void test_records(void **state)
{
	const int64_t size[1] = { 1024 };
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	const struct openreg_tensor to = openreg_view(address(bo), OPENREG_F32, (int64_t[]){ 1 });
	struct openreg_timestamp before, after;
	uint64_t end = 0;

	assert_int_equal(read_all(c, 0), 0);
	ok(openreg_queue_trace_stop(c->q));
	push_nops(c, 1);
	ok(openreg_device_get_timestamp(c->dev, &before));
	ok(openreg_queue_trace_start(c->q, RECORDS));
	ok(openreg_push_fill(c->q, 1, size, &to, 0));
	ok(openreg_push_nop(c->q));
	ok(openreg_push_timestamp(c->q, address(bo)));
	run(c);
	ok(openreg_device_get_timestamp(c->dev, &after));
	assert_int_equal(read_all(c, 0), 3);
	assert_int_equal(records[0].opcode, OPENREG_OP_FILL);
	assert_int_equal(records[0].bytes, 4096);
	assert_int_equal(records[1].opcode, OPENREG_OP_NOP);
	assert_int_equal(records[2].opcode, OPENREG_OP_TIMESTAMP);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(records[i].seq, i + 3);
		assert_true(records[i].begin >= end);
		assert_true(records[i].end >= records[i].begin);
		end = records[i].end;
	}
	assert_true(records[0].begin >= before.card);
	assert_true(end <= after.card);
	/* The TIMESTAMP is between begin and end of its record. */
	assert_true(*(uint64_t *)mapped(bo) >= records[2].begin);
	assert_true(*(uint64_t *)mapped(bo) <= records[2].end);
	assert_int_equal(read_all(c, 0), 0);
	openreg_bo_free(bo);
}

static void test_stop(void **state)
{
	struct card *c = *state;

	ok(openreg_queue_trace_start(c->q, RECORDS));
	push_nops(c, 5);
	ok(openreg_queue_trace_stop(c->q));
	push_nops(c, 5);
	assert_int_equal(read_all(c, 0), 5);
	push_nops(c, 5);
	assert_int_equal(read_all(c, 0), 0);
	/* A new trace has none of the old records, read or not. */
	ok(openreg_queue_trace_start(c->q, 1));
	push_nops(c, 1);
	ok(openreg_queue_trace_start(c->q, RECORDS));
	push_nops(c, 3);
	assert_int_equal(read_all(c, 0), 3);
	assert_int_equal(records[0].seq, openreg_queue_completed(c->q) - 2);
}

/* Starts while packets of the last trace still run. */
static void test_restart(void **state)
{
	struct card *c = *state;
	uint64_t first;

	for (unsigned int i = 0; i < 200; i++) {
		ok(openreg_queue_trace_start(c->q, i % 2 ? RECORDS : RECORDS / 2));
		first = openreg_queue_submitted(c->q) + 1;
		for (unsigned int k = 0; k < 20; k++)
			ok(openreg_push_nop(c->q));
		ok(openreg_queue_submit(c->q));
	}
	run(c);
	assert_int_equal(read_all(c, 0), 20);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(records[i].seq, first + i);
}

/* What the last trace's packets record after the start is not lost for the new one. */
static void test_restart_behind_a_gate(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo;

	ok(openreg_bo_alloc(c->dev, 4096, OPENREG_BO_SYSTEM, &bo));
	ok(openreg_queue_trace_start(c->q, RECORDS));
	ok(openreg_push_wait(c->q, openreg_bo_address(bo), OPENREG_WAIT_GE, 1));
	for (unsigned int i = 0; i < 20; i++)
		ok(openreg_push_nop(c->q));
	ok(openreg_queue_submit(c->q));
	ok(openreg_queue_trace_start(c->q, RECORDS));
	for (unsigned int i = 0; i < 5; i++)
		ok(openreg_push_nop(c->q));
	ok(openreg_queue_submit(c->q));
	__atomic_store_n((uint64_t *)mapped(bo), 1, __ATOMIC_RELEASE);
	run(c);
	assert_int_equal(read_all(c, 0), 5);
	openreg_bo_free(bo);
}

static void test_full(void **state)
{
	struct card *c = *state;
	uint64_t lost;

	ok(openreg_queue_trace_start(c->q, RECORDS));
	push_nops(c, RECORDS + 100);
	assert_int_equal(read_all(c, 100), RECORDS);
	push_nops(c, RECORDS);
	/* A small buffer gets the oldest records, and the others later. */
	assert_int_equal(ok(openreg_queue_trace_read(c->q, records, 10, NULL)), 10);
	assert_int_equal(records[0].seq, openreg_queue_completed(c->q) - RECORDS + 1);
	push_nops(c, 12);
	assert_int_equal(ok(openreg_queue_trace_read(c->q, records, 10, &lost)), 10);
	assert_int_equal(lost, 102);
	assert_int_equal(read_all(c, 102), RECORDS - 10);
}

static void test_bad(void **state)
{
	static const uint64_t bad[] = { 0, 3, 2ULL * OPENREG_TRACE_RECORDS_MAX, UINT64_MAX };
	struct card *c = *state;

	for (size_t i = 0; i < COUNT(bad); i++)
		fails(openreg_queue_trace_start(c->q, bad[i]), EINVAL, "power of two");
	assert_int_equal(openreg_queue_submitted(c->q), 0);
	still_works(c);
}

static void test_fault(void **state)
{
	const int64_t size[1] = { 1 };
	const struct openreg_tensor nowhere = openreg_view(64, OPENREG_F32, (int64_t[]){ 1 });
	struct card *c = *state;

	ok(openreg_queue_trace_start(c->q, RECORDS));
	ok(openreg_push_fill(c->q, 1, size, &nowhere, 0));
	run_fault(c);
	push_nops(c, 2);
	assert_int_equal(read_all(c, 0), 3);
	assert_int_equal(records[0].fault, OPENREG_FAULT_ADDRESS);
	assert_int_equal(records[1].fault, 0);
}

struct reader {
	struct card *c;
	uint64_t seq; /* the last one read */
	uint64_t want;
};

static void *read_on(void *opaque)
{
	struct reader *r = opaque;

	while (r->seq < r->want) {
		int64_t n = openreg_queue_trace_read(r->c->q, records, COUNT(records), NULL);

		for (int64_t i = 0; i < n; i++)
			if (records[i].seq == r->seq + 1)
				r->seq++;
			else
				return "a record is missing, or there twice";
		usleep(100);
	}
	return NULL;
}

/* A thread reads while another one submits: every record arrives once. */
static void test_threads(void **state)
{
	const unsigned int packets = 100000;
	struct card *c = *state;
	struct reader r = { .c = c };
	pthread_t thread;
	void *error;

	ok(openreg_queue_trace_start(c->q, 1 << 17));
	r.seq = openreg_queue_submitted(c->q);
	r.want = r.seq + packets;
	assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
	for (unsigned int i = 0; i < packets; i++) {
		ok(openreg_push_nop(c->q));
		if (i % 16 == 0)
			ok(openreg_queue_submit(c->q));
	}
	run(c);
	pthread_join(thread, &error);
	if (error)
		fail_msg("%s", (const char *)error);
	assert_int_equal(read_all(c, 0), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)
	const struct CMUnitTest tests[] = {
		T(test_records), T(test_stop), T(test_restart), T(test_restart_behind_a_gate),
		T(test_full), T(test_bad), T(test_fault), T(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
