// SPDX-License-Identifier: MIT
/*
 * Strides along a dimension of one element, and strides of an operand without elements,
 * can have any value, because no access uses them. So can the other sizes of an empty
 * space. No computation with them may overflow; UBSan checks that.
 */
#include <stdlib.h>

#include "engine-harness.h"

#define F32 OPENREG_VT_F32
#define NONE OPENREG_VNONE

static double memory[2][4096];

static const int64_t extremes[] = {
	INT64_MIN, INT64_MAX, INT64_MIN + 1, 1LL << 62, -(1LL << 62),
	1LL << 61, -(1LL << 60), 3,
};
#define EXTREMES (sizeof(extremes) / sizeof(*extremes))

static bool is_empty(const struct openreg_args *args,
		     const struct openreg_arg *op)
{
	unsigned int d;

	for (d = 0; d < args->ndim; d++)
		if (op->dims >> d & 1 &&
		    !(op->sized ? op->size[d] : args->size[d]))
			return true;
	return false;
}

/* Is the stride unused? Call it after the engine's check, which sets dims. */
static bool is_unused_stride(const struct openreg_args *args, unsigned int i,
			     unsigned int d)
{
	const struct openreg_arg *op = &args->op[i];

	if (!(op->dims >> d & 1))
		return false;
	return is_empty(args, op) ||
	       (op->sized ? op->size[d] : args->size[d]) == 1;
}

static void run(struct openreg_args *args, bool reverse)
{
	memset(memory, 0, sizeof(memory));
	assert_int_equal(args_try(args, reverse).code, OPENREG_FAULT_NONE);
}

/* Sets each unused stride to extremes by itself, then all of them. */
static void expect_ends(struct openreg_args *args)
{
	struct openreg_args all;
	unsigned int i, d, e;

	assert_int_equal(args_check(args), OPENREG_FAULT_NONE);
	run(args, false);
	for (e = 0; e < EXTREMES; e++) {
		all = *args;
		for (i = 0; i < args->nops; i++) {
			for (d = 0; d < args->ndim; d++) {
				struct openreg_args one = *args;

				if (!is_unused_stride(args, i, d))
					continue;
				one.op[i].stride[d] = extremes[e];
				all.op[i].stride[d] = extremes[e];
				run(&one, e & 1);
			}
		}
		run(&all, e & 1);
	}
}

static void add(struct openreg_args *args, unsigned int dtype, bool written,
		const int64_t *stride)
{
	args_operand(args, dtype, memory[!written], stride);
}

static void test_vector(void **state)
{
	static const int64_t sizes[][3] = { { 1, 5, 1 }, { 1, 1, 1 },
					    { 0, 5, 3 }, { 4, 1, 3 } };
	static const int64_t none[3];
	struct openreg_args args;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		args_begin(&args, OPENREG_OP_VECTOR, 3, sizes[i]);
		add(&args, OPENREG_F32, true, NULL);
		add(&args, OPENREG_F32, false, NULL);
		add(&args, OPENREG_I16, false, none);
		args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
		args_instr(&args, OPENREG_V_LOAD, F32, 1, 0, 0, 0, 2);
		args_instr(&args, OPENREG_V_ADD, F32, 0, 0, 1, 0, 0);
		args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
		expect_ends(&args);
	}
}

/* With nothing to fold the card stores results, and loads nothing. */
static void test_reduce(void **state)
{
	static const int64_t sizes[][3] = { { 4, 0, 3 }, { 1, 7, 1 },
					    { 4, 1, 3 }, { 2, 0, 200 } };
	struct openreg_args args;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const int64_t kept[3] = { sizes[i][2], 0, 1 };

		args_begin(&args, OPENREG_OP_VECTOR, 3, sizes[i]);
		args.arg[0] = 2;
		add(&args, OPENREG_F32, true, kept);
		add(&args, OPENREG_F32, false, NULL);
		args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
		args_instr(&args, OPENREG_V_RED_SUM, F32, 0, 0, NONE, NONE, 0);
		expect_ends(&args);
	}
}

