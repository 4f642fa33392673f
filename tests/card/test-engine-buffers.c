// SPDX-License-Identifier: MIT
/* VECTOR: compares random programs that reuse registers with a plain interpreter. */
#include <stdlib.h>

#include "engine-harness.h"

#define POINTS 1500 /* more than a tile */
#define OUTPUTS 3
#define LENGTH 60

enum { WIDE = OUTPUTS, NARROW, SINGLE };

struct reg {
	bool written;
	unsigned int type;
	int64_t value[POINTS];
};

static struct reg regs[OPENREG_REGS];
static int64_t wide[POINTS], single, out[OUTPUTS][POINTS], want[OUTPUTS][POINTS];
static int32_t narrow[POINTS];

static unsigned int below(unsigned int n)
{
	return (unsigned int)(random_u64() % n);
}

static int64_t as_type(uint64_t x, unsigned int type)
{
	return type == OPENREG_VT_I32 ? (int32_t)(uint32_t)x : (int64_t)x;
}

/* A register that has a value of the type, or -1. */
static int pick(unsigned int type)
{
	unsigned int first = below(OPENREG_REGS), i;

	for (i = 0; i < OPENREG_REGS; i++) {
		unsigned int r = (first + i) % OPENREG_REGS;

		if (regs[r].written && regs[r].type == type)
			return (int)r;
	}
	return -1;
}

static void set(unsigned int dst, unsigned int type, int64_t *value)
{
	regs[dst].written = true;
	regs[dst].type = type;
	memcpy(regs[dst].value, value, sizeof(regs[dst].value));
}

static void add_source(struct openreg_args *args, unsigned int dst,
		       unsigned int type)
{
	unsigned int from = below(4), i;
	static int64_t value[POINTS];
	int64_t number = (int64_t)random_u64();

	for (i = 0; i < POINTS; i++) {
		uint64_t x = (uint64_t)(from == 0 ? number
					: from == 1 ? wide[i]
					: from == 2 ? narrow[i] : single);

		value[i] = as_type(x, type);
	}
	if (from == 0 && args->nimm < OPENREG_IMMS_MAX)
		args_instr(args, OPENREG_V_IMM, type, dst, 0, 0, 0,
			   args_imm_i(args, number));
	else if (from == 0)
		return;
	else
		args_instr(args, OPENREG_V_LOAD, type, dst, 0, 0, 0,
			   from == 1 ? WIDE : from == 2 ? NARROW : SINGLE);
	set(dst, type, value);
}

static void add_operation(struct openreg_args *args, unsigned int dst,
			  unsigned int type)
{
	static const uint8_t ops[] = { OPENREG_V_ADD, OPENREG_V_SUB,
				       OPENREG_V_MUL, OPENREG_V_FMA,
				       OPENREG_V_SELECT, OPENREG_V_NEG,
				       OPENREG_V_LT, OPENREG_V_CVT };
	unsigned int op = ops[below(sizeof(ops))], i, to = type;
	unsigned int other = type == OPENREG_VT_I32 ? OPENREG_VT_I64
						    : OPENREG_VT_I32;
	int a = pick(op == OPENREG_V_SELECT ? OPENREG_VT_I32
		     : op == OPENREG_V_CVT  ? other : type);
	int b = pick(type), c = pick(type);
	static int64_t value[POINTS];

	if (a < 0 || b < 0)
		return;
	if (op == OPENREG_V_LT)
		to = OPENREG_VT_I32;
	for (i = 0; i < POINTS; i++) {
		uint64_t x = (uint64_t)regs[a].value[i];
		uint64_t y = (uint64_t)regs[b].value[i];
		uint64_t z = (uint64_t)regs[c].value[i], r = 0;

		switch (op) {
		case OPENREG_V_ADD: r = x + y; break;
		case OPENREG_V_SUB: r = x - y; break;
		case OPENREG_V_MUL: r = x * y; break;
		case OPENREG_V_FMA: r = x * y + z; break;
		case OPENREG_V_SELECT: r = x ? y : z; break;
		case OPENREG_V_NEG: r = 0 - x; break;
		case OPENREG_V_LT: r = (int64_t)x < (int64_t)y; break;
		default: r = x;
		}
		value[i] = as_type(r, to);
	}
	args_instr(args, op, type, dst, (unsigned int)a, (unsigned int)b,
		   (unsigned int)c, op == OPENREG_V_CVT ? other : 0);
	set(dst, to, value);
}

static void one_program(void)
{
	const int64_t size[] = { POINTS }, none[] = { 0 };
	struct openreg_args args;
	unsigned int i, type;

	memset(regs, 0, sizeof(regs));
	args_begin(&args, OPENREG_OP_VECTOR, 1, size);
	for (i = 0; i < OUTPUTS; i++)
		args_operand(&args, OPENREG_I64, out[i], NULL);
	args_operand(&args, OPENREG_I64, wide, NULL);
	args_operand(&args, OPENREG_I32, narrow, NULL);
	args_operand(&args, OPENREG_I64, &single, none);
	for (i = 0; i < LENGTH; i++) {
		type = below(2) ? OPENREG_VT_I32 : OPENREG_VT_I64;
		if (below(4) == 0)
			add_source(&args, below(OPENREG_REGS), type);
		else
			add_operation(&args, below(OPENREG_REGS), type);
	}
	for (i = 0; i < OUTPUTS; i++) {
		int r = pick(below(2) ? OPENREG_VT_I32 : OPENREG_VT_I64);

		if (r < 0)
			continue;
		args_instr(&args, OPENREG_V_STORE, regs[r].type, 0,
			   (unsigned int)r, 0, 0, i);
		memcpy(want[i], regs[r].value, sizeof(want[i]));
	}
	args_run(&args);
	assert_memory_equal(out, want, sizeof(out));
}

static void test_programs(void **state)
{
	unsigned int seed, i;

	(void)state;
	for (seed = 0; seed < 1000 / SCALE; seed++) {
		random_seed(seed);
		for (i = 0; i < POINTS; i++) {
			wide[i] = (int64_t)random_u64();
			narrow[i] = (int32_t)random_u64();
		}
		single = (int64_t)random_u64();
		one_program();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
