// SPDX-License-Identifier: MIT
/* VECTOR: work that the steps of a plan can save. */
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

/*
 * Could the kernel trap or loop for ever if an operand changed between its check and its
 * use?
 */
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
 * May later steps read the operand in memory instead of a copy? Two cases need the copy:
 * after a STORE the memory may have changed; and a kernel that may trap reads an element
 * twice, between which user space may change it.
 */
static bool may_alias(const struct openreg_plan *plan,
		      const struct openreg_stage *stage,
		      const struct openreg_args *args, unsigned int load)
{
	uint8_t buffer = plan->step[load].dst;
	bool stored = false;
	unsigned int i;

	for (i = load + 1; i < stage->end; i++) {
		const struct openreg_step *step = &plan->step[i];

		if (step_reads(step, buffer) &&
		    (stored || may_trap(&args->instr[step->instr])))
			return false;
		if (step->kind == OPENREG_STEP_STORE)
			stored = true;
		else if (step->dst == buffer)
			return true;
	}
	for (i = stage->fold; stored && i < stage->fold_end; i++) {
		if (plan->red.fold[i].buffer == buffer)
			return false;
	}
	return true;
}

static bool same_in_memory(unsigned int dtype, unsigned int type)
{
	return (dtype == OPENREG_F32 && type == OPENREG_VT_F32) ||
	       (dtype == OPENREG_F64 && type == OPENREG_VT_F64) ||
	       (dtype == OPENREG_I32 && type == OPENREG_VT_I32) ||
	       (dtype == OPENREG_I64 && type == OPENREG_VT_I64);
}

static bool is_written_once(const struct openreg_plan *plan,
			    const struct openreg_stage *stage, uint8_t buffer)
{
	unsigned int i, writes = 0;

	for (i = stage->step; i < stage->end; i++)
		writes += plan->step[i].kind != OPENREG_STEP_STORE &&
			  plan->step[i].dst == buffer;
	return writes == 1;
}

/* Does the step load copies of the same elements for each tile? */
static bool loads_the_same(const struct openreg_plan *plan,
			   const struct openreg_step *step)
{
	const struct openreg_access *access = &plan->access[step->access];
	unsigned int d;

	if ((step->kind != OPENREG_STEP_LOAD &&
	     step->kind != OPENREG_STEP_INDEX) || access->stored ||
	    access->run_dims > plan->split)
		return false;
	for (d = plan->split; d < plan->ndim; d++) {
		if (access->stride[d] && plan->digits[d] > 1)
			return false;
	}
	return true;
}

/*
 * The values of the steps; the index is the number of the step that computes a value. The
 * value of slot k has index VALUE_OF_SLOT + k.
 */
#define VALUE_OF_SLOT OPENREG_INSTRS_MAX
#define VALUES (OPENREG_INSTRS_MAX + OPENREG_SLOTS)
struct values {
	bool uniform[VALUES]; /* a tile's elements are all the same */
	bool whole[VALUES]; /* some step reads all of them */
	uint8_t source[OPENREG_INSTRS_MAX][3];
};

static bool is_uniform(const struct openreg_plan *plan,
		       const struct values *v, unsigned int i)
{
	const struct openreg_step *step = &plan->step[i];
	const struct openreg_access *access = &plan->access[step->access];
	const uint8_t *source = v->source[i];

	switch (step->kind) {
	case OPENREG_STEP_IMM:
		return true;
	case OPENREG_STEP_LOAD:
	case OPENREG_STEP_INDEX:
		return access->stride[0] == 0 && access->run_dims > plan->split;
	case OPENREG_STEP_KERNEL:
		return v->uniform[source[0]] && v->uniform[source[1]] &&
		       v->uniform[source[2]];
	default:
		return false;
	}
}

/* The slots in use: first those of folds, then those of steps of rows. */
static unsigned int slot_number(const struct openreg_plan *plan, unsigned int i)
{
	return i < plan->red.nfolds
		       ? i : i - plan->red.nfolds + OPENREG_REDUCTIONS_MAX;
}

