/* SPDX-License-Identifier: MIT */
/*
 * Runs packets in the compute engine without a card and queues. A test fills struct
 * openreg_args, then runs the packet as the card's workers do.
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

#include "engine/engine.h"

/* Begins a packet over size[ndim]; the other calls add operands and a program. */
void args_begin(struct openreg_args *args, unsigned int opcode,
		unsigned int ndim, const int64_t *size);
/* Returns the operand's index. stride NULL: dense, row-major. */
unsigned int args_operand(struct openreg_args *args, unsigned int dtype,
			  void *ptr, const int64_t *stride);
unsigned int args_imm_f(struct openreg_args *args, double value);
unsigned int args_imm_i(struct openreg_args *args, int64_t value);
void args_instr(struct openreg_args *args, unsigned int op, unsigned int type,
		unsigned int dst, unsigned int a, unsigned int b,
		unsigned int c, unsigned int aux);

/* Checks the packet; returns the fault code. */
uint32_t args_check(struct openreg_args *args);
/* The packet args, which is a copy of good with a change, has this code. */
#define EXPECT(change, code)                                                   \
	do {                                                                   \
		args = good;                                                   \
		change;                                                        \
		assert_int_equal(args_check(&args), OPENREG_FAULT_##code);     \
	} while (0)

/*
 * Checks the packet, then runs all slices of all phases on two threads, in reverse order
 * if reverse: the order must not matter. Fails the test if the check or the run fails.
 */
void args_run_order(struct openreg_args *args, bool reverse);
void args_run(struct openreg_args *args);
/* The same for a packet that may fault while it runs. Returns the result. */
struct openreg_verdict args_try(struct openreg_args *args, bool reverse);

void dense_strides(unsigned int ndim, const int64_t *size, int64_t *stride);

/* Random numbers, the same on every host. */
uint64_t random_u64(void);
double random_unit(void); /* [0, 1) */
int64_t random_range(int64_t lo, int64_t hi); /* [lo, hi] */
void random_seed(uint64_t seed);

/* An operand's strides, its first element, and the elements of its memory. */
struct layout {
	int64_t stride[OPENREG_DIMS_MAX];
	int64_t origin, extent; /* elements */
};

/* Random order of dimensions, gaps, negative strides; stride 0 only if broadcast. */
void random_layout(struct layout *l, unsigned int ndim, const int64_t *size,
		   bool broadcast);
int64_t layout_at(const struct layout *l, unsigned int ndim, const int64_t *at);
/* Moves at to the next point, row-major. False after the last; then at is all zero. */
bool next_point(unsigned int ndim, const int64_t *size, int64_t *at);

/* Is it a float dtype, float8 included? */
bool element_is_float(unsigned int dtype);
/* Reads one element of any dtype, for the slow references. */
double element_get(unsigned int dtype, const void *ptr, int64_t at);
int64_t element_get_int(unsigned int dtype, const void *ptr, int64_t at);
/* The value after rounding to the dtype. */
double element_round(unsigned int dtype, double x);
/* Fills with small finite values that every dtype holds exactly. */
void fill_small(unsigned int dtype, void *ptr, int64_t n, int lo, int hi);

#endif
