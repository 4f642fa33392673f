// SPDX-License-Identifier: MIT
/* VECTOR: compiles a checked program to steps with kernels and buffers. */
#include <string.h>

#include "vector.h"

#define NONE 0xff

struct compiler {
	struct openreg_plan *plan;
	const struct openreg_args *args;
	uint8_t operand[OPENREG_OPERANDS_MAX]; /* access of an operand, or NONE */
	uint8_t dim[OPENREG_DIMS_MAX]; /* access of INDEX along it, or NONE */
	uint8_t point; /* access of RANDOM, or NONE */
	uint8_t buffer[OPENREG_REGS]; /* that has a register's value */
	uint8_t own[OPENREG_REGS]; /* to which kernels write it */
	uint8_t next; /* buffer for a value that no kernel writes */
	uint8_t width[OPENREG_REGS];
	uint8_t spare;
	uint8_t result[OPENREG_REGS]; /* fold whose result later stages read there, or NONE */
	bool ended; /* the last instruction was a reduction */
};

static const uint8_t type_width[OPENREG_VT_END] = { 4, 8, 4, 8 };

static struct openreg_access *new_access(struct openreg_plan *plan)
{
	return &plan->access[plan->naccess++];
}

static uint8_t operand_access(struct compiler *c, unsigned int index)
{
	const struct openreg_arg *op = &c->args->op[index];
	struct openreg_access *access;
	unsigned int d;

	if (c->operand[index] != NONE)
		return c->operand[index];
	access = new_access(c->plan);
	access->base = (uintptr_t)op->ptr;
	access->stored = access->result = false;
	access->esize = openreg_dtype_size(op->dtype);
	for (d = 0; d < c->args->ndim; d++)
		access->stride[d] = op->stride[d];
	c->operand[index] = (uint8_t)(access - c->plan->access);
	return c->operand[index];
}

static uint8_t index_access(struct compiler *c, unsigned int dim)
{
	struct openreg_access *access;
	unsigned int d;

	if (c->dim[dim] != NONE)
		return c->dim[dim];
	access = new_access(c->plan);
	access->base = 0;
	access->stored = access->result = false;
	access->esize = 1;
	for (d = 0; d < c->args->ndim; d++)
		access->stride[d] = d == dim;
	c->dim[dim] = (uint8_t)(access - c->plan->access);
	return c->dim[dim];
}

/* The row-major position among the dimensions of a mask. */
static struct openreg_access *position_access(struct compiler *c, uint32_t mask)
{
	const struct openreg_args *args = c->args;
	struct openreg_access *access = new_access(c->plan);
	int64_t step = 1;
	unsigned int d;

	access->base = 0;
	access->stored = access->result = false;
	access->esize = 1;
	for (d = args->ndim; d-- > 0;) {
		bool counts = mask >> d & 1;

		access->stride[d] = counts ? step : 0;
		if (counts)
			step *= args->size[d];
	}
	return access;
}

/* The row-major position among all dimensions. */
static uint8_t point_access(struct compiler *c)
{
	uint32_t all = (1u << c->args->ndim) - 1;

	if (c->point == NONE)
		c->point = (uint8_t)(position_access(c, all) - c->plan->access);
	return c->point;
}

static uint8_t read_reg(const struct compiler *c, unsigned int reg)
{
	return reg < OPENREG_REGS ? c->buffer[reg] : 0;
}

/*
 * Values that no kernel writes get buffers of their own while there are some: such a value
 * may stay the same for all tiles.
 */
static uint8_t write_value(struct compiler *c, unsigned int reg,
			   unsigned int width)
{
	c->result[reg] = NONE;
	c->width[reg] = (uint8_t)width;
	c->buffer[reg] = c->next < OPENREG_PLAN_BUFFERS ? c->next++ : c->own[reg];
	return c->buffer[reg];
}

/* Kernels may work in place, except where elements change their width. */
static uint8_t write_reg(struct compiler *c, unsigned int reg,
			 unsigned int width, const uint8_t *sources,
			 unsigned int nsources)
{
	unsigned int i;
	uint8_t old;

	for (i = 0; i < nsources; i++) {
		if (sources[i] == reg && c->width[reg] != width) {
			old = c->own[reg];
			c->own[reg] = c->spare;
			c->spare = old;
			break;
		}
	}
	c->result[reg] = NONE;
	c->width[reg] = (uint8_t)width;
	c->buffer[reg] = c->own[reg];
	return c->buffer[reg];
}

