/* SPDX-License-Identifier: MIT */
/* POOL by its definition, window by window. */
#ifndef TEST_POOL_REFERENCE_H
#define TEST_POOL_REFERENCE_H

#include "engine-harness.h"

#define DIMS 5

struct operand {
	unsigned int dtype;
	int64_t size[DIMS];
	struct layout at;
	unsigned char *memory;
};

struct problem {
	unsigned int kind, flags, dtype;
	int64_t n, c, divisor;
	int64_t kernel[3], input[3], output[3], stride[3], padding[3];
	int64_t dilation[3];
	bool has_index;
	struct operand x, y, index;
};

void make(struct problem *p, struct operand *op, unsigned int dtype,
	  const int64_t space[3]);
void make_args(struct openreg_args *args, struct problem *p);
/* Stores the index of each maximum by the definition, as the forward packet does. */
void fill_index(struct problem *p);
/* Makes the operands, runs the packet and compares the result with the definition. */
void run(struct problem *p, bool reverse);
/* Chooses the sizes along dimension d. */
void random_space(struct problem *p, unsigned int d, bool used);

#endif
