// SPDX-License-Identifier: MIT
/* Compares MATMUL of bytes, and MATMUL with scales, with loops over single elements. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"
#include "kernels/kernels.h"
#include "matmul/matmul.h"

enum { D, A, B, FACTOR, ZERO };

/* An operand over dims of [b, m, n, k], with its own size along k. */
struct operand {
	unsigned int dtype;
	struct layout layout;
	unsigned char *memory;
};

struct product {
	int64_t size[4];
	unsigned int how;
	int64_t group;
	double alpha, beta;
	unsigned int nops;
	struct operand op[5];
};

static const uint32_t dims[] = { 0x7, 0xb, 0xd, 0xd, 0xd };

static void *element_0(const struct operand *op)
{
	return op->memory + op->layout.origin * openreg_dtype_size(op->dtype);
}

/* k: the size along k. dense: k is the innermost dimension. */
static void make(struct product *p, unsigned int i, unsigned int dtype, uint32_t has,
		 int64_t k, bool dense)
{
	struct operand *op = &p->op[i];
	int64_t size[4], step = 1;
	unsigned int d;

	op->dtype = dtype;
	for (d = 0; d < 4; d++)
		size[d] = !(has >> d & 1) ? 1 : d == 3 ? k : p->size[d];
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
	for (d = 0; d < 4; d++) {
		if (!(has >> d & 1))
			op->layout.stride[d] = 0;
	}
	op->memory = calloc((size_t)op->layout.extent + 1, openreg_dtype_size(dtype));
	assert_non_null(op->memory);
}

static void fill_bytes(struct operand *op)
{
	int64_t i;

	for (i = 0; i < op->layout.extent; i++)
		op->memory[i] = (unsigned char)random_u64();
}

static void fill_floats(struct operand *op, float most)
{
	int64_t i;

	for (i = 0; i < op->layout.extent; i++) {
		float f = (float)(random_unit() * 2 - 1) * most;

		openreg_kernels()->store[op->dtype][OPENREG_VT_F32](
			op->memory + i * openreg_dtype_size(op->dtype), 1, &f, 1);
	}
}

static void make_args(struct openreg_args *args, const struct product *p)
{
	unsigned int i;

	args_begin(args, OPENREG_OP_MATMUL, 4, p->size);
	args->arg[0] = (uint8_t)p->how;
	for (i = 0; i < p->nops; i++)
		args_operand(args, p->op[i].dtype, element_0(&p->op[i]),
			     p->op[i].layout.stride);
	args_imm_f(args, p->alpha);
	args_imm_f(args, p->beta);
	if (p->how)
		args_imm_i(args, p->group);
}

static int64_t at(const struct operand *op, const int64_t *point, int64_t k)
{
	return point[0] * op->layout.stride[0] + point[1] * op->layout.stride[1] +
	       point[2] * op->layout.stride[2] + k * op->layout.stride[3];
}

static void free_all(struct product *p)
{
	unsigned int i;

	for (i = 0; i < p->nops; i++)
		free(p->op[i].memory);
}

static int32_t mixed_sum(const struct product *p, const int64_t *point)
{
	uint32_t sum = 0;
	int64_t k;

	for (k = 0; k < p->size[3]; k++)
		sum += (uint32_t)element_get_int(p->op[A].dtype, element_0(&p->op[A]),
						 at(&p->op[A], point, k)) *
		       (uint32_t)element_get_int(p->op[B].dtype, element_0(&p->op[B]),
						 at(&p->op[B], point, k));
	return (int32_t)(sum * (uint32_t)(int32_t)p->alpha);
}

static void compare_mixed(const struct product *p, const int32_t *c)
{
	int64_t point[4] = { 0 }, size[4] = { p->size[0], p->size[1], p->size[2], 1 };
	const int32_t *d = element_0(&p->op[D]);

	do {
		int32_t want = mixed_sum(p, point);

		if (c)
			want = (int32_t)((uint32_t)want +
					 (uint32_t)(int32_t)p->beta *
						 (uint32_t)c[at(&p->op[D], point, 0)]);
		assert_int_equal(d[at(&p->op[D], point, 0)], want);
	} while (next_point(4, size, point));
}

