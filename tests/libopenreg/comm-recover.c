// SPDX-License-Identifier: MIT
/*
 * A rank survives failure after failure of its peer, of all kinds in turn. Each time the
 * error names the rank, nothing leaks, and a new communicator works.
 *
 * OPENREG_COMM_ROUNDS: the number of failures.
 */
#include "ranks.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum kind { KILLED, STOPPED, FAULTS, OWN_FAULT, OTHER_SIZE, MISSING, KINDS };
#define WARM_UP (2 * KINDS) /* rounds before the first measurement */

static enum kind kind;
static int turn; /* of the victim */

/* Memory of all processes: the rounds in which rank 0 has met rank 1, and has ended. */
static struct {
	atomic_int met, done;
} *shared;

static int rounds(void)
{
	const char *n = getenv("OPENREG_COMM_ROUNDS");

	return n ? atoi(n) : 3 * KINDS;
}

/* The card refuses the address. */
static int64_t faulty_sum(void)
{
	return openreg_comm_all_reduce(me.comm, me.at, me.at + (1ull << 37), 100, OPENREG_F32,
				       OPENREG_COMM_SUM);
}

/* Rank 1, which ends in this round. */
static void victim(void)
{
	const struct openreg_comm_attr attr = attributes();

	must(!create(&attr));
	finish(sum(16));
	while (atomic_load(&shared->met) <= turn)
		usleep(1000);
	switch (kind) {
	case KILLED:
		raise(SIGKILL);
		break;
	case STOPPED:
		raise(SIGSTOP);
		break;
	case FAULTS:
		must(openreg_comm_wait(me.comm, faulty_sum()) == -EIO);
		break;
	case OWN_FAULT:
		broken(sum(100), -ECONNRESET, "of rank 0 failed");
		break;
	default:
		broken(sum(17), -EPROTO, "17 f32");
		break;
	}
}

static void fail_once(int round)
{
	struct openreg_comm_attr attr = attributes();

	if (kind == MISSING) {
		attr.timeout_ns = SECOND / 2;
		must(create(&attr) == -ETIME && !me.comm);
		must(says("rank 1 of 2 has not come"));
		return;
	}
	must(!create(&attr));
	finish(sum(16));
	atomic_store(&shared->met, round + 1);
	switch (kind) {
	case KILLED:
		broken(sum(300000), -ECONNRESET, "rank 1 has ended");
		break;
	case STOPPED:
		must(openreg_comm_wait_timeout(me.comm, sum(300000), SECOND / 2) == -ETIME);
		must(says("rank 1 is late") && says("all_reduce 2"));
		break;
	case FAULTS:
		broken(sum(100), -ECONNRESET, "all_reduce 2 of rank 1 failed");
		break;
	case OWN_FAULT:
		must(openreg_comm_wait(me.comm, faulty_sum()) == -EIO);
		must(says("all_reduce 2 of rank 0 failed"));
		break;
	default:
		broken(sum(16), -EPROTO, "17 f32");
		break;
	}
}

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

static uint64_t vram_in_use(void)
{
	struct openreg_memory_info info;

	must(!openreg_device_get_memory(me.c.dev, &info));
	return info.process_vram;
}

/* The number that a new queue gets: on the in-process card the lowest that is free. */
static unsigned int next_queue(void)
{
	struct openreg_queue *q;
	unsigned int n;

	must(!openreg_queue_create(me.c.dev, NULL, &q));
	n = openreg_queue_number(q);
	openreg_queue_destroy(q);
	return on_sim() ? n : 0;
}

/* Rank 0. A closed object may take a moment until the card has released it. */
static void survive(void)
{
	unsigned int files = 0, queue = 0;
	uint64_t before = 0;

	for (int i = 0; i < rounds(); i++) {
		kind = (enum kind)(i % KINDS);
		fail_once(i);
		openreg_comm_destroy(me.comm);
		me.comm = NULL;
		number++;
		atomic_store(&shared->done, i + 1);
		if (i + 1 != WARM_UP)
			continue;
		usleep(100000);
		files = open_files();
		queue = next_queue();
		before = vram_in_use();
	}
	must(open_files() == files);
	for (int i = 0; i < 1000 && (vram_in_use() != before || next_queue() != queue); i++)
		usleep(1000);
	must(vram_in_use() == before);
	must(next_queue() == queue);
}

static void test_failures_in_a_row(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_true(rounds() > WARM_UP);
	number++;
	pid = start(0, 2, survive, false);
	for (int i = 0; i < rounds(); i++, number++) {
		pid_t other = 0;

		kind = (enum kind)(i % KINDS);
		turn = i;
		if (kind != MISSING)
			other = start(1, 2, victim, false);
		while (atomic_load(&shared->done) <= i) {
			assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
			usleep(1000);
		}
		if (!other)
			continue;
		if (kind == STOPPED)
			kill(other, SIGKILL);
		assert_int_equal(waitpid(other, &status, 0), other);
		if (kind == KILLED || kind == STOPPED)
			assert_true(WIFSIGNALED(status));
		else
			assert_int_equal(status, 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failures_in_a_row),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
