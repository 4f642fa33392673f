/* SPDX-License-Identifier: MIT */
/*
 * The interface between driver and card: PCI ids, BARs, registers, the admin ring,
 * segments and the fault ring. All data is little-endian. docs/specs/openreg.rst
 * describes each item in full.
 */
#ifndef OPENREG_REGS_H
#define OPENREG_REGS_H

#include "openreg_isa.h"

#define OPENREG_PCI_VENDOR 0x1af4
#define OPENREG_PCI_DEVICE 0x10f5
#define OPENREG_PCI_CLASS 0x1200
#define OPENREG_PCI_REVISION 0x02

/* BARs, all 64-bit. MSI-X table and PBA live in the register BAR. */
#define OPENREG_BAR_REGS 0
#define OPENREG_BAR_DOORBELL 2
#define OPENREG_BAR_VRAM 4
#define OPENREG_BAR_REGS_SIZE 0x10000
#define OPENREG_MSIX_TABLE 0x8000
#define OPENREG_MSIX_PBA 0xc000

#define OPENREG_MAX_CARDS 16
#define OPENREG_MAX_CONTEXTS 256
#define OPENREG_MAX_QUEUES 1024
#define OPENREG_MAX_SEGMENTS (1 << OPENREG_ADDR_SEG_BITS)
#define OPENREG_MAX_DOORBELLS 256
#define OPENREG_MAX_VECTORS 64
#define OPENREG_DOORBELL_STRIDE 4096
/* A 32-bit write of any value to offset 0 of a doorbell page rings it. */

/*
 * Registers are 32 bits wide and aligned. A 64-bit register is a pair, low half
 * first, and can be read in one access of 8 bytes. Other offsets read as 0; writes to
 * them are ignored and logged as guest errors.
 */
#define OPENREG_REG_MAGIC 0x000 /* RO OPENREG_MAGIC */
#define OPENREG_REG_VERSION 0x004 /* RO ISA major << 16 | minor */
#define OPENREG_REG_STATUS 0x008 /* RO OPENREG_STATUS_* */
#define OPENREG_REG_CONTROL 0x00c /* RW OPENREG_CONTROL_* */
#define OPENREG_REG_PACKETS 0x010 /* RO64 bit n: the card has opcode n */
#define OPENREG_REG_DTYPES 0x018 /* RO64 bit n: the card has dtype n */
#define OPENREG_REG_VRAM_SIZE 0x020 /* RO64 bytes */
#define OPENREG_REG_MAX_CONTEXTS 0x028 /* RO; ids are 0..n-1 */
#define OPENREG_REG_MAX_QUEUES 0x02c /* RO; ids are 0..n-1 */
#define OPENREG_REG_MAX_SEGMENTS 0x030 /* RO per context; ids 1..n-1 */
#define OPENREG_REG_DOORBELLS 0x034 /* RO pages in the doorbell BAR */
#define OPENREG_REG_VECTORS 0x038 /* RO MSI-X vectors; the driver owns 0 */
#define OPENREG_REG_PAGE_SHIFTS 0x03c /* RO bit n: page lists can have pages of 1 << n bytes */
#define OPENREG_REG_RING_SLOTS 0x040 /* RO slots of the largest ring */
#define OPENREG_REG_WORKERS 0x044 /* RO threads of the compute engine */
#define OPENREG_REG_SLICE_US 0x048 /* RO longest time between two scheduling decisions, about */
#define OPENREG_REG_MAX_WORK 0x04c /* RO log2 of the most elements that a packet may visit */
#define OPENREG_REG_CARD_ID 0x050 /* RW 0..15; the card field of addresses */
#define OPENREG_REG_CLOCK 0x058 /* RO64 ns */

