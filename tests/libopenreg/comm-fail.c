// SPDX-License-Identifier: MIT
/* openreg-comm when a rank dies, stops, is missing, faults, or passes nonsense. */
#include "ranks.h"

#include <signal.h>

/* Joins with a short timeout, and does some rounds. */
static void join_short(void)
{
	struct openreg_comm_attr attr = attributes();

	attr.timeout_ns = 10 * SECOND;
	must(!create(&attr));
	for (int i = 0; i < 3; i++)
		finish(openreg_comm_all_reduce(me.comm, me.at, me.at, 16, OPENREG_F32,
					       OPENREG_COMM_SUM));
}

static uint64_t fatal_count;

static void one_dies(void)
{
	join_short();
	if (me.rank == 1)
		raise(SIGKILL);
	broken(sum(fatal_count), -ECONNRESET, "rank 1 has ended");
}

static void test_dead_rank(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 4; n++)
		for (fatal_count = 16; fatal_count <= 1000000; fatal_count += 999984)
			run_failing(n, one_dies, 1);
}

/* A child of the rank holds its sockets open. */
static void one_dies_and_leaves_a_child(void)
{
	join_short();
	if (me.rank == 1) {
		if (!fork()) {
			sleep(5);
			_exit(0);
		}
		raise(SIGKILL);
	}
	broken(sum(16), -ECONNRESET, "rank 1 has ended");
}

static void test_child(void **state)
{
	(void)state;
	run_failing(3, one_dies_and_leaves_a_child, 1);
}

/* A rank that stops, or that calls another collective, is named after the timeout. */
static void one_stops(void)
{
	struct openreg_comm_attr attr = attributes();

	attr.timeout_ns = me.rank ? 20 * SECOND : SECOND;
	must(!create(&attr));
	finish(openreg_comm_barrier(me.comm));
	if (me.rank == 2)
		raise(SIGSTOP);
	broken(sum(100), me.rank ? -ECONNRESET : -ETIME, "rank 2 is late");
}

static void test_stopped_rank(void **state)
{
	(void)state;
	run_failing(4, one_stops, 2);
}

static void one_misses(void)
{
	struct openreg_comm_attr attr = attributes();
	int64_t begin = now();

	if (me.rank == 2) {
		pause();
		return;
	}
	attr.timeout_ns = SECOND;
	must(create(&attr) < 0);
	must(me.comm == NULL);
	must(now() - begin < LONG);
	/* The others wait for this rank, or for one that has given up. */
	must(says("rank 2 of 3 has not come"));
}

static void test_missing_rank(void **state)
{
	(void)state;
	run_failing(3, one_misses, 2);
}

/* A rank may leave when its work is done, although others still wait. */
static void one_leaves(void)
{
	finish(openreg_comm_barrier(me.comm));
	finish(sum(1000));
	if (me.rank == 0)
		usleep(200000);
}

static void test_leave(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		run_ranks(3, one_leaves, true);
}

static void other_attributes(void)
{
	struct openreg_comm_attr attr = attributes();

	if (me.rank == 1)
		attr.slot_bytes *= 2;
	attr.timeout_ns = 5 * SECOND;
	must(create(&attr) < 0);
	must(says(me.rank ? "rank" : "another size, slot_bytes"));
}

