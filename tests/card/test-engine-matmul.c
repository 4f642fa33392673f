// SPDX-License-Identifier: MIT
/* Compares MATMUL with three nested loops: every dtype, any layout. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine-harness.h"
#include "matmul/matmul.h"

struct operand {
	unsigned char *memory;
	void *ptr;
	int64_t stride[4];
	int64_t extent;
};

struct product {
	int64_t size[4]; /* b, m, n, k */
	unsigned int dtype, a_dtype, b_dtype; /* the last two 0: dtype */
	double alpha, beta;
	bool has_c;
	struct operand d, a, b, c;
};

/* Bits of [b, m, n, k] that D, A, B and C have. */
enum { DIMS_D = 0x7, DIMS_A = 0xb, DIMS_B = 0xd };

/*
 * Lays out dimensions in a random order; some are broadcast, stretched or negative.
 * Batches of operands that the card only reads may overlap.
 */
static void lay_out(struct operand *op, const struct product *p,
		    unsigned int dtype, unsigned int dims, bool broadcast,
		    bool odd)
{
	static const unsigned int orders[][4] = {
		{ 0, 1, 3, 2 }, { 0, 1, 2, 3 }, { 0, 3, 2, 1 },
		{ 0, 2, 3, 1 }, { 3, 1, 0, 2 }, { 2, 3, 0, 1 },
	};
	const unsigned int *order = orders[random_range(0, odd ? 5 : 1)];
	unsigned int size = openreg_dtype_size(dtype), i;
	int64_t step = odd && random_range(0, 5) == 0 ? 2 : 1, origin = 0;

	memset(op, 0, sizeof(*op));
	for (i = 4; i-- > 0;) {
		unsigned int d = order[i];

		if (!(dims >> d & 1))
			continue;
		if (broadcast && random_range(0, 5) == 0)
			continue;
		if (d == 0 && broadcast && odd && random_range(0, 3) == 0) {
			op->stride[d] = random_range(1, 1 + p->size[3]);
			step += op->stride[d] * p->size[d];
			continue;
		}
		op->stride[d] = step;
		step *= p->size[d] ? p->size[d] : 1;
		if (odd && random_range(0, 3) == 0)
			step += random_range(0, 3);
		if (odd && random_range(0, 9) == 0 && p->size[d]) {
			op->stride[d] = -op->stride[d];
			origin -= op->stride[d] * (p->size[d] - 1);
		}
	}
	op->extent = step + 4;
	op->memory = calloc((size_t)op->extent, size);
	assert_non_null(op->memory);
	fill_small(dtype, op->memory, op->extent, -3, 3);
	op->ptr = op->memory + origin * size;
}

static unsigned int dtype_of_a(const struct product *p)
{
	return p->a_dtype ? p->a_dtype : p->dtype;
}

static unsigned int dtype_of_b(const struct product *p)
{
	return p->b_dtype ? p->b_dtype : p->dtype;
}

static int64_t offset(const struct operand *op, int64_t b, int64_t m,
		      int64_t n, int64_t k)
{
	return b * op->stride[0] + m * op->stride[1] + n * op->stride[2] +
	       k * op->stride[3];
}

/* A or B as [b, rows, k]; dimension d has the rows. */
static double *unpack(const struct product *p, const struct operand *op,
		      unsigned int dtype, unsigned int d)
{
	int64_t at[4] = { 0 }, rows = p->size[d];
	double *x = malloc(sizeof(*x) *
			   (size_t)(p->size[0] * rows * p->size[3] + 1));
	double *to = x;

	assert_non_null(x);
	for (at[0] = 0; at[0] < p->size[0]; at[0]++)
		for (at[d] = 0; at[d] < rows; at[d]++)
			for (at[3] = 0; at[3] < p->size[3]; at[3]++)
				*to++ = element_get(dtype, op->ptr,
						    offset(op, at[0], at[1],
							   at[2], at[3]));
	return x;
}