#define OPENREG_REG_ADMIN_BASE 0x080 /* RW64 bus address of commands */
#define OPENREG_REG_ADMIN_CPL 0x088 /* RW64 bus address of completions */
#define OPENREG_REG_ADMIN_SLOTS 0x090 /* RW power of two, 2..4096 */
#define OPENREG_REG_ADMIN_TAIL 0x094 /* RW free-running; a write rings */
#define OPENREG_REG_FAULT_BASE 0x0a0 /* RW64 bus address of records */
#define OPENREG_REG_FAULT_SLOTS 0x0a8 /* RW power of two, 2..4096 */
#define OPENREG_REG_FAULT_HEAD 0x0ac /* RW free-running; records consumed */
#define OPENREG_REG_FAULT_TAIL 0x0b0 /* RO free-running; records produced */
#define OPENREG_REG_FAULT_DROPPED 0x0b4 /* RO records lost because the ring was full */

/* Totals since reset, RO64. Only the administrator may read them. */
#define OPENREG_REG_STAT_PACKETS 0x100
#define OPENREG_REG_STAT_DOORBELLS 0x108
#define OPENREG_REG_STAT_INTERRUPTS 0x110
#define OPENREG_REG_STAT_DMA_READ 0x118 /* bytes */
#define OPENREG_REG_STAT_DMA_WRITTEN 0x120 /* bytes */
#define OPENREG_REG_STAT_COMPUTE_NS 0x128
#define OPENREG_REG_STAT_COPY_NS 0x130
#define OPENREG_REG_STAT_FAULTS 0x138
#define OPENREG_REG_STAT_SLEEPS 0x140 /* times the card went to sleep */
#define OPENREG_REG_STAT_SLEEP_NS 0x148 /* idle time before the last sleep */

#define OPENREG_MAGIC 0x4745524f /* "OREG" */

#define OPENREG_STATUS_READY (1u << 0) /* enabled and serving the admin ring */
#define OPENREG_STATUS_FATAL (1u << 1) /* admin or fault ring unusable; reset */

/*
 * ENABLE: 0 to 1 latches the ring registers and starts the card. 1 to 0 stops all work
 * and drops all contexts, segments and queues. READY in STATUS follows ENABLE.
 * RESET: writing 1 resets the card as an FLR does; then the bit reads 0.
 */
#define OPENREG_CONTROL_ENABLE (1u << 0)
#define OPENREG_CONTROL_RESET (1u << 1)

/*
 * Admin ring. Command i is in slot i & (slots - 1). Its completion is in the same slot of
 * the completion array; the card writes seq, the low 32 bits of i + 1, last. Commands
 * start in order. QUEUE_STOP, QUEUE_DESTROY, CTX_DESTROY and FILL may complete after later
 * commands, so a slot can be reused only after its completion. Every completion raises
 * vector 0.
 */
enum openreg_admin_opcode {
	OPENREG_ADMIN_NOP = 0,
	OPENREG_ADMIN_CTX_CREATE = 1,
	OPENREG_ADMIN_CTX_DESTROY = 2, /* stops its queues, releases its segments */
	OPENREG_ADMIN_SEG_BIND = 3,
	OPENREG_ADMIN_SEG_UNBIND = 4, /* dead at once, released later */
	OPENREG_ADMIN_QUEUE_CREATE = 5,
	OPENREG_ADMIN_QUEUE_STOP = 6, /* completes when none of its packets runs */
	OPENREG_ADMIN_QUEUE_RESET = 7, /* restarts at a given slot */
	OPENREG_ADMIN_QUEUE_DESTROY = 8, /* stops it; its pages are unused after */
	OPENREG_ADMIN_FILL = 9, /* fills VRAM with a byte */
};

enum openreg_admin_status {
	OPENREG_ADMIN_OK = 0,
	OPENREG_ADMIN_EOPCODE = 1, /* no such command */
	OPENREG_ADMIN_EINVAL = 2, /* a field is out of range, or reserved and not zero */
	OPENREG_ADMIN_ENOENT = 3, /* no such context, segment or queue */
	OPENREG_ADMIN_EEXIST = 4, /* the id is in use */
	OPENREG_ADMIN_ENOMEM = 5, /* the card is out of its own memory */
	OPENREG_ADMIN_EDMA = 6, /* bus error at a page list, ring or queue page */
};

