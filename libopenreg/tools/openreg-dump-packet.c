// SPDX-License-Identifier: MIT
/* Prints a packet with the hardware manual's names for its fields. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "openreg-dump.h"

/* The rest of the packet. */
struct reader {
	const uint8_t *at;
	size_t left;
};

static bool take(struct reader *r, void *to, size_t n)
{
	if (r->left < n)
		return false;
	memcpy(to, r->at, n);
	r->at += n;
	r->left -= n;
	return true;
}

static const struct arguments {
	const char *first; /* meaning of arg[0] */
	const char *values[OPENREG_INDEX_END]; /* names of its values */
	const char *flags[3]; /* names of the bits of arg[1] */
} arguments[OPENREG_OP_END] = {
	[OPENREG_OP_VECTOR] = { "folded dimensions", { NULL }, { NULL } },
	[OPENREG_OP_MATMUL] = { "operand 2",
				{ "B", "SCALED_I8", "SCALED_I4", "SCALED_F8" },
				{ NULL } },
	[OPENREG_OP_SOFTMAX] = { "axis", { NULL }, { "LOG", "BACKWARD" } },
	[OPENREG_OP_WAIT] = { "until", { "GE", "EQ", "NE" }, { NULL } },
	[OPENREG_OP_SIGNAL] = { "how", { "SET", "ADD" }, { NULL } },
	[OPENREG_OP_INDEX] = { "mode",
			       { "GET", "PUT", "ADD", "MUL", "MIN", "MAX" },
			       { "WRAP" } },
	[OPENREG_OP_PACK] = { "kind", { "PACK", "UNPACK", "SIZE" }, { NULL } },
	[OPENREG_OP_CONV] = { "kind",
			      { "FORWARD", "BACKWARD_DATA",
				"BACKWARD_WEIGHTS" },
			      { NULL } },
	[OPENREG_OP_POOL] = { "kind", { "MAX", "AVG" },
			      { "BACKWARD", "COUNT_PADDING", "ADAPTIVE" } },
	[OPENREG_OP_SORT] = { "axis", { NULL }, { "DESCENDING" } },
	[OPENREG_OP_SCAN] = { "axis", { NULL }, { NULL } },
	[OPENREG_OP_NOTE] = { "kind",
			      { "BLOCK", "UNBLOCK", "QUEUE", "SEEN", "REPORT" },
			      { NULL } },
};

static void print_flags(const char *const *names, size_t n, unsigned int flags)
{
	const char *before = ", flags";

	for (size_t i = 0; i < n; i++) {
		if (!names[i] || !(flags & 1u << i))
			continue;
		printf("%s %s", before, names[i]);
		flags &= ~(1u << i);
		before = ",";
	}
	if (flags)
		printf("%s 0x%x", before, flags);
}

/* Names of the values of arg[1] of SCAN. */
static const char *const scan_modes[OPENREG_SCAN_END] = {
	"SUM", "PROD", "MAX", "MIN", "LOGSUMEXP",
};

static void print_arguments(unsigned int opcode, const uint8_t *arg)
{
	const struct arguments *a;

	printf("  arguments %u %u %u %u", arg[0], arg[1], arg[2], arg[3]);
	if (opcode < OPENREG_OP_END && arguments[opcode].first) {
		a = &arguments[opcode];
		printf(": %s ", a->first);
		if (opcode == OPENREG_OP_VECTOR)
			printf("0x%x", arg[0]);
		else if (!a->values[0])
			printf("%u", arg[0]);
		else if (arg[0] < COUNT(a->values) && a->values[arg[0]])
			printf("%s", a->values[arg[0]]);
		else
			printf("?");
		if (opcode == OPENREG_OP_SCAN)
			printf(", mode %s", arg[1] < COUNT(scan_modes) ?
						    scan_modes[arg[1]] : "?");
		else
			print_flags(a->flags, COUNT(a->flags), arg[1]);
	}
	if (opcode == OPENREG_OP_MATMUL && arg[3] & OPENREG_MATMUL_PACKED_B)
		printf(": PACKED_B");
	printf("\n");
}

