// SPDX-License-Identifier: MIT
/* Programs in stages, as libraries write them: softmax and normalization, any layout. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"

#define F32 OPENREG_VT_F32
#define NONE OPENREG_VNONE

/* A space of three dimensions, of which the mask's are folded. */
struct problem {
	int64_t size[3];
	unsigned int mask;
	unsigned int dtype;
	bool spread; /* random layouts, not dense ones */
};

struct view {
	struct layout layout;
	unsigned char *memory;
	unsigned int dtype;
};

static struct view view(const struct problem *p, unsigned int dtype, bool rows)
{
	struct view v = { .dtype = dtype };
	int64_t size[3];
	unsigned int d;

	for (d = 0; d < 3; d++)
		size[d] = rows && p->mask >> d & 1 ? 1 : p->size[d];
	if (p->spread) {
		random_layout(&v.layout, 3, size, false);
	} else {
		dense_strides(3, size, v.layout.stride);
		v.layout.extent = size[0] * size[1] * size[2];
	}
	for (d = 0; d < 3; d++) {
		if (rows && p->mask >> d & 1)
			v.layout.stride[d] = 0;
	}
	v.memory = calloc((size_t)v.layout.extent, openreg_dtype_size(dtype));
	assert_non_null(v.memory);
	return v;
}

static unsigned int operand(struct openreg_args *args, const struct view *v)
{
	return args_operand(args, v->dtype,
			    v->memory + v->layout.origin *
						(int64_t)openreg_dtype_size(v->dtype),
			    v->layout.stride);
}

static double get(const struct view *v, const int64_t *at)
{
	return element_get(v->dtype, v->memory, layout_at(&v->layout, 3, at));
}

static void fill(const struct view *v)
{
	int64_t i;

	for (i = 0; i < v->layout.extent; i++) {
		double x = random_unit() * 8 - 4;

		openreg_convert(v->memory + i * (int64_t)openreg_dtype_size(v->dtype),
				v->dtype, 1, &x, OPENREG_F64, 1, 1);
	}
}

static void near(double have, double want, double unit, const char *what)
{
	if (!(fabs(have - want) <= unit * (fabs(want) + 1e-3)))
		fail_msg("%s is %g, not %g", what, have, want);
}

/* Calls one(p, row, points, arg) for the points of each row. */
typedef void row_fn(const struct problem *p, int64_t (*at)[3], int64_t n, void *arg);
static void each_row(const struct problem *p, row_fn *one, void *arg)
{
	int64_t kept[3], folded[3], row[3] = { 0 }, n = 1, i;
	int64_t (*at)[3];
	unsigned int d;

	for (d = 0; d < 3; d++) {
		kept[d] = p->mask >> d & 1 ? 1 : p->size[d];
		folded[d] = p->mask >> d & 1 ? p->size[d] : 1;
		n *= folded[d];
	}
	at = calloc((size_t)n, sizeof(*at));
	do {
		int64_t inner[3] = { 0 };

		i = 0;
		do {
			for (d = 0; d < 3; d++)
				at[i][d] = row[d] + inner[d];
			i++;
		} while (next_point(3, folded, inner));
		one(p, at, n, arg);
	} while (next_point(3, kept, row));
	free(at);
}

static void begin(struct openreg_args *args, const struct problem *p)
{
	args_begin(args, OPENREG_OP_VECTOR, 3, p->size);
	args->arg[0] = (uint8_t)p->mask;
}

struct softmax {
	struct view x, y, before;
};

static void check_softmax(const struct problem *p, int64_t (*at)[3], int64_t n,
			  void *arg)
{
	const struct softmax *s = arg;
	double most = -INFINITY, sum = 0;
	int64_t i;

	(void)p;
	for (i = 0; i < n; i++)
		most = fmax(most, get(&s->before, at[i]));
	for (i = 0; i < n; i++)
		sum += exp(get(&s->before, at[i]) - most);
	for (i = 0; i < n; i++)
		near(get(&s->y, at[i]), exp(get(&s->before, at[i]) - most) / sum,
		     s->y.dtype == OPENREG_BF16 ? 1e-2 : 1e-6, "softmax");
}

/* Stage 2 stores what stage 3 loads. In place, if y is x. */
static void softmax(const struct problem *p, bool in_place, bool reverse)
{
	struct softmax s = { .x = view(p, p->dtype, false) };
	size_t size = (size_t)s.x.layout.extent * openreg_dtype_size(p->dtype);
	struct openreg_args args;

	s.y = in_place ? s.x : view(p, p->dtype, false);
	fill(&s.x);
	s.before = s.x;
	s.before.memory = malloc(size);
	memcpy(s.before.memory, s.x.memory, size);
	begin(&args, p);
	operand(&args, &s.y);
	operand(&args, &s.x);
	args_instr(&args, OPENREG_V_LOAD, F32, 4, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_RED_MAX, F32, 1, 4, NONE, NONE, NONE);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_SUB, F32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_EXP, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 2, 0, NONE, NONE, NONE);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_DIV, F32, 0, 0, 2, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, 0);
	args_run_order(&args, reverse);
	each_row(p, check_softmax, &s);
	free(s.before.memory);
	free(s.x.memory);
	if (!in_place)
		free(s.y.memory);
}

