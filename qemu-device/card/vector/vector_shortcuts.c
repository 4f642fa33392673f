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

/* The values of the steps; the index is the number of the step that computes a value. */
struct values {
	bool uniform[OPENREG_INSTRS_MAX]; /* a tile's elements are all the same */
	bool whole[OPENREG_INSTRS_MAX]; /* some step reads all of them */
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

static void find_values(const struct openreg_plan *plan, struct values *v)
{
	uint8_t writer[OPENREG_TILE_BUFFERS] = { 0 };
	unsigned int i;

	for (i = 0; i < plan->nsteps; i++) {
		const struct openreg_step *step = &plan->step[i];

		v->source[i][0] = writer[step->a];
		v->source[i][1] = writer[step->b];
		v->source[i][2] = writer[step->c];
		v->uniform[i] = is_uniform(plan, v, i);
		v->whole[i] = false;
		if (step->kind != OPENREG_STEP_STORE)
			writer[step->dst] = (uint8_t)i;
	}
	if (plan->red.op)
		v->whole[writer[plan->red.buffer]] = true;
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
static void find_ones(struct openreg_plan *plan, const struct openreg_args *args)
{
	struct values v;
	unsigned int i;

	find_values(plan, &v);
	for (i = plan->nsteps; i-- > 0;) {
		struct openreg_step *step = &plan->step[i];

		step->one = v.uniform[i] && !v.whole[i];
		if (step->kind == OPENREG_STEP_STORE)
			v.whole[v.source[i][0]] = true;
		else if (step->kind == OPENREG_STEP_KERNEL && !step->one)
			choose_kernel(plan, &args->instr[i], step, v.source[i],
				      &v);
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
	}
	find_ones(plan, args);
	openreg_plan_buffers(plan);
}
