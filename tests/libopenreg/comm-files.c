// SPDX-License-Identifier: MIT
/*
 * A rank that has too few file descriptors names the cause, the others name the rank, nothing
 * leaks, and a new communicator works.
 */
#include "ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define LIMIT 256 /* a card inside the process uses descriptors up to half of the limit */
#define VICTIM 1 /* of three ranks: one calls it, and it calls one */
#define MOST 40 /* descriptors that a communicator needs, at most */

enum outcome { NONE, FAILED, WORKS };

/* Memory of all processes. */
static struct {
	atomic_int outcomes[MOST][RANKS];
	atomic_int left_round[MOST]; /* ranks that have left this round */
} *shared;

static unsigned int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	must(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Opens descriptors until only num are free, the lowest ones. Returns how many it opened. */
static int take_files(int *files, int num)
{
	int n = 0;

	while (n < LIMIT && (files[n] = dup(0)) >= 0)
		n++;
	must(errno == EMFILE && n > num);
	for (int i = 0; i < num; i++)
		close(files[i]);
	for (int i = num; i < n; i++)
		files[i - num] = files[i];
	return n - num;
}

static void wait_for_all(int round)
{
	const int64_t begin = now();

	atomic_fetch_add(&shared->left_round[round], 1);
	while (atomic_load(&shared->left_round[round]) < (int)me.size)
		must(!usleep(1000) && now() - begin < 4 * LONG);
}

static void lower_limit(void)
{
	const struct rlimit limit = { LIMIT, LIMIT };

	if (me.rank == VICTIM)
		must(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* Rank 2 may come when rank 0 has given up because of rank 1. */
static const char came_late[] = "rank 2 cannot meet rank 0: it has ended";

/* Each round gives the victim one more descriptor, until the communicator works. */
static void meets_with_few(void)
{
	unsigned int before = open_files();
	struct openreg_comm_attr attr;
	int files[LIMIT], ret, n = 0;

	lower_limit();
	for (int round = 0; round < MOST; round++, number++) {
		attr = attributes();
		attr.timeout_ns = 5 * SECOND;
		if (me.rank == VICTIM)
			n = take_files(files, round);
		ret = create(&attr);
		while (n)
			close(files[--n]);
		atomic_store(&shared->outcomes[round][me.rank], ret ? FAILED : WORKS);
		if (ret && me.rank == VICTIM)
			must(says("ulimit -n"));
		else if (ret && !strstr(openreg_comm_last_error(), came_late))
			must(says("rank 1"));
		wait_for_all(round);
		for (uint32_t r = 0; r < me.size; r++)
			must(atomic_load(&shared->outcomes[round][r]) == (ret ? FAILED : WORKS));
		if (!ret)
			break;
		must(!me.comm && open_files() == before);
	}
	must(!ret);
	finish(sum(1000));
	openreg_comm_destroy(me.comm);
	me.comm = NULL;
	/* The card keeps the test's memory exported. */
	must(open_files() == before);
}

static void test_create(void **state)
{
	(void)state;
	memset(shared, 0, sizeof(*shared));
	run_ranks(3, meets_with_few, false);
	number += MOST;
}

static void one_window(int fd)
{
	must(!openreg_comm_window(me.comm, fd, 0, BYTES));
	must(openreg_comm_put(me.comm, (me.rank + 1) % me.size, 4096, me.at, 4) > 0);
	must(!openreg_comm_window(me.comm, -1, 0, 0));
}

static void windows_with_few(void)
{
	const int fd = openreg_bo_export(me.bo, 0);
	unsigned int before = open_files();
	struct openreg_comm_attr attr;
	int files[LIMIT], ret = -1, n = 0, failures = 0;

	must(fd >= 0);
	lower_limit();
	for (int round = 0; round < MOST && ret; round++, number++) {
		attr = attributes();
		attr.timeout_ns = 20 * SECOND;
		must(!create(&attr));
		finish(openreg_comm_barrier(me.comm));
		if (me.rank == VICTIM)
			n = take_files(files, round);
		/* A rank that has the windows of all finds out at its next call. */
		ret = openreg_comm_window(me.comm, fd, 0, BYTES);
		if (!ret)
			ret = openreg_comm_wait(me.comm, openreg_comm_barrier(me.comm));
		while (n)
			close(files[--n]);
		if (ret) {
			failures++;
			must(says("rank 1 cannot use") && says("too many open files"));
			must(openreg_comm_barrier(me.comm) == -EIO && says("ulimit -n"));
		}
		wait_for_all(round);
		openreg_comm_destroy(me.comm);
		must(open_files() == before);
	}
	must(!ret && failures);
	attr = attributes();
	must(!create(&attr));
	one_window(fd);
	openreg_comm_destroy(me.comm);
	me.comm = NULL;
	must(open_files() == before);
	close(fd);
}

static void test_window(void **state)
{
	(void)state;
	memset(shared, 0, sizeof(*shared));
	run_ranks(3, windows_with_few, false);
	number += MOST;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create),
		cmocka_unit_test(test_window),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ||
	       cmocka_run_group_tests_name("comm-files", tests, make_dir, remove_dir);
}