/* C is D. */
static void run_mixed(struct product *p)
{
	struct openreg_args args;
	int32_t *c = NULL;
	size_t bytes = (size_t)p->op[D].layout.extent * sizeof(*c);

	make_args(&args, p);
	if (p->beta != 0) {
		args_begin(&args, OPENREG_OP_MATMUL, 4, p->size);
		args_operand(&args, OPENREG_I32, element_0(&p->op[D]),
			     p->op[D].layout.stride);
		args_operand(&args, p->op[A].dtype, element_0(&p->op[A]),
			     p->op[A].layout.stride);
		args_operand(&args, OPENREG_I8, element_0(&p->op[B]),
			     p->op[B].layout.stride);
		args_operand(&args, OPENREG_I32, element_0(&p->op[D]),
			     p->op[D].layout.stride);
		args_imm_f(&args, p->alpha);
		args_imm_f(&args, p->beta);
		c = malloc(bytes);
		memcpy(c, p->op[D].memory, bytes);
	}
	args_run_order(&args, random_range(0, 1));
	compare_mixed(p, c ? c + p->op[D].layout.origin : NULL);
	free(c);
}

static void mixed(const int64_t *size, bool is_unsigned, bool dense, int value)
{
	static const double factors[] = { 1, 1, 2, -1 };
	struct product p = { .nops = 3, .alpha = factors[random_range(0, 3)] };

	memcpy(p.size, size, sizeof(p.size));
	p.beta = random_range(0, 1) ? factors[random_range(0, 3)] : 0;
	make(&p, D, OPENREG_I32, dims[D], 1, dense);
	make(&p, A, is_unsigned ? OPENREG_U8 : OPENREG_I8, dims[A], size[3], dense);
	make(&p, B, OPENREG_I8, dims[B], size[3], dense);
	fill_bytes(&p.op[A]);
	fill_bytes(&p.op[B]);
	if (value) {
		memset(p.op[A].memory, value, (size_t)p.op[A].layout.extent);
		memset(p.op[B].memory, -128, (size_t)p.op[B].layout.extent);
	}
	run_mixed(&p);
	free_all(&p);
}

static void test_mixed(void **state)
{
	int64_t size[4];
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 400 / SCALE; i++) {
		random_seed(i);
		size[0] = random_range(1, 3);
		for (d = 1; d < 4; d++)
			size[d] = random_range(1, i % 3 ? 12 : 70);
		if (i % 20 == 0)
			size[3] = 0;
		mixed(size, i & 1, i % 4 == 0, 0);
	}
}

/* Sums of the greatest products: more than 16 bits, 24 bits and 31 bits hold. */
static void test_mixed_extremes(void **state)
{
	static const int64_t sizes[][4] = { { 1, 2, 3, 2 }, { 1, 20, 33, 1000 },
					    { 1, 3, 2, 140000 }, { 2, 150, 130, 65 } };
	unsigned int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		random_seed(i);
		mixed(sizes[i], true, true, 255);
		mixed(sizes[i], false, true, -128);
		mixed(sizes[i], false, true, 0);
	}
}

static double number(const struct product *p, const int64_t *point, int64_t k)
{
	const int8_t *q = element_0(&p->op[B]);
	int byte;

	if (p->how == OPENREG_MATMUL_SCALED_I8)
		return q[at(&p->op[B], point, k)];
	byte = q[at(&p->op[B], point, k / 2)];
	return k % 2 ? byte >> 4 : (int8_t)((unsigned int)byte << 4) >> 4;
}

static double float_at(const struct product *p, unsigned int i, const int64_t *point,
		       int64_t k)
{
	return element_get(p->op[i].dtype, element_0(&p->op[i]),
			   at(&p->op[i], point, k));
}

