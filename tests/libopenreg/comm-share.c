// SPDX-License-Identifier: MIT
/* openreg_comm_share(): descriptors and bytes of all ranks, and what goes wrong. */
#include "values.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

static struct openreg_comm_shared all[RANKS];

static int share(int fd, int other, uint8_t byte)
{
	struct openreg_comm_shared mine = { .fds = { fd, other } };

	memset(mine.bytes, byte, sizeof(mine.bytes));
	return openreg_comm_share(me.comm, &mine, all);
}

static void close_all(void)
{
	for (uint32_t r = 0; r < me.size; r++) {
		must(all[r].bytes[0] == r + 1 && all[r].bytes[63] == r + 1);
		if (r == me.rank) {
			must(all[r].fds[0] == -1 && all[r].fds[1] == -1 && all[r].process == -1);
			continue;
		}
		close(all[r].fds[0]);
		close(all[r].fds[1]);
		close(all[r].process);
	}
}

/* Each rank writes an element of the memory of each other, by its own queue. */
static void writes(void)
{
	const int none = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int fd = openreg_bo_export(me.bo, 0);

	memset(me.p, 0, BYTES);
	must(!share(fd, none, (uint8_t)(me.rank + 1)));
	for (uint32_t r = 0; r < me.size; r++) {
		struct pollfd p = { .fd = all[r].process, .events = POLLIN };
		struct openreg_bo *bo;

		if (r == me.rank)
			continue;
		must(poll(&p, 1, 0) == 0); /* it has not ended */
		must(!openreg_bo_import(me.c.dev, all[r].fds[0], &bo));
		((int32_t *)me.p)[64] = (int32_t)me.rank + 1;
		finish(openreg_copy_async(openreg_comm_queue(me.comm),
					  openreg_bo_address(bo) + me.rank * 4, me.at + 256, 4));
		openreg_bo_free(bo);
	}
	close_all();
	finish(openreg_comm_barrier(me.comm));
	for (uint32_t r = 0; r < me.size; r++)
		must(((int32_t *)me.p)[r] == (r == me.rank ? 0 : (int32_t)r + 1));
	close(fd);
	close(none);
}

static void test_writes(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= RANKS; n++)
		run_ranks(n, writes, true);
}

/* The arguments of one rank are wrong: the others wait for its next call. */
static void nonsense(void)
{
	const int fd = openreg_bo_export(me.bo, 0);

	if (me.rank == 1) {
		must(share(-1, fd, 2) == -EBADF);
		must(share(fd, 9999, 2) == -EBADF);
		must(says("two open descriptors"));
	}
	must(!share(fd, fd, (uint8_t)(me.rank + 1)));
	close_all();
	finish(openreg_comm_barrier(me.comm));
	close(fd);
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
	finish(openreg_comm_barrier(me.comm));
}

static void share_fails(int error, const char *text)
{
	const int fd = openreg_bo_export(me.bo, 0);

	must(share(fd, fd, 1) == error);
	must(says(text));
	for (uint32_t r = 0; r < me.size; r++)
		must(all[r].fds[0] == -1 && all[r].fds[1] == -1 && all[r].process == -1);
	close(fd);
}

static void one_dies(void)
{
	join(10 * SECOND);
	if (me.rank == 1)
		raise(SIGKILL);
	share_fails(-ECONNRESET, "rank 1 has ended");
}

static void one_is_late(void)
{
	join(me.rank ? 20 * SECOND : SECOND);
	if (me.rank == 2)
		raise(SIGSTOP);
	share_fails(me.rank ? -ECONNRESET : -ETIME, "rank 2 is late: rank 0 has waited");
}

static void another_call(void)
{
	join(10 * SECOND);
	if (me.rank == 1)
		must(openreg_comm_wait(me.comm, openreg_comm_barrier(me.comm)) == -EPROTO);
	else
		share_fails(-EPROTO, "different calls");
}

static void test_failures(void **state)
{
	(void)state;
	run_failing(3, one_dies, 1);
	run_failing(3, one_is_late, 2);
	run_ranks(2, another_call, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_failures),
	};

	return cmocka_run_group_tests_name("comm-share", tests, make_dir, remove_dir);
}
