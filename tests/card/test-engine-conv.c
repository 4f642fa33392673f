// SPDX-License-Identifier: MIT
/* Compares CONV with its definition, seven nested loops: every dtype, any layout. */
#include <stdlib.h>

#include "conv/conv.h"
#include "conv-reference.h"

static void test_random(void **state)
{
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 1500 / SCALE; i++) {
		struct problem p = { 0 };
		unsigned int ndim;

		random_seed(i);
		p.kind = (unsigned int)random_range(0, 2);
		p.dtype = (unsigned int)random_range(OPENREG_F32, OPENREG_I64);
		p.n = random_range(1, 3);
		p.g = random_range(0, 2) ? 1 : random_range(2, 4);
		p.oc = random_range(1, i % 8 ? 5 : 40);
		p.ic = random_range(1, i % 8 ? 5 : 40);
		p.has_bias = p.kind != OPENREG_CONV_BACKWARD_WEIGHTS &&
			     random_range(0, 1);
		ndim = (unsigned int)random_range(1, i % 8 ? 3 : 2);
		for (d = 0; d < 3; d++)
			random_space(&p, d, d >= 3 - ndim);
		run(&p, random_range(0, 1));
	}
}

/* A long reduction, or many classes, so that the card cuts them. */
static void test_cuts(void **state)
{
	static const struct problem problems[] = {
		{ .n = 1, .g = 1, .oc = 2, .ic = 9000, .kernel = { 1, 3, 3 },
		  .input = { 1, 2, 3 }, .output = { 1, 2, 3 } },
		{ .n = 40, .g = 1, .oc = 3, .ic = 2, .kernel = { 1, 2, 2 },
		  .input = { 1, 40, 40 }, .output = { 1, 40, 40 } },
		{ .n = 1, .g = 1, .oc = 9000, .ic = 3, .kernel = { 1, 1, 5 },
		  .input = { 1, 1, 7 }, .output = { 1, 1, 7 } },
		{ .n = 2, .g = 1, .oc = 14, .ic = 60, .kernel = { 1, 3, 3 },
		  .input = { 1, 17, 18 }, .output = { 1, 17, 18 } },
		{ .n = 1, .g = 300, .oc = 1, .ic = 1, .kernel = { 1, 3, 3 },
		  .input = { 1, 9, 9 }, .output = { 1, 9, 9 } },
		{ .n = 1, .g = 1, .oc = 3, .ic = 2, .kernel = { 1, 20, 30 },
		  .input = { 1, 40, 40 }, .output = { 1, 11, 3 } },
	};
	unsigned int i, kind, d;

	(void)state;
	for (i = 0; i < 2 * sizeof(problems) / sizeof(problems[0]); i++) {
		for (kind = SCALE > 1 ? i / 2 * 2 % 3 : 0; kind < 3;
		     kind += SCALE > 1 ? 3 : 1) {
			struct problem p = problems[i / 2];

			random_seed(i);
			p.kind = kind;
			p.dtype = i % 2 ? OPENREG_F64 : OPENREG_I32;
			p.has_bias = kind != OPENREG_CONV_BACKWARD_WEIGHTS;
			for (d = 0; d < 3; d++) {
				p.stride[d] = i % 2 && p.input[d] > 3 ? 3 : 1;
				p.dilation[d] = 1;
				p.padding[d] = p.kernel[d] / 2;
			}
			run(&p, i & 1);
		}
	}
}

/* Groups of few channels: enough groups to fill the lanes, or a few more or fewer. */
static void test_groups(void **state)
{
	static const unsigned int dtypes[] = { OPENREG_F32, OPENREG_F16,
					       OPENREG_BF16, OPENREG_F64 };
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 400 / SCALE; i++) {
		struct problem p = { 0 };

		random_seed(i);
		p.kind = i % 3;
		p.dtype = dtypes[random_range(0, 3)];
		p.n = random_range(1, 3);
		p.g = random_range(8, 40);
		p.oc = random_range(0, 2) ? 1 : random_range(2, 4);
		p.ic = random_range(0, 2) ? 1 : random_range(2, 4);
		p.has_bias = p.kind != OPENREG_CONV_BACKWARD_WEIGHTS &&
			     random_range(0, 1);
		for (d = 0; d < 3; d++)
			random_space(&p, d, d > 0);
		run(&p, random_range(0, 1));
	}
}

