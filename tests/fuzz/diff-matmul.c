// SPDX-License-Identifier: MIT
/* References for MATMUL, and for COPY and FILL, element by element. */
#include <float.h>
#include <math.h>

#include "diff.h"
#include "vector-reference.h"

enum { D, A, B, C };

#define ALL(ndim) ((1u << (ndim)) - 1)

/* Small integers, which have exact sums, or fractions. */
static void refill(struct diff *d, unsigned int i, bool exact)
{
	const struct operand *op = &d->op[i];
	int64_t k;

	for (k = 0; k < op->layout.extent; k++) {
		int64_t at = k - op->layout.origin;
		double x = random_unit() * 2 - 1;

		if (exact || !diff_is_float(op->dtype))
			x = (double)random_range(-3, 3);
		if (diff_is_float(op->dtype))
			diff_put_float(d, op, at, x);
		else if (exact)
			diff_put_int(d, op, at, (int64_t)x);
	}
}

struct sum {
	long double exact, magnitude;
	uint64_t i;
};

static struct sum product(const struct diff *d, const int64_t *point)
{
	unsigned int left = d->op[A].dtype, right = d->op[B].dtype;
	int64_t at[4] = { point[0], point[1], point[2], 0 };
	struct sum s = { 0 };

	for (; at[3] < d->draft.size[3]; at[3]++) {
		const uint8_t *a = diff_element(d, &d->op[A],
						diff_at(d, &d->op[A], at));
		const uint8_t *b = diff_element(d, &d->op[B],
						diff_at(d, &d->op[B], at));

		if (diff_is_float(left)) {
			long double x = (long double)element_get(left, a, 0) *
					element_get(right, b, 0);

			s.exact += x;
			s.magnitude += fabsl(x);
		} else {
			s.i += (uint64_t)element_get_int(left, a, 0) *
			       (uint64_t)element_get_int(right, b, 0);
		}
	}
	return s;
}

static void put_product(struct diff *d, const int64_t *point, double alpha,
			double beta)
{
	const struct operand *op = &d->op[D];
	int64_t at = diff_at(d, op, point);
	struct sum s = product(d, point);
	const uint8_t *c = NULL;
	long double near;

	if (d->draft.op.nops > C && beta != 0)
		c = diff_element(d, &d->op[C], diff_at(d, &d->op[C], point));
	if (!diff_is_float(op->dtype)) {
		s.i *= (uint64_t)(int64_t)alpha;
		if (c)
			s.i += (uint64_t)(int64_t)beta *
			       (uint64_t)element_get_int(op->dtype, c, 0);
		diff_put_int(d, op, at, (int64_t)s.i);
		return;
	}
	s.exact *= alpha;
	s.magnitude *= fabs(alpha);
	if (c) {
		long double x = beta * element_get(op->dtype, c, 0);

		s.exact += x;
		s.magnitude += fabsl(x);
	}
	near = (long double)(d->draft.size[3] + 4) * s.magnitude *
	       (op->dtype == OPENREG_F64 ? DBL_EPSILON : FLT_EPSILON);
	diff_put_near(d, op, at, s.exact, near);
}

static double factor(void)
{
	static const double factors[] = { 1, 1, 0, 2, -1, 3 };

	return factors[random_range(0, 5)];
}

static unsigned int imm_of(struct diff *d, double x)
{
	uint64_t bits;

	memcpy(&bits, &x, 8);
	return diff_imm(d, bits);
}

static unsigned int float8_factor(void)
{
	return (unsigned int)random_range(OPENREG_F8E4M3FN, OPENREG_F8E5M2FNUZ);
}

/* The dtype of A, for that of D. */
static unsigned int factor_dtype(unsigned int dtype)
{
	bool mixed = dtype == OPENREG_F32 || dtype == OPENREG_F16 ||
		     dtype == OPENREG_BF16;

	return mixed && random_range(0, 2) == 0 ? float8_factor() : dtype;
}

void diff_matmul(struct diff *d)
{
	unsigned int dtype = (unsigned int)random_range(OPENREG_F32, OPENREG_I64);
	bool has_c = random_range(0, 1), exact = random_range(0, 1);
	double alpha = factor(), beta = has_c ? factor() : 0;
	int64_t point[4] = { 0 }, size[4];
	uint64_t elements = d->elements;
	unsigned int i;

	diff_begin(d, OPENREG_OP_MATMUL, 4, random_range(0, 9) ? 1000 : 8000);
	diff_operand(d, SPACE_VRAM, dtype, 0x7, false);
	diff_operand(d, SPACE_VRAM, factor_dtype(dtype), 0xb, true);
	diff_operand(d, SPACE_VRAM,
		     d->op[A].dtype == dtype ? dtype : float8_factor(), 0xd,
		     true);
	if (has_c && random_range(0, 1)) {
		/* C is D. */
		d->op[C] = d->op[D];
		d->draft.operand[C] = d->draft.operand[D];
		d->draft.op.nops++;
	} else if (has_c) {
		diff_operand(d, SPACE_VRAM, dtype, 0x7, true);
	}
	for (i = 0; i < d->draft.op.nops; i++)
		refill(d, i, exact);
	d->elements = elements;
	imm_of(d, alpha);
	imm_of(d, beta);
	diff_run(d);
	memcpy(size, d->draft.size, sizeof(size));
	size[3] = 1;
	do
		put_product(d, point, alpha, beta);
	while (next_point(4, size, point));
}

static void put_copy(struct diff *d, const int64_t *point)
{
	const struct operand *to = &d->op[0], *from = &d->op[1];
	const uint8_t *x = diff_element(d, from, diff_at(d, from, point));
	int64_t at = diff_at(d, to, point);

	if (to->dtype == from->dtype)
		diff_put_bits(d, to, at, x);
	else if (diff_is_float(to->dtype) && diff_is_float(from->dtype))
		diff_put_float(d, to, at, element_get(from->dtype, x, 0));
	else if (diff_is_float(from->dtype))
		diff_put_int(d, to, at,
			     reference_to_int(to->dtype,
					      element_get(from->dtype, x, 0)));
	else if (to->dtype == OPENREG_F64)
		diff_put_float(d, to, at,
			       (double)element_get_int(from->dtype, x, 0));
	else if (diff_is_float(to->dtype))
		diff_put_float(d, to, at,
			       (float)element_get_int(from->dtype, x, 0));
	else
		diff_put_int(d, to, at, element_get_int(from->dtype, x, 0));
}

void diff_copy(struct diff *d)
{
	unsigned int ndim = (unsigned int)random_range(0, 8);
	bool fill = random_range(0, 4) == 0;
	int64_t point[OPENREG_DIMS_MAX] = { 0 };
	uint64_t pattern = random_u64();
	unsigned int dtype;

	diff_begin(d, fill ? OPENREG_OP_FILL : OPENREG_OP_COPY, ndim,
		   random_range(0, 3) ? 60 : 200);
	dtype = diff_any_dtype();
	diff_operand(d, (unsigned int)random_range(0, 1), dtype, ALL(ndim),
		     false);
	if (fill) {
		diff_imm(d, pattern);
	} else {
		if (random_range(0, 1))
			dtype = diff_any_dtype();
		diff_operand(d, (unsigned int)random_range(0, 1), dtype,
			     ALL(ndim), true);
	}
	diff_run(d);
	do {
		if (fill)
			diff_put_bits(d, &d->op[0],
				      diff_at(d, &d->op[0], point), &pattern);
		else
			put_copy(d, point);
	} while (next_point(ndim, d->draft.size, point));
}
