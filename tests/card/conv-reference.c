// SPDX-License-Identifier: MIT
#include "conv-reference.h"

#include <stdlib.h>

void make(struct problem *p, struct operand *op, unsigned int dims,
	  const int64_t space[3], bool broadcast)
{
	const int64_t all[DIMS] = { p->n, p->g, p->oc, p->ic, space[0],
				    space[1], space[2] };
	unsigned int size = openreg_dtype_size(p->dtype), d;
	int64_t room[DIMS];

	op->dims = dims;
	for (d = 0; d < DIMS; d++)
		op->size[d] = dims >> d & 1 ? all[d] : 1;
	for (d = 0; d < DIMS; d++)
		room[d] = op->size[d] ? op->size[d] : 1;
	random_layout(&op->at, DIMS, room, broadcast);
	for (d = 0; d < DIMS; d++) {
		if (!(dims >> d & 1))
			op->at.stride[d] = 0;
	}
	op->memory = calloc((size_t)op->at.extent + 1, size);
	op->before = calloc((size_t)op->at.extent + 1, size);
	assert_non_null(op->memory);
	assert_non_null(op->before);
	fill_small(p->dtype, op->memory, op->at.extent, -3, 3);
	memcpy(op->before, op->memory, (size_t)op->at.extent * size);
}

void release(struct operand *op)
{
	free(op->memory);
	free(op->before);
}

static struct operand *result_of(struct problem *p)
{
	return p->kind == OPENREG_CONV_FORWARD	       ? &p->y
	       : p->kind == OPENREG_CONV_BACKWARD_DATA ? &p->x
						       : &p->w;
}

void make_args(struct openreg_args *args, struct problem *p)
{
	const int64_t size[DIMS] = { p->n,	   p->g,	 p->oc,
				     p->ic,	   p->output[0], p->output[1],
				     p->output[2] };
	struct operand *order[][3] = {
		{ &p->y, &p->x, &p->w },
		{ &p->x, &p->y, &p->w },
		{ &p->w, &p->y, &p->x },
	};
	const int64_t *imm[] = { p->kernel, p->input, p->stride, p->padding,
				 p->dilation };
	unsigned int i, esize = openreg_dtype_size(p->dtype);

	args_begin(args, OPENREG_OP_CONV, DIMS, size);
	args->arg[0] = (uint8_t)p->kind;
	for (i = 0; i < 3u + p->has_bias; i++) {
		struct operand *op = i < 3 ? order[p->kind][i] : &p->bias;

		args_operand(args, p->dtype,
			     op->memory + op->at.origin * esize,
			     op->at.stride);
	}
	for (i = 0; i < 15; i++)
		args_imm_i(args, imm[i / 3][i % 3]);
}

/* Finds the input of tap k of output o. Returns false if it is outside. */
static bool input_of(const struct problem *p, const int64_t *o,
		     const int64_t *k, int64_t *i)
{
	unsigned int d;

	for (d = 0; d < 3; d++) {
		i[d] = o[d] * p->stride[d] - p->padding[d] +
		       k[d] * p->dilation[d];
		if (i[d] < 0 || i[d] >= p->input[d])
			return false;
	}
	return true;
}

static double get(const struct problem *p, const struct operand *op,
		  const int64_t at[4], const int64_t space[3])
{
	const int64_t point[DIMS] = { at[0],	at[1],	  at[2],   at[3],
				      space[0], space[1], space[2] };

	return element_get(p->dtype, op->before,
			   layout_at(&op->at, DIMS, point));
}

