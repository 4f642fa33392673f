// SPDX-License-Identifier: MIT
/* Whether this host has a matrix unit, and what it can be given. */
#include <pthread.h>

#include <oneapi/dnnl/dnnl.h>

#include "amx.h"
#include "isa_amx.h"

/* Exponents as an f32 has them. */
#define BIAS 127
#define PART_MIN (BIAS - 100) /* its last part is no subnormal number */
#define PART_MAX (BIAS + 119) /* nor is its first one infinite */
#define PRODUCT_MIN (2 * BIAS - 96) /* as for PART_MIN */
#define SUM_MAX (2 * BIAS + 124)

static const struct openreg_amx *unit;

/* oneDNN asks the kernel for permission, for all threads of the process. */
static void find_unit(void)
{
	unsigned int isa = dnnl_get_effective_cpu_isa();

	if ((isa & dnnl_cpu_isa_avx512_core_amx) ==
	    dnnl_cpu_isa_avx512_core_amx)
		unit = openreg_isa_amx();
}

const struct openreg_amx *openreg_amx(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_unit);
	return unit;
}

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
