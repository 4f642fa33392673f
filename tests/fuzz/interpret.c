// SPDX-License-Identifier: MIT
/*
 * Reference for VECTOR, one point at a time. Marks results that the manual does not
 * define: the sign of a NaN, and values computed from an inexact function. Values
 * computed from a marked value are marked, too.
 */
#include <math.h>

#include "diff.h"
#include "vector/vector.h"
#include "vector-reference.h"

static bool is_float(unsigned int type)
{
	return type <= OPENREG_VT_F64;
}

static unsigned int dtype_of(unsigned int type)
{
	static const uint8_t dtypes[] = { OPENREG_F32, OPENREG_F64, OPENREG_I32,
					  OPENREG_I64 };

	return dtypes[type];
}

static struct value of_float(unsigned int type, double x)
{
	return (struct value){ .type = (uint8_t)type,
			       .f = reference_to_float(dtype_of(type), x) };
}

static struct value of_int(unsigned int type, int64_t i)
{
	return (struct value){ .type = (uint8_t)type,
			       .i = reference_wrap(dtype_of(type), i) };
}

static struct value unknown(unsigned int type)
{
	return (struct value){ .type = (uint8_t)type, .any = true };
}

/* A float or an integer, cast to a type. */
static struct value cast_float(unsigned int type, double x)
{
	return is_float(type) ? of_float(type, x)
			      : of_int(type, reference_to_int(dtype_of(type), x));
}

static struct value cast_int(unsigned int type, int64_t i)
{
	if (!is_float(type))
		return of_int(type, i);
	return of_float(type, type == OPENREG_VT_F32 ? (double)(float)i
						     : (double)i);
}

static struct value load(const struct diff *d, const struct openreg_instr *in,
			 const int64_t *point)
{
	const struct operand *op = &d->op[in->aux];
	const uint8_t *at = diff_element(d, op, diff_at(d, op, point));

	return diff_is_float(op->dtype)
		       ? cast_float(in->type, element_get(op->dtype, at, 0))
		       : cast_int(in->type, element_get_int(op->dtype, at, 0));
}

void interpret_store(struct diff *d, const struct operand *op, int64_t at,
		     const struct value *v)
{
	double have = diff_have(d, op, at);
	bool to_float = diff_is_float(op->dtype);

	if (v->rough && op->dtype == dtype_of(v->type) &&
	    !reference_close(v->op, v->type, v->x, have, v->exact))
		diff_fail(d, "type %u operation %u of %a is %a, not %La",
			  v->type, v->op, v->x, have, v->exact);
	if (v->any || v->rough)
		diff_put_any(d, op, at);
	else if (is_float(v->type) && to_float)
		diff_put_float(d, op, at, v->f);
	else if (is_float(v->type))
		diff_put_int(d, op, at, reference_to_int(op->dtype, v->f));
	else if (to_float && op->dtype == OPENREG_F64)
		diff_put_float(d, op, at, (double)v->i);
	else if (to_float)
		diff_put_float(d, op, at, (float)v->i);
	else
		diff_put_int(d, op, at, v->i);
}

static struct value immediate(const struct diff *d,
			      const struct openreg_instr *in)
{
	uint64_t bits = d->draft.imm[in->aux];
	double x;

	memcpy(&x, &bits, 8);
	return is_float(in->type) ? of_float(in->type, x)
				  : of_int(in->type, (int64_t)bits);
}

/* One block of the Philox generator, as in the manual. */
static void philox(uint32_t c[4], uint64_t key)
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	int i;

	for (i = 0; i < 10; i++) {
		uint64_t p0 = 0xd2511f53ULL * c[0], p1 = 0xcd9e8d57ULL * c[2];
		const uint32_t next[4] = { (uint32_t)(p1 >> 32) ^ c[1] ^ k0,
					   (uint32_t)p1,
					   (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
					   (uint32_t)p0 };

		memcpy(c, next, sizeof(next));
		k0 += 0x9e3779b9;
		k1 += 0xbb67ae85;
	}
}

static uint32_t random_word(uint64_t key, uint64_t stream, uint64_t n)
{
	uint32_t c[4] = { (uint32_t)(n / 4), (uint32_t)(n / 4 >> 32),
			  (uint32_t)stream, (uint32_t)(stream >> 32) };

	philox(c, key);
	return c[n % 4];
}

static struct value random_value(const struct diff *d,
				 const struct openreg_instr *in, uint64_t index)
{
	uint64_t key = d->draft.imm[in->a];
	uint64_t stream = d->draft.imm[in->b] + in->aux;

	if (in->type == OPENREG_VT_I32)
		return of_int(in->type, random_word(key, stream, index));
	return of_int(in->type,
		      (int64_t)(random_word(key, stream, 2 * index) |
				(uint64_t)random_word(key, stream,
						      2 * index + 1)
					<< 32));
}