/* Adds every product to its result for this kind. */
static double *expected(struct problem *p)
{
	const struct operand *to = result_of(p);
	const int64_t size[10] = { p->n, p->g, p->oc, p->ic,
				   p->output[0], p->output[1], p->output[2],
				   p->kernel[0], p->kernel[1], p->kernel[2] };
	double *sum = calloc((size_t)to->at.extent + 1, sizeof(*sum));
	int64_t at[10] = { 0 }, i[3];
	unsigned int d;

	assert_non_null(sum);
	for (d = 0; d < 10; d++) {
		if (!size[d])
			return sum;
	}
	do {
		int64_t *o = at + 4, *k = at + 7, point[DIMS];
		double y, x, w, product;

		if (!input_of(p, o, k, i))
			continue;
		memcpy(point, at, 4 * sizeof(*at));
		memcpy(point + 4,
		       p->kind == OPENREG_CONV_FORWARD		? o
		       : p->kind == OPENREG_CONV_BACKWARD_DATA ? i
								: k,
		       3 * sizeof(*i));
		x = p->kind == OPENREG_CONV_BACKWARD_DATA
			    ? 1
			    : get(p, &p->x, at, i);
		y = p->kind == OPENREG_CONV_FORWARD ? 1
						    : get(p, &p->y, at, o);
		w = p->kind == OPENREG_CONV_BACKWARD_WEIGHTS
			    ? 1
			    : get(p, &p->w, at, k);
		product = x * y * w;
		sum[layout_at(&to->at, DIMS, point)] += product;
	} while (next_point(10, size, at));
	return sum;
}

static void compare(struct problem *p)
{
	static const int64_t zero[3];
	struct operand *to = result_of(p);
	unsigned int esize = openreg_dtype_size(p->dtype);
	double *sum = expected(p);
	int64_t at[DIMS] = { 0 };
	unsigned int d;

	for (d = 0; d < DIMS; d++) {
		if (!to->size[d])
			goto out;
	}
	do {
		int64_t where = layout_at(&to->at, DIMS, at);
		double want = sum[where], have;

		if (p->has_bias)
			want += get(p, &p->bias, at, zero);
		want = element_round(p->dtype, want);
		have = element_get(p->dtype, to->memory, where);
		if (have != want)
			fail_msg("kind %u, dtype %u: %g is not %g", p->kind,
				 p->dtype, have, want);
		/* Marks the element as compared; what then differs is in a gap. */
		memcpy(to->before + where * esize, to->memory + where * esize,
		       esize);
	} while (next_point(DIMS, to->size, at));
out:
	assert_memory_equal(to->before, to->memory,
			    (size_t)to->at.extent * esize);
	free(sum);
}

void run(struct problem *p, bool reverse)
{
	struct openreg_args args;

	make(p, &p->x, X_DIMS, p->input,
	     p->kind != OPENREG_CONV_BACKWARD_DATA && random_range(0, 1));
	make(p, &p->y, Y_DIMS, p->output,
	     p->kind != OPENREG_CONV_FORWARD && random_range(0, 1));
	make(p, &p->w, W_DIMS, p->kernel,
	     p->kind != OPENREG_CONV_BACKWARD_WEIGHTS && random_range(0, 1));
	make(p, &p->bias, p->kind == OPENREG_CONV_FORWARD ? 0x6 : 0xa,
	     p->kernel, true);
	make_args(&args, p);
	args_run_order(&args, reverse);
	compare(p);
	release(&p->x);
	release(&p->y);
	release(&p->w);
	release(&p->bias);
}

/* As many outputs as fit, or some more or fewer; the card must accept any number. */
void random_space(struct problem *p, unsigned int d, bool used)
{
	int64_t reach, fit;

	p->kernel[d] = used ? random_range(1, 4) : 1;
	p->input[d] = used ? random_range(1, 9) : 1;
	p->stride[d] = used ? random_range(1, 4) : 1;
	p->padding[d] = used ? random_range(0, 3) : 0;
	p->dilation[d] = used && random_range(0, 2) == 0 ? random_range(2, 4)
							 : 1;
	reach = (p->kernel[d] - 1) * p->dilation[d] + 1;
	fit = p->input[d] + 2 * p->padding[d] - reach;
	p->output[d] = fit < 0 ? 1 : fit / p->stride[d] + 1;
	if (used && random_range(0, 5) == 0)
		p->output[d] = random_range(1, 6);
}
