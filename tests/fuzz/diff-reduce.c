// SPDX-License-Identifier: MIT
/* Random VECTOR programs with reductions, in one or more stages. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "diff-author.h"
#include "vector/vector.h"
#include "vector-reference.h"

#define NONE OPENREG_VNONE
#define ALL(ndim) ((1u << (ndim)) - 1)

/* State of a reduction after some elements. */
struct fold {
	bool any, some;
	bool exact; /* the sum is the same in any order */
	long double sum, magnitude, product;
	double f;
	int64_t i, position;
	uint64_t count;
	bool zero[2]; /* by sign */
	int stray; /* a bound on any partial product's exponent */
};

static void fold_float(struct fold *r, unsigned int op, double x)
{
	bool max = op == OPENREG_V_RED_MAX;
	int e = x == 0 || !isfinite(x) ? 0 : ilogb(x);

	r->sum += x;
	r->magnitude += fabs(x);
	r->exact &= x == trunc(x) && r->magnitude < 0x1p52L;
	r->product *= x;
	if (x == 0)
		r->zero[signbit(x) != 0] = true;
	r->stray += abs(e) + 1;
	if (!r->some || (isnan(x) && !isnan(r->f)) ||
	    (!isnan(r->f) && (max ? x > r->f : x < r->f))) {
		r->f = x;
		r->position = (int64_t)r->count;
	}
}

static void fold_int(struct fold *r, unsigned int op, int64_t x)
{
	bool wins = !r->some || (op == OPENREG_V_RED_MAX ? x > r->i : x < r->i);

	switch (op) {
	case OPENREG_V_RED_SUM:
		r->i = (int64_t)((uint64_t)r->i + (uint64_t)x);
		return;
	case OPENREG_V_RED_PROD:
		r->i = (int64_t)((uint64_t)r->i * (uint64_t)x);
		return;
	case OPENREG_V_RED_AND:
		r->i = r->i && x;
		return;
	case OPENREG_V_RED_OR:
		r->i = r->i || x;
		return;
	}
	if (wins) {
		r->i = x;
		r->position = (int64_t)r->count;
	}
}

/* A sum or product in f64 in any order, then rounded, then cast. */
static void put_sum(struct diff *d, const struct openreg_instr *in,
		    const struct fold *r, const struct operand *op, int64_t at)
{
	bool sum = in->op == OPENREG_V_RED_SUM;
	long double x = sum ? r->sum : r->product, near = r->magnitude;
	double scale = 1;

	if (in->c != NONE)
		memcpy(&scale, &d->draft.imm[in->c], 8);
	if (!sum)
		near = fabsl(x);
	near *= (long double)(r->count + 2) * DBL_EPSILON * fabs(scale);
	x *= scale;
	if (in->type == OPENREG_VT_F32)
		near += fabsl(x) * FLT_EPSILON + FLT_TRUE_MIN;
	near += DBL_TRUE_MIN;
	if (!diff_is_float(op->dtype) || (!sum && r->stray > 900) ||
	    (isfinite(x) && fabsl(x) > FLT_MAX / 2) || r->magnitude > 1e300L)
		diff_put_any(d, op, at);
	else
		diff_put_near(d, op, at, x, near);
}

static struct value put_fold(struct diff *d, const struct openreg_instr *in,
		     const struct fold *r, const int64_t *kept)
{
	bool sum = in->op == OPENREG_V_RED_SUM || in->op == OPENREG_V_RED_PROD;
	struct value v = { .type = in->type, .any = r->any, .f = r->f };
	double scale = 1;

	v.i = reference_wrap(in->type == OPENREG_VT_I32 ? OPENREG_I32
							: OPENREG_I64,
			     r->i);
	if (in->b != NONE && r->any)
		diff_put_any(d, &d->op[in->b], diff_at(d, &d->op[in->b], kept));
	else if (in->b != NONE)
		diff_put_int(d, &d->op[in->b], diff_at(d, &d->op[in->b], kept),
			     r->position);
	if (in->c != NONE)
		memcpy(&scale, &d->draft.imm[in->c], 8);
	/* Either zero may be the extreme. */
	v.any |= !sum && v.f == 0 && r->zero[0] && r->zero[1];
	if (r->exact)
		v.f = (double)r->sum;
	v.f = in->type == OPENREG_VT_F32 ? (float)(v.f * scale) : v.f * scale;
	if (sum && in->type <= OPENREG_VT_F64 && !r->any && !r->exact) {
		if (in->aux != NONE)
			put_sum(d, in, r, &d->op[in->aux],
				diff_at(d, &d->op[in->aux], kept));
		v.any = true;
	} else if (in->aux != NONE) {
		interpret_store(d, &d->op[in->aux],
				diff_at(d, &d->op[in->aux], kept), &v);
	}
	return v;
}

