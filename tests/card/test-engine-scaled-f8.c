// SPDX-License-Identifier: MIT
/* Compares MATMUL of float8 with scales of both matrices with loops over single elements. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"
#include "kernels/kernels.h"
#include "matmul/matmul.h"

enum { D, A, B, SCALE_A, SCALE_B, OPERANDS };

struct operand {
	unsigned int dtype;
	struct layout layout;
	unsigned char *memory;
};

struct product {
	int64_t size[4], group;
	double alpha;
	struct operand op[OPERANDS];
};

static const uint32_t dims[] = { 0x7, 0xb, 0xd, 0xb, 0xd };

static void *element_0(const struct operand *op)
{
	return op->memory + op->layout.origin * openreg_dtype_size(op->dtype);
}

static unsigned int any(const uint8_t *dtypes, int64_t n)
{
	return dtypes[random_range(0, n - 1)];
}

/* dense: k is the innermost dimension. */
static void make(struct product *p, unsigned int i, unsigned int dtype, bool dense)
{
	struct operand *op = &p->op[i];
	int64_t size[4], step = 1;
	unsigned int d;

	op->dtype = dtype;
	for (d = 0; d < 4; d++)
		size[d] = dims[i] >> d & 1 ? p->size[d] : 1;
	if (i >= SCALE_A)
		size[3] = p->size[3] / p->group;
	if (dense) {
		op->layout = (struct layout){ .origin = 0 };
		for (d = 4; d-- > 0;) {
			op->layout.stride[d] = size[d] > 1 || d == 3 ? step : 0;
			step *= size[d];
		}
		op->layout.extent = step;
	} else {
		random_layout(&op->layout, 4, size, i != D);
	}
	for (d = 0; d < 4; d++)
		if (!(dims[i] >> d & 1))
			op->layout.stride[d] = 0;
	op->memory = calloc((size_t)op->layout.extent + 1, openreg_dtype_size(dtype));
	assert_non_null(op->memory);
}

/* Elements are finite; scales lie between 2^-6 and 2^6. */
static void fill(struct operand *op, bool is_scale)
{
	int64_t i;

	for (i = 0; i < op->layout.extent; i++) {
		float f = (float)(random_unit() * 2 - 1) * 16;

		if (is_scale)
			f = ldexpf(op->dtype == OPENREG_F32 ? f / 16 : 1,
				   (int)random_range(-6, 6));
		openreg_kernels()->store[op->dtype][OPENREG_VT_F32](
			op->memory + i * openreg_dtype_size(op->dtype), 1, &f, 1);
	}
}

static void make_args(struct openreg_args *args, const struct product *p)
{
	unsigned int i;

	args_begin(args, OPENREG_OP_MATMUL, 4, p->size);
	args->arg[0] = OPENREG_MATMUL_SCALED_F8;
	for (i = 0; i < OPERANDS; i++)
		args_operand(args, p->op[i].dtype, element_0(&p->op[i]),
			     p->op[i].layout.stride);
	args_imm_f(args, p->alpha);
	args_imm_f(args, 0);
	args_imm_i(args, p->group);
}

static double value(const struct product *p, unsigned int i, const int64_t *point, int64_t k)
{
	const int64_t *stride = p->op[i].layout.stride;
	int64_t at = point[0] * stride[0] + point[1] * stride[1] + point[2] * stride[2] +
		     (i < SCALE_A ? k : k / p->group) * stride[3];

	return element_get(p->op[i].dtype, element_0(&p->op[i]), at);
}

static void compare(const struct product *p)
{
	static const double epsilon[] = { [OPENREG_F32] = 0x1p-24, [OPENREG_F16] = 0x1p-11,
					  [OPENREG_BF16] = 0x1p-8 };
	int64_t point[4] = { 0 }, size[4] = { p->size[0], p->size[1], p->size[2], 1 }, k;

	do {
		double sum = 0, magnitude = 0, have = value(p, D, point, 0), near;

		for (k = 0; k < p->size[3]; k++) {
			double x = value(p, A, point, k) * value(p, SCALE_A, point, k) *
				   value(p, B, point, k) * value(p, SCALE_B, point, k);

			sum += x;
			magnitude += fabs(x);
		}
		sum *= p->alpha;
		near = fabs(p->alpha) * magnitude * (double)(p->size[3] + 8) * 0x1p-24 +
		       fabs(sum) * epsilon[p->op[D].dtype] + 0x1p-24;
		/* Beyond F16 the result is an infinity. */
		if (p->op[D].dtype == OPENREG_F16 && fabs(sum) > 65000 && isinf(have))
			continue;
		if (!(fabs(have - sum) <= near))
			fail_msg("dtypes %u %u %u, group %ld, %ld %ld of %ld %ld %ld: %g is not %g",
				 p->op[D].dtype, p->op[A].dtype, p->op[B].dtype,
				 (long)p->group, (long)point[1], (long)point[2],
				 (long)p->size[1], (long)p->size[2], (long)p->size[3],
				 have, sum);
	} while (next_point(4, size, point));
}

