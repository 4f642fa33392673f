// SPDX-License-Identifier: MIT
/*
 * Speed of the compute engine alone, compared with memory and oneDNN. Prints one JSON
 * object a line. Each time is the best of several runs.
 * usage: bench-engine [THREADS: 1 or 2]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench-native.h"
#include "engine-harness.h"

#define SIDE 4096
#define POINTS ((int64_t)SIDE * SIDE)
#define F32 OPENREG_VT_F32
#define NONE OPENREG_VNONE

static struct openreg_scratch *scratch[2];
static struct openreg_args args;
static float *x, *y, *z;
static int threads = 1;

static struct {
	struct openreg_job *job;
	unsigned int phase;
	uint32_t slices, next;
} now_running;

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void report(const char *what, double value, const char *unit)
{
	printf("{\"bench\": \"engine\", \"threads\": %d, \"what\": \"%s\", "
	       "\"value\": %.4g, \"unit\": \"%s\"}\n",
	       threads, what, value, unit);
	fflush(stdout);
}

static void *work(void *own)
{
	uint32_t i;

	while ((i = __atomic_fetch_add(&now_running.next, 1,
				       __ATOMIC_RELAXED)) < now_running.slices) {
		if (!openreg_job_run(now_running.job, now_running.phase, i,
				     own))
			abort();
	}
	return NULL;
}

static void run_once(void)
{
	struct openreg_job *job;
	unsigned int phase;
	pthread_t thread;
	bool later;

	if (openreg_engine_check(&args).code)
		abort();
	job = openreg_job_new(&args, scratch[0], &later);
	now_running.job = job;
	for (phase = 0; phase < openreg_job_phases(job); phase++) {
		bool two;

		now_running.phase = phase;
		now_running.slices = openreg_job_slices(job, phase);
		now_running.next = 0;
		two = threads > 1 && now_running.slices > 1;
		if (two && pthread_create(&thread, NULL, work, scratch[1]))
			abort();
		work(scratch[0]);
		if (two)
			pthread_join(thread, NULL);
	}
	openreg_job_free(job);
}

static double best(int times)
{
	double least = 1e9, t;

	run_once();
	while (times--) {
		t = seconds();
		run_once();
		t = seconds() - t;
		least = t < least ? t : least;
	}
	return least;
}

static void program_begin(unsigned int ndim, const int64_t *size)
{
	args_begin(&args, OPENREG_OP_VECTOR, ndim, size);
	args_operand(&args, OPENREG_F32, x, NULL);
	args_operand(&args, OPENREG_F32, y, NULL);
	args_operand(&args, OPENREG_F32, z, NULL);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 0);
}

static void program_add(unsigned int out)
{
	args_instr(&args, OPENREG_V_LOAD, F32, 1, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_ADD, F32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, out);
}

static void bench_elementwise(void)
{
	static const int64_t square[2] = { SIDE, SIDE };
	int64_t n = POINTS, sixteen = 16;
	double t;
	int i;

	program_begin(1, &n);
	program_add(0);
	report("add_ of 16M f32, bytes read and written", 12e-9 * POINTS / best(10),
	       "GB/s");
	program_begin(1, &n);
	args_instr(&args, OPENREG_V_EXP, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 2);
	report("exp of 16M f32", best(5) * 1e9 / POINTS, "ns/element");
	program_begin(2, square);
	args.op[0].stride[0] = 1;
	args.op[0].stride[1] = SIDE;
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 2);
	report("transposed copy of 4096^2 f32", best(5) * 1e9 / POINTS,
	       "ns/element");
	program_begin(1, &sixteen);
	program_add(0);
	t = seconds();
	for (i = 0; i < 1000000; i++)
		run_once();
	report("add_ of 16 f32: check, job, slice", (seconds() - t) * 1e3,
	       "ns");
}

static void random_begin(unsigned int ndim, const int64_t *size)
{
	args_begin(&args, OPENREG_OP_VECTOR, ndim, size);
	args_operand(&args, OPENREG_I32, z, NULL);
	args_imm_i(&args, 1);
	args_instr(&args, OPENREG_V_RANDOM, OPENREG_VT_I32, 0, 0, 0, 0, 0);
}

static void bench_random(void)
{
	static const int64_t square[2] = { SIDE, SIDE };
	int64_t n = POINTS;

	random_begin(1, &n);
	args_instr(&args, OPENREG_V_STORE, OPENREG_VT_I32, 0, 0, 0, 0, 0);
	report("random words, 16M", 1e-6 * POINTS / best(10), "M words/s");
	random_begin(2, square);
	args.op[0].stride[0] = 1;
	args.op[0].stride[1] = SIDE;
	args_instr(&args, OPENREG_V_STORE, OPENREG_VT_I32, 0, 0, 0, 0, 0);
	report("random words, 4096^2 stored by columns",
	       1e-6 * POINTS / best(5), "M words/s");
	random_begin(1, &n);
	args.op[0].dtype = OPENREG_F32;
	args_imm_i(&args, 0xffffff);
	args_imm_f(&args, 0x1p-24);
	args_instr(&args, OPENREG_V_IMM, OPENREG_VT_I32, 1, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_AND, OPENREG_VT_I32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_CVT, F32, 0, 0, 0, 0, OPENREG_VT_I32);
	args_instr(&args, OPENREG_V_IMM, F32, 1, 0, 0, 0, 2);
	args_instr(&args, OPENREG_V_MUL, F32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	report("uniform 16M f32", best(10) * 1e9 / POINTS, "ns/element");
}

static void bench_reduce(const char *what, unsigned int mask, unsigned int op,
			 const int64_t *stride)
{
	static const int64_t square[2] = { SIDE, SIDE };

	program_begin(2, square);
	args.arg[0] = (uint8_t)mask;
	memcpy(args.op[2].stride, stride, 2 * sizeof(*stride));
	args.op[2].dtype = op == OPENREG_V_RED_MAX ? OPENREG_I64 : OPENREG_F32;
	if (op == OPENREG_V_RED_MAX)
		args_instr(&args, op, F32, 0, 0, 2, NONE, NONE);
	else
		args_instr(&args, op, F32, 0, 0, NONE, NONE, 2);
	report(what, 4e-9 * POINTS / best(5), "GB/s");
}

static void bench_softmax(const char *what, unsigned int axis, int64_t rows,
			  int64_t columns)
{
	const int64_t size[2] = { rows, columns };

	args_begin(&args, OPENREG_OP_SOFTMAX, 2, size);
	args.arg[0] = (uint8_t)axis;
	args_operand(&args, OPENREG_F32, z, NULL);
	args_operand(&args, OPENREG_F32, x, NULL);
	report(what, best(5) * 1e9 / (double)(rows * columns), "ns/element");
}

/* Softmax and normalization as programs in stages. */
static void stages_begin(unsigned int mask, int64_t rows, int64_t columns)
{
	const int64_t size[2] = { rows, columns };

	args_begin(&args, OPENREG_OP_VECTOR, 2, size);
	args.arg[0] = (uint8_t)mask;
	args_operand(&args, OPENREG_F32, z, NULL);
	args_operand(&args, OPENREG_F32, x, NULL);
	args_imm_f(&args, 1e-3);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
}