/* Small integers: every sum is exact, in any order. */
static double expected(const struct product *p, const double *a,
		       const double *b, const void *c, int64_t at)
{
	double sum = 0;
	int64_t k;

	for (k = 0; k < p->size[3]; k++)
		sum += a[k] * b[k];
	sum *= p->alpha;
	if (p->has_c && p->beta != 0)
		sum += p->beta * element_get(p->dtype, c, at);
	return sum;
}

static void make_args(struct openreg_args *args, struct product *p)
{
	args_begin(args, OPENREG_OP_MATMUL, 4, p->size);
	args_operand(args, p->dtype, p->d.ptr, p->d.stride);
	args_operand(args, dtype_of_a(p), p->a.ptr, p->a.stride);
	args_operand(args, dtype_of_b(p), p->b.ptr, p->b.stride);
	if (p->has_c)
		args_operand(args, p->dtype, p->c.ptr, p->c.stride);
	args_imm_f(args, p->alpha);
	args_imm_f(args, p->beta);
}

static void compare(const struct product *p, const void *c)
{
	double *a = unpack(p, &p->a, dtype_of_a(p), 1);
	double *right = unpack(p, &p->b, dtype_of_b(p), 2);
	int64_t b, m, n, k = p->size[3];

	for (b = 0; b < p->size[0]; b++) {
		for (m = 0; m < p->size[1]; m++) {
			for (n = 0; n < p->size[2]; n++) {
				double x = expected(
					p, a + (b * p->size[1] + m) * k,
					right + (b * p->size[2] + n) * k, c,
					offset(&p->c, b, m, n, 0));
				double y = element_get(
					p->dtype, p->d.ptr,
					offset(&p->d, b, m, n, 0));

				if (element_round(p->dtype, x) != y)
					fail_msg("dtype %u, %ld %ld %ld: %g is "
						 "not %g",
						 p->dtype, (long)b, (long)m,
						 (long)n, y, x);
			}
		}
	}
	free(right);
	free(a);
}

static void run_and_compare(struct product *p)
{
	unsigned int size = openreg_dtype_size(p->dtype);
	unsigned char *c = NULL;
	struct openreg_args args;
	int64_t lead = 0;

	if (p->has_c) {
		/* C may be D. */
		c = malloc((size_t)p->c.extent * size);
		memcpy(c, p->c.memory, (size_t)p->c.extent * size);
		lead = (unsigned char *)p->c.ptr - p->c.memory;
	}
	make_args(&args, p);
	args_run_order(&args, random_range(0, 1));
	compare(p, c ? c + lead : NULL);
	free(c);
}

static void lay_out_all(struct product *p, bool odd, bool c_is_d)
{
	lay_out(&p->d, p, p->dtype, DIMS_D, false, odd);
	lay_out(&p->a, p, dtype_of_a(p), DIMS_A, odd, odd);
	lay_out(&p->b, p, dtype_of_b(p), DIMS_B, odd, odd);
	if (c_is_d)
		p->c = p->d;
	else
		lay_out(&p->c, p, p->dtype, DIMS_D, true, odd);
}

static void free_all(struct product *p)
{
	if (p->c.memory != p->d.memory)
		free(p->c.memory);
	free(p->d.memory);
	free(p->a.memory);
	free(p->b.memory);
}

static void one_mixed(unsigned int dtype, unsigned int a, unsigned int b,
		      int64_t most, bool odd)
{
	static const double factors[] = { 0, 1, 1, 1, 2, -1 };
	struct product p = { .dtype = dtype, .a_dtype = a, .b_dtype = b };
	unsigned int i;
	bool c_is_d;

	p.size[0] = random_range(1, 3);
	for (i = 1; i < 4; i++)
		p.size[i] = random_range(random_range(0, 20) != 0, most);
	p.has_c = random_range(0, 1);
	c_is_d = p.has_c && random_range(0, 1);
	p.alpha = factors[random_range(0, 5)];
	p.beta = p.has_c ? factors[random_range(0, 5)] : 0;
	if (dtype == OPENREG_U8 && p.alpha < 0)
		p.alpha = 3;
	lay_out_all(&p, odd, c_is_d);
	run_and_compare(&p);
	free_all(&p);
}

