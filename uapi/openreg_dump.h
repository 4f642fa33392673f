/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * What the driver leaves of a fault, of a queue that it stops because a packet takes
 * too long, and before it resets a card that does not answer, of the queue that is
 * most likely to blame: /sys/class/devcoredump/devcdN/data. openreg-dump prints it.
 */
#ifndef OPENREG_DUMP_H
#define OPENREG_DUMP_H

#include "openreg_isa.h"
#include "openreg_regs.h"

#define OPENREG_DUMP_MAGIC 0x4d44524f /* "ORDM" */
#define OPENREG_DUMP_VERSION 1
#define OPENREG_DUMP_REGS 24

/**
 * struct openreg_dump_reg - a register of the card
 */
struct openreg_dump_reg {
	/** @offset: in the register BAR */
	__u32 offset;
	/** @size: 4 or 8 bytes; 0: the array ends before */
	__u32 size;
	/** @value: as it was read */
	__u64 value;
};

/**
 * struct openreg_dump_late - a command that the card should have answered by now
 */
struct openreg_dump_late {
	/** @opcode: enum openreg_admin_opcode */
	__u32 opcode;
	/** @ctx: context, of those that have one */
	__u32 ctx;
	/** @id: segment or queue, of those that have one */
	__u32 id;
	/** @ms: since the card got it; 0: there is none */
	__u32 ms;
};

/**
 * struct openreg_dump - the whole dump, little-endian
 *
 * What is added goes to the end; @size tells whether it is there.
 */
struct openreg_dump {
	/** @magic: OPENREG_DUMP_MAGIC */
	__u32 magic;
	/** @version: OPENREG_DUMP_VERSION */
	__u32 version;
	/** @size: bytes of the dump */
	__u32 size;
	/** @card: number of the card */
	__u32 card;
	/** @time_ns: since 1970 */
	__u64 time_ns;
	/** @pid: of who made the queue, 0 if there is none */
	__u32 pid;
	/** @ring_slots: size of the queue's ring, 0 if it is gone or none */
	__u32 ring_slots;
	/** @comm: name of that process */
	char comm[16];
	/** @reason: a sentence */
	char reason[64];
	/** @record: the fault; if there is none all 0 but for queue and ctx */
	struct openreg_fault_record record;
	/** @page: the queue's card page */
	struct openreg_card_page page;
	/** @tail: slots that the process had published */
	__u64 tail;
	/** @regs: registers of the card */
	struct openreg_dump_reg regs[OPENREG_DUMP_REGS];
	/** @slots: the ring from the head on, up to its end; no packet at the tail */
	__u8 slots[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
	/** @late: the first command of the admin ring that is late */
	struct openreg_dump_late late;
};

#endif