static void bench_stages(const char *what, unsigned int mask, int64_t rows,
			 int64_t columns)
{
	char longer[80];

	stages_begin(mask, rows, columns);
	args_instr(&args, OPENREG_V_RED_MAX, F32, 1, 0, NONE, NONE, NONE);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_SUB, F32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_EXP, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 2, 0, NONE, NONE, NONE);
	args_instr(&args, OPENREG_V_RECIP, F32, 2, 2, 0, 0, 0);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_MUL, F32, 0, 0, 2, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	snprintf(longer, sizeof(longer), "softmax in stages, %s", what);
	report(longer, best(5) * 1e9 / (double)(rows * columns), "ns/element");
	stages_begin(mask, rows, columns);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 1, 0, NONE, 0, NONE);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_SUB, F32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_MUL, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 2, 0, NONE, 0, NONE);
	args_instr(&args, OPENREG_V_RSQRT, F32, 2, 2, 0, 0, 0);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_SUB, F32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_MUL, F32, 0, 0, 2, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	snprintf(longer, sizeof(longer), "normalization in stages, %s", what);
	report(longer, best(5) * 1e9 / (double)(rows * columns), "ns/element");
}

/* Rows of width f32, read from or written to a table of as many rows. */
static void bench_index(const char *what, unsigned int mode, int64_t rows,
			int64_t width, int64_t places)
{
	const int64_t size[2] = { rows, width };
	int64_t *index = malloc((size_t)rows * sizeof(*index)), i;
	bool get = mode == OPENREG_INDEX_GET;

	if (!index)
		abort();
	for (i = 0; i < rows; i++)
		index[i] = random_range(0, places - 1);
	args_begin(&args, OPENREG_OP_INDEX, 2, size);
	args.arg[0] = (uint8_t)mode;
	args_operand(&args, OPENREG_F32, get ? z : x, NULL);
	args_operand(&args, OPENREG_F32, get ? x : z, NULL);
	args.op[get].stride[0] = 0;
	args_operand(&args, OPENREG_I64, index,
		     (const int64_t[2]){ 1, 0 });
	args_imm_i(&args, places);
	args_imm_i(&args, width);
	if (width > 1)
		report(what, 8e-9 * (double)(rows * width) / best(5), "GB/s");
	else
		report(what, 1e-6 * (double)rows / best(5), "M/s");
	free(index);
}

