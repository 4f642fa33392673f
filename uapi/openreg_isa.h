/* SPDX-License-Identifier: MIT */
/*
 * The interface between user space and the card: addresses, queue pages, packets.
 *
 * All data is little-endian. Reserved fields must be zero, else the packet faults.
 * docs/specs/openreg.rst describes each item in full.
 */
#ifndef OPENREG_ISA_H
#define OPENREG_ISA_H

#if defined(__linux__) || defined(__KERNEL__)
#include <linux/types.h>
#else
#include <stdint.h>
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef int64_t __s64;
typedef uint64_t __u64;
#endif

/* C++ programs may compile with -Wold-style-cast. */
#if defined(__cplusplus)
#define OPENREG_U64_(value) (__u64(value))
#else
#define OPENREG_U64_(value) ((__u64)(value))
#endif

#define OPENREG_ISA_MAJOR 1
#define OPENREG_ISA_MINOR 9

/*
 * Addresses: { 0x4f:8 | 1:1 | card:4 | segment:13 | offset:38 }.
 * No address is canonical on x86-64, so a CPU that dereferences one traps.
 */
#define OPENREG_ADDR_TAG 0x4fULL
#define OPENREG_ADDR_TAG_SHIFT 56
#define OPENREG_ADDR_FIXED_BIT 55
#define OPENREG_ADDR_CARD_SHIFT 51
#define OPENREG_ADDR_CARD_BITS 4
#define OPENREG_ADDR_SEG_SHIFT 38
#define OPENREG_ADDR_SEG_BITS 13
#define OPENREG_ADDR_OFFSET_BITS 38

#define OPENREG_ADDR_OFFSET_MASK ((1ULL << OPENREG_ADDR_OFFSET_BITS) - 1)
#define OPENREG_ADDR_SEG_MASK ((1ULL << OPENREG_ADDR_SEG_BITS) - 1)
#define OPENREG_ADDR_CARD_MASK ((1ULL << OPENREG_ADDR_CARD_BITS) - 1)

/* The upper nine bits that every address has. */
#define OPENREG_ADDR_PREFIX ((OPENREG_ADDR_TAG << 1) | 1)

#define OPENREG_ADDR(card, seg, off)                                           \
	((OPENREG_ADDR_PREFIX << OPENREG_ADDR_FIXED_BIT) |                     \
	 (OPENREG_U64_(card) << OPENREG_ADDR_CARD_SHIFT) |                     \
	 (OPENREG_U64_(seg) << OPENREG_ADDR_SEG_SHIFT) | OPENREG_U64_(off))
#define OPENREG_ADDR_IS_VALID(a)                                               \
	((OPENREG_U64_(a) >> OPENREG_ADDR_FIXED_BIT) == OPENREG_ADDR_PREFIX)
#define OPENREG_ADDR_CARD(a)                                                   \
	((OPENREG_U64_(a) >> OPENREG_ADDR_CARD_SHIFT) & OPENREG_ADDR_CARD_MASK)
#define OPENREG_ADDR_SEG(a)                                                    \
	((OPENREG_U64_(a) >> OPENREG_ADDR_SEG_SHIFT) & OPENREG_ADDR_SEG_MASK)
#define OPENREG_ADDR_OFFSET(a) (OPENREG_U64_(a) & OPENREG_ADDR_OFFSET_MASK)

/* Rings: free-running slot counters, slot index = counter & (slots - 1). */
#define OPENREG_SLOT_SIZE 64
#define OPENREG_RING_SLOTS_MIN 64
#define OPENREG_RING_SLOTS_MAX 16384
#define OPENREG_QUEUE_PAGE_SIZE 4096

/*
 * The three pages of a queue, one for each writer. A writer updates a counter with a
 * single aligned 64-bit store, never with a read-modify-write.
 *
 * Wake rule. The producer stores tail, executes a full barrier (mfence), loads asleep,
 * and writes the doorbell if asleep is 1. The card stores asleep = 1, executes a full
 * barrier, and loads tail again before it sleeps.
 *
 * When asleep goes from 1 to 0, for any reason, the card adds 1 to wakes: it stores
 * asleep, then wakes, executes a full barrier, then loads tail. So a producer may skip a
 * doorbell: if it loads wakes and then asleep after its barrier, and has already rung
 * while wakes had this value, it need not ring again.
 */
