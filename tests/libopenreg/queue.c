// SPDX-License-Identifier: MIT
/* Queues: order, wrap, full ring, attributes, priorities, limits, WAIT and SIGNAL. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static struct openreg_queue *make_queue(struct card *c, uint32_t slots,
					int64_t full_timeout_ns)
{
	struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
	struct openreg_queue *q;

	attr.slots = slots;
	attr.full_timeout_ns = full_timeout_ns;
	ok(openreg_queue_create(c->dev, &attr, &q));
	return q;
}

static void test_sequence(void **state)
{
	struct card *c = *state;

	for (int64_t i = 1; i <= 5; i++) {
		ok(openreg_push_nop(c->q));
		assert_int_equal(ok(openreg_queue_submit(c->q)), i);
		assert_int_equal(openreg_queue_submitted(c->q), i);
		ok(openreg_queue_wait(c->q, (uint64_t)i, LONG));
		assert_true(openreg_queue_completed(c->q) >= (uint64_t)i);
	}
	/* A submit without new packets returns the same number. */
	assert_int_equal(ok(openreg_queue_submit(c->q)), 5);
}

static void test_batch(void **state)
{
	struct card *c = *state;
	struct openreg_queue_stats stats;
	uint64_t seq;
	void *p;

	for (uint64_t i = 1; i <= 100; i++) {
		ok(openreg_queue_begin(c->q, 1, &p, &seq));
		openreg_encode_nop(p, 1);
		assert_int_equal(seq, i);
	}
	assert_int_equal(openreg_queue_submitted(c->q), 0);
	assert_int_equal(openreg_queue_completed(c->q), 0);
	run(c);
	assert_int_equal(openreg_queue_completed(c->q), 100);
	ok(openreg_queue_get_stats(c->q, &stats));
	assert_int_equal(stats.packets, 100);
	assert_true(stats.doorbells <= 1);
}

static void test_bad_begin(void **state)
{
	static const unsigned int bad[] = { 0, 33, UINT32_MAX };
	struct card *c = *state;
	void *p = (void *)1;

	for (size_t i = 0; i < COUNT(bad); i++) {
		fails(openreg_queue_begin(c->q, bad[i], &p, NULL), EINVAL,
		      "1 to 32");
		assert_null(p);
	}
	still_works(c);
}

static void test_bad_push(void **state)
{
	const struct openreg_tensor t = openreg_view(0, OPENREG_F32, NULL);
	const int64_t size[9] = { 1 };
	struct card *c = *state;

	fails(openreg_push_copy(c->q, 9, size, &t, &t), EINVAL, "dimensions");
	fails(openreg_push_fill(c->q, 9, size, &t, 0), EINVAL, "dimensions");
	fails(openreg_push_softmax(c->q, 9, size, 0, 0, &t, &t, NULL), EINVAL,
	      "dimensions");
	still_works(c);
}

static void test_bad_attr(void **state)
{
	static const uint32_t bad[] = { 1, 32, 63, 65, 1000, 1u << 31 };
	struct card *c = *state;
	struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
	struct openreg_queue *q;

	for (size_t i = 0; i < COUNT(bad); i++) {
		attr.slots = bad[i];
		fails(openreg_queue_create(c->dev, &attr, &q), EINVAL,
		      "power of two");
		assert_null(q);
	}
	attr.slots = 0;
	attr.priority = 2;
	fails(openreg_queue_create(c->dev, &attr, &q), EINVAL, "priority 2");
	attr.priority = -2;
	fails(openreg_queue_create(c->dev, &attr, &q), EINVAL, "priority -2");
	attr.priority = 0;
	attr.reserved[3] = 1;
	fails(openreg_queue_create(c->dev, &attr, &q), EINVAL, "reserved[3]");
}

static void test_priorities(void **state)
{
	struct card *c = *state;

	for (int32_t prio = -1; prio <= 1; prio++) {
		struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
		struct card other = *c;

		attr.priority = prio;
		ok(openreg_queue_create(c->dev, &attr, &other.q));
		still_works(&other);
		openreg_queue_destroy(other.q);
	}
}

/* High priority needs CAP_SYS_NICE. */
static void ask_for_priority(void)
{
	struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
	struct openreg_device *dev;
	struct openreg_queue *q;

	attr.priority = 1;
	if (openreg_device_open(0, &dev) || setresuid(65534, 65534, 65534))
		_exit(2);
	if (openreg_queue_create(dev, &attr, &q) != -EACCES)
		_exit(3);
	_exit(strstr(openreg_last_error(), "CAP_SYS_NICE") ? 0 : 4);
}