static void test_matmul(void **state)
{
	static const int64_t sizes[][4] = {
		{ 2, 2, 2, 0 }, { 2, 3, 1, 0 }, { 1, 1, 1, 1 }, { 3, 1, 1, 5 },
		{ 1, 4, 1, 3 }, { 1, 1, 6, 3 }, { 0, 4, 4, 4 }, { 2, 2, 2, 1 },
	};
	static const unsigned int dtypes[] = { OPENREG_F32, OPENREG_F64,
					       OPENREG_F16, OPENREG_I8 };
	struct openreg_args args;
	unsigned int i, t;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (t = 0; t < 4; t++) {
			const int64_t *n = sizes[i];
			const int64_t d[4] = { n[1] * n[2], n[2], 1, 0 };
			const int64_t a[4] = { n[1] * n[3], n[3], 0, 1 };
			const int64_t b[4] = { 0, 0, 1, n[2] };

			args_begin(&args, OPENREG_OP_MATMUL, 4, n);
			add(&args, dtypes[t], true, d);
			add(&args, dtypes[t], false, a);
			add(&args, dtypes[t], false, b);
			args_imm_f(&args, 1);
			args_imm_f(&args, 0);
			expect_ends(&args);
		}
	}
}

static void test_matmul_scaled(void **state)
{
	static const int64_t sizes[][4] = { { 2, 2, 2, 0 }, { 1, 1, 1, 2 }, { 0, 4, 4, 4 },
					    { 1, 3, 2, 8 } };
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const int64_t *n = sizes[i];
		const int64_t d[4] = { n[1] * n[2], n[2], 1, 0 };
		const int64_t a[4] = { n[1] * n[3], n[3], 0, 1 };
		const int64_t q[4] = { 0, 0, n[3] / 2, 1 };
		struct openreg_args args;

		args_begin(&args, OPENREG_OP_MATMUL, 4, n);
		args.arg[0] = OPENREG_MATMUL_SCALED_I4;
		add(&args, OPENREG_BF16, true, d);
		add(&args, OPENREG_BF16, false, a);
		add(&args, OPENREG_U8, false, q);
		add(&args, OPENREG_F32, false, q);
		add(&args, OPENREG_F16, false, q);
		args_imm_f(&args, 1);
		args_imm_f(&args, 0);
		args_imm_i(&args, 2);
		expect_ends(&args);
	}
}

static void test_matmul_scaled_f8(void **state)
{
	static const int64_t sizes[][4] = { { 2, 2, 2, 0 }, { 1, 1, 1, 2 }, { 0, 4, 4, 4 },
					    { 1, 3, 2, 8 } };
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const int64_t *n = sizes[i];
		const int64_t d[4] = { n[1] * n[2], n[2], 1, 0 };
		const int64_t a[4] = { n[1] * n[3], n[3], 0, 1 };
		const int64_t b[4] = { 0, 0, n[3], 1 };
		const int64_t by_row[4] = { 0, n[3] / 2, 0, 1 };
		const int64_t by_column[4] = { 0, 0, n[3] / 2, 1 };
		struct openreg_args args;

		args_begin(&args, OPENREG_OP_MATMUL, 4, n);
		args.arg[0] = OPENREG_MATMUL_SCALED_F8;
		add(&args, OPENREG_BF16, true, d);
		add(&args, OPENREG_F8E4M3FN, false, a);
		add(&args, OPENREG_F8E5M2, false, b);
		add(&args, OPENREG_F8E8M0FNU, false, by_row);
		add(&args, OPENREG_F32, false, by_column);
		args_imm_f(&args, 1);
		args_imm_f(&args, 0);
		args_imm_i(&args, 2);
		expect_ends(&args);
	}
}

/* Strides of an empty operand; results still must not overlap. */
static const int64_t apart[3] = { 3, 2, 1 };