struct openreg_user_page { /* U: written by user space */
	__u64 tail; /* slots published */
	__u64 reserved[7];
	__u64 trace_head; /* at 0x40: trace records consumed */
};

/* Why a queue faulted; also the code of the fault record. */
enum openreg_fault_code {
	OPENREG_FAULT_NONE = 0,
	OPENREG_FAULT_PACKET = 1, /* header, length, reserved bits, opcode */
	OPENREG_FAULT_RING = 2, /* tail beyond the ring, packet past tail or wrap */
	OPENREG_FAULT_ADDRESS = 3, /* no such card or segment, or a dead segment */
	OPENREG_FAULT_BOUNDS = 4, /* an operand reaches outside its segment */
	OPENREG_FAULT_PERMISSION = 5, /* the segment forbids the access */
	OPENREG_FAULT_ALIGNMENT = 6, /* address is not a multiple of the element size */
	OPENREG_FAULT_DTYPE = 7, /* unknown dtype, or not allowed in this packet */
	OPENREG_FAULT_SHAPE = 8, /* dimensions or strides not allowed in this packet */
	OPENREG_FAULT_PROGRAM = 9, /* VECTOR: bad instruction */
	OPENREG_FAULT_ENGINE = 10, /* compute operand outside VRAM */
	OPENREG_FAULT_LIMIT = 11, /* more work than a packet may have */
	OPENREG_FAULT_DMA = 12, /* the bus refused the transfer */
	OPENREG_FAULT_HANG = 13, /* a stop of the VM or a reset ended the packet early */
	OPENREG_FAULT_MEMORY = 14, /* the card ran out of its own memory */
	OPENREG_FAULT_INDEX = 15, /* INDEX: an index outside its extent */
	OPENREG_FAULT_FORMAT = 16, /* no packed matrix of this packet's sizes and dtype */
};

struct openreg_fault_summary { /* valid while state is FAULTED */
	__u32 code; /* enum openreg_fault_code */
	__u32 operand; /* index, or OPENREG_NO_OPERAND */
	__u64 seq; /* sequence number of the packet */
	/* first byte out of bounds, or address of the operand; INDEX: the extent */
	__u64 address;
	__u16 opcode;
	__u16 in_list; /* number of the packet in its LIST, from 1; else 0 */
	__u32 cookie; /* copied from the packet */
	__u64 detail; /* instruction index or bad value; see the manual */
};

#define OPENREG_NO_OPERAND 0xffffffffu

enum openreg_queue_state {
	OPENREG_QUEUE_IDLE = 0, /* not created */
	OPENREG_QUEUE_RUNNING = 1,
	OPENREG_QUEUE_FAULTED = 2,
	OPENREG_QUEUE_STOPPED = 3,
};

struct openreg_card_page { /* C: written by the card, read-only to others */
	__u64 head; /* slots that the card no longer reads */
	__u64 completed; /* sequence number of the last completed packet */
	__u32 asleep; /* 1: the producer must ring the doorbell */
	__u32 state; /* enum openreg_queue_state */
	__u64 trace_written; /* trace records written */
	__u64 trace_lost; /* trace records that the card could not write */
	__u64 trace_addr; /* of the trace ring */
	__u64 trace_records; /* records of the trace ring; 0: no trace */
	__u64 reserved0;
	struct openreg_fault_summary fault; /* at 0x40 */
	/* What is done of the LIST at head: slots | packets << 32; if STOPPED */
	__u64 list_done;
	__u64 reserved1[2];
	__u64 wakes; /* at 0x80: times that asleep went from 1 to 0 */
	__u64 interrupts; /* times that a completion raised the vector */
	__u64 dma_read; /* bytes read from system memory for this queue */
	__u64 dma_written; /* bytes written to system memory */
	__u64 busy_ns; /* engine time */
};

struct openreg_kernel_page { /* K: written by the kernel */
	__u64 armed; /* least sequence number that a thread sleeps on */
};

#define OPENREG_ARMED_NONE 0xffffffffffffffffULL

