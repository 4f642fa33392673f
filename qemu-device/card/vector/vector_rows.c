// SPDX-License-Identifier: MIT
/*
 * VECTOR: finds the steps whose values are the same at all points of a row, such as
 * 1 / sqrt(variance). They run once for each row and not for each point.
 */
#include "vector.h"

/* The value of slot k has number OPENREG_INSTRS_MAX + k, that of step i number i. */
#define VALUES (OPENREG_INSTRS_MAX + OPENREG_SLOTS)

struct rows {
	struct openreg_plan *plan;
	struct openreg_stage *stage;
	uint8_t writer[OPENREG_STEP_BUFFERS]; /* value that a buffer has */
	uint8_t slot[VALUES];
	bool is_row[VALUES];
	bool for_rows[OPENREG_INSTRS_MAX]; /* a step of rows reads the immediate */
	bool for_points[OPENREG_INSTRS_MAX]; /* a step of points reads it */
	uint8_t source[OPENREG_INSTRS_MAX][3];
};

/* Does an access have one element for each row? */
static bool is_by_row(const struct openreg_plan *plan,
		      const struct openreg_access *access)
{
	bool inner = plan->red.folds_inner, any = false;
	unsigned int d = inner ? 0 : plan->inner_dims;
	unsigned int end = inner ? plan->inner_dims : plan->ndim;

	for (; d < end; d++) {
		if (access->stride[d])
			return false;
		any |= plan->size[d] > 1;
	}
	return any;
}

static bool is_row(const struct rows *r, unsigned int i)
{
	const struct openreg_step *step = &r->plan->step[i];
	const uint8_t *source = r->source[i];

	switch (step->kind) {
	case OPENREG_STEP_IMM:
		return true;
	case OPENREG_STEP_LOAD:
	case OPENREG_STEP_INDEX:
	case OPENREG_STEP_STORE:
		return is_by_row(r->plan, &r->plan->access[step->access]);
	case OPENREG_STEP_KERNEL:
		return r->is_row[source[0]] && r->is_row[source[1]] &&
		       r->is_row[source[2]];
	default:
		return false;
	}
}

static bool is_imm(const struct rows *r, unsigned int value)
{
	return value < OPENREG_INSTRS_MAX &&
	       r->plan->step[value].kind == OPENREG_STEP_IMM;
}

static unsigned int count_sources(const struct openreg_step *step)
{
	return step->kind == OPENREG_STEP_KERNEL  ? 3
	       : step->kind == OPENREG_STEP_STORE ? 1 : 0;
}

static void find_rows(struct rows *r)
{
	const struct openreg_plan *plan = r->plan;
	unsigned int i, k;

	for (i = 0; i < OPENREG_STEP_BUFFERS; i++)
		r->writer[i] = 0;
	for (i = 0; i < r->stage->fold; i++) {
		r->writer[OPENREG_PLAN_BUFFERS + i] =
			(uint8_t)(OPENREG_INSTRS_MAX + i);
		r->is_row[OPENREG_INSTRS_MAX + i] = true;
		r->slot[OPENREG_INSTRS_MAX + i] = (uint8_t)i;
	}
	for (i = r->stage->step; i < r->stage->end; i++) {
		const struct openreg_step *step = &plan->step[i];

		r->source[i][0] = r->writer[step->a];
		r->source[i][1] = r->writer[step->b];
		r->source[i][2] = r->writer[step->c];
		r->is_row[i] = is_row(r, i);
		r->for_rows[i] = r->for_points[i] = false;
		for (k = 0; k < count_sources(step); k++) {
			unsigned int value = r->source[i][k];

			if (is_imm(r, value) && r->is_row[i])
				r->for_rows[value] = true;
			else if (is_imm(r, value))
				r->for_points[value] = true;
		}
		if (step->kind != OPENREG_STEP_STORE)
			r->writer[step->dst] = (uint8_t)i;
	}
	for (i = r->stage->fold; i < r->stage->fold_end; i++) {
		unsigned int value = r->writer[plan->red.fold[i].buffer];

		if (is_imm(r, value))
			r->for_points[value] = true;
	}
}

static void add_row(struct rows *r, unsigned int i)
{
	struct openreg_reduction *red = &r->plan->red;
	struct openreg_step *to = &red->row[red->nrows];

	*to = r->plan->step[i];
	if (count_sources(to)) {
		to->a = r->slot[r->source[i][0]];
		to->b = r->slot[r->source[i][to->kind == OPENREG_STEP_STORE ? 0 : 1]];
		to->c = r->slot[r->source[i][to->kind == OPENREG_STEP_STORE ? 0 : 2]];
	}
	to->dst = (uint8_t)(OPENREG_REDUCTIONS_MAX + red->nrows++);
	r->slot[i] = to->dst;
}

/* The buffer in which a step of points finds a value. */
static uint8_t buffer_of(const struct rows *r, unsigned int value, uint8_t buffer)
{
	return r->is_row[value] && !is_imm(r, value)
		       ? (uint8_t)(OPENREG_PLAN_BUFFERS + r->slot[value]) : buffer;
}

static void split_stage(struct rows *r)
{
	struct openreg_plan *plan = r->plan;
	struct openreg_stage *stage = r->stage;
	unsigned int i, end = stage->step;

	stage->row = plan->red.nrows;
	for (i = stage->step; i < stage->end; i++) {
		struct openreg_step *step = &plan->step[i];
		bool imm = is_imm(r, i);
		uint8_t *buffer[3] = { &step->a, &step->b, &step->c };
		unsigned int k;

		if (imm ? r->for_rows[i] : r->is_row[i])
			add_row(r, i);
		for (k = 0; k < count_sources(step); k++)
			*buffer[k] = buffer_of(r, r->source[i][k], *buffer[k]);
	}
	stage->row_end = plan->red.nrows;
	for (i = stage->fold; i < stage->fold_end; i++) {
		uint8_t *buffer = &plan->red.fold[i].buffer;

		*buffer = buffer_of(r, r->writer[*buffer], *buffer);
	}
	for (i = stage->step; i < stage->end; i++) {
		if (is_imm(r, i) ? r->for_points[i] : !r->is_row[i])
			plan->step[end++] = plan->step[i];
	}
	stage->end = end;
}

void openreg_plan_rows(struct openreg_plan *plan)
{
	struct rows r = { .plan = plan };
	unsigned int i;

	for (i = 0; i < plan->nstages; i++) {
		r.stage = &plan->stage[i];
		find_rows(&r);
		split_stage(&r);
	}
}
