/* SPDX-License-Identifier: MIT */
/*
 * Random packets run on the card, and on a reference that follows the manual point by
 * point, on a copy of memory. Then both memories must be equal. A kind and a seed
 * determine the whole test.
 */
#ifndef FUZZ_DIFF_H
#define FUZZ_DIFF_H

#include "engine-harness.h"
#include "packet.h"

struct stepper;

enum { SPACE_VRAM, SPACE_SYSTEM, SPACES };

/* An operand of the packet. */
struct operand {
	unsigned int space;
	unsigned int dtype;
	uint64_t at; /* byte offset of element 0 in its segment */
	struct layout layout;
};

struct diff {
	struct stepper *rig;
	struct queue *q;
	const char *kind;
	uint64_t seed;
	uint64_t brk[SPACES]; /* bytes that the operands use */
	uint8_t *have[SPACES], *want[SPACES]; /* memory of the card, of the reference */
	uint64_t elements, loose; /* stored elements; those that are not compared */
	struct draft draft;
	struct operand op[OPENREG_OPERANDS_MAX];
};

/* Each function makes a packet, runs it, and computes the expected memory. */
typedef void diff_fn(struct diff *d);
diff_fn diff_vector, diff_reduce, diff_stages, diff_matmul, diff_copy, diff_scan;
diff_fn diff_mixed, diff_scaled, diff_scaled_f8;

/* Begins a draft with random sizes; their product is at most most. */
void diff_begin(struct diff *d, unsigned int opcode, unsigned int ndim,
		int64_t most);
/* Adds an operand over dims, with random contents; returns its index. */
unsigned int diff_operand(struct diff *d, unsigned int space,
			  unsigned int dtype, uint32_t dims, bool broadcast);
void diff_instr(struct diff *d, struct openreg_instr in);
unsigned int diff_imm(struct diff *d, uint64_t bits);
/* Runs the packet on the card. Before this, want has the old contents of memory. */
void diff_run(struct diff *d);
__attribute__((noreturn, format(printf, 2, 3))) void
diff_fail(const struct diff *d, const char *format, ...);

/* Index of the element at a point; the element in the reference's memory. */
int64_t diff_at(const struct diff *d, const struct operand *op,
		const int64_t *point);
const uint8_t *diff_element(const struct diff *d, const struct operand *op,
			    int64_t at);
/* Store the expected value of an element; a NaN matches every NaN. */
void diff_put_float(struct diff *d, const struct operand *op, int64_t at,
		    double value);
void diff_put_int(struct diff *d, const struct operand *op, int64_t at,
		  int64_t value);
void diff_put_bits(struct diff *d, const struct operand *op, int64_t at,
		   const void *bits);
/* Accepts any value of the card. */
void diff_put_any(struct diff *d, const struct operand *op, int64_t at);
/* Accepts a value of the card within tolerance of value. */
void diff_put_near(struct diff *d, const struct operand *op, int64_t at,
		   long double value, long double tolerance);
double diff_have(const struct diff *d, const struct operand *op, int64_t at);

bool diff_is_float(unsigned int dtype);
/* Fills with random valid values, also special ones. */
void diff_fill(unsigned int dtype, void *to, int64_t n);
unsigned int diff_any_dtype(void);
/* Not float8. */
unsigned int diff_common_dtype(void);

/* Registers of the reference; see interpret.c. */
struct value {
	uint8_t type; /* enum openreg_vtype */
	bool any; /* the manual does not define the value */
	bool rough; /* result of op at x; may differ from exact by the table's bound */
	uint8_t op;
	double f, x;
	long double exact;
	int64_t i;
};

struct machine {
	struct value reg[OPENREG_REGS];
};

/* Runs the draft's program at a point, from an instruction to the next reduction. */
void interpret(struct diff *d, struct machine *m, unsigned int first,
	       const int64_t *point, uint64_t index);
void interpret_store(struct diff *d, const struct operand *op, int64_t at,
		     const struct value *v);

#endif