enum openreg_dtype {
	OPENREG_F32 = 1,
	OPENREG_F64 = 2,
	OPENREG_F16 = 3,
	OPENREG_BF16 = 4,
	OPENREG_I8 = 5,
	OPENREG_U8 = 6,
	OPENREG_I16 = 7,
	OPENREG_I32 = 8,
	OPENREG_I64 = 9,
	OPENREG_BOOL = 10, /* one byte; 0 is false, casts write 0 or 1 */
	/* float8: only VECTOR, COPY, FILL, MATMUL, PLACES, and INDEX with GET and PUT */
	OPENREG_F8E4M3FN = 11, /* no infinity: casts give the largest number */
	OPENREG_F8E5M2 = 12,
	OPENREG_F8E4M3FNUZ = 13, /* FNUZ: no infinity and no -0; 0x80 is NaN */
	OPENREG_F8E5M2FNUZ = 14,
	OPENREG_F8E8M0FNU = 15, /* a power of two without a sign; 0xff is NaN */
	OPENREG_DTYPE_END
};

/*
 * Packets. A packet has 1..OPENREG_PACKET_SLOTS_MAX slots and never wraps around the end
 * of the ring; NOP packets fill the gap. Packets have sequence numbers from 1 in ring
 * order, and NOPs count. Packets of one queue execute and complete in order.
 *
 * Layout, without gaps. The card ignores the unused rest of the last slot.
 *   struct openreg_packet	16 bytes
 *   struct openreg_op		16 bytes (absent in NOP)
 *   __s64 size[ndim]		the iteration space, row-major
 *   nops times { struct openreg_operand; __s64 stride[ndim]; }
 *   __u64 imm[nimm]
 *   struct openreg_instr instr[ninstr]
 *
 * All operands share the iteration space. A stride counts elements of the operand's
 * dtype and may be zero (broadcast) or negative. If a size is 0, the card does not access
 * operands that it would read or write over that space.
 */
#define OPENREG_PACKET_SLOTS_MAX 32
#define OPENREG_DIMS_MAX 8
#define OPENREG_OPERANDS_MAX 16
#define OPENREG_IMMS_MAX 16
#define OPENREG_INSTRS_MAX 64
#define OPENREG_REGS 16

enum openreg_opcode {
	OPENREG_OP_NOP = 0,
	OPENREG_OP_COPY = 1,
	OPENREG_OP_FILL = 2,
	OPENREG_OP_VECTOR = 3,
	OPENREG_OP_MATMUL = 4,
	OPENREG_OP_SOFTMAX = 5,
	OPENREG_OP_WAIT = 6,
	OPENREG_OP_SIGNAL = 7,
	OPENREG_OP_TIMESTAMP = 8,
	OPENREG_OP_INDEX = 9,
	OPENREG_OP_CONV = 10,
	OPENREG_OP_POOL = 11,
	OPENREG_OP_SORT = 12,
	OPENREG_OP_SCAN = 13,
	OPENREG_OP_PLACES = 14,
	OPENREG_OP_LIST = 15,
	OPENREG_OP_TRACE = 16,
	OPENREG_OP_PACK = 17,
	OPENREG_OP_NOTE = 18,
	OPENREG_OP_END,
	/* For experiments: no released card has one of these. */
	OPENREG_OP_EXPERIMENT = 48,
	OPENREG_OP_EXPERIMENT_END = 64
};

struct openreg_packet {
	__u8 opcode;
	__u8 slots; /* length of the packet */
	__u16 flags; /* zero; bits 0, 1 are reserved for begin and end timestamps */
	__u32 cookie; /* any value; the card copies it to a fault record */
	__u64 reserved;
};

struct openreg_op {
	__u8 ndim;
	__u8 nops;
	__u8 nimm;
	__u8 ninstr;
	__u8 arg[4]; /* meaning depends on the opcode */
	__u64 reserved;
};

struct openreg_operand {
	__u64 addr; /* of the element at index 0 in every dimension */
	__u8 dtype;
	__u8 reserved[7];
	/* __s64 stride[ndim] follows */
};

