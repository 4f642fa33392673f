/* SPDX-License-Identifier: MIT */
/* Children that share memory with the test, and have a card in them. */
#ifndef CHILDREN_H
#define CHILDREN_H

#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define SIZE (1 << 20)

/* In a child: a failure ends it with a message and status 1. */
#define must(cond)                                                             \
	do {                                                                   \
		if (!(cond)) {                                                 \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, \
				#cond, openreg_last_error());                  \
			_exit(1);                                              \
		}                                                              \
	} while (0)

static inline int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

typedef void child_fn(struct card *c, int fd);

/* Runs f in a child that has this card; it dies with this process. */
static inline pid_t start_on(unsigned int card, child_fn *f, int fd)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct card c;

	must(!openreg_device_open(card, &c.dev));
	must(!openreg_queue_create(c.dev, NULL, &c.q));
	f(&c, fd);
	_exit(0);
}

/* With the second card. */
static inline pid_t start(child_fn *f, int fd)
{
	return start_on(1, f, fd);
}

static inline void end(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static inline void child_run(struct card *c)
{
	must(!openreg_queue_wait(c->q, (uint64_t)openreg_queue_submit(c->q), LONG));
}

static inline struct openreg_bo *child_import(struct card *c, int fd)
{
	struct openreg_bo *in;

	must(!openreg_bo_import(c->dev, fd, &in));
	return in;
}

static inline struct openreg_bo *child_vram(struct card *c, uint64_t size)
{
	struct openreg_bo *bo;

	must(!openreg_bo_alloc(c->dev, size, OPENREG_BO_VRAM, &bo));
	return bo;
}

static inline uint8_t *child_map(struct openreg_bo *bo)
{
	void *p;

	must(!openreg_bo_map(bo, &p));
	return p;
}

static inline uint32_t child_fault(struct card *c)
{
	struct openreg_fault_summary f;
	int64_t seq = openreg_queue_submit(c->q);

	must(openreg_queue_wait(c->q, (uint64_t)seq, LONG) == -EIO);
	must(openreg_queue_fault(c->q, &f) == 1);
	must(!openreg_queue_reset(c->q));
	return f.code;
}

/* Words in a shared object: the parent waits for the first and sets the second. */
#define PING 0
#define PONG 64

#endif
