// SPDX-License-Identifier: MIT
/* Which values the matrix unit can multiply. */
#include "amx.h"

/* Biased exponents of f32. */
#define BIAS 127
#define PART_MIN (BIAS - 100) /* from here on, the last part is not subnormal */
#define PART_MAX (BIAS + 119) /* up to here, the first part is not infinite */
#define PRODUCT_MIN (2 * BIAS - 96) /* as PART_MIN, for products of parts */
#define SUM_MAX (2 * BIAS + 124)

static int exponent(uint32_t bits)
{
	return (int)(bits >> 23);
}

bool openreg_amx_in_range(const struct openreg_amx_range *a,
			  const struct openreg_amx_range *b, int64_t k)
{
	int low_a = exponent(a->least), low_b = exponent(b->least);
	int high_a = exponent(a->most), high_b = exponent(b->most), terms = 0;

	while (k >> terms)
		terms++;
	return low_a >= PART_MIN && low_b >= PART_MIN && high_a <= PART_MAX &&
	       high_b <= PART_MAX && low_a + low_b >= PRODUCT_MIN &&
	       high_a + high_b + terms <= SUM_MAX;
}
