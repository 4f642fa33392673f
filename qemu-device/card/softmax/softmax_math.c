// SPDX-License-Identifier: MIT
/* SOFTMAX: the arithmetic on one block. */
#include <math.h>
#include <string.h>

#include "softmax.h"

#define SUM 0 /* row of OPENREG_V_RED_SUM, the first reduction */

/* Computes the sum of each row. */
static void fold_sum(const struct openreg_softmax *sm,
		     const struct openreg_softmax_block *b, const void *x,
		     double *out)
{
	const struct openreg_kernels *k = sm->kernels;
	union openreg_acc acc[OPENREG_SOFTMAX_WIDTH];
	const unsigned char *line = x;
	int64_t i;

	if (sm->rows) {
		k->sum_of_rows[sm->type](out, x, (size_t)b->width,
					 (size_t)b->lines);
		return;
	}
	for (i = 0; i < b->width; i++)
		acc[i].f = 0;
	for (i = 0; i < b->lines; i++) {
		k->accumulate[SUM][sm->type](acc, line, (size_t)b->width);
		line += b->width * sm->esize;
	}
	for (i = 0; i < b->width; i++)
		out[i] = acc[i].f;
}

/* Finds the greatest element of each row; a NaN is the greatest. */
static void fold_max(const struct openreg_softmax *sm,
		     const struct openreg_softmax_block *b, double *out)
{
	const unsigned char *line = b->x;
	double most[OPENREG_SOFTMAX_WIDTH];
	int64_t i;

	if (sm->rows) {
		sm->kernels->most_of_rows[sm->type](out, b->x, (size_t)b->width,
						    (size_t)b->lines);
		return;
	}
	memcpy(most, line, (size_t)(b->width * sm->esize));
	for (i = 1; i < b->lines; i++) {
		line += b->width * sm->esize;
		sm->kernels->op[OPENREG_V_MAX][sm->type](most, most, line, line,
							 (size_t)b->width);
	}
	sm->kernels->cvt[sm->type][OPENREG_VT_F64](out, most, most, most,
						   (size_t)b->width);
}

static void unary(const struct openreg_softmax *sm,
		  const struct openreg_softmax_block *b, unsigned int op,
		  void *dst, const void *x)
{
	sm->kernels->op[op][sm->type](dst, x, x, x,
				      (size_t)(b->width * b->lines));
}

static void binary(const struct openreg_softmax *sm,
		   const struct openreg_softmax_block *b, unsigned int op,
		   void *dst, const void *x, const void *y)
{
	sm->kernels->op[op][sm->type](dst, x, y, x,
				      (size_t)(b->width * b->lines));
}

static void by_row(const struct openreg_softmax *sm,
		   const struct openreg_softmax_block *b,
		   openreg_by_row_fn *const fn[2][OPENREG_VT_END], void *x,
		   const double *value)
{
	fn[sm->rows][sm->type](x, value, (size_t)b->width, (size_t)b->lines);
}

/* dst = exp(x - shift), and sum = the sum of each row of dst. Changes x. */
static void exponentials(const struct openreg_softmax *sm,
			 struct openreg_softmax_block *b, void *dst,
			 const double *shift, double *sum)
{
	by_row(sm, b, sm->kernels->subtract, b->x, shift);
	unary(sm, b, OPENREG_V_EXP, dst, b->x);
	fold_sum(sm, b, dst, sum);
}

static void measure_forward(const struct openreg_softmax *sm,
			    struct openreg_softmax_block *b)
{
	double max[OPENREG_SOFTMAX_WIDTH], sum[OPENREG_SOFTMAX_WIDTH];
	double shift[OPENREG_SOFTMAX_WIDTH];
	int64_t i;

	fold_max(sm, b, max);
	/* A piece of -inf only adds nothing to rows with other elements. */
	for (i = 0; i < b->width; i++)
		shift[i] = max[i] == -INFINITY ? 0 : max[i];
	exponentials(sm, b, b->x, shift, sum);
	for (i = 0; i < b->width; i++) {
		b->stat[i].max = max[i];
		b->stat[i].sum = sum[i];
	}
}

static void measure_backward(const struct openreg_softmax *sm,
			     struct openreg_softmax_block *b)
{
	double sum[OPENREG_SOFTMAX_WIDTH];
	const void *x = b->x;
	int64_t i;

	if (!sm->log) {
		binary(sm, b, OPENREG_V_MUL, b->z, b->x, b->output);
		x = b->z;
	}
	fold_sum(sm, b, x, sum);
	for (i = 0; i < b->width; i++) {
		b->stat[i].max = 0;
		b->stat[i].sum = sum[i];
	}
}

void openreg_softmax_measure(const struct openreg_softmax *sm,
			     struct openreg_softmax_block *block)
{
	if (sm->backward)
		measure_backward(sm, block);
	else
		measure_forward(sm, block);
}

