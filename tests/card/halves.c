// SPDX-License-Identifier: MIT
/* Tensors of bf16 with their expected values. */
#include <math.h>
#include <stdlib.h>

#include "halves.h"

uint16_t as_half(float x)
{
	uint16_t half;

	openreg_convert(&half, OPENREG_BF16, 1, &x, OPENREG_F32, 1, 1);
	return half;
}

static float as_float(uint16_t half)
{
	float x;

	openreg_convert(&x, OPENREG_F32, 1, &half, OPENREG_BF16, 1, 1);
	return x;
}

static void lay_out(struct tensor *t, enum order order)
{
	int64_t step = order == APART ? 2 : 1;
	unsigned int i;

	t->at = (struct layout){ .origin = 0 };
	for (i = 0; i < t->ndim; i++) {
		/* [n, g, oc, ic, space]: the channels are innermost. */
		static const uint8_t last[DIMS] = { 3, 2, 1, 6, 5, 4, 0 };
		static const uint8_t turned[4] = { 1, 2, 3, 0 };
		unsigned int d = order == CHANNELS_LAST ? last[i] :
				 order == TURNED	? turned[i] :
							  t->ndim - 1 - i;

		t->at.stride[d] = step;
		step = step * t->size[d] + (order == GAPS ? 3 : 0);
	}
	t->at.extent = step;
}

void make(struct tensor *t, enum order order)
{
	int64_t at[DIMS] = { 0 }, i = 0;
	unsigned int d;

	for (t->count = 1, d = 0; d < t->ndim; d++)
		t->count *= t->size[d];
	lay_out(t, order);
	t->value = calloc((size_t)t->count, sizeof(*t->value));
	t->memory = calloc((size_t)t->at.extent + 1, sizeof(*t->memory));
	assert_non_null(t->value);
	assert_non_null(t->memory);
	do {
		t->value[i] = (float)random_range(-3, 3);
		t->memory[layout_at(&t->at, t->ndim, at)] =
			as_half(t->value[i++]);
	} while (next_point(t->ndim, t->size, at));
}

void repeat(struct tensor *t, unsigned int dims)
{
	int64_t at[DIMS] = { 0 }, i = 0;
	unsigned int d;

	for (d = 0; d < t->ndim; d++) {
		if (dims >> d & 1)
			t->at.stride[d] = 0;
	}
	do
		t->memory[layout_at(&t->at, t->ndim, at)] =
			as_half(t->value[i++]);
	while (next_point(t->ndim, t->size, at));
	i = 0;
	do
		t->value[i++] = as_float(
			t->memory[layout_at(&t->at, t->ndim, at)]);
	while (next_point(t->ndim, t->size, at));
}

void release(struct tensor *t)
{
	free(t->value);
	free(t->memory);
}

void expect_values(const struct tensor *t)
{
	int64_t at[DIMS] = { 0 }, i = 0;

	do {
		uint16_t ours = t->memory[layout_at(&t->at, t->ndim, at)];
		uint16_t right = as_half(t->value[i]);

		if (isnan(t->value[i]) ? (ours & 0x7fff) <= 0x7f80 :
					 ours != right)
			fail_msg("%ld: %04x is not %04x", (long)i, ours, right);
		i++;
	} while (next_point(t->ndim, t->size, at));
}

void soil(struct tensor *t)
{
	memset(t->memory, 0xff, ((size_t)t->at.extent + 1) * 2);
}

void operand(struct openreg_args *args, const struct tensor *t,
	     unsigned int dims)
{
	int64_t stride[DIMS] = { 0 };
	unsigned int d;

	for (d = 0; d < t->ndim; d++)
		stride[d] = dims >> d & 1 ? t->at.stride[d] : 0;
	args_operand(args, OPENREG_BF16, t->memory + t->at.origin, stride);
}
