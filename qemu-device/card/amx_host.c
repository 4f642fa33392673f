// SPDX-License-Identifier: MIT
/* Whether this host has a matrix unit. */
#include <pthread.h>

#include "amx.h"
#include "isa_amx.h"
#include "primitives.h"

static const struct openreg_amx *unit;

/* oneDNN asks the kernel for permission to use AMX, for all threads of the process. */
static void find_unit(void)
{
	if (openreg_primitive_isa(dnnl_cpu_isa_avx512_core_amx))
		unit = openreg_isa_amx();
}

const struct openreg_amx *openreg_amx(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_unit);
	return unit;
}
