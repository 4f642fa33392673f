/* SPDX-License-Identifier: GPL-2.0-only */
/* Common code of the files with the calls. */
#ifndef FUZZ_IOCTL_CALLS_H
#define FUZZ_IOCTL_CALLS_H

#include <setjmp.h>

#include "run.h"

/* A running call. */
struct ctx {
	struct run *run;
	struct result *made; /* result of this call */
	uint64_t a[ARGS_MAX]; /* arguments as numbers */
	struct result *ref[ARGS_MAX]; /* results that the arguments refer to, or NULL */
};

/* 0 or -errno. */
typedef int call_fn(struct ctx *c);
extern call_fn * const card_calls[OPS];
extern call_fn * const memory_calls[OPS];
extern call_fn * const other_calls[OPS];

/* While call_guarded is set, a memory fault jumps to call_guard. */
extern __thread sigjmp_buf call_guard;
extern __thread volatile bool call_guarded;

int do_ioctl(int fd, unsigned long request, void *args);
void made_fd(struct ctx *c, int fd);
/* Absolute time us microseconds from now. 0 and values above 1 s stay as they are. */
uint64_t deadline(uint64_t us);
/*
 * Address for the next mapping, far from stacks and libraries. A program that uses freed
 * memory, or memory behind its mapping, then does not hit the fuzzer's own memory.
 */
void *next_place(uint64_t size);
void *map_at(int fd, uint64_t offset, uint64_t size, int prot);

#endif
