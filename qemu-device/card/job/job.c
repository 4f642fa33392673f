// SPDX-License-Identifier: MIT
/* Jobs, and the scratch memory of a thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "work.h"

/* Jobs of all engines have one size, so that a new job can use any freed one. */
struct openreg_scratch {
	pthread_mutex_t lock; /* free, nfree */
	struct openreg_job *free;
	unsigned int nfree;
	void *buffer;
	size_t buffer_size;
	struct openreg_primitives *primitives;
	atomic_size_t *extra;
	bool refuse; /* only its worker uses it */
};

#define FREE_JOBS_MAX 64

static const uint8_t dtype_sizes[OPENREG_DTYPE_END] = {
	[OPENREG_F32] = 4, [OPENREG_F64] = 8,  [OPENREG_F16] = 2,
	[OPENREG_BF16] = 2, [OPENREG_I8] = 1,  [OPENREG_U8] = 1,
	[OPENREG_I16] = 2, [OPENREG_I32] = 4,  [OPENREG_I64] = 8,
	[OPENREG_BOOL] = 1, [OPENREG_F8E4M3FN] = 1,
	[OPENREG_F8E5M2] = 1, [OPENREG_F8E4M3FNUZ] = 1,
	[OPENREG_F8E5M2FNUZ] = 1, [OPENREG_F8E8M0FNU] = 1,
};

unsigned int openreg_dtype_size(unsigned int dtype)
{
	return dtype < OPENREG_DTYPE_END ? dtype_sizes[dtype] : 0;
}

struct openreg_scratch *openreg_scratch_new(atomic_size_t *extra)
{
	struct openreg_scratch *scratch = calloc(1, sizeof(*scratch));

	if (!scratch)
		return NULL;
	if (pthread_mutex_init(&scratch->lock, NULL)) {
		free(scratch);
		return NULL;
	}
	scratch->extra = extra;
	return scratch;
}

void openreg_scratch_free(struct openreg_scratch *scratch)
{
	struct openreg_job *job;

	if (!scratch)
		return;
	while ((job = scratch->free)) {
		scratch->free = job->next;
		free(job);
	}
	openreg_primitives_free(scratch->primitives);
	free(scratch->buffer);
	pthread_mutex_destroy(&scratch->lock);
	free(scratch);
}

void *openreg_scratch_buffer(struct openreg_scratch *scratch, size_t size)
{
	if (size > scratch->buffer_size) {
		free(scratch->buffer);
		scratch->buffer_size = 0;
		size = (size + 4095) & ~(size_t)4095;
		scratch->buffer = aligned_alloc(4096, size);
		if (!scratch->buffer)
			return NULL;
		scratch->buffer_size = size;
	}
	return scratch->buffer;
}

struct openreg_primitives **
openreg_scratch_primitives(struct openreg_scratch *scratch)
{
	return &scratch->primitives;
}

void openreg_scratch_refuse(struct openreg_scratch *scratch, bool refuse)
{
	scratch->refuse = refuse;
}

struct openreg_job *openreg_job_reuse(struct openreg_scratch *scratch)
{
	struct openreg_job *job;

	pthread_mutex_lock(&scratch->lock);
	job = scratch->free;
	if (job) {
		scratch->free = job->next;
		scratch->nfree--;
	}
	pthread_mutex_unlock(&scratch->lock);
	return job;
}

static void job_put(struct openreg_job *job)
{
	struct openreg_scratch *scratch = job->owner;

	pthread_mutex_lock(&scratch->lock);
	if (scratch->nfree < FREE_JOBS_MAX) {
		job->next = scratch->free;
		scratch->free = job;
		scratch->nfree++;
		job = NULL;
	}
	pthread_mutex_unlock(&scratch->lock);
	free(job);
}

void *openreg_job_extra(struct openreg_job *job, size_t size)
{
	atomic_size_t *extra = job->owner->extra;

	if (size > OPENREG_EXTRA_MAX)
		return NULL;
	if (job->owner->refuse) {
		job->later = true;
		return NULL;
	}
	if (atomic_fetch_add(extra, size) > OPENREG_EXTRA_MAX - size) {
		atomic_fetch_sub(extra, size);
		job->later = true;
		return NULL;
	}
	job->extra = malloc(size);
	if (job->extra)
		job->extra_size = size;
	else
		atomic_fetch_sub(extra, size);
	return job->extra;
}

void openreg_job_begin(struct openreg_job *job,
		       const struct openreg_engine *engine,
		       const struct openreg_args *args,
		       struct openreg_scratch *scratch)
{
	job->engine = engine;
	job->args = args;
	job->owner = scratch;
	job->extra = NULL;
	job->extra_size = 0;
	atomic_init(&job->failed, false);
	job->verdict = openreg_good();
	job->later = false;
	job->phases = 0;
}

unsigned int openreg_job_phases(const struct openreg_job *job)
{
	return job->phases;
}

uint32_t openreg_job_slices(struct openreg_job *job, unsigned int phase)
{
	return job->engine->slices ? job->engine->slices(job, phase)
				   : job->slices[phase];
}

bool openreg_job_run(struct openreg_job *job, unsigned int phase,
		     uint32_t slice, struct openreg_scratch *scratch)
{
	return job->engine->run(job, phase, slice, scratch);
}

bool openreg_job_fail(struct openreg_job *job, struct openreg_verdict verdict)
{
	if (!atomic_exchange(&job->failed, true))
		job->verdict = verdict;
	return false;
}

struct openreg_verdict openreg_job_verdict(const struct openreg_job *job,
					   unsigned int phase)
{
	if (job->verdict.code)
		return job->verdict;
	return openreg_bad(OPENREG_FAULT_MEMORY, OPENREG_NO_OPERAND, phase);
}

size_t openreg_job_memory(const struct openreg_job *job)
{
	return job->extra_size;
}

void openreg_job_free(struct openreg_job *job)
{
	if (!job)
		return;
	free(job->extra);
	atomic_fetch_sub(job->owner->extra, job->extra_size);
	job_put(job);
}
