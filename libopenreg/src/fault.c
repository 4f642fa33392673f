// SPDX-License-Identifier: MIT
/* Names and sentences for faults. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "internal.h"

#define LOOKUP(table, i)                                                       \
	((i) < sizeof(table) / sizeof((table)[0]) && (table)[i] ? (table)[i] : \
								  "?")

API const char *openreg_opcode_name(unsigned int opcode)
{
	static const char *const names[] = {
		[OPENREG_OP_NOP] = "NOP",
		[OPENREG_OP_COPY] = "COPY",
		[OPENREG_OP_FILL] = "FILL",
		[OPENREG_OP_VECTOR] = "VECTOR",
		[OPENREG_OP_MATMUL] = "MATMUL",
		[OPENREG_OP_SOFTMAX] = "SOFTMAX",
		[OPENREG_OP_WAIT] = "WAIT",
		[OPENREG_OP_SIGNAL] = "SIGNAL",
		[OPENREG_OP_TIMESTAMP] = "TIMESTAMP",
		[OPENREG_OP_INDEX] = "INDEX",
		[OPENREG_OP_CONV] = "CONV",
		[OPENREG_OP_POOL] = "POOL",
		[OPENREG_OP_SORT] = "SORT",
		[OPENREG_OP_SCAN] = "SCAN",
		[OPENREG_OP_PLACES] = "PLACES",
		[OPENREG_OP_LIST] = "LIST",
		[OPENREG_OP_TRACE] = "TRACE",
		[OPENREG_OP_PACK] = "PACK",
		[OPENREG_OP_NOTE] = "NOTE",
	};

	return LOOKUP(names, opcode);
}

API const char *openreg_dtype_name(unsigned int dtype)
{
	static const char *const names[] = {
		[OPENREG_F32] = "f32", [OPENREG_F64] = "f64",
		[OPENREG_F16] = "f16", [OPENREG_BF16] = "bf16",
		[OPENREG_I8] = "i8",   [OPENREG_U8] = "u8",
		[OPENREG_I16] = "i16", [OPENREG_I32] = "i32",
		[OPENREG_I64] = "i64", [OPENREG_BOOL] = "bool",
		[OPENREG_F8E4M3FN] = "f8e4m3fn",
		[OPENREG_F8E5M2] = "f8e5m2",
		[OPENREG_F8E4M3FNUZ] = "f8e4m3fnuz",
		[OPENREG_F8E5M2FNUZ] = "f8e5m2fnuz",
		[OPENREG_F8E8M0FNU] = "f8e8m0fnu",
	};

	return LOOKUP(names, dtype);
}

API const char *openreg_fault_name(unsigned int code)
{
	static const char *const names[] = {
		[OPENREG_FAULT_NONE] = "no fault",
		[OPENREG_FAULT_PACKET] = "malformed packet",
		[OPENREG_FAULT_RING] = "ring overrun",
		[OPENREG_FAULT_ADDRESS] = "no memory at this address",
		[OPENREG_FAULT_BOUNDS] = "out of bounds",
		[OPENREG_FAULT_PERMISSION] = "access not permitted",
		[OPENREG_FAULT_ALIGNMENT] = "misaligned address",
		[OPENREG_FAULT_DTYPE] = "bad dtype",
		[OPENREG_FAULT_SHAPE] = "bad shape or strides",
		[OPENREG_FAULT_PROGRAM] = "bad program",
		[OPENREG_FAULT_ENGINE] = "compute operand outside VRAM",
		[OPENREG_FAULT_LIMIT] = "more work than a packet may ask for",
		[OPENREG_FAULT_DMA] = "bus error",
		[OPENREG_FAULT_HANG] = "cut short by a reset of the card or a stop of the machine",
		[OPENREG_FAULT_MEMORY] = "out of card memory",
		[OPENREG_FAULT_INDEX] = "index out of range",
		[OPENREG_FAULT_FORMAT] = "no packed matrix of these sizes and dtype",
	};

	return LOOKUP(names, code);
}

static const char *advice(unsigned int code)
{
	switch (code) {
	case OPENREG_FAULT_ADDRESS:
		return "the memory was freed, or the address is of another device";
	case OPENREG_FAULT_BOUNDS:
		return "the tensor reaches beyond its allocation";
	case OPENREG_FAULT_PERMISSION:
		return "the memory was registered or imported read-only";
	case OPENREG_FAULT_ENGINE:
		return "copy it to VRAM first";
	case OPENREG_FAULT_LIMIT:
		return "split the packet";
	case OPENREG_FAULT_FORMAT:
		return "PACK makes one";
	default:
		return NULL;
	}
}

static bool names_address(const struct openreg_fault_summary *f)
{
	if (f->code == OPENREG_FAULT_INDEX)
		return false;
	return f->address || (f->code >= OPENREG_FAULT_ADDRESS &&
			      f->code <= OPENREG_FAULT_ALIGNMENT);
}

/* Describes the detail for the codes that give it a meaning. */
static void explain_detail(const struct openreg_fault_summary *f, char *buf,
			   size_t len)
{
	if (f->code == OPENREG_FAULT_PROGRAM)
		snprintf(buf, len, " (instruction %" PRIu64 ")",
			 (uint64_t)f->detail);
	else if (f->code == OPENREG_FAULT_DTYPE)
		snprintf(buf, len, " (%s)",
			 !f->detail || f->detail >= OPENREG_DTYPE_END ?
				 "not a dtype" :
				 openreg_dtype_name((unsigned int)f->detail));
	else if (f->code == OPENREG_FAULT_INDEX)
		snprintf(buf, len,
			 " (index %" PRId64 " is out of bounds for a dimension of size %" PRIu64 ")",
			 (int64_t)f->detail, (uint64_t)f->address);
}

