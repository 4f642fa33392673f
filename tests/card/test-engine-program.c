// SPDX-License-Identifier: MIT
/* The check of VECTOR: programs, operands and shapes that the card refuses. */
#include <stdlib.h>

#include "engine-harness.h"
#include "vector/vector.h"

#define F32 OPENREG_VT_F32
#define F64 OPENREG_VT_F64
#define I32 OPENREG_VT_I32
#define I64 OPENREG_VT_I64
#define NONE OPENREG_VNONE

static const int64_t two[2] = { 2, 3 };

/* Operands: 0 f32 result, 1 f32, 2 i64 result folded over dim 1; one imm. */
static void begin(struct openreg_args *args)
{
	args_begin(args, OPENREG_OP_VECTOR, 2, two);
	args_operand(args, OPENREG_F32, NULL, NULL);
	args_operand(args, OPENREG_F32, NULL, NULL);
	args_operand(args, OPENREG_I64, NULL, (int64_t[]){ 1, 0 });
	args_imm_f(args, 1);
	args_instr(args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
}

static void expect(struct openreg_args *args, uint32_t code, uint64_t detail)
{
	struct openreg_verdict v = openreg_engine_check(args);

	assert_int_equal(v.code, code);
	if (code)
		assert_int_equal(v.detail, detail);
}

/* One instruction after LOAD r0, with the verdict it must get. */
struct bad {
	uint32_t code;
	struct openreg_instr in;
};

static void test_bad_instructions(void **state)
{
	static const struct bad bad[] = {
		/* op, type, dst, a, b, c, aux */
		{ OPENREG_FAULT_PROGRAM, { 200, F32, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { 15, F32, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_END, 0, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ADD, 4, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ADD, F32, 16, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ADD, F32, 0, 16, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ADD, F32, 0, 0, 16, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ADD, F32, 0, 255, 0, 0, 0 } },
		/* never written */
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ADD, F32, 0, 0, 1, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_NEG, F32, 0, 3, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_STORE, F32, 0, 1, 0, 0, 0 } },
		/* written as another type */
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ADD, F64, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ADD, I32, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_STORE, I64, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_CVT, I64, 0, 0, 0, 0, I32 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_CVT, I64, 0, 0, 0, 0, 9 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_SELECT, F32, 0, 0, 0, 0, 0 } },
		/* types that the operation does not have */
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_AND, F32, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ROUND, F64, 0, 0, 0, 0, 3 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_INDEX, I32, 0, 0, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_RANDOM, F32, 0, 0, 0, 0, 0 } },
		/* operands, immediates, dimensions that do not exist */
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_LOAD, F32, 0, 0, 0, 0, 3 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_LOAD, F32, 0, 0, 0, 0, 999 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_STORE, F32, 0, 0, 0, 0, 3 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_IMM, F32, 0, 0, 0, 0, 1 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_INDEX, I64, 0, 0, 0, 0, 2 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ROUND, F32, 0, 0, 0, 0, 1 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_ROUND, F32, 0, 0, 0, 0, 16 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_RANDOM, I32, 0, 1, 0, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_RANDOM, I64, 0, 0, 1, 0, 0 } },
		{ OPENREG_FAULT_PROGRAM, { OPENREG_V_RANDOM, I64, 16, 0, 0, 0, 0 } },
		/* reductions */
		{ OPENREG_FAULT_PROGRAM,
		  { OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, NONE } },
		{ OPENREG_FAULT_PROGRAM,
		  { OPENREG_V_RED_SUM, F32, 0, 5, NONE, NONE, 2 } },
		{ OPENREG_FAULT_PROGRAM,
		  { OPENREG_V_RED_SUM, F64, 0, 0, NONE, NONE, 2 } },
		{ OPENREG_FAULT_PROGRAM,
		  { OPENREG_V_RED_SUM, F32, 0, 0, NONE, 1, 2 } },
		{ OPENREG_FAULT_PROGRAM,
		  { OPENREG_V_RED_AND, F32, 0, 0, NONE, NONE, 2 } },
		{ OPENREG_FAULT_PROGRAM,
		  { OPENREG_V_RED_MAX, F32, 0, 0, 2, NONE, 2 } },
		{ OPENREG_FAULT_PROGRAM,
		  { OPENREG_V_RED_MAX, F32, 0, 0, 9, NONE, NONE } },
		{ OPENREG_FAULT_PROGRAM,
		  { OPENREG_V_RED_MAX, F32, 0, 0, 9, NONE, 2 } },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct openreg_args args;

		begin(&args);
		if (bad[i].in.op >= OPENREG_V_RED_SUM &&
		    bad[i].in.op < OPENREG_V_END)
			args.arg[0] = 2;
		args.instr[args.ninstr++] = bad[i].in;
		expect(&args, bad[i].code, 1);
	}
}

