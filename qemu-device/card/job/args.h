/* SPDX-License-Identifier: MIT */
/* A packet after its parsing, and the verdict of a check. */
#ifndef OPENREG_ARGS_H
#define OPENREG_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "openreg_isa.h"

struct openreg_arg {
	uint64_t addr; /* from the packet */
	uint8_t dtype;
	bool read; /* set by openreg_engine_check */
	bool written; /* set by openreg_engine_check */
	bool own; /* the packet reads only what it wrote; set as read */
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
	uint64_t address; /* of the operand; FAULT_INDEX: the extent */
	uint64_t detail;
};

static inline struct openreg_verdict openreg_good(void)
{
	return (struct openreg_verdict){ .operand = OPENREG_NO_OPERAND };
}

static inline struct openreg_verdict
openreg_bad(uint32_t code, uint32_t operand, uint64_t detail)
{
	return (struct openreg_verdict){ .code = code, .operand = operand,
					 .detail = detail };
}

/* Bytes of an element; 0 if dtype is not valid. */
unsigned int openreg_dtype_size(unsigned int dtype);

#endif
