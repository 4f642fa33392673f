// SPDX-License-Identifier: MIT
/* COPY and FILL within VRAM as a VECTOR program, which all workers can run. */
#include "copy.h"
#include "job/work.h"

/* A copy of this many elements gains from more than one worker. */
#define PROGRAM_MIN 16384

static bool is_long(const struct openreg_args *args)
{
	uint64_t n = 1;
	unsigned int d;

	for (d = 0; d < args->ndim; d++)
		n *= (uint64_t)args->size[d];
	return n >= PROGRAM_MIN;
}

/* The integer type that holds the bits of an element. */
static uint8_t bits_of(unsigned int dtype)
{
	switch (openreg_dtype_size(dtype)) {
	case 1:
		return OPENREG_U8;
	case 2:
		return OPENREG_I16;
	case 4:
		return OPENREG_I32;
	default:
		return OPENREG_I64;
	}
}

/* Can a copy move the elements of the last dimension n at a time? */
static bool can_widen(const struct openreg_args *args, int64_t n)
{
	unsigned int i, d, last = args->ndim - 1;

	if (!args->ndim || args->size[last] % n)
		return false;
	for (i = 0; i < args->nops; i++) {
		const struct openreg_arg *op = &args->op[i];

		if (op->stride[last] != 1 || (uintptr_t)op->ptr % 8)
			return false;
		for (d = 0; d < last; d++) {
			if (op->stride[d] % n)
				return false;
		}
	}
	return true;
}

/* Moves small elements eight bytes at a time: VECTOR registers have 4 or 8 bytes. */
static void widen(struct openreg_args *args)
{
	unsigned int esize = openreg_dtype_size(args->op[0].dtype), i, d;
	int64_t n = 8 / esize;

	if (esize >= 4 || !can_widen(args, n))
		return;
	args->size[args->ndim - 1] /= n;
	for (i = 0; i < args->nops; i++) {
		args->op[i].dtype = OPENREG_I64;
		for (d = 0; d + 1 < args->ndim; d++)
			args->op[i].stride[d] /= n;
	}
	if (!args->nimm)
		return;
	args->imm[0] &= esize == 1 ? 0xff : 0xffff;
	args->imm[0] *= esize == 1 ? 0x0101010101010101 : 0x0001000100010001;
}

bool copy_to_program(struct openreg_args *args)
{
	bool fill = args->opcode == OPENREG_OP_FILL;
	struct openreg_arg *dst = &args->op[0];
	struct openreg_arg *src = &args->op[fill ? 0 : 1];
	uint8_t type;

	if (!dst->ptr || !src->ptr || !is_long(args))
		return false;
	if (dst->dtype == src->dtype) {
		dst->dtype = src->dtype = bits_of(dst->dtype);
		widen(args);
	}
	type = openreg_dtype_register(src->dtype);
	args->instr[0] = fill ? (struct openreg_instr){ .op = OPENREG_V_IMM,
							.type = type }
			      : (struct openreg_instr){ .op = OPENREG_V_LOAD,
							.type = type,
							.aux = 1 };
	args->instr[1] = (struct openreg_instr){ .op = OPENREG_V_STORE,
						 .type = type };
	args->ninstr = 2;
	args->opcode = OPENREG_OP_VECTOR;
	return true;
}
