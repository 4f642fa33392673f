// SPDX-License-Identifier: MIT
/* Makes a packet from a stream: a draft for the opcode, often with bad fields. */
#include <string.h>

#include "../../libopenreg/include/openreg_encode.h"
#include "packet.h"

#define ALL(ndim) ((1u << (ndim)) - 1)

static unsigned int any_dtype(struct stream *s)
{
	return 1 + take(s, OPENREG_DTYPE_END - 1);
}

static void draft_copy(struct stream *s, struct draft *d)
{
	unsigned int i;

	d->spread = true;
	draft_sizes(s, d, draft_ndim(s));
	for (i = 0; i < 2; i++)
		draft_place(s, d, any_dtype(s), ALL(d->op.ndim), d->size,
			    i == 0);
	if (take(s, 2))
		d->operand[1].reserved = d->operand[0].reserved;
}

static void draft_fill(struct stream *s, struct draft *d)
{
	d->spread = true;
	draft_sizes(s, d, take(s, 5));
	draft_place(s, d, any_dtype(s), ALL(d->op.ndim), d->size, true);
	draft_imm(d, take(s, 2) ? take64(s) : take8(s) * 0x0101010101010101ULL);
}

static void draft_matmul_scaled(struct stream *s, struct draft *d)
{
	static const uint8_t dims[] = { 0x7, 0xb, 0xd, 0xd, 0xd };
	static const uint8_t floats[] = { OPENREG_F32, OPENREG_F16, OPENREG_BF16,
					  OPENREG_F32 };
	const unsigned int nops = 4 + take(s, 2);
	const bool i4 = take(s, 2);
	const uint8_t dtype = floats[take(s, 4)];
	int64_t group = 2 * (1 + take(s, 20)), size[4];
	unsigned int i;

	d->op.arg[0] = i4 ? OPENREG_MATMUL_SCALED_I4 : OPENREG_MATMUL_SCALED_I8;
	draft_sizes(s, d, 4);
	if (!rare(s, 8))
		d->size[3] = group * take(s, 6);
	draft_imm(d, 0x3ff0000000000000);
	draft_imm(d, rare(s, 8) ? take_odd(s) : 0);
	draft_imm(d, (uint64_t)(rare(s, 8) ? (int64_t)take_odd(s) : group));
	memcpy(size, d->size, sizeof(size));
	for (i = 0; i < nops; i++) {
		if (i == 2 && i4)
			size[3] = d->size[3] / 2;
		else if (i > 2)
			size[3] = d->size[3] / group;
		draft_place(s, d, i < 2	   ? dtype
				  : i > 2 ? floats[take(s, 4)]
				  : i4	  ? OPENREG_U8
					  : OPENREG_I8,
			    dims[i], size, i == 0);
	}
}

static void draft_matmul_f8(struct stream *s, struct draft *d)
{
	static const uint8_t dims[] = { 0x7, 0xb, 0xd, 0xb, 0xd };
	static const uint8_t floats[] = { OPENREG_F32, OPENREG_F16, OPENREG_BF16 };
	int64_t group = 1 + (int64_t)take(s, 40), size[4];
	unsigned int i;

	d->op.arg[0] = OPENREG_MATMUL_SCALED_F8;
	draft_sizes(s, d, 4);
	if (!rare(s, 8))
		d->size[3] = group * take(s, 6);
	draft_imm(d, 0x3ff0000000000000);
	draft_imm(d, rare(s, 8) ? take_odd(s) : 0);
	draft_imm(d, (uint64_t)(rare(s, 8) ? (int64_t)take_odd(s) : group));
	memcpy(size, d->size, sizeof(size));
	for (i = 0; i < 5; i++) {
		unsigned int dtype = floats[take(s, 3)];

		if (i == 1 || i == 2)
			dtype = OPENREG_F8E4M3FN + take(s, 4);
		else if (i > 2)
			dtype = take(s, 3) ? OPENREG_F8E8M0FNU : OPENREG_F32;
		if (i > 2)
			size[3] = d->size[3] / group;
		draft_place(s, d, dtype, dims[i], size, i == 0);
	}
}

