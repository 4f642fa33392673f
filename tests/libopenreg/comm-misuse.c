// SPDX-License-Identifier: MIT
/* openreg-comm when ranks call different things, abort, fork, or use two threads. */
#include "ranks.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static const uint64_t ones[RANKS] = { 1, 1, 1, 1 }, others[RANKS] = { 1, 1, 2, 1 };

/* Each kind of difference: rank 1 makes the second call. */
static int64_t differ(unsigned int kind, bool other)
{
	struct openreg_comm *c = me.comm;
	const uint64_t at = me.at, far = me.at + BYTES / 2;

	switch (kind) {
	case 0:
		return openreg_comm_all_reduce(c, at, at, other ? 17 : 16, OPENREG_F32,
					       OPENREG_COMM_SUM);
	case 1:
		return openreg_comm_all_reduce(c, at, at, other ? 400000 : 16, OPENREG_F32,
					       OPENREG_COMM_SUM);
	case 2:
		return openreg_comm_all_reduce(c, at, at, 16, other ? OPENREG_I32 : OPENREG_F32,
					       OPENREG_COMM_SUM);
	case 3:
		return openreg_comm_all_reduce(c, at, at, 16, OPENREG_F32,
					       other ? OPENREG_COMM_MAX : OPENREG_COMM_SUM);
	case 4:
		return other ? openreg_comm_barrier(c) :
			       openreg_comm_all_reduce(c, at, at, 16, OPENREG_F32,
						       OPENREG_COMM_SUM);
	case 5:
		return openreg_comm_broadcast(c, at, 16, OPENREG_F32, other);
	case 6:
		return openreg_comm_broadcast(c, at, other ? 16 : 400000, OPENREG_F32, 0);
	case 7:
		return openreg_comm_all_gather(c, far, at, other ? others : ones, OPENREG_F32);
	case 8:
		return openreg_comm_all_to_all(c, far, at, ones, other ? others : ones,
					       OPENREG_F32);
	case 9:
		return openreg_comm_gather(c, far, at, ones, other ? OPENREG_I8 : OPENREG_F32,
					   2);
	case 10:
		return me.rank == 2 ? openreg_comm_recv(c, at, 100, OPENREG_F32, 1) :
		       other ? openreg_comm_send(c, at, 100, OPENREG_I32, 2) :
			       openreg_comm_barrier(c);
	default:
		return me.rank == 2 ? openreg_comm_recv(c, at, 400000, OPENREG_F32, 1) :
		       other ? openreg_comm_send(c, at, 10, OPENREG_F32, 2) :
			       openreg_comm_barrier(c);
	}
}

static const char *const parts[] = {
	"16 f32", "400000 f32", "i32", "MAX", "barrier", "root 1",
	"400000 f32", "counts[2]", "counts of all_to_all", "i8", "100 i32", "10 f32",
};

static unsigned int kind;

/* A rank with the data of another call does not complete. */
static bool cannot_complete(void)
{
	switch (kind) {
	case 5: /* two roots: each rank takes from a root of its own call, or from none */
		return false;
	case 6:
		return me.rank == 1;
	case 8:
		return me.rank != 0;
	case 9:
	case 10:
	case 11:
		return me.rank == 2;
	default:
		return true;
	}
}

/* Every rank gets an error that names rank 1 and what differs, before the timeout. */
static void call_other(void)
{
	const int64_t begin = now();
	struct openreg_comm_attr attr = attributes();
	int64_t ret;

	attr.timeout_ns = LONG;
	must(!create(&attr));
	memset(me.p, 1 + (int)me.rank, BYTES);
	ret = differ(kind, me.rank == 1);
	if (ret >= 0)
		ret = openreg_comm_wait(me.comm, ret);
	must(!cannot_complete() || ret == -EPROTO);
	/* The collectives that reduce, in place: no data of another call is in the result. */
	for (unsigned int i = 0; kind <= 3 && i < 64; i++)
		must(me.p[i] == 1 + me.rank);
	/* A rank that needed no other rank finds out at its next call. */
	if (!ret)
		ret = openreg_comm_wait(me.comm, openreg_comm_barrier(me.comm));
	must(ret == -EPROTO);
	must(says("rank 1") && says(parts[kind]));
	must(now() - begin < LONG / 2);
	must(openreg_comm_barrier(me.comm) == -EIO && says(parts[kind]));
}

static void test_differ(void **state)
{
	(void)state;
	for (kind = 0; kind < COUNT(parts); kind++)
		run_ranks(3, call_other, false);
}

static void *abort_soon(void *arg)
{
	(void)arg;
	usleep(50000);
	must(!openreg_comm_abort(me.comm));
	return NULL;
}

/* Another thread aborts while this one waits, or while its ring is full. */
static bool full;

static void one_aborts(void)
{
	pthread_t thread;
	int64_t seq = 0;

	if (me.rank == 1) {
		usleep(1000000);
		/* Until the calls of rank 0 before its abort are used up. */
		while (!seq)
			seq = openreg_comm_wait(me.comm, sum(100));
		must(seq == -ECONNRESET);
		must(says("rank 0 has aborted"));
		return;
	}
	if (!full)
		seq = sum(100);
	must(seq >= 0);
	must(!pthread_create(&thread, NULL, abort_soon, NULL));
	if (full)
		while (seq >= 0)
			seq = sum(100);
	else
		seq = openreg_comm_wait(me.comm, seq);
	must(seq == -ECANCELED || (full && seq == -EIO));
	must(says("rank 0 has aborted"));
	pthread_join(thread, NULL);
	must(openreg_comm_barrier(me.comm) == -EIO && says("rank 0 has aborted"));
	must(openreg_comm_wait(me.comm, 1) == -EIO);
	must(openreg_comm_query(me.comm, 1) == -EIO);
	must(openreg_comm_group_begin(me.comm) == -EIO);
	must(!openreg_comm_abort(me.comm));
	must(!openreg_comm_queue(me.comm));
}

