/* SPDX-License-Identifier: GPL-2.0-only */
/* Running a program, and what all processes count together. */
#ifndef FUZZ_IOCTL_RUN_H
#define FUZZ_IOCTL_RUN_H

#include <sys/types.h>

#include "../kselftest/card.h"
#include "program.h"

#define CORPUS_MAX 4096
#define PCS_MAX (1u << 16)
#define WORKERS_MAX 4
#define HISTORY 16

/* What a call has made. Other threads may see it half done, as they may. */
struct result {
	int fd; /* -1: none */
	int card; /* file that handle, queue or syncobj belong to */
	uint32_t handle;
	uint32_t syncobj;
	uint64_t address;
	uint64_t offset;
	void *map;
	uint64_t size;
	unsigned int maps; /* of it for a card */
	struct queue queue;
	bool mapped; /* its pages */
};

struct run {
	const struct program *program;
	struct result result[CALLS_MAX];
	pid_t child[CALLS_MAX];
};

struct worker {
	uint64_t beat; /* when it began the program, in ns */
	uint64_t count; /* of programs so far */
	struct program history[HISTORY];
};

struct shared {
	uint64_t programs, calls, ioctls, good, races, killed, hung, lost;
	uint64_t op_calls[OPS], op_good[OPS];
	uint32_t num_pcs; /* basic blocks of the driver that were reached */
	uint32_t pcs[PCS_MAX]; /* hash table of the low halves */
	uint32_t num_corpus;
	uint32_t ready[CORPUS_MAX];
	struct program corpus[CORPUS_MAX];
	struct worker worker[WORKERS_MAX];
	bool stop;
};

extern struct shared *shared;

/*
 * run.c: ends with nothing left open. False: nothing is new. Cut to what is, if KCOV
 * says where.
 */
bool program_run(struct program *program);

/* calls.c */
void run_init(void); /* once in each process */
/* True if the call succeeded. */
bool call_run(struct run *run, unsigned int at);
void call_undo(struct run *run, unsigned int at);

/* kcov.c */
bool kcov_open(void); /* before a process that collects is made */
void kcov_start(void);
void kcov_mark(unsigned int call); /* what follows is of this call */
void kcov_stop(void);
/* The first call with anything new, or CALLS_MAX if nobody knows which; or -1. */
int kcov_collect(void);
void kcov_clear(void);

#endif