static void test_good(void **state)
{
	struct openreg_args args;

	(void)state;
	begin(&args);
	args_instr(&args, OPENREG_V_LT, F32, 1, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_SELECT, F32, 2, 1, 0, 0, 0);
	args_instr(&args, OPENREG_V_CVT, I64, 2, 2, 0, 0, F32);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	args.arg[0] = 2;
	args_instr(&args, OPENREG_V_RED_SUM, I64, 0, 2, NONE, NONE, 2);
	expect(&args, 0, 0);
	assert_true(args.op[0].written && !args.op[0].read);
	assert_true(args.op[1].read && !args.op[1].written);
	assert_true(args.op[2].written && !args.op[2].read);
	assert_int_equal(args.op[0].dims, 3);
	assert_int_equal(args.op[1].dims, 3);
	assert_int_equal(args.op[2].dims, 1);
}

/* The check ignores an operand that no instruction names. */
static void test_unused_operand(void **state)
{
	struct openreg_args args;

	(void)state;
	begin(&args);
	args.op[0].dtype = 77;
	expect(&args, 0, 0);
	assert_false(args.op[0].read || args.op[0].written);
}

/* Two reductions must not write one operand. */
static void test_one_result(void **state)
{
	struct openreg_args args;

	(void)state;
	begin(&args);
	args.arg[0] = 2;
	args_instr(&args, OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, 2);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, 2);
	expect(&args, OPENREG_FAULT_PROGRAM, 2);
}

static void test_stages(void **state)
{
	struct openreg_args args;

	(void)state;
	begin(&args);
	args.arg[0] = 2;
	args_instr(&args, OPENREG_V_MOV, F32, 5, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 3, 0, NONE, NONE, NONE);
	args_instr(&args, OPENREG_V_RED_MAX, F32, 4, 3, 2, NONE, NONE);
	args_instr(&args, OPENREG_V_ADD, F32, 0, 3, 4, 0, 0);
	/* A reduction reads what the registers have before the stage ends. */
	expect(&args, OPENREG_FAULT_PROGRAM, 3);
	args.instr[3].a = 5;
	expect(&args, 0, 0);
	assert_int_equal(args.op[2].dims, 1);
	/* The result's type, a register of an earlier stage, no register */
	args.instr[4].type = F64;
	expect(&args, OPENREG_FAULT_PROGRAM, 4);
	args.instr[4].type = F32;
	args.instr[4].b = 5;
	expect(&args, OPENREG_FAULT_PROGRAM, 4);
	args.instr[4].b = 4;
	args.instr[2].dst = 16;
	expect(&args, OPENREG_FAULT_PROGRAM, 2);
	/* The last stage needs an operand, and no register. */
	args.instr[2].dst = 3;
	args_instr(&args, OPENREG_V_RED_SUM, F32, 16, 0, NONE, NONE, NONE);
	expect(&args, OPENREG_FAULT_PROGRAM, 5);
	args.instr[5].aux = 0;
	args.op[0].stride[1] = 0;
	expect(&args, 0, 0);
	/* An instruction overwrites a result, and the stage ends. */
	args.instr[4].dst = 3;
	args.instr[5].a = args.instr[5].dst = 3;
	args_instr(&args, OPENREG_V_ADD, F32, 0, 3, 4, 0, 0);
	expect(&args, 0, 0);
	args.instr[5].dst = 7;
	expect(&args, OPENREG_FAULT_PROGRAM, 6);
	/* A STORE to the operand of a result */
	args.instr[6] = (struct openreg_instr){ OPENREG_V_STORE, F32, 0, 4, 0, 0, 0 };
	expect(&args, OPENREG_FAULT_PROGRAM, 6);
	args.instr[6].aux = 1;
	expect(&args, 0, 0);
}

static void test_stage_limits(void **state)
{
	struct openreg_args args;
	unsigned int i;

	(void)state;
	begin(&args);
	args.arg[0] = 2;
	for (i = 1; i <= OPENREG_STAGES_MAX; i++) {
		args_instr(&args, OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, NONE);
		args_instr(&args, OPENREG_V_NEG, F32, 0, 0, 0, 0, 0);
		expect(&args, i < OPENREG_STAGES_MAX ? 0 : OPENREG_FAULT_PROGRAM,
		       2 * OPENREG_STAGES_MAX);
	}
	begin(&args);
	for (i = 1; i <= OPENREG_REDUCTIONS_MAX + 1; i++)
		args_instr(&args, OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, NONE);
	args_instr(&args, OPENREG_V_NEG, F32, 0, 0, 0, 0, 0);
	expect(&args, OPENREG_FAULT_PROGRAM, OPENREG_REDUCTIONS_MAX + 1);
	args.instr[1] = args.instr[0];
	expect(&args, 0, 0);
}