API int openreg_fault_text(const struct openreg_fault_summary *f, char *buf,
			   size_t len)
{
	char operand[32] = "", address[96] = "", hint[80] = "";
	char detail[112] = "", list[40] = "", opcode[24];

	if (f->in_list)
		snprintf(list, sizeof(list), "LIST, in its packet %u ",
			 f->in_list);
	if (f->operand != OPENREG_NO_OPERAND)
		snprintf(operand, sizeof(operand), ", operand %u", f->operand);
	if (names_address(f))
		snprintf(address, sizeof(address),
			 ", address %#" PRIx64 " (segment %u, offset %#" PRIx64 ")",
			 (uint64_t)f->address,
			 (unsigned int)OPENREG_ADDR_SEG(f->address),
			 (uint64_t)OPENREG_ADDR_OFFSET(f->address));
	/* An experiment has no name. */
	if (f->opcode < OPENREG_OP_END)
		snprintf(opcode, sizeof(opcode), "%s",
			 openreg_opcode_name(f->opcode));
	else
		snprintf(opcode, sizeof(opcode), "(opcode %u)", f->opcode);
	explain_detail(f, detail, sizeof(detail));
	if (advice(f->code))
		snprintf(hint, sizeof(hint), ": %s", advice(f->code));
	return snprintf(buf, len,
			"%s (fault %u) in packet %" PRIu64 " %s%s%s%s, detail %#" PRIx64 "%s, cookie %#x%s",
			openreg_fault_name(f->code), f->code, (uint64_t)f->seq,
			list, opcode, operand, address, (uint64_t)f->detail,
			detail, f->cookie, hint);
}

API int openreg_queue_fault(struct openreg_queue *q,
			    struct openreg_fault_summary *fault)
{
	const volatile struct openreg_fault_summary *f = &q->t.card->fault;

	if (!*q->mine)
		return openreg_fail_forked();
	if (__atomic_load_n(&q->t.card->state, __ATOMIC_ACQUIRE) !=
	    OPENREG_QUEUE_FAULTED)
		return 0;
	fault->code = f->code;
	fault->operand = f->operand;
	fault->seq = f->seq;
	fault->address = f->address;
	fault->opcode = f->opcode;
	fault->in_list = f->in_list;
	fault->cookie = f->cookie;
	fault->detail = f->detail;
	return 1;
}

int openreg_queue_fail(struct openreg_queue *q, uint32_t state)
{
	struct openreg_fault_summary f;
	char text[360];

	if (q->timeline.on)
		openreg_timeline_fault(q);
	if (state == OPENREG_QUEUE_IDLE)
		return openreg_fail(-ENODEV, "the card behind %s is gone",
				    q->dev->info.path);
	if (openreg_queue_fault(q, &f) == 1) {
		if (f.code == OPENREG_FAULT_HANG)
			return openreg_fail(-EIO,
					    "the reset of the card ended this process's queue %u of %s at packet %" PRIu64 ": close the device and open it again",
					    q->t.number, q->dev->info.path,
					    (uint64_t)f.seq);
		openreg_fault_text(&f, text, sizeof(text));
		return openreg_fail(-EIO,
				    "this process's queue %u of %s stopped: %s; openreg_queue_reset() restarts it",
				    q->t.number, q->dev->info.path, text);
	}
	return openreg_fail(-EIO,
			    "this process's queue %u of %s was stopped; openreg_queue_reset() restarts it",
			    q->t.number, q->dev->info.path);
}
