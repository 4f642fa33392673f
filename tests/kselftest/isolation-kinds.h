/* SPDX-License-Identifier: GPL-2.0-only */
/* Valid packets: one for each form that operands can have. */
#ifndef OPENREG_TEST_ISOLATION_KINDS_H
#define OPENREG_TEST_ISOLATION_KINDS_H

#include "card.h"

#define KINDS 48
#define KIND_OPERANDS_MAX 5

struct operand {
	unsigned int dtype;
	int64_t stride[7];
};

/* A packet that is valid if its operands are at valid addresses. */
struct kind {
	char name[32];
	unsigned int opcode, ndim, nops, nimm, ninstr;
	unsigned int packed; /* the operand that is a packed matrix; 0: none */
	unsigned char arg[4];
	int64_t size[7];
	struct operand ops[KIND_OPERANDS_MAX];
	uint64_t imm[16];
	struct openreg_instr instr[4];
};

extern const struct kind kinds[];

void kind_packet(struct packet *p, const struct kind *k, const __u64 *address);
/* The packet that makes the packed matrix of k from elements at address from. */
void kind_pack(struct packet *p, const struct kind *k, __u64 packed, __u64 from);

#endif
