// SPDX-License-Identifier: MIT
/*
 * Products and convolutions of bf16 on hosts that multiply bf16 faster than f32. Whole numbers: each sum is
 * exact in f32, whatever its order, and is rounded once.
 */
#include <math.h>
#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>

#include "conv.h"
#include "engine-harness.h"
#include "matmul.h"

#define DIMS 7

/* Numbers, dense and row-major, and how memory holds them. */
struct tensor {
	unsigned int ndim;
	int64_t size[DIMS], count;
	struct layout at;
	float *value;
	uint16_t *memory;
};

enum order { DENSE, CHANNELS_LAST, TURNED, GAPS, APART };

static struct openreg_scratch *scratch;
static atomic_size_t extra; /* of scratch's jobs */

static bool has_unit(void)
{
	return openreg_gemm_has_unit(OPENREG_BF16);
}

static uint16_t as_half(float x)
{
	uint16_t half;

	openreg_convert(&half, OPENREG_BF16, 1, &x, OPENREG_F32, 1, 1);
	return half;
}

static float as_float(uint16_t half)
{
	float x;

	openreg_convert(&x, OPENREG_F32, 1, &half, OPENREG_BF16, 1, 1);
	return x;
}

static void lay_out(struct tensor *t, enum order order)
{
	int64_t step = order == APART ? 2 : 1;
	unsigned int i;

	t->at = (struct layout){ .origin = 0 };
	for (i = 0; i < t->ndim; i++) {
		/* [n, g, oc, ic, space]: space is outside of channels. */
		static const uint8_t last[DIMS] = { 3, 2, 1, 6, 5, 4, 0 };
		static const uint8_t turned[4] = { 1, 2, 3, 0 };
		unsigned int d = order == CHANNELS_LAST ? last[i] :
				 order == TURNED	? turned[i] :
							  t->ndim - 1 - i;

		t->at.stride[d] = step;
		step = step * t->size[d] + (order == GAPS ? 3 : 0);
	}
	t->at.extent = step;
}

static void make(struct tensor *t, enum order order)
{
	int64_t at[DIMS] = { 0 }, i = 0;
	unsigned int d;

	for (t->count = 1, d = 0; d < t->ndim; d++)
		t->count *= t->size[d];
	lay_out(t, order);
	t->value = calloc((size_t)t->count, sizeof(*t->value));
	t->memory = calloc((size_t)t->at.extent + 1, sizeof(*t->memory));
	assert_non_null(t->value);
	assert_non_null(t->memory);
	do {
		t->value[i] = (float)random_range(-3, 3);
		t->memory[layout_at(&t->at, t->ndim, at)] =
			as_half(t->value[i++]);
	} while (next_point(t->ndim, t->size, at));
}

static void release(struct tensor *t)
{
	free(t->value);
	free(t->memory);
}

/* The result against t's numbers; NaN is any NaN. */
static void expect_values(const struct tensor *t)
{
	int64_t at[DIMS] = { 0 }, i = 0;

	do {
		uint16_t ours = t->memory[layout_at(&t->at, t->ndim, at)];
		uint16_t right = as_half(t->value[i]);

		if (isnan(t->value[i]) ? (ours & 0x7fff) <= 0x7f80 :
					 ours != right)
			fail_msg("%ld: %04x is not %04x", (long)i, ours, right);
		i++;
	} while (next_point(t->ndim, t->size, at));
}

static void soil(struct tensor *t)
{
	memset(t->memory, 0xff, ((size_t)t->at.extent + 1) * 2);
}

/* A tensor's strides over a packet's dimensions, of which it has some. */
static void operand(struct openreg_args *args, const struct tensor *t,
		    unsigned int dims)
{
	int64_t stride[DIMS] = { 0 };
	unsigned int d;

	for (d = 0; d < t->ndim; d++)
		stride[d] = dims >> d & 1 ? t->at.stride[d] : 0;
	args_operand(args, OPENREG_BF16, t->memory + t->at.origin, stride);
}

struct product {
	int64_t size[4]; /* batch, m, n, k */
	enum order a, b, d;
	bool b_shared, turned, add;
};

