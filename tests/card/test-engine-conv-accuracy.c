// SPDX-License-Identifier: MIT
/*
 * CONV of real numbers: results are close to a sum in f64, in either order of the slices,
 * and infinities stay where they belong. test-engine-conv.c has the layouts.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"

#define DIMS 7

/* A tensor: its numbers, dense and row-major, and their layout in memory. */
struct tensor {
	int64_t size[DIMS], count;
	struct layout at;
	double *value;
	unsigned char *memory;
};

struct problem {
	unsigned int kind, dtype;
	int64_t n, g, oc, ic;
	int64_t kernel[3], input[3], output[3], stride[3], padding[3];
	int64_t dilation[3];
	bool has_bias;
	struct tensor x, y, w, bias;
	struct openreg_args args;
};

static struct problem p;

static struct tensor *result(void)
{
	return p.kind == OPENREG_CONV_FORWARD	    ? &p.y
	       : p.kind == OPENREG_CONV_BACKWARD_DATA ? &p.x
						      : &p.w;
}

static void dense(struct tensor *t)
{
	t->at = (struct layout){ .extent = t->count };
	dense_strides(DIMS, t->size, t->at.stride);
}

static void make(struct tensor *t, unsigned int dims, const int64_t space[3],
		 bool random)
{
	const int64_t all[DIMS] = { p.n, p.g, p.oc, p.ic, space[0], space[1],
				    space[2] };
	unsigned int d;

	t->count = 1;
	for (d = 0; d < DIMS; d++) {
		t->size[d] = dims >> d & 1 ? all[d] : 1;
		t->count *= t->size[d];
	}
	if (random)
		random_layout(&t->at, DIMS, t->size, false);
	else
		dense(t);
	for (d = 0; d < DIMS; d++) {
		if (!(dims >> d & 1))
			t->at.stride[d] = 0;
	}
	t->value = calloc((size_t)t->count, sizeof(double));
	t->memory = calloc((size_t)t->at.extent + 1, 8);
	assert_non_null(t->value);
	assert_non_null(t->memory);
}

static void release(struct tensor *t)
{
	free(t->value);
	free(t->memory);
}

static int64_t set_outputs(void)
{
	int64_t outs = 1;
	unsigned int d;

	for (d = 0; d < 3; d++) {
		int64_t reach = (p.kernel[d] - 1) * p.dilation[d] + 1;

		p.output[d] = (p.input[d] + 2 * p.padding[d] - reach) /
				      p.stride[d] +
			      1;
		outs *= p.output[d];
	}
	return outs;
}

static void begin(bool random)
{
	set_outputs();
	make(&p.x, 0x7b, p.input, random);
	make(&p.y, 0x77, p.output, random);
	make(&p.w, 0x7e, p.kernel, random);
	make(&p.bias, p.kind == OPENREG_CONV_FORWARD ? 0x6 : 0xa, p.kernel,
	     random);
}

static void end(void)
{
	release(&p.x);
	release(&p.y);
	release(&p.w);
	release(&p.bias);
}

static void set(struct tensor *t, int64_t i, double x)
{
	int64_t at[DIMS], rest = i, place;
	int d;

	for (d = DIMS; d-- > 0; rest /= t->size[d])
		at[d] = rest % t->size[d];
	place = layout_at(&t->at, DIMS, at);
	openreg_convert(t->memory + place * openreg_dtype_size(p.dtype),
			p.dtype, 1, &x, OPENREG_F64, 1, 1);
	t->value[i] = element_get(p.dtype, t->memory, place);
}

/* A number of magnitude 2^low to 2^high, with either sign. */
static void fill(struct tensor *t, int low, int high)
{
	int64_t i;

	for (i = 0; i < t->count; i++) {
		double x = ldexp(1 + random_unit(),
				 (int)random_range(low, high - 1));

		set(t, i, random_range(0, 1) ? x : -x);
	}
}

static void make_args(void)
{
	const int64_t size[DIMS] = { p.n,	  p.g,		p.oc,
				     p.ic,	  p.output[0],	p.output[1],
				     p.output[2] };
	struct tensor *order[][3] = {
		{ &p.y, &p.x, &p.w },
		{ &p.x, &p.y, &p.w },
		{ &p.w, &p.y, &p.x },
	};
	const int64_t *imm[] = { p.kernel, p.input, p.stride, p.padding,
				 p.dilation };
	unsigned int i;

	args_begin(&p.args, OPENREG_OP_CONV, DIMS, size);
	p.args.arg[0] = (uint8_t)p.kind;
	for (i = 0; i < 3u + p.has_bias; i++) {
		struct tensor *t = i < 3 ? order[p.kind][i] : &p.bias;

		args_operand(&p.args, p.dtype,
			     t->memory +
				     t->at.origin * openreg_dtype_size(p.dtype),
			     t->at.stride);
	}
	for (i = 0; i < 15; i++)
		args_imm_i(&p.args, imm[i / 3][i % 3]);
	assert_int_equal(args_check(&p.args), 0);
}