static void scaled(const int64_t *size, int64_t group, bool dense)
{
	static const uint8_t results[] = { OPENREG_F32, OPENREG_F16, OPENREG_BF16 };
	static const uint8_t factors[] = { OPENREG_F8E4M3FN, OPENREG_F8E5M2,
					   OPENREG_F8E4M3FNUZ, OPENREG_F8E5M2FNUZ };
	static const uint8_t scales[] = { OPENREG_F8E8M0FNU, OPENREG_F8E8M0FNU, OPENREG_F32 };
	struct product p = { .group = group, .alpha = random_range(0, 2) ? 1 : 0.5 };
	struct openreg_args args;
	unsigned int i;

	memcpy(p.size, size, sizeof(p.size));
	make(&p, D, any(results, 3), dense);
	make(&p, A, any(factors, 4), dense);
	make(&p, B, any(factors, 4), dense);
	make(&p, SCALE_A, any(scales, 3), dense);
	make(&p, SCALE_B, any(scales, 3), dense);
	for (i = A; i < OPERANDS; i++)
		fill(&p.op[i], i >= SCALE_A);
	make_args(&args, &p);
	args_run_order(&args, random_range(0, 1));
	compare(&p);
	for (i = 0; i < OPERANDS; i++)
		free(p.op[i].memory);
}

static void test_scaled(void **state)
{
	static const int64_t groups[] = { 1, 3, 16, 32, 33, 128 };
	int64_t size[4];
	unsigned int i;

	(void)state;
	for (i = 0; i < 600 / SCALE; i++) {
		random_seed(i);
		size[0] = i % 5 ? 1 : 3;
		size[1] = random_range(1, i % 3 ? 9 : 40);
		size[2] = random_range(1, 30);
		size[3] = groups[i % 6] * random_range(i % 30 != 0, 4);
		scaled(size, groups[i % 6], i % 4 != 0);
	}
}

/* Several tiles, several parts of k, one row, one column. */
static void test_scaled_large(void **state)
{
	static const struct {
		int64_t size[4], group;
	} cases[] = {
		{ { 1, 1, 700, 1024 }, 32 },  { { 1, 700, 1, 1024 }, 32 },
		{ { 1, 130, 270, 608 }, 32 }, { { 1, 70, 90, 2560 }, 128 },
		{ { 1, 2, 3, 61440 }, 32 },   { { 2, 3, 515, 999 }, 37 },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		random_seed(i);
		scaled(cases[i].size, cases[i].group, i % 2 == 0);
	}
}

/* A scale that is a NaN is in its row or column, and nowhere else. */
static void test_nan_scale(void **state)
{
	enum { M = 6, N = 8, K = 64, GROUPS = 2 };
	static const int64_t size[4] = { 1, M, N, K };
	static uint8_t a[M * K], b[N * K], by_row[M * GROUPS], by_column[N * GROUPS];
	static float d[M * N];
	struct openreg_args args;
	int64_t m, n;

	(void)state;
	memset(a, 0x38, sizeof(a)); /* 1 */
	memset(b, 0x38, sizeof(b));
	memset(by_row, 128, sizeof(by_row)); /* 2 */
	memset(by_column, 127, sizeof(by_column)); /* 1 */
	by_row[2 * GROUPS + 1] = 0xff;
	by_column[5 * GROUPS] = 0xff;
	args_begin(&args, OPENREG_OP_MATMUL, 4, size);
	args.arg[0] = OPENREG_MATMUL_SCALED_F8;
	args_operand(&args, OPENREG_F32, d, (int64_t[]){ 0, N, 1, 0 });
	args_operand(&args, OPENREG_F8E4M3FN, a, (int64_t[]){ 0, K, 0, 1 });
	args_operand(&args, OPENREG_F8E4M3FN, b, (int64_t[]){ 0, 0, K, 1 });
	args_operand(&args, OPENREG_F8E8M0FNU, by_row, (int64_t[]){ 0, GROUPS, 0, 1 });
	args_operand(&args, OPENREG_F8E8M0FNU, by_column, (int64_t[]){ 0, 0, GROUPS, 1 });
	args_imm_f(&args, 1);
	args_imm_f(&args, 0);
	args_imm_i(&args, K / GROUPS);
	args_run(&args);
	for (m = 0; m < M; m++)
		for (n = 0; n < N; n++) {
			float x = d[m * N + n];

			assert_true(m == 2 || n == 5 ? isnan(x) : x == 2 * K);
		}
}