static struct tensor matrix(const struct product *p, unsigned int dims,
			    enum order order)
{
	struct tensor t = { .ndim = 4 };
	unsigned int d;

	for (d = 0; d < 4; d++)
		t.size[d] = dims >> d & 1 ? p->size[d] : 1;
	make(&t, order);
	return t;
}

static void multiply(const struct product *p, const struct tensor *a,
		     const struct tensor *b, struct tensor *d)
{
	const int64_t *s = p->size;
	int64_t i, j, n, k;

	for (i = 0; i < s[0] * s[1]; i++) {
		int64_t batch = p->b_shared ? 0 : i / s[1];
		const float *x = a->value + i * s[3];

		for (n = 0; n < s[2]; n++) {
			const float *y = b->value + (batch * s[2] + n) * s[3];
			float sum = 0;

			for (k = 0; k < s[3]; k++)
				sum += x[k] * y[k];
			j = i * s[2] + n;
			d->value[j] = sum + (p->add ? d->value[j] : 0);
		}
	}
}

/* B's numbers lie along k; where turned is not set, memory has them along n. */
static void lay_out_b(const struct product *p, struct tensor *b)
{
	int64_t at[4] = { 0 }, i = 0;

	if (p->turned)
		return;
	b->at.stride[2] = 1;
	b->at.stride[3] = p->size[2] + (p->b == GAPS ? 3 : 0);
	b->at.stride[0] = b->at.stride[3] * p->size[3];
	b->at.extent = b->at.stride[0] * b->size[0];
	free(b->memory);
	b->memory = calloc((size_t)b->at.extent + 1, sizeof(*b->memory));
	assert_non_null(b->memory);
	do
		b->memory[layout_at(&b->at, 4, at)] = as_half(b->value[i++]);
	while (next_point(4, b->size, at));
}

static void one_product(const struct product *p, float other)
{
	struct tensor a = matrix(p, 0xb, p->a), d = matrix(p, 0x7, p->d);
	struct tensor b = matrix(p, p->b_shared ? 0xc : 0xd, p->b);
	struct openreg_args args;

	lay_out_b(p, &b);
	if (other != 0) {
		int64_t i = a.count / 2, at[4] = { 0 }, rest = i;
		int j;

		for (j = 3; j >= 0; rest /= a.size[j--])
			at[j] = rest % a.size[j];
		a.value[i] = other;
		a.memory[layout_at(&a.at, 4, at)] = as_half(other);
	}
	multiply(p, &a, &b, &d);
	args_begin(&args, OPENREG_OP_MATMUL, 4, p->size);
	operand(&args, &d, 0x7);
	operand(&args, &a, 0xb);
	operand(&args, &b, p->b_shared ? 0xc : 0xd);
	if (p->add)
		operand(&args, &d, 0x7);
	args_imm_f(&args, 1);
	args_imm_f(&args, p->add);
	assert_int_equal(args_check(&args), OPENREG_FAULT_NONE);
	if (!p->add)
		soil(&d);
	args_run_order(&args, random_range(0, 1));
	expect_values(&d);
	release(&a);
	release(&b);
	release(&d);
}

static void test_products(void **state)
{
	static const struct product some[] = {
		{ { 1, 600, 520, 96 }, DENSE, DENSE, DENSE, false, false, false },
		/* Tiles of one row, of one column, and k that is odd. */
		{ { 1, 769, 513, 45 }, GAPS, GAPS, GAPS, false, false, false },
		{ { 1, 769, 513, 45 }, DENSE, DENSE, DENSE, false, true, false },
		{ { 2, 400, 300, 145 }, DENSE, DENSE, DENSE, false, true, false },
		{ { 2, 400, 300, 145 }, DENSE, DENSE, GAPS, true, false, false },
		/* To D as it is, by way of f32; and D by columns. */
		{ { 1, 600, 520, 96 }, DENSE, DENSE, DENSE, false, false, true },
		{ { 1, 300, 260, 600 }, TURNED, DENSE, TURNED, false, true, false },
		{ { 1, 300, 260, 600 }, TURNED, GAPS, DENSE, false, true, true },
		{ { 1, 120, 520, 300 }, DENSE, DENSE, DENSE, false, false, false },
		{ { 1, 530, 2, 2 }, DENSE, DENSE, DENSE, false, false, false },
		{ { 1, 300, 260, 600 }, APART, DENSE, DENSE, false, true, false },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		random_seed(i);
		one_product(&some[i], 0);
	}
}