/* Roles of the operands, by opcode and operand_variant(). */
static const char *const roles[OPENREG_OP_END][3][5] = {
	[OPENREG_OP_COPY] = { { "destination", "source" } },
	[OPENREG_OP_FILL] = { { "destination" } },
	[OPENREG_OP_MATMUL] = { { "D", "A", "B", "C" },
				{ "D", "A", "Q", "scale", "zero" },
				{ "D", "A", "B", "scale of A", "scale of B" } },
	[OPENREG_OP_SOFTMAX] = { { "result", "input" },
				 { "gradient of the input",
				   "gradient of the output", "output" } },
	[OPENREG_OP_WAIT] = { { "word" } },
	[OPENREG_OP_SIGNAL] = { { "word" } },
	[OPENREG_OP_TIMESTAMP] = { { "word" } },
	[OPENREG_OP_INDEX] = { { "destination", "source" } },
	[OPENREG_OP_CONV] = { [OPENREG_CONV_FORWARD] = { "Y", "X", "W", "bias" },
			      [OPENREG_CONV_BACKWARD_DATA] = { "X", "Y", "W",
							       "bias" },
			      [OPENREG_CONV_BACKWARD_WEIGHTS] = { "W", "Y",
								  "X" } },
	[OPENREG_OP_POOL] = { { "Y", "X", "places" }, { "X", "Y", "places" } },
	[OPENREG_OP_SORT] = { { "values", "source", "indices" } },
	[OPENREG_OP_SCAN] = { { "values", "source", "places" } },
	[OPENREG_OP_LIST] = { { "first slot" } },
	[OPENREG_OP_TRACE] = { { "ring" } },
	[OPENREG_OP_PACK] = { [OPENREG_PACK_PACK] = { "packed", "matrix" },
			      [OPENREG_PACK_UNPACK] = { "matrix", "packed" },
			      [OPENREG_PACK_SIZE] = { "word", "dtype" } },
	[OPENREG_OP_NOTE] = { { "first byte" } },
};

static unsigned int operand_variant(unsigned int opcode, const uint8_t *arg)
{
	switch (opcode) {
	case OPENREG_OP_CONV:
	case OPENREG_OP_PACK:
		return arg[0];
	case OPENREG_OP_MATMUL:
		return arg[0] == OPENREG_MATMUL_SCALED_F8 ? 2 :
							    arg[0] != OPENREG_MATMUL_B;
	case OPENREG_OP_SOFTMAX:
		return !!(arg[1] & OPENREG_SOFTMAX_BACKWARD);
	case OPENREG_OP_POOL:
		return !!(arg[1] & OPENREG_POOL_BACKWARD);
	default:
		return 0;
	}
}

static void print_role(unsigned int opcode, const struct openreg_op *op,
		       unsigned int i)
{
	const unsigned int variant = operand_variant(opcode, op->arg);

	if (opcode == OPENREG_OP_INDEX && i >= 2)
		printf(" (index %u)", i - 2);
	else if (opcode == OPENREG_OP_PLACES && i == op->ndim)
		printf(" (source)");
	else if (opcode == OPENREG_OP_PLACES)
		printf(" (coordinates along dimension %u)", i);
	else if (opcode < OPENREG_OP_END && variant < COUNT(roles[0]) &&
		 i < COUNT(roles[0][0]) && roles[opcode][variant][i])
		printf(" (%s)", roles[opcode][variant][i]);
}

void print_address(uint64_t address)
{
	printf("0x%016" PRIx64, address);
	if (OPENREG_ADDR_IS_VALID(address))
		printf(" (card %u, segment %u, offset 0x%" PRIx64 ")",
		       (unsigned int)OPENREG_ADDR_CARD(address),
		       (unsigned int)OPENREG_ADDR_SEG(address),
		       (uint64_t)OPENREG_ADDR_OFFSET(address));
}

static bool print_list(struct reader *r, unsigned int n, const char *name)
{
	printf("%s [", name);
	for (unsigned int i = 0; i < n; i++) {
		int64_t value;

		if (!take(r, &value, sizeof(value)))
			return false;
		printf("%s%" PRId64, i ? ", " : "", value);
	}
	printf("]\n");
	return true;
}

static bool print_operands(struct reader *r, unsigned int opcode,
			   const struct openreg_op *op)
{
	for (unsigned int i = 0; i < op->nops; i++) {
		struct openreg_operand operand;

		if (!take(r, &operand, sizeof(operand)))
			return false;
		printf("  operand %u", i);
		print_role(opcode, op, i);
		printf(": %s at ", openreg_dtype_name(operand.dtype));
		print_address(operand.addr);
		if (!print_list(r, op->ndim, ", strides"))
			return false;
	}
	return true;
}