static void bench_indices(void)
{
	bench_index("rows of 512 f32 from 32768, read and written",
		    OPENREG_INDEX_GET, 32768, 512, 32768);
	bench_index("rows of 64 f32 from 32768, read and written",
		    OPENREG_INDEX_GET, 262144, 64, 32768);
	bench_index("elements from 64K f32", OPENREG_INDEX_GET, 4 << 20, 1,
		    65536);
	bench_index("elements from 16M f32", OPENREG_INDEX_GET, 4 << 20, 1,
		    POINTS);
	bench_index("elements to 64K f32", OPENREG_INDEX_PUT, 4 << 20, 1,
		    65536);
	bench_index("rows of 512 f32 added to 32768, read and written",
		    OPENREG_INDEX_ADD, 32768, 512, 32768);
	bench_index("rows of 64 f32 added to 32768, read and written",
		    OPENREG_INDEX_ADD, 262144, 64, 32768);
	bench_index("elements added to 64K f32", OPENREG_INDEX_ADD, 4 << 20, 1,
		    65536);
	bench_index("elements added to 16M f32", OPENREG_INDEX_ADD, 4 << 20, 1,
		    POINTS);
}

static double bench_matmul(const char *what, unsigned int dtype, int64_t n)
{
	int64_t size[4] = { 1, n, n, n };
	int64_t d[4] = { n * n, n, 1, 0 }, a[4] = { n * n, n, 0, 1 };
	int64_t b[4] = { n * n, 0, 1, n };
	double rate;

	args_begin(&args, OPENREG_OP_MATMUL, 4, size);
	args_operand(&args, dtype, z, d);
	args_operand(&args, dtype, x, a);
	args_operand(&args, dtype, y, b);
	args_imm_f(&args, 1);
	args_imm_f(&args, 0);
	rate = 2e-9 * (double)n * (double)n * (double)n / best(20);
	report(what, rate, "Gop/s");
	return rate;
}

