/* SPDX-License-Identifier: MIT */
/*
 * Packets for the compute engine, made by hand: no card, no queues. A test
 * fills struct openreg_args, then runs it as the card's workers would.
 */
#ifndef ENGINE_HARNESS_H
#define ENGINE_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine.h"

/* A VECTOR packet over ndim sizes; operands and program follow. */
void args_begin(struct openreg_args *args, unsigned int opcode,
		unsigned int ndim, const int64_t *size);
/* stride NULL: dense, row-major. Returns the operand's index. */
unsigned int args_operand(struct openreg_args *args, unsigned int dtype,
			  void *ptr, const int64_t *stride);
unsigned int args_imm_f(struct openreg_args *args, double value);
unsigned int args_imm_i(struct openreg_args *args, int64_t value);
void args_instr(struct openreg_args *args, unsigned int op, unsigned int type,
		unsigned int dst, unsigned int a, unsigned int b,
		unsigned int c, unsigned int aux);

/* The verdict's fault code. */
uint32_t args_check(struct openreg_args *args);

/*
 * Checks, then runs all slices of all phases on two threads; backwards if
 * reverse, since their order must not matter. Fails the test if the check does.
 */
void args_run_order(struct openreg_args *args, bool reverse);
void args_run(struct openreg_args *args);
/* The same for a packet that may fault while it runs: how it ended. */
struct openreg_verdict args_try(struct openreg_args *args, bool reverse);

void dense_strides(unsigned int ndim, const int64_t *size, int64_t *stride);

/* The same numbers on every host. */
uint64_t random_u64(void);
double random_unit(void); /* [0, 1) */
int64_t random_range(int64_t lo, int64_t hi); /* [lo, hi] */
void random_seed(uint64_t seed);

/* An operand in an arena. */
struct layout {
	int64_t stride[OPENREG_DIMS_MAX];
	int64_t origin, extent; /* elements */
};

/* Any order of dimensions, gaps, negative strides; 0 only if broadcast. */
void random_layout(struct layout *l, unsigned int ndim, const int64_t *size,
		   bool broadcast);
int64_t layout_at(const struct layout *l, unsigned int ndim, const int64_t *at);
/* Row-major; false after the last. Starts at, and ends with, all zero. */
bool next_point(unsigned int ndim, const int64_t *size, int64_t *at);

/* One element of any dtype, as the slow references see it. */
double element_get(unsigned int dtype, const void *ptr, int64_t at);
int64_t element_get_int(unsigned int dtype, const void *ptr, int64_t at);
/* Finite small values that every dtype holds exactly. */
void fill_small(unsigned int dtype, void *ptr, int64_t n, int lo, int hi);

#endif
