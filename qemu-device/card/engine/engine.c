// SPDX-License-Identifier: MIT
/* The compute engine: which room runs an opcode. */
#include <stdlib.h>

#include "conv/conv.h"
#include "engine.h"
#include "index/index.h"
#include "matmul/packed.h"
#include "pool/pool.h"
#include "scan/scan.h"
#include "softmax/softmax.h"
#include "sort/sort.h"
#include "vector/vector.h"

static const struct openreg_engine *const engines[] = {
	[OPENREG_OP_VECTOR] = &openreg_vector_engine,
	[OPENREG_OP_MATMUL] = &openreg_matmul_engine,
	[OPENREG_OP_SOFTMAX] = &openreg_softmax_engine,
	[OPENREG_OP_INDEX] = &openreg_index_engine,
	[OPENREG_OP_CONV] = &openreg_conv_engine,
	[OPENREG_OP_POOL] = &openreg_pool_engine,
	[OPENREG_OP_SORT] = &openreg_sort_engine,
	[OPENREG_OP_SCAN] = &openreg_scan_engine,
	[OPENREG_OP_PLACES] = &openreg_places_engine,
	[OPENREG_OP_PACK] = &openreg_pack_engine,
};

#define ENGINES (sizeof(engines) / sizeof(engines[0]))

void openreg_engine_init(void)
{
	openreg_gemm_init();
}

static const struct openreg_engine *engine_of(unsigned int opcode)
{
	return opcode < ENGINES ? engines[opcode] : NULL;
}

bool openreg_is_compute(unsigned int opcode)
{
	return engine_of(opcode);
}

struct openreg_verdict openreg_engine_check(struct openreg_args *args)
{
	const struct openreg_engine *engine = engine_of(args->opcode);
	unsigned int i;

	for (i = 0; i < args->nops; i++) {
		args->op[i].read = false;
		args->op[i].written = false;
		args->op[i].own = false;
		args->op[i].dims = 0;
		args->op[i].indirect = 0;
		args->op[i].sized = false;
	}
	args->nextents = 0;
	if (!engine)
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->opcode);
	return engine->check(args);
}

/* Jobs of all engines have one size, so that a new job can use any freed one. */
static struct openreg_job *allocate_job(void)
{
	size_t size = 0, i;

	for (i = 0; i < ENGINES; i++) {
		if (engines[i] && engines[i]->job_size > size)
			size = engines[i]->job_size;
	}
	return aligned_alloc(64, (sizeof(struct openreg_job) + size + 63) &
					 ~(size_t)63);
}

struct openreg_job *openreg_job_new(const struct openreg_args *args,
				    struct openreg_scratch *scratch,
				    bool *later)
{
	const struct openreg_engine *engine = engine_of(args->opcode);
	struct openreg_job *job = openreg_job_reuse(scratch);

	*later = false;
	if (!job)
		job = allocate_job();
	if (!job)
		return NULL;
	openreg_job_begin(job, engine, args, scratch);
	if (!engine || !engine->setup(job, scratch)) {
		*later = job->later;
		openreg_job_free(job);
		return NULL;
	}
	return job;
}
