/* SPDX-License-Identifier: MIT */
/*
 * Jobs as the rooms of the opcodes see them, scratch memory, verdicts.
 *
 * A job belongs to the scratch of the thread that made it. Any thread may free the job,
 * which returns it to that scratch's freelist. So a scratch must outlive its jobs.
 */
#ifndef OPENREG_WORK_H
#define OPENREG_WORK_H

#include "job.h"

/* Work of one slice, by the engines' rough estimates of time. */
#define OPENREG_SLICE_NS 500000.0
/* Waking a thread for a slice costs about this. */
#define OPENREG_SHARE_NS 50000.0
/* Bytes of host memory that all jobs of a card together may hold. */
#define OPENREG_EXTRA_MAX ((size_t)1 << 30)

/* The functions of one compute opcode. */
struct openreg_engine {
	struct openreg_verdict (*check)(struct openreg_args *args);
	/* Bytes of the engine's private part of a job. */
	size_t job_size;
	/*
	 * Fills job->phases, which is 0 before, and job->slices. A packet whose job has no
	 * phase is complete. Returns false if memory is short.
	 */
	bool (*setup)(struct openreg_job *job, struct openreg_scratch *scratch);
	/* Number of slices of a phase. NULL: job->slices[phase]. */
	uint32_t (*slices)(const struct openreg_job *job, unsigned int phase);
	bool (*run)(struct openreg_job *job, unsigned int phase, uint32_t slice,
		    struct openreg_scratch *scratch);
};

#define OPENREG_PHASES_MAX 4

struct openreg_job {
	const struct openreg_engine *engine;
	const struct openreg_args *args;
	struct openreg_scratch *owner;
	struct openreg_job *next; /* in the freelist */
	void *extra; /* from openreg_job_extra, freed with the job; or NULL */
	size_t extra_size;
	atomic_bool failed; /* a slice has set the verdict */
	struct openreg_verdict verdict;
	bool later; /* other jobs hold the memory that this job needs */
	unsigned int phases;
	uint32_t slices[OPENREG_PHASES_MAX];
	/* The engine's private part. */
	_Alignas(64) unsigned char priv[];
};

/* A freed job of this scratch, or NULL. */
struct openreg_job *openreg_job_reuse(struct openreg_scratch *scratch);
/* Prepares the job for the engine's setup(). */
void openreg_job_begin(struct openreg_job *job,
		       const struct openreg_engine *engine,
		       const struct openreg_args *args,
		       struct openreg_scratch *scratch);

/*
 * Returns size bytes, aligned to 64, or NULL if memory is short. They stay valid until
 * the next call for the same scratch.
 */
void *openreg_scratch_buffer(struct openreg_scratch *scratch, size_t size);

/* Allocates job->extra, once for a job. Returns NULL if memory is short. */
void *openreg_job_extra(struct openreg_job *job, size_t size);

/* Sets the fault of the packet, from a slice. The first call counts. Returns false. */
bool openreg_job_fail(struct openreg_job *job, struct openreg_verdict verdict);

struct openreg_primitives;
struct openreg_primitives **
openreg_scratch_primitives(struct openreg_scratch *scratch);
void openreg_primitives_free(struct openreg_primitives *cache);

/* Time that one slice should take, so that all workers can share `total` ns of work. */
static inline double openreg_slice_ns(double total)
{
	double ns = total / 8;

	if (ns > OPENREG_SLICE_NS)
		return OPENREG_SLICE_NS;
	return ns < OPENREG_SHARE_NS ? OPENREG_SHARE_NS : ns;
}

/* A float dtype of more than 8 bits? */
static inline bool openreg_dtype_is_float(unsigned int dtype)
{
	return dtype >= OPENREG_F32 && dtype <= OPENREG_BF16;
}

static inline bool openreg_dtype_is_float8(unsigned int dtype)
{
	return dtype >= OPENREG_F8E4M3FN && dtype <= OPENREG_F8E8M0FNU;
}

/* Not float8: one that all packets but those of synchronisation take. */
static inline bool openreg_dtype_is_common(unsigned int dtype)
{
	return dtype >= OPENREG_F32 && dtype <= OPENREG_BOOL;
}

/* The register type that holds every value of a dtype. */
static inline uint8_t openreg_dtype_register(unsigned int dtype)
{
	switch (dtype) {
	case OPENREG_F64:
		return OPENREG_VT_F64;
	case OPENREG_I64:
		return OPENREG_VT_I64;
	case OPENREG_F32:
	case OPENREG_F16:
	case OPENREG_BF16:
	case OPENREG_F8E4M3FN:
	case OPENREG_F8E5M2:
	case OPENREG_F8E4M3FNUZ:
	case OPENREG_F8E5M2FNUZ:
	case OPENREG_F8E8M0FNU:
		return OPENREG_VT_F32;
	default:
		return OPENREG_VT_I32;
	}
}

#endif