/* The result as numbers. */
static double *read_result(void)
{
	struct tensor *t = result();
	double *to = calloc((size_t)t->count, sizeof(*to));
	int64_t at[DIMS] = { 0 }, i = 0;

	assert_non_null(to);
	do
		to[i++] = element_get(p.dtype, t->memory,
				      layout_at(&t->at, DIMS, at));
	while (next_point(DIMS, t->size, at));
	return to;
}

/* Fills the result with NaNs, which stay where no slice writes. */
static void poison_result(void)
{
	struct tensor *t = result();

	memset(t->memory, 0xff, ((size_t)t->at.extent + 1) * 8);
}

/* Runs the packet with either order of its slices. */
static double *run_packet(void)
{
	size_t bytes = (size_t)result()->count * sizeof(double);
	double *once, *again;

	make_args();
	poison_result();
	args_run_order(&p.args, false);
	once = read_result();
	poison_result();
	args_run_order(&p.args, true);
	again = read_result();
	assert_memory_equal(once, again, bytes);
	free(again);
	return once;
}

/* The index of a point in the first channel of an image and group. */
static int64_t place(const struct tensor *t, int64_t n, int64_t g,
		     const int64_t *space)
{
	const int64_t at[DIMS] = { n, g, 0, 0, space[0], space[1], space[2] };
	int64_t i = 0;
	int d;

	for (d = 0; d < DIMS; d++)
		i = i * t->size[d] + (t->size[d] > 1 ? at[d] : 0);
	return i;
}

static int64_t plane(const struct tensor *t)
{
	return t->size[4] * t->size[5] * t->size[6];
}

/* Finds the input at a tap of an output. Returns false if it is outside. */
static bool find(int64_t o, int64_t k, int64_t out[3], int64_t tap[3],
		 int64_t in[3])
{
	int d;

	for (d = 3; d-- > 0; o /= p.output[d], k /= p.kernel[d]) {
		out[d] = o % p.output[d];
		tap[d] = k % p.kernel[d];
	}
	for (d = 0; d < 3; d++) {
		in[d] = out[d] * p.stride[d] - p.padding[d] +
			tap[d] * p.dilation[d];
		if (in[d] < 0 || in[d] >= p.input[d])
			return false;
	}
	return true;
}

/* Adds all pairs of channels at one output, tap, image and group. */
static void add_channels(int64_t n, int64_t g, const int64_t *out,
			 const int64_t *tap, const int64_t *in, double *sum,
			 double *all)
{
	int64_t x0 = place(&p.x, n, g, in), y0 = place(&p.y, n, g, out);
	int64_t w0 = place(&p.w, 0, g, tap), i;

	for (i = 0; i < p.oc * p.ic; i++) {
		int64_t x = x0 + i % p.ic * plane(&p.x);
		int64_t y = y0 + i / p.ic * plane(&p.y);
		int64_t w = w0 + i * plane(&p.w), to;
		double product;

		if (p.kind == OPENREG_CONV_FORWARD) {
			product = p.x.value[x] * p.w.value[w];
			to = y;
		} else if (p.kind == OPENREG_CONV_BACKWARD_DATA) {
			product = p.y.value[y] * p.w.value[w];
			to = x;
		} else {
			product = p.y.value[y] * p.x.value[x];
			to = w;
		}
		sum[to] += product;
		all[to] += fabs(product);
	}
}

static void add_bias(double *sum, double *all)
{
	const struct tensor *t = result();
	int64_t i;

	for (i = 0; p.has_bias && i < t->count; i++) {
		double b = p.bias.value[i / plane(t) % p.bias.count];

		sum[i] += b;
		all[i] += fabs(b);
	}
}

/* No error may exceed a bound that is relative to the sum of the magnitudes. */
static void compare(const double *ours)
{
	int64_t outs = p.output[0] * p.output[1] * p.output[2];
	int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2], i, o, k;
	int64_t terms = p.kind == OPENREG_CONV_BACKWARD_WEIGHTS ?
				p.n * outs :
				taps * (p.ic > p.oc ? p.ic : p.oc);
	const double ulp = p.dtype == OPENREG_F32   ? FLT_EPSILON / 2
			   : p.dtype == OPENREG_F16 ? 0x1p-11
						    : 0x1p-8;
	double *sum = calloc((size_t)result()->count, sizeof(*sum));
	double *all = calloc((size_t)result()->count, sizeof(*all));

	assert_non_null(sum);
	assert_non_null(all);
	for (i = 0; i < p.n * p.g * outs * taps; i++) {
		int64_t out[3], tap[3], in[3];

		k = i % taps;
		o = i / taps % outs;
		if (find(o, k, out, tap, in))
			add_channels(i / taps / outs / p.g, i / taps / outs % p.g,
				     out, tap, in, sum, all);
	}
	add_bias(sum, all);
	for (i = 0; i < result()->count; i++) {
		double error = fabs(ours[i] - sum[i]);

		if (!(error <= ((double)terms / 8 + 4) * ulp * all[i]))
			fail_msg("kind %u, dtype %u, %ld: %g is not %g", p.kind,
				 p.dtype, (long)i, ours[i], sum[i]);
	}
	free(sum);
	free(all);
}

