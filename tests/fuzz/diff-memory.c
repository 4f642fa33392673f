// SPDX-License-Identifier: MIT
/* The reference's copy of memory, element by element. */
#include <float.h>
#include <math.h>

#include "diff.h"
#include "vector-reference.h"

bool diff_is_float(unsigned int dtype)
{
	return element_is_float(dtype);
}

unsigned int diff_any_dtype(void)
{
	return (unsigned int)random_range(OPENREG_F32, OPENREG_F8E8M0FNU);
}

unsigned int diff_common_dtype(void)
{
	return (unsigned int)random_range(OPENREG_F32, OPENREG_BOOL);
}

int64_t diff_at(const struct diff *d, const struct operand *op,
		const int64_t *point)
{
	int64_t at = 0;
	unsigned int i;

	for (i = 0; i < d->draft.op.ndim; i++)
		at += point[i] * op->layout.stride[i];
	return at;
}

static uint64_t byte_of(const struct operand *op, int64_t at)
{
	return op->at + (uint64_t)(at * (int64_t)openreg_dtype_size(op->dtype));
}

const uint8_t *diff_element(const struct diff *d, const struct operand *op,
			    int64_t at)
{
	return d->want[op->space] + byte_of(op, at);
}

double diff_have(const struct diff *d, const struct operand *op, int64_t at)
{
	return element_get(op->dtype, d->have[op->space] + byte_of(op, at), 0);
}

/* Converts by the format's definition; the format can hold the value exactly. */
static uint16_t half_bits(double x)
{
	unsigned int sign = signbit(x) ? 0x8000 : 0;
	int e;

	x = fabs(x);
	if (isnan(x))
		return 0x7e00;
	if (isinf(x))
		return (uint16_t)(sign | 0x7c00);
	if (x < 0x1p-14)
		return (uint16_t)(sign | (unsigned int)(x * 0x1p24));
	e = ilogb(x);
	return (uint16_t)(sign | (unsigned int)(e + 15) << 10 |
			  (unsigned int)((ldexp(x, -e) - 1) * 1024));
}

static uint16_t bfloat_bits(double x)
{
	float f = (float)x;
	uint32_t bits;

	memcpy(&bits, &f, 4);
	return (uint16_t)(bits >> 16);
}

static uint8_t float8_bits(unsigned int dtype, double x)
{
	unsigned int bits;

	for (bits = 0; bits < 256; bits++) {
		uint8_t h = (uint8_t)bits;
		double y = element_get(dtype, &h, 0);

		if (y == x && !signbit(y) == !signbit(x))
			return h;
	}
	return 0xff;
}

void diff_put_bits(struct diff *d, const struct operand *op, int64_t at,
		   const void *bits)
{
	memcpy(d->want[op->space] + byte_of(op, at), bits,
	       openreg_dtype_size(op->dtype));
	d->elements++;
}

void diff_put_any(struct diff *d, const struct operand *op, int64_t at)
{
	diff_put_bits(d, op, at, d->have[op->space] + byte_of(op, at));
	d->loose++;
}

void diff_put_int(struct diff *d, const struct operand *op, int64_t at,
		  int64_t value)
{
	int64_t bits = reference_wrap(op->dtype, value);

	diff_put_bits(d, op, at, &bits);
}

void diff_put_float(struct diff *d, const struct operand *op, int64_t at,
		    double value)
{
	double x = reference_to_float(op->dtype, value);
	uint16_t half = op->dtype == OPENREG_F16 ? half_bits(x)
						 : bfloat_bits(x);
	uint8_t byte = op->dtype > OPENREG_BOOL ? float8_bits(op->dtype, x) : 0;
	float f = (float)x;

	if (isnan(x)) {
		if (!isnan(diff_have(d, op, at)))
			diff_fail(d, "a number where there should be NaN");
		diff_put_bits(d, op, at,
			      d->have[op->space] + byte_of(op, at));
		return;
	}
	diff_put_bits(d, op, at,
		      op->dtype == OPENREG_F64	 ? (const void *)&x
		      : op->dtype == OPENREG_F32 ? (const void *)&f
		      : op->dtype > OPENREG_BOOL ? (const void *)&byte
						 : (const void *)&half);
}

