// SPDX-License-Identifier: MIT
/*
 * Compares every VECTOR operation with its definition, for each of its types and with
 * special values.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "engine-harness.h"
#include "job/work.h"
#include "vector-reference.h"
#include "vector/vector_ops.h"

static const char *const op_names[OPENREG_V_END] = {
#define V(op, name, types, form, semantics) [OPENREG_V_##op] = name,
	OPENREG_VECTOR_OPS(V)
#undef V
};

static const uint8_t op_forms[OPENREG_V_END] = {
#define V(op, name, types, form, semantics)                                    \
	[OPENREG_V_##op] = OPENREG_VFORM_##form,
	OPENREG_VECTOR_OPS(V)
#undef V
};

static const uint8_t op_types[OPENREG_V_END] = {
#define V(op, name, types, form, semantics)                                    \
	[OPENREG_V_##op] = OPENREG_VTYPES_##types,
	OPENREG_VECTOR_OPS(V)
#undef V
};

static const unsigned int dtype_of[] = { OPENREG_F32, OPENREG_F64, OPENREG_I32,
					 OPENREG_I64 };

static const double floats[] = {
	0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 7, -7, 0.1, -0.3,
	1e-3, 100.25, -20.5, 0.99999, 1.00001, 1e-20, -1e-20, 1e20, -1e20,
	88.5, -87.5, 89.2, -89.2, 104, -104, 710, 710.3, -710.3, -745.1, 4e36,
	1e-40, -1e-40, 1e200, -1e200, 2.556e305, FLT_MAX, -FLT_MAX,
	FLT_MIN, 5e-324, DBL_MAX, -DBL_MAX, INFINITY, -INFINITY, NAN,
};
#define FLOATS ((int64_t)(sizeof(floats) / sizeof(*floats)))

static const int64_t ints[] = {
	0, 1, -1, 2, -2, 3, 5, -7, 7, 10, 31, 32, 33, 63, 64, -32, 100, -100,
	46341, 65536, INT32_MAX, INT32_MIN, INT32_MIN + 1LL, 1LL << 31,
	INT64_MAX, INT64_MIN, INT64_MIN + 1, 0x123456789abcdefLL,
};
#define INTS ((int64_t)(sizeof(ints) / sizeof(*ints)))

/* One element of a register. */
union value {
	float f32;
	double f64;
	int32_t i32;
	int64_t i64;
};

static double as_double(unsigned int type, const union value *v)
{
	return type == OPENREG_VT_F32 ? (double)v->f32 : v->f64;
}

static int64_t as_int(unsigned int type, const union value *v)
{
	return type == OPENREG_VT_I32 ? v->i32 : v->i64;
}

static bool is_float(unsigned int type)
{
	return type <= OPENREG_VT_F64;
}

static bool is_test(unsigned int op)
{
	return op_forms[op] == OPENREG_VFORM_TEST1 ||
	       op_forms[op] == OPENREG_VFORM_TEST2;
}

static void check_one(unsigned int op, unsigned int type,
		      const union value *have, const union value in[3])
{
	double x, y, z;
	long double want;

	if (!is_float(type)) {
		int64_t a = as_int(type, &in[0]), b = as_int(type, &in[1]);
		uint64_t w = reference_int(op, type, a, b, as_int(type, &in[2]));

		if (is_test(op) || type == OPENREG_VT_I32)
			w = (uint64_t)(int32_t)w;
		if ((uint64_t)(is_test(op) ? have->i32
					   : as_int(type, have)) != w)
			fail_msg("%s(%ld, %ld) is not %ld", op_names[op],
				 (long)a, (long)b, (long)w);
		return;
	}
	x = as_double(type, &in[0]);
	y = as_double(type, &in[1]);
	z = as_double(type, &in[2]);
	if (is_test(op)) {
		if (have->i32 != reference_test(op, x, y))
			fail_msg("%s(%a, %a) is %d", op_names[op], x, y,
				 have->i32);
		return;
	}
	if (op == OPENREG_V_DIV_FLOOR) {
		want = reference_floor_div(x, y);
		/* Beyond this, long double cannot hold the floor of the quotient. */
		if (isfinite(want) && fabsl(want) > 1e6)
			return;
		want = type == OPENREG_VT_F32 ? (float)want : (double)want;
	} else {
		want = reference_float(op, type, x, y, z);
	}
	if (!reference_close(op, type, x, as_double(type, have), want))
		fail_msg("type %u %s(%a, %a, %a) is %a, not %La", type,
			 op_names[op], x, y, z, as_double(type, have), want);
}

static size_t width_of(unsigned int type)
{
	return type == OPENREG_VT_F32 || type == OPENREG_VT_I32 ? 4 : 8;
}

