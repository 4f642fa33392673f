// SPDX-License-Identifier: MIT
/* Random VECTOR programs, with and without a reduction. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "diff.h"
#include "vector/vector.h"
#include "vector-reference.h"

#define NONE OPENREG_VNONE
#define ALL(ndim) ((1u << (ndim)) - 1)

static const struct {
	uint8_t op;
	uint8_t types;
} table[] = {
#define V(op, name, types, form, semantics)                                    \
	{ OPENREG_V_##op, OPENREG_VTYPES_##types },
	OPENREG_VECTOR_OPS(V)
#undef V
};
#define TABLE (sizeof(table) / sizeof(table[0]))

/* Type of each register; 0xff: not written. */
static uint8_t types[OPENREG_REGS];

static unsigned int below(unsigned int n)
{
	return (unsigned int)random_range(0, n - 1);
}

static bool has(unsigned int type)
{
	unsigned int i;

	for (i = 0; i < OPENREG_REGS; i++)
		if (types[i] == type)
			return true;
	return false;
}

static uint8_t reg_of(unsigned int type)
{
	unsigned int i;

	do
		i = below(OPENREG_REGS);
	while (types[i] != type);
	return (uint8_t)i;
}

static void add(struct diff *d, struct openreg_instr in, unsigned int result)
{
	in.dst = (uint8_t)below(OPENREG_REGS);
	types[in.dst] = (uint8_t)result;
	diff_instr(d, in);
}

static void add_load(struct diff *d, unsigned int first, unsigned int loads,
		     unsigned int type)
{
	const struct openreg_instr in = {
		.op = OPENREG_V_LOAD,
		.type = (uint8_t)type,
		.aux = (uint16_t)(first + below(loads)),
	};

	add(d, in, type);
}

static void add_imm(struct diff *d, unsigned int type)
{
	double x = random_unit() * 16 - 8;
	uint64_t bits = random_u64() >> random_range(0, 63);
	struct openreg_instr in = { .op = OPENREG_V_IMM,
				    .type = (uint8_t)type };

	if (type <= OPENREG_VT_F64)
		memcpy(&bits, &x, 8);
	in.aux = (uint16_t)(d->draft.op.nimm < 10 ? diff_imm(d, bits)
						  : below(10));
	add(d, in, type);
}

static void add_random(struct diff *d, unsigned int type)
{
	const struct openreg_instr in = {
		.op = OPENREG_V_RANDOM,
		.type = (uint8_t)type,
		.a = (uint8_t)below(d->draft.op.nimm),
		.b = (uint8_t)below(d->draft.op.nimm),
		.aux = (uint16_t)random_range(0, 65535),
	};

	add(d, in, type);
}

/* Chooses source registers. False if no register has a needed type. */
static bool sources(struct openreg_instr *in, unsigned int form)
{
	unsigned int first = form == OPENREG_VFORM_SELECT ? OPENREG_VT_I32
							  : in->type;

	if (form == OPENREG_VFORM_CVT) {
		in->aux = (uint16_t)below(OPENREG_VT_END);
		first = in->aux;
	}
	if (form == OPENREG_VFORM_ROUND)
		in->aux = (uint16_t)(OPENREG_F16 + below(2));
	if (!has(first) || !has(in->type))
		return form == OPENREG_VFORM_CVT && has(first) &&
		       (in->a = reg_of(first), true);
	in->a = reg_of(first);
	in->b = reg_of(in->type);
	in->c = reg_of(in->type);
	return true;
}