static void compare_scaled(const struct product *p)
{
	static const double epsilon[] = { [OPENREG_F32] = 0x1p-24, [OPENREG_F16] = 0x1p-11,
					  [OPENREG_BF16] = 0x1p-8 };
	int64_t point[4] = { 0 }, size[4] = { p->size[0], p->size[1], p->size[2], 1 }, k;

	do {
		double sum = 0, magnitude = 0, have = float_at(p, D, point, 0), near;

		for (k = 0; k < p->size[3]; k++) {
			double a = float_at(p, A, point, k);
			double x = a * number(p, point, k) *
				   float_at(p, FACTOR, point, k / p->group);
			double z = p->nops > ZERO ?
					   a * float_at(p, ZERO, point, k / p->group) :
					   0;

			sum += x + z;
			magnitude += fabs(x) + fabs(z);
		}
		sum *= p->alpha;
		near = fabs(p->alpha) * magnitude * (double)(p->size[3] + 8) * 0x1p-24 +
		       fabs(sum) * epsilon[p->op[D].dtype] + 0x1p-24;
		if (!(fabs(have - sum) <= near))
			fail_msg("how %u, dtype %u, group %ld, %ld %ld of %ld %ld %ld: "
				 "%g is not %g",
				 p->how, p->op[D].dtype, (long)p->group, (long)point[1],
				 (long)point[2], (long)p->size[1], (long)p->size[2],
				 (long)p->size[3], have, sum);
	} while (next_point(4, size, point));
}

static void scaled(const int64_t *size, unsigned int how, int64_t group, bool zero,
		   bool dense)
{
	static const unsigned int floats[] = { OPENREG_F32, OPENREG_F16, OPENREG_BF16 };
	unsigned int dtype = floats[random_range(0, 2)];
	struct product p = { .how = how, .group = group, .nops = zero ? 5 : 4,
			     .alpha = random_range(0, 2) ? 1 : 0.5 };
	struct openreg_args args;
	bool i4 = how == OPENREG_MATMUL_SCALED_I4;

	memcpy(p.size, size, sizeof(p.size));
	make(&p, D, dtype, dims[D], 1, dense);
	make(&p, A, dtype, dims[A], size[3], dense);
	make(&p, B, i4 ? OPENREG_U8 : OPENREG_I8, dims[B], i4 ? size[3] / 2 : size[3],
	     dense);
	make(&p, FACTOR, floats[random_range(0, 2)], dims[FACTOR], size[3] / group, dense);
	fill_floats(&p.op[A], 1);
	fill_bytes(&p.op[B]);
	fill_floats(&p.op[FACTOR], 0.125f);
	if (zero) {
		make(&p, ZERO, floats[random_range(0, 2)], dims[ZERO], size[3] / group,
		     dense);
		fill_floats(&p.op[ZERO], 1);
	}
	make_args(&args, &p);
	args_run_order(&args, random_range(0, 1));
	compare_scaled(&p);
	free_all(&p);
}

static void test_scaled(void **state)
{
	static const int64_t groups[] = { 2, 4, 6, 32, 34, 64 };
	int64_t size[4];
	unsigned int i;

	(void)state;
	for (i = 0; i < 600 / SCALE; i++) {
		int64_t group = groups[i % 6];

		random_seed(i);
		size[0] = i % 5 ? 1 : 3;
		size[1] = random_range(1, i % 3 ? 9 : 40);
		size[2] = random_range(1, 30);
		size[3] = group * random_range(i % 30 != 0, 5);
		if (i % 7 == 0 && size[3])
			group = size[3];
		scaled(size, 1 + i % 2, group, i / 2 % 2, i % 4 != 0);
	}
}

/* Several tiles, groups of odd sizes, one column, one group. */
static void test_scaled_large(void **state)
{
	static const struct {
		int64_t size[4], group;
		unsigned int how;
	} cases[] = {
		{ { 1, 1, 700, 1000 }, 1000, OPENREG_MATMUL_SCALED_I8 },
		{ { 1, 1, 515, 1024 }, 32, OPENREG_MATMUL_SCALED_I4 },
		{ { 1, 16, 300, 512 }, 64, OPENREG_MATMUL_SCALED_I4 },
		{ { 1, 5, 301, 1001 }, 7, OPENREG_MATMUL_SCALED_I8 },
		{ { 1, 130, 270, 600 }, 300, OPENREG_MATMUL_SCALED_I8 },
		{ { 1, 70, 90, 2560 }, 256, OPENREG_MATMUL_SCALED_I4 },
		{ { 1, 2, 1, 60000 }, 60000, OPENREG_MATMUL_SCALED_I4 },
		{ { 1, 1, 2, 1100000 }, 1100000, OPENREG_MATMUL_SCALED_I8 },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		random_seed(i);
		scaled(cases[i].size, cases[i].how, cases[i].group, i & 1, true);
	}
}