/* True if the sign of a NaN decides the result: the manual does not define it. */
static bool reads_sign(const struct openreg_instr *in, const struct value *a,
		       const struct value *b)
{
	return (in->op == OPENREG_V_SIGNBIT && isnan(a->f)) ||
	       (in->op == OPENREG_V_COPYSIGN && isnan(b->f));
}

static struct value float_op(const struct openreg_instr *in,
			     const struct value *a, const struct value *b,
			     const struct value *c)
{
	struct value v = { .type = in->type, .op = in->op, .x = a->f };
	unsigned int form = openreg_vector_form(in->op);

	if (reads_sign(in, a, b))
		return unknown(form == OPENREG_VFORM_TEST1 ? OPENREG_VT_I32
							   : in->type);
	if (form == OPENREG_VFORM_TEST1 || form == OPENREG_VFORM_TEST2)
		return of_int(OPENREG_VT_I32,
			      reference_test(in->op, a->f, b->f));
	if (in->op == OPENREG_V_DIV_FLOOR) {
		v.exact = reference_floor_div(a->f, b->f);
		/* long double cannot hold the floor of a larger quotient exactly. */
		if (isfinite(v.exact) && fabsl(v.exact) > 1e6)
			return unknown(in->type);
	} else {
		v.exact = reference_float(in->op, in->type, a->f, b->f, c->f);
	}
	v.rough = reference_ulps(in->op) > 0;
	v.f = reference_to_float(dtype_of(in->type), (double)v.exact);
	return v;
}

static struct value int_op(const struct openreg_instr *in,
			   const struct value *a, const struct value *b,
			   const struct value *c)
{
	unsigned int form = openreg_vector_form(in->op);
	bool test = form == OPENREG_VFORM_TEST1 || form == OPENREG_VFORM_TEST2;

	return of_int(test ? OPENREG_VT_I32 : in->type,
		      (int64_t)reference_int(in->op, in->type, a->i, b->i,
					     c->i));
}

static bool is_open(const struct value *v)
{
	return v->any || v->rough;
}

static struct value operation(const struct openreg_instr *in,
			      const struct machine *m)
{
	unsigned int form = openreg_vector_form(in->op);
	struct value none = { .type = in->type };
	const struct value *a = &m->reg[in->a], *b = &none, *c = &none;
	bool test = form == OPENREG_VFORM_TEST1 || form == OPENREG_VFORM_TEST2;

	if (form == OPENREG_VFORM_BINARY || form == OPENREG_VFORM_TEST2 ||
	    form == OPENREG_VFORM_TERNARY)
		b = &m->reg[in->b];
	if (form == OPENREG_VFORM_TERNARY)
		c = &m->reg[in->c];
	if (is_open(a) || is_open(b) || is_open(c))
		return unknown(test ? OPENREG_VT_I32 : in->type);
	return is_float(in->type) ? float_op(in, a, b, c) : int_op(in, a, b, c);
}

static struct value one_instr(struct diff *d, const struct machine *m,
			      const struct openreg_instr *in,
			      const int64_t *point, uint64_t index)
{
	const struct value *a = &m->reg[in->a % OPENREG_REGS];

	switch (in->op) {
	case OPENREG_V_LOAD:
		return load(d, in, point);
	case OPENREG_V_IMM:
		return immediate(d, in);
	case OPENREG_V_MOV:
		return *a;
	case OPENREG_V_INDEX:
		return of_int(in->type, point[in->aux]);
	case OPENREG_V_RANDOM:
		return random_value(d, in, index);
	case OPENREG_V_SELECT:
		if (is_open(a))
			return unknown(in->type);
		return m->reg[a->i ? in->b : in->c];
	case OPENREG_V_CVT:
		if (is_open(a))
			return unknown(in->type);
		return is_float(a->type) ? cast_float(in->type, a->f)
					 : cast_int(in->type, a->i);
	case OPENREG_V_ROUND:
		if (is_open(a))
			return unknown(in->type);
		return of_float(in->type, reference_to_float(in->aux, a->f));
	default:
		return operation(in, m);
	}
}

void interpret(struct diff *d, struct machine *m, unsigned int first,
	       const int64_t *point, uint64_t index)
{
	unsigned int i;

	for (i = first; i < d->draft.op.ninstr; i++) {
		const struct openreg_instr *in = &d->draft.instr[i];

		if (in->op >= OPENREG_V_RED_SUM)
			return;
		if (in->op == OPENREG_V_STORE)
			interpret_store(d, &d->op[in->aux],
					diff_at(d, &d->op[in->aux], point),
					&m->reg[in->a]);
		else
			m->reg[in->dst] = one_instr(d, m, in, point, index);
	}
}
