/* SPDX-License-Identifier: MIT */
/*
 * Makes packets from a stream of bytes. Most packets are valid: an opcode, then sizes,
 * strides and addresses that fit it. Some get bad fields afterwards. An empty stream
 * gives a valid packet.
 */
#ifndef FUZZ_PACKET_H
#define FUZZ_PACKET_H

#include "engine/engine.h"
#include "openreg_regs.h"
#include "stream.h"

/* The fields of a packet before they are serialized. Any field may be wrong. */
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
	bool spread; /* the engine reaches every kind of segment */
};

struct packet {
	uint8_t bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
};

void packet_take(struct stream *s, struct packet *p);
/* Serializes at most as many fields as the arrays have, also if the counts are larger. */
void packet_serialize(struct draft *d, struct packet *p);

/* draft.c: pieces of a draft */
unsigned int draft_ndim(struct stream *s);
int64_t draft_size(struct stream *s);
void draft_sizes(struct stream *s, struct draft *d, unsigned int ndim);
void draft_imm(struct draft *d, uint64_t value);
/* Takes an operand's address, and its strides over the dimensions in dims. */
void draft_place(struct stream *s, struct draft *d, unsigned int dtype,
		 uint32_t dims, const int64_t *size, bool written);
/* The same for an operand that reaches more bytes further. */
void draft_place_more(struct stream *s, struct draft *d, unsigned int dtype,
		      uint32_t dims, const int64_t *size, bool written,
		      int64_t more);

/* The same for a packed matrix of k x n, along dimension dim. */
void draft_packed(struct stream *s, struct draft *d, unsigned int dtype,
		  unsigned int dim, int64_t k, int64_t n);

/* program.c */
void draft_program(struct stream *s, struct draft *d);

/* packet.c: one function for each opcode */
typedef void draft_fn(struct stream *s, struct draft *d);
draft_fn draft_conv, draft_pool, draft_index, draft_sort; /* windows.c */

#endif
