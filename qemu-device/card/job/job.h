/* SPDX-License-Identifier: MIT */
/* Jobs as the core uses them, and the memory of a thread that runs them. */
#ifndef OPENREG_JOB_H
#define OPENREG_JOB_H

#include <stdatomic.h>
#include <stddef.h>

#include "args.h"

/*
 * A job is one packet in progress. Its phases run in order. The slices of a phase may run
 * in any order and on several threads; a slice takes at most about 2 ms.
 */
struct openreg_job;

/*
 * Call before and after fork(), so that data that the engines share is consistent in the
 * child.
 */
void openreg_job_fork_begin(void);
void openreg_job_fork_end(void);

/* Per-thread scratch memory and primitive caches; one for each worker. */
struct openreg_scratch;
/* *extra counts bytes that jobs hold; the scratches of a card share it. */
struct openreg_scratch *openreg_scratch_new(atomic_size_t *extra);
void openreg_scratch_free(struct openreg_scratch *scratch);
/* refuse: jobs get no memory of their own now, because another queue is first in line. */
void openreg_scratch_refuse(struct openreg_scratch *scratch, bool refuse);

unsigned int openreg_job_phases(const struct openreg_job *job);
/* Slices of a phase. Call it only after the earlier phases have ended. */
uint32_t openreg_job_slices(struct openreg_job *job, unsigned int phase);
/*
 * Runs a slice. Returns false if the packet faults. Once no slice is running,
 * openreg_job_verdict() returns the fault: MEMORY, unless a slice has set another.
 */
bool openreg_job_run(struct openreg_job *job, unsigned int phase,
		     uint32_t slice, struct openreg_scratch *scratch);
struct openreg_verdict openreg_job_verdict(const struct openreg_job *job,
					   unsigned int phase);
/* Bytes of host memory that the job holds until it is freed. */
size_t openreg_job_memory(const struct openreg_job *job);
/* No slice may be running. The job need not be complete: its queue may have stopped. */
void openreg_job_free(struct openreg_job *job);

#endif