/* A unit in the last place of x. *most: the largest number of the dtype. */
static long double rounding(unsigned int dtype, long double x, double *most)
{
	static const int digits[] = { [OPENREG_F32] = 23, [OPENREG_F64] = 52,
				      [OPENREG_F16] = 10, [OPENREG_BF16] = 7 };
	static const int least[] = { [OPENREG_F32] = -126,
				     [OPENREG_F64] = -1022,
				     [OPENREG_F16] = -14,
				     [OPENREG_BF16] = -126 };
	static const double largest[] = { [OPENREG_F32] = FLT_MAX,
					  [OPENREG_F64] = DBL_MAX,
					  [OPENREG_F16] = 65504,
					  [OPENREG_BF16] = 0x1.fep127 };
	int e = x == 0 ? -16000 : ilogbl(x);

	*most = largest[dtype];
	return ldexpl(1, (e < least[dtype] ? least[dtype] : e) - digits[dtype]);
}

void diff_put_near(struct diff *d, const struct operand *op, int64_t at,
		   long double value, long double tolerance)
{
	double have = diff_have(d, op, at), most;
	long double ulp = rounding(op->dtype, value, &most);

	if (!isfinite(value)) {
		diff_put_float(d, op, at, (double)value);
		return;
	}
	if (fabsl(value) + tolerance + ulp >= most) {
		diff_put_any(d, op, at);
		return;
	}
	if (!(fabsl(have - value) <= tolerance + ulp))
		diff_fail(d, "element %lld of dtype %u is %a, not within %La of %La",
			  (long long)at, op->dtype, have, tolerance + ulp,
			  value);
	diff_put_bits(d, op, at, d->have[op->space] + byte_of(op, at));
}

static double special(void)
{
	static const double values[] = {
		0.0, -0.0, 1, -1, 0.5, 2.5, -3.5, INFINITY, -INFINITY, NAN,
		65504, 65520, 1e-40, -1e-45, 3.4e38, 1e300, 5e-324, 2147483648.0,
		-2147483649.0, 9.3e18, 255, 256, -129,
	};

	return values[random_range(0, sizeof(values) / sizeof(*values) - 1)];
}

static double moderate(void)
{
	static const double ranges[] = { 1, 4, 30, 1000 };

	return (2 * random_unit() - 1) * ranges[random_range(0, 3)];
}

static void fill_one(unsigned int dtype, uint8_t *to)
{
	double x = random_range(0, 9) ? moderate() : special();
	uint64_t bits = random_u64() >> random_range(0, 63);
	float f = (float)x;
	uint16_t half;

	switch (dtype) {
	case OPENREG_F32:
		memcpy(to, &f, 4);
		return;
	case OPENREG_F64:
		memcpy(to, &x, 8);
		return;
	case OPENREG_F16:
	case OPENREG_BF16:
		x = reference_to_float(dtype, x);
		half = dtype == OPENREG_F16 ? half_bits(x) : bfloat_bits(x);
		if (random_range(0, 7) == 0)
			half = (uint16_t)bits;
		memcpy(to, &half, 2);
		return;
	case OPENREG_BOOL:
		*to = (uint8_t)(random_range(0, 9) ? bits & 1 : bits);
		return;
	}
	bits = random_range(0, 1) ? bits : -bits;
	memcpy(to, &bits, openreg_dtype_size(dtype));
}

void diff_fill(unsigned int dtype, void *to, int64_t n)
{
	unsigned int esize = openreg_dtype_size(dtype);
	int64_t i;

	for (i = 0; i < n; i++)
		fill_one(dtype, (uint8_t *)to + i * esize);
}
