// SPDX-License-Identifier: MIT
/* VECTOR programs. Most are valid: they read each register with its written type. */
#include <string.h>

#include "packet.h"
#include "vector/vector.h"

#define ALL(ndim) ((1u << (ndim)) - 1)
#define KEPT 4 /* r0 to r3 keep their first type: one of each type */

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

struct author {
	struct stream *s;
	struct draft *d;
	uint8_t types[OPENREG_REGS];
	uint8_t kept[OPENREG_REGS]; /* types in the next stage */
	unsigned int first_load, loads;
};

static struct openreg_instr *add(struct author *a, unsigned int op,
				 unsigned int type)
{
	static struct openreg_instr spare;
	struct openreg_instr *in = &spare;

	if (a->d->op.ninstr < OPENREG_INSTRS_MAX)
		in = &a->d->instr[a->d->op.ninstr++];
	*in = (struct openreg_instr){ .op = (uint8_t)op, .type = (uint8_t)type };
	return in;
}

static uint8_t reg_of(struct author *a, unsigned int type)
{
	unsigned int at = take8(a->s), i;

	for (i = 0; i < OPENREG_REGS; i++)
		if (a->types[(at + i) % OPENREG_REGS] == type)
			return (uint8_t)((at + i) % OPENREG_REGS);
	return (uint8_t)at;
}

static uint16_t load_of(struct author *a)
{
	return (uint16_t)(a->first_load + take(a->s, a->loads));
}

static void fill_sources(struct author *a, struct openreg_instr *in,
			 unsigned int type, unsigned int form)
{
	switch (form) {
	case OPENREG_VFORM_LOAD:
		in->aux = load_of(a);
		break;
	case OPENREG_VFORM_IMM:
		in->aux = (uint16_t)take(a->s, a->d->op.nimm);
		break;
	case OPENREG_VFORM_INDEX:
		in->aux = (uint16_t)take(a->s, a->d->op.ndim + 1u);
		break;
	case OPENREG_VFORM_RANDOM:
		in->a = (uint8_t)take(a->s, a->d->op.nimm);
		in->b = (uint8_t)take(a->s, a->d->op.nimm);
		in->aux = take8(a->s);
		break;
	case OPENREG_VFORM_CVT:
		in->aux = (uint16_t)take(a->s, OPENREG_VT_END);
		in->a = reg_of(a, in->aux);
		break;
	case OPENREG_VFORM_ROUND:
		in->aux = (uint16_t)(take(a->s, 2)
					     ? OPENREG_F16 + take(a->s, 2)
					     : OPENREG_F8E4M3FN + take(a->s, 5));
		in->a = reg_of(a, type);
		break;
	default:
		in->a = reg_of(a, form == OPENREG_VFORM_SELECT ? OPENREG_VT_I32
							       : type);
		in->b = reg_of(a, type);
		in->c = reg_of(a, type);
	}
}

static void one_instr(struct author *a)
{
	unsigned int i = take(a->s, TABLE), type = take(a->s, OPENREG_VT_END);
	unsigned int form = openreg_vector_form(table[i].op);
	struct openreg_instr *in;

	if (form == OPENREG_VFORM_REDUCE)
		return;
	while (!(table[i].types >> type & 1))
		type = (type + 1) % OPENREG_VT_END;
	in = add(a, table[i].op, type);
	fill_sources(a, in, type, form);
	if (form == OPENREG_VFORM_STORE) {
		in->aux = 0;
		return;
	}
	in->dst = (uint8_t)(KEPT + take(a->s, OPENREG_REGS - KEPT));
	a->types[in->dst] = (uint8_t)type;
	a->kept[in->dst] = 0xff;
	if (form == OPENREG_VFORM_TEST1 || form == OPENREG_VFORM_TEST2)
		a->types[in->dst] = OPENREG_VT_I32;
}

/* Operand 1 takes the value, operand 2 the index, operand 0 the stored elements. */
static void reduce(struct author *a)
{
	unsigned int op = OPENREG_V_RED_SUM + take(a->s, 6);
	unsigned int type = take(a->s, OPENREG_VT_END), which = take8(a->s);
	struct openreg_instr *in;

	if (op >= OPENREG_V_RED_AND)
		type |= 2;
	in = add(a, op, type);
	in->a = reg_of(a, type);
	in->aux = which & 1 ? OPENREG_VNONE : 1;
	in->b = which & 1 || which & 2 ? 2 : OPENREG_VNONE;
	in->c = which & 4 && type < 2 ? 0 : OPENREG_VNONE;
	if (op < OPENREG_V_RED_MAX || op > OPENREG_V_RED_MIN)
		in->aux = 1;
}