static const struct {
	const char *name;
	unsigned int dtype;
} floats[3] = {
	{ "f32", OPENREG_F32 },
	{ "bf16", OPENREG_BF16 },
	{ "f16", OPENREG_F16 },
};

/* Normal numbers: for subnormal numbers and NaN the card uses slower code. */
static void fill_floats(unsigned int dtype)
{
	uint16_t *hx = (uint16_t *)x, *hy = (uint16_t *)y;
	const unsigned int half = dtype == OPENREG_BF16 ? 0x3f00 : 0x3800;
	const unsigned int digits = dtype == OPENREG_BF16 ? 0x7f : 0x3ff;
	int64_t i;

	for (i = 0; i < POINTS; i++) {
		if (dtype == OPENREG_F32) {
			x[i] = (float)random_unit();
			y[i] = (float)random_unit();
		} else {
			hx[i] = (uint16_t)(half | (random_u64() & digits));
			hy[i] = (uint16_t)(half | (random_u64() & digits));
		}
	}
}

/* Reports both speeds, in operations a second, and their ratio. */
static void compare(const char *what, double ours, double theirs)
{
	char longer[80];

	snprintf(longer, sizeof(longer), "%s, oneDNN by itself", what);
	report(longer, theirs, "Gop/s");
	snprintf(longer, sizeof(longer), "%s, against oneDNN", what);
	report(longer, ours / theirs, "ratio");
}

static void bench_matmuls(int64_t n)
{
	const double products = (double)n * (double)n * (double)n;
	char what[40];
	double ours;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		snprintf(what, sizeof(what), "matmul %d^3 %s", (int)n,
			 floats[i].name);
		fill_floats(floats[i].dtype);
		ours = bench_matmul(what, floats[i].dtype, n);
		compare(what, ours,
			2e-9 * products /
				native_matmul(floats[i].dtype, n, threads));
	}
}

static void bench_memcpy(void)
{
	double least = 1e9, t;
	int i;

	for (i = 0; i < 10; i++) {
		t = seconds();
		memcpy(z, x, POINTS * 4);
		t = seconds() - t;
		least = t < least ? t : least;
	}
	report("memcpy of 64 MiB, bytes read and written",
	       8e-9 * POINTS / least, "GB/s");
}

enum { IMAGES = 16, CHANNELS = 64, EDGE = 56, TAPS = 3 };

/* The immediates of CONV and POOL for windows of 3 by 3. */
static void put_windows(int64_t stride)
{
	const int64_t three[5][3] = { { 1, TAPS, TAPS },
				      { 1, EDGE, EDGE },
				      { 1, stride, stride },
				      { 0, 1, 1 },
				      { 1, 1, 1 } };
	unsigned int i;

	for (i = 0; i < 15; i++)
		args_imm_i(&args, three[i / 3][i % 3]);
}

static double bench_conv(const char *what, unsigned int kind, unsigned int dtype)
{
	static const int64_t size[7] = { IMAGES, 1, CHANNELS, CHANNELS,
					 1, EDGE, EDGE };
	static const int64_t plane = EDGE * EDGE, image = CHANNELS * plane;
	const int64_t out[7] = { image, 0, plane, 0, 0, EDGE, 1 };
	const int64_t in[7] = { image, 0, 0, plane, 0, EDGE, 1 };
	const int64_t weight[7] = { 0, 0, CHANNELS * TAPS * TAPS, TAPS * TAPS,
				    0, TAPS, 1 };
	const int64_t *strides[3][3] = { { out, in, weight },
					 { in, out, weight },
					 { weight, out, in } };
	double products = (double)IMAGES * CHANNELS * image * TAPS * TAPS;
	double rate;

	args_begin(&args, OPENREG_OP_CONV, 7, size);
	args.arg[0] = (uint8_t)kind;
	args_operand(&args, dtype, z, strides[kind][0]);
	args_operand(&args, dtype, x, strides[kind][1]);
	args_operand(&args, dtype, y, strides[kind][2]);
	put_windows(1);
	rate = 2e-9 * products / best(5);
	report(what, rate, "Gop/s");
	return rate;
}