/* Few channels with many positions, so that the card cuts every dimension. */
static void test_tiles(void **state)
{
	static const struct problem problems[] = {
		{ .n = 1, .g = 1, .oc = 3, .ic = 2, .kernel = { 1, 1, 7 },
		  .input = { 1, 1, 20001 } },
		{ .n = 70, .g = 1, .oc = 2, .ic = 1, .kernel = { 1, 3, 2 },
		  .input = { 1, 11, 13 } },
		{ .n = 2, .g = 1, .oc = 1, .ic = 3, .kernel = { 2, 3, 3 },
		  .input = { 9, 33, 31 } },
		{ .n = 3, .g = 17, .oc = 1, .ic = 1, .kernel = { 1, 3, 3 },
		  .input = { 1, 60, 50 } },
		{ .n = 9, .g = 16, .oc = 1, .ic = 2, .kernel = { 1, 1, 4 },
		  .input = { 1, 1, 700 } },
	};
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 12 * sizeof(problems) / sizeof(problems[0]); i++) {
		struct problem p = problems[i / 12];

		random_seed(i);
		p.kind = i % 3;
		p.dtype = i / 3 & 1 ? OPENREG_BF16 : OPENREG_F32;
		p.has_bias = p.kind != OPENREG_CONV_BACKWARD_WEIGHTS;
		for (d = 0; d < 3; d++) {
			p.dilation[d] = 1;
			p.padding[d] = p.kernel[d] / 2;
			p.stride[d] = i / 6 & 1 && p.input[d] > 1 ? 2 : 1;
			p.output[d] = (p.input[d] + 2 * p.padding[d] -
				       p.kernel[d]) / p.stride[d] + 1;
		}
		run(&p, i & 1);
		if (SCALE > 1)
			i += 4;
	}
}

/* The bits must not depend on the order of slices, or on the thread of a slice. */
static void test_order(void **state)
{
	struct problem p = { .kind = OPENREG_CONV_BACKWARD_WEIGHTS,
			     .dtype = OPENREG_F32, .n = 30, .g = 1, .oc = 20,
			     .ic = 3, .kernel = { 1, 3, 3 },
			     .input = { 1, 50, 50 }, .output = { 1, 50, 50 },
			     .stride = { 1, 1, 1 }, .dilation = { 1, 1, 1 },
			     .padding = { 0, 1, 1 } };
	static float x[30 * 3 * 2500], y[30 * 20 * 2500], w[2][20 * 3 * 9];
	const int64_t sx[DIMS] = { 7500, 0, 0, 2500, 0, 50, 1 };
	const int64_t sy[DIMS] = { 50000, 0, 2500, 0, 0, 50, 1 };
	const int64_t sw[DIMS] = { 0, 0, 27, 9, 0, 3, 1 };
	struct openreg_args args;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(x) / 4; i++)
		x[i] = (float)random_unit();
	for (i = 0; i < sizeof(y) / 4; i++)
		y[i] = (float)random_unit();
	for (i = 0; i < 4; i++) {
		make_args(&args, &p);
		args.op[0].ptr = w[i > 0];
		args.op[1].ptr = y;
		args.op[2].ptr = x;
		memcpy(args.op[0].stride, sw, sizeof(sw));
		memcpy(args.op[1].stride, sy, sizeof(sy));
		memcpy(args.op[2].stride, sx, sizeof(sx));
		args_run_order(&args, i & 1);
		assert_memory_equal(w[0], w[i > 0], sizeof(w[0]));
	}
}