/* A reduction that ends a stage other than the last; operand 3 may take its value. */
static void reduce_stage(struct author *a)
{
	unsigned int op = OPENREG_V_RED_SUM + take(a->s, 6);
	unsigned int type = take(a->s, OPENREG_VT_END), which = take8(a->s);
	struct openreg_instr *in;

	if (op >= OPENREG_V_RED_AND)
		type |= 2;
	in = add(a, op, type);
	in->a = reg_of(a, type);
	in->dst = (uint8_t)(KEPT + take(a->s, OPENREG_REGS - KEPT));
	in->aux = which % 8 == 1 ? 3 : OPENREG_VNONE;
	in->b = OPENREG_VNONE;
	in->c = which & 16 && type < 2 ? 0 : OPENREG_VNONE;
	a->kept[in->dst] = (uint8_t)type;
}

/* Begins a stage, in which only results are in registers. */
static void begin_stage(struct author *a)
{
	struct openreg_instr *in;
	unsigned int i;

	memcpy(a->types, a->kept, sizeof(a->types));
	for (i = 0; i < KEPT; i++) {
		in = add(a, OPENREG_V_LOAD, i);
		in->dst = (uint8_t)i;
		in->aux = load_of(a);
		a->types[i] = (uint8_t)i;
	}
}

/* Stores a result for each row, if some register has one. */
static void store_row(struct author *a)
{
	struct openreg_instr *in;
	unsigned int i;

	for (i = KEPT; i < OPENREG_REGS; i++) {
		if (a->kept[i] == 0xff)
			continue;
		in = add(a, OPENREG_V_STORE, a->kept[i]);
		in->a = (uint8_t)i;
		in->aux = 3;
		return;
	}
}

static unsigned int any_dtype(struct stream *s)
{
	return 1 + take(s, OPENREG_DTYPE_END - 1);
}

static void operands(struct stream *s, struct draft *d, struct author *a,
		     bool reduces)
{
	uint32_t all = ALL(d->op.ndim), kept = all & ~(uint32_t)d->op.arg[0];
	unsigned int i;

	draft_place(s, d, any_dtype(s), all, d->size, true);
	if (reduces) {
		draft_place(s, d, any_dtype(s), kept, d->size, true);
		draft_place(s, d, OPENREG_I64, kept, d->size, true);
		draft_place(s, d, any_dtype(s), kept, d->size, true);
	}
	a->first_load = d->op.nops;
	a->loads = 1 + take(s, rare(s, 16) ? 12 : 3);
	for (i = 0; i < a->loads; i++)
		draft_place(s, d, any_dtype(s), all, d->size, false);
	/* Sometimes in place. */
	if (rare(s, 8))
		a->first_load = 0;
}

void draft_program(struct stream *s, struct draft *d)
{
	unsigned int n = 1 + take(s, 12), stages, i;
	struct author a = { .s = s, .d = d };
	struct openreg_instr *in;
	bool reduces;

	if (rare(s, 16))
		n = 1 + take(s, 60);
	draft_sizes(s, d, draft_ndim(s));
	reduces = take(s, 3) == 1;
	if (reduces)
		d->op.arg[0] = (uint8_t)(take8(s) & ALL(d->op.ndim));
	operands(s, d, &a, reduces);
	for (i = 0; i < 2; i++)
		draft_imm(d, rare(s, 4) ? take_odd(s) : take8(s) % 9);
	draft_imm(d, 0x3ff8000000000000 + take8(s));
	memset(a.kept, 0xff, sizeof(a.kept));
	begin_stage(&a);
	for (i = 0; i < n; i++)
		one_instr(&a);
	for (stages = reduces ? take(s, 5) : 0; stages > 0; stages--) {
		for (i = take(s, 3); i < 3; i++)
			reduce_stage(&a);
		begin_stage(&a);
		for (i = take(s, 4); i > 0; i--)
			one_instr(&a);
		if (rare(s, 4))
			store_row(&a);
	}
	if (reduces && take(s, 2)) {
		reduce(&a);
		return;
	}
	in = add(&a, OPENREG_V_STORE, take(s, OPENREG_VT_END));
	in->a = reg_of(&a, in->type);
	if (reduces)
		reduce(&a);
}