static void draft_matmul_mixed(struct stream *s, struct draft *d)
{
	static const uint8_t dims[] = { 0x7, 0xb, 0xd, 0x7 };
	const uint8_t dtypes[] = { OPENREG_I32, OPENREG_I8 + (uint8_t)take(s, 2),
				   OPENREG_I8, OPENREG_I32 };
	unsigned int nops = 3 + take(s, 2), i;

	draft_sizes(s, d, 4);
	draft_imm(d, 0x3ff0000000000000);
	draft_imm(d, nops == 3 ? 0 : 0x4000000000000000);
	for (i = 0; i < nops; i++)
		draft_place(s, d, dtypes[i], dims[i], d->size, i == 0);
}

static void draft_matmul_same(struct stream *s, struct draft *d)
{
	static const uint8_t dims[] = { 0x7, 0xb, 0xd, 0x7 };
	static const uint64_t factors[] = { 0x3ff0000000000000, 0,
					    0x4000000000000000,
					    0xbff0000000000000 };
	unsigned int dtype = 1 + take(s, OPENREG_BOOL - 1), i;
	unsigned int nops = 3 + take(s, 2);
	bool float8 = rare(s, 4);

	draft_sizes(s, d, 4);
	draft_imm(d, rare(s, 8) ? take_odd(s) : factors[take(s, 4)]);
	draft_imm(d, nops == 3	  ? 0
		     : rare(s, 8) ? take_odd(s)
				  : factors[take(s, 4)]);
	for (i = 0; i < nops; i++) {
		bool narrow = float8 && (i == 1 || i == 2);

		if (i == 2 && !float8 && rare(s, 4)) {
			d->op.arg[3] = OPENREG_MATMUL_PACKED_B;
			draft_packed(s, d, dtype, 2, d->size[3], d->size[2]);
		} else {
			draft_place(s, d,
				    narrow ? OPENREG_F8E4M3FN + take(s, 4) : dtype,
				    dims[i], d->size, i == 0);
		}
	}
}

static void draft_pack(struct stream *s, struct draft *d)
{
	static const uint8_t dtypes[] = { OPENREG_F32, OPENREG_F16, OPENREG_BF16 };
	unsigned int dtype = dtypes[take(s, 3)], kind = take(s, OPENREG_PACK_END);
	unsigned int i;

	draft_sizes(s, d, 2);
	d->op.arg[0] = (uint8_t)kind;
	for (i = 0; i < 2; i++) {
		if (kind == OPENREG_PACK_SIZE && i == 0)
			draft_place(s, d, OPENREG_I64, 0, d->size, true);
		else if (i == kind)
			draft_packed(s, d, dtype, 1, d->size[0], d->size[1]);
		else
			draft_place(s, d, dtype, 3, d->size, i == 0);
	}
}

static void draft_matmul(struct stream *s, struct draft *d)
{
	unsigned int how = take(s, 5);

	if (how == 4)
		draft_matmul_f8(s, d);
	else if (how == 2)
		draft_matmul_scaled(s, d);
	else if (how == 3)
		draft_matmul_mixed(s, d);
	else
		draft_matmul_same(s, d);
}

static void draft_softmax(struct stream *s, struct draft *d)
{
	unsigned int i, nops;

	draft_sizes(s, d, 1 + take(s, 4));
	d->op.arg[0] = (uint8_t)take(s, d->op.ndim);
	d->op.arg[1] = (uint8_t)take(s, 4);
	nops = d->op.arg[1] & OPENREG_SOFTMAX_BACKWARD ? 3 : 2;
	for (i = 0; i < nops; i++)
		draft_place(s, d, OPENREG_F32 + take(s, 4), ALL(d->op.ndim),
			    d->size, i == 0);
}

static void draft_scan(struct stream *s, struct draft *d)
{
	unsigned int dtype, source, i, nops = 2;

	draft_sizes(s, d, 1 + take(s, 4));
	/* Sometimes long enough for several pieces. */
	if (rare(s, 4))
		d->size[0] = OPENREG_SCAN_PIECE - 2 + take(s, 5);
	d->op.arg[0] = (uint8_t)take(s, d->op.ndim);
	d->op.arg[1] = (uint8_t)take(s, OPENREG_SCAN_END);
	dtype = d->op.arg[1] == OPENREG_SCAN_LOGSUMEXP
			? OPENREG_F32 + take(s, 4)
			: any_dtype(s);
	source = rare(s, 4) ? any_dtype(s) : dtype;
	if (d->op.arg[1] == OPENREG_SCAN_MAX ||
	    d->op.arg[1] == OPENREG_SCAN_MIN)
		nops += take(s, 2);
	for (i = 0; i < nops; i++)
		draft_place(s, d,
			    i == 0   ? dtype
			    : i == 1 ? source
				     : OPENREG_I64,
			    ALL(d->op.ndim), d->size, i != 1);
}