/* Infinities and NaN go where they belong. */
static void test_infinities(void **state)
{
	static const float other[] = { INFINITY, -INFINITY, NAN };
	static const struct product p = { { 1, 520, 256, 128 }, DENSE, DENSE, DENSE,
					  false, true, false };
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		random_seed(i);
		one_product(&p, other[i]);
	}
}

struct problem {
	unsigned int kind;
	int64_t n, g, oc, ic;
	int64_t kernel[3], input[3], stride[3], padding[3], dilation[3];
	enum order order;
	bool bias;
	int64_t output[3];
	unsigned int repeated; /* bit d: weights have stride 0 along d */
};

static struct tensor tensor_of(const struct problem *p, unsigned int dims,
			       const int64_t space[3], enum order order)
{
	const int64_t all[DIMS] = { p->n,     p->g,	p->oc,	 p->ic,
				    space[0], space[1], space[2] };
	struct tensor t = { .ndim = DIMS };
	unsigned int d;

	for (d = 0; d < DIMS; d++)
		t.size[d] = dims >> d & 1 ? all[d] : 1;
	make(&t, order);
	return t;
}

/* A tap of an output, and the input there; false: outside. */
static bool find(const struct problem *p, int64_t o, int64_t k, int64_t *in)
{
	int64_t at[3];
	int d;

	for (d = 3; d-- > 0; o /= p->output[d], k /= p->kernel[d]) {
		at[d] = o % p->output[d] * p->stride[d] - p->padding[d] +
			k % p->kernel[d] * p->dilation[d];
		if (at[d] < 0 || at[d] >= p->input[d])
			return false;
	}
	*in = (at[0] * p->input[1] + at[1]) * p->input[2] + at[2];
	return true;
}

static int64_t volume(const int64_t size[3])
{
	return size[0] * size[1] * size[2];
}

struct channels {
	int64_t x, y, w, x_step, y_step, w_step;
};

/* All pairs of channels. */
static void add_products(const struct problem *p, const struct channels *at,
			 const float *x, const float *y, const float *w,
			 float *to)
{
	int64_t i, j;

	for (i = 0; i < p->oc; i++) {
		for (j = 0; j < p->ic; j++) {
			int64_t at_x = at->x + j * at->x_step;
			int64_t at_y = at->y + i * at->y_step;
			float weight = w[at->w + (i * p->ic + j) * at->w_step];

			if (p->kind == OPENREG_CONV_FORWARD)
				to[at_y] += x[at_x] * weight;
			else
				to[at_x] += y[at_y] * weight;
		}
	}
}

static void convolve(const struct problem *p, struct tensor *x,
		     struct tensor *y, const struct tensor *w,
		     const struct tensor *bias)
{
	bool forward = p->kind == OPENREG_CONV_FORWARD;
	struct tensor *to = forward ? y : x;
	int64_t outs = volume(p->output), taps = volume(p->kernel), i, in;
	int64_t ins = volume(p->input);

	for (i = 0; i < to->count; i++)
		to->value[i] = p->bias ? bias->value[i / outs % bias->count] : 0;
	for (i = 0; i < p->n * p->g * outs * taps; i++) {
		int64_t k = i % taps, o = i / taps % outs, ng = i / taps / outs;
		struct channels at = { .x_step = ins, .y_step = outs,
				       .w_step = taps };

		if (!find(p, o, k, &in))
			continue;
		at.x = ng * p->ic * ins + in;
		at.y = ng * p->oc * outs + o;
		at.w = ng % p->g * p->oc * p->ic * taps + k;
		add_products(p, &at, x->value, y->value, w->value, to->value);
	}
}

