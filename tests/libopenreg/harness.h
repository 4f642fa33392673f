/* SPDX-License-Identifier: MIT */
/* Common code of all tests that use a card. */
#ifndef HARNESS_H
#define HARNESS_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openreg.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SECOND 1000000000LL

/* Long enough for any host, short enough to end a test that hangs. */
#define LONG (60 * SECOND)

struct card {
	struct openreg_device *dev;
	struct openreg_queue *q;
};

/* True for a card inside this process: no kernel, device nodes or limits of users. */
bool on_sim(void);

/* cmocka set-up and tear-down: *state is a struct card. */
int card_open(void **state);
int card_close(void **state);

/* Fails the test with openreg_last_error() if ret is negative. */
#define ok(ret) ok_(ret, #ret, __FILE__, __LINE__)
int64_t ok_(int64_t ret, const char *what, const char *file, int line);

/* The call must fail with error, and its error text must contain part. */
#define fails(ret, error, part) fails_(ret, error, part, #ret, __FILE__, __LINE__)
void fails_(int64_t ret, int error, const char *part, const char *what,
	    const char *file, int line);

struct openreg_bo *vram(struct card *c, uint64_t size);
uint64_t address(struct openreg_bo *bo);
void *mapped(struct openreg_bo *bo);

/* Pushes a VECTOR packet: n I32 at dst become twice those at src. */
void push_twice(struct card *c, uint64_t dst, uint64_t src, int64_t n);

/* Submits the pushed packets and waits for them. */
void run(struct card *c);

/* Submits the pushed packets, which must fault; resets the queue; returns the fault. */
struct openreg_fault_summary run_fault(struct card *c);

/* Checks that this queue still copies. */
void still_works(struct card *c);

/* Fills n bytes with pseudo-random numbers of seed. */
void noise(void *buf, size_t n, unsigned int seed);

#endif
