/* SPDX-License-Identifier: MIT */
/*
 * The compute engine, as the core uses it: which room runs an opcode.
 *
 * The core copies a packet, parses it into struct openreg_args, checks every operand
 * against its segment, and sets the pointers of VRAM operands. The engine checks the
 * rules of the opcode and cuts the work into slices.
 */
#ifndef OPENREG_ENGINE_H
#define OPENREG_ENGINE_H

#include "job/job.h"

/*
 * Call before the first job. exit() destroys the engines' static data after it has run
 * the handlers that are registered later than this call.
 */
void openreg_engine_init(void);

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
 * Makes a job. The pointers in args must be set, and args must outlive the job. A job
 * without work has no phases. Returns NULL if memory is short; *later is then true if
 * the memory is free once other jobs have ended.
 *
 * This must be cheap for small packets, so jobs come from a freelist.
 */
struct openreg_job *openreg_job_new(const struct openreg_args *args,
				    struct openreg_scratch *scratch,
				    bool *later);

/*
 * Copies n elements from src to dst with the casts of VECTOR, for the copy engine.
 * Strides are in elements. Source and destination must not overlap.
 */
void openreg_convert(void *dst, unsigned int dst_dtype, int64_t dst_stride,
		     const void *src, unsigned int src_dtype,
		     int64_t src_stride, uint64_t n);

#endif
