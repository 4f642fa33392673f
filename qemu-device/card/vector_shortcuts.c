// SPDX-License-Identifier: MIT
/* VECTOR: what a plan's steps need not do. */
#include "vector.h"

static bool step_reads(const struct openreg_step *step, uint8_t buffer)
{
	switch (step->kind) {
	case OPENREG_STEP_STORE:
		return step->a == buffer;
	case OPENREG_STEP_KERNEL:
		return step->a == buffer || step->b == buffer ||
		       step->c == buffer;
	default:
		return false;
	}
}

/* Traps, or never ends, on operands that its kernel has looked at before. */
static bool may_trap(const struct openreg_instr *in)
{
	switch (in->op) {
	case OPENREG_V_DIV:
	case OPENREG_V_DIV_FLOOR:
	case OPENREG_V_FMOD:
	case OPENREG_V_REMAINDER:
	case OPENREG_V_POW:
		return in->type >= OPENREG_VT_I32;
	}
	return false;
}

/*
 * A register may stand for the memory that it was loaded from as long as it is
 * not read after a STORE, which may have changed that memory, nor looked at
 * twice, as a processor may change it in between.
 */
static bool may_alias(const struct openreg_plan *plan,
		      const struct openreg_args *args, unsigned int load)
{
	uint8_t buffer = plan->step[load].dst;
	bool stored = false;
	unsigned int i;

	for (i = load + 1; i < plan->nsteps; i++) {
		const struct openreg_step *step = &plan->step[i];

		if (step_reads(step, buffer) &&
		    (stored || may_trap(&args->instr[i])))
			return false;
		if (step->kind == OPENREG_STEP_STORE)
			stored = true;
		else if (step->dst == buffer)
			return true;
	}
	return !(stored && plan->red.op && plan->red.buffer == buffer);
}

static bool same_in_memory(unsigned int dtype, unsigned int type)
{
	return (dtype == OPENREG_F32 && type == OPENREG_VT_F32) ||
	       (dtype == OPENREG_F64 && type == OPENREG_VT_F64) ||
	       (dtype == OPENREG_I32 && type == OPENREG_VT_I32) ||
	       (dtype == OPENREG_I64 && type == OPENREG_VT_I64);
}

static bool is_written_once(const struct openreg_plan *plan, uint8_t buffer)
{
	unsigned int i, writes = 0;

	for (i = 0; i < plan->nsteps; i++)
		writes += plan->step[i].kind != OPENREG_STEP_STORE &&
			  plan->step[i].dst == buffer;
	return writes == 1;
}

/* The kernel for a step of which the buffer holds one element, or NULL. */
static openreg_kernel *kernel_of_one(const struct openreg_plan *plan,
				     const struct openreg_args *args,
				     unsigned int i, uint8_t buffer)
{
	const struct openreg_step *step = &plan->step[i];
	const struct openreg_instr *in = &args->instr[i];
	bool right = step->b == buffer;

	if (step->kind != OPENREG_STEP_KERNEL || step->takes_one ||
	    right == (step->a == buffer))
		return NULL;
	return plan->kernels->one[right][in->op][in->type];
}

/* Do all that read what a step gives take one element for all? */
static bool may_be_one(const struct openreg_plan *plan,
		       const struct openreg_args *args, unsigned int from)
{
	uint8_t buffer = plan->step[from].dst;
	unsigned int i;

	for (i = from + 1; i < plan->nsteps; i++) {
		const struct openreg_step *step = &plan->step[i];

		if (step_reads(step, buffer) &&
		    !kernel_of_one(plan, args, i, buffer))
			return false;
		if (step->kind != OPENREG_STEP_STORE && step->dst == buffer)
			return true;
	}
	return !plan->red.op || plan->red.buffer != buffer;
}

static void make_one(struct openreg_plan *plan, const struct openreg_args *args,
		     unsigned int from)
{
	uint8_t buffer = plan->step[from].dst;
	unsigned int i;

	plan->step[from].one = true;
	for (i = from + 1; i < plan->nsteps; i++) {
		struct openreg_step *step = &plan->step[i];

		if (step_reads(step, buffer)) {
			step->kernel = kernel_of_one(plan, args, i, buffer);
			step->takes_one = true;
		}
		if (step->kind != OPENREG_STEP_STORE && step->dst == buffer)
			return;
	}
}

/* Is each element that the step gives a tile the same? */
static bool is_uniform(const struct openreg_plan *plan,
		       const struct openreg_step *step)
{
	const struct openreg_access *access = &plan->access[step->access];

	switch (step->kind) {
	case OPENREG_STEP_IMM:
		return true;
	case OPENREG_STEP_LOAD:
	case OPENREG_STEP_INDEX:
		return access->stride[0] == 0 && access->run_dims > plan->split;
	default:
		return false;
	}
}

void openreg_plan_shortcuts(struct openreg_plan *plan,
			    const struct openreg_args *args)
{
	unsigned int i;

	for (i = 0; i < plan->nsteps; i++) {
		const struct openreg_instr *in = &args->instr[i];
		struct openreg_step *step = &plan->step[i];

		if (step->kind == OPENREG_STEP_LOAD)
			step->alias = same_in_memory(args->op[in->aux].dtype,
						     in->type) &&
				      may_alias(plan, args, i);
		else if (step->kind == OPENREG_STEP_IMM)
			step->once = is_written_once(plan, step->dst);
		if (is_uniform(plan, step) && may_be_one(plan, args, i))
			make_one(plan, args, i);
	}
}
