/* SPDX-License-Identifier: MIT */
/*
 * What the checks of a card remember is limited. Beyond a limit they may miss a race, but
 * they invent none, and they neither stall the card nor take more memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check/inside.h"

#define QUEUES 3
#define MANY (4 * WORDS * WORDS_MAX)

static struct {
	struct openreg_check *check;
	struct openreg_check_queue *q[QUEUES];
	struct openreg_check_memory *memory;
	uint64_t seq[QUEUES];
} bench;

static bool refuse;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return refuse ? NULL : __real_calloc(n, size);
}

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	memset(&bench, 0, sizeof(bench));
	bench.check = openreg_check_new(OPENREG_CHECK_RACE);
	for (i = 0; i < QUEUES; i++)
		bench.q[i] = openreg_check_queue_new(bench.check, &bench);
	return 0;
}

static int teardown(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < QUEUES; i++)
		openreg_check_queue_free(bench.check, bench.q[i]);
	openreg_check_memory_free(bench.memory);
	openreg_check_free(bench.check);
	return 0;
}

static void begin(unsigned int q, unsigned int opcode, uint32_t cookie)
{
	const struct openreg_packet header = { .opcode = (uint8_t)opcode, .cookie = cookie };

	openreg_check_begin(bench.q[q], &header, ++bench.seq[q], 0);
}

/* Writes rows of elements of U8. */
static void write_rows(unsigned int q, uint32_t cookie, uint64_t off, const int64_t *size,
		       const int64_t *stride)
{
	struct openreg_args args = { .opcode = OPENREG_OP_FILL, .ndim = 2, .nops = 1 };

	memcpy(args.size, size, 2 * sizeof(*size));
	args.op[0] = (struct openreg_arg){ .dtype = OPENREG_U8, .written = true, .dims = 3 };
	memcpy(args.op[0].stride, stride, 2 * sizeof(*stride));
	begin(q, OPENREG_OP_FILL, cookie);
	openreg_check_access(bench.check, bench.q[q], OPENREG_CHECK_ALL, &bench.memory,
			     1 << 20, &args, 0, off);
}

static void write(unsigned int q, uint32_t cookie)
{
	write_rows(q, cookie, 0, (int64_t[]){ 1, 64 }, (int64_t[]){ 0, 1 });
}

static void signal(unsigned int q, uint64_t word, bool add, uint64_t value)
{
	begin(q, OPENREG_OP_SIGNAL, 0);
	openreg_check_signal(bench.check, bench.q[q], word, add, value);
}

static void wait_ge(unsigned int q, uint64_t word, uint64_t value, uint64_t actual)
{
	begin(q, OPENREG_OP_WAIT, 0);
	openreg_check_wait(bench.check, bench.q[q], word, OPENREG_WAIT_GE, value, actual);
}

static void none(void)
{
	struct openreg_finding f;
	unsigned int i;

	for (i = 0; i < QUEUES; i++)
		if (openreg_check_take(bench.q[i], &f))
			fail_msg("finding: cookies %u and %u", f.access.cookie,
				 f.other.cookie);
}

static void race(unsigned int q, uint32_t cookie, uint32_t other)
{
	struct openreg_finding f;

	assert_true(openreg_check_take(bench.q[q], &f));
	assert_int_equal(f.access.cookie, cookie);
	assert_int_equal(f.other.cookie, other);
}

static unsigned int count_words(void)
{
	unsigned int n = 0, i;
	struct word *word;

	for (i = 0; i < WORDS; i++)
		for (word = bench.check->words[i]; word; word = word->next)
			n++;
	return n;
}

static void lose_words(void)
{
	uint64_t i;

	for (i = 1; i <= MANY; i++)
		signal(2, i << 20, false, 1);
	assert_true(count_words() <= WORDS * WORDS_MAX);
}

static void test_words(void **state)
{
	(void)state;
	/* A barrier of ADDs; the first half is lost. */
	write(0, 10);
	signal(0, 8, true, 1);
	lose_words();
	signal(1, 8, true, 2);
	wait_ge(2, 8, 2, 2);
	write(2, 11);
	none();
	/* A lost SIGNAL has met the WAIT. */
	signal(2, 16, false, 1);
	lose_words();
	signal(0, 16, false, 2);
	wait_ge(1, 16, 1, 2);
	write(1, 12);
	none();
	/* The first SIGNAL of a new word says nothing about the queues before it. */
	write(0, 13);
	race(0, 13, 12);
}

/* The third packet has waited for the second one only. */
static void test_three(void **state)
{
	(void)state;
	write(0, 10);
	write(1, 11);
	race(1, 11, 10);
	signal(1, 8, false, 1);
	wait_ge(2, 8, 1, 1);
	write(2, 12);
	race(2, 12, 10);
	none();
}

/* Rows on even bytes against columns on odd ones: 2^57 comparisons to be certain. */
static void test_rounds(void **state)
{
	const int64_t wide = 1 << 19;

	(void)state;
	write_rows(0, 10, 0, (int64_t[]){ wide, 2 }, (int64_t[]){ 4, 4 * wide + 2 });
	write_rows(1, 11, 1, (int64_t[]){ wide, wide }, (int64_t[]){ 4, 6 });
	assert_int_equal(bench.check->rounds, 0);
	none();
	/* A byte that both have, at the beginning, is found. */
	write_rows(2, 12, 1, (int64_t[]){ wide, 2 }, (int64_t[]){ 4, 4 * wide + 2 });
	race(2, 12, 11);
}

static void test_short_memory(void **state)
{
	(void)state;
	assert_false(openreg_check_ended(bench.check));
	refuse = true;
	signal(0, 8, false, 1);
	refuse = false;
	assert_true(openreg_check_ended(bench.check));
	assert_false(openreg_check_ended(bench.check));
	write(0, 10);
	write(1, 11);
	none();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_words),
		TEST(test_three),
		TEST(test_rounds),
		TEST(test_short_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