/*
 * COPY: op 0 destination, op 1 source, in any kind of segment. Casts as CVT of VECTOR.
 * Overlapping operands give undefined data.
 *
 * FILL: op 0 destination, in any kind of segment; imm 0 bit pattern of an element.
 *
 * MATMUL: D = alpha * (A @ B) + beta * C. ndim 4, space [b, m, n, k].
 *
 * - op 0 D, op 1 A, op 2 B, op 3 C (optional); imm 0 alpha, imm 1 beta, as f64 bit
 *   patterns
 * - Strides along a dimension that an operand does not have are 0 (D, C: k; A: n; B: m).
 * - All operands have one dtype, not BOOL. Or A has I8 or U8, B I8, and D and C I32.
 * - Or A is float8 other than E8M0, and so is B, maybe another one. D and C then have
 *   one dtype: F32, F16 or BF16.
 * - D must not overlap A or B.
 * - f16, bf16 and float8 accumulate in f32; integers wrap.
 * - k = 0 gives beta * C. With beta = 0 the card does not read C.
 * - arg[3] flags. PACKED_B: B is a packed matrix of PACK, the same for every batch. It
 *   has a stride of 1 along n and strides of 0 along the other dimensions.
 *
 * PACK: arg[0] enum openreg_pack_kind; ndim 2, space [k, n]; F32, F16 or BF16. Copies a
 * matrix B of MATMUL into the card's own order, in which MATMUL reads it faster.
 *
 * - PACK: op 0 the packed matrix, op 1 the matrix. UNPACK copies back: op 0 the matrix,
 *   op 1 the packed matrix.
 * - SIZE: op 0 an I64 word, in which the card stores the bytes of a packed matrix; op 1
 *   names the dtype, and the card does not access it.
 * - A packed matrix begins at a multiple of OPENREG_PACK_ALIGN bytes. It has a stride of
 *   1 along n and 0 along k. It begins with a header: packets for other sizes or another
 *   dtype fault with FORMAT. The rest depends on the version of the card.
 *
 * MATMUL with scales (arg[0] SCALED_I8 or SCALED_I4): B = scale * Q + zero. SCALED_F8 is
 * another form, see below.
 *
 * - op 0 D and op 1 A, of one dtype: F32, F16 or BF16. op 2 Q, I8 or pairs of I4
 * - op 3 scale, op 4 zero (optional), each F32, F16 or BF16, with k / group elements
 *   along k. imm 2 group: a divisor of k. Element k of Q has scale k / group.
 * - imm 0 alpha; imm 1 is 0
 *
 * MATMUL with scales of both matrices (arg[0] SCALED_F8): A and B are scaled in blocks of
 * imm 2 elements along k, such as the 32 elements of the MX formats.
 *
 * - op 0 D: F32, F16 or BF16; op 1 A and op 2 B: float8 other than E8M0, maybe two
 * - op 3 the scale of A, op 4 that of B, each E8M0 or F32, with k / group elements along k
 * - imm 0 alpha; imm 1 is 0; imm 2 group: a divisor of k
 *
 * SOFTMAX: arg[0] axis, arg[1] flags. op 0 result, op 1 input; floating-point dtypes,
 * which may differ. BACKWARD: op 0 grad_input, op 1 grad_output, op 2 output of the
 * forward packet.
 *
 * INDEX: arg[0] enum openreg_index, arg[1] flags.
 *
 * - op 0 destination, op 1 source, both of one dtype
 * - op 2 + k, for k = 0 .. 7 at most: indices, I64 or I32. Indices k belong to the
 *   source with GET, or in another mode if bit k of arg[2] is 1; else to the destination.
 * - The offset of an element at a point is that of the operand's strides plus, for each
 *   index k of the operand, index * imm 2k + 1, in elements.
 * - An index must be in 0 .. imm 2k - 1, else the packet faults.
 * - Points that name one destination element take effect in row-major order.
 *
 * WAIT: ndim 0; op 0 an I64 word in any segment; imm 0 value; arg[0] enum openreg_wait.
 *
 * SIGNAL: as WAIT, with enum openreg_signal.
 *
 * TIMESTAMP: ndim 0; op 0 an I64 word; the card stores its clock there, in ns.
 *
 * LIST: ndim 0; op 0 (I64) the first of imm 0 slots in any segment, which hold imm 1
 * packets. The card runs these packets in order, as if they were in the ring in place of
 * the LIST, but they have no sequence numbers. A LIST contains no LIST and no TRACE.
 *
 * TRACE: ndim 0; op 0 (I64) a ring of imm 0 struct openreg_trace_record in any segment;
 * imm 0 a power of two, or 0 to end the trace. From then on the card writes a record of
 * each packet of the queue.
 *
 * NOTE: ndim 0; arg[0] enum openreg_note. Only a card that checks programs has it: tells
 * the card what the program knows.
 */
