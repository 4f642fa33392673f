// SPDX-License-Identifier: MIT
/* Compares PLACES with its definition: any layout, dtype and number of results. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"

#define UNTOUCHED 0x7777777777777777

struct problem {
	unsigned int ndim, dtype;
	int64_t size[OPENREG_DIMS_MAX];
	struct layout at;
	unsigned char *source;
	int64_t wanted, room, step; /* results, room and stride of their rows */
	int64_t *found[OPENREG_DIMS_MAX];
};

static bool is_zero(const struct problem *p, const int64_t *at)
{
	int64_t i = layout_at(&p->at, p->ndim, at);

	if (element_is_float(p->dtype))
		return element_get(p->dtype, p->source, i) == 0;
	return element_get_int(p->dtype, p->source, i) == 0;
}

static void fill(struct problem *p, int64_t one_of)
{
	static const double values[] = { 1, -1, 3, NAN, INFINITY, 0.25 };
	bool f = element_is_float(p->dtype);
	unsigned int size = openreg_dtype_size(p->dtype);
	int64_t i;

	for (i = 0; i < p->at.extent; i++) {
		double x = values[random_range(0, f ? 5 : 2)];

		if (random_range(0, one_of - 1))
			x = random_range(0, 1) ? -0.0 : 0;
		openreg_convert(p->source + i * size, p->dtype, 1, &x,
				OPENREG_F64, 1, 1);
	}
}

static int64_t count(const struct problem *p)
{
	int64_t at[OPENREG_DIMS_MAX] = { 0 }, n = 0;

	do
		n += !is_zero(p, at);
	while (next_point(p->ndim, p->size, at));
	return n;
}

static void run(struct problem *p, bool reverse)
{
	struct openreg_args args;
	unsigned int d;
	int64_t i;

	args_begin(&args, OPENREG_OP_PLACES, p->ndim, p->size);
	for (d = 0; d < p->ndim; d++) {
		int64_t stride[OPENREG_DIMS_MAX] = { 0 };

		/* The card ignores the other strides. */
		stride[0] = 12345;
		stride[p->ndim - 1] = p->step;
		p->found[d] = malloc((size_t)(p->room * p->step + 1) * 8);
		for (i = 0; i <= p->room * p->step; i++)
			p->found[d][i] = UNTOUCHED;
		args_operand(&args, OPENREG_I64, p->found[d], stride);
	}
	args_operand(&args, p->dtype,
		     p->source +
			     p->at.origin * openreg_dtype_size(p->dtype),
		     p->at.stride);
	args_imm_i(&args, p->wanted);
	args_run_order(&args, reverse);
}

static void compare(const struct problem *p)
{
	int64_t at[OPENREG_DIMS_MAX] = { 0 }, k = 0, i;
	unsigned int d;

	do {
		if (is_zero(p, at) || k == p->wanted)
			continue;
		for (d = 0; d < p->ndim; d++)
			assert_int_equal(p->found[d][k * p->step], at[d]);
		k++;
	} while (next_point(p->ndim, p->size, at));
	for (d = 0; d < p->ndim; d++) {
		for (i = 0; i <= p->room * p->step; i++) {
			if (i % p->step || i / p->step >= k)
				assert_true(p->found[d][i] == UNTOUCHED);
		}
	}
}

static void check(struct problem *p, bool dense, int64_t one_of, bool reverse)
{
	int64_t n, all = 1;
	unsigned int d;

	for (d = 0; d < p->ndim; d++)
		all *= p->size[d];
	random_layout(&p->at, p->ndim, p->size, !dense);
	if (dense) {
		dense_strides(p->ndim, p->size, p->at.stride);
		p->at.origin = 0;
	}
	p->source = malloc((size_t)p->at.extent * 8 + 8);
	fill(p, one_of);
	n = count(p);
	p->wanted = n;
	if (random_range(0, 2) == 0)
		p->wanted = random_range(0, all);
	p->room = all;
	p->step = random_range(1, 3);
	run(p, reverse);
	compare(p);
	for (d = 0; d < p->ndim; d++)
		free(p->found[d]);
	free(p->source);
}

static void test_random(void **state)
{
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 1500 / SCALE; i++) {
		struct problem p = { 0 };
		int64_t points = 1;

		random_seed(i);
		p.ndim = (unsigned int)random_range(1, 5);
		p.dtype = (unsigned int)random_range(OPENREG_F32, OPENREG_F8E8M0FNU);
		for (d = 0; d < p.ndim; d++) {
			p.size[d] = random_range(1, i % 10 ? 8 : 300);
			if (points * p.size[d] > 5000)
				p.size[d] = 1;
			points *= p.size[d];
		}
		check(&p, i & 1, random_range(1, 6), random_range(0, 1));
	}
}

/* Several pieces, with bounds within rows. */
static void test_long(void **state)
{
	static const int64_t sizes[][3] = { { 1, 1, 200000 }, { 70, 1000, 3 },
					    { 3, 100, 701 }, { 100000, 1, 1 } };
	unsigned int s, i;

	(void)state;
	for (s = 0; s < 4; s++) {
		for (i = 0; i < 8; i++) {
			struct problem p = { .ndim = 3 };

			random_seed(s * 8 + i);
			memcpy(p.size, sizes[s], sizeof(sizes[s]));
			p.dtype = i ? (unsigned int)random_range(OPENREG_F32,
								 OPENREG_BOOL)
				    : OPENREG_BOOL;
			check(&p, i & 1, 1 + i % 4, i & 2);
		}
	}
}

static void test_check(void **state)
{
	int64_t size[2] = { 2, 3 }, found[2][6];
	struct openreg_args args;
	float x[6];

	(void)state;
	args_begin(&args, OPENREG_OP_PLACES, 2, size);
	args_operand(&args, OPENREG_I64, found[0], NULL);
	args_operand(&args, OPENREG_I64, found[1], NULL);
	args_operand(&args, OPENREG_F32, x, NULL);
	args_imm_i(&args, 6);
	assert_int_equal(args_check(&args), 0);
	assert_true(args.op[0].written && !args.op[0].read);
	assert_true(args.op[0].sized && args.op[0].size[1] == 6);
	assert_true(args.op[2].read && !args.op[2].written);
	args.imm[0] = 7;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
	args.imm[0] = 6;
	args.arg[1] = 1;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	args.arg[1] = 0;
	args.op[1].dtype = OPENREG_I32;
	assert_int_equal(args_check(&args), OPENREG_FAULT_DTYPE);
	args.op[1].dtype = OPENREG_I64;
	args.op[1].stride[1] = 0;
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
	args.nops = 2;
	assert_int_equal(args_check(&args), OPENREG_FAULT_PACKET);
	args_begin(&args, OPENREG_OP_PLACES, 0, size);
	args_operand(&args, OPENREG_F32, x, NULL);
	args_imm_i(&args, 1);
	assert_int_equal(args_check(&args), OPENREG_FAULT_SHAPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
