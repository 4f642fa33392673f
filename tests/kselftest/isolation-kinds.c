// SPDX-License-Identifier: GPL-2.0-only
#include "isolation-kinds.h"

#define ONE 0x3ff0000000000000ull /* 1.0 */

#define KIND(label, code, dims, operands, imms, ...)			\
	{ .name = label, .opcode = OPENREG_OP_##code, .ndim = dims,	\
	  .nops = operands, .nimm = imms, __VA_ARGS__ }
#define INDEX_INTO(label, mode)						\
	KIND("INDEX " label, INDEX, 2, 3, 2, .arg = { OPENREG_INDEX_##mode }, \
	     .size = { 4, 4 },						\
	     .ops = { F32(0, 1), F32(4, 1), I64(1, 0) }, .imm = { 4, 4 })
#define WINDOW { 1, 1, 1, 4, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1 }
#define F32(...) { OPENREG_F32, { __VA_ARGS__ } }
#define I64(...) { OPENREG_I64, { __VA_ARGS__ } }
#define F16(...) { OPENREG_F16, { __VA_ARGS__ } }
#define U8(...) { OPENREG_U8, { __VA_ARGS__ } }
#define I8(...) { OPENREG_I8, { __VA_ARGS__ } }
#define I32(...) { OPENREG_I32, { __VA_ARGS__ } }
#define E4M3(...) { OPENREG_F8E4M3FN, { __VA_ARGS__ } }
#define E8M0(...) { OPENREG_F8E8M0FNU, { __VA_ARGS__ } }

const struct kind kinds[] = {
	KIND("COPY", COPY, 1, 2, 0, .size = { 64 }, .ops = { F32(1), F32(1) }),
	KIND("COPY with a cast", COPY, 1, 2, 0, .size = { 64 },
	     .ops = { F32(1), I64(2) }),
	KIND("FILL", FILL, 1, 1, 1, .size = { 64 }, .ops = { F32(1) }),
	KIND("VECTOR", VECTOR, 1, 3, 0, .size = { 64 },
	     .ops = { F32(1), F32(1), F32(0) }, .ninstr = 4, .instr = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 1 },
		{ .op = OPENREG_V_LOAD, .dst = 1, .aux = 2 },
		{ .op = OPENREG_V_ADD, .dst = 2, .a = 0, .b = 1 },
		{ .op = OPENREG_V_STORE, .a = 2, .aux = 0 } }),
	KIND("VECTOR with two results", VECTOR, 1, 4, 0, .size = { 64 },
	     .ops = { F32(1), F32(1), F32(1), I64(1) }, .ninstr = 4, .instr = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 2 },
		{ .op = OPENREG_V_STORE, .a = 0, .aux = 0 },
		{ .op = OPENREG_V_LOAD, .dst = 1, .aux = 3 },
		{ .op = OPENREG_V_STORE, .a = 1, .aux = 1 } }),
	KIND("VECTOR with a reduction", VECTOR, 2, 3, 0, .arg = { 2 },
	     .size = { 4, 16 }, .ops = { F32(1, 0), I64(1, 0), F32(16, 1) },
	     .ninstr = 2, .instr = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 2 },
		{ .op = OPENREG_V_RED_MAX, .a = 0, .b = 1, .c = OPENREG_VNONE,
		  .aux = 0 } }),
	KIND("VECTOR with a sum", VECTOR, 2, 2, 0, .arg = { 2 },
	     .size = { 4, 2048 }, .ops = { F32(1, 0), F32(2048, 1) },
	     .ninstr = 2, .instr = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 1 },
		{ .op = OPENREG_V_RED_SUM, .a = 0, .b = OPENREG_VNONE,
		  .c = OPENREG_VNONE, .aux = 0 } }),
	KIND("VECTOR, long", VECTOR, 1, 2, 0, .size = { 16384 },
	     .ops = { F32(1), F32(1) }, .ninstr = 2, .instr = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 1 },
		{ .op = OPENREG_V_STORE, .a = 0, .aux = 0 } }),
	KIND("VECTOR of bytes", VECTOR, 1, 2, 0, .size = { 4096 },
	     .ops = { U8(1), U8(1) }, .ninstr = 2, .instr = {
		{ .op = OPENREG_V_LOAD, .dst = 0, .aux = 1 },
		{ .op = OPENREG_V_STORE, .a = 0, .aux = 0 } }),
	KIND("MATMUL, large", MATMUL, 4, 3, 2, .size = { 1, 96, 96, 96 },
	     .ops = { F32(9216, 96, 1, 0), F32(9216, 96, 0, 1),
		      F32(9216, 0, 1, 96) }, .imm = { ONE }),
	KIND("MATMUL, halves", MATMUL, 4, 3, 2, .size = { 1, 96, 96, 96 },
	     .ops = { F16(9216, 96, 1, 0), F16(9216, 96, 0, 1),
		      F16(9216, 0, 1, 96) }, .imm = { ONE }),
	KIND("MATMUL", MATMUL, 4, 4, 2, .size = { 1, 4, 4, 4 },
	     .ops = { F32(16, 4, 1, 0), F32(16, 4, 0, 1), F32(16, 0, 1, 4),
		      F32(16, 4, 1, 0) }, .imm = { ONE, ONE }),
	KIND("PACK", PACK, 2, 2, 0, .arg = { OPENREG_PACK_PACK },
	     .size = { 4, 4 }, .ops = { F16(0, 1), F16(4, 1) }),
	KIND("UNPACK", PACK, 2, 2, 0, .arg = { OPENREG_PACK_UNPACK },
	     .packed = 1, .size = { 4, 4 }, .ops = { F16(4, 1), F16(0, 1) }),
	KIND("MATMUL, packed", MATMUL, 4, 3, 2,
	     .arg = { [3] = OPENREG_MATMUL_PACKED_B }, .packed = 2,
	     .size = { 1, 4, 4, 4 },
	     .ops = { F32(16, 4, 1, 0), F32(16, 4, 0, 1), F32(0, 0, 1, 0) },
	     .imm = { ONE }),
	KIND("MATMUL of bytes", MATMUL, 4, 3, 2, .size = { 1, 96, 96, 96 },
	     .ops = { I32(9216, 96, 1, 0), U8(9216, 96, 0, 1),
		      I8(9216, 0, 1, 96) }, .imm = { ONE }),
	KIND("MATMUL with scales", MATMUL, 4, 4, 3,
	     .arg = { OPENREG_MATMUL_SCALED_I8 }, .size = { 1, 20, 96, 96 },
	     .ops = { F32(1920, 96, 1, 0), F32(1920, 96, 0, 1),
		      I8(9216, 0, 96, 1), F32(192, 0, 1, 96) },
	     .imm = { ONE, 0, 48 }),
	KIND("MATMUL of four bits", MATMUL, 4, 5, 3,
	     .arg = { OPENREG_MATMUL_SCALED_I4 }, .size = { 1, 1, 96, 96 },
	     .ops = { F16(96, 96, 1, 0), F16(96, 96, 0, 1),
		      U8(4608, 0, 48, 1), F32(192, 0, 1, 96),
		      F32(192, 0, 1, 96) }, .imm = { ONE, 0, 48 }),
	KIND("MATMUL, float8 with scales", MATMUL, 4, 5, 3,
	     .arg = { OPENREG_MATMUL_SCALED_F8 }, .size = { 1, 20, 20, 64 },
	     .ops = { F32(400, 20, 1, 0), E4M3(1280, 64, 0, 1),
		      E4M3(1280, 0, 64, 1), E8M0(40, 2, 0, 1),
		      E8M0(40, 0, 2, 1) }, .imm = { ONE, 0, 32 }),
	KIND("SOFTMAX", SOFTMAX, 2, 2, 0, .arg = { 1 }, .size = { 4, 8 },
	     .ops = { F32(8, 1), F32(8, 1) }),
	KIND("SOFTMAX, its logarithm", SOFTMAX, 2, 2, 0,
	     .arg = { 1, OPENREG_SOFTMAX_LOG }, .size = { 2, 4096 },
	     .ops = { F32(4096, 1), F32(4096, 1) }),
	KIND("SOFTMAX backward", SOFTMAX, 2, 3, 0,
	     .arg = { 1, OPENREG_SOFTMAX_BACKWARD }, .size = { 4, 8 },
	     .ops = { F32(8, 1), F32(8, 1), F32(8, 1) }),
	KIND("INDEX get", INDEX, 2, 3, 2, .arg = { OPENREG_INDEX_GET },
	     .size = { 4, 4 }, .ops = { F32(4, 1), F32(0, 1), I64(1, 0) },
	     .imm = { 4, 4 }),
	KIND("INDEX get by two", INDEX, 2, 4, 4, .arg = { OPENREG_INDEX_GET },
	     .size = { 4, 4 },
	     .ops = { F32(4, 1), F32(0, 0), I64(1, 0), I64(0, 1) },
	     .imm = { 4, 4, 4, 1 }),
	KIND("INDEX get from the end", INDEX, 2, 3, 2,
	     .arg = { OPENREG_INDEX_GET, OPENREG_INDEX_WRAP },
	     .size = { 4, 4 }, .ops = { F32(4, 1), F32(0, 1), I64(1, 0) },
	     .imm = { 4, 4 }),
	INDEX_INTO("put", PUT),
	INDEX_INTO("add", ADD),
	INDEX_INTO("mul", MUL),
	INDEX_INTO("min", MIN),
	INDEX_INTO("max", MAX),
	KIND("CONV", CONV, 7, 4, 15, .arg = { OPENREG_CONV_FORWARD },
	     .size = { 1, 1, 1, 1, 4, 1, 1 },
	     .ops = { F32(4, 4, 4, 0, 1, 1, 1), F32(4, 4, 0, 4, 1, 1, 1),
		      F32(0, 1, 1, 1, 1, 1, 1), F32(0, 1, 1, 0, 0, 0, 0) },
	     .imm = WINDOW),
	KIND("CONV backward, data", CONV, 7, 4, 15,
	     .arg = { OPENREG_CONV_BACKWARD_DATA },
	     .size = { 1, 1, 1, 1, 4, 1, 1 },
	     .ops = { F32(4, 4, 0, 4, 1, 1, 1), F32(4, 4, 4, 0, 1, 1, 1),
		      F32(0, 1, 1, 1, 1, 1, 1), F32(0, 1, 0, 1, 0, 0, 0) },
	     .imm = WINDOW),
	KIND("CONV backward, weights", CONV, 7, 3, 15,
	     .arg = { OPENREG_CONV_BACKWARD_WEIGHTS },
	     .size = { 1, 1, 1, 1, 4, 1, 1 },
	     .ops = { F32(0, 1, 1, 1, 1, 1, 1), F32(4, 4, 4, 0, 1, 1, 1),
		      F32(4, 4, 0, 4, 1, 1, 1) },
	     .imm = WINDOW),
	KIND("POOL max", POOL, 5, 3, 16, .arg = { OPENREG_POOL_MAX },
	     .size = { 1, 1, 4, 1, 1 },
	     .ops = { F32(4, 4, 1, 1, 1), F32(4, 4, 1, 1, 1),
		      I64(4, 4, 1, 1, 1) }, .imm = WINDOW),
	KIND("POOL max backward", POOL, 5, 3, 16,
	     .arg = { OPENREG_POOL_MAX, OPENREG_POOL_BACKWARD },
	     .size = { 1, 1, 4, 1, 1 },
	     .ops = { F32(4, 4, 1, 1, 1), F32(4, 4, 1, 1, 1),
		      I64(4, 4, 1, 1, 1) }, .imm = WINDOW),
	KIND("POOL average", POOL, 5, 2, 16, .arg = { OPENREG_POOL_AVG },
	     .size = { 1, 1, 4, 1, 1 },
	     .ops = { F32(4, 4, 1, 1, 1), F32(4, 4, 1, 1, 1) },
	     .imm = WINDOW),
	KIND("POOL average backward", POOL, 5, 2, 16,
	     .arg = { OPENREG_POOL_AVG, OPENREG_POOL_BACKWARD },
	     .size = { 1, 1, 4, 1, 1 },
	     .ops = { F32(4, 4, 1, 1, 1), F32(4, 4, 1, 1, 1) },
	     .imm = WINDOW),
	KIND("POOL average, all of it", POOL, 5, 2, 16,
	     .arg = { OPENREG_POOL_AVG, OPENREG_POOL_ADAPTIVE },
	     .size = { 1, 1, 4, 1, 1 },
	     .ops = { F32(4, 4, 1, 1, 1), F32(4, 4, 1, 1, 1) },
	     .imm = WINDOW),
	KIND("SORT, long, descending", SORT, 1, 3, 2,
	     .arg = { 0, OPENREG_SORT_DESCENDING }, .size = { 8192 },
	     .ops = { F32(1), F32(1), I64(1) }, .imm = { 0, 8192 }),
	KIND("SORT of halves", SORT, 2, 3, 2, .arg = { 1 }, .size = { 4, 8 },
	     .ops = { F16(8, 1), F16(8, 1), I64(8, 1) }, .imm = { 0, 8 }),
	KIND("SORT", SORT, 2, 3, 2, .arg = { 1 }, .size = { 4, 8 },
	     .ops = { F32(8, 1), F32(8, 1), I64(8, 1) }, .imm = { 0, 8 }),
	KIND("SCAN", SCAN, 2, 2, 0, .arg = { 1, OPENREG_SCAN_SUM },
	     .size = { 4, 8 }, .ops = { F32(8, 1), F32(8, 1) }),
	KIND("SCAN with positions", SCAN, 2, 3, 0,
	     .arg = { 1, OPENREG_SCAN_MAX }, .size = { 4, 8 },
	     .ops = { F32(8, 1), F32(8, 1), I64(8, 1) }),
	KIND("PLACES", PLACES, 1, 2, 1, .size = { 64 },
	     .ops = { I64(1), F32(1) }, .imm = { 64 }),
	KIND("WAIT", WAIT, 0, 1, 1, .arg = { OPENREG_WAIT_GE },
	     .ops = { I64(0) }),
	KIND("SIGNAL", SIGNAL, 0, 1, 1, .arg = { OPENREG_SIGNAL_SET },
	     .ops = { I64(0) }, .imm = { 5 }),
	KIND("SIGNAL add", SIGNAL, 0, 1, 1, .arg = { OPENREG_SIGNAL_ADD },
	     .ops = { I64(0) }, .imm = { 5 }),
	KIND("TIMESTAMP", TIMESTAMP, 0, 1, 0, .ops = { I64(0) }),
};