/* A STORE of one element for each row needs a value that is the same at all points. */
static void test_store_of_rows(void **state)
{
	static const struct openreg_instr good[] = {
		{ OPENREG_V_MOV, F32, 3, 2, 0, 0, 0 },
		{ OPENREG_V_IMM, F32, 3, 0, 0, 0, 0 },
		{ OPENREG_V_ADD, F32, 3, 2, 2, 0, 0 },
		{ OPENREG_V_LOAD, F32, 3, 0, 0, 0, 2 },
	}, bad[] = {
		{ OPENREG_V_LOAD, F32, 3, 0, 0, 0, 1 },
		{ OPENREG_V_ADD, F32, 3, 2, 4, 0, 0 },
		{ OPENREG_V_FMA, F32, 3, 2, 2, 4, 0 },
	};
	struct openreg_args args;
	unsigned int i;

	(void)state;
	begin(&args);
	args.arg[0] = 2;
	args.op[0].stride[1] = 0;
	args_instr(&args, OPENREG_V_RED_SUM, F32, 2, 0, NONE, NONE, NONE);
	args_instr(&args, OPENREG_V_LOAD, F32, 4, 0, 0, 0, 1);
	args_instr(&args, 0, 0, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 3, 0, 0, 0);
	for (i = 0; i < sizeof(good) / sizeof(*good); i++) {
		args.instr[3] = good[i];
		expect(&args, 0, 0);
	}
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		args.instr[3] = bad[i];
		expect(&args, OPENREG_FAULT_SHAPE, 1);
	}
	/* One value for all rows */
	args.instr[3] = good[0];
	args.op[0].stride[0] = 0;
	expect(&args, OPENREG_FAULT_SHAPE, 0);
	/* INDEX along a folded dimension, and along a kept one */
	args.op[0].stride[0] = 1;
	args.instr[3] = (struct openreg_instr){ OPENREG_V_INDEX, I64, 3, 0, 0, 0, 1 };
	args.instr[4].type = I64;
	expect(&args, OPENREG_FAULT_SHAPE, 1);
	args.instr[3].aux = 0;
	expect(&args, 0, 0);
}

static void test_header(void **state)
{
	struct openreg_args args;

	(void)state;
	begin(&args);
	args.arg[0] = 1; /* folds, but has no reduction */
	expect(&args, OPENREG_FAULT_PACKET, 1);
	begin(&args);
	args.arg[0] = 4; /* a dimension that does not exist */
	args_instr(&args, OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, 2);
	expect(&args, OPENREG_FAULT_PACKET, 4);
	begin(&args);
	args.arg[2] = 1;
	expect(&args, OPENREG_FAULT_PACKET, 0);
	begin(&args);
	args.opcode = OPENREG_OP_COPY;
	expect(&args, OPENREG_FAULT_PACKET, OPENREG_OP_COPY);
}

static void test_dtypes(void **state)
{
	struct openreg_args args;

	(void)state;
	begin(&args);
	args.op[1].dtype = 0;
	expect(&args, OPENREG_FAULT_DTYPE, 0);
	args.op[1].dtype = OPENREG_DTYPE_END;
	expect(&args, OPENREG_FAULT_DTYPE, OPENREG_DTYPE_END);
	/* Positions are I64. */
	begin(&args);
	args.arg[0] = 2;
	args.op[2].dtype = OPENREG_I32;
	args_instr(&args, OPENREG_V_RED_MAX, F32, 0, 0, 2, NONE, NONE);
	expect(&args, OPENREG_FAULT_DTYPE, OPENREG_I32);
}

static void test_shapes(void **state)
{
	struct openreg_args args;

	(void)state;
	/* Three points write one element. */
	begin(&args);
	args.op[0].stride[1] = 0;
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	expect(&args, OPENREG_FAULT_SHAPE, 1);
	args.size[1] = 1;
	expect(&args, 0, 0);
	/* A stride of the result along a folded dimension; then none along a kept one. */
	begin(&args);
	args.arg[0] = 2;
	args_instr(&args, OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, 2);
	args.op[2].stride[1] = 1;
	expect(&args, OPENREG_FAULT_SHAPE, 1);
	args.op[2].stride[1] = 0;
	args.op[2].stride[0] = 0;
	expect(&args, OPENREG_FAULT_SHAPE, 0);
}

