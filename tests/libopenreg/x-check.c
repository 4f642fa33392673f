// SPDX-License-Identifier: MIT
// test x-check not sim: --cards 3 --device-prop 0:x-check=race+init+bounds --device-prop 1:x-check=bounds
/* Cards in QEMU that check programs: card 0 all, card 1 only bounds, card 2 nothing. */
#include <openreg_packet.h>

#include "harness.h"

#define MOST 16 /* findings that a test takes */
#define BLOCK 256 /* bytes of a block, and of a red zone */

enum { CHECKS_ALL, CHECKS_BOUNDS, CHECKS_NOTHING };

static struct bench {
	struct openreg_device *dev;
	struct openreg_queue *a, *b;
	struct openreg_bo *bo;
	uint64_t at;
	struct openreg_finding found[MOST];
	int64_t n;
} bench;

static void open_card(unsigned int card)
{
	ok(openreg_device_open(card, &bench.dev));
	/* From now on the library does not print findings. */
	assert_int_equal(ok(openreg_device_findings(bench.dev, bench.found, MOST)), 0);
	ok(openreg_queue_create(bench.dev, NULL, &bench.a));
	ok(openreg_queue_create(bench.dev, NULL, &bench.b));
	ok(openreg_bo_alloc(bench.dev, 1 << 20, OPENREG_BO_VRAM, &bench.bo));
	bench.at = openreg_bo_address(bench.bo);
}

static void close_card(void)
{
	openreg_queue_destroy(bench.a);
	openreg_queue_destroy(bench.b);
	openreg_bo_free(bench.bo);
	openreg_device_close(bench.dev);
}

static uint64_t fill(struct openreg_queue *q, uint64_t off, uint64_t bytes)
{
	return (uint64_t)ok(openreg_fill_async(q, bench.at + off, 1, bytes));
}

static void drain(struct openreg_queue *q)
{
	ok(openreg_queue_submit(q));
	ok(openreg_queue_wait(q, openreg_queue_submitted(q), LONG));
}

/* Waits for both queues, and takes the findings. */
static void take(void)
{
	drain(bench.a);
	drain(bench.b);
	bench.n = ok(openreg_device_findings(bench.dev, bench.found, MOST));
}

/* A race, an uninitialised read, and an access of bytes behind a block. */
static void run_faults(void)
{
	fill(bench.a, 0, 64);
	fill(bench.b, 0, 64);
	ok(openreg_queue_note_block(bench.a, bench.at + 4096, BLOCK, 1));
	ok(openreg_copy_async(bench.a, bench.at + 8192, bench.at + 4096, 100));
	ok(openreg_queue_note_block(bench.a, bench.at + 12288, BLOCK, 2));
	fill(bench.a, 12288, BLOCK + 4);
	take();
}

static const struct openreg_finding *finding(unsigned int kind)
{
	for (int64_t i = 0; i < bench.n; i++)
		if (bench.found[i].kind == kind)
			return &bench.found[i];
	fail_msg("no finding of kind %u among %lld", kind, (long long)bench.n);
	return NULL;
}

static void test_all(void **state)
{
	const struct openreg_finding *f;

	(void)state;
	open_card(CHECKS_ALL);
	run_faults();
	assert_int_equal(bench.n, 3);
	f = finding(OPENREG_FINDING_RACE);
	assert_int_equal(f->addr, bench.at);
	assert_int_equal(f->access.queue + f->other.queue,
			 openreg_queue_number(bench.a) + openreg_queue_number(bench.b));
	f = finding(OPENREG_FINDING_INIT);
	assert_int_equal(f->addr, bench.at + 4096);
	assert_int_equal(f->bytes, 100);
	assert_int_equal(f->other.cookie, 1);
	f = finding(OPENREG_FINDING_BOUNDS);
	assert_int_equal(f->addr, bench.at + 12288 + BLOCK);
	assert_int_equal(f->bytes, 4);
	assert_int_equal(f->other.cookie, 2);
	close_card();
}

/* Three blocks in one BO with red zones, and accesses that meet no block of theirs. */
static void test_neighbours(void **state)
{
	(void)state;
	for (unsigned int card = CHECKS_ALL; card <= CHECKS_BOUNDS; card++) {
		open_card(card);
		for (uint32_t i = 0; i < 3; i++) {
			ok(openreg_queue_note_guarded_block(
				bench.a, bench.at + 2 * i * BLOCK, BLOCK, BLOCK, i));
			fill(bench.a, 2 * i * BLOCK, BLOCK);
		}
		take();
		assert_int_equal(bench.n, 0);
		fill(bench.a, BLOCK, 4); /* behind block 0 */
		take();
		assert_int_equal(bench.n, 1);
		assert_int_equal(bench.found[0].kind, OPENREG_FINDING_BOUNDS);
		assert_int_equal(bench.found[0].other.cookie, 0);
		/* Before block 2, and into it: the red zone is that of block 1. */
		ok(openreg_copy_async(bench.a, bench.at + 65536,
				      bench.at + 4 * BLOCK - 16, 32));
		take();
		assert_int_equal(bench.n, 1);
		assert_int_equal(bench.found[0].other.cookie, 1);
		assert_int_equal(bench.found[0].addr, bench.at + 4 * BLOCK - 16);
		assert_int_equal(bench.found[0].bytes, 32);
		close_card();
	}
}

static void test_order(void **state)
{
	(void)state;
	open_card(CHECKS_ALL);
	for (int i = 0; i < 100; i++) {
		fill(bench.a, 0, 64);
		drain(bench.a);
		fill(bench.b, 0, 64);
		drain(bench.b);
	}
	take();
	assert_int_equal(bench.n, 0);
	close_card();
}

static void test_only_bounds(void **state)
{
	(void)state;
	open_card(CHECKS_BOUNDS);
	run_faults();
	assert_int_equal(bench.n, 1);
	finding(OPENREG_FINDING_BOUNDS);
	close_card();
}

static void test_no_checks(void **state)
{
	(void)state;
	open_card(CHECKS_NOTHING);
	run_faults();
	assert_int_equal(bench.n, 0);
	close_card();
}

/* A new device of the process begins anew. */
static void test_again(void **state)
{
	for (int i = 0; i < 3; i++)
		test_all(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_only_bounds),
		cmocka_unit_test(test_no_checks),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