void print_number(const struct immediates *imms, unsigned int i)
{
	uint64_t bits;
	double number;

	memcpy(&bits, imms->at + i * sizeof(bits), sizeof(bits));
	memcpy(&number, &bits, sizeof(number));
	printf("0x%016" PRIx64 ", %" PRId64 ", %g", bits, (int64_t)bits, number);
}

static void print_window_role(unsigned int opcode, unsigned int i)
{
	static const char *const windows[] = { "kernel", "input", "stride",
					       "padding", "dilation" };

	if (i < OPENREG_WINDOW_DIVISOR)
		printf(" (%s, dimension %u)", windows[i / 3], i % 3);
	else if (i == OPENREG_WINDOW_DIVISOR && opcode == OPENREG_OP_POOL)
		printf(" (divisor)");
}

static void print_immediate_role(unsigned int opcode, unsigned int i)
{
	static const char *const names[OPENREG_OP_END][3] = {
		[OPENREG_OP_FILL] = { "element" },
		[OPENREG_OP_MATMUL] = { "alpha", "beta", "group" },
		[OPENREG_OP_WAIT] = { "value" },
		[OPENREG_OP_SIGNAL] = { "value" },
		[OPENREG_OP_SORT] = { "first place", "places" },
		[OPENREG_OP_PLACES] = { "wanted" },
		[OPENREG_OP_LIST] = { "slots", "packets" },
		[OPENREG_OP_TRACE] = { "records" },
	};

	if (opcode == OPENREG_OP_CONV || opcode == OPENREG_OP_POOL)
		print_window_role(opcode, i);
	else if (opcode == OPENREG_OP_INDEX)
		printf(" (%s of index %u)", i % 2 ? "step" : "extent", i / 2);
	else if (opcode < OPENREG_OP_END && i < 3 && names[opcode][i])
		printf(" (%s)", names[opcode][i]);
}

static bool print_immediates(struct reader *r, unsigned int opcode,
			     struct immediates *imms)
{
	for (unsigned int i = 0; i < imms->n; i++) {
		uint64_t bits;

		if (!take(r, &bits, sizeof(bits)))
			return false;
		printf("  immediate %u", i);
		print_immediate_role(opcode, i);
		printf(": ");
		print_number(imms, i);
		printf("\n");
	}
	return true;
}

static bool is_reduction(const struct openreg_instr *instr)
{
	return instr->op >= OPENREG_V_RED_SUM && instr->op < OPENREG_V_END;
}

/* Returns the number of instructions before the last stage's reductions. */
static unsigned int before_last_reductions(struct reader r, unsigned int n)
{
	struct openreg_instr instr;
	unsigned int last = 0;

	for (unsigned int i = 0; i < n && take(&r, &instr, sizeof(instr)); i++) {
		if (!is_reduction(&instr))
			last = i + 1;
	}
	return last;
}

static bool print_program(struct reader *r, unsigned int n,
			  const struct immediates *imms)
{
	const unsigned int last = before_last_reductions(*r, n);
	unsigned int stage = 1;
	bool ended = false;

	for (unsigned int i = 0; i < n; i++) {
		struct openreg_instr instr;

		if (!take(r, &instr, sizeof(instr)))
			return false;
		if (ended && !is_reduction(&instr))
			printf("  stage %u\n", ++stage);
		ended = is_reduction(&instr);
		printf("  instruction %u: ", i);
		print_instr(&instr, imms, i < last);
	}
	return true;
}

static bool print_op(struct reader *r, unsigned int opcode)
{
	struct immediates imms;
	struct openreg_op op;

	if (!take(r, &op, sizeof(op)))
		return false;
	print_arguments(opcode, op.arg);
	if (!print_list(r, op.ndim, "  sizes") ||
	    !print_operands(r, opcode, &op))
		return false;
	imms.at = r->at;
	imms.n = op.nimm;
	return print_immediates(r, opcode, &imms) &&
	       print_program(r, op.ninstr, &imms);
}

bool print_packet(const struct openreg_dump *d)
{
	struct reader r = { d->slots, sizeof(d->slots) };
	struct openreg_packet packet;

	take(&r, &packet, sizeof(packet));
	r.left = (size_t)packet.slots * OPENREG_SLOT_SIZE;
	if (r.left > sizeof(d->slots) || !r.left)
		return false;
	r.left -= sizeof(packet);
	printf("  %s, %u slots, flags 0x%x, cookie 0x%x\n",
	       openreg_opcode_name(packet.opcode), packet.slots, packet.flags,
	       packet.cookie);
	return packet.opcode == OPENREG_OP_NOP || print_op(&r, packet.opcode);
}