struct openreg_admin_cmd {
	__u16 opcode;
	__u16 flags; /* zero */
	__u32 ctx;
	__u32 id; /* segment or queue */
	__u32 reserved;
	/* ISO C++ has no unnamed structs here. */
	__extension__ union {
		__u64 arg[6];
		struct {
			/* bus address of struct openreg_released_page, or 0 */
			__u64 released;
		} create;
		struct {
			__u32 kind; /* enum openreg_seg_kind */
			__u32 perm; /* OPENREG_SEG_READ | OPENREG_SEG_WRITE */
			__u64 length; /* bytes, 1..2^38 */
			/*
			 * VRAM: byte offset. SYSTEM, PEER: bus address of a
			 * list of npages __u64 bus addresses of pages.
			 */
			__u64 base;
			__u64 npages; /* 0 for VRAM */
			__u32 page_shift; /* 12 or 21; 0 for VRAM */
			__u32 offset; /* of the first byte in the first page */
			__u64 reserved;
		} seg;
		struct {
			__u64 flags; /* OPENREG_UNBIND_CLEAR */
		} unbind;
		struct {
			__u64 ring; /* bus address, page aligned, contiguous */
			__u64 user_page;
			__u64 card_page;
			__u64 kernel_page;
			__u32 slots; /* power of two */
			__u16 doorbell; /* page; shared within a context only */
			__u16 vector; /* 1..vectors-1; may be shared */
			__u32 priority; /* enum openreg_priority */
			__u32 flags; /* OPENREG_QUEUE_KEEP */
		} queue;
		struct {
			__u64 when; /* enum openreg_stop_when */
		} stop;
		struct {
			__u64 head; /* slot counter to restart at */
			__u64 seq; /* sequence number of the last packet to skip */
		} reset;
		struct {
			__u64 offset; /* in VRAM, multiple of 4096 */
			__u64 length; /* bytes, multiple of 4096 */
			__u64 value; /* byte */
		} fill;
	};
};

struct openreg_admin_cpl {
	__u32 status; /* enum openreg_admin_status */
	__u32 seq;
	__u64 result; /* SEG_UNBIND: 1 if packets still use the segment */
};

enum openreg_seg_kind {
	OPENREG_SEG_VRAM = 1,
	OPENREG_SEG_SYSTEM = 2,
	OPENREG_SEG_PEER = 3, /* VRAM of another card, by its BAR */
};

#define OPENREG_SEG_READ (1u << 0)
#define OPENREG_SEG_WRITE (1u << 1)

/* Fill the VRAM of the segment with zeros before it is released. */
#define OPENREG_UNBIND_CLEAR (1u << 0)

/*
 * One page for each context, written by the card only. Bit s % 64 of bits[s / 64]
 * is 1 from the time segment s is released until it is bound again. Vector 0
 * follows unless the segment is released before its SEG_UNBIND completes.
 */
struct openreg_released_page {
	__u64 bits[OPENREG_MAX_SEGMENTS / 64];
};

/* Take the card page as it is: it is of the same queue before a reset. */
#define OPENREG_QUEUE_KEEP (1u << 0)

enum openreg_stop_when {
	OPENREG_STOP_NOW = 0, /* the running packet stops half done */
	OPENREG_STOP_AFTER_PACKET = 1, /* the running packet ends first */
};

enum openreg_priority { /* orders the queues within one context */
	OPENREG_PRIORITY_LOW = 0,
	OPENREG_PRIORITY_NORMAL = 1,
	OPENREG_PRIORITY_HIGH = 2,
};

/*
 * Fault ring. Record i is in slot i & (slots - 1); the card writes seq, the low 32 bits of
 * i + 1, last. Then it raises the queue's vector and vector 0.
 */
struct openreg_fault_record {
	__u32 seq;
	__u32 ctx;
	__u32 queue;
	__u32 reserved;
	struct openreg_fault_summary fault; /* 40 bytes */
	__u64 clock; /* ns */
};

#endif