_Static_assert(sizeof(kinds) == KINDS * sizeof(kinds[0]),
	       "set KINDS in isolation-kinds.h to the number of the kinds here");

void kind_packet(struct packet *p, const struct kind *k, const __u64 *address)
{
	unsigned int i;

	openreg_encode(p->bytes, k->opcode, 0);
	for (i = 0; i < sizeof(k->arg); i++)
		openreg_encode_arg(p->bytes, i, k->arg[i]);
	openreg_encode_space(p->bytes, k->ndim, k->size);
	for (i = 0; i < k->nops; i++)
		openreg_encode_operand(p->bytes, address[i], k->ops[i].dtype,
				       k->ops[i].stride);
	openreg_encode_imm(p->bytes, k->imm, k->nimm);
	openreg_encode_instr(p->bytes, k->instr, k->ninstr);
}

/* All sizes of these kinds but the batch are the same. */
void kind_pack(struct packet *p, const struct kind *k, __u64 packed, __u64 from)
{
	const int64_t n = k->size[k->ndim - 1], size[2] = { n, n };
	const int64_t run[2] = { 0, 1 }, rows[2] = { n, 1 };
	const unsigned int dtype = k->ops[k->packed].dtype;

	openreg_encode(p->bytes, OPENREG_OP_PACK, 0);
	openreg_encode_arg(p->bytes, 0, OPENREG_PACK_PACK);
	openreg_encode_space(p->bytes, 2, size);
	openreg_encode_operand(p->bytes, packed, dtype, run);
	openreg_encode_operand(p->bytes, from, dtype, rows);
}
