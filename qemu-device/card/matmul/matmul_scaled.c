// SPDX-License-Identifier: MIT
/* MATMUL with scales: checks the packet, and computes B from numbers of 8 or 4 bits. */
#include "matmul.h"

enum { D, A, Q, SCALE, ZERO };

#define GROUP_IMM 2
#define FEW_ROWS 16 /* rows up to which memory limits the speed */
#define FEW_MAX (1 << 20) /* elements of these rows */

static bool is_float(uint8_t dtype)
{
	return openreg_dtype_is_float(dtype) && dtype != OPENREG_F64;
}

bool openreg_matmul_scaled_dtype(const struct openreg_args *args, unsigned int i)
{
	uint8_t dtype = args->op[i].dtype;

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
	op->size[1] = 1;
	op->size[2] = args->size[2];
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

static struct openreg_matrix matrix(const struct openreg_arg *x)
{
	return (struct openreg_matrix){ (uintptr_t)x->ptr, x->stride[0],
					x->stride[3], x->stride[2] };
}

void openreg_matmul_plan_scaled(struct openreg_matmul *mm,
				const struct openreg_args *args)
{
	struct openreg_scaled *s = &mm->scaled;

	*s = (struct openreg_scaled){ .how = args->arg[0] };
	if (!s->how)
		return;
	s->group = (int64_t)args->imm[GROUP_IMM];
	s->dtype = args->op[SCALE].dtype;
	s->scale = matrix(&args->op[SCALE]);
	s->has_zero = args->nops > ZERO;
	if (s->has_zero) {
		s->zero_dtype = args->op[ZERO].dtype;
		s->zero = matrix(&args->op[ZERO]);
	}
}

bool openreg_matmul_is_few(const struct openreg_matmul *mm)
{
	return mm->scaled.how && mm->m <= FEW_ROWS && mm->k > 0 &&
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

	if (mm->scaled.how == OPENREG_MATMUL_SCALED_I8) {
		mm->kernels->load[OPENREG_I8][OPENREG_VT_F32](
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

static float load_one(const struct openreg_matmul *mm, const struct openreg_matrix *x,
		      uint8_t dtype, int64_t batch, int64_t row, int64_t n)
{
	float f;

	mm->kernels->load[dtype][OPENREG_VT_F32](
		&f,
		(const void *)openreg_matrix_at(x, openreg_dtype_size(dtype), batch,
						row, n),
		1, 1);
	return f;
}

void openreg_matmul_unscale(const struct openreg_matmul *mm, float *to, int64_t batch,
			    int64_t n, int64_t k0, int64_t k)
{
	const struct openreg_scaled *s = &mm->scaled;
	int64_t at, end, group, i;
	int64_t row = s->how == OPENREG_MATMUL_SCALED_I4 ? k0 / 2 : k0;

	load_numbers(mm, to, openreg_matrix_at(&mm->b, 1, batch, row, n), k0, k);
	for (at = 0; at < k; at = end) {
		float scale, zero = 0;

		group = (k0 + at) / s->group;
		end = (group + 1) * s->group - k0;
		end = end < k ? end : k;
		scale = load_one(mm, &s->scale, s->dtype, batch, group, n);
		if (s->has_zero)
			zero = load_one(mm, &s->zero, s->zero_dtype, batch, group,
					n);
		for (i = at; i < end; i++)
			to[i] = to[i] * scale + zero;
	}
}
