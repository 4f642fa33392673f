// SPDX-License-Identifier: MIT
/* The packets of a reduction. */
#include "comm.h"

static unsigned int type_of(enum openreg_dtype dtype)
{
	switch (dtype) {
	case OPENREG_F64:
		return OPENREG_VT_F64;
	case OPENREG_F32:
	case OPENREG_F16:
	case OPENREG_BF16:
		return OPENREG_VT_F32;
	case OPENREG_I64:
		return OPENREG_VT_I64;
	default:
		return OPENREG_VT_I32;
	}
}

static uint64_t immediate(unsigned int type, double value)
{
	return type == OPENREG_VT_F32 || type == OPENREG_VT_F64 ?
		       openreg_imm_f64(value) : openreg_imm_i64((int64_t)value);
}

static int push(struct openreg_comm *comm, uint64_t count, const struct openreg_tensor *ops,
		unsigned int nops, const struct openreg_instr *program, unsigned int n,
		uint64_t imm)
{
	const int64_t size = (int64_t)count;
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1,
		.nimm = 1,
		.size = &size,
		.nops = (uint8_t)nops,
		.ops = ops,
		.imm = &imm,
		.ninstr = (uint8_t)n,
		.instr = program,
	};

	int ret = comm_room(comm);

	return ret ? ret : openreg_push(comm->queue, &cmd);
}

int push_scale(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t count,
	       const struct reduction *red)
{
	const unsigned int type = type_of(red->dtype);
	const struct openreg_tensor ops[] = {
		openreg_view(dst, red->dtype, NULL), openreg_view(src, red->dtype, NULL),
	};
	const struct openreg_instr program[] = {
		openreg_ins(OPENREG_V_LOAD, type, 0, 0, 0, 0, 1),
		openreg_ins(OPENREG_V_IMM, type, 1, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_MUL, type, 0, 0, 1, 0, 0),
		openreg_ins(OPENREG_V_STORE, type, 0, 0, 0, 0, 0),
	};

	return push(comm, count, ops, 2, program, 4, immediate(type, comm->factor));
}

int push_reduce(struct openreg_comm *comm, uint64_t dst, const uint64_t *parts,
		uint64_t count, const struct reduction *red)
{
	static const unsigned int codes[] = {
		[OPENREG_COMM_SUM] = OPENREG_V_ADD, [OPENREG_COMM_PROD] = OPENREG_V_MUL,
		[OPENREG_COMM_MIN] = OPENREG_V_MIN, [OPENREG_COMM_MAX] = OPENREG_V_MAX,
		[OPENREG_COMM_AVG] = OPENREG_V_ADD, [OPENREG_COMM_PREMUL_SUM] = OPENREG_V_ADD,
		[OPENREG_COMM_AND] = OPENREG_V_AND, [OPENREG_COMM_OR] = OPENREG_V_OR,
		[OPENREG_COMM_XOR] = OPENREG_V_XOR,
	};
	struct openreg_tensor ops[1 + OPENREG_COMM_RANKS_MAX];
	struct openreg_instr program[3 + 2 * OPENREG_COMM_RANKS_MAX];
	const unsigned int type = type_of(red->dtype);
	unsigned int n = 0;

	if (comm->size == 1)
		return red->op == OPENREG_COMM_PREMUL_SUM ?
			       push_scale(comm, dst, parts[0], count, red) :
			       push_copy(comm, dst, parts[0],
					 count * openreg_dtype_size(red->dtype));
	ops[0] = openreg_view(dst, red->dtype, NULL);
	for (unsigned int r = 0; r < comm->size; r++) {
		ops[1 + r] = openreg_view(parts[r], red->dtype, NULL);
		program[n++] = openreg_ins(OPENREG_V_LOAD, type, r ? 1 : 0, 0, 0, 0, 1 + r);
		if (r)
			program[n++] = openreg_ins(codes[red->op], type, 0, 0, 1, 0, 0);
	}
	if (red->op == OPENREG_COMM_AVG) {
		program[n++] = openreg_ins(OPENREG_V_IMM, type, 1, 0, 0, 0, 0);
		program[n++] = openreg_ins(OPENREG_V_DIV, type, 0, 0, 1, 0, 0);
	}
	program[n++] = openreg_ins(OPENREG_V_STORE, type, 0, 0, 0, 0, 0);
	return push(comm, count, ops, 1 + comm->size, program, n,
		    immediate(type, comm->size));
}
