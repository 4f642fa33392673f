// SPDX-License-Identifier: MIT
/* Drafts of packets with operands of their own sizes. */
#include <string.h>

#include "packet.h"

#define ALL(ndim) ((1u << (ndim)) - 1)

static unsigned int number_dtype(struct stream *s)
{
	return 1 + take(s, OPENREG_BOOL - 1);
}

/* Takes kernel, input, stride, padding and dilation for the output sizes of the draft. */
static void take_windows(struct stream *s, struct draft *d, bool plain)
{
	int64_t imm[5][3];
	unsigned int i, k;

	for (i = 0; i < 3; i++) {
		int64_t out = d->size[d->op.ndim - 3 + i];

		imm[0][i] = plain ? 1 : 1 + take(s, 3);
		imm[2][i] = plain ? 1 : 1 + take(s, 3);
		imm[3][i] = plain ? 0 : take(s, 2);
		imm[4][i] = plain ? 1 : 1 + take(s, 2);
		if (out < 1 || out > 100)
			out = 1;
		imm[1][i] = (out - 1) * imm[2][i] +
			    (imm[0][i] - 1) * imm[4][i] + 1 - 2 * imm[3][i];
		if (imm[1][i] < 1 || rare(s, 8))
			imm[1][i] = take(s, 12);
	}
	for (i = 0; i < 5; i++)
		for (k = 0; k < 3; k++)
			draft_imm(d, (uint64_t)imm[i][k]);
}

static void sizes_of(const struct draft *d, unsigned int imm, int64_t *size)
{
	unsigned int i, n = d->op.ndim;

	memcpy(size, d->size, sizeof(d->size));
	for (i = 0; i < 3; i++)
		size[n - 3 + i] = (int64_t)d->imm[imm + i];
}

void draft_conv(struct stream *s, struct draft *d)
{
	static const uint8_t dims[3][4] = { { 0x77, 0x7b, 0x7e, 0x06 },
					    { 0x7b, 0x77, 0x7e, 0x0a },
					    { 0x7e, 0x77, 0x7b, 0 } };
	unsigned int kind = take(s, 3), dtype = number_dtype(s), i, nops = 3;
	int64_t size[OPENREG_DIMS_MAX];

	d->op.arg[0] = (uint8_t)kind;
	draft_sizes(s, d, 7);
	take_windows(s, d, false);
	if (kind != OPENREG_CONV_BACKWARD_WEIGHTS)
		nops += take(s, 2);
	for (i = 0; i < nops; i++) {
		unsigned int has = dims[kind][i];

		memcpy(size, d->size, sizeof(size));
		if (has == 0x7b)
			sizes_of(d, OPENREG_WINDOW_INPUT, size);
		if (has == 0x7e)
			sizes_of(d, OPENREG_WINDOW_KERNEL, size);
		draft_place(s, d, dtype, has, size, i == 0);
	}
}

void draft_pool(struct stream *s, struct draft *d)
{
	unsigned int kind = take(s, 2), dtype = number_dtype(s), i, nops = 2;
	unsigned int flags = take8(s) & 7;
	bool backward = flags & OPENREG_POOL_BACKWARD;
	int64_t input[OPENREG_DIMS_MAX];

	if (kind == OPENREG_POOL_MAX)
		flags &= ~(unsigned int)OPENREG_POOL_COUNT_PADDING;
	d->op.arg[0] = (uint8_t)kind;
	d->op.arg[1] = (uint8_t)flags;
	draft_sizes(s, d, 5);
	take_windows(s, d, flags & OPENREG_POOL_ADAPTIVE);
	sizes_of(d, OPENREG_WINDOW_INPUT, input);
	draft_imm(d, kind == OPENREG_POOL_AVG ? take(s, 4) : 0);
	if (kind == OPENREG_POOL_MAX)
		nops += backward || take(s, 2);
	for (i = 0; i < nops; i++)
		draft_place(s, d, i == 2 ? OPENREG_I64 : dtype, ALL(5),
			    i == (backward ? 0 : 1) ? input : d->size,
			    i == 0 || (i == 2 && !backward));
}

void draft_index(struct stream *s, struct draft *d)
{
	unsigned int mode = take(s, OPENREG_INDEX_END), i, n;
	unsigned int dtype = 1 + take(s, OPENREG_DTYPE_END - 1);
	unsigned int indirect = mode == OPENREG_INDEX_GET ? 2 : 1;
	int64_t step = 1, reach = 0;

	d->op.arg[0] = (uint8_t)mode;
	d->op.arg[1] = (uint8_t)take(s, 2);
	draft_sizes(s, d, take(s, 5));
	n = 1 + take(s, rare(s, 8) ? OPENREG_INDEX_OPERANDS_MAX : 2);
	for (i = 0; i < n; i++) {
		int64_t extent = 5 + take(s, 4);

		if (rare(s, 16))
			extent = (int64_t)take_odd(s);
		draft_imm(d, (uint64_t)extent);
		if (rare(s, 16))
			step = (int64_t)take_odd(s);
		draft_imm(d, (uint64_t)step);
		if (extent > 0 && extent < 64 && step > 0 && step < 4096)
			reach += (extent - 1) * step;
		step = 1 + take(s, 40);
	}
	if ((mode != OPENREG_INDEX_GET && take(s, 2)) || rare(s, 32)) {
		d->op.arg[2] = (uint8_t)(1 + take(s, (1u << n) - 1));
		indirect = 3;
	}
	for (i = 0; i < 2; i++)
		draft_place_more(s, d, dtype, ALL(d->op.ndim), d->size, i == 0,
				 indirect >> i & 1 ? reach : 0);
	for (i = 0; i < n; i++)
		draft_place(s, d, take(s, 2) ? OPENREG_I32 : OPENREG_I64,
			    ALL(d->op.ndim), d->size, false);
}

void draft_sort(struct stream *s, struct draft *d)
{
	unsigned int dtype = 1 + take(s, OPENREG_DTYPE_END - 1), i, axis, nops;
	int64_t results[OPENREG_DIMS_MAX], n, first;

	draft_sizes(s, d, 1 + take(s, 4));
	axis = take(s, d->op.ndim);
	d->op.arg[0] = (uint8_t)axis;
	d->op.arg[1] = (uint8_t)take(s, 2);
	nops = 2 + take(s, 2);
	n = d->size[axis];
	first = take(s, 4) && n > 0 && n < 256 ? 0 : take(s, 3);
	memcpy(results, d->size, sizeof(results));
	results[axis] = n > first ? n - first : 0;
	if (rare(s, 4))
		results[axis] = take(s, 5);
	draft_imm(d, (uint64_t)first);
	draft_imm(d, (uint64_t)results[axis]);
	for (i = 0; i < nops; i++)
		draft_place(s, d, i == 2 ? OPENREG_I64 : dtype,
			    ALL(d->op.ndim), i == 1 ? d->size : results,
			    i != 1);
}
