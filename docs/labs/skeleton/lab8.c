// SPDX-License-Identifier: MIT
/*
 * Lab 8: the instruction AVERAGE of VECTOR, and the engine of the packet ROLL, opcode
 * OPENREG_OP_EXPERIMENT.
 *
 * AVERAGE: dst = (a + b) / 2, rounded toward -inf; I32 and I64.
 * ROLL: ndim 2, space [rows, n]; op 0 result, op 1 source, of one dtype; imm 0 shift. Element
 * (row, (i + shift) % n) of the result is element (row, i) of the source.
 */
#include <string.h>

#include "lab8.h"

/* The private part of a job. */
struct roll {
	int64_t total; /* elements */
	int64_t part; /* elements of a slice */
};

static struct openreg_verdict roll_check(struct openreg_args *args)
{
	/*
	 * TODO: refuse each field that the rules do not allow, with the fault of the page.
	 * Then say for each operand whether the packet reads or writes it, and along which
	 * dimensions: from that the core checks the addresses.
	 */
	return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND, args->opcode);
}

static bool roll_setup(struct openreg_job *job, struct openreg_scratch *scratch)
{
	/*
	 * TODO: cut the elements into slices of openreg_slice_ns() each: estimate the time of
	 * an element, for example 2 ns. A packet without elements has no phase.
	 */
	(void)job;
	(void)scratch;
	return true;
}

static bool roll_run(struct openreg_job *job, unsigned int phase, uint32_t slice,
		     struct openreg_scratch *scratch)
{
	/* TODO: copy the elements of this slice. */
	(void)job;
	(void)phase;
	(void)slice;
	(void)scratch;
	return true;
}

const struct openreg_engine lab8_engine = {
	.check = roll_check,
	.job_size = sizeof(struct roll),
	.setup = roll_setup,
	.run = roll_run,
};

/* TODO: a kernel for each type. It has n elements; dst may be a, b or neither. */

const struct lab8_instruction lab8_average = {
	.form = OPENREG_VFORM_NONE, /* TODO: the form and the types, and .kernel */
};