static uint64_t imm_bits(uint64_t imm, unsigned int type)
{
	union {
		uint64_t u;
		double f;
	} wide = { .u = imm };
	union {
		uint32_t u;
		float f;
	} narrow;

	switch (type) {
	case OPENREG_VT_F32:
		narrow.f = (float)wide.f;
		return narrow.u;
	case OPENREG_VT_I32:
		return (uint32_t)imm;
	default:
		return imm;
	}
}

static openreg_kernel *kernel_of(const struct openreg_kernels *k,
				 const struct openreg_instr *in)
{
	switch (in->op) {
	case OPENREG_V_CVT:
		return k->cvt[in->aux][in->type];
	case OPENREG_V_ROUND:
		return k->round[in->aux];
	default:
		return k->op[in->op][in->type];
	}
}

static void compile_kernel(struct compiler *c, struct openreg_step *step,
			   const struct openreg_instr *in, unsigned int form)
{
	bool test = form == OPENREG_VFORM_TEST1 || form == OPENREG_VFORM_TEST2;
	bool three = form == OPENREG_VFORM_TERNARY ||
		     form == OPENREG_VFORM_SELECT;
	bool two = three || form == OPENREG_VFORM_BINARY ||
		   form == OPENREG_VFORM_TEST2;
	uint8_t sources[3] = { in->a, in->b, in->c };

	step->kind = OPENREG_STEP_KERNEL;
	step->kernel = kernel_of(c->plan->kernels, in);
	step->a = read_reg(c, in->a);
	step->b = two ? read_reg(c, in->b) : step->a;
	step->c = three ? read_reg(c, in->c) : step->a;
	step->width = test ? 4 : type_width[in->type];
	step->dst = write_reg(c, in->dst, step->width, sources,
			      three ? 3 : two ? 2 : 1);
}

static void compile_instr(struct compiler *c, struct openreg_step *step,
			  const struct openreg_instr *in)
{
	const struct openreg_kernels *k = c->plan->kernels;
	unsigned int form = openreg_vector_form(in->op);

	step->width = type_width[in->type];
	switch (form) {
	case OPENREG_VFORM_LOAD:
		step->kind = OPENREG_STEP_LOAD;
		step->access = operand_access(c, in->aux);
		step->load = k->load[c->args->op[in->aux].dtype][in->type];
		step->dst = write_value(c, in->dst, step->width);
		break;
	case OPENREG_VFORM_STORE:
		step->kind = OPENREG_STEP_STORE;
		step->access = operand_access(c, in->aux);
		c->plan->access[step->access].stored = true;
		step->store = k->store[c->args->op[in->aux].dtype][in->type];
		step->a = read_reg(c, in->a);
		break;
	case OPENREG_VFORM_IMM:
		step->kind = OPENREG_STEP_IMM;
		step->imm = imm_bits(c->args->imm[in->aux], in->type);
		step->dst = write_value(c, in->dst, step->width);
		break;
	case OPENREG_VFORM_INDEX:
		step->kind = OPENREG_STEP_INDEX;
		step->access = index_access(c, in->aux);
		step->load = k->index;
		step->dst = write_value(c, in->dst, step->width);
		break;
	case OPENREG_VFORM_RANDOM:
		step->kind = OPENREG_STEP_RANDOM;
		step->access = point_access(c);
		step->random = k->random[in->type];
		step->philox.key = c->args->imm[in->a];
		step->philox.counter = c->args->imm[in->b] + in->aux;
		step->dst = write_value(c, in->dst, step->width);
		break;
	default:
		compile_kernel(c, step, in, form);
	}
}

static void compile_reduce(struct compiler *c, const struct openreg_instr *in)
{
	struct openreg_reduction *red = &c->plan->red;
	struct openreg_fold *fold = &red->fold[red->nfolds];
	bool extreme = in->op == OPENREG_V_RED_MAX ||
		       in->op == OPENREG_V_RED_MIN;
	union {
		uint64_t u;
		double f;
	} scale = { .u = 0 };

	*fold = (struct openreg_fold){ .op = in->op, .type = in->type };
	fold->buffer = read_reg(c, in->a);
	fold->scaled = in->c != OPENREG_VNONE;
	if (fold->scaled)
		scale.u = c->args->imm[in->c];
	fold->scale = scale.f;
	if (in->aux != OPENREG_VNONE) {
		fold->value_dtype = c->args->op[in->aux].dtype;
		fold->value = &c->plan->access[operand_access(c, in->aux)];
		fold->value->result = true;
	}
	if (extreme && in->b != OPENREG_VNONE) {
		fold->index = &c->plan->access[operand_access(c, in->b)];
		fold->index->result = true;
		if (!red->position) {
			red->position = position_access(c, c->args->arg[0]);
			red->position->result = true;
		}
	}
	if (in->dst < OPENREG_REGS)
		c->result[in->dst] = (uint8_t)red->nfolds;
	red->nfolds++;
	c->ended = true;
}