/* Two instructions must not write one result. */
static void test_store_and_result(void **state)
{
	struct openreg_args args;

	(void)state;
	begin(&args);
	args.size[1] = 1;
	args.arg[0] = 2;
	args.op[0].stride[1] = 0;
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, 0);
	expect(&args, OPENREG_FAULT_PROGRAM, 2);
	args.instr[2].aux = 2;
	expect(&args, 0, 0);
}

static void test_fold_nothing(void **state)
{
	struct openreg_args args;

	(void)state;
	begin(&args);
	args.arg[0] = 2;
	args.size[1] = 0;
	args_instr(&args, OPENREG_V_RED_MAX, F32, 0, 0, NONE, NONE, 2);
	expect(&args, OPENREG_FAULT_SHAPE, 1);
	args.instr[1].op = OPENREG_V_RED_SUM;
	expect(&args, 0, 0);
	/* No point, but too many results. */
	args.size[0] = 1LL << 40;
	expect(&args, OPENREG_FAULT_LIMIT, 1ULL << 40);
	args.ndim = 3;
	args.arg[0] = 4;
	args.size[0] = args.size[1] = 1LL << 40;
	args.size[2] = 0;
	args.op[2].stride[0] = args.op[2].stride[1] = 1;
	expect(&args, OPENREG_FAULT_LIMIT, UINT64_MAX);
}

/* Random packets: no verdict may depend on memory beyond the packet. */
static void test_random_packets(void **state)
{
	uint32_t good = 0, i, j;

	(void)state;
	random_seed(3);
	for (i = 0; i < 300000; i++) {
		struct openreg_args args;

		begin(&args);
		args.arg[0] = (uint8_t)random_range(0, 3);
		args.ninstr = (uint8_t)random_range(1, 4);
		for (j = 1; j < args.ninstr; j++) {
			struct openreg_instr *in = &args.instr[j];

			in->op = (uint8_t)random_range(0, OPENREG_V_END);
			in->type = (uint8_t)random_range(0, 4);
			in->dst = (uint8_t)random_range(0, 17);
			in->a = (uint8_t)random_range(0, 2);
			in->b = (uint8_t)random_range(0, 3);
			in->c = (uint8_t)random_range(0, 3);
			in->aux = (uint16_t)random_range(0, 4);
		}
		good += args_check(&args) == 0;
	}
	assert_true(good > 100);
}

/* The plan must not depend on the earlier contents of its memory. */
static void test_plan_memory(void **state)
{
	static const int64_t size[2] = { 100, 300 };
	static const int64_t down[2] = { 1, 100 }, across[2] = { 300, 1 };
	struct openreg_plan *plan[2];
	struct openreg_args args;
	static float x[30000], y[30000];
	int i;

	(void)state;
	args_begin(&args, OPENREG_OP_VECTOR, 2, size);
	args_operand(&args, OPENREG_F32, x, down);
	args_operand(&args, OPENREG_F32, y, across);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	for (i = 0; i < 2; i++) {
		plan[i] = calloc(1, sizeof(*plan[i]));
		assert_non_null(plan[i]);
		/* left over from a reduction */
		plan[i]->access[i].result = true;
		plan[i]->red.nfolds = (unsigned int)i;
		assert_true(openreg_plan_make(plan[i], &args));
	}
	assert_int_equal(plan[0]->ndim, plan[1]->ndim);
	for (i = 0; i < (int)plan[0]->ndim; i++) {
		assert_int_equal(plan[0]->size[i], plan[1]->size[i]);
		assert_int_equal(plan[0]->access[0].stride[i],
				 plan[1]->access[0].stride[i]);
	}
	free(plan[0]);
	free(plan[1]);
}

/* The table has the order of the ISA; tests/docs/check-packets.py says what it lacks. */
static void test_table(void **state)
{
	static const struct {
		unsigned int op;
		const char *name;
	} ops[] = {
#define V(op, name, types, form, semantics) { OPENREG_V_##op, name },
		OPENREG_VECTOR_OPS(V)
#undef V
	};
	unsigned int i;

	(void)state;
	for (i = 1; i < sizeof(ops) / sizeof(*ops); i++)
		if (ops[i].op <= ops[i - 1].op)
			fail_msg("vector_ops.h has %s (%u) behind %s (%u)", ops[i].name,
				 ops[i].op, ops[i - 1].name, ops[i - 1].op);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_instructions),
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_unused_operand),
		cmocka_unit_test(test_one_result),
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_stage_limits),
		cmocka_unit_test(test_store_of_rows),
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_dtypes),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_store_and_result),
		cmocka_unit_test(test_fold_nothing),
		cmocka_unit_test(test_random_packets),
		cmocka_unit_test(test_plan_memory),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