enum openreg_matmul_b { /* what operand 2 of MATMUL holds */
	OPENREG_MATMUL_B = 0, /* B itself */
	OPENREG_MATMUL_SCALED_I8 = 1, /* I8 */
	/*
	 * U8. Byte i along k holds elements 2i, in bits 0 to 3, and 2i + 1, as two's
	 * complement. The group is even.
	 */
	OPENREG_MATMUL_SCALED_I4 = 2,
	OPENREG_MATMUL_SCALED_F8 = 3, /* float8, and operand 3 scales A */
	OPENREG_MATMUL_END
};

#define OPENREG_LIST_SLOTS_MAX 65535 /* slots of a LIST */
#define OPENREG_PEER_BYTES_MAX 4194304 /* of all PEER operands of a VECTOR */
#define OPENREG_TRACE_RECORDS_MAX (1 << 20)

/*
 * Record n is in place n & (records - 1). The card writes record n if n - trace_head is
 * less than the ring's records, else it adds 1 to trace_lost. It stores trace_written
 * after the record, and before the packet's completion.
 */
struct openreg_trace_record {
	__u64 seq; /* of the packet, or of the LIST that it is in */
	__u64 begin; /* CLOCK, ns */
	__u64 end;
	__u64 stall_ns; /* of begin to end: waiting, for a word or for the card's memory */
	__u64 busy_ns; /* time of the threads that worked on the packet */
	__u64 bytes; /* that its operands can reach */
	__u32 cookie; /* copied from the packet */
	__u16 opcode;
	__u16 in_list; /* number of the packet in its LIST, from 1; else 0 */
	__u32 slices; /* in which it ran */
	__u16 workers; /* threads that worked on it */
	__u16 fault; /* enum openreg_fault_code */
};

#define OPENREG_MATMUL_PACKED_B 0x80 /* in arg[3] */

#define OPENREG_PACK_ALIGN 64

enum openreg_pack_kind {
	OPENREG_PACK_PACK = 0,
	OPENREG_PACK_UNPACK = 1,
	OPENREG_PACK_SIZE = 2,
	OPENREG_PACK_END
};

enum openreg_note {
	/* op 0 (U8): imm 0 bytes are one block; imm 1 (optional): bytes behind it, a red zone */
	OPENREG_NOTE_BLOCK = 0,
	/* op 0 (U8) the first of imm 0 bytes that belong to no block any more */
	OPENREG_NOTE_UNBLOCK = 1,
	/* imm 0: number of this queue in findings and in SEEN */
	OPENREG_NOTE_QUEUE = 2,
	/* imm 2i, 2i + 1: the program saw packet imm 2i + 1 of queue imm 2i completed */
	OPENREG_NOTE_SEEN = 3,
	/* op 0 (I64) imm 0 struct openreg_finding: where the card writes findings */
	OPENREG_NOTE_REPORT = 4,
	OPENREG_NOTE_END
};

#define OPENREG_FINDINGS_MAX 65536

enum openreg_finding_kind {
	OPENREG_FINDING_RACE = 1, /* two queues, one memory, a write, no order */
	OPENREG_FINDING_INIT = 2, /* a read of bytes of a block that no packet wrote */
	OPENREG_FINDING_BOUNDS = 3, /* an access that begins in a block and leaves it */
};

/* An access of a packet. */
struct openreg_finding_access {
	__u64 seq;
	__u32 queue; /* its number by NOTE */
	__u32 cookie;
	__u16 opcode;
	__u16 operand;
	__u16 in_list; /* as in a fault */
	__u16 written; /* 1: the operand was written, 0: read */
};

/* What a checking card found. It writes number last; a place is free while that is 0. */
struct openreg_finding {
	__u64 number; /* from 1 */
	__u32 kind; /* enum openreg_finding_kind */
	__u32 reserved0;
	struct openreg_finding_access access;
	struct openreg_finding_access other; /* RACE: the earlier access; else the block's NOTE */
	__u64 addr; /* of the first byte concerned */
	__u64 bytes; /* from there on */
	__u64 block; /* address of the block, or 0 */
	__u64 block_bytes;
	__u64 reserved1[4];
};

#define OPENREG_SOFTMAX_LOG 1
#define OPENREG_SOFTMAX_BACKWARD 2

