/* SPDX-License-Identifier: MIT */
/*
 * Packets from a stream of bytes. Most are such as the card runs: an opcode,
 * then sizes, strides and addresses that fit it; some of their fields are then
 * spoilt. No bytes at all give a good packet.
 */
#ifndef FUZZ_PACKET_H
#define FUZZ_PACKET_H

#include "engine.h"
#include "openreg_regs.h"
#include "stream.h"

/* A packet by its fields, before it is one. Any of them may be wrong. */
struct draft {
	struct openreg_packet header;
	struct openreg_op op;
	int64_t size[OPENREG_DIMS_MAX];
	struct {
		uint64_t addr;
		uint64_t reserved; /* dtype and the rest */
		int64_t stride[OPENREG_DIMS_MAX];
	} operand[OPENREG_OPERANDS_MAX];
	uint64_t imm[OPENREG_IMMS_MAX];
	struct openreg_instr instr[OPENREG_INSTRS_MAX];
	bool spread; /* engines that reach every kind of segment */
};

struct packet {
	uint8_t bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
};

void packet_take(struct stream *s, struct packet *p);
/* Counts may be more than there are fields: then there are fewer. */
void packet_serialize(struct draft *d, struct packet *p);

/* draft.c: pieces of a draft */
unsigned int draft_ndim(struct stream *s);
int64_t draft_size(struct stream *s);
void draft_sizes(struct stream *s, struct draft *d, unsigned int ndim);
void draft_imm(struct draft *d, uint64_t value);
/* The operand's address and strides over these dimensions of these sizes. */
void draft_place(struct stream *s, struct draft *d, unsigned int dtype,
		 uint32_t dims, const int64_t *size, bool written);
/* The same, and beside it this many bytes of reach. */
void draft_place_more(struct stream *s, struct draft *d, unsigned int dtype,
		      uint32_t dims, const int64_t *size, bool written,
		      int64_t more);

/* program.c */
void draft_program(struct stream *s, struct draft *d);

/* One for each opcode; packet.c */
typedef void draft_fn(struct stream *s, struct draft *d);
draft_fn draft_conv, draft_pool, draft_index, draft_sort; /* windows.c */

#endif