static void bench_convs(void)
{
	static const int64_t size[4] = { IMAGES, CHANNELS, EDGE, EDGE };
	const double products = (double)IMAGES * CHANNELS * CHANNELS * EDGE *
				EDGE * TAPS * TAPS;
	char what[40];
	double ours;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		snprintf(what, sizeof(what), "conv 3x3 %s, 64 channels",
			 floats[i].name);
		fill_floats(floats[i].dtype);
		ours = bench_conv(what, OPENREG_CONV_FORWARD, floats[i].dtype);
		compare(what, ours,
			2e-9 * products /
				native_conv(floats[i].dtype, size, TAPS,
					    threads));
	}
}

static void bench_pool(const char *what, unsigned int kind, unsigned int flags)
{
	static const int64_t size[5] = { IMAGES, CHANNELS, 1, EDGE / 2,
					 EDGE / 2 };
	const int64_t in[5] = { CHANNELS * EDGE * EDGE, EDGE * EDGE, 0, EDGE,
				1 };
	bool backward = flags & OPENREG_POOL_BACKWARD;
	double inputs = (double)IMAGES * CHANNELS * EDGE * EDGE;

	args_begin(&args, OPENREG_OP_POOL, 5, size);
	args.arg[0] = (uint8_t)kind;
	args.arg[1] = (uint8_t)flags;
	args_operand(&args, OPENREG_F32, z, backward ? in : NULL);
	args_operand(&args, OPENREG_F32, x, backward ? NULL : in);
	put_windows(2);
	args_imm_i(&args, 0);
	report(what, best(5) * 1e9 / inputs, "ns/input");
}

static void bench_windows(void)
{
	bench_convs();
	fill_floats(OPENREG_F32);
	bench_conv("conv 3x3 f32, 64 channels, to the data",
		   OPENREG_CONV_BACKWARD_DATA, OPENREG_F32);
	bench_conv("conv 3x3 f32, 64 channels, to the weights",
		   OPENREG_CONV_BACKWARD_WEIGHTS, OPENREG_F32);
	bench_pool("max of 3x3 f32, every other", OPENREG_POOL_MAX, 0);
	bench_pool("average of 3x3 f32, every other", OPENREG_POOL_AVG, 0);
	bench_pool("average of 3x3 f32, every other, backward",
		   OPENREG_POOL_AVG, OPENREG_POOL_BACKWARD);
}

static void bench_scan(const char *what, unsigned int mode, unsigned int axis,
		       int64_t rows, int64_t n)
{
	const int64_t size[2] = { rows, n };

	args_begin(&args, OPENREG_OP_SCAN, 2, size);
	args.arg[0] = (uint8_t)axis;
	args.arg[1] = (uint8_t)mode;
	args_operand(&args, OPENREG_F32, z, NULL);
	args_operand(&args, OPENREG_F32, x, NULL);
	report(what, best(5) * 1e9 / (double)(rows * n), "ns/element");
}

static void bench_scans(void)
{
	const int64_t million = 1 << 20;

	bench_scan("running sums f32, rows of 1024", OPENREG_SCAN_SUM, 1, 1024,
		   1024);
	bench_scan("running sums f32, columns of 1024", OPENREG_SCAN_SUM, 0,
		   1024, 1024);
	bench_scan("running sums f32, a row of 1 Mi", OPENREG_SCAN_SUM, 1, 1,
		   million);
	bench_scan("running maxima f32, rows of 1024", OPENREG_SCAN_MAX, 1,
		   1024, 1024);
	bench_scan("running logarithms of sums f32, rows of 1024",
		   OPENREG_SCAN_LOGSUMEXP, 1, 1024, 1024);
}