/* The instructions of a stage: reductions follow the first ones. */
struct stage {
	unsigned int first, reductions, end;
};

static bool is_reduction(const struct diff *d, unsigned int i)
{
	return openreg_vector_form(d->draft.instr[i].op) == OPENREG_VFORM_REDUCE;
}

static struct stage stage_at(const struct diff *d, unsigned int first)
{
	struct stage s = { .first = first };
	unsigned int i = first, n = d->draft.op.ninstr;

	while (i < n && !is_reduction(d, i))
		i++;
	s.reductions = i;
	while (i < n && is_reduction(d, i))
		i++;
	s.end = i;
	return s;
}

static void fold_one(struct fold *r, const struct openreg_instr *in,
		     const struct value *v)
{
	r->any |= v->any || v->rough;
	if (in->type <= OPENREG_VT_F64)
		fold_float(r, in->op, v->f);
	else
		fold_int(r, in->op, v->i);
	r->some = true;
	r->count++;
}

/* Runs a stage for a row, and puts the results into m. */
static void run_stage(struct diff *d, struct machine *m, const struct stage *s,
		      const int64_t *kept)
{
	int64_t inner[OPENREG_DIMS_MAX] = { 0 }, size[OPENREG_DIMS_MAX];
	int64_t point[OPENREG_DIMS_MAX];
	struct fold r[OPENREG_REDUCTIONS_MAX];
	unsigned int k, i, n = d->draft.op.ndim;

	for (i = s->reductions; i < s->end; i++) {
		unsigned int op = d->draft.instr[i].op;
		bool one = op == OPENREG_V_RED_PROD || op == OPENREG_V_RED_AND;

		r[i - s->reductions] = (struct fold){
			.i = one, .product = 1,
			.exact = op == OPENREG_V_RED_SUM,
		};
	}
	for (k = 0; k < n; k++)
		size[k] = d->draft.op.arg[0] >> k & 1 ? d->draft.size[k] : 1;
	do {
		struct machine at_point = *m;
		uint64_t index = 0;

		for (k = 0; k < n; k++) {
			point[k] = kept[k] + inner[k];
			index = index * (uint64_t)d->draft.size[k] +
				(uint64_t)point[k];
		}
		interpret(d, &at_point, s->first, point, index);
		for (i = s->reductions; i < s->end; i++)
			fold_one(&r[i - s->reductions], &d->draft.instr[i],
				 &at_point.reg[d->draft.instr[i].a]);
	} while (next_point(n, size, inner));
	for (i = s->reductions; i < s->end; i++) {
		const struct openreg_instr *in = &d->draft.instr[i];

		m->reg[in->dst] = put_fold(d, in, &r[i - s->reductions], kept);
	}
}

static void run_rows(struct diff *d)
{
	int64_t kept[OPENREG_DIMS_MAX] = { 0 }, size[OPENREG_DIMS_MAX];
	unsigned int k;

	for (k = 0; k < d->draft.op.ndim; k++)
		size[k] = d->draft.op.arg[0] >> k & 1 ? 1 : d->draft.size[k];
	do {
		struct machine m = { 0 };
		struct stage s = { .end = 0 };

		while (s.end < d->draft.op.ninstr) {
			s = stage_at(d, s.end);
			run_stage(d, &m, &s, kept);
		}
	} while (next_point(d->draft.op.ndim, size, kept));
}