static void test_abort(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		full = i;
		run_ranks(2, one_aborts, true);
	}
}

static void in_child(void)
{
	struct openreg_comm *part;

	must(sum(100) == -EPERM && says("child of fork()"));
	must(openreg_comm_wait(me.comm, 1) == -EPERM);
	must(openreg_comm_query(me.comm, 1) == -EPERM);
	must(openreg_comm_abort(me.comm) == -EPERM);
	must(openreg_comm_split(me.comm, 0, 0, &part) == -EPERM && !part);
	must(openreg_comm_group_begin(me.comm) == -EPERM);
	openreg_comm_destroy(me.comm);
	_exit(0);
}

static void forks(void)
{
	int status;
	pid_t pid;

	finish(sum(100));
	pid = fork();
	if (!pid)
		in_child();
	must(waitpid(pid, &status, 0) == pid && !status);
	finish(sum(100));
}

static void test_fork(void **state)
{
	(void)state;
	run_ranks(2, forks, true);
}

static void *split_all(void *arg)
{
	struct openreg_comm **part = arg;

	must(!openreg_comm_split(me.comm, 0, 0, part));
	return NULL;
}

/* A second thread gets an error while the first one splits. It may wait and ask. */
static void two_threads(void)
{
	struct openreg_comm *part = NULL;
	int64_t seq = sum(100);
	pthread_t thread;

	finish(seq);
	if (me.rank)
		usleep(300000);
	must(!pthread_create(&thread, NULL, split_all, &part));
	if (!me.rank) {
		usleep(50000);
		must(openreg_comm_barrier(me.comm) == -EBUSY && says("two threads"));
		must(!openreg_comm_wait(me.comm, seq));
		must(openreg_comm_query(me.comm, seq) == 1);
	}
	pthread_join(thread, NULL);
	openreg_comm_destroy(part);
	finish(sum(100));
}

/* 1 when it has completed; 0 before. */
static void ask(void)
{
	int64_t seq;
	int ret;

	if (me.rank)
		usleep(100000);
	seq = sum(100);
	ret = openreg_comm_query(me.comm, seq);
	must(me.rank || !ret);
	while (!ret)
		ret = openreg_comm_query(me.comm, seq);
	must(ret == 1);
	if (!me.rank) {
		seq = sum(100);
		must(openreg_comm_wait_timeout(me.comm, seq, SECOND / 10) == -ETIME);
		must(says("rank 1 is late") && says("only 1 collective"));
	} else {
		usleep(500000);
	}
}

static void test_threads(void **state)
{
	(void)state;
	run_ranks(2, two_threads, true);
	run_ranks(2, ask, true);
}

static int set_nothing(void *opaque, const char *key, const void *value, size_t len)
{
	(void)opaque;
	(void)key;
	(void)value;
	(void)len;
	return 0;
}

static int64_t get_fails(void *opaque, const char *key, void *value, size_t len,
			 int64_t timeout_ns)
{
	(void)opaque;
	(void)key;
	(void)value;
	(void)len;
	(void)timeout_ns;
	return -ECONNREFUSED;
}

static int64_t get_nonsense(void *opaque, const char *key, void *value, size_t len,
			    int64_t timeout_ns)
{
	(void)opaque;
	(void)key;
	(void)timeout_ns;
	memset(value, 7, len);
	return (int64_t)len;
}

/* A store that is not there, that goes away, or that has values of another program. */
static void bad_stores(void)
{
	struct openreg_comm_store store = openreg_comm_directory("/nonexistent");
	struct openreg_comm_attr attr = attributes();

	attr.size = 2;
	attr.timeout_ns = SECOND;
	must(openreg_comm_create(me.c.dev, &attr, &store, &me.comm) == -ENOENT && !me.comm);
	must(says("store's key") && says("test."));
	store.set = set_nothing;
	store.get = get_fails;
	attr.rank = 1;
	must(openreg_comm_create(me.c.dev, &attr, &store, &me.comm) == -ECONNREFUSED);
	must(says("cannot read the store's key"));
	store.get = get_nonsense;
	must(openreg_comm_create(me.c.dev, &attr, &store, &me.comm) == -EPROTO);
	must(says("not of this version"));
}

static void test_stores(void **state)
{
	(void)state;
	run_ranks(1, bad_stores, false);
}

/* A rank that does not split, and one that dies in the split. */
static void no_split(void)
{
	struct openreg_comm *part;
	struct openreg_comm_attr attr = attributes();

	attr.timeout_ns = SECOND;
	must(!create(&attr));
	finish(openreg_comm_barrier(me.comm));
	if (me.rank == 1 && !kind)
		raise(SIGKILL);
	if (me.rank == 1)
		pause();
	must(openreg_comm_split(me.comm, 0, 0, &part) < 0 && !part);
	must(says("rank 1") && says("split"));
}

static void test_split(void **state)
{
	(void)state;
	for (kind = 0; kind < 2; kind++)
		run_failing(3, no_split, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_differ),	cmocka_unit_test(test_abort),
		cmocka_unit_test(test_fork),	cmocka_unit_test(test_threads),
		cmocka_unit_test(test_split),	cmocka_unit_test(test_stores),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
