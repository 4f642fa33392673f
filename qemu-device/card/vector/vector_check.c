// SPDX-License-Identifier: MIT
/* VECTOR: checks whether the card can run the program. */
#include "vector.h"

struct vform {
	uint8_t form;
	uint8_t types;
};

static const struct vform vforms[OPENREG_V_END] = {
#define V(op, name, types, form, semantics)                                    \
	[OPENREG_V_##op] = { OPENREG_VFORM_##form, OPENREG_VTYPES_##types },
	OPENREG_VECTOR_OPS(V)
#undef V
};

#define TYPE_UNDEFINED 0xff
#define RESULTS_MAX (1ULL << 36)

struct checker {
	struct openreg_args *args;
	unsigned int index; /* of the instruction */
	bool empty; /* some size is 0 */
	uint32_t stored; /* operands that a STORE writes */
	uint8_t types[OPENREG_REGS]; /* enum openreg_vtype of each register */
};

unsigned int openreg_vector_form(unsigned int op)
{
	return op < OPENREG_V_END ? vforms[op].form : OPENREG_VFORM_NONE;
}

static struct openreg_verdict bad_program(const struct checker *c)
{
	return openreg_bad(OPENREG_FAULT_PROGRAM, OPENREG_NO_OPERAND, c->index);
}

static bool reads(const struct checker *c, unsigned int reg, unsigned int type)
{
	return reg < OPENREG_REGS && c->types[reg] == type;
}

static bool writes(struct checker *c, unsigned int reg, unsigned int type)
{
	if (reg >= OPENREG_REGS)
		return false;
	c->types[reg] = (uint8_t)type;
	return true;
}

static struct openreg_verdict use_operand(struct checker *c, unsigned int index,
					  bool write)
{
	struct openreg_args *args = c->args;
	struct openreg_arg *op;

	if (index >= args->nops)
		return bad_program(c);
	op = &args->op[index];
	if (!openreg_dtype_size(op->dtype))
		return openreg_bad(OPENREG_FAULT_DTYPE, index, op->dtype);
	if (write)
		op->written = true;
	else
		op->read = true;
	return openreg_good();
}

static struct openreg_verdict check_load(struct checker *c,
					 const struct openreg_instr *in)
{
	struct openreg_verdict v = use_operand(c, in->aux, false);

	if (v.code)
		return v;
	c->args->op[in->aux].dims = (1u << c->args->ndim) - 1;
	return writes(c, in->dst, in->type) ? v : bad_program(c);
}

/* Two points must not write the same element. */
static struct openreg_verdict check_store(struct checker *c,
					  const struct openreg_instr *in)
{
	struct openreg_args *args = c->args;
	struct openreg_verdict v;
	unsigned int d;

	if (!reads(c, in->a, in->type))
		return bad_program(c);
	v = use_operand(c, in->aux, true);
	if (v.code)
		return v;
	for (d = 0; d < args->ndim && !c->empty; d++) {
		if (args->size[d] > 1 && args->op[in->aux].stride[d] == 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, in->aux, d);
	}
	args->op[in->aux].dims = (1u << args->ndim) - 1;
	c->stored |= 1u << in->aux;
	return v;
}

/* With no point to fold there may be too many results: the core only limits points. */
static uint64_t count_results(const struct openreg_args *args)
{
	uint64_t n = 1;
	unsigned int d;

	for (d = 0; d < args->ndim; d++) {
		if (!(args->arg[0] >> d & 1) &&
		    __builtin_mul_overflow(n, (uint64_t)args->size[d], &n))
			return UINT64_MAX;
	}
	return n;
}

static struct openreg_verdict check_result(struct checker *c,
					   unsigned int index)
{
	struct openreg_args *args = c->args;
	uint32_t all = (1u << args->ndim) - 1, mask = args->arg[0];
	struct openreg_verdict v = use_operand(c, index, true);
	bool no_outputs = false;
	unsigned int d;

	if (v.code)
		return v;
	if (c->stored & (1u << index))
		return bad_program(c);
	for (d = 0; d < args->ndim; d++)
		no_outputs |= !(mask >> d & 1) && args->size[d] == 0;
	for (d = 0; d < args->ndim; d++) {
		int64_t stride = args->op[index].stride[d];

		if (mask >> d & 1) {
			if (stride != 0)
				return openreg_bad(OPENREG_FAULT_SHAPE, index,
						   d);
		} else if (stride == 0 && args->size[d] > 1 && !no_outputs) {
			return openreg_bad(OPENREG_FAULT_SHAPE, index, d);
		}
	}
	/* With no point to fold, the program runs nowhere; only results are stored. */
	if (c->empty)
		args->op[index].dims = all & ~mask;
	else
		args->op[index].dims |= all & ~mask;
	return v;
}

/* Is there an output that folds no element? A maximum or minimum needs one. */
static bool reduces_nothing(const struct openreg_args *args)
{
	bool nothing = false;
	unsigned int d;

	for (d = 0; d < args->ndim; d++) {
		if (args->arg[0] >> d & 1)
			nothing |= args->size[d] == 0;
		else if (args->size[d] == 0)
			return false;
	}
	return nothing;
}

static struct openreg_verdict check_reduce(struct checker *c,
					   const struct openreg_instr *in)
{
	bool extreme = in->op == OPENREG_V_RED_MAX ||
		       in->op == OPENREG_V_RED_MIN;
	bool value = in->aux != OPENREG_VNONE;
	bool index = extreme && in->b != OPENREG_VNONE;
	struct openreg_verdict v = openreg_good();

	if (c->index + 1 != c->args->ninstr || !reads(c, in->a, in->type))
		return bad_program(c);
	if (!(value || index) || (index && in->aux == in->b))
		return bad_program(c);
	if (in->c != OPENREG_VNONE &&
	    (in->c >= c->args->nimm || in->type > OPENREG_VT_F64))
		return bad_program(c);
	if (value)
		v = check_result(c, in->aux);
	if (index && !v.code)
		v = check_result(c, in->b);
	if (v.code)
		return v;
	if (index && c->args->op[in->b].dtype != OPENREG_I64)
		return openreg_bad(OPENREG_FAULT_DTYPE, in->b,
				   c->args->op[in->b].dtype);
	if (c->empty && count_results(c->args) > RESULTS_MAX)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND,
				   count_results(c->args));
	if (extreme && reduces_nothing(c->args))
		return openreg_bad(OPENREG_FAULT_SHAPE, value ? in->aux : in->b,
				   c->index);
	return v;
}