static void add_reduction(struct author *a, bool last)
{
	struct openreg_instr in = { .b = NONE, .c = NONE, .aux = NONE };
	struct diff *d = a->d;
	uint32_t kept = ALL(d->draft.op.ndim) & ~(uint32_t)d->draft.op.arg[0];
	bool extreme, room = d->draft.op.nops < 12;

	in.op = (uint8_t)(OPENREG_V_RED_SUM + below(6));
	in.type = (uint8_t)below(OPENREG_VT_END);
	if (in.op >= OPENREG_V_RED_AND)
		in.type |= 2;
	while (!author_has(a, in.type))
		in.type = (uint8_t)(in.op >= OPENREG_V_RED_AND
					    ? in.type ^ 1
					    : (in.type + 1) % OPENREG_VT_END);
	in.a = author_reg(a, in.type);
	in.dst = (uint8_t)below(OPENREG_REGS);
	extreme = in.op == OPENREG_V_RED_MAX || in.op == OPENREG_V_RED_MIN;
	if (room && extreme && below(2))
		in.b = (uint8_t)diff_operand(d, SPACE_VRAM, OPENREG_I64, kept,
					     false);
	if ((last && in.b == NONE) || (room && below(3) == 0))
		in.aux = (uint16_t)diff_operand(d, SPACE_VRAM, diff_common_dtype(),
						kept, false);
	if (in.type <= OPENREG_VT_F64 && below(3) == 0 &&
	    d->draft.op.nimm < OPENREG_IMMS_MAX) {
		double scale = 0.25;
		uint64_t bits;

		memcpy(&bits, &scale, 8);
		in.c = (uint8_t)diff_imm(d, bits);
	}
	diff_instr(d, in);
	if (!last)
		author_result(a, &in);
}

void diff_reduce(struct diff *d)
{
	unsigned int stores = below(4) == 0, loads = 1 + below(3), i;
	struct author a;
	uint32_t all;

	diff_begin(d, OPENREG_OP_VECTOR, below(8),
		   random_range(0, 15) ? 300 : 4000);
	all = ALL(d->draft.op.ndim);
	d->draft.op.arg[0] = (uint8_t)below(1u << d->draft.op.ndim);
	for (i = 0; i < stores + loads; i++)
		diff_operand(d, SPACE_VRAM, diff_any_dtype(), all, i >= stores);
	author_begin(&a, d, ((1u << loads) - 1) << stores);
	author_write(&a, below(6), OPENREG_VT_I32);
	if (stores)
		author_store(&a, 0);
	add_reduction(&a, true);
	diff_run(d);
	run_rows(d);
}

/* The operands of a staged program that are not results. */
enum { POINTS, ROWS, FIRST_LOAD };

static void add_stage(struct author *a, unsigned int *reductions, bool last,
		      unsigned int *left)
{
	unsigned int n = *reductions ? 1 + below(2) : 0;

	author_write(a, below(4), OPENREG_VT_I32);
	/* Later stages may load what this one stores. */
	if (*left & 1u << POINTS && below(3) == 0) {
		author_store(a, POINTS);
		*left &= ~(1u << POINTS);
		a->loads |= 1u << POINTS;
	}
	if (*left & 1u << ROWS && below(2) && author_store_row(a, ROWS)) {
		*left &= ~(1u << ROWS);
		a->loads |= 1u << ROWS;
	}
	if (n > *reductions)
		n = *reductions;
	*reductions -= n;
	while (n--)
		add_reduction(a, last);
	author_next_stage(a);
}

void diff_stages(struct diff *d)
{
	unsigned int stages = 2 + below(OPENREG_STAGES_MAX - 1), loads, i, dtype;
	unsigned int reductions = OPENREG_REDUCTIONS_MAX, none = 0;
	unsigned int left = 1u << POINTS | 1u << ROWS;
	uint32_t all, kept, dims;
	struct author a;

	diff_begin(d, OPENREG_OP_VECTOR, below(8),
		   random_range(0, 15) ? 300 : 4000);
	all = ALL(d->draft.op.ndim);
	d->draft.op.arg[0] = (uint8_t)below(1u << d->draft.op.ndim);
	kept = all & ~(uint32_t)d->draft.op.arg[0];
	diff_operand(d, SPACE_VRAM, diff_any_dtype(), all, false);
	diff_operand(d, SPACE_VRAM, diff_common_dtype(), kept, false);
	loads = 1 + below(3);
	for (i = 0; i < loads; i++) {
		dtype = diff_any_dtype();
		dims = below(2) ? all : below(2) ? kept : all & ~kept;
		diff_operand(d, SPACE_VRAM, dtype, dims, true);
	}
	author_begin(&a, d, ((1u << loads) - 1) << FIRST_LOAD);
	for (i = 0; i + 1 < stages; i++)
		add_stage(&a, &reductions, false, &left);
	add_stage(&a, below(3) ? &none : &reductions, true, &left);
	diff_run(d);
	run_rows(d);
}