#define OPENREG_INDEX_WRAP 1 /* negative indices count from the end */
#define OPENREG_INDEX_OPERANDS_MAX 8

enum openreg_index { /* new value of destination element d, from source element s */
	OPENREG_INDEX_GET = 0, /* d = s; the source is indirect */
	OPENREG_INDEX_PUT = 1, /* d = s; here and below the destination is indirect */
	OPENREG_INDEX_ADD = 2, /* d + s; bool: or */
	OPENREG_INDEX_MUL = 3, /* d * s; bool: and */
	OPENREG_INDEX_MIN = 4, /* the lesser; NaN if either is NaN */
	OPENREG_INDEX_MAX = 5, /* the greater; NaN if either is NaN */
	OPENREG_INDEX_END
};

enum openreg_wait { /* 64-bit unsigned comparison of the word with imm 0 */
	OPENREG_WAIT_GE = 0,
	OPENREG_WAIT_EQ = 1,
	OPENREG_WAIT_NE = 2,
};

enum openreg_signal {
	OPENREG_SIGNAL_SET = 0,
	OPENREG_SIGNAL_ADD = 1, /* atomic among the queues of one card */
};

/*
 * CONV and POOL: windows over up to three dimensions; unused dimensions have size 1.
 * Tap k of output o is element o * stride - padding + k * dilation of the input. A tap
 * outside the input is 0 for CONV; POOL skips it. Each immediate is three integers, one
 * for each dimension.
 */
enum openreg_window_imm { /* index of the first of three immediates */
	OPENREG_WINDOW_KERNEL = 0,
	OPENREG_WINDOW_INPUT = 3, /* sizes of the input */
	OPENREG_WINDOW_STRIDE = 6,
	OPENREG_WINDOW_PADDING = 9, /* before the input */
	OPENREG_WINDOW_DILATION = 12,
	OPENREG_WINDOW_DIVISOR = 15, /* POOL, one immediate: divisor of AVG, or 0 */
};

#define OPENREG_WINDOW_TAPS_MAX (1 << 20) /* most taps of a window of POOL */
#define OPENREG_POOL_MEET_MAX (1 << 17) /* most windows that can have one element */
#define OPENREG_CONV_SUM_MAX (1 << 30) /* most products of one result of CONV */

/*
 * CONV: arg[0] enum openreg_conv_kind; ndim 7, space [n, g, oc, ic, o0, o1, o2]; oc and
 * ic are channels of one group.
 *
 * - Y has n, g, oc, o. X has n, g, ic and, in place of o, the input. W has g, oc, ic and,
 *   in place of o, the kernel.
 * - Strides along a dimension that an operand does not have are 0.
 * - All operands have one dtype, not BOOL. Rounding and wrapping are as for MATMUL.
 */
enum openreg_conv_kind {
	/* op 0 Y, op 1 X, op 2 W, op 3 bias [g, oc] (optional) */
	OPENREG_CONV_FORWARD = 0,
	/* op 0 X, op 1 Y, op 2 W, op 3 bias [g, ic] (optional) */
	OPENREG_CONV_BACKWARD_DATA = 1,
	/* op 0 W, op 1 Y, op 2 X */
	OPENREG_CONV_BACKWARD_WEIGHTS = 2,
};

/*
 * POOL: arg[0] enum openreg_pool_kind, arg[1] flags; ndim 5, space [n, c, o0, o1, o2]. X
 * has the input in place of o. X and Y have one dtype, not BOOL.
 *
 * - Forward: op 0 Y, op 1 X. MAX: op 2 (optional), I64, has the shape of Y; the card
 *   stores the row-major index of each maximum in the input.
 * - BACKWARD: op 0 gradient of X, op 1 gradient of Y. MAX: op 2 these indices; the card
 *   skips an index outside its window.
 */
enum openreg_pool_kind {
	OPENREG_POOL_MAX = 0, /* NaN if an element is NaN */
	OPENREG_POOL_AVG = 1,
};

#define OPENREG_POOL_BACKWARD 1
#define OPENREG_POOL_COUNT_PADDING 2 /* the divisor of AVG counts padding, too */
/*
 * Windows are from floor(o * input / output) to ceil((o + 1) * input / output). Kernel,
 * stride and dilation must be 1, and padding 0.
 */
#define OPENREG_POOL_ADAPTIVE 4

