// SPDX-License-Identifier: MIT
/* Convolutions of bf16 on hosts that multiply bf16 faster than f32. */
#include <oneapi/dnnl/dnnl.h>

#include "conv/conv.h"
#include "halves.h"
#include "matmul/matmul.h"

static struct openreg_scratch *scratch;
static atomic_size_t extra; /* bytes of the jobs of scratch */

static bool has_unit(void)
{
	return openreg_gemm_has_unit(OPENREG_BF16);
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

struct operands {
	struct tensor x, y, w, bias;
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

/* Finds the input at a tap of an output. Returns false if it is outside. */
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

/* Adds all pairs of channels. */
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

static void convolve(const struct problem *p, struct operands *all)
{
	bool forward = p->kind == OPENREG_CONV_FORWARD;
	struct tensor *to = forward ? &all->y : &all->x;
	int64_t outs = volume(p->output), taps = volume(p->kernel), i, in;
	int64_t ins = volume(p->input);

	for (i = 0; i < to->count; i++)
		to->value[i] = p->bias ? all->bias.value[i / outs %
							 all->bias.count] :
					 0;
	for (i = 0; i < p->n * p->g * outs * taps; i++) {
		int64_t k = i % taps, o = i / taps % outs, ng = i / taps / outs;
		struct channels at = { .x_step = ins, .y_step = outs,
				       .w_step = taps };

		if (!find(p, o, k, &in))
			continue;
		at.x = ng * p->ic * ins + in;
		at.y = ng * p->oc * outs + o;
		at.w = ng % p->g * p->oc * p->ic * taps + k;
		add_products(p, &at, all->x.value, all->y.value,
			     all->w.value, to->value);
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
		      const struct operands *o)
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
	operand(args, forward ? &o->y : &o->x, forward ? 0x77 : 0x7b);
	operand(args, forward ? &o->x : &o->y, forward ? 0x7b : 0x77);
	operand(args, &o->w, 0x7e);
	if (p->bias)
		operand(args, &o->bias, 0x6);
	for (i = 0; i < 15; i++)
		args_imm_i(args, imm[i / 3][i % 3]);
	assert_int_equal(args_check(args), OPENREG_FAULT_NONE);
}

static void make_operands(struct problem *p, struct operands *o)
{
	unsigned int d;

	for (d = 0; d < 3; d++)
		p->output[d] = (p->input[d] + 2 * p->padding[d] -
				(p->kernel[d] - 1) * p->dilation[d] - 1) /
				       p->stride[d] +
			       1;
	o->x = tensor_of(p, 0x7b, p->input, p->order);
	o->y = tensor_of(p, 0x77, p->output, p->order);
	o->w = tensor_of(p, 0x7e, p->kernel, p->order);
	o->bias = tensor_of(p, 0x6, (const int64_t[]){ 1, 1, 1 }, DENSE);
}

static void make_all(struct problem *p, struct operands *o)
{
	make_operands(p, o);
	repeat(&o->w, p->repeated);
	convolve(p, o);
}

static void release_all(struct operands *o)
{
	release(&o->x);
	release(&o->y);
	release(&o->w);
	release(&o->bias);
}

/* whole: the card must use oneDNN's convolutions. */
static bool one_problem(struct problem *p, bool whole)
{
	struct operands o;
	struct openreg_args args;
	bool rows;

	make_all(p, &o);
	soil(p->kind == OPENREG_CONV_FORWARD ? &o.y : &o.x);
	make_args(&args, p, &o);
	if (is_whole(&args, &rows) != (whole && has_unit()))
		fail_msg("kind %u, %ld to %ld channels: %s", p->kind,
			 (long)p->ic, (long)p->oc,
			 whole ? "not by oneDNN" : "by oneDNN");
	args_run_order(&args, random_range(0, 1));
	expect_values(p->kind == OPENREG_CONV_FORWARD ? &o.y : &o.x);
	release_all(&o);
	return rows;
}

#define FORWARD OPENREG_CONV_FORWARD
#define TO_DATA OPENREG_CONV_BACKWARD_DATA

enum { TO_IMAGE = 8, SPLIT = 13 };

static const struct problem problems[] = {
	{ FORWARD, 5, 1, 32, 48, { 1, 3, 3 }, { 1, 14, 14 }, { 1, 1, 1 },
	  { 0, 1, 1 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
	/* No output meets the last row and column; slices are rows of one image. */
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
	[TO_IMAGE] = { TO_DATA, 5, 1, 32, 48, { 1, 3, 3 }, { 1, 14, 14 }, { 1, 1, 1 },
	  { 0, 1, 1 }, { 1, 1, 1 }, DENSE, false, { 0 }, 0 },
	{ TO_DATA, 5, 1, 32, 48, { 1, 3, 3 }, { 1, 30, 28 }, { 1, 2, 2 },
	  { 0, 0, 0 }, { 1, 1, 1 }, GAPS, false, { 0 }, 0 },
	{ FORWARD, 5, 1, 64, 64, { 1, 1, 5 }, { 1, 1, 200 }, { 1, 1, 2 },
	  { 0, 0, 2 }, { 1, 1, 1 }, CHANNELS_LAST, true, { 0 }, 0 },
	{ FORWARD, 5, 2, 48, 40, { 1, 1, 5 }, { 1, 1, 200 }, { 1, 1, 1 },
	  { 0, 0, 4 }, { 1, 1, 2 }, GAPS, false, { 0 }, 0 },
	{ TO_DATA, 5, 1, 64, 64, { 1, 1, 5 }, { 1, 1, 200 }, { 1, 1, 2 },
	  { 0, 0, 2 }, { 1, 1, 1 }, GAPS, false, { 0 }, 0 },
	/* Three outputs in slices of two and one: positions, images, volumes. */
	[SPLIT] = { FORWARD, 5, 1, 400, 700, { 1, 1, 1 }, { 1, 1, 2731 }, { 1, 1, 1365 },
	  { 0, 0, 0 }, { 1, 1, 1 }, DENSE, true, { 0 }, 0 },
	{ FORWARD, 5, 1, 400, 700, { 1, 1, 1 }, { 1, 2731, 1 }, { 1, 1365, 1 },
	  { 0, 0, 0 }, { 1, 1, 1 }, GAPS, true, { 0 }, 0 },
	{ FORWARD, 5, 1, 400, 700, { 1, 1, 1 }, { 1, 1, 2731 }, { 1, 1, 1365 },
	  { 0, 0, 0 }, { 1, 1, 1 }, CHANNELS_LAST, true, { 0 }, 0 },
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
	assert_true(in_rows >= 6 || !has_unit());
}

/* Weights that repeat along dimensions, as after expand(). */
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

/* Too few products; outputs that meet only padding; elements far apart. */
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
	/* The slice that determines the layout of the weights has one output. */
	p = problems[SPLIT];
	p.order = APART;
	one_problem(&p, false);
}

static bool is_cut(struct problem p)
{
	struct operands o;
	struct openreg_args args;
	bool rows, whole;

	make_operands(&p, &o);
	make_args(&args, &p, &o);
	whole = is_whole(&args, &rows);
	assert_int_equal(whole, rows);
	release_all(&o);
	return rows;
}

/* Wide padding gives nine slices of nine sizes, and oneDNN compiles each size. */
static void test_too_many_sizes(void **state)
{
	struct problem p = { FORWARD, 1, 1, 32, 32, { 1, 17, 1 },
			     { 1, 18, 1500 }, { 1, 1, 1 }, { 0, 8, 0 },
			     { 1, 1, 1 }, DENSE, false, { 0 }, 0 };

	(void)state;
	assert_false(is_cut(p));
	p.kernel[1] = 3;
	p.padding[1] = 1;
	assert_int_equal(is_cut(p), has_unit());
}

/* Returns false if the packet must wait. */
static bool begins(const struct openreg_args *args)
{
	bool later;
	struct openreg_job *job = openreg_job_new(args, scratch, &later);

	assert_true(job || later);
	openreg_job_free(job);
	return job;
}

/*
 * If other jobs hold the memory, or another queue is first in line, the packet must wait:
 * another implementation would give other bits.
 */
static void test_wait(void **state)
{
	struct problem p = problems[0];
	struct operands o;
	struct openreg_args args;

	(void)state;
	make_all(&p, &o);
	make_args(&args, &p, &o);
	openreg_scratch_refuse(scratch, true);
	assert_true(begins(&args) != has_unit());
	openreg_scratch_refuse(scratch, false);
	extra = OPENREG_EXTRA_MAX;
	assert_true(begins(&args) != has_unit());
	extra = 0;
	assert_true(begins(&args));
	assert_int_equal(extra, 0);
	release_all(&o);
}

#ifdef OF_ONEDNN
/* Calls of oneDNN until one fails; 0: no call fails. */
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

/* Lets each call fail once: the packet must fault with MEMORY. */
static void test_failures(void **state)
{
	unsigned int i, n;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct problem p = problems[i ? TO_IMAGE : 0];
		struct operands o;
		struct openreg_args args;
		struct tensor *to = i ? &o.x : &o.y;

		random_seed(i);
		make_all(&p, &o);
		make_args(&args, &p, &o);
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
		release_all(&o);
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
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
