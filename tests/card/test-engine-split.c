// SPDX-License-Identifier: MIT
/*
 * MATMUL on the matrix unit for bf16. Results must be as near to a sum in f64 as those of
 * f32. With numbers that the unit does not treat as f32 does, they must have the bits of
 * f32. Without a unit all results must have these bits.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "amx.h"
#include "engine-harness.h"
#include "matmul.h"

/* The card computes smaller products in f32. */
enum { LEAST = 128, M_MOST = 170, N_MOST = 200, K_MOST = 300 };

struct product {
	int64_t m, n, k;
	unsigned int dtype;
	bool a_turned, b_turned, accumulate;
	struct openreg_args args;
	double a[M_MOST * K_MOST], b[K_MOST * N_MOST]; /* rows of k */
	float c[M_MOST * N_MOST], d[M_MOST * N_MOST], f32[M_MOST * N_MOST];
	unsigned char memory_a[M_MOST * K_MOST * 4];
	unsigned char memory_b[K_MOST * N_MOST * 4];
};

static struct product p;
static struct openreg_scratch *scratch;

static bool has_unit(void)
{
	return openreg_amx();
}

/* The CPU must report the same, unless oneDNN has a limit. */
static void test_unit(void **state)
{
	(void)state;
#if defined(UNIT_IN_C)
	assert_true(has_unit());
#elif defined(__x86_64__)
	if (__builtin_cpu_supports("amx-bf16") && !getenv("ONEDNN_MAX_CPU_ISA"))
		assert_true(has_unit());
	if (!__builtin_cpu_supports("amx-bf16"))
		assert_false(has_unit());
#else
	assert_false(has_unit());
#endif
}

/* A number of magnitude 2^low to 2^high, with either sign. */
static double number(int low, int high)
{
	double x = ldexp(1 + random_unit(), (int)random_range(low, high - 1));

	return random_range(0, 1) ? x : -x;
}

static void set(unsigned char *memory, double *x, int64_t at, int64_t place)
{
	openreg_convert(memory + place * openreg_dtype_size(p.dtype), p.dtype,
			1, &x[at], OPENREG_F64, 1, 1);
	x[at] = element_get(p.dtype, memory, place);
}

static void set_a(int64_t m, int64_t k, double x)
{
	p.a[m * p.k + k] = x;
	set(p.memory_a, p.a, m * p.k + k,
	    p.a_turned ? k * p.m + m : m * p.k + k);
}

static void set_b(int64_t k, int64_t n, double x)
{
	p.b[n * p.k + k] = x;
	set(p.memory_b, p.b, n * p.k + k,
	    p.b_turned ? n * p.k + k : k * p.n + n);
}

static void fill(int low, int high)
{
	int64_t i, j;

	for (i = 0; i < p.m; i++)
		for (j = 0; j < p.k; j++)
			set_a(i, j, number(low, high));
	for (i = 0; i < p.k; i++)
		for (j = 0; j < p.n; j++)
			set_b(i, j, number(low, high));
	for (i = 0; i < p.m * p.n; i++)
		p.c[i] = (float)random_unit();
}

static void begin(unsigned int dtype, int64_t m, int64_t n, int64_t k)
{
	p.dtype = dtype;
	p.m = m;
	p.n = n;
	p.k = k;
	p.a_turned = random_range(0, 1);
	p.b_turned = random_range(0, 1);
	p.accumulate = dtype == OPENREG_F32 && random_range(0, 1);
}

static void make_args(void)
{
	int64_t size[4] = { 1, p.m, p.n, p.k };
	int64_t d[4] = { 0, p.n, 1, 0 };
	int64_t a[4] = { 0, p.a_turned ? 1 : p.k, 0, p.a_turned ? p.m : 1 };
	int64_t b[4] = { 0, 0, p.b_turned ? p.k : 1, p.b_turned ? 1 : p.n };

	args_begin(&p.args, OPENREG_OP_MATMUL, 4, size);
	args_operand(&p.args, p.dtype, p.d, d);
	args_operand(&p.args, p.dtype, p.memory_a, a);
	args_operand(&p.args, p.dtype, p.memory_b, b);
	if (p.accumulate)
		args_operand(&p.args, p.dtype, p.d, d);
	args_imm_f(&p.args, 1);
	args_imm_f(&p.args, p.accumulate);
	assert_int_equal(args_check(&p.args), 0);
}