static void test_priority_refused(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (on_sim())
		skip(); /* a card inside the process allows every priority */
	pid = fork();
	if (pid == 0)
		ask_for_priority();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/*
 * Packets of every length, many times around a small ring. NOPs of different lengths
 * shift the FILLs; each FILL sets its own word.
 */
static void wrap(struct card *c, uint32_t slots)
{
	struct card ring = { c->dev, make_queue(c, slots, 0) };
	struct openreg_queue_stats stats;
	const unsigned int n = 5 * slots;
	struct openreg_bo *bo = vram(c, 4 * n);
	const uint32_t *p = mapped(bo);
	const int64_t size[] = { 1, 4 };

	for (unsigned int i = 0; i < n; i++) {
		const struct openreg_tensor t =
			openreg_view(address(bo) + 4 * i, OPENREG_U8, NULL);
		const unsigned int length = 1 + i % OPENREG_PACKET_SLOTS_MAX;
		void *slot;

		ok(openreg_queue_begin(ring.q, length, &slot, NULL));
		openreg_encode_nop(slot, length);
		ok(openreg_push_fill(ring.q, 2, size, &t, i % 251));
		if (i % 3 == 0)
			ok(openreg_queue_submit(ring.q));
	}
	run(&ring);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(p[i], i % 251 * 0x01010101U);
	ok(openreg_queue_get_stats(ring.q, &stats));
	assert_true(stats.pads > 0);
	assert_int_equal(stats.packets, 2 * n + stats.pads);
	assert_int_equal(openreg_queue_completed(ring.q), stats.packets);
	openreg_queue_destroy(ring.q);
	openreg_bo_free(bo);
}

static void test_wrap(void **state)
{
	wrap(*state, 64);
	wrap(*state, 128);
	wrap(*state, 1024);
}

/* A WAIT blocks the ring until begin times out; after a SIGNAL the queue runs again. */
static void test_full(void **state)
{
	struct card *c = *state;
	struct openreg_queue *q = make_queue(c, 64, SECOND / 20);
	struct openreg_bo *bo = vram(c, 4096);
	struct openreg_queue_stats stats;
	int pushed = 0, ret;

	ok(openreg_push_wait(q, address(bo), OPENREG_WAIT_GE, 1));
	while ((ret = openreg_push_nop(q)) == 0)
		pushed++;
	fails(ret, ETIME, "ring stayed full");
	assert_true(pushed >= 63);
	ok(openreg_queue_get_stats(q, &stats));
	assert_true(stats.full_waits > 0);
	ok(openreg_push_signal(c->q, address(bo), OPENREG_SIGNAL_SET, 1));
	run(c);
	ok(openreg_push_nop(q));
	ok(openreg_queue_wait(q, (uint64_t)ok(openreg_queue_submit(q)), LONG));
	openreg_queue_destroy(q);
	openreg_bo_free(bo);
}

#define STEPS 40

/* Satisfies one WAIT after the other. */
static void *step(void *word)
{
	for (uint64_t i = 1; i <= STEPS; i++) {
		usleep(50000);
		__atomic_store_n((uint64_t *)word, i, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* A full ring that drains slowly does not time out. */
static void run_full_but_moving(struct card *c, int64_t timeout_ns)
{
	struct openreg_queue *q = make_queue(c, 64, timeout_ns);
	struct openreg_bo *bo = vram(c, 4096);
	struct openreg_queue_stats stats;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, step, mapped(bo)), 0);
	for (uint64_t i = 1; i <= STEPS; i++) {
		ok(openreg_push_nop(q));
		ok(openreg_push_wait(q, address(bo), OPENREG_WAIT_GE, i));
	}
	ok(openreg_queue_submit(q));
	ok(openreg_queue_wait(q, openreg_queue_submitted(q), LONG));
	pthread_join(thread, NULL);
	ok(openreg_queue_get_stats(q, &stats));
	assert_true(stats.full_waits > 0);
	openreg_queue_destroy(q);
	openreg_bo_free(bo);
}

static void test_full_but_moving(void **state)
{
	run_full_but_moving(*state, SECOND / 2);
	run_full_but_moving(*state, INT64_MAX);
}

/* A small ring without pauses: begin waits for room, and every packet runs. */
static void test_overrun(void **state)
{
	struct card *c = *state;
	struct openreg_queue *q = make_queue(c, 64, 0);
	struct openreg_bo *bo = vram(c, 4096);
	const uint64_t *p = mapped(bo);

	for (int i = 0; i < 20000; i++) {
		ok(openreg_push_signal(q, address(bo), OPENREG_SIGNAL_ADD, 1));
		ok(openreg_queue_submit(q));
	}
	ok(openreg_queue_wait(q, openreg_queue_submitted(q), LONG));
	assert_int_equal(*p, 20000);
	openreg_queue_destroy(q);
	openreg_bo_free(bo);
}

static void test_many_queues(void **state)
{
	struct card *c = *state;
	struct openreg_queue *q[40];

	for (size_t i = 0; i < COUNT(q); i++)
		q[i] = make_queue(c, 64, 0);
	for (size_t i = 0; i < COUNT(q); i++) {
		ok(openreg_push_nop(q[i]));
		ok(openreg_queue_submit(q[i]));
		assert_int_equal(openreg_queue_number(q[i]) == 0, 0);
		assert_ptr_equal(openreg_queue_device(q[i]), c->dev);
	}
	for (size_t i = 0; i < COUNT(q); i++) {
		ok(openreg_queue_wait(q[i], 1, LONG));
		openreg_queue_destroy(q[i]);
	}
}

static void test_limit(void **state)
{
	struct card *c = *state;
	struct openreg_device_info info;
	struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
	struct openreg_queue **q;
	uint32_t n = 0;
	int ret;

	ok(openreg_device_get_info(c->dev, &info));
	q = calloc(info.max_queues + 1, sizeof(struct openreg_queue *));
	assert_non_null(q);
	attr.slots = 64;
	while ((ret = openreg_queue_create(c->dev, &attr, &q[n])) == 0)
		assert_true(++n <= info.max_queues);
	fails(ret, ENOSPC, "no free queue");
	still_works(c);
	while (n)
		openreg_queue_destroy(q[--n]);
	free(q);
	q = NULL;
	still_works(c);
}

/* WAIT and SIGNAL order the packets of two queues. */
static void test_cross_queue(void **state)
{
	struct card *c = *state;
	struct card other = { c->dev, make_queue(c, 64, 0) };
	struct openreg_bo *bo = vram(c, 4096);
	const uint64_t *p = mapped(bo);
	const uint64_t a = address(bo), b = a + 8;

	for (uint64_t i = 1; i <= 100; i++) {
		ok(openreg_push_wait(c->q, a, OPENREG_WAIT_EQ, i));
		ok(openreg_push_signal(c->q, b, OPENREG_SIGNAL_SET, i));
		ok(openreg_queue_submit(c->q));
		ok(openreg_push_signal(other.q, a, OPENREG_SIGNAL_ADD, 1));
		ok(openreg_push_wait(other.q, b, OPENREG_WAIT_GE, i));
		ok(openreg_queue_submit(other.q));
	}
	run(c);
	run(&other);
	assert_int_equal(p[0], 100);
	assert_int_equal(p[1], 100);
	openreg_queue_destroy(other.q);
	openreg_bo_free(bo);
}

static void test_timestamps(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	struct openreg_timestamp before, after;
	const uint64_t *p = mapped(bo);

	ok(openreg_device_get_timestamp(c->dev, &before));
	ok(openreg_push_timestamp(c->q, address(bo)));
	ok(openreg_push_timestamp(c->q, address(bo) + 8));
	run(c);
	ok(openreg_device_get_timestamp(c->dev, &after));
	assert_true(before.card <= p[0]);
	assert_true(p[0] <= p[1]);
	assert_true(p[1] <= after.card);
	openreg_bo_free(bo);
}

#define CARD_TEST(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARD_TEST(test_sequence),
		CARD_TEST(test_batch),
		CARD_TEST(test_bad_begin),
		CARD_TEST(test_bad_push),
		CARD_TEST(test_bad_attr),
		CARD_TEST(test_priorities),
		cmocka_unit_test(test_priority_refused),
		CARD_TEST(test_wrap),
		CARD_TEST(test_full),
		CARD_TEST(test_full_but_moving),
		CARD_TEST(test_overrun),
		CARD_TEST(test_many_queues),
		CARD_TEST(test_limit),
		CARD_TEST(test_cross_queue),
		CARD_TEST(test_timestamps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