static void expect_close(void)
{
	double *ours = run_packet();

	compare(ours);
	free(ours);
}

static void fill_sources(int low, int high)
{
	fill(&p.x, low, high);
	fill(&p.y, low, high);
	fill(&p.w, low, high);
	fill(&p.bias, low, high);
}

static int64_t channels(void)
{
	static const int64_t some[] = { 24, 31, 32, 32, 50, 64, 72 };

	return some[random_range(0, 6)];
}

static void random_space(unsigned int d, bool used)
{
	p.kernel[d] = used ? random_range(1, d ? 3 : 2) : 1;
	p.stride[d] = used && p.kernel[d] > 1 ? random_range(1, 2) : 1;
	p.dilation[d] = used && p.stride[d] == 1 ? random_range(1, 2) : 1;
	p.padding[d] = used ? random_range(0, p.kernel[d]) : 0;
	p.input[d] = used ? random_range(5, 12) : 1;
	if (d == 0 && used)
		p.kernel[1] = p.kernel[2] = 2;
}

static void random_problem(unsigned int kind, unsigned int dtype, bool deep)
{
	unsigned int d;

	p = (struct problem){ .kind = kind, .dtype = dtype };
	p.g = random_range(1, 2);
	p.oc = channels();
	p.ic = channels();
	p.has_bias = kind != OPENREG_CONV_BACKWARD_WEIGHTS &&
		     random_range(0, 1);
	for (d = 3; d-- > 0;)
		random_space(d, d || deep);
	p.n = random_range(1, 3);
	/* A long sum for each weight. */
	if (kind == OPENREG_CONV_BACKWARD_WEIGHTS)
		p.n = 256 / set_outputs() + random_range(1, 2);
	for (d = 0; d < 3 && kind == OPENREG_CONV_BACKWARD_DATA; d++)
		p.stride[d] = 1;
}

static void test_shapes(void **state)
{
	static const unsigned int dtypes[] = { OPENREG_F32, OPENREG_F32,
					       OPENREG_F16, OPENREG_BF16 };
	unsigned int i;

	(void)state;
	for (i = 0; i < (SCALE > 1 ? 24 : 72); i++) {
		random_seed(i);
		random_problem(i % 3, dtypes[i / 3 % 4], i % 12 > 8);
		begin(i & 1);
		fill_sources(-6, 3);
		expect_close();
		end();
	}
}

/* A kernel of 3 x 3 over n images. */
static void square(unsigned int kind, int64_t n, int64_t channels,
		   int64_t edge, int64_t stride)
{
	p = (struct problem){ .kind = kind, .dtype = OPENREG_F32, .n = n,
			      .g = 1, .oc = channels, .ic = channels,
			      .kernel = { 1, 3, 3 },
			      .input = { 1, edge, edge },
			      .stride = { 1, stride, stride },
			      .padding = { 0, 1, 1 },
			      .dilation = { 1, 1, 1 } };
	begin(false);
}

/* Shapes of networks: many tiles, strides, numbers far apart. */
static void test_networks(void **state)
{
	static const int64_t shapes[][4] = {
		{ 8, 64, 16, 1 }, { 8, 64, 12, 2 }, { 1, 96, 23, 1 },
		{ 1, 32, 60, 2 }, { 70, 128, 2, 1 },
	};
	unsigned int i, kind;

	(void)state;
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]);
	     i += SCALE > 1 ? 3 : 1) {
		for (kind = 0; kind < 3; kind++) {
			random_seed(i);
			square(kind, shapes[i][0], shapes[i][1], shapes[i][2],
			       shapes[i][3]);
			fill_sources(i & 1 ? -46 : -3, i & 1 ? 50 : 3);
			expect_close();
			end();
		}
	}
}

/* Taps far apart. */
static void test_wide(void **state)
{
	unsigned int kind;

	(void)state;
	for (kind = 0; kind < 3; kind++) {
		random_seed(kind);
		p = (struct problem){ .kind = kind, .dtype = OPENREG_F32, .n = 120,
				      .g = 1, .oc = 32, .ic = 32,
				      .kernel = { 1, 1, 3 },
				      .input = { 1, 1, 203 },
				      .stride = { 1, 1, 1 },
				      .dilation = { 1, 1, 100 } };
		begin(false);
		fill_sources(-1, 1);
		expect_close();
		end();
	}
}

/* An infinity must not change the other images. */
static void test_other_images(void **state)
{
	struct tensor *y;
	double *ours;
	int64_t i, near = 0;

	(void)state;
	random_seed(5);
	square(OPENREG_CONV_FORWARD, 8, 64, 16, 1);
	y = &p.y;
	fill_sources(-1, 1);
	set(&p.x, 3 * p.x.count / 8 + 5000, INFINITY);
	ours = run_packet();
	for (i = 0; i < y->count; i++) {
		near += !isfinite(ours[i]);
		if (i < 3 * y->count / 8 || i >= 4 * y->count / 8)
			assert_true(isfinite(ours[i]));
	}
	assert_int_equal(near, 9 * 64);
	free(ours);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_networks),
		cmocka_unit_test(test_wide),
		cmocka_unit_test(test_other_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
