// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs programs call by call. A program that races runs in its own process, which is
 * killed at a chosen time or at a time limit.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

#define THREADS_MAX 4
#define TICK_US 50000
#define LIMIT_NS (20 * SEC_NS)

/* Starts a timer that interrupts sleeping calls. */
static void tick(void)
{
	const struct itimerval every = {
		.it_interval.tv_usec = TICK_US,
		.it_value.tv_usec = TICK_US,
	};

	setitimer(ITIMER_REAL, &every, NULL);
}

static void begin(struct run *run, const struct program *program)
{
	unsigned int i;

	memset(run, 0, sizeof(*run));
	run->program = program;
	for (i = 0; i < CALLS_MAX; i++)
		run->result[i].fd = -1;
}

static void end(struct run *run)
{
	unsigned int i;

	for (i = 0; i < run->program->count; i++)
		call_undo(run, i);
}

static void in_order(struct run *run, unsigned int until)
{
	unsigned int i;

	for (i = 0; i < until; i++) {
		kcov_mark(i);
		call_run(run, i);
	}
}

struct racer {
	struct run *run;
	unsigned int number;
};

/* Each thread begins at another call; every other thread goes backwards. */
static void *race(void *arg)
{
	const struct racer *racer = arg;
	struct run *run = racer->run;
	const struct program *program = run->program;
	unsigned int from = program->race.from, i, at;
	unsigned int num = program->count - from;

	for (i = 0; i < program->race.rounds * num; i++) {
		at = (i + racer->number * num / THREADS_MAX) % num;
		if (racer->number % 2)
			at = num - 1 - at;
		call_run(run, from + at);
	}
	return NULL;
}

static void join(pthread_t thread)
{
	struct timespec until;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += TICK_US * 1000;
		if (until.tv_nsec >= SEC_NS) {
			until.tv_nsec -= SEC_NS;
			until.tv_sec++;
		}
		if (pthread_timedjoin_np(thread, NULL, &until) != ETIMEDOUT)
			return;
		pthread_kill(thread, SIGUSR1);
	}
}

static void race_all(struct run *run)
{
	unsigned int i, num = run->program->race.threads;
	struct racer racer[THREADS_MAX];
	pthread_t thread[THREADS_MAX];
	sigset_t alarm, old;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, &old);
	for (i = 0; i < num && i < THREADS_MAX - 1; i++) {
		racer[i] = (struct racer) { run, i + 1 };
		if (pthread_create(&thread[i], NULL, race, &racer[i]))
			break;
	}
	num = i;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	racer[num] = (struct racer) { run, 0 };
	race(&racer[num]);
	for (i = 0; i < num; i++)
		join(thread[i]);
}

/* Runs the program in this new process. */
static void run_apart(const struct program *program)
{
	static struct run run;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	tick();
	begin(&run, program);
	kcov_start();
	in_order(&run, program->count);
	if (program->race.threads && program->race.from < program->count)
		race_all(&run);
	kcov_stop();
	end(&run);
	_exit(0);
}

/* True if the process has ended by the deadline. */
static bool ends_by(pid_t pid, int64_t deadline)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = { .fd = fd, .events = POLLIN };
	bool ended = false;
	int64_t left;

	while (fd >= 0 && !ended) {
		left = deadline - now_ns();
		if (left <= 0)
			break;
		ended = poll(&end, 1, left / 1000000 + 1) == 1;
	}
	close(fd);
	return ended;
}

static void watch(pid_t pid, unsigned int kill_us)
{
	int64_t start = now_ns();
	int status = 0;

	if (!ends_by(pid, kill_us ? start + kill_us * 1000ll :
		     start + LIMIT_NS)) {
		kill(pid, SIGKILL);
		__atomic_add_fetch(kill_us ? &shared->killed : &shared->hung, 1,
				   __ATOMIC_RELAXED);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status))
		__atomic_add_fetch(&shared->lost, 1, __ATOMIC_RELAXED);
}

/* True for a program that changes its process for good, and so needs its own process. */
static bool spoils(const struct program *program)
{
	unsigned int i;

	for (i = 0; i < program->count; i++)
		if (program->call[i].op == OP_FORK ||
		    program->call[i].op == OP_LIMIT)
			return true;
	return program->race.threads;
}

static bool run_here(struct program *program)
{
	static struct run run;
	int first;

	tick();
	begin(&run, program);
	kcov_start();
	in_order(&run, program->count);
	kcov_stop();
	end(&run);
	first = kcov_collect();
	if (first < 0)
		return false;
	if ((unsigned int)first + 1 < program->count)
		program->count = first + 1;
	return true;
}

bool program_run(struct program *program)
{
	pid_t pid;

	__atomic_add_fetch(&shared->programs, 1, __ATOMIC_RELAXED);
	if (!spoils(program))
		return run_here(program);
	if (program->race.threads)
		__atomic_add_fetch(&shared->races, 1, __ATOMIC_RELAXED);
	kcov_clear();
	pid = fork();
	if (!pid)
		run_apart(program);
	if (pid < 0)
		return false;
	watch(pid, program->race.threads ? program->race.kill_us : 0);
	return kcov_collect() >= 0;
}