static union value nth(unsigned int type, int64_t i)
{
	union value v = { .i64 = 0 };

	switch (type) {
	case OPENREG_VT_F32:
		v.f32 = (float)floats[i % FLOATS];
		break;
	case OPENREG_VT_F64:
		v.f64 = floats[i % FLOATS];
		break;
	case OPENREG_VT_I32:
		v.i32 = (int32_t)(uint32_t)ints[i % INTS];
		break;
	default:
		v.i64 = ints[i % INTS];
	}
	return v;
}

/*
 * Moderate random values, because most bits of a function matter there. One of four
 * floats has any size.
 */
static union value random_value(unsigned int type)
{
	static const double ranges[] = { 1, 4, 30, 1000 };
	double x = (2 * random_unit() - 1) * ranges[random_range(0, 3)];
	union value v = { .i64 = 0 };

	if (is_float(type) && !random_range(0, 3))
		memcpy(&v, &(uint64_t){ random_u64() }, width_of(type));
	else if (type == OPENREG_VT_F32)
		v.f32 = (float)x;
	else if (type == OPENREG_VT_F64)
		v.f64 = x;
	else if (type == OPENREG_VT_I32)
		v.i32 = (int32_t)(uint32_t)(random_u64() >> random_range(0, 63));
	else
		v.i64 = (int64_t)(random_u64() >> random_range(0, 63));
	return v;
}

static void run_op(unsigned int op, unsigned int type, int64_t n, void *out,
		   void *const in[3])
{
	unsigned int form = op_forms[op], first = type, result = type;
	struct openreg_args args;
	unsigned int i;

	if (form == OPENREG_VFORM_SELECT)
		first = OPENREG_VT_I32;
	if (is_test(op))
		result = OPENREG_VT_I32;
	args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
	args_operand(&args, dtype_of[result], out, NULL);
	for (i = 0; i < 3; i++) {
		unsigned int t = i ? type : first;

		args_operand(&args, dtype_of[t], in[i], NULL);
		args_instr(&args, OPENREG_V_LOAD, t, i, 0, 0, 0, i + 1);
	}
	/* The result must be the same in place. */
	args_instr(&args, op, type, 0, 0, 1, 2, 0);
	args_instr(&args, OPENREG_V_STORE, result, 0, 0, 0, 0, 0);
	args_run(&args);
}

#define ROUNDS 5000

static void one_op(unsigned int op, unsigned int type)
{
	int64_t specials = is_float(type) ? FLOATS : INTS;
	int64_t n = specials * specials + ROUNDS, i;
	size_t width = width_of(type);
	size_t first = op_forms[op] == OPENREG_VFORM_SELECT ? 4 : width;
	size_t result = is_test(op) ? 4 : width;
	unsigned char *in[3], *out = calloc((size_t)n, 8);
	int j;

	for (j = 0; j < 3; j++)
		in[j] = calloc((size_t)n, 8);
	for (i = 0; i < n; i++) {
		union value v[3];
		bool special = i < specials * specials;

		v[0] = special ? nth(type, i / specials) : random_value(type);
		v[1] = special ? nth(type, i % specials) : random_value(type);
		v[2] = special ? nth(type, i % 7) : random_value(type);
		if (op_forms[op] == OPENREG_VFORM_SELECT)
			v[0].i64 = i % 3;
		memcpy(in[0] + (size_t)i * first, &v[0], first);
		memcpy(in[1] + (size_t)i * width, &v[1], width);
		memcpy(in[2] + (size_t)i * width, &v[2], width);
	}
	run_op(op, type, n, out, (void *const *)in);
	for (i = 0; i < n; i++) {
		union value v[3] = { 0 }, have = { .i64 = 0 };

		memcpy(&v[0], in[0] + (size_t)i * first, first);
		memcpy(&v[1], in[1] + (size_t)i * width, width);
		memcpy(&v[2], in[2] + (size_t)i * width, width);
		memcpy(&have, out + (size_t)i * result, result);
		if (op_forms[op] == OPENREG_VFORM_SELECT) {
			const union value *want = v[0].i32 ? &v[1] : &v[2];

			assert_memory_equal(&have, want, width);
			continue;
		}
		check_one(op, type, &have, v);
	}
	for (j = 0; j < 3; j++)
		free(in[j]);
	free(out);
}

/* False for the operations that other files test. */
static bool is_tried(unsigned int op)
{
	switch (op_forms[op]) {
	case OPENREG_VFORM_NONE:
	case OPENREG_VFORM_CVT: /* test-engine-cast has these */
	case OPENREG_VFORM_ROUND:
	case OPENREG_VFORM_INDEX: /* test-engine-vector has it */
	case OPENREG_VFORM_RANDOM: /* test-engine-random has it */
		return false;
	default:
		return true;
	}
}