static void small(struct problem *p, struct openreg_args *args,
		  unsigned int kind)
{
	unsigned int d;

	*p = (struct problem){ .kind = kind, .dtype = OPENREG_F32, .n = 2,
			       .g = 2, .oc = 3, .ic = 2, .has_bias = kind < 2 };
	for (d = 0; d < 3; d++) {
		p->kernel[d] = 2;
		p->input[d] = 5;
		p->output[d] = 4;
		p->stride[d] = 1;
		p->dilation[d] = 1;
	}
	make(p, &p->x, X_DIMS, p->input, false);
	make(p, &p->y, Y_DIMS, p->output, false);
	make(p, &p->w, W_DIMS, p->kernel, false);
	make(p, &p->bias, kind ? 0xa : 0x6, p->kernel, false);
	make_args(args, p);
}

static void small_end(struct problem *p)
{
	release(&p->x);
	release(&p->y);
	release(&p->w);
	release(&p->bias);
}

/* With nothing to add up, the result is the bias, or 0. */
static void test_empty(void **state)
{
	unsigned int kind, i;

	(void)state;
	for (kind = 0; kind < 3; kind++) {
		/* Each size of the packet, then of the input. */
		for (i = 0; i < 10; i++) {
			struct openreg_args args;
			struct problem p;
			int64_t *sizes[] = { &p.n, &p.g, &p.oc, &p.ic,
					     &p.output[0], &p.output[1],
					     &p.output[2], &p.input[0],
					     &p.input[1], &p.input[2] };

			random_seed(kind * 10 + i);
			small(&p, &args, kind);
			small_end(&p);
			*sizes[i] = 0;
			run(&p, i & 1);
		}
	}
}

static void test_check(void **state)
{
	struct openreg_args good, args;
	struct problem p;
	unsigned int kind, i;

	(void)state;
	for (kind = 0; kind < 3; kind++) {
		small(&p, &good, kind);
		EXPECT((void)0, NONE);
		assert_true(args.op[0].written && !args.op[0].read);
		assert_true(args.op[1].read && !args.op[1].written);
		for (i = 0; i < 4; i++)
			EXPECT(args.arg[i] = 3, PACKET);
		EXPECT(args.ndim = 6, SHAPE);
		EXPECT(args.nops = 2, PACKET);
		EXPECT(args.nops++, PACKET);
		EXPECT(args.nimm--, PACKET);
		EXPECT(args.ninstr = 1, PACKET);
		for (i = 0; i < 3; i++) {
			EXPECT(args.op[i].dtype = OPENREG_F64, DTYPE);
			EXPECT(args.op[i].dtype = OPENREG_DTYPE_END, DTYPE);
		}
		for (i = 0; i < 15; i++) {
			bool zero = i / 3 == 1 || i / 3 == 3;

			if (!zero)
				EXPECT(args.imm[i] = 0, SHAPE);
			EXPECT(args.imm[i] = (uint64_t)-1, SHAPE);
			EXPECT(args.imm[i] = 1ULL << 31, SHAPE);
		}
		EXPECT(args.size[6] = 1LL << 31, SHAPE);
		EXPECT(args.size[0] = 1LL << 40, LIMIT);
		EXPECT(args.size[1] = INT64_MAX, LIMIT);
		EXPECT(args.imm[0] = args.imm[1] = 1 << 20, LIMIT);
		EXPECT(args.imm[3] = args.imm[4] = 1 << 20, LIMIT);
		/* Strides along dimensions that an operand lacks, and of results. */
		EXPECT(args.op[0].stride[kind == 0 ? 3 : kind == 1 ? 2 : 0] = 1,
		       SHAPE);
		EXPECT(args.op[1].stride[kind == 0 ? 2 : 3] = 1, SHAPE);
		EXPECT(args.op[0].stride[1] = 0, SHAPE);
		EXPECT(args.op[0].stride[6] = 0, SHAPE);
		small_end(&p);
	}
	/* All operands are BOOL. */
	small(&p, &good, 0);
	EXPECT(args.op[0].dtype = args.op[1].dtype = args.op[2].dtype =
		       args.op[3].dtype = OPENREG_BOOL,
	       DTYPE);
	small_end(&p);
}

