/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs: lists of calls. Arguments may be results of earlier calls. */
#ifndef FUZZ_IOCTL_PROGRAM_H
#define FUZZ_IOCTL_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CALLS_MAX 32
#define ARGS_MAX 6

enum op {
	OP_OPEN, OP_CLOSE, OP_DUP, OP_QUERY, OP_BO, OP_INFO, OP_REGISTER,
	OP_GEM_CLOSE, OP_QUEUE, OP_DESTROY, OP_WAIT, OP_RESET, OP_TIMESTAMP,
	OP_SIGNAL, OP_MAP_QUEUE, OP_PACKET, OP_TAIL, OP_MAP, OP_MAP_PART,
	OP_MEMORY, OP_UNMAP, OP_PROTECT, OP_ADVISE, OP_TOUCH, OP_EXPORT,
	OP_IMPORT, OP_SYNC, OP_MAP_BUF, OP_UDMABUF, OP_SYNCOBJ, OP_SYNCOBJ_DESTROY,
	OP_SYNCOBJ_WAIT, OP_SYNCOBJ_TIMELINE, OP_SYNCOBJ_EVENTFD, OP_SYNCOBJ_TO_FD,
	OP_SYNCOBJ_FROM_FD, OP_FDINFO, OP_POLL, OP_READ, OP_FORK, OP_RAW, OP_SLEEP,
	OP_FAIL, OP_LIMIT, OP_STATS, OP_FLR, OP_FLINK, OP_CHANGE_HANDLE,
	OPS
};

/* Kinds of arguments and results. */
enum kind {
	KIND_NONE,
	/* results of calls */
	KIND_CARD, KIND_BUF, KIND_HANDLE, KIND_QUEUE, KIND_SYNCOBJ, KIND_MAP,
	KIND_FD, /* any file descriptor */
	/* part of a result */
	KIND_ADDRESS, KIND_OFFSET,
	/* numbers */
	KIND_SIZE, KIND_NUMBER, KIND_SEQ, KIND_TIME, KIND_POINTER, KIND_ZERO,
	KIND_BO_FLAGS, KIND_REG_FLAGS, KIND_PRIME_FLAGS, KIND_PROT, KIND_SLOTS,
	KIND_PRIORITY, KIND_FEW, KIND_ADVICE, KIND_SYNC_FLAGS,
};

struct arg {
	bool ref; /* value is the number of a call */
	uint64_t value;
};

struct call {
	enum op op;
	struct arg arg[ARGS_MAX];
};

/* The race of a program, after it was run once call by call. */
struct race {
	unsigned int threads; /* 0: no race */
	unsigned int from; /* first call that all threads repeat */
	unsigned int rounds;
	unsigned int kill_us; /* kill the process after this time; 0: do not */
};

struct program {
	unsigned int count;
	struct race race;
	struct call call[CALLS_MAX];
};

struct op_desc {
	const char *name;
	unsigned int weight; /* relative frequency in new programs */
	enum kind makes;
	enum kind arg[ARGS_MAX];
};

extern const struct op_desc ops[OPS];

/* True if an argument of kind wants can be a result of kind made. */
bool kind_takes(enum kind wants, enum kind made);

/* text.c; 0 or -EINVAL. */
int program_read(struct program *program, FILE *file);
void program_write(const struct program *program, FILE *file);

/* generate.c */
struct random {
	uint64_t state;
};

uint64_t random_next(struct random *random);
unsigned int random_below(struct random *random, unsigned int end);
void program_new(struct program *program, struct random *random);
/* other: a program to take calls from. */
void program_mutate(struct program *program, const struct program *other,
		    struct random *random);

#endif
