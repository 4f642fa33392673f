// SPDX-License-Identifier: MIT
/*
 * VECTOR: which buffer holds which value. A program may use all registers. With fewer
 * buffers for their values, more of the buffers stay in the nearest cache.
 */
#include "vector.h"

struct buffers {
	uint8_t of[OPENREG_TILE_BUFFERS]; /* new number of an old one */
	uint8_t width[OPENREG_TILE_BUFFERS];
	uint8_t free[OPENREG_TILE_BUFFERS]; /* a stack */
	unsigned int nfree;
};

static uint32_t sources(const struct openreg_step *step)
{
	switch (step->kind) {
	case OPENREG_STEP_STORE:
		return 1u << step->a;
	case OPENREG_STEP_KERNEL:
		return 1u << step->a | 1u << step->b | 1u << step->c;
	default:
		return 0;
	}
}

/*
 * live[i]: buffers that later steps than i read. gone[i]: buffers that step i is the last
 * to read; the step may write its result to one of them.
 */
static void find_live(const struct openreg_plan *plan, uint32_t *live,
		      uint32_t *gone)
{
	uint32_t now = plan->red.op ? 1u << plan->red.buffer : 0;
	unsigned int i;

	for (i = plan->nsteps; i-- > 0;) {
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

void openreg_plan_buffers(struct openreg_plan *plan)
{
	uint32_t live[OPENREG_INSTRS_MAX], gone[OPENREG_INSTRS_MAX], kept = 0;
	struct buffers b = { .nfree = 0 };
	unsigned int i;
	uint8_t dst;

	find_live(plan, live, gone);
	for (i = OPENREG_TILE_BUFFERS; i-- > 0;)
		b.free[b.nfree++] = (uint8_t)i;
	for (i = 0; i < plan->nsteps; i++) {
		struct openreg_step *step = &plan->step[i];

		/* The first tile fills this buffer, and later tiles read it. */
		if (step->kind == OPENREG_STEP_IMM && step->once) {
			kept |= 1u << step->dst;
			b.of[step->dst] = b.free[--b.nfree];
		}
	}
	for (i = 0; i < plan->nsteps; i++) {
		struct openreg_step *step = &plan->step[i];

		gone[i] &= ~kept;
		dst = step->dst;
		step->a = b.of[step->a];
		step->b = b.of[step->b];
		step->c = b.of[step->c];
		release(&b, gone[i], step->width, false);
		if (step->kind != OPENREG_STEP_STORE) {
			if (!(kept >> dst & 1))
				b.of[dst] = b.free[--b.nfree];
			b.width[dst] = step->width;
			step->dst = b.of[dst];
		}
		release(&b, gone[i], step->width, true);
		if (step->kind != OPENREG_STEP_STORE && !(kept >> dst & 1) &&
		    !(live[i] >> dst & 1))
			b.free[b.nfree++] = b.of[dst];
	}
	if (plan->red.op)
		plan->red.buffer = b.of[plan->red.buffer];
}