struct norm {
	struct view x, g, y, dx, mean, rstd, sums;
};

static void check_norm(const struct problem *p, int64_t (*at)[3], int64_t n,
		       void *arg)
{
	const struct norm *s = arg;
	double mean = 0, var = 0, sum = 0, dot = 0, rstd;
	int64_t i;

	(void)p;
	for (i = 0; i < n; i++)
		mean += get(&s->x, at[i]) / (double)n;
	for (i = 0; i < n; i++)
		var += pow(get(&s->x, at[i]) - mean, 2) / (double)n;
	rstd = 1 / sqrt(var + 1e-2);
	for (i = 0; i < n; i++) {
		sum += get(&s->g, at[i]);
		dot += get(&s->g, at[i]) * (get(&s->x, at[i]) - mean) * rstd;
	}
	near(get(&s->mean, at[0]), mean, 1e-5, "mean");
	near(get(&s->rstd, at[0]), rstd, 1e-5, "rstd");
	near(get(&s->sums, at[0]), sum, 1e-3, "the sum");
	for (i = 0; i < n; i++) {
		double xhat = (get(&s->x, at[i]) - mean) * rstd;
		double dx = get(&s->g, at[i]) - sum / (double)n -
			    xhat * dot / (double)n;

		near(get(&s->y, at[i]), xhat,
		     s->y.dtype == OPENREG_BF16 ? 1e-2 : 1e-4, "xhat");
		near(get(&s->dx, at[i]), dx * rstd, 1e-3, "dx");
	}
}

/* Normalization: 1 / sqrt(variance) is computed and stored once for each row. */
static void forward(const struct problem *p, struct norm *s, double n,
		    bool reverse)
{
	struct openreg_args args;
	unsigned int x, y, mean, rstd, share, eps;

	begin(&args, p);
	x = operand(&args, &s->x);
	y = operand(&args, &s->y);
	mean = operand(&args, &s->mean);
	rstd = operand(&args, &s->rstd);
	share = args_imm_f(&args, 1 / n);
	eps = args_imm_f(&args, 1e-2);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, x);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 1, 0, NONE, share, mean);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, x);
	args_instr(&args, OPENREG_V_SUB, F32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_MUL, F32, 0, 0, 0, 0, 0);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 2, 0, NONE, share, NONE);
	args_instr(&args, OPENREG_V_IMM, F32, 3, 0, 0, 0, eps);
	args_instr(&args, OPENREG_V_ADD, F32, 2, 2, 3, 0, 0);
	args_instr(&args, OPENREG_V_RSQRT, F32, 2, 2, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 2, 0, 0, rstd);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, x);
	args_instr(&args, OPENREG_V_SUB, F32, 0, 0, 1, 0, 0);
	args_instr(&args, OPENREG_V_MUL, F32, 0, 0, 2, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 0, 0, 0, y);
	args_run_order(&args, reverse);
}

/* Its gradient: a stage that ends with two sums. */
static void backward(const struct problem *p, struct norm *s, double n,
		     bool reverse)
{
	struct openreg_args args;
	unsigned int x, g, dx, mean, rstd, sums, share;
	int stage;

	begin(&args, p);
	dx = operand(&args, &s->dx);
	x = operand(&args, &s->x);
	g = operand(&args, &s->g);
	mean = operand(&args, &s->mean);
	rstd = operand(&args, &s->rstd);
	sums = operand(&args, &s->sums);
	share = args_imm_f(&args, 1 / n);
	for (stage = 0; stage < 2; stage++) {
		args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, x);
		args_instr(&args, OPENREG_V_LOAD, F32, 1, 0, 0, 0, mean);
		args_instr(&args, OPENREG_V_SUB, F32, 0, 0, 1, 0, 0);
		args_instr(&args, OPENREG_V_LOAD, F32, 1, 0, 0, 0, rstd);
		args_instr(&args, OPENREG_V_MUL, F32, 0, 0, 1, 0, 0);
		args_instr(&args, OPENREG_V_LOAD, F32, 2, 0, 0, 0, g);
		if (stage)
			break;
		args_instr(&args, OPENREG_V_MUL, F32, 3, 0, 2, 0, 0);
		args_instr(&args, OPENREG_V_RED_SUM, F32, 8, 2, NONE, NONE, sums);
		args_instr(&args, OPENREG_V_RED_SUM, F32, 9, 3, NONE, share, NONE);
	}
	args_instr(&args, OPENREG_V_MUL, F32, 0, 0, 9, 0, 0);
	args_instr(&args, OPENREG_V_IMM, F32, 4, 0, 0, 0, share);
	args_instr(&args, OPENREG_V_MUL, F32, 4, 4, 8, 0, 0);
	args_instr(&args, OPENREG_V_SUB, F32, 2, 2, 4, 0, 0);
	args_instr(&args, OPENREG_V_SUB, F32, 2, 2, 0, 0, 0);
	args_instr(&args, OPENREG_V_MUL, F32, 2, 2, 1, 0, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 2, 0, 0, dx);
	args_run_order(&args, reverse);
}

