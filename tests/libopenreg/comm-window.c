// SPDX-License-Identifier: MIT
/* Windows of openreg-comm: puts, signals, and what goes wrong with them. */
#include "values.h"

#include <fcntl.h>
#include <signal.h>

#define HALF (BYTES / 2)
#define EACH 5000 /* values that a rank puts */

/* The window is the second half of the test's memory, from an offset on. */
static int open_window(uint64_t offset)
{
	const int fd = openreg_bo_export(me.bo, 0);
	const int ret = openreg_comm_window(me.comm, fd, HALF + offset, HALF - offset);

	must(fd >= 0);
	close(fd);
	return ret;
}

static void no_window(void)
{
	must(!openreg_comm_window(me.comm, -1, 0, 0));
}

/* Each rank puts values into the windows of all, and waits for those of all. */
static void puts_to_all(void)
{
	for (uint64_t offset = 0; offset <= 4096; offset += 4096) {
		must(!open_window(offset));
		for (int round = 0; round < 3; round++) {
			const uint64_t first = (uint64_t)round * EACH;

			memset(me.p + HALF, 0xee, HALF);
			finish(openreg_comm_barrier(me.comm));
			fill(me.p, OPENREG_I32, first, EACH);
			for (uint32_t r = 0; r < me.size; r++) {
				must(openreg_comm_window_bytes(me.comm, r) == HALF - offset);
				must(openreg_comm_put(me.comm, r, me.rank * EACH * 4, me.at,
						      EACH * 4) > 0);
				must(openreg_comm_signal(me.comm, r) > 0);
			}
			for (uint32_t r = 0; r < me.size; r++)
				finish(openreg_comm_wait_signal(me.comm, r));
			for (uint32_t r = 0; r < me.size; r++)
				check_values(me.p + HALF + offset + r * EACH * 4, OPENREG_I32,
					     r, first, EACH);
			must(me.p[HALF + offset + me.size * EACH * 4] == 0xee);
			must(!offset || me.p[HALF + offset - 1] == 0xee);
		}
	}
	no_window();
	must(!openreg_comm_window_bytes(me.comm, 0));
}

static void test_puts(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= RANKS; n++)
		run_ranks(n, puts_to_all, true);
}

/* A rank that only gives memory makes no call for each put. Signals count. */
static void puts_to_one(void)
{
	int32_t *p = (int32_t *)(me.p + HALF);

	memset(me.p, 0, BYTES);
	must(!(me.rank ? openreg_comm_window(me.comm, -1, 0, 0) : open_window(0)));
	must(openreg_comm_window_bytes(me.comm, 1) == 0);
	if (me.rank) {
		for (int32_t i = 0; i < 1000; i++) {
			((int32_t *)me.p)[i] = i + 1;
			must(openreg_comm_put(me.comm, 0, me.rank * 4, me.at + (uint64_t)i * 4,
					      4) > 0);
			must(openreg_comm_signal(me.comm, 0) > 0);
		}
	} else {
		for (uint32_t r = 1; r < me.size; r++) {
			int64_t seq = 0;

			for (int i = 0; i < 1000; i++)
				seq = openreg_comm_wait_signal(me.comm, r);
			finish(seq);
			must(p[r] == 1000);
		}
	}
	no_window();
}

static void test_one_window(void **state)
{
	(void)state;
	run_ranks(3, puts_to_one, true);
}

/* When the next window is there, the puts into the old one have completed. */
static void replaces(void)
{
	for (int round = 0; round < 20; round++) {
		must(!open_window(0));
		memset(me.p, round + 1, HALF);
		must(openreg_comm_put(me.comm, (me.rank + 1) % me.size, 0, me.at, HALF) > 0);
		no_window();
		must(me.p[HALF] == round + 1 && me.p[BYTES - 1] == round + 1);
		finish(openreg_comm_barrier(me.comm));
	}
}

static void test_replace(void **state)
{
	(void)state;
	run_ranks(2, replaces, true);
}

