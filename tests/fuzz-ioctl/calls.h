/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files with the calls have in common. */
#ifndef FUZZ_IOCTL_CALLS_H
#define FUZZ_IOCTL_CALLS_H

#include <setjmp.h>

#include "run.h"

/* A call under way: numbers, and where they are from. */
struct ctx {
	struct run *run;
	struct result *made;
	uint64_t a[ARGS_MAX];
	struct result *ref[ARGS_MAX]; /* or NULL */
};

/* 0 or -errno. */
typedef int call_fn(struct ctx *c);
extern call_fn * const card_calls[OPS];
extern call_fn * const memory_calls[OPS];
extern call_fn * const other_calls[OPS];

/* What is touched while guarded may not be there: call_guard jumps back. */
extern __thread sigjmp_buf call_guard;
extern __thread volatile bool call_guarded;

int do_ioctl(int fd, unsigned long request, void *args);
void made_fd(struct ctx *c, int fd);
/* Of microseconds from now; great numbers are what they are. */
uint64_t deadline(uint64_t us);
/*
 * For the next map, far from stacks and libraries: what a program does to memory that
 * it has given back, or to what follows its own, does not hit the fuzzer itself.
 */
void *next_place(uint64_t size);
void *map_at(int fd, uint64_t offset, uint64_t size, int prot);

#endif