static void one_product(unsigned int dtype, int64_t most, bool odd)
{
	one_mixed(dtype, 0, 0, most, odd);
}

/* Each pair of float8 dtypes, to each dtype of the result. */
static void test_float8(void **state)
{
	static const unsigned int to[] = { OPENREG_F32, OPENREG_F16,
					   OPENREG_BF16 };
	unsigned int a, b, i;

	(void)state;
	for (a = OPENREG_F8E4M3FN; a <= OPENREG_F8E5M2FNUZ; a++) {
		for (b = OPENREG_F8E4M3FN; b <= OPENREG_F8E5M2FNUZ; b++) {
			for (i = 0; i < 30 / SCALE; i++) {
				random_seed((a * 16 + b) * 100 + i);
				one_mixed(to[i % 3], a, b, i % 5 ? 12 : 70,
					  i % 4 != 0);
			}
		}
	}
}

static void test_dtypes(void **state)
{
	unsigned int dtype, i;

	(void)state;
	for (dtype = OPENREG_F32; dtype < OPENREG_BOOL; dtype++) {
		for (i = 0; i < 120 / SCALE; i++) {
			random_seed(dtype * 1000 + i);
			one_product(dtype, i % 3 ? 12 : 70, i % 4 != 0);
		}
	}
}

/* Shapes that the card cuts: by rows and columns, by batch, by k. */
static void test_large(void **state)
{
	static const int64_t shapes[][4] = {
		{ 1, 300, 260, 1300 }, { 40, 30, 20, 10 }, { 1, 3, 2, 2500000 },
		{ 1, 1, 1, 6000000 }, { 2, 1, 3000, 400 }, { 1, 3000, 1, 300 },
	};
	static const unsigned int dtypes[] = { OPENREG_F32, OPENREG_BF16,
					       OPENREG_F16, OPENREG_F64,
					       OPENREG_I32 };
	unsigned int s, t;

	(void)state;
	for (s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
		for (t = SCALE > 1 ? (s + 4) % 5 : 0; t < 5;
		     t += SCALE > 1 ? 5 : 1) {
			struct product p = { .dtype = dtypes[t],
					     .alpha = 1,
					     .beta = s & 1,
					     .has_c = true };

			random_seed(s);
			memcpy(p.size, shapes[s], sizeof(p.size));
			/* Sums are exact in f32, and no f16 is infinite. */
			if (openreg_dtype_size(dtypes[t]) == 2 &&
			    p.size[3] > 1000)
				p.size[3] /= dtypes[t] == OPENREG_F16 ? 1000
								      : 10;
			lay_out_all(&p, false, false);
			run_and_compare(&p);
			free_all(&p);
		}
	}
}

static void run_strides(unsigned int dtype, const int64_t *size,
			const int64_t *d, const int64_t *a, const int64_t *b)
{
	struct product p = { .dtype = dtype, .alpha = 1 };
	unsigned int i;

	/* Room for gaps. */
	for (i = 0; i < 4; i++)
		p.size[i] = size[i] + 1;
	lay_out_all(&p, false, false);
	memcpy(p.size, size, sizeof(p.size));
	memcpy(p.d.stride, d, sizeof(p.d.stride));
	memcpy(p.a.stride, a, sizeof(p.a.stride));
	memcpy(p.b.stride, b, sizeof(p.b.stride));
	run_and_compare(&p);
	free_all(&p);
}

