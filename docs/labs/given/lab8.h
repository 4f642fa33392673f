/* SPDX-License-Identifier: MIT */
/*
 * Given: the build of lab 8 adds the engine to the table in engine/engine.c, and the
 * instruction to vector/vector_check.c and vector/vector_plan.c.
 */
#ifndef LAB8_H
#define LAB8_H

#include "job/work.h"
#include "vector/vector.h"

#define LAB8_V_AVERAGE 63 /* an instruction that the card does not have */

struct lab8_instruction {
	uint8_t form; /* enum openreg_vform */
	uint8_t types; /* OPENREG_VTYPES_* */
	/* By enum openreg_vtype; see openreg_kernel. */
	void (*kernel[OPENREG_VT_END])(void *dst, const void *a, const void *b,
				       const void *c, size_t n);
};

extern const struct openreg_engine lab8_engine;
extern const struct lab8_instruction lab8_average;

#endif
