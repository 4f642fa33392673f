// SPDX-License-Identifier: MIT
/* Products of bf16 on hosts that multiply bf16 faster than f32. */
#include <math.h>
#include <stdlib.h>

#include "halves.h"

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

/* The numbers of B are in the order of k. Without turned, memory has the order of n. */
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
		/* tiles of one row, of one column, and an odd k */
		{ { 1, 769, 513, 45 }, GAPS, GAPS, GAPS, false, false, false },
		{ { 1, 769, 513, 45 }, DENSE, DENSE, DENSE, false, true, false },
		{ { 2, 400, 300, 145 }, DENSE, DENSE, DENSE, false, true, false },
		{ { 2, 400, 300, 145 }, DENSE, DENSE, GAPS, true, false, false },
		/* adds to D, with f32 in between; and D in columns */
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

/* Infinities and NaN reach the right results, and no others. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_infinities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
