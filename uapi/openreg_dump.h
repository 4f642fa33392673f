/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * The dump that the driver leaves in /sys/class/devcoredump/devcdN/data. It describes one
 * queue: a queue that faulted, a queue that the driver stopped because a packet took too
 * long, or, before the driver resets a card, the queue that most likely caused the hang.
 * openreg-dump prints it.
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
	/** @size: 4 or 8 bytes; 0 after the last register */
	__u32 size;
	/** @value: value that the driver read */
	__u64 value;
};

/**
 * struct openreg_dump_late - a command that the card has not completed in time
 */
struct openreg_dump_late {
	/** @opcode: enum openreg_admin_opcode */
	__u32 opcode;
	/** @ctx: context, if the command has one */
	__u32 ctx;
	/** @id: segment or queue, if the command has one */
	__u32 id;
	/** @ms: milliseconds since the card got it; 0 if no command is late */
	__u32 ms;
};

/**
 * struct openreg_dump - the whole dump, little-endian
 *
 * New fields are added at the end; @size tells whether a dump has them.
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
	/** @time_ns: nanoseconds since 1970 */
	__u64 time_ns;
	/** @pid: process that created the queue; 0 without a queue */
	__u32 pid;
	/** @ring_slots: size of the queue's ring; 0 if the queue is gone */
	__u32 ring_slots;
	/** @comm: name of that process */
	char comm[16];
	/** @reason: why the driver made the dump, a sentence */
	char reason[64];
	/** @record: the fault; without one only queue and ctx are set */
	struct openreg_fault_record record;
	/** @page: the queue's card page */
	struct openreg_card_page page;
	/** @tail: slots that the process has published */
	__u64 tail;
	/** @regs: registers of the card */
	struct openreg_dump_reg regs[OPENREG_DUMP_REGS];
	/** @slots: the ring from the head to its end; no packet if head is the tail */
	__u8 slots[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
	/** @late: the first command of the admin ring that is late */
	struct openreg_dump_late late;
};

#endif
