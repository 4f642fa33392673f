// SPDX-License-Identifier: MIT
/* Chooses the kernels for this host. */
#include "kernels.h"

const struct openreg_kernels *openreg_kernels_at(enum openreg_isa_level level)
{
	switch (level) {
	case OPENREG_ISA_BASE:
		return &openreg_kernels_base;
#if defined(__x86_64__)
	case OPENREG_ISA_V3:
		return __builtin_cpu_supports("x86-64-v3") ? &openreg_kernels_v3
							   : NULL;
	case OPENREG_ISA_V4:
		return __builtin_cpu_supports("x86-64-v4") ? &openreg_kernels_v4
							   : NULL;
#endif
	default:
		return NULL;
	}
}

const struct openreg_kernels *openreg_kernels(void)
{
	static const struct openreg_kernels *chosen;
	const struct openreg_kernels *k;
	int level;

	k = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
	for (level = OPENREG_ISA_LEVELS - 1; !k; level--)
		k = openreg_kernels_at((enum openreg_isa_level)level);
	__atomic_store_n(&chosen, k, __ATOMIC_RELAXED);
	return k;
}