static bool is_whole(const struct openreg_args *args, bool *rows)
{
	const struct openreg_conv *cv;
	struct openreg_job *job;
	bool later, whole;

	job = openreg_job_new(args, scratch, &later);
	assert_non_null(job);
	cv = (const struct openreg_conv *)job->priv;
	whole = cv->whole.on;
	*rows = whole && cv->whole.row_slices > 1;
	openreg_job_free(job);
	return whole;
}

static void make_args(struct openreg_args *args, const struct problem *p,
		      const struct tensor *x, const struct tensor *y,
		      const struct tensor *w, const struct tensor *bias)
{
	const int64_t size[DIMS] = { p->n,	   p->g,	 p->oc,
				     p->ic,	   p->output[0], p->output[1],
				     p->output[2] };
	const int64_t *imm[] = { p->kernel, p->input, p->stride, p->padding,
				 p->dilation };
	bool forward = p->kind == OPENREG_CONV_FORWARD;
	unsigned int i;

	args_begin(args, OPENREG_OP_CONV, DIMS, size);
	args->arg[0] = (uint8_t)p->kind;
	operand(args, forward ? y : x, forward ? 0x77 : 0x7b);
	operand(args, forward ? x : y, forward ? 0x7b : 0x77);
	operand(args, w, 0x7e);
	if (p->bias)
		operand(args, bias, 0x6);
	for (i = 0; i < 15; i++)
		args_imm_i(args, imm[i / 3][i % 3]);
	assert_int_equal(args_check(args), OPENREG_FAULT_NONE);
}

static void make_operands(struct problem *p, struct tensor *x, struct tensor *y,
			  struct tensor *w, struct tensor *bias)
{
	unsigned int d;

	for (d = 0; d < 3; d++)
		p->output[d] = (p->input[d] + 2 * p->padding[d] -
				(p->kernel[d] - 1) * p->dilation[d] - 1) /
				       p->stride[d] +
			       1;
	*x = tensor_of(p, 0x7b, p->input, p->order);
	*y = tensor_of(p, 0x77, p->output, p->order);
	*w = tensor_of(p, 0x7e, p->kernel, p->order);
	*bias = tensor_of(p, 0x6, (const int64_t[]){ 1, 1, 1 }, DENSE);
}

/* Along these dimensions all elements are one; it has the last one's number. */
static void repeat(struct tensor *t, unsigned int dims)
{
	int64_t at[DIMS] = { 0 }, i = 0;
	unsigned int d;

	for (d = 0; d < t->ndim; d++) {
		if (dims >> d & 1)
			t->at.stride[d] = 0;
	}
	do
		t->memory[layout_at(&t->at, t->ndim, at)] =
			as_half(t->value[i++]);
	while (next_point(t->ndim, t->size, at));
	i = 0;
	do
		t->value[i++] = as_float(
			t->memory[layout_at(&t->at, t->ndim, at)]);
	while (next_point(t->ndim, t->size, at));
}

static void make_all(struct problem *p, struct tensor *x, struct tensor *y,
		     struct tensor *w, struct tensor *bias)
{
	make_operands(p, x, y, w, bias);
	repeat(w, p->repeated);
	convolve(p, x, y, w, bias);
}

/* whole: oneDNN's convolutions are to do it. */
static bool one_problem(struct problem *p, bool whole)
{
	struct tensor x, y, w, bias;
	struct openreg_args args;
	bool rows;

	make_all(p, &x, &y, &w, &bias);
	soil(p->kind == OPENREG_CONV_FORWARD ? &y : &x);
	make_args(&args, p, &x, &y, &w, &bias);
	if (is_whole(&args, &rows) != (whole && has_unit()))
		fail_msg("kind %u, %ld to %ld channels: %s", p->kind,
			 (long)p->ic, (long)p->oc,
			 whole ? "not by oneDNN" : "by oneDNN");
	args_run_order(&args, random_range(0, 1));
	expect_values(p->kind == OPENREG_CONV_FORWARD ? &y : &x);
	release(&x);
	release(&y);
	release(&w);
	release(&bias);
	return rows;
}

#define FORWARD OPENREG_CONV_FORWARD
#define TO_DATA OPENREG_CONV_BACKWARD_DATA