static void end_stage(struct compiler *c)
{
	struct openreg_plan *plan = c->plan;
	struct openreg_stage *stage = &plan->stage[plan->nstages++];

	stage->end = plan->nsteps;
	stage->fold_end = plan->red.nfolds;
}

static void begin_stage(struct compiler *c)
{
	struct openreg_plan *plan = c->plan;
	struct openreg_stage *stage = &plan->stage[plan->nstages];
	unsigned int i;

	stage->step = plan->nsteps;
	stage->fold = plan->red.nfolds;
	c->spare = OPENREG_REGS;
	c->next = OPENREG_TILE_BUFFERS;
	c->ended = false;
	for (i = 0; i < OPENREG_REGS; i++) {
		unsigned int fold = c->result[i];

		c->buffer[i] = c->own[i] = (uint8_t)i;
		if (fold == NONE)
			continue;
		plan->red.fold[fold].kept = true;
		c->buffer[i] = (uint8_t)(OPENREG_PLAN_BUFFERS + fold);
		c->width[i] = type_width[plan->red.fold[fold].type];
	}
}

void openreg_plan_steps(struct openreg_plan *plan,
			const struct openreg_args *args)
{
	struct compiler c = { .plan = plan, .args = args };
	unsigned int i;

	for (i = 0; i < OPENREG_OPERANDS_MAX; i++)
		c.operand[i] = NONE;
	for (i = 0; i < OPENREG_DIMS_MAX; i++)
		c.dim[i] = NONE;
	for (i = 0; i < OPENREG_REGS; i++)
		c.result[i] = NONE;
	c.point = NONE;
	plan->naccess = 0;
	plan->nsteps = 0;
	plan->nstages = 0;
	plan->red.nfolds = 0;
	plan->red.position = NULL;
	plan->red.chunks = 1;
	begin_stage(&c);
	for (i = 0; i < args->ninstr; i++) {
		const struct openreg_instr *in = &args->instr[i];
		struct openreg_step *step = &plan->step[plan->nsteps];

		if (openreg_vector_form(in->op) == OPENREG_VFORM_REDUCE) {
			compile_reduce(&c, in);
			continue;
		}
		if (c.ended) {
			end_stage(&c);
			begin_stage(&c);
		}
		*step = (struct openreg_step){ .kind = OPENREG_STEP_KERNEL };
		compile_instr(&c, step, in);
		step->instr = (uint8_t)i;
		plan->nsteps++;
	}
	end_stage(&c);
}

/*
 * The outputs fold no point. The program loads nothing, so strides of loaded operands may
 * have any value; this sets them to 0.
 */
static void fold_nothing(struct openreg_args *args)
{
	uint32_t kept = ((1u << args->ndim) - 1) & ~(uint32_t)args->arg[0];
	unsigned int d, i;

	for (d = 0; d < args->ndim; d++) {
		if (args->arg[0] >> d & 1)
			args->size[d] = 1;
	}
	for (i = 0; i < args->nops; i++) {
		if (args->op[i].dims != kept)
			memset(args->op[i].stride, 0,
			       sizeof(args->op[i].stride));
	}
}

bool openreg_plan_make(struct openreg_plan *plan,
		       const struct openreg_args *args)
{
	struct openreg_args flat;
	bool folds_nothing = false;
	unsigned int d;

	plan->kernels = openreg_kernels();
	for (d = 0; d < args->ndim; d++) {
		if (args->size[d] != 0)
			continue;
		if (!(args->arg[0] >> d & 1))
			return false;
		folds_nothing = true;
	}
	if (folds_nothing) {
		flat = *args;
		fold_nothing(&flat);
		args = &flat;
	}
	openreg_plan_steps(plan, args);
	plan->red.empty = folds_nothing;
	if (!plan->nsteps && !plan->red.nfolds)
		return false;
	plan->points = openreg_plan_points(plan, args);
	openreg_plan_dims(plan, args);
	if (plan->red.nfolds)
		openreg_plan_units(plan);
	openreg_plan_shortcuts(plan, args);
	openreg_plan_estimate(plan, args);
	return true;
}