/* Inputs that hardly any tap meets also count as work. */
static void test_hidden_work(void **state)
{
	struct openreg_args args;
	struct problem p;

	(void)state;
	small(&p, &args, OPENREG_CONV_BACKWARD_DATA);
	args.size[4] = args.size[5] = args.size[6] = 1;
	args.imm[OPENREG_WINDOW_INPUT] = args.imm[OPENREG_WINDOW_INPUT + 1] = 1;
	args.imm[OPENREG_WINDOW_INPUT + 2] = 1 << 24;
	assert_int_equal(args_check(&args), OPENREG_FAULT_NONE);
	args.imm[OPENREG_WINDOW_KERNEL + 2] = 1 << 16;
	assert_int_equal(args_check(&args), OPENREG_FAULT_LIMIT);
	/* The number of products; then an operand with too many elements to count. */
	assert_true(openreg_engine_check(&args).detail ==
		    2ULL * 2 * 3 * 2 * 2 * 2 << 40);
	args.imm[OPENREG_WINDOW_INPUT] = INT32_MAX;
	args.imm[OPENREG_WINDOW_INPUT + 1] = INT32_MAX;
	assert_true(openreg_engine_check(&args).detail == UINT64_MAX);
	small_end(&p);
}

/* The sum of one result has a limit, because one step adds it up. */
static void test_long_sums(void **state)
{
	struct openreg_args args;
	struct problem p;
	unsigned int d;

	(void)state;
	small(&p, &args, OPENREG_CONV_BACKWARD_WEIGHTS);
	for (d = 0; d < 4; d++)
		args.size[d] = 1;
	for (d = 0; d < 3; d++) {
		args.imm[OPENREG_WINDOW_KERNEL + d] = 1;
		args.imm[OPENREG_WINDOW_INPUT + d] = 1 << 10;
		args.size[4 + d] = 1 << 10;
	}
	assert_int_equal(args_check(&args), OPENREG_FAULT_NONE);
	args.size[0] = 2;
	assert_int_equal(args_check(&args), OPENREG_FAULT_LIMIT);
	assert_true(openreg_engine_check(&args).detail == 1ULL << 31);
	small_end(&p);

	/* With equal stride and dilation a position has all taps. */
	small(&p, &args, OPENREG_CONV_BACKWARD_DATA);
	for (d = 0; d < 4; d++)
		args.size[d] = 1;
	for (d = 0; d < 3; d++) {
		args.imm[OPENREG_WINDOW_KERNEL + d] = 1 << 12;
		args.imm[OPENREG_WINDOW_STRIDE + d] = 1 << 12;
		args.imm[OPENREG_WINDOW_DILATION + d] = 1 << 12;
		args.imm[OPENREG_WINDOW_INPUT + d] = 1;
		args.size[4 + d] = 1;
	}
	assert_int_equal(args_check(&args), OPENREG_FAULT_LIMIT);
	assert_true(openreg_engine_check(&args).detail == 1ULL << 36);
	args.size[2] = 2;
	assert_true(openreg_engine_check(&args).detail == 1ULL << 37);
	small_end(&p);
}

/* Partial results must not take all of the memory that packets share. */
static void test_memory(void **state)
{
	struct openreg_args args;
	struct openreg_conv cv;
	struct problem p;
	unsigned int d;

	(void)state;
	small(&p, &args, OPENREG_CONV_FORWARD);
	args.nops = 3;
	for (d = 0; d < 3; d++) {
		args.op[d].dtype = OPENREG_I64;
		args.imm[OPENREG_WINDOW_KERNEL + d] = 1;
		args.imm[OPENREG_WINDOW_INPUT + d] = 1;
		args.size[4 + d] = 1;
	}
	args.size[0] = args.size[1] = 1;
	args.size[2] = 48;
	args.size[3] = 16384;
	args.imm[OPENREG_WINDOW_INPUT + 2] = 87381;
	args.size[6] = 87381;
	assert_int_equal(args_check(&args), OPENREG_FAULT_NONE);
	assert_true(openreg_conv_plan(&cv, &args));
	assert_true(cv.parts > 1);
	assert_true(cv.parts * cv.rows * cv.columns * cv.width <= 256 << 20);
	small_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_tiles),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_hidden_work),
		cmocka_unit_test(test_long_sums),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
