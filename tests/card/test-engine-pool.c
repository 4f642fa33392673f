// SPDX-License-Identifier: MIT
/* Compares POOL with its definition, window by window. */
#include <math.h>
#include <stdlib.h>

#include "job/work.h"
#include "pool-reference.h"

static void test_random(void **state)
{
	unsigned int i, d, ndim;

	(void)state;
	for (i = 0; i < 3000; i++) {
		struct problem p = { 0 };

		random_seed(i);
		p.kind = (unsigned int)random_range(0, 1);
		p.flags = (unsigned int)random_range(0, 1);
		if (p.kind == OPENREG_POOL_AVG && random_range(0, 1))
			p.flags |= OPENREG_POOL_COUNT_PADDING;
		else if (random_range(0, 2) == 0)
			p.flags |= OPENREG_POOL_ADAPTIVE;
		p.dtype = (unsigned int)random_range(OPENREG_F32, OPENREG_I64);
		p.n = random_range(1, 3);
		/* Sometimes enough planes to compute several together. */
		p.c = random_range(0, 3) ? random_range(1, 3)
					 : random_range(8, 20);
		if (random_range(0, 1)) {
			int64_t n = p.n;

			p.n = p.c;
			p.c = n;
		}
		if (p.kind == OPENREG_POOL_AVG && random_range(0, 3) == 0)
			p.divisor = random_range(1, 9);
		p.has_index = p.kind == OPENREG_POOL_MAX &&
			      (p.flags & OPENREG_POOL_BACKWARD ||
			       random_range(0, 1));
		ndim = (unsigned int)random_range(1, 3);
		for (d = 0; d < 3; d++)
			random_space(&p, d, d >= 3 - ndim);
		run(&p, random_range(0, 1));
	}
}

/* Fills with fractions, so that sums round. */
static void fill_fractions(struct operand *op)
{
	float *x = (float *)op->memory;
	int64_t i;

	for (i = 0; i < op->at.extent; i++)
		x[i] = (float)random_range(-1000000, 1000000) / 977.0f;
}

static void run_plane(struct problem *p, int64_t n, int64_t c)
{
	struct openreg_args args;
	struct problem one = *p;
	unsigned int i;

	one.n = one.c = 1;
	make_args(&args, &one);
	for (i = 0; i < args.nops; i++) {
		const int64_t *stride = args.op[i].stride;

		args.op[i].ptr = (char *)args.op[i].ptr +
				 (n * stride[0] + c * stride[1]) *
					 openreg_dtype_size(args.op[i].dtype);
	}
	args_run(&args);
}

static void compare_planes(const struct problem *p, const struct operand *out,
			   const unsigned char *together)
{
	int64_t at[DIMS] = { 0 };

	do {
		int64_t i = layout_at(&out->at, DIMS, at);

		if (memcmp(out->memory + 4 * i, together + 4 * i, 4))
			fail_msg("kind %u, flags %u: a plane of %ld is not as alone",
				 p->kind, p->flags, (long)(p->n * p->c));
	} while (next_point(DIMS, out->size, at));
}

static void one_by_one(struct problem *p)
{
	bool backward = p->flags & OPENREG_POOL_BACKWARD;
	struct operand *out = backward ? &p->x : &p->y;
	size_t bytes = (size_t)out->at.extent * 4;
	unsigned char *together = malloc(bytes + 1);
	struct openreg_args args;
	int64_t n, c;

	assert_non_null(together);
	fill_fractions(backward ? &p->y : &p->x);
	if (backward && p->has_index)
		fill_index(p);
	make_args(&args, p);
	args_run(&args);
	memcpy(together, out->memory, bytes);
	memset(out->memory, 0, bytes);
	for (n = 0; n < p->n; n++) {
		for (c = 0; c < p->c; c++)
			run_plane(p, n, c);
	}
	compare_planes(p, out, together);
	free(together);
}

/* Planes that are computed together give the same bits as each plane alone. */
static void test_planes(void **state)
{
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 240 / SCALE; i++) {
		struct problem p = { .dtype = OPENREG_F32, .kind = i % 2 };

		random_seed(i);
		p.n = random_range(1, 2);
		p.c = random_range(8, i % 5 ? 60 : 300);
		p.flags = i / 2 % 2;
		if (i / 4 % 3 == 0)
			p.flags |= OPENREG_POOL_ADAPTIVE;
		p.has_index = p.kind == OPENREG_POOL_MAX;
		for (d = 0; d < 3; d++)
			random_space(&p, d, d >= i % 3);
		make(&p, &p.x, p.dtype, p.input);
		make(&p, &p.y, p.dtype, p.output);
		make(&p, &p.index, OPENREG_I64, p.output);
		one_by_one(&p);
		free(p.x.memory);
		free(p.y.memory);
		free(p.index.memory);
	}
}

