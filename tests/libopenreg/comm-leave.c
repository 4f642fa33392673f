// SPDX-License-Identifier: MIT
/*
 * A rank that has completed a collective may give the communicator up at once, while another
 * rank is still in this collective: that rank completes it, with the right values. Its next
 * collective fails, with the reason.
 */
#include "ranks.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define ROUNDS 100 /* of each test */
#define WORD (BYTES - 4096) /* offset of the word that rank 1's queue waits for */

static atomic_int *gave_up; /* memory of all processes: the rounds in which rank 0 has */

static void join(void)
{
	const struct openreg_comm_attr attr = attributes();

	must(!create(&attr));
	finish(openreg_comm_barrier(me.comm));
}

static void leave(void)
{
	openreg_comm_destroy(me.comm);
	me.comm = NULL;
	number++;
}

/* Rank 1's card holds the broadcast back until rank 0 has given up. */
static void holds_a_broadcast(void)
{
	uint64_t *word = (uint64_t *)(me.p + WORD);

	*word = 0;
	for (int round = 0; round < ROUNDS; round++) {
		const uint64_t bytes = 1 + (uint64_t)round * 97 % (2 * SLOT);
		int64_t seq;

		join();
		memset(me.p, me.rank ? 0xee : round + 1, bytes);
		if (me.rank)
			must(!openreg_push_wait(openreg_comm_queue(me.comm), me.at + WORD,
						OPENREG_WAIT_GE, (uint64_t)round + 1));
		seq = openreg_comm_broadcast(me.comm, me.at, bytes, OPENREG_U8, 0);
		/* More than the slots of rank 0, which never takes them. */
		for (int i = 0; me.rank && i < round % 6; i++)
			must(openreg_comm_broadcast(me.comm, me.at + BYTES / 2, 64,
						    OPENREG_U8, 1) > 0);
		if (!me.rank) {
			finish(seq);
			must(!openreg_comm_abort(me.comm));
			atomic_store(gave_up, round + 1);
		} else {
			while (atomic_load(gave_up) <= round)
				usleep(100);
			/* Each query looks at rank 0. */
			for (int i = 0; i < 3; i++)
				must(openreg_comm_query(me.comm, seq) == 0);
			must(!openreg_push_signal(me.c.q, me.at + WORD, OPENREG_SIGNAL_SET,
						  (uint64_t)round + 1));
			must(openreg_queue_submit(me.c.q) > 0);
			finish(seq);
			must(me.p[0] == round + 1 && !memcmp(me.p, me.p + 1, bytes - 1));
			if (round % 6) {
				leave();
				continue;
			}
			must(openreg_comm_wait(me.comm, sum(16)) == -ECONNRESET);
			must(says("rank 0 has aborted"));
		}
		leave();
	}
}

/* A rank aborts or destroys the communicator right after an all_reduce. */
static void leaves_an_all_reduce(void)
{
	float *x = (float *)me.p;

	for (int round = 0; round < ROUNDS; round++) {
		const uint64_t count = round % 2 ? 1000 : 100000; /* one step, or two */

		join();
		for (uint64_t i = 0; i < count; i++)
			x[i] = (float)(me.rank + 1);
		if (me.rank == 2 && round % 3 == 0)
			usleep(1000);
		finish(sum(count));
		if ((uint32_t)round % me.size == me.rank && round % 2)
			must(!openreg_comm_abort(me.comm));
		if (me.rank != (uint32_t)round % me.size)
			for (uint64_t i = 0; i < count; i++)
				must(x[i] == 6.f);
		leave();
	}
}

static void test_broadcast(void **state)
{
	(void)state;
	atomic_store(gave_up, 0);
	run_ranks(2, holds_a_broadcast, false);
	number += ROUNDS;
}

static void test_all_reduce(void **state)
{
	(void)state;
	run_ranks(3, leaves_an_all_reduce, false);
	number += ROUNDS;
}

/* As the last error has it. */
static double seconds_waited(void)
{
	const char *text = strstr(openreg_comm_last_error(), "has waited ");

	return text ? strtod(text + strlen("has waited "), NULL) : -1;
}

/* Later calls of the rank that gave up are those that fail, not the one before. */
static void gives_up_in_the_next(void)
{
	struct openreg_comm_attr attr = attributes();
	int64_t first, second;

	attr.timeout_ns = me.rank ? LONG : SECOND;
	must(!create(&attr));
	must(!openreg_push_wait(openreg_comm_queue(me.comm), me.at + WORD, OPENREG_WAIT_GE,
				me.rank ? 1 : 0));
	*(uint64_t *)(me.p + WORD) = 0;
	first = openreg_comm_broadcast(me.comm, me.at, 100, OPENREG_U8, 0);
	second = openreg_comm_barrier(me.comm);
	must(first > 0 && second > 0);
	if (!me.rank) {
		must(openreg_comm_wait(me.comm, second) == -ETIME);
		must(says("rank 1 is late: rank 0 has waited ") && seconds_waited() >= 1);
		atomic_store(gave_up, 1);
		return;
	}
	while (!atomic_load(gave_up))
		usleep(100);
	must(openreg_comm_query(me.comm, first) == 0);
	must(!openreg_push_signal(me.c.q, me.at + WORD, OPENREG_SIGNAL_SET, 1));
	must(openreg_queue_submit(me.c.q) > 0);
	finish(first);
}

static void test_next(void **state)
{
	(void)state;
	atomic_store(gave_up, 0);
	run_ranks(2, gives_up_in_the_next, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_broadcast),
		cmocka_unit_test(test_all_reduce),
		cmocka_unit_test(test_next),
	};

	gave_up = mmap(NULL, sizeof(*gave_up), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return gave_up == MAP_FAILED ||
	       cmocka_run_group_tests_name("comm-leave", tests, make_dir, remove_dir);
}