/* The smallest scale makes the smallest elements subnormal, and the largest infinite. */
static void test_extreme_scales(void **state)
{
	static const struct {
		uint8_t a, by_a, b, by_b;
		double want;
	} cases[] = {
		{ 0x01, 0, 0x38, 254, 0x1p-9 }, /* 2^-9 * 2^-127, 1 * 2^127 */
		{ 0x7e, 254, 0x38, 127, INFINITY }, /* 448 * 2^127 */
		{ 0x38, 254, 0x38, 0, 1 },
		{ 0x00, 254, 0x38, 254, 0 },
	};
	static const int64_t size[4] = { 1, 1, 1, 1 };
	struct openreg_args args;
	unsigned int i;
	float d;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t x[4] = { cases[i].a, cases[i].b, cases[i].by_a, cases[i].by_b };
		unsigned int k;

		args_begin(&args, OPENREG_OP_MATMUL, 4, size);
		args.arg[0] = OPENREG_MATMUL_SCALED_F8;
		args_operand(&args, OPENREG_F32, &d, (int64_t[4]){ 0 });
		for (k = 0; k < 4; k++)
			args_operand(&args, k < 2 ? OPENREG_F8E4M3FN : OPENREG_F8E8M0FNU,
				     &x[k], (int64_t[4]){ 0 });
		args_imm_f(&args, 1);
		args_imm_f(&args, 0);
		args_imm_i(&args, 1);
		args_run(&args);
		assert_true((double)d == cases[i].want);
	}
}

static void test_check(void **state)
{
	const int64_t size[4] = { 1, 2, 3, 8 };
	struct openreg_args good, args;
	float x[16];

	(void)state;
	args_begin(&good, OPENREG_OP_MATMUL, 4, size);
	good.arg[0] = OPENREG_MATMUL_SCALED_F8;
	args_operand(&good, OPENREG_BF16, x, (int64_t[]){ 6, 3, 1, 0 });
	args_operand(&good, OPENREG_F8E4M3FN, x, (int64_t[]){ 16, 8, 0, 1 });
	args_operand(&good, OPENREG_F8E5M2, x, (int64_t[]){ 24, 0, 8, 1 });
	args_operand(&good, OPENREG_F8E8M0FNU, x, (int64_t[]){ 4, 2, 0, 1 });
	args_operand(&good, OPENREG_F32, x, (int64_t[]){ 6, 0, 2, 1 });
	args_imm_f(&good, 1);
	args_imm_f(&good, 0);
	args_imm_i(&good, 4);
	EXPECT((void)0, NONE);
	assert_int_equal(args.op[SCALE_A].dims, 0xb);
	assert_int_equal(args.op[SCALE_A].size[1], 2);
	assert_int_equal(args.op[SCALE_A].size[2], 1);
	assert_int_equal(args.op[SCALE_B].dims, 0xd);
	assert_int_equal(args.op[SCALE_B].size[1], 1);
	assert_int_equal(args.op[SCALE_B].size[2], 3);
	assert_int_equal(args.op[SCALE_B].size[3], 2);
	EXPECT(args.nops = 4, PACKET);
	EXPECT(args.nimm = 2, PACKET);
	EXPECT(args.arg[3] = OPENREG_MATMUL_PACKED_B, PACKET);
	EXPECT(args.imm[1] = args.imm[0], PACKET);
	EXPECT(args.imm[2] = 0, SHAPE);
	EXPECT(args.imm[2] = 3, SHAPE);
	EXPECT(args.imm[2] = (uint64_t)-4, SHAPE);
	EXPECT(args.imm[2] = 1, NONE);
	EXPECT(args.op[D].dtype = OPENREG_F64, DTYPE);
	EXPECT(args.op[D].dtype = OPENREG_F8E5M2, DTYPE);
	EXPECT(args.op[A].dtype = OPENREG_F8E8M0FNU, DTYPE);
	EXPECT(args.op[A].dtype = OPENREG_BF16, DTYPE);
	EXPECT(args.op[B].dtype = OPENREG_I8, DTYPE);
	EXPECT(args.op[SCALE_A].dtype = OPENREG_F8E4M3FN, DTYPE);
	EXPECT(args.op[SCALE_A].dtype = OPENREG_F16, DTYPE);
	EXPECT(args.op[SCALE_B].dtype = OPENREG_BF16, DTYPE);
	EXPECT(args.op[SCALE_A].dtype = OPENREG_F32, NONE);
	EXPECT(args.op[SCALE_A].stride[2] = 1, SHAPE);
	EXPECT(args.op[SCALE_B].stride[1] = 1, SHAPE);
	EXPECT(args.op[D].stride[2] = 0, SHAPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scaled),
		cmocka_unit_test(test_scaled_large),
		cmocka_unit_test(test_nan_scale),
		cmocka_unit_test(test_extreme_scales),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