/* A NaN of a scale is in its column, and nowhere else. */
static void test_nan_scale(void **state)
{
	static const int64_t sizes[][4] = { { 1, 1, 8, 64 }, { 1, 40, 8, 64 } };
	static float a[40 * 64], scale[8], d[40 * 8];
	static int8_t q[8 * 64];
	struct openreg_args args;
	int64_t i, n, s;

	(void)state;
	for (i = 0; i < 40 * 64; i++)
		a[i] = 1;
	for (i = 0; i < 8 * 64; i++)
		q[i] = 1;
	for (i = 0; i < 8; i++)
		scale[i] = i == 3 ? NAN : i == 4 ? INFINITY : 2;
	for (s = 0; s < 2; s++) {
		args_begin(&args, OPENREG_OP_MATMUL, 4, sizes[s]);
		args.arg[0] = OPENREG_MATMUL_SCALED_I8;
		args_operand(&args, OPENREG_F32, d, (int64_t[]){ 0, 8, 1, 0 });
		args_operand(&args, OPENREG_F32, a, (int64_t[]){ 0, 64, 0, 1 });
		args_operand(&args, OPENREG_I8, q, (int64_t[]){ 0, 0, 64, 1 });
		args_operand(&args, OPENREG_F32, scale, (int64_t[]){ 0, 0, 1, 8 });
		args_imm_f(&args, 1);
		args_imm_f(&args, 0);
		args_imm_i(&args, 64);
		args_run(&args);
		for (i = 0; i < sizes[s][1]; i++) {
			for (n = 0; n < 8; n++) {
				float x = d[i * 8 + n];

				assert_true(n == 3   ? isnan(x)
					    : n == 4 ? isinf(x) && x > 0
						     : x == 128);
			}
		}
	}
}

/* Batches that share Q become rows of one product, and more than a few are cut. */
static void test_shared_weights(void **state)
{
	enum { BATCH = 4096, N = 8, K = 64 };
	const int64_t size[4] = { BATCH, 1, N, K };
	float *a = malloc(BATCH * K * sizeof(*a)), *d = malloc(BATCH * N * sizeof(*d));
	float scale[N];
	int8_t q[N * K];
	struct openreg_matmul mm;
	struct openreg_args args;
	int64_t i;

	(void)state;
	for (i = 0; i < BATCH * K; i++)
		a[i] = (float)(i / K % 7);
	for (i = 0; i < N * K; i++)
		q[i] = (int8_t)(i / K - 3);
	for (i = 0; i < N; i++)
		scale[i] = 2;
	args_begin(&args, OPENREG_OP_MATMUL, 4, size);
	args.arg[0] = OPENREG_MATMUL_SCALED_I8;
	args_operand(&args, OPENREG_F32, d, (int64_t[]){ N, N, 1, 0 });
	args_operand(&args, OPENREG_F32, a, (int64_t[]){ K, K, 0, 1 });
	args_operand(&args, OPENREG_I8, q, (int64_t[]){ 0, 0, K, 1 });
	args_operand(&args, OPENREG_F32, scale, (int64_t[]){ 0, 0, 1, N });
	args_imm_f(&args, 1);
	args_imm_f(&args, 0);
	args_imm_i(&args, K);
	args_run(&args);
	for (i = 0; i < BATCH * N; i++)
		assert_true(d[i] == (float)(2 * K * (i / N % 7) * (i % N - 3)));
	/* The kernel for a few rows would hold all rows in scratch memory. */
	assert_true(openreg_matmul_plan(&mm, &args));
	assert_int_equal(mm.m, BATCH);
	assert_false(mm.few);
	free(d);
	free(a);
}

static void good_scaled(struct openreg_args *args, void *x)
{
	int64_t size[4] = { 1, 2, 2, 8 };

	args_begin(args, OPENREG_OP_MATMUL, 4, size);
	args->arg[0] = OPENREG_MATMUL_SCALED_I4;
	args_operand(args, OPENREG_F16, x, (int64_t[]){ 4, 2, 1, 0 });
	args_operand(args, OPENREG_F16, x, (int64_t[]){ 16, 8, 0, 1 });
	args_operand(args, OPENREG_U8, x, (int64_t[]){ 8, 0, 4, 1 });
	args_operand(args, OPENREG_F32, x, (int64_t[]){ 4, 0, 2, 1 });
	args_operand(args, OPENREG_BF16, x, (int64_t[]){ 4, 0, 2, 1 });
	args_imm_f(args, 1);
	args_imm_f(args, 0);
	args_imm_i(args, 4);
}

