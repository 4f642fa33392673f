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
	unsigned int last; /* reductions from here on end the last stage */
	unsigned int stages, reductions; /* so far */
	bool ended; /* the last instruction was a reduction */
	bool empty; /* some size is 0 */
	uint32_t stored; /* operands that a STORE writes */
	uint32_t results; /* operands of reductions */
	uint32_t uniform; /* registers with one value in each row */
	uint8_t types[OPENREG_REGS]; /* enum openreg_vtype of each register */
	uint8_t kept[OPENREG_REGS]; /* types in the next stage: of results */
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
	c->kept[reg] = TYPE_UNDEFINED;
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
	if (write) {
		op->written = true;
		return openreg_good();
	}
	/* All accesses of an operand have the same addresses. */
	if (!op->read)
		op->own = op->written;
	op->read = true;
	return openreg_good();
}

static struct openreg_verdict check_load(struct checker *c,
					 const struct openreg_instr *in)
{
	struct openreg_verdict v = use_operand(c, in->aux, false);

	if (v.code)
		return v;
	/* Without points, only the results of reductions exist. */
	if (!(c->empty && c->results >> in->aux & 1))
		c->args->op[in->aux].dims = (1u << c->args->ndim) - 1;
	return writes(c, in->dst, in->type) ? v : bad_program(c);
}

static bool is_folded(const struct openreg_args *args, unsigned int dim)
{
	return args->arg[0] >> dim & 1 && args->size[dim] > 1;
}

/* Is the operand the same at all points of a row? */
static bool is_by_row(const struct openreg_args *args, unsigned int operand)
{
	unsigned int d;

	for (d = 0; d < args->ndim; d++) {
		if (is_folded(args, d) && args->op[operand].stride[d] != 0)
			return false;
	}
	return true;
}

static bool is_uniform(const struct checker *c, unsigned int reg)
{
	return reg < OPENREG_REGS && c->uniform >> reg & 1;
}

/* Two points must not write the same element, unless they write the same value. */
static struct openreg_verdict check_store(struct checker *c,
					  const struct openreg_instr *in)
{
	struct openreg_args *args = c->args;
	struct openreg_verdict v;
	bool by_row;
	unsigned int d;

	if (!reads(c, in->a, in->type))
		return bad_program(c);
	v = use_operand(c, in->aux, true);
	if (v.code)
		return v;
	if (c->results >> in->aux & 1)
		return bad_program(c);
	by_row = is_uniform(c, in->a) && is_by_row(args, in->aux);
	for (d = 0; d < args->ndim && !c->empty; d++) {
		if (args->size[d] > 1 && args->op[in->aux].stride[d] == 0 &&
		    !(by_row && is_folded(args, d)))
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
	if ((c->stored | c->results) >> index & 1)
		return bad_program(c);
	c->results |= 1u << index;
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

	if (!reads(c, in->a, in->type) ||
	    ++c->reductions > OPENREG_REDUCTIONS_MAX)
		return bad_program(c);
	if (c->index < c->last ? in->dst >= OPENREG_REGS : !(value || index))
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
		return openreg_bad(OPENREG_FAULT_SHAPE,
				   value   ? in->aux
				   : index ? in->b
					   : OPENREG_NO_OPERAND,
				   c->index);
	if (c->index < c->last)
		c->kept[in->dst] = in->type;
	c->ended = true;
	return v;
}

/* Registers keep only results from stage to stage. */
static bool begin_stage(struct checker *c)
{
	unsigned int i;

	c->ended = false;
	c->uniform = 0;
	for (i = 0; i < OPENREG_REGS; i++) {
		c->types[i] = c->kept[i];
		if (c->types[i] != TYPE_UNDEFINED)
			c->uniform |= 1u << i;
	}
	return ++c->stages <= OPENREG_STAGES_MAX;
}

/* Is the result of the instruction the same at all points of a row? */
static bool keeps_uniform(const struct checker *c,
			  const struct openreg_instr *in, unsigned int form)
{
	switch (form) {
	case OPENREG_VFORM_LOAD:
		return in->aux < c->args->nops && is_by_row(c->args, in->aux);
	case OPENREG_VFORM_IMM:
		return true;
	case OPENREG_VFORM_INDEX:
		return in->aux < c->args->ndim && !is_folded(c->args, in->aux);
	case OPENREG_VFORM_RANDOM:
		return false;
	case OPENREG_VFORM_BINARY:
	case OPENREG_VFORM_TEST2:
		return is_uniform(c, in->a) && is_uniform(c, in->b);
	case OPENREG_VFORM_SELECT:
	case OPENREG_VFORM_TERNARY:
		return is_uniform(c, in->a) && is_uniform(c, in->b) &&
		       is_uniform(c, in->c);
	default:
		return is_uniform(c, in->a);
	}
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
		if (in->aux != OPENREG_F16 && in->aux != OPENREG_BF16 &&
		    !openreg_dtype_is_float8(in->aux))
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

static struct openreg_verdict check_result_instr(struct checker *c,
						 const struct openreg_instr *in,
						 unsigned int form)
{
	bool uniform = keeps_uniform(c, in, form);
	struct openreg_verdict v = openreg_good();

	if (form == OPENREG_VFORM_LOAD)
		v = check_load(c, in);
	else if (!check_registers(c, in, form))
		return bad_program(c);
	if (v.code)
		return v;
	c->uniform &= ~(1u << in->dst);
	c->uniform |= (uint32_t)uniform << in->dst;
	return v;
}

static struct openreg_verdict check_instr(struct checker *c,
					  const struct openreg_instr *in)
{
	unsigned int form = openreg_vector_form(in->op);

	if (form == OPENREG_VFORM_NONE || in->type >= OPENREG_VT_END ||
	    !(vforms[in->op].types >> in->type & 1))
		return bad_program(c);
	if (form == OPENREG_VFORM_REDUCE)
		return check_reduce(c, in);
	if (c->ended && !begin_stage(c))
		return bad_program(c);
	if (form == OPENREG_VFORM_STORE)
		return check_store(c, in);
	return check_result_instr(c, in, form);
}

struct openreg_verdict openreg_vector_check(struct openreg_args *args)
{
	struct checker c = { .args = args, .last = args->ninstr, .stages = 1 };
	struct openreg_verdict v;
	unsigned int d;
	bool reduces = false;

	for (d = 0; d < OPENREG_REGS; d++)
		c.types[d] = c.kept[d] = TYPE_UNDEFINED;
	for (d = 0; d < args->ndim; d++)
		c.empty |= args->size[d] == 0;
	for (d = args->ninstr; d-- > 0;) {
		bool reduction = openreg_vector_form(args->instr[d].op) ==
				 OPENREG_VFORM_REDUCE;

		if (reduction && c.last == d + 1)
			c.last = d;
		reduces |= reduction;
	}
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
