// SPDX-License-Identifier: MIT
/* Prints VECTOR instructions with the names of the hardware manual. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "openreg-dump.h"

/*
 * The form of an instruction lists its fields in the order in which they are printed:
 *
 * d, a, b, c	register in dst, a, b, c
 * A, B		immediate in a, b
 * P		operand in b, or none
 * C		immediate in c, or none
 * o, O		operand in aux; O: or none
 * i, t, y, n, s	aux: immediate, type, dtype, dimension, number
 */
#define CONSTANT "di"
#define UNARY "da"
#define BINARY "dab"
#define TERNARY "dabc"
#define REDUCE "aOPC"
#define REDUCE_OF_STAGE "d" REDUCE

#define OP(name, form) [OPENREG_V_##name] = { #name, form }

static const struct {
	const char *name;
	const char *form;
} instructions[OPENREG_V_END] = {
	OP(LOAD, "do"),
	OP(STORE, "ao"),
	OP(IMM, CONSTANT),
	OP(MOV, UNARY),
	OP(CVT, "dat"),
	OP(ROUND, "day"),
	OP(INDEX, "dn"),
	OP(SELECT, TERNARY),
	OP(RANDOM, "dABs"),
	OP(ADD, BINARY),
	OP(SUB, BINARY),
	OP(MUL, BINARY),
	OP(DIV, BINARY),
	OP(DIV_FLOOR, BINARY),
	OP(FMOD, BINARY),
	OP(REMAINDER, BINARY),
	OP(MIN, BINARY),
	OP(MAX, BINARY),
	OP(FMIN, BINARY),
	OP(FMAX, BINARY),
	OP(POW, BINARY),
	OP(ATAN2, BINARY),
	OP(HYPOT, BINARY),
	OP(COPYSIGN, BINARY),
	OP(FMA, TERNARY),
	OP(AND, BINARY),
	OP(OR, BINARY),
	OP(XOR, BINARY),
	OP(NOT, UNARY),
	OP(SHL, BINARY),
	OP(SHR, BINARY),
	OP(EQ, BINARY),
	OP(NE, BINARY),
	OP(LT, BINARY),
	OP(LE, BINARY),
	OP(GT, BINARY),
	OP(GE, BINARY),
	OP(ISNAN, UNARY),
	OP(ISINF, UNARY),
	OP(ISFINITE, UNARY),
	OP(SIGNBIT, UNARY),
	OP(NEG, UNARY),
	OP(ABS, UNARY),
	OP(SIGN, UNARY),
	OP(RECIP, UNARY),
	OP(SQRT, UNARY),
	OP(RSQRT, UNARY),
	OP(FLOOR, UNARY),
	OP(CEIL, UNARY),
	OP(TRUNC, UNARY),
	OP(RINT, UNARY),
	OP(EXP, UNARY),
	OP(EXP2, UNARY),
	OP(EXPM1, UNARY),
	OP(LOG, UNARY),
	OP(LOG2, UNARY),
	OP(LOG10, UNARY),
	OP(LOG1P, UNARY),
	OP(SIN, UNARY),
	OP(COS, UNARY),
	OP(TAN, UNARY),
	OP(ASIN, UNARY),
	OP(ACOS, UNARY),
	OP(ATAN, UNARY),
	OP(SINH, UNARY),
	OP(COSH, UNARY),
	OP(TANH, UNARY),
	OP(ASINH, UNARY),
	OP(ACOSH, UNARY),
	OP(ATANH, UNARY),
	OP(ERF, UNARY),
	OP(ERFC, UNARY),
	OP(LGAMMA, UNARY),
	OP(SIGMOID, UNARY),
	OP(RED_SUM, REDUCE),
	OP(RED_PROD, REDUCE),
	OP(RED_MAX, REDUCE),
	OP(RED_MIN, REDUCE),
	OP(RED_AND, REDUCE),
	OP(RED_OR, REDUCE),
};

static const char *type_name(unsigned int type)
{
	static const char *const names[OPENREG_VT_END] = {
		[OPENREG_VT_F32] = "f32",
		[OPENREG_VT_F64] = "f64",
		[OPENREG_VT_I32] = "i32",
		[OPENREG_VT_I64] = "i64",
	};

	return type < OPENREG_VT_END && names[type] ? names[type] : "?";
}

static void print_immediate(unsigned int i, const struct immediates *imms)
{
	printf("immediate %u", i);
	if (i >= imms->n) {
		printf(" (missing)");
		return;
	}
	printf(" (");
	print_number(imms, i);
	printf(")");
}

/* Returns a field and sets it to 0 in rest, which keeps the fields not yet printed. */
static unsigned int take_field(char field, struct openreg_instr *rest)
{
	unsigned int value;

	switch (field) {
	case 'd':
		value = rest->dst;
		rest->dst = 0;
		break;
	case 'a':
	case 'A':
		value = rest->a;
		rest->a = 0;
		break;
	case 'b':
	case 'B':
	case 'P':
		value = rest->b;
		rest->b = 0;
		break;
	case 'c':
	case 'C':
		value = rest->c;
		rest->c = 0;
		break;
	default:
		value = rest->aux;
		rest->aux = 0;
	}
	return value;
}

static void print_field(char field, unsigned int value,
			const struct immediates *imms)
{
	if (strchr("OPC", field) && value == OPENREG_VNONE)
		printf("none");
	else if (strchr("dabc", field))
		printf("r%u", value);
	else if (strchr("oOP", field))
		printf("operand %u", value);
	else if (strchr("iABC", field))
		print_immediate(value, imms);
	else if (field == 't')
		printf("as %s (%u)", type_name(value), value);
	else if (field == 'y')
		printf("to %s (%u)", openreg_dtype_name(value), value);
	else
		printf("%s %u", field == 'n' ? "dimension" : "stream +", value);
}

/* Prints the unused fields that are not 0: the card faults on them. */
static void print_unused(const struct openreg_instr *rest)
{
	const struct {
		const char *name;
		unsigned int value;
	} fields[] = {
		{ "dst", rest->dst }, { "a", rest->a }, { "b", rest->b },
		{ "c", rest->c }, { "aux", rest->aux },
	};
	const char *before = "; unused";

	for (size_t i = 0; i < COUNT(fields); i++) {
		if (!fields[i].value)
			continue;
		printf("%s %s %u", before, fields[i].name, fields[i].value);
		before = ",";
	}
}

void print_instr(const struct openreg_instr *instr,
		 const struct immediates *imms, bool later)
{
	struct openreg_instr rest = *instr;
	const char *form = "";

	if (instr->op < OPENREG_V_END && instructions[instr->op].name) {
		form = instructions[instr->op].form;
		if (later && instr->op >= OPENREG_V_RED_SUM)
			form = REDUCE_OF_STAGE;
		printf("%s", instructions[instr->op].name);
	} else {
		printf("op %u ?", instr->op);
	}
	printf(" %s", type_name(instr->type));
	if (instr->type >= OPENREG_VT_END)
		printf(" (type %u)", instr->type);
	for (size_t i = 0; form[i]; i++) {
		printf(i ? ", " : " ");
		print_field(form[i], take_field(form[i], &rest), imms);
	}
	print_unused(&rest);
	printf("\n");
}
