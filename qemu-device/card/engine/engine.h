/* SPDX-License-Identifier: MIT */
/*
 * The interface between the core (queues, address check, scheduler) and the compute
 * engine.
 *
 * The core copies a packet, parses it into struct openreg_args, checks every operand
 * against its segment, and sets the pointers of VRAM operands. The engine checks the
 * rules of the opcode and cuts the work into slices.
 */
#ifndef OPENREG_ENGINE_H
#define OPENREG_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg_isa.h"

struct openreg_arg {
	uint64_t addr; /* from the packet */
	uint8_t dtype;
	bool read; /* set by openreg_engine_check */
	bool written; /* set by openreg_engine_check */
	int64_t stride[OPENREG_DIMS_MAX]; /* elements */
	void *ptr; /* element 0 in VRAM; set by the core after its check */
	/*
	 * Dimensions that the operand is accessed along: bit i is dimension i. The
	 * core checks bounds along these dimensions only. Set by openreg_engine_check.
	 */
	uint32_t dims;
	/* Bit i: the core also checks along args->extent[i]. Set as dims. */
	uint8_t indirect;
	bool sized; /* size below applies, not the packet's */
	int64_t size[OPENREG_DIMS_MAX];
};

/* A parsed packet. It is a private copy, so user space cannot change it any more. */
struct openreg_args {
	uint8_t opcode;
	uint8_t ndim;
	uint8_t nops;
	uint8_t nimm;
	uint8_t ninstr;
	uint8_t arg[4];
	int64_t size[OPENREG_DIMS_MAX];
	struct openreg_arg op[OPENREG_OPERANDS_MAX];
	uint64_t imm[OPENREG_IMMS_MAX];
	struct openreg_instr instr[OPENREG_INSTRS_MAX];
	/* INDEX: dimensions that an indirect operand has beside its dims. */
	unsigned int nextents;
	int64_t extent[OPENREG_INDEX_OPERANDS_MAX];
	int64_t step[OPENREG_INDEX_OPERANDS_MAX]; /* elements */
};

struct openreg_verdict {
	uint32_t code; /* enum openreg_fault_code, 0 is good */
	uint32_t operand; /* or OPENREG_NO_OPERAND */
	uint64_t detail;
	uint64_t extent; /* FAULT_INDEX only */
};

/* Bytes of an element; 0 if dtype is not valid. */
unsigned int openreg_dtype_size(unsigned int dtype);

/* Does the compute engine run packets with this opcode? */
bool openreg_is_compute(unsigned int opcode);

/*
 * Checks dtypes, shapes, program and work limit of a compute packet. Fills read,
 * written, dims, indirect and sizes of every operand. Accesses no operand. The core has
 * checked ndim, nops, nimm, ninstr and sizes >= 0, and that the product of the sizes is
 * at most 2^max_work.
 */
struct openreg_verdict openreg_engine_check(struct openreg_args *args);

/*
 * A job is one packet in progress. Its phases run in order. The slices of a phase may run
 * in any order and on several threads; a slice takes at most about 2 ms.
 */
struct openreg_job;

/*
 * Call before the first job. exit() destroys the engines' static data after it has run
 * the handlers that are registered later than this call.
 */
void openreg_engine_init(void);

/*
 * Call before and after fork(), so that data that the engines share is consistent in the
 * child.
 */
void openreg_engine_fork_begin(void);
void openreg_engine_fork_end(void);

/* Per-thread scratch memory and primitive caches; one for each worker. */
struct openreg_scratch;
/* *extra counts bytes that jobs hold; the scratches of a card share it. */
struct openreg_scratch *openreg_scratch_new(atomic_size_t *extra);
void openreg_scratch_free(struct openreg_scratch *scratch);
/* refuse: jobs get no memory of their own now, because another queue is first in line. */
void openreg_scratch_refuse(struct openreg_scratch *scratch, bool refuse);

/*
 * Makes a job. The pointers in args must be set, and args must outlive the job. A job
 * without work has no phases. Returns NULL if memory is short; *later is then true if
 * the memory is free once other jobs have ended.
 *
 * This must be cheap for small packets, so jobs come from a freelist.
 */
struct openreg_job *openreg_job_new(const struct openreg_args *args,
				    struct openreg_scratch *scratch,
				    bool *later);
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

/*
 * Copies n elements from src to dst with the casts of VECTOR, for the copy engine.
 * Strides are in elements. Source and destination must not overlap.
 */
void openreg_convert(void *dst, unsigned int dst_dtype, int64_t dst_stride,
		     const void *src, unsigned int src_dtype,
		     int64_t src_stride, uint64_t n);

#endif