/* Batches that overlap, as x.unfold(0, m, 1) has them, or interlock. */
static void test_close_batches(void **state)
{
	enum { B = 5, M = 6, N = 7, K = 8 };
	static const int64_t size[4] = { B, M, N, K };
	static const int64_t dense[4] = { M * N, N, 1, 0 };
	static const int64_t between[4] = { N, B * N, 1, 0 };
	/* The next batch begins N elements after the last row of this one. */
	static const int64_t close[4] = { (M - 1) * (N + 1) + N, N + 1, 1, 0 };
	static const int64_t whole[4] = { M * K, K, 0, 1 };
	static const int64_t unfolded[4] = { K, K, 0, 1 };
	static const int64_t windows[4] = { 1, K, 0, 1 };
	static const int64_t right[4] = { K * N, 0, 1, N };
	static const unsigned int dtypes[] = { OPENREG_F32, OPENREG_F16,
					       OPENREG_F64, OPENREG_I8 };
	unsigned int i;

	(void)state;
	random_seed(7);
	for (i = 0; i < 4; i++) {
		run_strides(dtypes[i], size, dense, unfolded, right);
		run_strides(dtypes[i], size, dense, windows, right);
		run_strides(dtypes[i], size, between, whole, right);
		run_strides(dtypes[i], size, close, unfolded, right);
		run_strides(dtypes[i], size, close, whole, right);
	}
}

/* Outer products with gaps between the batches of one operand. */
static void test_lone_rows(void **state)
{
	enum { B = 5, M = 6, N = 7, GAP = 3 };
	static const int64_t size[4] = { B, M, N, 1 };
	static const int64_t dense[4] = { M * N, N, 1, 0 };
	static const int64_t loose[4] = { M * N + GAP, N, 1, 0 };
	static const int64_t left[4] = { M, 1, 0, 1 };
	static const int64_t left_apart[4] = { M + GAP, 1, 0, 1 };
	static const int64_t right[4] = { N, 0, 1, N };
	static const int64_t right_apart[4] = { N + GAP, 0, 1, N };

	(void)state;
	random_seed(8);
	run_strides(OPENREG_F32, size, dense, left, right);
	run_strides(OPENREG_F32, size, dense, left, right_apart);
	run_strides(OPENREG_F32, size, dense, left_apart, right);
	run_strides(OPENREG_F32, size, loose, left_apart, right_apart);
	run_strides(OPENREG_F16, size, loose, left_apart, right_apart);
}

/* If oneDNN refuses a layout the packet must not fault: the card packs the operand. */
static void test_overlap_refused(void **state)
{
	float a[4] = { 0 }, b[2] = { 0 }, d[6];
	struct openreg_primitives *cache = NULL;
	struct openreg_gemm g = { .batch = 3, .m = 1, .n = 2, .k = 1 };

	(void)state;
	g.a = (struct openreg_matrix){ (uintptr_t)a, 1, 1, 1 };
	g.b = (struct openreg_matrix){ (uintptr_t)b, 1, 2, 1 };
	g.d = (struct openreg_matrix){ (uintptr_t)d, 2, 2, 1 };
	assert_false(openreg_gemm_is_plain(&g.b, 3, 1, 2));
	assert_int_equal(openreg_gemm_dnnl(&cache, &g),
			 OPENREG_GEMM_UNSUPPORTED);
	assert_int_equal(openreg_gemm_dnnl(&cache, &g),
			 OPENREG_GEMM_UNSUPPORTED);
	openreg_primitives_free(cache);
}

/* With beta = 0 the card does not read C, so a NaN in C has no effect. */
static void test_beta_zero(void **state)
{
	int64_t size[4] = { 1, 4, 4, 4 };
	float d[16], a[16], b[16], c[16];
	struct openreg_args args;
	int64_t sd[4] = { 16, 4, 1, 0 }, sa[4] = { 16, 4, 0, 1 };
	int64_t sb[4] = { 16, 0, 1, 4 };
	int i;

	(void)state;
	for (i = 0; i < 16; i++) {
		a[i] = b[i] = 1;
		c[i] = NAN;
	}
	args_begin(&args, OPENREG_OP_MATMUL, 4, size);
	args_operand(&args, OPENREG_F32, d, sd);
	args_operand(&args, OPENREG_F32, a, sa);
	args_operand(&args, OPENREG_F32, b, sb);
	args_operand(&args, OPENREG_F32, c, sd);
	args_imm_f(&args, 1);
	args_imm_f(&args, 0);
	args_run(&args);
	assert_false(args.op[3].read);
	for (i = 0; i < 16; i++)
		assert_true(d[i] == 4);
}