static void one_instr(struct diff *d, unsigned int first, unsigned int loads)
{
	unsigned int i = below(TABLE), type = below(OPENREG_VT_END);
	unsigned int form = openreg_vector_form(table[i].op);
	struct openreg_instr in = { .op = table[i].op };

	/* Use inexact functions rarely: results computed from them are not compared. */
	if (table[i].op >= OPENREG_V_EXP && random_range(0, 7))
		return;
	while (!(table[i].types >> type & 1))
		type = (type + 1) % OPENREG_VT_END;
	in.type = (uint8_t)type;
	switch (form) {
	case OPENREG_VFORM_LOAD:
		add_load(d, first, loads, type);
		return;
	case OPENREG_VFORM_IMM:
		add_imm(d, type);
		return;
	case OPENREG_VFORM_RANDOM:
		add_random(d, type);
		return;
	case OPENREG_VFORM_STORE:
	case OPENREG_VFORM_REDUCE:
		return;
	case OPENREG_VFORM_INDEX:
		if (!d->draft.op.ndim)
			return;
		in.aux = (uint16_t)below(d->draft.op.ndim);
		break;
	default:
		if (!sources(&in, form))
			return;
	}
	if (form == OPENREG_VFORM_TEST1 || form == OPENREG_VFORM_TEST2)
		type = OPENREG_VT_I32;
	add(d, in, type);
}

/* Adds instructions until the program has n, and a register of the type. */
static void program(struct diff *d, unsigned int first, unsigned int loads,
		    unsigned int n, unsigned int type)
{
	unsigned int i;

	memset(types, 0xff, sizeof(types));
	diff_imm(d, random_u64());
	for (i = 0; i < OPENREG_VT_END; i++)
		add_load(d, first, loads, i);
	while (d->draft.op.ninstr < n)
		one_instr(d, first, loads);
	if (!has(type))
		add_load(d, first, loads, type);
}

static void add_store(struct diff *d, unsigned int operand)
{
	struct openreg_instr in = { .op = OPENREG_V_STORE,
				    .type = (uint8_t)below(OPENREG_VT_END),
				    .aux = (uint16_t)operand };

	while (!has(in.type))
		in.type = (uint8_t)((in.type + 1) % OPENREG_VT_END);
	in.a = reg_of(in.type);
	diff_instr(d, in);
}

static void begin(struct diff *d, unsigned int stores, unsigned int *loads)
{
	unsigned int i, dtype;
	uint32_t all;

	diff_begin(d, OPENREG_OP_VECTOR, below(8),
		   random_range(0, 15) ? 300 : 4000);
	all = ALL(d->draft.op.ndim);
	for (i = 0; i < stores; i++)
		diff_operand(d, SPACE_VRAM, diff_any_dtype(), all, false);
	*loads = 1 + below(3);
	for (i = 0; i < *loads; i++) {
		dtype = diff_any_dtype();
		diff_operand(d, SPACE_VRAM, dtype, all, true);
	}
}

static bool next_index(struct diff *d, int64_t *point, uint64_t *index)
{
	++*index;
	return next_point(d->draft.op.ndim, d->draft.size, point);
}

void diff_vector(struct diff *d)
{
	unsigned int stores = 1 + below(2), loads, i;
	int64_t point[OPENREG_DIMS_MAX] = { 0 };
	uint64_t index = 0;
	struct machine m;

	begin(d, stores, &loads);
	program(d, stores, loads, 4 + below(random_range(0, 7) ? 12 : 50), 0);
	for (i = 0; i < stores; i++)
		add_store(d, i);
	diff_run(d);
	do
		interpret(d, &m, point, index);
	while (next_index(d, point, &index));
}

/* State of a reduction after some elements. */
struct fold {
	bool any, some;
	long double sum, magnitude, product;
	double f;
	int64_t i, position;
	uint64_t count;
	int stray; /* a bound on any partial product's exponent */
};