static void test_all(void **state)
{
	unsigned int op, type;
	bool tried;

	(void)state;
	for (op = OPENREG_V_MOV; op < OPENREG_V_RED_SUM; op++) {
		if (!is_tried(op))
			continue;
		tried = false;
		for (type = 0; type < OPENREG_VT_END; type++) {
			if (!(op_types[op] >> type & 1))
				continue;
			random_seed(op);
			one_op(op, type);
			tried = true;
		}
		if (!tried)
			fail_msg("vector_ops.h gives %s no type", op_names[op]);
	}
}

#define POINTS 65536
#define TIMES 50 /* so that loads and stores count little */
#define SLICE_LIMIT 8 /* times OPENREG_SLICE_NS */

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Runs all slices of the packet. Returns the average time of one. */
static double slice_ns(struct openreg_args *args)
{
	atomic_size_t extra = 0;
	struct openreg_scratch *scratch = openreg_scratch_new(&extra);
	struct openreg_job *job;
	uint32_t slices, i;
	double ns;
	bool later;

	assert_non_null(scratch);
	assert_int_equal(args_check(args), OPENREG_FAULT_NONE);
	job = openreg_job_new(args, scratch, &later);
	assert_non_null(job);
	slices = openreg_job_slices(job, 0);
	ns = cpu_ns();
	for (i = 0; i < slices; i++)
		assert_true(openreg_job_run(job, 0, i, scratch));
	ns = cpu_ns() - ns;
	openreg_job_free(job);
	openreg_scratch_free(scratch);
	return ns / slices;
}

static double slice_ns_of(unsigned int op, unsigned int type)
{
	static uint64_t in[3][POINTS], out[POINTS];
	unsigned int result = is_test(op) ? OPENREG_VT_I32 : type, t, i, j;
	const int64_t n = POINTS;
	struct openreg_args args;

	args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
	args_operand(&args, dtype_of[result], out, NULL);
	for (i = 0; i < 3; i++) {
		t = !i && op == OPENREG_V_SELECT ? OPENREG_VT_I32 : type;
		for (j = 0; j < POINTS; j++) {
			union value v = random_value(t);

			if (!is_float(t))
				v.i64 = (int64_t)random_u64();
			memcpy((char *)in[i] + j * width_of(t), &v, width_of(t));
		}
		args_operand(&args, dtype_of[t], in[i], NULL);
		args_instr(&args, OPENREG_V_LOAD, t, i, 0, 0, 0, i + 1);
	}
	for (i = 0; i < TIMES; i++)
		args_instr(&args, op, type, 3, 0, 1, 2, 0);
	args_instr(&args, OPENREG_V_STORE, result, 0, 3, 0, 0, 0);
	return slice_ns(&args);
}

/* Other queues wait for the end of a slice: it must last about as long as planned. */
static void test_slices(void **state)
{
	unsigned int op, type;
	double ns;

	(void)state;
	if (SCALE > 1)
		skip(); /* the estimates hold without sanitizers */
	for (op = OPENREG_V_MOV; op < OPENREG_V_RED_SUM; op++) {
		for (type = 0; is_tried(op) && type < OPENREG_VT_END; type++) {
			if (!(op_types[op] >> type & 1))
				continue;
			random_seed(op);
			ns = slice_ns_of(op, type);
			if (ns > SLICE_LIMIT * OPENREG_SLICE_NS)
				fail_msg("%s of type %u: slices of %.1f ms, not %.1f: "
					 "kernel_ns() in vector_estimate.c is too low",
					 op_names[op], type, ns * 1e-6,
					 OPENREG_SLICE_NS * 1e-6);
		}
	}
}

/* IMM for each type. */
static void test_imm(void **state)
{
	float f;
	double d;
	int32_t i;
	int64_t l, one = 1;
	void *const out[] = { &f, &d, &i, &l };
	struct openreg_args args;
	unsigned int type;

	(void)state;
	for (type = 0; type < OPENREG_VT_END; type++) {
		args_begin(&args, OPENREG_OP_VECTOR, 1, &one);
		args_operand(&args, dtype_of[type], out[type], NULL);
		args_imm_f(&args, 0.1);
		args_imm_i(&args, (7LL << 32) - 3);
		args_instr(&args, OPENREG_V_IMM, type, 5, 0, 0, 0,
			   !is_float(type));
		args_instr(&args, OPENREG_V_STORE, type, 0, 5, 0, 0, 0);
		args_run(&args);
	}
	assert_true(f == 0.1f);
	assert_true(d == 0.1);
	assert_int_equal(i, -3);
	assert_true(l == (7LL << 32) - 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_imm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