static void norm(const struct problem *p, bool reverse)
{
	struct norm s = {
		.x = view(p, p->dtype, false),
		.g = view(p, OPENREG_F32, false),
		.y = view(p, p->dtype, false),
		.dx = view(p, OPENREG_F32, false),
		.mean = view(p, OPENREG_F32, true),
		.rstd = view(p, OPENREG_F32, true),
		.sums = view(p, OPENREG_F64, true),
	};
	double n = 1;
	unsigned int d;

	for (d = 0; d < 3; d++)
		n *= p->mask >> d & 1 ? (double)p->size[d] : 1;
	fill(&s.x);
	fill(&s.g);
	forward(p, &s, n, reverse);
	backward(p, &s, n, reverse);
	each_row(p, check_norm, &s);
	free(s.x.memory);
	free(s.g.memory);
	free(s.y.memory);
	free(s.dx.memory);
	free(s.mean.memory);
	free(s.rstd.memory);
	free(s.sums.memory);
}

static void test_random(void **state)
{
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 800 / SCALE; i++) {
		struct problem p = { .spread = i & 1 };
		int64_t points = 1;

		random_seed(i);
		p.mask = (unsigned int)random_range(0, 7);
		p.dtype = random_range(0, 3) ? OPENREG_F32 : OPENREG_BF16;
		for (d = 0; d < 3; d++) {
			p.size[d] = random_range(1, i % 8 ? 20 : 2000);
			if (points * p.size[d] > 8000)
				p.size[d] = 1;
			points *= p.size[d];
		}
		softmax(&p, random_range(0, 1), random_range(0, 1));
		norm(&p, random_range(0, 1));
	}
}

/* Rows of many tiles, many short rows, wide lines; rows too long for one slice. */
static void test_large(void **state)
{
	static const struct problem problems[] = {
		{ { 1, 1, 700000 }, 4, OPENREG_F32, false },
		{ { 1, 7, 90000 }, 4, OPENREG_BF16, false },
		{ { 60, 1, 9000 }, 4, OPENREG_F32, false },
		{ { 1, 60000, 9 }, 4, OPENREG_F32, false },
		{ { 1, 6000, 100 }, 4, OPENREG_F32, false },
		{ { 1, 1000, 600 }, 2, OPENREG_F32, false },
		{ { 1, 90000, 7 }, 2, OPENREG_F32, false },
		{ { 90, 60, 100 }, 5, OPENREG_F32, false },
		{ { 300, 7, 300 }, 7, OPENREG_F32, false },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(problems) / sizeof(*problems); i++) {
		struct problem p = problems[i];

		softmax(&p, i & 1, i & 2);
		norm(&p, i & 2);
	}
}

/* Without points, each stage has the neutral element, and no STORE takes place. */
static void test_empty_rows(void **state)
{
	static const int64_t size[2] = { 3, 0 };
	float sum[3] = { 7, 7, 7 }, other[3] = { 7, 7, 7 }, row[3] = { 7, 7, 7 };
	struct openreg_args args;
	int i;

	(void)state;
	args_begin(&args, OPENREG_OP_VECTOR, 2, size);
	args.arg[0] = 2;
	args_operand(&args, OPENREG_F32, sum, (int64_t[]){ 1, 0 });
	args_operand(&args, OPENREG_F32, other, (int64_t[]){ 1, 0 });
	args_operand(&args, OPENREG_F32, row, (int64_t[]){ 1, 0 });
	args_operand(&args, OPENREG_F32, NULL, NULL);
	args_instr(&args, OPENREG_V_LOAD, F32, 0, 0, 0, 0, 3);
	args_instr(&args, OPENREG_V_RED_SUM, F32, 1, 0, NONE, NONE, 0);
	args_instr(&args, OPENREG_V_STORE, F32, 0, 1, 0, 0, 2);
	args_instr(&args, OPENREG_V_LOAD, F32, 2, 0, 0, 0, 0); /* a result, of no row */
	args_instr(&args, OPENREG_V_RED_PROD, F32, 0, 1, NONE, NONE, 1);
	args_run(&args);
	for (i = 0; i < 3; i++) {
		assert_true(sum[i] == 0);
		assert_true(other[i] == 1);
		assert_true(row[i] == 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_empty_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
