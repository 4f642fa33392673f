// SPDX-License-Identifier: MIT
/* Writes random VECTOR programs that the card accepts. */
#include "diff-author.h"
#include "vector/vector.h"

#define NONE 0xff

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

unsigned int below(unsigned int n)
{
	return (unsigned int)random_range(0, n - 1);
}

bool author_has(const struct author *a, unsigned int type)
{
	unsigned int i;

	for (i = 0; i < OPENREG_REGS; i++)
		if (a->types[i] == type)
			return true;
	return false;
}

uint8_t author_reg(const struct author *a, unsigned int type)
{
	unsigned int i;

	do
		i = below(OPENREG_REGS);
	while (a->types[i] != type);
	return (uint8_t)i;
}

static bool is_folded(const struct author *a, unsigned int dim)
{
	return a->d->draft.op.arg[0] >> dim & 1 && a->d->draft.size[dim] > 1;
}

static bool is_by_row(const struct author *a, unsigned int operand)
{
	unsigned int k;

	for (k = 0; k < a->d->draft.op.ndim; k++)
		if (is_folded(a, k) && a->d->draft.operand[operand].stride[k])
			return false;
	return true;
}

/* Do all points of a row get the same result? */
static bool is_uniform(const struct author *a, const struct openreg_instr *in)
{
	uint32_t one = a->uniform;

	switch (openreg_vector_form(in->op)) {
	case OPENREG_VFORM_LOAD:
		return is_by_row(a, in->aux);
	case OPENREG_VFORM_IMM:
		return true;
	case OPENREG_VFORM_INDEX:
		return !is_folded(a, in->aux);
	case OPENREG_VFORM_RANDOM:
		return false;
	case OPENREG_VFORM_SELECT:
	case OPENREG_VFORM_TERNARY:
		return (one >> in->a & one >> in->b & one >> in->c & 1) != 0;
	case OPENREG_VFORM_BINARY:
	case OPENREG_VFORM_TEST2:
		return (one >> in->a & one >> in->b & 1) != 0;
	default:
		return (one >> in->a & 1) != 0;
	}
}

static void add(struct author *a, struct openreg_instr in, unsigned int result)
{
	bool uniform = is_uniform(a, &in);

	in.dst = (uint8_t)below(OPENREG_REGS);
	a->types[in.dst] = (uint8_t)result;
	a->kept[in.dst] = NONE;
	a->uniform &= ~(1u << in.dst);
	a->uniform |= (uint32_t)uniform << in.dst;
	diff_instr(a->d, in);
}

static void add_load(struct author *a, unsigned int type)
{
	struct openreg_instr in = { .op = OPENREG_V_LOAD,
				    .type = (uint8_t)type };

	do
		in.aux = (uint16_t)below(OPENREG_OPERANDS_MAX);
	while (!(a->loads >> in.aux & 1));
	add(a, in, type);
}

static void add_imm(struct author *a, unsigned int type)
{
	double x = random_unit() * 16 - 8;
	uint64_t bits = random_u64() >> random_range(0, 63);
	struct openreg_instr in = { .op = OPENREG_V_IMM,
				    .type = (uint8_t)type };

	if (type <= OPENREG_VT_F64)
		memcpy(&bits, &x, 8);
	in.aux = (uint16_t)(a->d->draft.op.nimm < 10 ? diff_imm(a->d, bits)
						  : below(10));
	add(a, in, type);
}

static void add_random(struct author *a, unsigned int type)
{
	const struct openreg_instr in = {
		.op = OPENREG_V_RANDOM,
		.type = (uint8_t)type,
		.a = (uint8_t)below(a->d->draft.op.nimm),
		.b = (uint8_t)below(a->d->draft.op.nimm),
		.aux = (uint16_t)random_range(0, 65535),
	};

	add(a, in, type);
}

/* Chooses source registers. False if no register has a needed type. */
static bool sources(const struct author *a, struct openreg_instr *in,
		    unsigned int form)
{
	unsigned int first = form == OPENREG_VFORM_SELECT ? OPENREG_VT_I32
							  : in->type;

	if (form == OPENREG_VFORM_CVT) {
		in->aux = (uint16_t)below(OPENREG_VT_END);
		first = in->aux;
	}
	if (form == OPENREG_VFORM_ROUND)
		in->aux = (uint16_t)(below(2) ? OPENREG_F16 + below(2)
					      : OPENREG_F8E4M3FN + below(5));
	if (!author_has(a, first) || !author_has(a, in->type))
		return form == OPENREG_VFORM_CVT && author_has(a, first) &&
		       (in->a = author_reg(a, first), true);
	in->a = author_reg(a, first);
	in->b = author_reg(a, in->type);
	in->c = author_reg(a, in->type);
	return true;
}

static void one_instr(struct author *a)
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
		add_load(a, type);
		return;
	case OPENREG_VFORM_IMM:
		add_imm(a, type);
		return;
	case OPENREG_VFORM_RANDOM:
		add_random(a, type);
		return;
	case OPENREG_VFORM_STORE:
	case OPENREG_VFORM_REDUCE:
		return;
	case OPENREG_VFORM_INDEX:
		if (!a->d->draft.op.ndim)
			return;
		in.aux = (uint16_t)below(a->d->draft.op.ndim);
		break;
	default:
		if (!sources(a, &in, form))
			return;
	}
	if (form == OPENREG_VFORM_TEST1 || form == OPENREG_VFORM_TEST2)
		type = OPENREG_VT_I32;
	add(a, in, type);
}

void author_begin(struct author *a, struct diff *d, uint32_t loads)
{
	*a = (struct author){ .d = d, .loads = loads };
	memset(a->types, NONE, sizeof(a->types));
	memset(a->kept, NONE, sizeof(a->kept));
	diff_imm(d, random_u64());
}

void author_write(struct author *a, unsigned int n, unsigned int type)
{
	unsigned int end = a->d->draft.op.ninstr + n, i;

	for (i = 0; i < OPENREG_VT_END; i++)
		add_load(a, i);
	while (a->d->draft.op.ninstr < end)
		one_instr(a);
	if (!author_has(a, type))
		add_load(a, type);
}

void author_store(struct author *a, unsigned int operand)
{
	struct openreg_instr in = { .op = OPENREG_V_STORE,
				    .type = (uint8_t)below(OPENREG_VT_END),
				    .aux = (uint16_t)operand };

	while (!author_has(a, in.type))
		in.type = (uint8_t)((in.type + 1) % OPENREG_VT_END);
	in.a = author_reg(a, in.type);
	diff_instr(a->d, in);
}

bool author_store_row(struct author *a, unsigned int operand)
{
	struct openreg_instr in = { .op = OPENREG_V_STORE,
				    .aux = (uint16_t)operand };

	if (!a->uniform)
		return false;
	do
		in.a = (uint8_t)below(OPENREG_REGS);
	while (!(a->uniform >> in.a & 1));
	in.type = a->types[in.a];
	diff_instr(a->d, in);
	return true;
}

void author_result(struct author *a, const struct openreg_instr *in)
{
	a->kept[in->dst] = in->type;
}

void author_next_stage(struct author *a)
{
	unsigned int i;

	memcpy(a->types, a->kept, sizeof(a->types));
	a->uniform = 0;
	for (i = 0; i < OPENREG_REGS; i++)
		a->uniform |= (uint32_t)(a->types[i] != NONE) << i;
}