static void test_check_scaled(void **state)
{
	struct openreg_args good, args;
	float x[16];

	(void)state;
	good_scaled(&good, x);
	args = good;
	assert_int_equal(args_check(&args), 0);
	assert_int_equal(args.op[B].size[3], 4);
	assert_int_equal(args.op[FACTOR].size[3], 2);
	assert_int_equal(args.op[ZERO].dims, 0xd);
	EXPECT(args.arg[0] = OPENREG_MATMUL_END, PACKET);
	EXPECT(args.arg[1] = 1, PACKET);
	EXPECT(args.nimm = 2, PACKET);
	EXPECT(args.nops = 3, PACKET);
	EXPECT(args.imm[1] = args.imm[0], PACKET);
	EXPECT(args.imm[2] = 0, SHAPE);
	EXPECT(args.imm[2] = 3, SHAPE);
	EXPECT(args.imm[2] = 1, SHAPE); /* odd */
	EXPECT(args.imm[2] = (uint64_t)-4, SHAPE);
	EXPECT(args.op[A].dtype = OPENREG_F32, DTYPE);
	EXPECT(args.op[D].dtype = args.op[A].dtype = OPENREG_F64, DTYPE);
	EXPECT(args.op[B].dtype = OPENREG_I8, DTYPE);
	EXPECT(args.op[FACTOR].dtype = OPENREG_F64, DTYPE);
	EXPECT(args.op[ZERO].dtype = OPENREG_I8, DTYPE);
	EXPECT(args.op[FACTOR].stride[1] = 1, SHAPE);
	EXPECT(args.op[D].stride[1] = 0, SHAPE);
	good.nops = 4;
	EXPECT((void)0, NONE);
	EXPECT(args.arg[0] = OPENREG_MATMUL_SCALED_I8, DTYPE);
	good.arg[0] = OPENREG_MATMUL_SCALED_I8;
	good.op[B].dtype = OPENREG_I8;
	EXPECT(args.imm[2] = 1, NONE);
}

static void test_check_mixed(void **state)
{
	struct openreg_args good, args;
	int64_t size[4] = { 1, 2, 2, 2 };
	int32_t x[8];

	(void)state;
	args_begin(&good, OPENREG_OP_MATMUL, 4, size);
	args_operand(&good, OPENREG_I32, x, (int64_t[]){ 4, 2, 1, 0 });
	args_operand(&good, OPENREG_U8, x, (int64_t[]){ 4, 2, 0, 1 });
	args_operand(&good, OPENREG_I8, x, (int64_t[]){ 4, 0, 1, 2 });
	args_operand(&good, OPENREG_I32, x, (int64_t[]){ 4, 2, 1, 0 });
	args_imm_f(&good, 1);
	args_imm_f(&good, 1);
	EXPECT((void)0, NONE);
	EXPECT(args.op[A].dtype = OPENREG_I8, NONE);
	EXPECT(args.op[A].dtype = OPENREG_I16, DTYPE);
	EXPECT(args.op[B].dtype = OPENREG_U8, DTYPE);
	EXPECT(args.op[B].dtype = OPENREG_I32, DTYPE);
	EXPECT(args.op[3].dtype = OPENREG_I8, DTYPE);
	EXPECT(args.op[D].dtype = OPENREG_I16, DTYPE);
	EXPECT(args.op[D].dtype = OPENREG_F32, DTYPE);
	EXPECT(args.arg[0] = OPENREG_MATMUL_SCALED_I8, PACKET); /* three immediates */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_mixed_extremes),
		cmocka_unit_test(test_scaled),
		cmocka_unit_test(test_scaled_large),
		cmocka_unit_test(test_nan_scale),
		cmocka_unit_test(test_shared_weights),
		cmocka_unit_test(test_check_scaled),
		cmocka_unit_test(test_check_mixed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