static void bad_arguments(void)
{
	struct openreg_comm_attr attr = attributes();
	const uint64_t counts[RANKS] = { 1, 1ull << 60, 1, 1 };
	const uint64_t ones[RANKS] = { 1, 1, 1, 1 };

	must(openreg_comm_all_reduce(me.comm, me.at, me.at, 1, OPENREG_BOOL,
				     OPENREG_COMM_AVG) == -EINVAL && says("bool has no AVG"));
	must(openreg_comm_all_reduce(me.comm, me.at, me.at, 1, OPENREG_F16,
				     OPENREG_COMM_AND) == -EINVAL && says("f16 has no AND"));
	for (unsigned int d = OPENREG_F8E4M3FN; d <= OPENREG_F8E8M0FNU; d++)
		must(openreg_comm_all_reduce(me.comm, me.at, me.at, 1, (enum openreg_dtype)d,
					     OPENREG_COMM_SUM) == -EINVAL &&
		     says("cannot be reduced"));
	must(!openreg_comm_set_factor(me.comm, 0.5));
	must(openreg_comm_reduce(me.comm, me.at, me.at, 1, OPENREG_I32,
				 OPENREG_COMM_PREMUL_SUM, 0) == -EINVAL && says("0.5"));
	must(openreg_comm_reduce(me.comm, me.at, me.at, 1, OPENREG_I32, OPENREG_COMM_SUM,
				 2) == -EINVAL && says("no rank 2"));
	must(openreg_comm_gather(me.comm, me.at, me.at, counts, OPENREG_F32, 0) == -EINVAL);
	must(openreg_comm_all_to_all(me.comm, me.at, me.at, ones, ones, OPENREG_F32) ==
		     -EINVAL && says("in place"));
	must(openreg_comm_all_reduce(me.comm, me.at, me.at, 1, (enum openreg_dtype)99,
				     OPENREG_COMM_SUM) == -EINVAL && says("dtype 99"));
	must(openreg_comm_all_reduce(me.comm, me.at, me.at, 1, OPENREG_F32,
				     (enum openreg_comm_op)9) == -EINVAL && says("reduction 9"));
	must(openreg_comm_all_reduce(me.comm, me.at, me.at, UINT64_MAX, OPENREG_F32,
				     OPENREG_COMM_SUM) == -EINVAL && says("more than"));
	must(openreg_comm_all_gather(me.comm, me.at, me.at, counts, OPENREG_F32) == -EINVAL);
	must(openreg_comm_broadcast(me.comm, me.at, 1, OPENREG_F32, 2) == -EINVAL &&
	     says("no rank 2"));
	must(openreg_comm_send(me.comm, me.at, 1, OPENREG_F32, me.rank) == -EINVAL &&
	     says("to itself"));
	must(openreg_comm_wait(me.comm, -EINVAL) == -EINVAL);
	/* None of this broke the communicator. */
	finish(openreg_comm_barrier(me.comm));

	struct openreg_comm *comm = me.comm;

	attr.size = 16;
	must(create(&attr) == -EINVAL && says("16 ranks"));
	attr.size = 0;
	must(create(&attr) == -EINVAL);
	attr.size = 1;
	attr.rank = 1;
	must(create(&attr) == -EINVAL && says("count from 0"));
	attr.rank = 0;
	attr.name = "";
	must(create(&attr) == -EINVAL && says("name"));
	attr.name = "x";
	attr.slot_bytes = 100;
	must(create(&attr) == -EINVAL && says("slot_bytes"));
	attr.slot_bytes = 0;
	attr.priority = 2;
	must(create(&attr) == -EINVAL && says("queue"));
	me.comm = comm;
}

static void test_bad_input(void **state)
{
	(void)state;
	run_ranks(2, bad_arguments, true);
	run_ranks(2, other_attributes, false);
}

/* An address that no segment has: this rank says so, the other names this rank. */
static void one_faults(void)
{
	join_short();
	if (me.rank == 1) {
		int64_t seq = openreg_comm_all_reduce(me.comm, me.at, me.at + (1ull << 37),
						      100, OPENREG_F32, OPENREG_COMM_SUM);

		must(seq > 0);
		must(openreg_comm_wait(me.comm, seq) == -EIO);
		must(says("all_reduce 4 of rank 1 failed"));
		return;
	}
	broken(sum(100), -ECONNRESET, "all_reduce 4 of rank 1 failed");
}

static void test_fault(void **state)
{
	(void)state;
	run_ranks(3, one_faults, false);
}

/* After a failure the ranks that remain can meet again. */
static void test_again(void **state)
{
	(void)state;
	fatal_count = 16;
	run_failing(3, one_dies, 1);
	run_ranks(2, one_leaves, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dead_rank),    cmocka_unit_test(test_stopped_rank),
		cmocka_unit_test(test_missing_rank), cmocka_unit_test(test_leave),
		cmocka_unit_test(test_bad_input),    cmocka_unit_test(test_fault),
		cmocka_unit_test(test_again),	     cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