/* Integers wrap at the width of their dtype. */
static void test_wrap(void **state)
{
	int64_t size[4] = { 1, 1, 1, 3 };
	int64_t sd[4] = { 0 }, sa[4] = { 0, 0, 0, 1 };
	int8_t a8[3] = { 127, 127, 127 }, d8;
	int64_t a64[3] = { INT64_MAX, 2, 1 }, d64;
	struct openreg_args args;

	(void)state;
	args_begin(&args, OPENREG_OP_MATMUL, 4, size);
	args_operand(&args, OPENREG_I8, &d8, sd);
	args_operand(&args, OPENREG_I8, a8, sa);
	args_operand(&args, OPENREG_I8, a8, sa);
	args_imm_f(&args, 1);
	args_imm_f(&args, 0);
	args_run(&args);
	assert_int_equal(d8, 3); /* 3 * 127 * 127 mod 256 */
	args_begin(&args, OPENREG_OP_MATMUL, 4, size);
	args_operand(&args, OPENREG_I64, &d64, sd);
	args_operand(&args, OPENREG_I64, a64, sa);
	args_operand(&args, OPENREG_I64, a64, sa);
	args_imm_f(&args, 1);
	args_imm_f(&args, 0);
	args_run(&args);
	assert_int_equal(d64, 6); /* 1 + 4 + 1 */
}

/* Real numbers: results are close to a sum in f64; NaN and infinities stay. */
static void test_accuracy(void **state)
{
	enum { M = 65, N = 40, K = 1000 };
	static float a[M * K], b[K * N], d[M * N];
	int64_t size[4] = { 1, M, N, K }, sd[4] = { 0, N, 1, 0 };
	int64_t sa[4] = { 0, K, 0, 1 }, sb[4] = { 0, 0, 1, N };
	struct openreg_args args;
	int m, n, k;

	(void)state;
	for (k = 0; k < M * K; k++)
		a[k] = (float)(random_unit() - 0.5);
	for (k = 0; k < K * N; k++)
		b[k] = (float)(random_unit() - 0.5);
	a[0] = INFINITY;
	a[K] = NAN;
	args_begin(&args, OPENREG_OP_MATMUL, 4, size);
	args_operand(&args, OPENREG_F32, d, sd);
	args_operand(&args, OPENREG_F32, a, sa);
	args_operand(&args, OPENREG_F32, b, sb);
	args_imm_f(&args, 1);
	args_imm_f(&args, 0);
	args_run(&args);
	for (m = 0; m < M; m++) {
		for (n = 0; n < N; n++) {
			double sum = 0;

			for (k = 0; k < K; k++)
				sum += (double)a[m * K + k] * b[k * N + n];
			if (m == 0)
				assert_true(d[n] == (float)sum);
			else if (m == 1)
				assert_true(isnan(d[m * N + n]));
			else
				assert_true(fabs(d[m * N + n] - sum) < 1e-4);
		}
	}
}

/*
 * Even with tiny products in a batch, the number of tiles stays small, and so does the
 * scratch memory of a tile, which the worker keeps.
 */
