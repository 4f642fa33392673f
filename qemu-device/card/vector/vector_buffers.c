// SPDX-License-Identifier: MIT
/*
 * VECTOR: which buffer holds which value. A program may use all registers. With fewer
 * buffers for their values, more of the buffers stay in the nearest cache.
 */
#include <string.h>

#include "vector.h"

struct buffers {
	uint8_t of[OPENREG_PLAN_BUFFERS]; /* new number of an old one */
	uint8_t width[OPENREG_PLAN_BUFFERS];
	uint8_t free[OPENREG_TILE_BUFFERS]; /* a stack */
	unsigned int nfree;
	uint32_t kept; /* old numbers: buffers of `once` steps */
};

/* Slots are no buffers. */
static uint32_t bit(uint8_t buffer)
{
	return buffer < OPENREG_PLAN_BUFFERS ? 1u << buffer : 0;
}

static uint8_t renumber(const struct buffers *b, uint8_t buffer)
{
	return buffer < OPENREG_PLAN_BUFFERS ? b->of[buffer] : buffer;
}

static uint32_t sources(const struct openreg_step *step)
{
	switch (step->kind) {
	case OPENREG_STEP_STORE:
		return bit(step->a);
	case OPENREG_STEP_KERNEL:
		return bit(step->a) | bit(step->b) | bit(step->c);
	default:
		return 0;
	}
}

/*
 * live[i]: buffers that later steps than i read. gone[i]: buffers that step i is the last
 * to read; the step may write its result to one of them.
 */
static void find_live(const struct openreg_plan *plan,
		      const struct openreg_stage *stage, uint32_t *live,
		      uint32_t *gone)
{
	uint32_t now = 0;
	unsigned int i;

	for (i = stage->fold; i < stage->fold_end; i++)
		now |= bit(plan->red.fold[i].buffer);
	for (i = stage->end; i-- > stage->step;) {
		const struct openreg_step *step = &plan->step[i];

		live[i] = now;
		if (step->kind != OPENREG_STEP_STORE)
			now &= ~(1u << step->dst);
		gone[i] = sources(step) & ~now;
		now |= sources(step);
	}
}

/* Frees buffers of `which`: those narrower than width, or else the others. */
static void release(struct buffers *b, uint32_t which, unsigned int width,
		    bool narrower)
{
	unsigned int i;

	for (; which; which &= which - 1) {
		i = (unsigned int)__builtin_ctz(which);
		if ((b->width[i] < width) == narrower)
			b->free[b->nfree++] = b->of[i];
	}
}

static void number_stage(struct openreg_plan *plan,
			 const struct openreg_stage *stage, struct buffers b)
{
	uint32_t live[OPENREG_INSTRS_MAX], gone[OPENREG_INSTRS_MAX];
	unsigned int i;
	uint8_t dst;

	find_live(plan, stage, live, gone);
	for (i = stage->step; i < stage->end; i++) {
		struct openreg_step *step = &plan->step[i];

		gone[i] &= ~b.kept;
		dst = step->dst;
		step->a = renumber(&b, step->a);
		step->b = renumber(&b, step->b);
		step->c = renumber(&b, step->c);
		release(&b, gone[i], step->width, false);
		if (step->kind != OPENREG_STEP_STORE) {
			if (!(b.kept >> dst & 1))
				b.of[dst] = b.free[--b.nfree];
			b.width[dst] = step->width;
			step->dst = b.of[dst];
		}
		release(&b, gone[i], step->width, true);
		if (step->kind != OPENREG_STEP_STORE && !(b.kept >> dst & 1) &&
		    !(live[i] >> dst & 1))
			b.free[b.nfree++] = b.of[dst];
	}
	for (i = stage->fold; i < stage->fold_end; i++) {
		uint8_t *buffer = &plan->red.fold[i].buffer;

		*buffer = renumber(&b, *buffer);
	}
}

/* Are there buffers of their own for the `once` steps of all stages? */
static bool once_fits(const struct openreg_plan *plan)
{
	uint32_t live[OPENREG_INSTRS_MAX], gone[OPENREG_INSTRS_MAX];
	int once = 0, most = 0, n;
	unsigned int i, s;

	for (s = 0; s < plan->nstages; s++) {
		const struct openreg_stage *stage = &plan->stage[s];
		uint32_t kept = 0;

		for (i = stage->step; i < stage->end; i++) {
			if (!plan->step[i].once)
				continue;
			kept |= 1u << plan->step[i].dst;
			once++;
		}
		find_live(plan, stage, live, gone);
		for (i = stage->step; i < stage->end; i++) {
			const struct openreg_step *step = &plan->step[i];
			uint32_t now = live[i] | sources(step);

			if (step->kind != OPENREG_STEP_STORE)
				now |= 1u << step->dst;
			n = __builtin_popcount(now & ~kept);
			most = n > most ? n : most;
		}
	}
	return once + most <= OPENREG_TILE_BUFFERS;
}

void openreg_plan_buffers(struct openreg_plan *plan)
{
	struct buffers b[OPENREG_STAGES_MAX], shared = { .nfree = 0 };
	bool fits = once_fits(plan);
	unsigned int i, s;

	for (i = OPENREG_TILE_BUFFERS; i-- > 0;)
		shared.free[shared.nfree++] = (uint8_t)i;
	for (s = 0; s < plan->nstages; s++) {
		b[s] = shared;
		for (i = plan->stage[s].step; i < plan->stage[s].end; i++) {
			struct openreg_step *step = &plan->step[i];

			/* The first tile fills this buffer, and later tiles read it. */
			step->once &= fits;
			if (!step->once)
				continue;
			b[s].kept |= 1u << step->dst;
			b[s].of[step->dst] = shared.free[--shared.nfree];
		}
	}
	for (s = 0; s < plan->nstages; s++) {
		memcpy(b[s].free, shared.free, sizeof(shared.free));
		b[s].nfree = shared.nfree;
		number_stage(plan, &plan->stage[s], b[s]);
	}
}