/*
 * SORT: arg[0] axis, arg[1] flags. op 0 values, op 1 source, of one dtype; op 2
 * (optional) I64 indices.
 *
 * - The card sorts each row of the source along the axis. Equal elements keep the order
 *   of their indices; NaN is the greatest.
 * - op 0 and op 2 receive imm 1 results from position imm 0 of the sorted row on, and
 *   have size imm 1 along the axis. They must not overlap another operand.
 */
#define OPENREG_SORT_DESCENDING 1
#define OPENREG_SORT_ROW_MAX (1 << 23) /* elements along the axis */

/*
 * SCAN: arg[0] axis, arg[1] enum openreg_scan_mode. op 0 values, op 1 source, cast to the
 * register type of op 0; op 2 (optional, MAX and MIN) I64 positions of the extremes.
 * Element i of a row along the axis becomes the fold of elements 0 to i. op 0 may be
 * op 1.
 */
enum openreg_scan_mode {
	OPENREG_SCAN_SUM = 0,
	OPENREG_SCAN_PROD = 1,
	OPENREG_SCAN_MAX = 2, /* NaN is greatest; position of the last of equals */
	OPENREG_SCAN_MIN = 3,
	OPENREG_SCAN_LOGSUMEXP = 4, /* float dtypes only */
	OPENREG_SCAN_END
};

#define OPENREG_SCAN_PIECE 16384 /* elements that the card folds one by one */

/*
 * PLACES: finds the elements that are not 0. op ndim is the source, of any dtype. op d,
 * I64, for each dimension d, receives the coordinates along d of these elements, in
 * row-major order. Each is a row of imm 0 elements; its last stride applies. The card
 * drops further coordinates, and writes nothing after the last one found.
 */

/*
 * VECTOR: a program that runs for every point of the iteration space. Each instruction
 * names its type. The packet faults if the instruction reads a register that was last
 * written with another type, or never. arg[0]: bit mask of the dimensions that the
 * reductions fold; zero without a reduction.
 *
 * Reductions divide a program into stages. Points that differ only along folded
 * dimensions form a row. A stage runs for all points of a row before the next stage.
 */
#define OPENREG_STAGES_MAX 4
#define OPENREG_REDUCTIONS_MAX 8 /* of a program */

enum openreg_vtype {
	OPENREG_VT_F32 = 0, /* also f16, bf16 and float8 */
	OPENREG_VT_F64 = 1,
	OPENREG_VT_I32 = 2, /* also i8, u8, i16; bool as 0 or 1 */
	OPENREG_VT_I64 = 3,
	OPENREG_VT_END
};

struct openreg_instr {
	__u8 op; /* enum openreg_vop */
	__u8 type; /* enum openreg_vtype */
	__u8 dst;
	__u8 a;
	__u8 b;
	__u8 c;
	__u16 aux;
};

#define OPENREG_VNONE 0xff

/*
 * F: float types only, I: integer types only, else all types. Comparisons and predicates
 * of any type write 0 or 1 to dst as I32. SELECT reads its condition (a) as I32. A table
 * in the manual states rounding, NaN, overflow, shift and division by zero for each.
 */
