/* SPDX-License-Identifier: MIT */
/*
 * Between the core (queues, address check, scheduler) and the compute engine.
 *
 * The core copies a packet, parses it into struct openreg_args, checks every
 * operand against its segment, and turns the VRAM operands into pointers. The
 * engine checks what only the opcode knows, and cuts the work into slices.
 */
#ifndef OPENREG_ENGINE_H
#define OPENREG_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg_isa.h"

struct openreg_arg {
	uint64_t addr; /* as the packet has it */
	uint8_t dtype;
	bool read; /* set by openreg_engine_check */
	bool written; /* set by openreg_engine_check */
	int64_t stride[OPENREG_DIMS_MAX]; /* elements */
	void *ptr; /* element 0 in VRAM; set by the core after its check */
	/*
	 * Space that the operand is accessed over, set by
	 * openreg_engine_check: bit i says that dimension i counts. The core
	 * checks bounds over these dimensions only.
	 */
	uint32_t dims;
	/* Also over these extents, by bit; set by openreg_engine_check. */
	uint8_t indirect;
	bool sized; /* its sizes are its own, and not the packet's */
	int64_t size[OPENREG_DIMS_MAX];
};

/* A parsed packet: a private copy, so nothing can change under the engine. */
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
	/* INDEX: what an indirect operand reaches beside its dims. */
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

/* Bytes of an element; 0 for what is no dtype. */
unsigned int openreg_dtype_size(unsigned int dtype);

/* Is it an opcode of this engine's? */
bool openreg_is_compute(unsigned int opcode);

/*
 * Semantic check of a compute packet: dtypes, shapes, program, work limit;
 * fills read, written, dims and own sizes of every operand. No memory is touched.
 * The core has checked ndim, nops, nimm, ninstr and sizes >= 0, and that the
 * product of the sizes is at most 2^max_work.
 */
struct openreg_verdict openreg_engine_check(struct openreg_args *args);

/*
 * A job is one packet at work: phases in order, each a number of slices that
 * may run in any order, on several threads, and last about 2 ms at most.
 */
struct openreg_job;

/*
 * Before the first job. What engines have in static memory ends, at exit(),
 * after what is registered from now on has.
 */
void openreg_engine_init(void);

/*
 * Around fork(): what the engines of a process share is whole in the child.
 */
void openreg_engine_fork_begin(void);
void openreg_engine_fork_end(void);

/* Per-thread scratch memory and primitive caches; one for each worker. */
struct openreg_scratch;
/* *extra: what the jobs of all scratches that share it hold, in bytes. */
struct openreg_scratch *openreg_scratch_new(atomic_size_t *extra);
void openreg_scratch_free(struct openreg_scratch *scratch);
/* Jobs that want memory of their own get none: it is another's turn. */
void openreg_scratch_refuse(struct openreg_scratch *scratch, bool refuse);

/*
 * NULL if memory is short; *later then says whether it is there once other
 * jobs have ended. The args must outlive the job. Pointers are set. An empty
 * job has no phases. Cheap for small packets: no allocation that a freelist
 * could save.
 */
struct openreg_job *openreg_job_new(const struct openreg_args *args,
				    struct openreg_scratch *scratch,
				    bool *later);
unsigned int openreg_job_phases(const struct openreg_job *job);
/* Slices of a phase; asked only after the phases before it have ended. */
uint32_t openreg_job_slices(struct openreg_job *job, unsigned int phase);
/*
 * false: the packet faults. openreg_job_verdict says why once no slice is
 * running; it is MEMORY unless a slice has found something else.
 */
bool openreg_job_run(struct openreg_job *job, unsigned int phase,
		     uint32_t slice, struct openreg_scratch *scratch);
struct openreg_verdict openreg_job_verdict(const struct openreg_job *job,
					   unsigned int phase);
/* Host memory that it holds for as long as it lives. */
size_t openreg_job_memory(const struct openreg_job *job);
/* Also in the middle, when the queue is stopped. No slice may be running. */
void openreg_job_free(struct openreg_job *job);

/*
 * n elements from src to dst with VECTOR's casts; strides in elements. Source
 * and destination do not overlap. For the copy engine.
 */
void openreg_convert(void *dst, unsigned int dst_dtype, int64_t dst_stride,
		     const void *src, unsigned int src_dtype,
		     int64_t src_stride, uint64_t n);

#endif
