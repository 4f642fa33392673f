/* SPDX-License-Identifier: MIT */
/* Writes random VECTOR programs, and knows what the registers hold. */
#ifndef FUZZ_DIFF_AUTHOR_H
#define FUZZ_DIFF_AUTHOR_H

#include "diff.h"

struct author {
	struct diff *d;
	uint32_t loads; /* operands that a LOAD may name */
	uint32_t uniform; /* registers with one value in each row */
	uint8_t types[OPENREG_REGS]; /* 0xff: not written */
	uint8_t kept[OPENREG_REGS]; /* types in the next stage */
};

unsigned int below(unsigned int n);

void author_begin(struct author *a, struct diff *d, uint32_t loads);
/* Adds about n instructions; afterwards some register has the type. */
void author_write(struct author *a, unsigned int n, unsigned int type);
bool author_has(const struct author *a, unsigned int type);
uint8_t author_reg(const struct author *a, unsigned int type);
void author_store(struct author *a, unsigned int operand);
/* Stores a uniform register. Returns false if there is none. */
bool author_store_row(struct author *a, unsigned int operand);
/* A reduction has been added; its stage is not the last. */
void author_result(struct author *a, const struct openreg_instr *in);
void author_next_stage(struct author *a);

#endif
