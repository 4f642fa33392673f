/* SPDX-License-Identifier: MIT */
/* CONV by its definition, seven nested loops. */
#ifndef TEST_CONV_REFERENCE_H
#define TEST_CONV_REFERENCE_H

#include "engine-harness.h"

#define DIMS 7
#define X_DIMS 0x7b
#define Y_DIMS 0x77
#define W_DIMS 0x7e

struct operand {
	unsigned int dims;
	int64_t size[DIMS];
	struct layout at;
	unsigned char *memory, *before;
};

struct problem {
	unsigned int kind, dtype;
	int64_t n, g, oc, ic;
	int64_t kernel[3], input[3], output[3], stride[3], padding[3];
	int64_t dilation[3];
	bool has_bias;
	struct operand x, y, w, bias;
};

/* Makes an operand with the dimensions dims. */
void make(struct problem *p, struct operand *op, unsigned int dims,
	  const int64_t space[3], bool broadcast);
void release(struct operand *op);
void make_args(struct openreg_args *args, struct problem *p);
/* Makes the operands, runs the packet and compares the result with the definition. */
void run(struct problem *p, bool reverse);
/* Chooses the sizes along dimension d. */
void random_space(struct problem *p, unsigned int d, bool used);

#endif