static void test_tiny_products(void **state)
{
	static const int64_t shapes[][3] = { { 1, 1, 1 }, { 3, 3, 3 },
					     { 1, 1, 9 }, { 40, 1, 2 },
					     { 1, 40, 0 }, { 9, 9, 9 } };
	unsigned int dtype, i, d;

	(void)state;
	for (dtype = OPENREG_F32; dtype < OPENREG_BOOL; dtype++) {
		for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
			struct product p = { .dtype = dtype, .alpha = 1 };
			const struct openreg_gemm_kernel *kernel;
			struct openreg_args args;
			bool runs = i < 2 && dtype % 4 == 1;
			struct openreg_matmul mm;
			int64_t bytes;

			random_seed(i);
			/* Making a plan accesses no operand. */
			p.size[0] = runs ? 50000 : 1;
			for (d = 0; d < 3; d++)
				p.size[1 + d] = shapes[i][d];
			lay_out_all(&p, false, false);
			p.size[0] = 50000;
			make_args(&args, &p);
			assert_true(openreg_matmul_plan(&mm, &args));
			kernel = &mm.kernels->gemm[mm.type];
			bytes = mm.tile_batch * mm.width *
				openreg_round_up(mm.tile_m, kernel->rows) *
				openreg_round_up(mm.tile_n, kernel->columns);
			assert_true(bytes <= 16 << 20);
			if (mm.type != OPENREG_VT_F32)
				assert_true(bytes <= 1 << 20);
			assert_true(mm.tile_batch <= 5000);
			if (runs)
				run_and_compare(&p);
			free_all(&p);
		}
	}
}

static void good_args(struct openreg_args *args, float *x)
{
	int64_t size[4] = { 2, 2, 2, 2 };

	args_begin(args, OPENREG_OP_MATMUL, 4, size);
	args_operand(args, OPENREG_F32, x, (int64_t[]){ 4, 2, 1, 0 });
	args_operand(args, OPENREG_F32, x, (int64_t[]){ 4, 2, 0, 1 });
	args_operand(args, OPENREG_F32, x, (int64_t[]){ 4, 0, 1, 2 });
	args_imm_f(args, 1);
	args_imm_f(args, 0);
}

static void test_check(void **state)
{
	struct openreg_args args;
	float x[8];

	(void)state;
	good_args(&args, x);
	assert_int_equal(args_check(&args), 0);
	assert_int_equal(args.op[0].dims, 0x7);
	assert_int_equal(args.op[1].dims, 0xb);
	assert_int_equal(args.op[2].dims, 0xd);
	args.op[1].dtype = OPENREG_F64;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	good_args(&args, x);
	args.op[0].dtype = args.op[1].dtype = args.op[2].dtype = OPENREG_BOOL;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	good_args(&args, x);
	args.op[1].dtype = args.op[2].dtype = OPENREG_F8E4M3FN;
	assert_int_equal(args_check(&args), 0);
	args.op[2].dtype = OPENREG_F8E5M2;
	assert_int_equal(args_check(&args), 0);
	args.op[2].dtype = OPENREG_F32;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	args.op[2].dtype = OPENREG_F8E8M0FNU;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	args.op[2].dtype = OPENREG_F8E4M3FN;
	args.op[0].dtype = OPENREG_F64;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	args.op[0].dtype = OPENREG_F8E4M3FN;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	good_args(&args, x);
	args.op[1].stride[2] = 1;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
	good_args(&args, x);
	args.op[0].stride[1] = 0;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
	good_args(&args, x);
	args.ndim = 3;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
	good_args(&args, x);
	args.nimm = 1;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	good_args(&args, x);
	args.imm[1] = args.imm[0]; /* beta without C */
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	good_args(&args, x);
	args.size[0] = args.size[1] = 1LL << 40;
	args.size[3] = 0;
	assert_int_equal(args_check(&args), OPENREG_FAULT_LIMIT);
	assert_true(openreg_engine_check(&args).detail == UINT64_MAX);
	args.size[1] = 1;
	assert_true(openreg_engine_check(&args).detail == 1ULL << 41);
	good_args(&args, x);
	args.nops = 2;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dtypes), cmocka_unit_test(test_float8),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_close_batches),
		cmocka_unit_test(test_lone_rows),
		cmocka_unit_test(test_overlap_refused),
		cmocka_unit_test(test_tiny_products),
		cmocka_unit_test(test_beta_zero), cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_accuracy), cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
