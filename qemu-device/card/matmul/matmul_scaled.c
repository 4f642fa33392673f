// SPDX-License-Identifier: MIT
/* MATMUL with scales: checks the packet, and computes B, or A and B, in f32. */
#include "matmul.h"

enum { D, A, Q, SCALE, ZERO };
enum { A_SCALE = SCALE, B_SCALE = ZERO }; /* of SCALED_F8 */

#define GROUP_IMM 2
#define FEW_ROWS 16 /* rows up to which memory limits the speed */
#define FEW_MAX (1 << 20) /* elements of these rows */

static bool is_float(uint8_t dtype)
{
	return openreg_dtype_is_float(dtype) && dtype != OPENREG_F64;
}

static bool is_f8(const struct openreg_args *args)
{
	return args->arg[0] == OPENREG_MATMUL_SCALED_F8;
}

static bool fits_f8(unsigned int i, uint8_t dtype)
{
	if (i == D)
		return is_float(dtype);
	if (i == A || i == Q)
		return openreg_is_factor(dtype);
	return dtype == OPENREG_F8E8M0FNU || dtype == OPENREG_F32;
}

bool openreg_matmul_scaled_dtype(const struct openreg_args *args, unsigned int i)
{
	uint8_t dtype = args->op[i].dtype;

	if (is_f8(args))
		return fits_f8(i, dtype);
	switch (i) {
	case A:
		return dtype == args->op[D].dtype;
	case Q:
		return dtype == (args->arg[0] == OPENREG_MATMUL_SCALED_I4 ?
					 OPENREG_U8 :
					 OPENREG_I8);
	default:
		return is_float(dtype);
	}
}

/* Sets the operand's size along k. */
static void set_size(struct openreg_args *args, unsigned int i, int64_t k)
{
	struct openreg_arg *op = &args->op[i];

	op->sized = true;
	op->size[0] = args->size[0];
	op->size[1] = op->dims & 2 ? args->size[1] : 1;
	op->size[2] = op->dims & 4 ? args->size[2] : 1;
	op->size[3] = k;
}

struct openreg_verdict openreg_matmul_check_scaled(struct openreg_args *args)
{
	int64_t group = (int64_t)args->imm[GROUP_IMM], k = args->size[3];
	bool i4 = args->arg[0] == OPENREG_MATMUL_SCALED_I4;
	unsigned int i;

	if (group < 1 || k % group || (i4 && group % 2))
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   (uint64_t)group);
	set_size(args, Q, i4 ? k / 2 : k);
	for (i = SCALE; i < args->nops; i++)
		set_size(args, i, k / group);
	return openreg_good();
}

/* line: the dimension of its columns */
static struct openreg_matrix matrix(const struct openreg_arg *x, unsigned int line)
{
	return (struct openreg_matrix){ (uintptr_t)x->ptr, x->stride[0],
					x->stride[3], x->stride[line] };
}

void openreg_matmul_plan_scaled(struct openreg_matmul *mm,
				const struct openreg_args *args)
{
	struct openreg_scaled *s = &mm->scaled;

	*s = (struct openreg_scaled){ .how = args->arg[0] };
	if (!s->how)
		return;
	s->group = (int64_t)args->imm[GROUP_IMM];
	if (is_f8(args)) {
		s->a_dtype = args->op[A_SCALE].dtype;
		s->a_scale = matrix(&args->op[A_SCALE], 1);
		s->dtype = args->op[B_SCALE].dtype;
		s->scale = matrix(&args->op[B_SCALE], 2);
		return;
	}
	s->dtype = args->op[SCALE].dtype;
	s->scale = matrix(&args->op[SCALE], 2);
	s->has_zero = args->nops > ZERO;
	if (s->has_zero) {
		s->zero_dtype = args->op[ZERO].dtype;
		s->zero = matrix(&args->op[ZERO], 2);
	}
}

bool openreg_matmul_is_few(const struct openreg_matmul *mm)
{
	return mm->scaled.how && !openreg_matmul_scales_a(mm) && mm->m <= FEW_ROWS &&
	       mm->k > 0 &&
	       mm->k <= FEW_MAX / mm->m && (mm->b.row == 1 || mm->k == 1);
}