/* The division dominates, so plain C is as fast as a kernel. */
static void divide_f64(const struct openreg_softmax *sm,
		       struct openreg_softmax_block *b, const double *sum)
{
	double *x = b->x;
	int64_t i, j;

	if (sm->rows) {
		for (i = 0; i < b->width; i++) {
			for (j = 0; j < b->lines; j++)
				*x++ /= sum[i];
		}
		return;
	}
	for (j = 0; j < b->lines; j++, x += b->width) {
		for (i = 0; i < b->width; i++)
			x[i] /= sum[i];
	}
}

/*
 * Divides the exponentials by their sum. In f32 either the sum or its reciprocal rounds,
 * so multiplying is as exact, and much faster. In f64 it would round once more.
 */
static void divide(const struct openreg_softmax *sm,
		   struct openreg_softmax_block *b, double *sum)
{
	int64_t i;

	if (sm->type == OPENREG_VT_F64) {
		divide_f64(sm, b, sum);
		return;
	}
	for (i = 0; i < b->width; i++)
		sum[i] = 1 / sum[i];
	by_row(sm, b, sm->kernels->multiply, b->x, sum);
}

/* x = exp(x - max) / sum, or x - max - log(sum) if logarithmic. */
static void apply_forward(const struct openreg_softmax *sm,
			  struct openreg_softmax_block *b)
{
	double max[OPENREG_SOFTMAX_WIDTH], sum[OPENREG_SOFTMAX_WIDTH];
	int64_t i;

	for (i = 0; i < b->width; i++) {
		max[i] = b->stat[i].max;
		sum[i] = b->stat[i].sum;
	}
	by_row(sm, b, sm->kernels->subtract, b->x, max);
	if (sm->log) {
		sm->kernels->op[OPENREG_V_LOG][OPENREG_VT_F64](
			sum, sum, sum, sum, (size_t)b->width);
		by_row(sm, b, sm->kernels->subtract, b->x, sum);
	} else {
		unary(sm, b, OPENREG_V_EXP, b->x, b->x);
		divide(sm, b, sum);
	}
}

/* x = output * (x - sum), or x - exp(output) * sum if logarithmic. */
static void apply_backward(const struct openreg_softmax *sm,
			   struct openreg_softmax_block *b)
{
	double sum[OPENREG_SOFTMAX_WIDTH];
	int64_t i;

	for (i = 0; i < b->width; i++)
		sum[i] = b->stat[i].sum;
	if (sm->log) {
		unary(sm, b, OPENREG_V_EXP, b->y, b->output);
		by_row(sm, b, sm->kernels->multiply, b->y, sum);
		binary(sm, b, OPENREG_V_SUB, b->x, b->x, b->y);
	} else {
		by_row(sm, b, sm->kernels->subtract, b->x, sum);
		binary(sm, b, OPENREG_V_MUL, b->x, b->x, b->output);
	}
}

void openreg_softmax_apply(const struct openreg_softmax *sm,
			   struct openreg_softmax_block *block)
{
	if (sm->backward)
		apply_backward(sm, block);
	else
		apply_forward(sm, block);
}

static void whole_forward(const struct openreg_softmax *sm,
			  struct openreg_softmax_block *b)
{
	double max[OPENREG_SOFTMAX_WIDTH], sum[OPENREG_SOFTMAX_WIDTH];

	fold_max(sm, b, max);
	exponentials(sm, b, sm->log ? b->y : b->x, max, sum);
	if (!sm->log) {
		divide(sm, b, sum);
		return;
	}
	sm->kernels->op[OPENREG_V_LOG][OPENREG_VT_F64](sum, sum, sum, sum,
						       (size_t)b->width);
	by_row(sm, b, sm->kernels->subtract, b->x, sum);
}

void openreg_softmax_whole(const struct openreg_softmax *sm,
			   struct openreg_softmax_block *block)
{
	if (!sm->backward) {
		whole_forward(sm, block);
		return;
	}
	measure_backward(sm, block);
	apply_backward(sm, block);
}

/* Scales both sums by exp of the difference of their maximum to the common one. */
void openreg_softmax_merge(const struct openreg_softmax *sm,
			   struct openreg_softmax_stat *row,
			   const struct openreg_softmax_stat *piece)
{
	double max = piece->max > row->max || piece->max != piece->max
			     ? piece->max
			     : row->max;
	double e[2] = { row->max - max, piece->max - max };

	if (sm->backward || piece->max == -INFINITY) {
		row->sum += piece->sum;
		return;
	}
	sm->kernels->op[OPENREG_V_EXP][OPENREG_VT_F64](e, e, e, e, 2);
	row->sum = (row->max == -INFINITY ? 0 : row->sum * e[0]) +
		   piece->sum * e[1];
	row->max = max;
}
