// SPDX-License-Identifier: MIT
#include "ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

struct rank me;
static char dir[64];
unsigned int number;

int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

struct openreg_comm_attr attributes(void)
{
	static char name[32];

	snprintf(name, sizeof(name), "test.%u", number);
	return (struct openreg_comm_attr){
		.rank = me.rank, .size = me.size, .name = name, .timeout_ns = LONG,
		.slot_bytes = SLOT, .one_shot_bytes = SLOT,
	};
}

int create(const struct openreg_comm_attr *attr)
{
	const struct openreg_comm_store store = openreg_comm_directory(dir);

	return openreg_comm_create(me.c.dev, attr, &store, &me.comm);
}

static void open_card(void)
{
	must(!openreg_device_open(openreg_device_count() > 1 ? me.rank % 2 : 0, &me.c.dev));
	must(!openreg_queue_create(me.c.dev, NULL, &me.c.q));
	must(!openreg_bo_alloc(me.c.dev, BYTES, OPENREG_BO_VRAM, &me.bo));
	me.at = openreg_bo_address(me.bo);
	void *p;

	must(!openreg_bo_map(me.bo, &p));
	me.p = p;
}

pid_t start(uint32_t rank, uint32_t size, rank_fn *f, bool join)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	me.rank = rank;
	me.size = size;
	open_card();
	if (join) {
		const struct openreg_comm_attr attr = attributes();

		must(!create(&attr));
	}
	f();
	openreg_comm_destroy(me.comm);
	openreg_bo_free(me.bo);
	openreg_queue_destroy(me.c.q);
	openreg_device_close(me.c.dev);
	_exit(0);
}

void run_ranks(uint32_t size, rank_fn *f, bool join)
{
	pid_t pids[RANKS];
	int status, bad = 0;

	number++;
	for (uint32_t r = 0; r < size; r++)
		pids[r] = start(r, size, f, join);
	for (uint32_t r = 0; r < size; r++) {
		assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
		bad += status != 0;
	}
	assert_int_equal(bad, 0);
}

void finish(int64_t seq)
{
	must(seq >= 0);
	must(!openreg_comm_wait(me.comm, seq));
}

int64_t sum(uint64_t count)
{
	return openreg_comm_all_reduce(me.comm, me.at, me.at, count, OPENREG_F32,
				       OPENREG_COMM_SUM);
}

void run_failing(uint32_t size, rank_fn *f, uint32_t victim)
{
	pid_t pids[RANKS];
	int status;

	number++;
	for (uint32_t r = 0; r < size; r++)
		pids[r] = start(r, size, f, false);
	for (uint32_t r = 0; r < size; r++) {
		if (r == victim)
			continue;
		assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
		assert_int_equal(status, 0);
	}
	kill(pids[victim], SIGKILL);
	waitpid(pids[victim], &status, 0);
}

int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/openreg-comm.XXXXXX");
	return !mkdtemp(dir);
}

int remove_dir(void **state)
{
	char command[80];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

bool says(const char *part)
{
	const char *text = openreg_comm_last_error();

	if (strstr(text, part))
		return true;
	fprintf(stderr, "rank %u: \"%s\" does not say \"%s\"\n", me.rank, text, part);
	return false;
}

void broken(int64_t seq, int error, const char *text)
{
	must(seq > 0);
	must(openreg_comm_wait(me.comm, seq) == error);
	must(says(text));
	must(says("all_reduce"));
	/* It stays broken, with the same reason. */
	must(openreg_comm_barrier(me.comm) == -EIO && says(text));
	must(openreg_comm_wait(me.comm, 1) == -EIO && says(text));
	must(!openreg_comm_queue(me.comm));
}