static void find_values(const struct openreg_plan *plan,
			const struct openreg_stage *stage, struct values *v)
{
	uint8_t writer[OPENREG_STEP_BUFFERS] = { 0 };
	unsigned int i;

	for (i = 0; i < plan->red.nfolds + plan->red.nrows; i++) {
		unsigned int slot = slot_number(plan, i);

		writer[OPENREG_PLAN_BUFFERS + slot] =
			(uint8_t)(VALUE_OF_SLOT + slot);
		v->uniform[VALUE_OF_SLOT + slot] = plan->red.unit_outputs == 1;
	}
	for (i = stage->step; i < stage->end; i++) {
		const struct openreg_step *step = &plan->step[i];

		v->source[i][0] = writer[step->a];
		v->source[i][1] = writer[step->b];
		v->source[i][2] = writer[step->c];
		v->uniform[i] = is_uniform(plan, v, i);
		v->whole[i] = false;
		if (step->kind != OPENREG_STEP_STORE)
			writer[step->dst] = (uint8_t)i;
	}
	for (i = stage->fold; i < stage->fold_end; i++)
		v->whole[writer[plan->red.fold[i].buffer]] = true;
}

static unsigned int count_sources(unsigned int op)
{
	switch (openreg_vector_form(op)) {
	case OPENREG_VFORM_TERNARY:
	case OPENREG_VFORM_SELECT:
		return 3;
	case OPENREG_VFORM_BINARY:
	case OPENREG_VFORM_TEST2:
		return 2;
	default:
		return 1;
	}
}

/* x * y + z: a kernel can take a single element for y, but not for x. */
static void swap_factors(struct openreg_step *step, uint8_t *source)
{
	uint8_t a = step->a, x = source[0];

	step->a = step->b;
	step->b = a;
	source[0] = source[1];
	source[1] = x;
}

/* Chooses a kernel that takes a single element for as many uniform sources as it can. */
static void choose_kernel(const struct openreg_plan *plan,
			  const struct openreg_instr *in,
			  struct openreg_step *step, uint8_t *source,
			  struct values *v)
{
	unsigned int n = count_sources(in->op), uniform = 0, ones, i;
	openreg_kernel *kernel = NULL;

	if (in->op == OPENREG_V_FMA && v->uniform[source[0]] &&
	    !v->uniform[source[1]])
		swap_factors(step, source);
	for (i = 0; i < n; i++)
		uniform |= v->uniform[source[i]] ? 1u << i : 0;
	for (ones = uniform; ones; ones = (ones - 1) & uniform) {
		kernel = plan->kernels->ones[ones][in->op][in->type];
		if (kernel)
			break;
	}
	if (kernel)
		step->kernel = kernel;
	for (i = 0; i < n; i++) {
		if (!(ones >> i & 1))
			v->whole[source[i]] = true;
	}
}

/* Computes only one element of uniform values, where the kernels allow that. */
static void find_ones(struct openreg_plan *plan,
		      const struct openreg_stage *stage,
		      const struct openreg_args *args, struct values *v)
{
	unsigned int i;

	find_values(plan, stage, v);
	for (i = stage->end; i-- > stage->step;) {
		struct openreg_step *step = &plan->step[i];
		uint8_t *source = v->source[i];

		step->one = v->uniform[i] && !v->whole[i];
		if (step->kind == OPENREG_STEP_STORE)
			v->whole[source[0]] = true;
		else if (step->kind == OPENREG_STEP_KERNEL && !step->one)
			choose_kernel(plan, &args->instr[step->instr], step,
				      source, v);
	}
}

static void shorten_stage(struct openreg_plan *plan,
			  const struct openreg_stage *stage,
			  const struct openreg_args *args, struct values *v)
{
	unsigned int i;

	for (i = stage->step; i < stage->end; i++) {
		const struct openreg_instr *in = &args->instr[plan->step[i].instr];
		struct openreg_step *step = &plan->step[i];

		if (step->kind == OPENREG_STEP_LOAD)
			step->alias = same_in_memory(args->op[in->aux].dtype,
						     in->type) &&
				      may_alias(plan, stage, args, i);
		step->once = (step->kind == OPENREG_STEP_IMM ||
			      loads_the_same(plan, step)) &&
			     is_written_once(plan, stage, step->dst);
	}
	find_ones(plan, stage, args, v);
}

void openreg_plan_shortcuts(struct openreg_plan *plan,
			    const struct openreg_args *args)
{
	struct openreg_reduction *red = &plan->red;
	struct values v;
	unsigned int i, slot;

	red->nrows = 0;
	if (red->nfolds)
		openreg_plan_rows(plan);
	for (i = 0; i < red->nfolds + red->nrows; i++)
		v.whole[VALUE_OF_SLOT + slot_number(plan, i)] = false;
	for (i = 0; i < plan->nstages; i++)
		shorten_stage(plan, &plan->stage[i], args, &v);
	for (i = 0; i < red->nfolds + red->nrows; i++) {
		slot = slot_number(plan, i);
		red->whole[slot] = v.whole[VALUE_OF_SLOT + slot];
	}
	openreg_plan_buffers(plan);
}