static void test_softmax(void **state)
{
	static const int64_t sizes[][3] = { { 3, 1, 5 }, { 3, 0, 5 },
					    { 1, 9, 1 }, { 1, 300, 20 },
					    { 1, 1, 1 }, { 40, 1, 1 } };
	struct openreg_args args;
	unsigned int i, flags, axis;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (flags = 0; flags < 4; flags++) {
			for (axis = 0; axis < 3; axis++) {
				args_begin(&args, OPENREG_OP_SOFTMAX, 3,
					   sizes[i]);
				args.arg[0] = (uint8_t)axis;
				args.arg[1] = (uint8_t)flags;
				add(&args, OPENREG_F16, true,
				    sizes[i][1] ? NULL : apart);
				add(&args, OPENREG_F32, false, NULL);
				if (flags & OPENREG_SOFTMAX_BACKWARD)
					add(&args, OPENREG_F32, false, NULL);
				expect_ends(&args);
			}
		}
	}
}

static void test_scan(void **state)
{
	static const int64_t sizes[][3] = { { 3, 1, 5 }, { 3, 0, 5 },
					    { 1, 9, 1 }, { 1, 300, 20 },
					    { 300, 1, 2 }, { 2, 20, 1 } };
	struct openreg_args args;
	unsigned int i, mode, axis;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (mode = 0; mode < OPENREG_SCAN_END; mode++) {
			for (axis = 0; axis < 3; axis++) {
				args_begin(&args, OPENREG_OP_SCAN, 3, sizes[i]);
				args.arg[0] = (uint8_t)axis;
				args.arg[1] = (uint8_t)mode;
				add(&args, OPENREG_F16, true,
				    sizes[i][1] ? NULL : apart);
				add(&args, OPENREG_F32, false, NULL);
				expect_ends(&args);
			}
		}
	}
}

static void test_places(void **state)
{
	static const int64_t sizes[][3] = { { 3, 1, 5 }, { 3, 0, 5 },
					    { 1, 9, 1 }, { 1, 1, 1 } };
	struct openreg_args args;
	unsigned int i, k;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		args_begin(&args, OPENREG_OP_PLACES, 3, sizes[i]);
		for (k = 0; k < 3; k++)
			add(&args, OPENREG_I64, true, apart);
		add(&args, OPENREG_F32, false, NULL);
		args_imm_i(&args, sizes[i][1]);
		expect_ends(&args);
	}
}

static void test_pack(void **state)
{
	static const int64_t sizes[][2] = { { 1, 5 }, { 4, 1 }, { 1, 1 },
					    { 0, 5 }, { 1LL << 40, 0 } };
	static const int64_t run_of[2] = { 0, 1 };
	struct openreg_args args;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		args_begin(&args, OPENREG_OP_PACK, 2, sizes[i]);
		add(&args, OPENREG_F32, true, run_of);
		add(&args, OPENREG_F32, false, NULL);
		expect_ends(&args);
	}
}

static void test_index(void **state)
{
	static const int64_t sizes[][3] = { { 1, 5, 1 },
					    { 1LL << 40, 1LL << 40, 0 },
					    { 1, 1, 1 },
					    { 1, 1, 20 } };
	static const int64_t none[3];
	struct openreg_args args;
	unsigned int i, mode;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (mode = 0; mode < OPENREG_INDEX_END; mode++) {
			bool empty = !sizes[i][2];
			bool get = mode == OPENREG_INDEX_GET;

			args_begin(&args, OPENREG_OP_INDEX, 3, sizes[i]);
			args.arg[0] = (uint8_t)mode;
			add(&args, OPENREG_I32, true,
			    !empty ? NULL
			    : get  ? apart
				   : none);
			add(&args, OPENREG_I32, false, empty ? none : NULL);
			add(&args, OPENREG_I64, false, none);
			args_imm_i(&args, 1);
			args_imm_i(&args, INT64_MIN);
			expect_ends(&args);
		}
	}
}