/* Planes and windows larger than a unit. */
static void test_cuts(void **state)
{
	static const struct problem problems[] = {
		{ .n = 1, .c = 2, .kernel = { 1, 3, 3 }, .stride = { 1, 2, 2 },
		  .input = { 1, 300, 700 }, .output = { 1, 150, 350 },
		  .padding = { 0, 1, 1 } },
		{ .n = 1, .c = 1, .kernel = { 1, 60, 60 }, .stride = { 1, 1, 1 },
		  .input = { 1, 70, 80 }, .output = { 1, 11, 21 } },
		{ .n = 1, .c = 1, .kernel = { 1, 1, 2 }, .stride = { 1, 1, 2 },
		  .input = { 1, 1, 50000 }, .output = { 1, 1, 25000 } },
		{ .n = 1, .c = 1, .kernel = { 1, 60, 60 }, .stride = { 1, 1, 1 },
		  .input = { 1, 60, 60 }, .output = { 1, 1, 1 } },
	};
	unsigned int i, j, d;

	(void)state;
	for (i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
		for (j = 0; j < 4; j++) {
			struct problem p = problems[i];

			random_seed(i);
			p.dtype = OPENREG_F32;
			p.kind = j / 2;
			p.flags = j % 2;
			p.has_index = p.kind == OPENREG_POOL_MAX;
			for (d = 0; d < 3; d++)
				p.dilation[d] = 1;
			run(&p, i & 1);
		}
	}
}

static void small(struct problem *p, struct openreg_args *args,
		  unsigned int kind, unsigned int flags)
{
	*p = (struct problem){ .kind = kind,
			       .flags = flags,
			       .dtype = OPENREG_F32,
			       .n = 1,
			       .c = 1,
			       .kernel = { 1, 1, 2 },
			       .input = { 1, 1, 6 },
			       .output = { 1, 1, 3 },
			       .stride = { 1, 1, 2 },
			       .dilation = { 1, 1, 1 },
			       .has_index = kind == OPENREG_POOL_MAX };
	make(p, &p->x, p->dtype, p->input);
	make(p, &p->y, p->dtype, p->output);
	make(p, &p->index, OPENREG_I64, p->output);
	make_args(args, p);
}

static void small_end(struct problem *p)
{
	free(p->x.memory);
	free(p->y.memory);
	free(p->index.memory);
}

static void test_special(void **state)
{
	float x[6] = { -INFINITY, -INFINITY, 1, NAN, NAN, 3 }, y[3];
	const int64_t dense[DIMS] = { 6, 6, 6, 6, 1 };
	struct openreg_args args;
	struct problem p;
	int64_t index[3];

	(void)state;
	small(&p, &args, OPENREG_POOL_MAX, 0);
	args.op[0].ptr = y;
	args.op[1].ptr = x;
	args.op[2].ptr = index;
	for (int i = 0; i < 3; i++)
		memcpy(args.op[i].stride, dense, sizeof(dense));
	args_run(&args);
	assert_true(y[0] == -INFINITY && isnan(y[1]) && isnan(y[2]));
	assert_int_equal(index[0], 0);
	assert_int_equal(index[1], 3);
	assert_int_equal(index[2], 4);
	/* Adaptive windows, which the card computes one by one, give the same. */
	args.arg[1] = OPENREG_POOL_ADAPTIVE;
	args.imm[OPENREG_WINDOW_KERNEL + 2] = 1;
	args.imm[OPENREG_WINDOW_STRIDE + 2] = 1;
	args_run(&args);
	assert_true(y[0] == -INFINITY && isnan(y[1]) && isnan(y[2]));
	assert_int_equal(index[0], 0);
	assert_int_equal(index[1], 3);
	assert_int_equal(index[2], 4);
	small_end(&p);
}

/* Indices come from memory: the card skips an index outside its window. */
static void test_foreign_index(void **state)
{
	int64_t index[3] = { INT64_MIN, 1, 3 };
	const int64_t dense[DIMS] = { 6, 6, 6, 6, 1 };
	float x[6], y[3] = { 1, 2, 4 };
	static const int64_t bad[] = { -1, 0, 1, 3, 5, 6, 1LL << 40,
				       INT64_MAX, INT64_MIN };
	struct openreg_args args;
	struct problem p;
	unsigned int i, j;

	(void)state;
	small(&p, &args, OPENREG_POOL_MAX, OPENREG_POOL_BACKWARD);
	args.op[0].ptr = x;
	args.op[1].ptr = y;
	args.op[2].ptr = index;
	for (i = 0; i < 3; i++)
		memcpy(args.op[i].stride, dense, sizeof(dense));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		index[1] = bad[i];
		args_run(&args);
		for (j = 0; j < 6; j++)
			assert_true(x[j] == (j == 3 && bad[i] == 3 ? 2 : 0));
	}
	small_end(&p);
}