static const struct problem problems[] = {
	{ FORWARD, 5, 1, 32, 48, { 1, 3, 3 }, { 1, 14, 14 }, { 1, 1, 1 },
	  { 0, 1, 1 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
	/* The last row and column that no output meets, one image in rows. */
	{ FORWARD, 1, 1, 33, 40, { 1, 3, 3 }, { 1, 200, 120 }, { 1, 2, 2 },
	  { 0, 0, 0 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
	{ FORWARD, 1, 1, 32, 32, { 1, 5, 3 }, { 1, 90, 80 }, { 1, 1, 1 },
	  { 0, 4, 2 }, { 1, 2, 2 }, GAPS, false, { 0 }, 0 },
	{ FORWARD, 2, 1, 32, 3, { 1, 7, 7 }, { 1, 70, 70 }, { 1, 2, 2 },
	  { 0, 3, 3 }, { 1, 1, 1 }, DENSE, false, { 0 }, 0 },
	{ FORWARD, 3, 2, 32, 32, { 1, 3, 3 }, { 1, 20, 20 }, { 1, 1, 1 },
	  { 0, 1, 1 }, { 1, 1, 1 }, CHANNELS_LAST, true, { 0 }, 0 },
	{ FORWARD, 5, 1, 64, 64, { 1, 1, 1 }, { 1, 30, 30 }, { 1, 1, 1 },
	  { 0, 0, 0 }, { 1, 1, 1 }, DENSE, false, { 0 }, 0 },
	{ FORWARD, 5, 1, 64, 64, { 1, 1, 5 }, { 1, 1, 200 }, { 1, 1, 1 },
	  { 0, 0, 2 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
	{ FORWARD, 2, 1, 32, 32, { 3, 3, 3 }, { 8, 10, 12 }, { 1, 1, 1 },
	  { 1, 1, 1 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
	{ TO_DATA, 5, 1, 32, 48, { 1, 3, 3 }, { 1, 14, 14 }, { 1, 1, 1 },
	  { 0, 1, 1 }, { 1, 1, 1 }, DENSE, false, { 0 }, 0 },
	{ TO_DATA, 5, 1, 32, 48, { 1, 3, 3 }, { 1, 30, 28 }, { 1, 2, 2 },
	  { 0, 0, 0 }, { 1, 1, 1 }, GAPS, false, { 0 }, 0 },
	/* Three outputs in slices of two and one: positions, images, volumes. */
	{ FORWARD, 5, 1, 400, 700, { 1, 1, 1 }, { 1, 1, 2731 }, { 1, 1, 1365 },
	  { 0, 0, 0 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
	{ FORWARD, 5, 1, 400, 700, { 1, 1, 1 }, { 1, 2731, 1 }, { 1, 1365, 1 },
	  { 0, 0, 0 }, { 1, 1, 1 }, GAPS, true, { 0 }, 0 },
	{ FORWARD, 5, 1, 16, 16, { 1, 1, 1 }, { 3, 132, 150 }, { 1, 1, 1 },
	  { 0, 0, 0 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
};

static void test_convolutions(void **state)
{
	unsigned int i, in_rows = 0;

	(void)state;
	for (i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
		struct problem p = problems[i];

		random_seed(i);
		in_rows += one_problem(&p, true);
	}
	assert_true(in_rows >= 5 || !has_unit());
}

/* Weights that repeat along dimensions, as expand() has them. */
static void test_repeated_weights(void **state)
{
	static const struct problem some[] = {
		{ FORWARD, 2, 2, 32, 32, { 1, 3, 3 }, { 1, 12, 12 },
		  { 1, 1, 1 }, { 0, 1, 1 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
		{ TO_DATA, 2, 1, 32, 32, { 3, 3, 3 }, { 4, 8, 8 }, { 1, 1, 1 },
		  { 1, 1, 1 }, { 1, 1, 1 }, GAPS, false, { 0 }, 0 },
	};
	/* Bits: g, oc, ic, space. */
	static const uint8_t repeated[] = { 0x2,  0x4,	0x8,  0x10, 0x20, 0x40,
					    0x6,  0xa,	0xc,  0x18, 0x30, 0x60,
					    0x70, 0x72, 0x74, 0x78, 0x7e };
	unsigned int i, j;

	(void)state;
	for (i = 0; i < 2; i++) {
		for (j = 0; j < sizeof(repeated); j++) {
			struct problem p = some[i];

			random_seed(j);
			p.repeated = repeated[j];
			one_problem(&p, true);
		}
	}
}

/* Positions are apart, and slices have two of them and one. */
static const struct problem apart = {
	FORWARD, 5, 1, 400, 700, { 1, 1, 1 }, { 1, 1, 2731 }, { 1, 1, 1365 },
	{ 0, 0, 0 }, { 1, 1, 1 }, APART, false, { 0 }, 0
};

/* Too few products; padding that outputs meet alone; elements far apart. */
static void test_refused(void **state)
{
	struct problem p = problems[0];

	(void)state;
	random_seed(3);
	p.n = 1;
	p.input[1] = p.input[2] = 3;
	one_problem(&p, false);
	p = problems[0];
	p.padding[1] = 3;
	one_problem(&p, false);
	p = problems[0];
	p.order = APART;
	one_problem(&p, false);
	p = apart;
	one_problem(&p, false);
}

/* Wide padding makes nine slices of nine sizes, each to be compiled. */
static void test_too_many_sizes(void **state)
{
	struct problem p = { FORWARD, 1, 1, 32, 32, { 1, 17, 1 },
			     { 1, 18, 1500 }, { 1, 1, 1 }, { 0, 8, 0 },
			     { 1, 1, 1 }, DENSE, false, { 0 }, 0 };
	struct tensor x, y, w, bias;
	struct openreg_args args;
	bool rows;

	(void)state;
	make_operands(&p, &x, &y, &w, &bias);
	make_args(&args, &p, &x, &y, &w, &bias);
	assert_false(is_whole(&args, &rows));
	release(&x);
	release(&y);
	release(&w);
	release(&bias);
	p.kernel[1] = 3;
	p.padding[1] = 1;
	make_operands(&p, &x, &y, &w, &bias);
	make_args(&args, &p, &x, &y, &w, &bias);
	assert_int_equal(is_whole(&args, &rows), has_unit());
	assert_int_equal(rows, has_unit());
	release(&x);
	release(&y);
	release(&w);
	release(&bias);
}

/* false: the packet is to wait. */
static bool begins(const struct openreg_args *args)
{
	bool later;
	struct openreg_job *job = openreg_job_new(args, scratch, &later);

	assert_true(job || later);
	openreg_job_free(job);
	return job;
}

/* Others hold the memory, or it is another's turn: wait, as bits depend on the way. */
static void test_wait(void **state)
{
	struct problem p = problems[0];
	struct tensor x, y, w, bias;
	struct openreg_args args;

	(void)state;
	make_all(&p, &x, &y, &w, &bias);
	make_args(&args, &p, &x, &y, &w, &bias);
	openreg_scratch_refuse(scratch, true);
	assert_true(begins(&args) != has_unit());
	openreg_scratch_refuse(scratch, false);
	extra = OPENREG_EXTRA_MAX;
	assert_true(begins(&args) != has_unit());
	extra = 0;
	assert_true(begins(&args));
	assert_int_equal(extra, 0);
	release(&x);
	release(&y);
	release(&w);
	release(&bias);
}

#ifdef OF_ONEDNN
/* Calls of oneDNN's until one fails; 0: none does. */
static unsigned int left;
static bool did_fail;

static bool fails(void)
{
	if (!__atomic_load_n(&left, __ATOMIC_RELAXED) ||
	    __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED))
		return false;
	return did_fail = true;
}

#define WRAP(name, parameters, arguments)                                      \
	dnnl_status_t __real_##name parameters;                                \
	dnnl_status_t __wrap_##name parameters;                                \
	dnnl_status_t __wrap_##name parameters                                 \
	{                                                                      \
		return fails() ? dnnl_out_of_memory : __real_##name arguments; \
	}

WRAP(dnnl_convolution_forward_primitive_desc_create,
     (dnnl_primitive_desc_t *pd, dnnl_engine_t e, dnnl_prop_kind_t prop,
      dnnl_alg_kind_t alg, const_dnnl_memory_desc_t x,
      const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t bias,
      const_dnnl_memory_desc_t y, const dnnl_dims_t strides,
      const dnnl_dims_t dilations, const dnnl_dims_t low,
      const dnnl_dims_t high, const_dnnl_primitive_attr_t attr),
     (pd, e, prop, alg, x, w, bias, y, strides, dilations, low, high, attr))
WRAP(dnnl_convolution_backward_data_primitive_desc_create,
     (dnnl_primitive_desc_t *pd, dnnl_engine_t e, dnnl_alg_kind_t alg,
      const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t w,
      const_dnnl_memory_desc_t y, const dnnl_dims_t strides,
      const dnnl_dims_t dilations, const dnnl_dims_t low,
      const dnnl_dims_t high, const_dnnl_primitive_desc_t hint,
      const_dnnl_primitive_attr_t attr),
     (pd, e, alg, x, w, y, strides, dilations, low, high, hint, attr))
WRAP(dnnl_reorder_primitive_desc_create,
     (dnnl_primitive_desc_t *pd, const_dnnl_memory_desc_t from,
      dnnl_engine_t there, const_dnnl_memory_desc_t to, dnnl_engine_t here,
      const_dnnl_primitive_attr_t attr),
     (pd, from, there, to, here, attr))
WRAP(dnnl_memory_desc_create_with_tag,
     (dnnl_memory_desc_t *md, int n, const dnnl_dims_t size,
      dnnl_data_type_t type, dnnl_format_tag_t tag),
     (md, n, size, type, tag))
WRAP(dnnl_memory_desc_create_with_strides,
     (dnnl_memory_desc_t *md, int n, const dnnl_dims_t size,
      dnnl_data_type_t type, const dnnl_dims_t strides),
     (md, n, size, type, strides))
WRAP(dnnl_memory_desc_clone,
     (dnnl_memory_desc_t *md, const_dnnl_memory_desc_t from), (md, from))
WRAP(dnnl_memory_create,
     (dnnl_memory_t *m, const_dnnl_memory_desc_t md, dnnl_engine_t e, void *p),
     (m, md, e, p))
WRAP(dnnl_primitive_attr_create, (dnnl_primitive_attr_t *a), (a))
WRAP(dnnl_primitive_create,
     (dnnl_primitive_t *p, const_dnnl_primitive_desc_t pd), (p, pd))
WRAP(dnnl_primitive_execute,
     (const_dnnl_primitive_t p, dnnl_stream_t s, int n,
      const dnnl_exec_arg_t *args),
     (p, s, n, args))

/* Each call fails once: the packet faults with MEMORY. */
static void test_failures(void **state)
{
	unsigned int i, n;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct problem p = problems[i ? 8 : 0];
		struct tensor x, y, w, bias;
		struct openreg_args args;
		struct tensor *to = i ? &x : &y;

		random_seed(i);
		make_all(&p, &x, &y, &w, &bias);
		make_args(&args, &p, &x, &y, &w, &bias);
		for (n = 1, did_fail = true; did_fail; n++) {
			struct openreg_verdict v;

			soil(to);
			did_fail = false;
			left = n;
			v = args_try(&args, false);
			left = 0;
			assert_int_equal(v.code, did_fail ?
							 OPENREG_FAULT_MEMORY :
							 OPENREG_FAULT_NONE);
			if (!v.code)
				expect_values(to);
		}
		assert_true(n > 20);
		release(&x);
		release(&y);
		release(&w);
		release(&bias);
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_infinities),
		cmocka_unit_test(test_convolutions),
		cmocka_unit_test(test_repeated_weights),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_too_many_sizes),
		cmocka_unit_test(test_wait),
#ifdef OF_ONEDNN
		cmocka_unit_test(test_failures),
#endif
	};
	int failed;

	scratch = openreg_scratch_new(&extra);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	openreg_scratch_free(scratch);
	return failed;
}
