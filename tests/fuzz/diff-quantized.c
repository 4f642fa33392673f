// SPDX-License-Identifier: MIT
/* References for MATMUL of bytes and MATMUL with scales, element by element. */
#include <float.h>
#include <math.h>

#include "diff.h"
#include "vector-reference.h"

enum { D, A, B, SCALE, ZERO };
enum { SCALE_A = SCALE, SCALE_B = ZERO }; /* of SCALED_F8 */

static unsigned int any_float(void)
{
	static const unsigned int floats[] = { OPENREG_F32, OPENREG_F16, OPENREG_BF16 };

	return floats[random_range(0, 2)];
}

static unsigned int imm_of(struct diff *d, double x)
{
	uint64_t bits;

	memcpy(&bits, &x, 8);
	return diff_imm(d, bits);
}

/* Finite numbers: sums of infinities have no order. */
static void refill(struct diff *d, unsigned int i)
{
	const struct operand *op = &d->op[i];
	int64_t k;

	for (k = 0; k < op->layout.extent; k++)
		diff_put_float(d, op, k - op->layout.origin, random_unit() * 2 - 1);
}

static const uint8_t *element(const struct diff *d, unsigned int i, const int64_t *point,
			      int64_t k)
{
	int64_t at[4] = { point[0], point[1], point[2], k };

	return diff_element(d, &d->op[i], diff_at(d, &d->op[i], at));
}

static double float_of(const struct diff *d, unsigned int i, const int64_t *point,
		       int64_t k)
{
	return element_get(d->op[i].dtype, element(d, i, point, k), 0);
}

static int number(const struct diff *d, const int64_t *point, int64_t k)
{
	unsigned int bits;

	if (d->draft.op.arg[0] == OPENREG_MATMUL_SCALED_I8)
		return (int8_t)*element(d, B, point, k);
	bits = *element(d, B, point, k / 2) >> (k % 2 ? 4 : 0) & 15;
	return bits & 8 ? (int)bits - 16 : (int)bits;
}

static void put_scaled(struct diff *d, const int64_t *point, int64_t group, double alpha)
{
	const struct operand *op = &d->op[D];
	int64_t n = d->draft.size[3], k;
	long double sum = 0, magnitude = 0;

	for (k = 0; k < n; k++) {
		long double a = float_of(d, A, point, k);
		long double x = a * float_of(d, SCALE, point, k / group) *
				number(d, point, k);
		long double z = d->draft.op.nops > ZERO ?
					a * float_of(d, ZERO, point, k / group) :
					0;

		sum += x + z;
		magnitude += fabsl(x) + fabsl(z);
	}
	diff_put_near(d, op, diff_at(d, op, point), sum * alpha,
		      (long double)(n + 8) * magnitude * fabs(alpha) * FLT_EPSILON);
}

static void add_operand(struct diff *d, unsigned int dtype, uint32_t dims, int64_t k)
{
	int64_t size = d->draft.size[3];

	d->draft.size[3] = k;
	diff_operand(d, SPACE_VRAM, dtype, dims, dims != 0x7);
	d->draft.size[3] = size;
}

void diff_scaled(struct diff *d)
{
	bool i4 = random_range(0, 1), zero = random_range(0, 1);
	unsigned int dtype = any_float(), i;
	int64_t group = random_range(1, 9), point[4] = { 0 }, size[4], k;
	double alpha = random_range(0, 2) ? 1 : -0.5;
	uint64_t elements = d->elements;

	if (i4)
		group *= 2;
	diff_begin(d, OPENREG_OP_MATMUL, 4, 1000);
	d->draft.op.arg[0] = i4 ? OPENREG_MATMUL_SCALED_I4 : OPENREG_MATMUL_SCALED_I8;
	d->draft.size[3] = k = group * random_range(0, 4);
	add_operand(d, dtype, 0x7, k);
	add_operand(d, dtype, 0xb, k);
	add_operand(d, i4 ? OPENREG_U8 : OPENREG_I8, 0xd, i4 ? k / 2 : k);
	add_operand(d, any_float(), 0xd, k / group);
	if (zero)
		add_operand(d, any_float(), 0xd, k / group);
	for (i = 0; i < d->draft.op.nops; i++)
		if (i != B)
			refill(d, i);
	d->elements = elements;
	imm_of(d, alpha);
	imm_of(d, 0);
	diff_imm(d, (uint64_t)group);
	diff_run(d);
	memcpy(size, d->draft.size, sizeof(size));
	size[3] = 1;
	do
		put_scaled(d, point, group, alpha);
	while (next_point(4, size, point));
}