static void draft_places(struct stream *s, struct draft *d)
{
	int64_t found[OPENREG_DIMS_MAX] = { 0 }, all = 1;
	unsigned int i, last;

	draft_sizes(s, d, 1 + take(s, 4));
	last = d->op.ndim - 1u;
	for (i = 0; i <= last && all < 1 << 20; i++)
		all *= d->size[i] > 0 && d->size[i] < 1 << 20 ? d->size[i] : 0;
	found[last] = rare(s, 4) ? take(s, 9) : all;
	draft_imm(d, (uint64_t)found[last]);
	for (i = 0; i <= last; i++)
		draft_place(s, d, OPENREG_I64, 1u << last, found, true);
	draft_place(s, d, any_dtype(s), ALL(d->op.ndim), d->size, false);
}

static void draft_sync(struct stream *s, struct draft *d)
{
	d->spread = true;
	d->op.arg[0] = (uint8_t)take(s, 2);
	draft_place(s, d, OPENREG_I64, 0, d->size, true);
	if (d->header.opcode == OPENREG_OP_TIMESTAMP)
		d->op.arg[0] = 0;
	else
		draft_imm(d, rare(s, 4) ? take_odd(s) : take8(s) % 7);
}

static void draft_list(struct stream *s, struct draft *d)
{
	const unsigned int slots = 1 + take(s, 64);

	d->spread = true;
	draft_imm(d, slots);
	draft_imm(d, 1 + take(s, slots));
	draft_place_more(s, d, OPENREG_I64, 0, d->size, false,
			 slots * (OPENREG_SLOT_SIZE / 8) - 1);
}

static void draft_trace(struct stream *s, struct draft *d)
{
	const unsigned int records = take(s, 8) ? 1u << take(s, 8) : 0;

	d->spread = true;
	draft_imm(d, records);
	draft_place_more(s, d, OPENREG_I64, 0, d->size, true,
			 records ? (int64_t)records * 8 - 1 : 0);
}

static void draft_note(struct stream *s, struct draft *d)
{
	const unsigned int kind = take(s, OPENREG_NOTE_END + 1);

	d->op.arg[0] = (uint8_t)kind;
	draft_imm(d, take(s, 256));
	/* SEEN has pairs; a BLOCK may have a red zone. */
	if (kind == OPENREG_NOTE_SEEN || (kind == OPENREG_NOTE_BLOCK && take(s, 2)))
		draft_imm(d, take(s, 256));
	d->spread = true;
	if (kind <= OPENREG_NOTE_UNBLOCK)
		draft_place_more(s, d, OPENREG_U8, 0, d->size, true, 512);
	if (kind == OPENREG_NOTE_REPORT)
		draft_place_more(s, d, OPENREG_I64, 0, d->size, true, 256 * 16);
}

static void draft_nop(struct stream *s, struct draft *d)
{
	d->header.slots = (uint8_t)(1 + take(s, 4));
}

static draft_fn *const drafts[OPENREG_OP_END] = {
	[OPENREG_OP_NOP] = draft_nop,
	[OPENREG_OP_COPY] = draft_copy,
	[OPENREG_OP_FILL] = draft_fill,
	[OPENREG_OP_VECTOR] = draft_program,
	[OPENREG_OP_MATMUL] = draft_matmul,
	[OPENREG_OP_SOFTMAX] = draft_softmax,
	[OPENREG_OP_WAIT] = draft_sync,
	[OPENREG_OP_SIGNAL] = draft_sync,
	[OPENREG_OP_TIMESTAMP] = draft_sync,
	[OPENREG_OP_INDEX] = draft_index,
	[OPENREG_OP_CONV] = draft_conv,
	[OPENREG_OP_POOL] = draft_pool,
	[OPENREG_OP_SORT] = draft_sort,
	[OPENREG_OP_SCAN] = draft_scan,
	[OPENREG_OP_PLACES] = draft_places,
	[OPENREG_OP_LIST] = draft_list,
	[OPENREG_OP_TRACE] = draft_trace,
	[OPENREG_OP_PACK] = draft_pack,
	[OPENREG_OP_NOTE] = draft_note,
};