static void nonsense(void)
{
	const int none = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int fd = openreg_bo_export(me.bo, 0);

	must(openreg_comm_put(me.comm, 0, 0, me.at, 4) == -EINVAL);
	must(says("the window of rank 0 has 0"));
	/* The arguments of one rank alone are wrong: the others have a window then. */
	if (me.rank == 1) {
		must(openreg_comm_window(me.comm, fd, 0, 0) == -EINVAL);
		must(openreg_comm_window(me.comm, 9999, 0, 4096) == -EBADF);
		must(openreg_comm_window(me.comm, none, 0, 4096) < 0);
		must(says("no memory of a card"));
		must(openreg_comm_window(me.comm, fd, BYTES - 4096, 4097) < 0);
		must(says("smaller than offset and bytes"));
		must(openreg_comm_window(me.comm, fd, UINT64_MAX, 4096) < 0);
	} else {
		for (int i = 0; i < 4; i++) {
			must(!open_window(0));
			must(openreg_comm_window_bytes(me.comm, 0) == HALF);
			must(openreg_comm_window_bytes(me.comm, 1) == 0);
		}
	}
	must(!open_window(0));
	must(openreg_comm_put(me.comm, me.size, 0, me.at, 4) == -EINVAL);
	must(openreg_comm_signal(me.comm, me.size) == -EINVAL);
	must(openreg_comm_wait_signal(me.comm, me.size) == -EINVAL);
	must(says("there is no rank"));
	must(openreg_comm_put(me.comm, 0, HALF - 4, me.at, 5) == -EINVAL);
	must(openreg_comm_put(me.comm, 0, UINT64_MAX, me.at, 4) == -EINVAL);
	finish(openreg_comm_put(me.comm, 0, HALF, me.at, 0));
	finish(openreg_comm_barrier(me.comm));
	close(fd);
	close(none);
}

static void test_nonsense(void **state)
{
	(void)state;
	run_ranks(3, nonsense, true);
}

static void join(int64_t timeout)
{
	struct openreg_comm_attr attr = attributes();

	attr.timeout_ns = timeout;
	must(!create(&attr));
	must(!open_window(0));
	finish(openreg_comm_barrier(me.comm));
}

/* The wait fails, and the communicator is broken. */
static void wait_fails(int64_t seq, int error, const char *text)
{
	must(openreg_comm_wait(me.comm, seq) == error);
	must(says(text));
	must(openreg_comm_put(me.comm, 0, 0, me.at, 4) == -EIO);
	must(says(text));
}

/* Its last signal has come; it ends before the next one. */
static void one_dies(void)
{
	join(10 * SECOND);
	if (me.rank == 1) {
		must(openreg_comm_signal(me.comm, 0) > 0);
		finish(openreg_comm_signal(me.comm, 2));
		raise(SIGKILL);
	}
	finish(openreg_comm_wait_signal(me.comm, 1));
	wait_fails(openreg_comm_wait_signal(me.comm, 1), -ECONNRESET, "rank 1 has ended");
}

static void one_is_late(void)
{
	join(me.rank ? 20 * SECOND : SECOND);
	if (me.rank == 2)
		raise(SIGSTOP);
	wait_fails(openreg_comm_wait_signal(me.comm, 2), me.rank ? -ECONNRESET : -ETIME,
		   "rank 2 is late: rank 0 has waited");
}

static void one_gives_none(void)
{
	join(10 * SECOND);
	if (me.rank == 1)
		raise(SIGKILL);
	must(open_window(0) == -ECONNRESET);
	must(says("rank 1 has ended"));
}

static void another_call(void)
{
	int64_t seq = 0;

	join(10 * SECOND);
	if (me.rank == 1)
		seq = openreg_comm_barrier(me.comm);
	else
		must(open_window(0) == -EPROTO);
	if (me.rank == 1)
		must(openreg_comm_wait(me.comm, seq) == -EPROTO);
	must(says("different calls"));
}

static void test_failures(void **state)
{
	(void)state;
	run_failing(3, one_dies, 1);
	run_failing(3, one_is_late, 2);
	run_failing(3, one_gives_none, 1);
	run_ranks(2, another_call, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_puts),
		cmocka_unit_test(test_one_window),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_failures),
	};

	return cmocka_run_group_tests_name("comm-window", tests, make_dir, remove_dir);
}