static void put_f8(struct diff *d, const int64_t *point, int64_t group, double alpha)
{
	const struct operand *op = &d->op[D];
	int64_t n = d->draft.size[3], k;
	long double sum = 0, magnitude = 0;

	for (k = 0; k < n; k++) {
		long double a = float_of(d, A, point, k), b = float_of(d, B, point, k);
		long double x = a * float_of(d, SCALE_A, point, k / group) * b *
				float_of(d, SCALE_B, point, k / group);

		sum += x;
		magnitude += fabsl(x);
	}
	diff_put_near(d, op, diff_at(d, op, point), sum * alpha,
		      (long double)(n + 8) * magnitude * fabs(alpha) * FLT_EPSILON);
}

void diff_scaled_f8(struct diff *d)
{
	int64_t group = random_range(1, 33), point[4] = { 0 }, size[4], k;
	double alpha = random_range(0, 2) ? 1 : -0.5;
	uint64_t elements = d->elements;
	unsigned int i;

	diff_begin(d, OPENREG_OP_MATMUL, 4, 1000);
	d->draft.op.arg[0] = OPENREG_MATMUL_SCALED_F8;
	d->draft.size[3] = k = group * random_range(0, 4);
	add_operand(d, any_float(), 0x7, k);
	add_operand(d, OPENREG_F8E4M3FN + (unsigned int)random_range(0, 3), 0xb, k);
	add_operand(d, OPENREG_F8E4M3FN + (unsigned int)random_range(0, 3), 0xd, k);
	for (i = SCALE_A; i <= SCALE_B; i++)
		add_operand(d, random_range(0, 2) ? OPENREG_F8E8M0FNU : OPENREG_F32,
			    i == SCALE_A ? 0xb : 0xd, k / group);
	for (i = A; i < d->draft.op.nops; i++)
		refill(d, i);
	d->elements = elements;
	imm_of(d, alpha);
	imm_of(d, 0);
	diff_imm(d, (uint64_t)group);
	diff_run(d);
	memcpy(size, d->draft.size, sizeof(size));
	size[3] = 1;
	do
		put_f8(d, point, group, alpha);
	while (next_point(4, size, point));
}

void diff_mixed(struct diff *d)
{
	unsigned int dtype = random_range(0, 1) ? OPENREG_I8 : OPENREG_U8;
	double alpha = (double)random_range(-2, 3);
	int64_t point[4] = { 0 }, size[4], k;

	diff_begin(d, OPENREG_OP_MATMUL, 4, random_range(0, 9) ? 1000 : 8000);
	add_operand(d, OPENREG_I32, 0x7, 1);
	add_operand(d, dtype, 0xb, d->draft.size[3]);
	add_operand(d, OPENREG_I8, 0xd, d->draft.size[3]);
	imm_of(d, alpha);
	imm_of(d, 0);
	diff_run(d);
	memcpy(size, d->draft.size, sizeof(size));
	size[3] = 1;
	do {
		uint32_t sum = 0;

		for (k = 0; k < d->draft.size[3]; k++)
			sum += (uint32_t)element_get_int(dtype, element(d, A, point, k),
							 0) *
			       (uint32_t)(int8_t)*element(d, B, point, k);
		diff_put_int(d, &d->op[D], diff_at(d, &d->op[D], point),
			     (int32_t)(sum * (uint32_t)(int32_t)alpha));
	} while (next_point(4, size, point));
}