static void test_sort(void **state)
{
	static const int64_t sizes[][3] = { { 1LL << 40, 0, 1LL << 40 },
					    { 3, 1, 5 },
					    { 1, 70, 1 },
					    { 0, 7, 1LL << 60 } };
	struct openreg_args args;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		bool empty = !sizes[i][0] || !sizes[i][1];

		args_begin(&args, OPENREG_OP_SORT, 3, sizes[i]);
		args.arg[0] = 1;
		add(&args, OPENREG_F32, true, empty ? apart : NULL);
		add(&args, OPENREG_F32, false, empty ? apart : NULL);
		args_imm_i(&args, 0);
		args_imm_i(&args, sizes[i][1]);
		expect_ends(&args);
	}
}

/* kernel, input, stride, padding, dilation; three of each */
static void windows(struct openreg_args *args, int64_t kernel, int64_t input)
{
	const int64_t imm[5] = { kernel, input, 2, 0, 1 };
	unsigned int i;

	for (i = 0; i < 15; i++)
		args_imm_i(args, i % 3 < 2 ? i / 3 == 3 ? 0 : 1 : imm[i / 3]);
}

static void test_conv(void **state)
{
	static const int64_t sizes[][7] = {
		{ 1, 1, 1, 1, 1, 1, 3 }, { 1, 1, 4, 3, 1, 1, 1 },
		{ 0, 1, 4, 3, 1, 1, 3 }, { 2, 1, 3, 0, 1, 1, 3 },
		{ 2, 1, 0, 3, 1, 1, 3 },
	};
	static const uint8_t dims[3][3] = { { 0x77, 0x7b, 0x7e },
					    { 0x7b, 0x77, 0x7e },
					    { 0x7e, 0x77, 0x7b } };
	struct openreg_args args;
	unsigned int i, kind, k, d;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (kind = 0; kind < 3; kind++) {
			args_begin(&args, OPENREG_OP_CONV, 7, sizes[i]);
			args.arg[0] = (uint8_t)kind;
			for (k = 0; k < 3; k++) {
				int64_t stride[7], step = 1;

				for (d = 7; d-- > 0; step *= 5)
					stride[d] = dims[kind][k] >> d & 1
							    ? step % 4001
							    : 0;
				stride[0] = stride[0] ? 1000 : 0;
				stride[1] = stride[1] ? 7 : 0;
				add(&args, OPENREG_F32, k == 0, stride);
			}
			windows(&args, 2, 6);
			expect_ends(&args);
		}
	}
}

static void test_pool(void **state)
{
	static const int64_t sizes[][5] = { { 1, 1, 1, 1, 3 },
					    { 0, 4, 1, 1, 3 },
					    { 2, 3, 1, 1, 1 } };
	static const int64_t dense[5] = { 100, 20, 7, 7, 1 };
	struct openreg_args args;
	unsigned int i, kind, flags;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (kind = 0; kind < 2; kind++) {
			for (flags = 0; flags < 2; flags++) {
				args_begin(&args, OPENREG_OP_POOL, 5, sizes[i]);
				args.arg[0] = (uint8_t)kind;
				args.arg[1] = (uint8_t)flags;
				add(&args, OPENREG_F32, true, dense);
				add(&args, OPENREG_F32, false, dense);
				if (kind == OPENREG_POOL_MAX && flags)
					add(&args, OPENREG_I64, false, dense);
				windows(&args, 2, 6);
				args_imm_i(&args, 0);
				expect_ends(&args);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vector),	cmocka_unit_test(test_reduce),
		cmocka_unit_test(test_matmul),	cmocka_unit_test(test_matmul_scaled),
		cmocka_unit_test(test_matmul_scaled_f8),
		cmocka_unit_test(test_softmax),
		cmocka_unit_test(test_index),	cmocka_unit_test(test_sort),
		cmocka_unit_test(test_conv),	cmocka_unit_test(test_pool),
		cmocka_unit_test(test_scan),	cmocka_unit_test(test_places),
		cmocka_unit_test(test_pack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