/* Makes one field bad. */
static void spoil(struct stream *s, struct draft *d)
{
	unsigned int i = take(s, OPENREG_OPERANDS_MAX), k = take8(s);

	if (d->op.nops && i >= d->op.nops)
		i %= d->op.nops;
	switch (take(s, 12)) {
	case 0:
		d->op.ndim = (uint8_t)take(s, OPENREG_DIMS_MAX + 2);
		break;
	case 1:
		d->op.nops = (uint8_t)take(s, OPENREG_OPERANDS_MAX + 2);
		break;
	case 2:
		d->op.nimm = (uint8_t)take(s, OPENREG_IMMS_MAX + 2);
		break;
	case 3:
		d->op.ninstr = (uint8_t)take(s, OPENREG_INSTRS_MAX + 2);
		break;
	case 4:
		d->op.arg[i % 4] = take8(s);
		break;
	case 5:
		d->size[i % OPENREG_DIMS_MAX] = (int64_t)take_odd(s);
		break;
	case 6:
		d->operand[i].addr = take_odd(s);
		break;
	case 7:
		d->operand[i].reserved = take8(s);
		break;
	case 8:
		d->operand[i].stride[k % OPENREG_DIMS_MAX] =
			(int64_t)take_odd(s);
		break;
	case 9:
		d->imm[i] = take_odd(s);
		break;
	case 10:
		d->operand[i].addr += (uint64_t)take8(s) << k % 64;
		break;
	default:
		i = take(s, d->op.ninstr ? d->op.ninstr : 1u) %
		    OPENREG_INSTRS_MAX;
		((uint8_t *)&d->instr[i])[k % 8] = take8(s);
	}
}

static unsigned int at_most(unsigned int n, unsigned int most)
{
	return n < most ? n : most;
}

void packet_serialize(struct draft *d, struct packet *p)
{
	const unsigned int ndim = at_most(d->op.ndim, OPENREG_DIMS_MAX);
	const unsigned int nops = at_most(d->op.nops, OPENREG_OPERANDS_MAX);
	unsigned int i;

	memset(p, 0, sizeof(*p));
	openreg_encode(p->bytes, 0, 0);
	openreg_encode_space(p->bytes, ndim, d->size);
	for (i = 0; i < nops; i++) {
		openreg_encode_operand(p->bytes, d->operand[i].addr, 0,
				       d->operand[i].stride);
		memcpy(p->bytes + openreg_packet_bytes(ndim, i, 0, 0) +
			       offsetof(struct openreg_operand, dtype),
		       &d->operand[i].reserved, 8);
	}
	openreg_encode_imm(p->bytes, d->imm,
			   at_most(d->op.nimm, OPENREG_IMMS_MAX));
	openreg_encode_instr(p->bytes, d->instr,
			     at_most(d->op.ninstr, OPENREG_INSTRS_MAX));
	if (!d->header.slots)
		d->header.slots = p->bytes[1];
	memcpy(p->bytes, &d->header, sizeof(d->header));
	memcpy(p->bytes + sizeof(d->header), &d->op, sizeof(d->op));
}

void packet_take(struct stream *s, struct packet *p)
{
	unsigned int opcode = take8(s), spoilt, at, i;
	struct draft d;

	memset(&d, 0, sizeof(d));
	/* Prefer VECTOR, which has the most paths. */
	opcode = opcode < 192 ? opcode % OPENREG_OP_END : OPENREG_OP_VECTOR;
	d.header.opcode = (uint8_t)opcode;
	spoilt = take8(s);
	drafts[opcode](s, &d);
	for (i = 0; spoilt >= 208 && i <= (spoilt & 3); i++)
		spoil(s, &d);
	packet_serialize(&d, p);
	for (i = 0; spoilt >= 240 && i <= (spoilt >> 2 & 3); i++) {
		at = take8(s);
		p->bytes[at] = take8(s);
	}
}