/* Sorts rows of n elements in x. */
static void bench_sort(const char *what, unsigned int dtype, int64_t rows,
		       int64_t n, int64_t count)
{
	const int64_t size[2] = { rows, n }, out[2] = { count, 1 };

	args_begin(&args, OPENREG_OP_SORT, 2, size);
	args.arg[0] = 1;
	args_operand(&args, dtype, z, out);
	args_operand(&args, dtype, x, NULL);
	args_operand(&args, OPENREG_I64, y, out);
	args_imm_i(&args, 0);
	args_imm_i(&args, count);
	report(what, 1e-6 * (double)(rows * n) / best(5), "M/s");
}

static void bench_sorts(void)
{
	const int64_t million = 1 << 20;

	bench_sort("sort f32, a row of 1 Mi", OPENREG_F32, 1, million, million);
	bench_sort("sort f32, a row of 8 Mi", OPENREG_F32, 1, 8 * million,
		   8 * million);
	bench_sort("sort i64, a row of 1 Mi", OPENREG_I64, 1, million, million);
	bench_sort("sort f32, rows of 1024", OPENREG_F32, 1024, 1024, 1024);
	bench_sort("sort f32, rows of 16", OPENREG_F32, 65536, 16, 16);
	bench_sort("sort f32, the first 10 of 1 Mi", OPENREG_F32, 1, million,
		   10);
}

/* Aligned like memory of the card. */
static float *numbers(void)
{
	float *p = aligned_alloc(4096, POINTS * sizeof(*p));
	int64_t i;

	if (!p)
		abort();
	for (i = 0; i < POINTS; i++)
		p[i] = (float)random_unit();
	return p;
}

int main(int argc, char **argv)
{
	static const int64_t by_row[2] = { 1, 0 }, by_column[2] = { 0, 1 };
	static atomic_size_t extra;

	if (argc > 1)
		threads = atoi(argv[1]) > 1 ? 2 : 1;
	scratch[0] = openreg_scratch_new(&extra);
	scratch[1] = openreg_scratch_new(&extra);
	if (!scratch[0] || !scratch[1])
		abort();
	x = numbers();
	y = numbers();
	z = numbers();
	bench_memcpy();
	bench_elementwise();
	bench_random();
	bench_reduce("sum of 16M f32", 3, OPENREG_V_RED_SUM, (int64_t[2]){ 0 });
	bench_reduce("row sums of 4096^2 f32", 2, OPENREG_V_RED_SUM, by_row);
	bench_reduce("column sums of 4096^2 f32", 1, OPENREG_V_RED_SUM,
		     by_column);
	bench_reduce("row argmax of 4096^2 f32", 2, OPENREG_V_RED_MAX, by_row);
	bench_softmax("softmax along rows of 4096^2 f32", 1, SIDE, SIDE);
	bench_softmax("softmax along columns of 4096^2 f32", 0, SIDE, SIDE);
	bench_softmax("softmax of 10^4 rows of 100 f32", 1, 10000, 100);
	bench_softmax("softmax of 10^5 rows of 10 f32", 1, 100000, 10);
	bench_stages("rows of 4096^2 f32", 2, SIDE, SIDE);
	bench_stages("columns of 4096^2 f32", 1, SIDE, SIDE);
	bench_stages("10^4 rows of 100 f32", 2, 10000, 100);
	bench_stages("10^5 rows of 10 f32", 2, 100000, 10);
	bench_indices();
	bench_matmuls(1024);
	bench_matmuls(2048);
	fill_floats(OPENREG_F32);
	bench_matmul("matmul 1024^3 f64", OPENREG_F64, 1024);
	bench_matmul("matmul 1024^3 i32", OPENREG_I32, 1024);
	bench_windows();
	bench_scans();
	bench_sorts();
	openreg_scratch_free(scratch[0]);
	openreg_scratch_free(scratch[1]);
	free(x);
	free(y);
	free(z);
	return 0;
}