typedef enum openreg_gemm_result
gemm_fn(const struct openreg_matmul *mm, const struct openreg_matmul_tile *tile,
	struct openreg_product *product, bool accumulate,
	struct openreg_scratch *scratch);

/* Computes the whole product as one tile, to `to`. */
static enum openreg_gemm_result run(gemm_fn *gemm, float *to)
{
	struct openreg_matmul_tile t = { .batch = 1, .m = p.m, .n = p.n,
					 .k = p.k };
	struct openreg_product out = { (unsigned char *)to, 0, p.n };
	struct openreg_matmul mm;

	make_args();
	assert_true(openreg_matmul_plan(&mm, &p.args));
	memcpy(to, p.c, sizeof(p.c));
	return gemm(&mm, &t, &out, p.accumulate, scratch);
}

/* Runs the packet with either order of its slices; the result is in d. */
static void run_packet(void)
{
	static float once[M_MOST * N_MOST];

	make_args();
	memcpy(p.d, p.c, sizeof(p.c));
	args_run_order(&p.args, false);
	memcpy(once, p.d, sizeof(once));
	memcpy(p.d, p.c, sizeof(p.c));
	args_run_order(&p.args, true);
	assert_int_equal(memcmp(once, p.d, sizeof(once)), 0);
}

/*
 * Compares with f64: the mean error must be at most that of f32, and no error more than a
 * bound for f32. Both are relative to the sum of the magnitudes.
 */
static void compare(void)
{
	const double ulp = FLT_EPSILON / 2;
	double ours = 0, theirs = 0;
	int64_t m, n, k;

	for (m = 0; m < p.m; m++) {
		for (n = 0; n < p.n; n++) {
			double c = p.accumulate ? p.c[m * p.n + n] : 0;
			double sum = c, all = fabs(c), error, other;

			for (k = 0; k < p.k; k++) {
				double x = p.a[m * p.k + k] * p.b[n * p.k + k];

				sum += x;
				all += fabs(x);
			}
			error = fabs(p.d[m * p.n + n] - sum) / all;
			other = fabs(p.f32[m * p.n + n] - sum) / all;
			if (!(error <= ((double)p.k / 8 + 4) * ulp))
				fail_msg("%ld %ld of k %ld: %g is not %g, off "
					 "by %g ulp",
					 (long)m, (long)n, (long)p.k,
					 p.d[m * p.n + n], sum, error / ulp);
			ours += error;
			theirs += other;
		}
	}
	if (ours > theirs * 1.1 + ulp / 4 * (double)(p.m * p.n))
		fail_msg("errors of %g, with f32 %g ulp",
			 ours / ulp / (double)(p.m * p.n),
			 theirs / ulp / (double)(p.m * p.n));
}

/* For f32 also compares the packet's result; for halves only sums before they round. */
static void expect_split(void)
{
	enum openreg_gemm_result result = run(openreg_gemm_split, p.d);

	assert_int_equal(result, has_unit() ? OPENREG_GEMM_DONE
					    : OPENREG_GEMM_UNSUPPORTED);
	assert_int_equal(run(openreg_gemm_fast, p.f32), OPENREG_GEMM_DONE);
	if (has_unit())
		compare();
	if (p.dtype == OPENREG_F32) {
		run_packet();
		compare();
	}
}

/* The unit refuses the product, and the packet has the bits of f32. */
static void expect_f32(void)
{
	assert_int_equal(run(openreg_gemm_split, p.d),
			 OPENREG_GEMM_UNSUPPORTED);
	assert_int_equal(run(openreg_gemm_fast, p.f32), OPENREG_GEMM_DONE);
	run_packet();
	assert_int_equal(memcmp(p.d, p.f32,
				(size_t)(p.m * p.n) * sizeof(float)),
			 0);
}

static void test_shapes(void **state)
{
	static const unsigned int dtypes[] = { OPENREG_F32, OPENREG_F32,
					       OPENREG_F16, OPENREG_BF16 };
	int i;

	(void)state;
	for (i = 0; i < 40; i++) {
		random_seed((uint64_t)i);
		begin(dtypes[i % 4], random_range(LEAST, M_MOST),
		      random_range(LEAST, N_MOST), random_range(64, K_MOST));
		/* The range of f16, or the range of the unit. */
		if (i % 8 < 4)
			fill(-8, 4);
		else if (p.dtype == OPENREG_F16)
			fill(-13, 13);
		else
			fill(-46, 56);
		expect_split();
	}
}

