// SPDX-License-Identifier: MIT
/* VECTOR: estimates how long a tile takes, and cuts tiles and slices by that. */
#include "vector.h"

#define TILE_MIN 16
#define AHEAD_STEPS 4 /* fetch memory ahead for programs of so many computing steps */
#define AHEAD_POINTS (1 << 17)
#define FAR_NS 12 /* for an element that shares no page with its neighbours */

/* A rough estimate for slower hosts, in ns for an element. */
static double kernel_ns(const struct openreg_instr *in)
{
	bool wide = in->type == OPENREG_VT_F64 || in->type == OPENREG_VT_I64;

	switch (in->op) {
	case OPENREG_V_RANDOM:
		return wide ? 12 : 6;
	case OPENREG_V_LGAMMA:
		return wide ? 40 : 12;
	case OPENREG_V_POW:
		return wide ? 100 : 40;
	case OPENREG_V_FMOD:
	case OPENREG_V_REMAINDER:
	case OPENREG_V_DIV_FLOOR:
		/* A loop over the difference of the exponents. */
		return wide ? 200 : 40;
	case OPENREG_V_DIV:
		if (in->type >= OPENREG_VT_I32)
			return wide ? 10 : 5;
		return wide ? 4 : 1;
	case OPENREG_V_SQRT:
	case OPENREG_V_RSQRT:
	case OPENREG_V_RECIP:
		return wide ? 4 : 1;
	case OPENREG_V_ATAN2:
	case OPENREG_V_HYPOT:
		return wide ? 10 : 4;
	default:
		break;
	}
	if (in->op >= OPENREG_V_EXP && in->op <= OPENREG_V_SIGMOID)
		return wide ? 10 : 3;
	return 0.1;
}

static double access_ns(const struct openreg_plan *plan,
			const struct openreg_access *access)
{
	double rows = 4.0 / (double)plan->size[0];
	int64_t stride = access->stride[0];

	if (access->run_dims > plan->split)
		rows = 0;
	if (stride == 0)
		return 0.1 + rows;
	if (stride == 1)
		return 0.1 + 0.05 * (double)access->esize + rows;
	if (stride * access->esize >= 4096 || stride * access->esize <= -4096)
		return FAR_NS;
	return 4 + rows;
}

/* A worker does not stop within a tile, so a tile must not take longer than a slice. */
int64_t openreg_plan_points(const struct openreg_plan *plan,
			   const struct openreg_args *args)
{
	int64_t points = OPENREG_TILE;
	double ns = 0;
	unsigned int i;

	for (i = 0; i < plan->nsteps; i++) {
		const struct openreg_step *step = &plan->step[i];

		ns += step->kind == OPENREG_STEP_LOAD ||
				      step->kind == OPENREG_STEP_STORE
			      ? FAR_NS : kernel_ns(&args->instr[step->instr]);
	}
	while (points > TILE_MIN && (double)points * ns > OPENREG_SLICE_NS)
		points /= 2;
	return points;
}

static double step_ns(const struct openreg_plan *plan,
		      const struct openreg_args *args,
		      const struct openreg_step *step)
{
	if (step->kind == OPENREG_STEP_LOAD || step->kind == OPENREG_STEP_STORE)
		return access_ns(plan, &plan->access[step->access]);
	return kernel_ns(&args->instr[step->instr]);
}

/* A short program is as fast as memory without help; small operands are in the cache. */
static unsigned int lines_ahead(const struct openreg_plan *plan)
{
	unsigned int kernels = 0, lines, i;
	int64_t points = plan->volume * plan->chunk;

	for (i = 0; i < plan->nsteps; i++)
		kernels += plan->step[i].kind == OPENREG_STEP_KERNEL;
	if (plan->red.nfolds || kernels < AHEAD_STEPS ||
	    points * plan->tiles < AHEAD_POINTS)
		return 0;
	lines = (unsigned int)(points * (int64_t)sizeof(float)) / OPENREG_LINE;
	return (lines + kernels - 1) / kernels;
}

void openreg_plan_estimate(struct openreg_plan *plan, const struct openreg_args *args)
{
	const struct openreg_reduction *red = &plan->red;
	double ns = 0.2 * red->nfolds, rows = 0;
	unsigned int i, s;

	for (s = 0; s < plan->nstages; s++) {
		for (i = plan->stage[s].step; i < plan->stage[s].end; i++)
			ns += step_ns(plan, args, &plan->step[i]);
	}
	for (i = 0; i < red->nrows; i++)
		rows += step_ns(plan, args, &red->row[i]) *
			(double)red->unit_outputs;
	plan->tile_ns = 10.0 * (plan->nsteps + 1) + rows +
			ns * (double)(plan->volume * plan->chunk);
	plan->slice_tiles =
		(int64_t)(openreg_slice_ns(plan->tile_ns * (double)plan->tiles) /
			  plan->tile_ns);
	if (plan->slice_tiles < 1)
		plan->slice_tiles = 1;
	plan->lines_ahead = lines_ahead(plan);
}