enum openreg_vop {
	/* moves */
	OPENREG_V_LOAD = 0, /* dst = operand[aux], cast to type */
	/*
	 * operand[aux] = a, cast from type. The strides along the folded dimensions
	 * may be 0 if a has one value in a row.
	 */
	OPENREG_V_STORE,
	OPENREG_V_IMM, /* dst = imm[aux]: f64 bits for F types, else i64 */
	OPENREG_V_MOV,
	OPENREG_V_CVT, /* dst (type) = a, of enum openreg_vtype aux */
	OPENREG_V_ROUND, /* F32: a rounded to dtype aux: F16, BF16 or a float8 */
	OPENREG_V_INDEX, /* I64: coordinate along dimension aux */
	OPENREG_V_SELECT, /* dst = a ? b : c */
	/*
	 * I: word i (I32) or pair i of words (I64) of the Philox 4x32-10 stream with
	 * key imm[a] and counter imm[b] + aux. i is the row-major index of the point
	 * in the iteration space. Here a and b are numbers of immediates.
	 */
	OPENREG_V_RANDOM,
	/* arithmetic, dst = a . b */
	OPENREG_V_ADD = 16,
	OPENREG_V_SUB,
	OPENREG_V_MUL,
	OPENREG_V_DIV, /* integers toward zero; x / 0 = 0 */
	OPENREG_V_DIV_FLOOR, /* as Python's // */
	OPENREG_V_FMOD, /* sign of a; integers x % 0 = 0 */
	OPENREG_V_REMAINDER, /* sign of b, as Python's %; integers x % 0 = 0 */
	OPENREG_V_MIN, /* NaN if either is NaN */
	OPENREG_V_MAX, /* NaN if either is NaN */
	OPENREG_V_FMIN, /* F: the other if one is NaN */
	OPENREG_V_FMAX, /* F: the other if one is NaN */
	OPENREG_V_POW,
	OPENREG_V_ATAN2, /* F */
	OPENREG_V_HYPOT, /* F */
	OPENREG_V_COPYSIGN, /* F */
	OPENREG_V_FMA, /* dst = a * b + c; floats round once */
	/* bits, I */
	OPENREG_V_AND = 40,
	OPENREG_V_OR,
	OPENREG_V_XOR,
	OPENREG_V_NOT,
	OPENREG_V_SHL, /* counts outside the type give 0 */
	OPENREG_V_SHR, /* arithmetic; counts outside the type give the sign */
	/* comparisons and predicates, dst is I32 0 or 1 */
	OPENREG_V_EQ = 48,
	OPENREG_V_NE,
	OPENREG_V_LT,
	OPENREG_V_LE,
	OPENREG_V_GT,
	OPENREG_V_GE,
	OPENREG_V_ISNAN, /* F */
	OPENREG_V_ISINF, /* F */
	OPENREG_V_ISFINITE, /* F */
	OPENREG_V_SIGNBIT,
	/* unary */
	OPENREG_V_NEG = 64,
	OPENREG_V_ABS,
	OPENREG_V_SIGN, /* NaN gives NaN */
	OPENREG_V_RECIP, /* F */
	OPENREG_V_SQRT, /* F */
	OPENREG_V_RSQRT, /* F */
	OPENREG_V_FLOOR, /* F */
	OPENREG_V_CEIL, /* F */
	OPENREG_V_TRUNC, /* F */
	OPENREG_V_RINT, /* F: half to even */
	OPENREG_V_EXP, /* F, as all below */
	OPENREG_V_EXP2,
	OPENREG_V_EXPM1,
	OPENREG_V_LOG,
	OPENREG_V_LOG2,
	OPENREG_V_LOG10,
	OPENREG_V_LOG1P,
	OPENREG_V_SIN,
	OPENREG_V_COS,
	OPENREG_V_TAN,
	OPENREG_V_ASIN,
	OPENREG_V_ACOS,
	OPENREG_V_ATAN,
	OPENREG_V_SINH,
	OPENREG_V_COSH,
	OPENREG_V_TANH,
	OPENREG_V_ASINH,
	OPENREG_V_ACOSH,
	OPENREG_V_ATANH,
	OPENREG_V_ERF,
	OPENREG_V_ERFC,
	OPENREG_V_LGAMMA,
	OPENREG_V_SIGMOID, /* 1 / (1 + exp(-a)) without overflow */
	/*
	 * Reductions. One or more of them end a stage. Each of aux, b, c may be
	 * OPENREG_VNONE; in the last stage aux or b is an operand.
	 *
	 * - a: register
	 * - dst: register that has the value at all points of the row in later stages;
	 *   all other registers but earlier values are undefined there. The card
	 *   ignores dst in the last stage.
	 * - aux: operand for the value, cast from type
	 * - b: for MAX, MIN: I64 operand for the row-major index of the first
	 *   extreme in the reduced dimensions
	 * - c: for F types: immediate, f64, that multiplies the result
	 *
	 * Strides of the operands are 0 along reduced dimensions. A reduction of no
	 * element gives the neutral element; MAX and MIN then fault with SHAPE.
	 */
	OPENREG_V_RED_SUM = 112,
	OPENREG_V_RED_PROD,
	OPENREG_V_RED_MAX, /* NaN if an element is NaN */
	OPENREG_V_RED_MIN, /* NaN if an element is NaN */
	OPENREG_V_RED_AND, /* I: 1 if all are non-zero */
	OPENREG_V_RED_OR, /* I: 1 if any is non-zero */
	OPENREG_V_END
};

#endif