/* The unit may compute zeros: they do not count as small numbers. */
static void test_zeros(void **state)
{
	int64_t i;

	(void)state;
	random_seed(1);
	begin(OPENREG_F32, LEAST, LEAST, LEAST);
	fill(0, 1);
	for (i = 0; i < 2000; i++) {
		set_a(random_range(0, LEAST - 1), random_range(0, LEAST - 1),
		      0);
		set_b(random_range(0, LEAST - 1), random_range(0, LEAST - 1),
		      -0.0);
	}
	expect_split();
	fill(0, 1);
	for (i = 0; i < LEAST * LEAST; i++)
		set_a(i / LEAST, i % LEAST, 0);
	expect_split();
}

/* One number that the unit does not treat as f32 makes the card use f32. */
static void test_out_of_range(void **state)
{
	static const double others[] = { INFINITY,  -INFINITY, NAN, 0x1p127,
					 -0x1p120,  0x1p-149,  -0x1p-127,
					 0x1p-126, FLT_MAX,   0x1.8p-101 };
	unsigned int i, side;

	(void)state;
	for (i = 0; i < sizeof(others) / sizeof(*others); i++) {
		for (side = 0; side < 2; side++) {
			random_seed(i);
			begin(OPENREG_F32, random_range(LEAST, M_MOST),
			      random_range(LEAST, N_MOST),
			      random_range(64, K_MOST));
			fill(-1, 1);
			if (side)
				set_b(random_range(0, p.k - 1),
				      random_range(0, p.n - 1), others[i]);
			else
				set_a(random_range(0, p.m - 1),
				      random_range(0, p.k - 1), others[i]);
			expect_f32();
		}
	}
}

/* Numbers that the unit takes, with products that it would not treat as f32. */
static void test_products(void **state)
{
	(void)state;
	random_seed(3);
	begin(OPENREG_F32, 140, 150, 200);
	fill(62, 63);
	expect_f32();
	fill(-52, -48);
	expect_f32();
	fill(-1, 1);
	set_a(7, 100, 0x1p-60);
	set_b(3, 7, -0x1p-60);
	expect_f32();
}

/* Small numbers, odd strides, batches: all sums are exact, so compares with f32. */
static void test_strides(void **state)
{
	enum { B = 3, M = 130, N = 150, K = 135 };
	static float a[B * M * K * 2], b[B * K * N * 2], d[2][B * M * N];
	int64_t size[4] = { B, M, N, K }, sd[4] = { M * N, N, 1, 0 };
	int64_t sa[4] = { M * K * 2, K * 2, 0, 2 };
	int64_t sb[4] = { K * N * 2, 0, -1, 2 * N };
	struct openreg_matmul_tile t = { .batch = B, .m = M, .n = N, .k = K };
	struct openreg_matmul mm;
	unsigned int i;

	(void)state;
	random_seed(4);
	fill_small(OPENREG_F32, a, B * M * K * 2, -300, 300);
	fill_small(OPENREG_F32, b, B * K * N * 2, -300, 300);
	args_begin(&p.args, OPENREG_OP_MATMUL, 4, size);
	args_operand(&p.args, OPENREG_F32, d, sd);
	args_operand(&p.args, OPENREG_F32, a, sa);
	args_operand(&p.args, OPENREG_F32, b + N, sb);
	args_imm_f(&p.args, 1);
	args_imm_f(&p.args, 0);
	assert_true(openreg_matmul_plan(&mm, &p.args));
	for (i = 0; i < 2; i++) {
		gemm_fn *gemm = i ? openreg_gemm_fast : openreg_gemm_split;
		struct openreg_product to = { (unsigned char *)d[i], M * N, N };
		bool refused = gemm(&mm, &t, &to, false, scratch) !=
			       OPENREG_GEMM_DONE;

		assert_int_equal(refused, !i && !has_unit());
	}
	if (has_unit())
		assert_int_equal(memcmp(d[0], d[1], sizeof(d[0])), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unit),	 cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_zeros),	 cmocka_unit_test(test_out_of_range),
		cmocka_unit_test(test_products), cmocka_unit_test(test_strides),
	};
	static atomic_size_t extra;
	int failed;

	scratch = openreg_scratch_new(&extra);
	if (!scratch)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	openreg_scratch_free(scratch);
	return failed;
}
