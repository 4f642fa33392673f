/* SPDX-License-Identifier: GPL-2.0-only */
/* Running programs, and the shared memory of all processes of the fuzzer. */
#ifndef FUZZ_IOCTL_RUN_H
#define FUZZ_IOCTL_RUN_H

#include <sys/types.h>

#include "../kselftest/card.h"
#include "program.h"

#define CORPUS_MAX 4096
#define PCS_MAX (1u << 16)
#define WORKERS_MAX 4
#define HISTORY 16

/* The result of a call. Racing threads may read it while it is incomplete. */
struct result {
	int fd; /* -1: none */
	int card; /* file to which handle, queue or syncobj belong */
	uint32_t handle;
	uint32_t syncobj;
	uint64_t address;
	uint64_t offset;
	void *map;
	uint64_t size;
	unsigned int maps; /* times that cards have mapped the memory */
	struct queue queue;
	bool mapped; /* the queue's pages are mapped */
};

struct run {
	const struct program *program;
	struct result result[CALLS_MAX];
	pid_t child[CALLS_MAX];
};

struct worker {
	uint64_t beat; /* start time of the current program, in ns */
	uint64_t count; /* programs so far */
	struct program history[HISTORY];
};

struct shared {
	uint64_t programs, calls, ioctls, good, races, killed, hung, lost;
	uint64_t op_calls[OPS], op_good[OPS];
	uint32_t num_pcs; /* reached basic blocks of the driver */
	uint32_t pcs[PCS_MAX]; /* hash table of their addresses' low halves */
	uint32_t num_corpus;
	uint32_t ready[CORPUS_MAX];
	struct program corpus[CORPUS_MAX];
	struct worker worker[WORKERS_MAX];
	bool stop;
};

extern struct shared *shared;

/*
 * run.c: runs a program and closes all its results. True if the program has reached new
 * code. With KCOV the program is then cut behind the call that reached the code.
 */
bool program_run(struct program *program);

/* calls.c */
void run_init(void); /* once in each process */
/* True if the call succeeded. */
bool call_run(struct run *run, unsigned int at);
void call_undo(struct run *run, unsigned int at);

/* kcov.c */
bool kcov_open(void); /* call it before the fork of processes that collect */
void kcov_start(void);
void kcov_mark(unsigned int call); /* the following code belongs to this call */
void kcov_stop(void);
/* First call that reached new code; CALLS_MAX: unknown call; -1: no new code. */
int kcov_collect(void);
void kcov_clear(void);

#endif