static void check_one(unsigned int kind, unsigned int flags)
{
	struct openreg_args good, args;
	struct problem p;
	unsigned int i;

	small(&p, &good, kind, flags);
	EXPECT((void)0, NONE);
	assert_true(args.op[0].written && !args.op[0].read);
	assert_true(args.op[1].read && !args.op[1].written);
	EXPECT(args.arg[0] = 2, PACKET);
	EXPECT(args.arg[1] |= 8, PACKET);
	EXPECT(args.arg[2] = 1, PACKET);
	EXPECT(args.ndim = 4, SHAPE);
	EXPECT(args.nops = 1, PACKET);
	EXPECT(args.nops = 4, PACKET);
	EXPECT(args.nimm = 15, PACKET);
	EXPECT(args.op[1].dtype = OPENREG_I32, DTYPE);
	EXPECT(args.op[0].dtype = args.op[1].dtype = OPENREG_BOOL, DTYPE);
	EXPECT(args.op[0].stride[4] = 0, SHAPE);
	EXPECT(args.arg[1] |= OPENREG_POOL_ADAPTIVE, SHAPE);
	for (i = 0; i < 15; i++)
		EXPECT(args.imm[i] = (uint64_t)-1, SHAPE);
	EXPECT(args.imm[2] = 0, SHAPE);
	EXPECT(args.size[4] = 1LL << 31, SHAPE);
	EXPECT(args.size[1] = 1LL << 40, LIMIT);
	EXPECT(args.imm[2] = (1 << 20) + 1, LIMIT);
	assert_true(openreg_engine_check(&args).detail == (1 << 20) + 1);
	EXPECT(args.imm[OPENREG_WINDOW_INPUT] = args.imm[4] = 1 << 20, LIMIT);
	if (kind == OPENREG_POOL_MAX) {
		EXPECT(args.op[2].dtype = OPENREG_I32, DTYPE);
		EXPECT(args.imm[15] = 1, PACKET);
		EXPECT(args.arg[1] |= OPENREG_POOL_COUNT_PADDING, PACKET);
	}
	small_end(&p);
}

static void test_check(void **state)
{
	(void)state;
	check_one(OPENREG_POOL_MAX, 0);
	check_one(OPENREG_POOL_MAX, OPENREG_POOL_BACKWARD);
	check_one(OPENREG_POOL_AVG, 0);
	check_one(OPENREG_POOL_AVG, OPENREG_POOL_BACKWARD);
}

/* One dimension: windows have size 1 except along the last dimension. */
static void line(struct openreg_args *args, uint64_t kernel, uint64_t dilation,
		 uint64_t input, int64_t output)
{
	unsigned int d;

	for (d = 0; d < 3; d++) {
		args->imm[OPENREG_WINDOW_KERNEL + d] = 1;
		args->imm[OPENREG_WINDOW_INPUT + d] = 1;
		args->imm[OPENREG_WINDOW_STRIDE + d] = 1;
		args->imm[OPENREG_WINDOW_PADDING + d] = 0;
		args->imm[OPENREG_WINDOW_DILATION + d] = 1;
		args->size[2 + d] = 1;
	}
	args->size[0] = args->size[1] = 1;
	args->imm[OPENREG_WINDOW_KERNEL + 2] = kernel;
	args->imm[OPENREG_WINDOW_DILATION + 2] = dilation;
	args->imm[OPENREG_WINDOW_INPUT + 2] = input;
	args->size[4] = output;
}

/* Backward, the work counts all windows that can have an element. */
static void test_windows_met(void **state)
{
	struct openreg_args args;
	struct problem p;

	(void)state;
	small(&p, &args, OPENREG_POOL_AVG, OPENREG_POOL_BACKWARD);
	line(&args, 2, (1 << 17) - 2, 1 << 18, 1 << 18);
	assert_int_equal(args_check(&args), OPENREG_FAULT_NONE);
	line(&args, 2, 1 << 17, 1 << 18, 1 << 18);
	assert_int_equal(args_check(&args), OPENREG_FAULT_LIMIT);
	assert_true(openreg_engine_check(&args).detail == (1 << 17) + 2);
	line(&args, 2, (1 << 17) - 2, 1 << 20, 1 << 20);
	assert_int_equal(args_check(&args), OPENREG_FAULT_LIMIT);
	assert_true(openreg_engine_check(&args).detail == 1ULL << 37);
	args.arg[1] |= OPENREG_POOL_ADAPTIVE;
	line(&args, 1, 1, 1, 1 << 17);
	assert_int_equal(args_check(&args), OPENREG_FAULT_NONE);
	line(&args, 1, 1, 1, (1 << 17) + 1);
	assert_int_equal(args_check(&args), OPENREG_FAULT_LIMIT);
	small_end(&p);
}

/* Many windows along one dimension, but none in all. */
static void test_no_windows(void **state)
{
	struct openreg_args args;
	struct problem p;
	unsigned int kind;
	float x;

	(void)state;
	for (kind = 0; kind < 2; kind++) {
		small(&p, &args, kind,
		      OPENREG_POOL_BACKWARD | OPENREG_POOL_ADAPTIVE);
		line(&args, 1, 1, 1, 0);
		args.size[2] = args.size[3] = INT32_MAX;
		args.op[0].ptr = &x;
		x = 1;
		args_run(&args);
		assert_true(x == 0);
		small_end(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_planes),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_special),
		cmocka_unit_test(test_foreign_index),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_windows_met),
		cmocka_unit_test(test_no_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