static bool check_registers(struct checker *c, const struct openreg_instr *in,
			    unsigned int form)
{
	switch (form) {
	case OPENREG_VFORM_IMM:
		return in->aux < c->args->nimm && writes(c, in->dst, in->type);
	case OPENREG_VFORM_INDEX:
		return in->aux < c->args->ndim && writes(c, in->dst, in->type);
	case OPENREG_VFORM_RANDOM:
		return in->a < c->args->nimm && in->b < c->args->nimm &&
		       writes(c, in->dst, in->type);
	case OPENREG_VFORM_CVT:
		return in->aux < OPENREG_VT_END && reads(c, in->a, in->aux) &&
		       writes(c, in->dst, in->type);
	case OPENREG_VFORM_ROUND:
		if (in->aux != OPENREG_F16 && in->aux != OPENREG_BF16)
			return false;
		return reads(c, in->a, in->type) &&
		       writes(c, in->dst, in->type);
	case OPENREG_VFORM_SELECT:
		return reads(c, in->a, OPENREG_VT_I32) &&
		       reads(c, in->b, in->type) && reads(c, in->c, in->type) &&
		       writes(c, in->dst, in->type);
	case OPENREG_VFORM_MOV:
	case OPENREG_VFORM_UNARY:
		return reads(c, in->a, in->type) &&
		       writes(c, in->dst, in->type);
	case OPENREG_VFORM_BINARY:
		return reads(c, in->a, in->type) && reads(c, in->b, in->type) &&
		       writes(c, in->dst, in->type);
	case OPENREG_VFORM_TERNARY:
		return reads(c, in->a, in->type) && reads(c, in->b, in->type) &&
		       reads(c, in->c, in->type) &&
		       writes(c, in->dst, in->type);
	case OPENREG_VFORM_TEST1:
		return reads(c, in->a, in->type) &&
		       writes(c, in->dst, OPENREG_VT_I32);
	case OPENREG_VFORM_TEST2:
		return reads(c, in->a, in->type) && reads(c, in->b, in->type) &&
		       writes(c, in->dst, OPENREG_VT_I32);
	default:
		return false;
	}
}

static struct openreg_verdict check_instr(struct checker *c,
					  const struct openreg_instr *in)
{
	unsigned int form = openreg_vector_form(in->op);

	if (form == OPENREG_VFORM_NONE || in->type >= OPENREG_VT_END ||
	    !(vforms[in->op].types >> in->type & 1))
		return bad_program(c);
	switch (form) {
	case OPENREG_VFORM_LOAD:
		return check_load(c, in);
	case OPENREG_VFORM_STORE:
		return check_store(c, in);
	case OPENREG_VFORM_REDUCE:
		return check_reduce(c, in);
	default:
		return check_registers(c, in, form) ? openreg_good()
						    : bad_program(c);
	}
}

struct openreg_verdict openreg_vector_check(struct openreg_args *args)
{
	struct checker c = { .args = args };
	struct openreg_verdict v;
	unsigned int d, last;
	bool reduces;

	for (d = 0; d < OPENREG_REGS; d++)
		c.types[d] = TYPE_UNDEFINED;
	for (d = 0; d < args->ndim; d++)
		c.empty |= args->size[d] == 0;
	last = args->ninstr ? args->instr[args->ninstr - 1].op : 0;
	reduces = openreg_vector_form(last) == OPENREG_VFORM_REDUCE;
	if (args->arg[0] >> args->ndim || (args->arg[0] && !reduces))
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->arg[0]);
	if (args->arg[1] || args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND, 0);
	for (c.index = 0; c.index < args->ninstr; c.index++) {
		v = check_instr(&c, &args->instr[c.index]);
		if (v.code)
			return v;
	}
	return openreg_good();
}
