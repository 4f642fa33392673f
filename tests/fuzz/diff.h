/* SPDX-License-Identifier: MIT */
/*
 * Random packets run by the card, and again by a reference that does what the
 * manual says, point by point, on a copy of memory. Then all of memory must be
 * the same. Everything follows from a kind and a seed.
 */
#ifndef FUZZ_DIFF_H
#define FUZZ_DIFF_H

#include "engine-harness.h"
#include "packet.h"

struct stepper;

enum { SPACE_VRAM, SPACE_SYSTEM, SPACES };

/* An operand of the packet: where it is, and how it lies. */
struct operand {
	unsigned int space;
	unsigned int dtype;
	uint64_t at; /* of element 0 in its segment, bytes */
	struct layout layout;
};

struct diff {
	struct stepper *rig;
	struct queue *q;
	uint64_t tail, seq;
	const char *kind;
	uint64_t seed;
	uint64_t brk[SPACES]; /* what operands take */
	uint8_t *have[SPACES], *want[SPACES];
	uint64_t elements, loose; /* stored; and that may be anything */
	struct draft draft;
	struct operand op[OPENREG_OPERANDS_MAX];
};

/* Each makes a packet, runs it, and works it out. */
typedef void diff_fn(struct diff *d);
diff_fn diff_vector, diff_reduce, diff_matmul, diff_copy, diff_scan;

/* A draft of no operands yet; sizes whose product is at most `most`. */
void diff_begin(struct diff *d, unsigned int opcode, unsigned int ndim,
		int64_t most);
/* Adds an operand over dims, with random contents; its index. */
unsigned int diff_operand(struct diff *d, unsigned int space,
			  unsigned int dtype, uint32_t dims, bool broadcast);
void diff_instr(struct diff *d, struct openreg_instr in);
unsigned int diff_imm(struct diff *d, uint64_t bits);
/* The card's part. Before it `want` is memory as it was. */
void diff_run(struct diff *d);
__attribute__((noreturn, format(printf, 2, 3))) void
diff_fail(const struct diff *d, const char *format, ...);

/* Elements at a point, by the reference's copy of memory. */
int64_t diff_at(const struct diff *d, const struct operand *op,
		const int64_t *point);
const uint8_t *diff_element(const struct diff *d, const struct operand *op,
			    int64_t at);
/* What must be stored there; a NaN stands for each. */
void diff_put_float(struct diff *d, const struct operand *op, int64_t at,
		    double value);
void diff_put_int(struct diff *d, const struct operand *op, int64_t at,
		  int64_t value);
void diff_put_bits(struct diff *d, const struct operand *op, int64_t at,
		   const void *bits);
/* What the card has stored is as good as anything. */
void diff_put_any(struct diff *d, const struct operand *op, int64_t at);
/* Within so much of the value. */
void diff_put_near(struct diff *d, const struct operand *op, int64_t at,
		   long double value, long double tolerance);
double diff_have(const struct diff *d, const struct operand *op, int64_t at);

bool diff_is_float(unsigned int dtype);
/* Any bits that make sense, special values among them. */
void diff_fill(unsigned int dtype, void *to, int64_t n);
unsigned int diff_any_dtype(void);

/* Registers of the reference; see interpret.c. */
struct value {
	uint8_t type; /* enum openreg_vtype */
	bool any; /* the manual does not say */
	bool rough; /* of op at x: within the table's bound of exact */
	uint8_t op;
	double f, x;
	long double exact;
	int64_t i;
};

struct machine {
	struct value reg[OPENREG_REGS];
};

/* Runs the program of the draft at a point, but for its reduction. */
void interpret(struct diff *d, struct machine *m, const int64_t *point,
	       uint64_t index);
void interpret_store(struct diff *d, const struct operand *op, int64_t at,
		     const struct value *v);

#endif