static float low_bits(uint8_t pair)
{
	return (float)((int)((pair & 15) ^ 8) - 8);
}

/* n pairs that are adjacent. */
static void load_pairs(float *to, const uint8_t *pair, int64_t n)
{
	int64_t i;

	for (i = 0; i < n; i++) {
		to[2 * i] = low_bits(pair[i]);
		to[2 * i + 1] = low_bits(pair[i] >> 4);
	}
}

/* Q as numbers. */
static void load_numbers(const struct openreg_matmul *mm, float *to, uintptr_t from,
			 int64_t k0, int64_t k)
{
	int64_t i;

	if (mm->scaled.how != OPENREG_MATMUL_SCALED_I4) {
		mm->kernels->load[mm->b_dtype][OPENREG_VT_F32](
			to, (const void *)from, mm->b.row, (size_t)k);
		return;
	}
	if (mm->b.row == 1 && k0 % 2 == 0 && k % 2 == 0) {
		load_pairs(to, (const uint8_t *)from, k / 2);
		return;
	}
	for (i = 0; i < k; i++) {
		const uint8_t *pair = (const uint8_t *)from +
				      ((k0 + i) / 2 - k0 / 2) * mm->b.row;

		to[i] = low_bits((uint8_t)(*pair >> ((k0 + i) % 2 ? 4 : 0)));
	}
}

/* k numbers of a row of A or a column of B, from element k0 on. */
struct line {
	const struct openreg_matmul *mm;
	float *to;
	int64_t batch, line, k0, k;
};

#define SCALES 64 /* loaded at a time */

static void load_scales(const struct line *l, float *to, const struct openreg_matrix *x,
			uint8_t dtype, int64_t group, int64_t n)
{
	l->mm->kernels->load[dtype][OPENREG_VT_F32](
		to,
		(const void *)openreg_matrix_at(x, openreg_dtype_size(dtype), l->batch,
						group, l->line),
		x->row, (size_t)n);
}

static void scale_numbers(float *x, int64_t n, float factor, float add)
{
	int64_t i;

	for (i = 0; i < n; i++)
		x[i] = x[i] * factor + add;
}

/* Multiplies each group of the line by its scale, and adds zero, which may be NULL. */
static void scale_line(const struct line *l, const struct openreg_matrix *scale,
		       uint8_t dtype, const struct openreg_matrix *zero)
{
	const struct openreg_scaled *s = &l->mm->scaled;
	int64_t first = l->k0 / s->group, last = (l->k0 + l->k - 1) / s->group, at = 0;
	float factor[SCALES], add[SCALES] = { 0 };
	int64_t n, g;

	for (; at < l->k; first += n) {
		n = last - first + 1 < SCALES ? last - first + 1 : SCALES;
		load_scales(l, factor, scale, dtype, first, n);
		if (zero)
			load_scales(l, add, zero, s->zero_dtype, first, n);
		for (g = 0; g < n; g++) {
			int64_t end = (first + g + 1) * s->group - l->k0;

			end = end < l->k ? end : l->k;
			scale_numbers(l->to + at, end - at, factor[g], add[g]);
			at = end;
		}
	}
}

void openreg_matmul_unscale(const struct openreg_matmul *mm, float *to, int64_t batch,
			    int64_t n, int64_t k0, int64_t k)
{
	const struct openreg_scaled *s = &mm->scaled;
	const struct line l = { mm, to, batch, n, k0, k };
	int64_t row = s->how == OPENREG_MATMUL_SCALED_I4 ? k0 / 2 : k0;

	load_numbers(mm, to, openreg_matrix_at(&mm->b, 1, batch, row, n), k0, k);
	scale_line(&l, &s->scale, s->dtype, s->has_zero ? &s->zero : NULL);
}

void openreg_matmul_unscale_a(const struct openreg_matmul *mm, float *to, int64_t batch,
			      int64_t m, int64_t k0, int64_t k)
{
	const struct line l = { mm, to, batch, m, k0, k };

	mm->kernels->load[mm->a_dtype][OPENREG_VT_F32](
		to, (const void *)openreg_matrix_at(&mm->a, 1, batch, m, k0),
		mm->a.column, (size_t)k);
	scale_line(&l, &mm->scaled.a_scale, mm->scaled.a_dtype, NULL);
}