static void fold_float(struct fold *r, unsigned int op, double x)
{
	bool max = op == OPENREG_V_RED_MAX;
	int e = x == 0 || !isfinite(x) ? 0 : ilogb(x);

	r->sum += x;
	r->magnitude += fabs(x);
	r->product *= x;
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

static struct fold fold(struct diff *d, const struct openreg_instr *in,
			const int64_t *kept, uint32_t mask)
{
	bool one = in->op == OPENREG_V_RED_PROD || in->op == OPENREG_V_RED_AND;
	struct fold r = { .i = one, .product = 1 };
	int64_t inner[OPENREG_DIMS_MAX] = { 0 }, size[OPENREG_DIMS_MAX];
	int64_t point[OPENREG_DIMS_MAX];
	struct machine m;
	unsigned int k, n = d->draft.op.ndim;

	for (k = 0; k < n; k++)
		size[k] = mask >> k & 1 ? d->draft.size[k] : 1;
	do {
		uint64_t index = 0;

		for (k = 0; k < n; k++) {
			point[k] = kept[k] + inner[k];
			index = index * (uint64_t)d->draft.size[k] +
				(uint64_t)point[k];
		}
		interpret(d, &m, point, index);
		r.any |= m.reg[in->a].any || m.reg[in->a].rough;
		if (in->type <= OPENREG_VT_F64)
			fold_float(&r, in->op, m.reg[in->a].f);
		else
			fold_int(&r, in->op, m.reg[in->a].i);
		r.some = true;
		r.count++;
	} while (next_point(n, size, inner));
	return r;
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

static void put_fold(struct diff *d, const struct openreg_instr *in,
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
	if (in->aux == NONE)
		return;
	if (sum && in->type <= OPENREG_VT_F64 && !r->any) {
		put_sum(d, in, r, &d->op[in->aux],
			diff_at(d, &d->op[in->aux], kept));
		return;
	}
	if (in->c != NONE)
		memcpy(&scale, &d->draft.imm[in->c], 8);
	v.f = in->type == OPENREG_VT_F32 ? (float)(v.f * scale) : v.f * scale;
	interpret_store(d, &d->op[in->aux], diff_at(d, &d->op[in->aux], kept),
			&v);
}

static void add_reduction(struct diff *d, uint32_t mask)
{
	struct openreg_instr in = { .b = NONE, .c = NONE };
	unsigned int n = d->draft.op.ndim;
	bool extreme;

	in.op = (uint8_t)(OPENREG_V_RED_SUM + below(6));
	in.type = (uint8_t)below(OPENREG_VT_END);
	if (in.op >= OPENREG_V_RED_AND)
		in.type |= 2;
	while (!has(in.type))
		in.type = (uint8_t)(in.op >= OPENREG_V_RED_AND
					    ? in.type ^ 1
					    : (in.type + 1) % OPENREG_VT_END);
	in.a = reg_of(in.type);
	extreme = in.op == OPENREG_V_RED_MAX || in.op == OPENREG_V_RED_MIN;
	if (extreme && below(2))
		in.b = (uint8_t)diff_operand(d, SPACE_VRAM, OPENREG_I64,
					     ALL(n) & ~mask, false);
	in.aux = NONE;
	if (in.b == NONE || below(2))
		in.aux = (uint16_t)diff_operand(d, SPACE_VRAM, diff_any_dtype(),
						ALL(n) & ~mask, false);
	if (in.type <= OPENREG_VT_F64 && in.aux != NONE && below(2)) {
		double scale = 0.25;
		uint64_t bits;

		memcpy(&bits, &scale, 8);
		in.c = (uint8_t)diff_imm(d, bits);
	}
	diff_instr(d, in);
}

void diff_reduce(struct diff *d)
{
	unsigned int stores = below(4) == 0, loads, k;
	int64_t kept[OPENREG_DIMS_MAX] = { 0 }, size[OPENREG_DIMS_MAX];
	const struct openreg_instr *in;
	uint32_t mask;

	begin(d, stores, &loads);
	mask = below(1u << d->draft.op.ndim);
	d->draft.op.arg[0] = (uint8_t)mask;
	program(d, stores, loads, 4 + below(6), OPENREG_VT_I32);
	if (stores)
		add_store(d, 0);
	add_reduction(d, mask);
	in = &d->draft.instr[d->draft.op.ninstr - 1];
	diff_run(d);
	for (k = 0; k < d->draft.op.ndim; k++)
		size[k] = mask >> k & 1 ? 1 : d->draft.size[k];
	do {
		const struct fold r = fold(d, in, kept, mask);

		put_fold(d, in, &r, kept);
	} while (next_point(d->draft.op.ndim, size, kept));
}
