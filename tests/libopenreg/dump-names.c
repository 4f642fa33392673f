// SPDX-License-Identifier: MIT
/* openreg-dump prints names for all opcodes, instructions, dtypes and arguments. */
#include "dumps.h"

#define UAPI "/openreg/uapi/"

static char text[1 << 18];

/* Stores the tool's output for a dump of cmd in text. */
static void show(const struct files *f, const struct openreg_command *cmd)
{
	struct openreg_dump d;

	make_dump(&d, cmd);
	write_file(f->file, &d, sizeof(d));
	assert_int_equal(read_dump(TOOL, f->file, text, sizeof(text)), 0);
}

static void write_instr(const char *path, struct openreg_instr instr)
{
	static const uint64_t imm[] = { 7, 0x3ff8000000000000 /* 1.5 */ };
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_VECTOR,
		.nimm = COUNT(imm),
		.ninstr = 1,
		.imm = imm,
		.instr = &instr,
	};
	struct openreg_dump d;

	make_dump(&d, &cmd);
	write_file(path, &d, sizeof(d));
}

static void show_instr(const struct files *f, struct openreg_instr instr)
{
	write_instr(f->file, instr);
	assert_int_equal(read_dump(TOOL, f->file, text, sizeof(text)), 0);
}

typedef void (*name_check)(const struct files *f, const char *name,
			   unsigned int value, unsigned int opcode);

/*
 * Calls check for each name of an enumeration in the header, without the common prefix.
 * Returns the last value plus 1.
 */
static unsigned int each_name_of(const struct files *f, const char *path,
				 const char *enumeration, const char *prefix,
				 name_check check, unsigned int opcode)
{
	char line[256], begin[64], name[64], *is;
	FILE *header = fopen(path, "r");
	unsigned int next = 0;
	bool inside = false;

	assert_non_null(header);
	snprintf(begin, sizeof(begin), "enum %s {", enumeration);
	while (fgets(line, sizeof(line), header)) {
		if (!strncmp(line, begin, strlen(begin)))
			inside = true;
		else if (inside && line[0] == '}')
			break;
		if (!inside || line[0] != '\t' ||
		    strncmp(line + 1, prefix, strlen(prefix)) ||
		    sscanf(line + 1 + strlen(prefix), "%63[A-Z0-9_]", name) != 1)
			continue;
		is = line + 1 + strlen(prefix) + strlen(name);
		sscanf(is, " = %u", &next);
		if (strcmp(name, "END"))
			check(f, name, next++, opcode);
	}
	fclose(header);
	assert_true(inside);
	return next;
}

static unsigned int each_name(const struct files *f, const char *enumeration,
			      const char *prefix, name_check check,
			      unsigned int opcode)
{
	return each_name_of(f, UAPI "openreg_isa.h", enumeration, prefix, check,
			    opcode);
}

static void put_instr(const struct files *f, const char *name,
		      unsigned int value, unsigned int opcode)
{
	char path[128];

	(void)opcode;
	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	write_instr(path, openreg_ins(value, OPENREG_VT_F64, 1, 2, 3, 4, 5));
}

static void check_instr(const struct files *f, const char *name,
			unsigned int value, unsigned int opcode)
{
	char part[128];

	(void)f;
	(void)opcode;
	snprintf(part, sizeof(part), "  instruction 0: %s f64 ", name);
	if (!strstr(text, part))
		fail_msg("instruction %u is not %s", value, name);
}

/* One process prints all instructions. */
static void test_instructions(void **state)
{
	const struct files *f = *state;
	char all[64];

	assert_int_equal(each_name(f, "openreg_vop", "OPENREG_V_", put_instr, 0),
			 OPENREG_V_END);
	snprintf(all, sizeof(all), "%s/*", f->dir);
	assert_int_equal(read_dump(TOOL, all, text, sizeof(text)), 0);
	each_name(f, "openreg_vop", "OPENREG_V_", check_instr, 0);
}

static void check_type(const struct files *f, const char *name,
		       unsigned int value, unsigned int opcode)
{
	char part[64] = "  instruction 0: MOV ";
	size_t at = strlen(part);

	(void)opcode;
	/* The header has upper case, the manual has lower case. */
	for (size_t i = 0; name[i]; i++)
		part[at++] = (char)(name[i] | ' ');
	strcpy(part + at, " r1, r2\n");
	show_instr(f, openreg_ins(OPENREG_V_MOV, value, 1, 2, 0, 0, 0));
	has(text, part);
}

static void test_types(void **state)
{
	assert_int_equal(each_name(*state, "openreg_vtype", "OPENREG_VT_",
				   check_type, 0),
			 OPENREG_VT_END);
}

/* Checks the name of a value of arg[0]. */
static void check_argument(const struct files *f, const char *name,
			   unsigned int value, unsigned int opcode)
{
	const struct openreg_command cmd = {
		.opcode = (uint8_t)opcode,
		.arg = { (uint8_t)value },
	};
	char part[128];

	snprintf(part, sizeof(part), "  arguments %u 0 0 0: ", value);
	show(f, &cmd);
	has(text, part);
	snprintf(part, sizeof(part), " %s\n  sizes []\n", name);
	has(text, part);
}

static void test_arguments(void **state)
{
	static const struct {
		const char *enumeration, *prefix;
		unsigned int opcode;
	} kinds[] = {
		{ "openreg_matmul_b", "OPENREG_MATMUL_", OPENREG_OP_MATMUL },
		{ "openreg_index", "OPENREG_INDEX_", OPENREG_OP_INDEX },
		{ "openreg_wait", "OPENREG_WAIT_", OPENREG_OP_WAIT },
		{ "openreg_signal", "OPENREG_SIGNAL_", OPENREG_OP_SIGNAL },
		{ "openreg_conv_kind", "OPENREG_CONV_", OPENREG_OP_CONV },
		{ "openreg_pool_kind", "OPENREG_POOL_", OPENREG_OP_POOL },
		{ "openreg_pack_kind", "OPENREG_PACK_", OPENREG_OP_PACK },
		{ "openreg_note", "OPENREG_NOTE_", OPENREG_OP_NOTE },
	};

	for (size_t i = 0; i < COUNT(kinds); i++)
		assert_true(each_name(*state, kinds[i].enumeration,
				      kinds[i].prefix, check_argument,
				      kinds[i].opcode) > 1);
}

/* Checks the name of a mode, which is arg[1]. */
static void check_mode(const struct files *f, const char *name,
		       unsigned int value, unsigned int opcode)
{
	const struct openreg_command cmd = {
		.opcode = (uint8_t)opcode,
		.arg = { 3, (uint8_t)value },
	};
	char part[64];

	snprintf(part, sizeof(part), "axis 3, mode %s\n", name);
	show(f, &cmd);
	has(text, part);
}

static void test_scan_modes(void **state)
{
	assert_int_equal(each_name(*state, "openreg_scan_mode",
				   "OPENREG_SCAN_", check_mode,
				   OPENREG_OP_SCAN),
			 OPENREG_SCAN_END);
}

static void show_late(const struct files *f, struct openreg_dump_late late)
{
	struct openreg_dump d;
	const struct openreg_command cmd = { .opcode = OPENREG_OP_TIMESTAMP };

	make_dump(&d, &cmd);
	d.late = late;
	write_file(f->file, &d, sizeof(d));
	assert_int_equal(read_dump(TOOL, f->file, text, sizeof(text)), 0);
}

static void check_command(const struct files *f, const char *name,
			  unsigned int value, unsigned int opcode)
{
	const struct openreg_dump_late late = { value, 3, 4, 5 };
	char part[128];

	(void)opcode;
	show_late(f, late);
	snprintf(part, sizeof(part), "\ncommand    %u, %s", value, name);
	has(text, part);
	assert_non_null(strchr(" ,", strstr(text, part)[strlen(part)]));
}

static void test_commands(void **state)
{
	assert_true(each_name_of(*state, UAPI "openreg_regs.h",
				 "openreg_admin_opcode", "OPENREG_ADMIN_",
				 check_command, 0) > 1);
}

static void test_late(void **state)
{
	static const struct {
		struct openreg_dump_late late;
		const char *line;
	} commands[] = {
		{ { OPENREG_ADMIN_NOP, 3, 4, 5 }, "0, NOP" },
		{ { OPENREG_ADMIN_CTX_DESTROY, 3, 4, 5 },
		  "2, CTX_DESTROY of context 3" },
		{ { OPENREG_ADMIN_SEG_UNBIND, 3, 4, 5 },
		  "4, SEG_UNBIND of segment 4 of context 3" },
		{ { OPENREG_ADMIN_QUEUE_STOP, 3, 4, 5 },
		  "6, QUEUE_STOP of queue 4 of context 3" },
		{ { OPENREG_ADMIN_FILL, 3, 4, 5 }, "9, FILL" },
		{ { 10, 3, 4, 5 }, "10, ?" },
		{ { UINT32_MAX, 3, 4, 5 }, "4294967295, ?" },
	};
	const struct openreg_dump_late none = { OPENREG_ADMIN_QUEUE_STOP, 3, 4, 0 };
	char part[128];

	for (size_t i = 0; i < COUNT(commands); i++) {
		show_late(*state, commands[i].late);
		snprintf(part, sizeof(part),
			 "\nreason     a test\ncommand    %s, late: 5 ms\n",
			 commands[i].line);
		has(text, part);
	}
	show_late(*state, none);
	lacks(text, "\ncommand ");
}

static void test_forms(void **state)
{
	static const struct {
		unsigned int op, type, dst, a, b, c, aux;
		const char *line;
	} forms[] = {
		{ OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2,
		  "LOAD f32 r1, operand 2" },
		{ OPENREG_V_STORE, OPENREG_VT_I32, 0, 3, 0, 0, 1,
		  "STORE i32 r3, operand 1" },
		{ OPENREG_V_IMM, OPENREG_VT_F64, 4, 0, 0, 0, 1,
		  "IMM f64 r4, immediate 1 (0x3ff8000000000000, 4609434218613702656, 1.5)" },
		{ OPENREG_V_IMM, OPENREG_VT_F64, 4, 0, 0, 0, 2,
		  "IMM f64 r4, immediate 2 (missing)" },
		{ OPENREG_V_CVT, OPENREG_VT_I64, 1, 2, 0, 0, OPENREG_VT_F64,
		  "CVT i64 r1, r2, as f64 (1)" },
		{ OPENREG_V_ROUND, OPENREG_VT_F32, 1, 2, 0, 0, OPENREG_BF16,
		  "ROUND f32 r1, r2, to bf16 (4)" },
		{ OPENREG_V_INDEX, OPENREG_VT_I64, 5, 0, 0, 0, 3,
		  "INDEX i64 r5, dimension 3" },
		{ OPENREG_V_SELECT, OPENREG_VT_F32, 1, 2, 3, 4, 0,
		  "SELECT f32 r1, r2, r3, r4" },
		{ OPENREG_V_RANDOM, OPENREG_VT_I64, 6, 1, 0, 0, 8,
		  "RANDOM i64 r6, immediate 1 (0x3ff8000000000000, 4609434218613702656, 1.5), immediate 0 (0x0000000000000007, 7, 3.45846e-323), stream + 8" },
		{ OPENREG_V_SUB, OPENREG_VT_F32, 15, 14, 13, 0, 0,
		  "SUB f32 r15, r14, r13" },
		{ OPENREG_V_NEG, OPENREG_VT_F32, 1, 2, 0, 0, 0,
		  "NEG f32 r1, r2" },
		{ OPENREG_V_FMA, OPENREG_VT_F32, 1, 2, 3, 4, 0,
		  "FMA f32 r1, r2, r3, r4" },
		{ OPENREG_V_RED_MAX, OPENREG_VT_F32, 0, 1, 2, 0xff, 3,
		  "RED_MAX f32 r1, operand 3, operand 2, none" },
		{ OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 1, 0xff, 1, 0xff,
		  "RED_SUM f32 r1, none, none, immediate 1 (0x3ff8000000000000, 4609434218613702656, 1.5)" },
		{ OPENREG_V_NEG, 9, 1, 2, 0, 4, 500,
		  "NEG ? (type 9) r1, r2; unused c 4, aux 500" },
		{ 9, OPENREG_VT_I32, 1, 2, 3, 4, 5,
		  "op 9 ? i32; unused dst 1, a 2, b 3, c 4, aux 5" },
		{ OPENREG_V_END, OPENREG_VT_I32, 0, 0, 0, 0, 0,
		  "op 118 ? i32" },
		{ 255, 255, 255, 255, 255, 255, 65535,
		  "op 255 ? ? (type 255); unused dst 255, a 255, b 255, c 255, aux 65535" },
	};
	char part[256];

	for (size_t i = 0; i < COUNT(forms); i++) {
		snprintf(part, sizeof(part), "  instruction 0: %s\n",
			 forms[i].line);
		show_instr(*state, openreg_ins(forms[i].op, forms[i].type,
					       forms[i].dst, forms[i].a,
					       forms[i].b, forms[i].c,
					       forms[i].aux));
		has(text, part);
	}
}

/* Only a reduction that a stage follows has a register for its value. */
static void test_stages(void **state)
{
	const int64_t size[] = { 4 };
	const struct openreg_tensor ops[] = {
		{ .address = OPENREG_ADDR(0, 5, 0), .dtype = OPENREG_F32 },
	};
	const struct openreg_instr instr[] = {
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_RED_MAX, OPENREG_VT_F32, 1, 0, 0xff, 0xff, 0xff),
		openreg_ins(OPENREG_V_RED_SUM, OPENREG_VT_F32, 2, 0, 0xff, 0xff, 0),
		openreg_ins(OPENREG_V_SUB, OPENREG_VT_F32, 0, 1, 2, 0, 0),
		openreg_ins(OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 0, 0xff, 0xff, 0),
	};
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = COUNT(size),
		.nops = COUNT(ops),
		.ninstr = COUNT(instr),
		.size = size,
		.ops = ops,
		.instr = instr,
	};

	show(*state, &cmd);
	has(text, "  instruction 0: LOAD f32 r0, operand 0\n"
		  "  instruction 1: RED_MAX f32 r1, r0, none, none, none\n"
		  "  instruction 2: RED_SUM f32 r2, r0, operand 0, none, none\n"
		  "  stage 2\n"
		  "  instruction 3: SUB f32 r0, r1, r2\n"
		  "  instruction 4: RED_SUM f32 r0, operand 0, none, none\n");
}

static void test_matmul(void **state)
{
	const int64_t size[] = { 1, 2, 3, 4 };
	const struct openreg_tensor ops[] = {
		{ .address = OPENREG_ADDR(0, 5, 0), .dtype = OPENREG_F16 },
		{ .address = OPENREG_ADDR(0, 6, 64), .dtype = OPENREG_F16 },
	};
	const uint64_t imm[] = { openreg_imm_f64(0.5), openreg_imm_i64(-1) };
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_MATMUL,
		.ndim = COUNT(size),
		.nops = COUNT(ops),
		.nimm = COUNT(imm),
		.cookie = 0xabc,
		.size = size,
		.ops = ops,
		.imm = imm,
	};

	show(*state, &cmd);
	has(text, "  MATMUL, 3 slots, flags 0x0, cookie 0xabc\n"
		  "  arguments 0 0 0 0: operand 2 B\n  sizes [1, 2, 3, 4]\n");
	has(text, "  operand 1 (A): f16 at 0x4f80018000000040 (card 0, segment 6, offset 0x40), strides [24, 12, 4, 1]\n"
		  "  immediate 0 (alpha): 0x3fe0000000000000, 4602678819172646912, 0.5\n"
		  "  immediate 1 (beta): 0xffffffffffffffff, -1, -nan\n");
}

static void test_matmul_scaled(void **state)
{
	const int64_t size[] = { 1, 2, 3, 4 };
	const struct openreg_tensor ops[5] = { { .dtype = OPENREG_F16 } };
	const uint64_t imm[] = { openreg_imm_f64(1), 0, 4 };
	struct openreg_command cmd = {
		.opcode = OPENREG_OP_MATMUL,
		.arg = { OPENREG_MATMUL_SCALED_I4 },
		.ndim = COUNT(size),
		.nops = COUNT(ops),
		.nimm = COUNT(imm),
		.size = size,
		.ops = ops,
		.imm = imm,
	};

	show(*state, &cmd);
	has(text, "  arguments 2 0 0 0: operand 2 SCALED_I4\n");
	has(text, "  operand 2 (Q): ");
	has(text, "  operand 3 (scale): ");
	has(text, "  operand 4 (zero): ");
	has(text, "  immediate 2 (group): 0x0000000000000004, 4, ");

	cmd.arg[0] = OPENREG_MATMUL_SCALED_F8;
	show(*state, &cmd);
	has(text, "  arguments 3 0 0 0: operand 2 SCALED_F8\n");
	has(text, "  operand 2 (B): ");
	has(text, "  operand 3 (scale of A): ");
	has(text, "  operand 4 (scale of B): ");
}

static void test_window(void **state)
{
	const struct openreg_tensor ops[3] = { { .dtype = OPENREG_F32 } };
	uint64_t imm[16];
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_POOL,
		.nops = COUNT(ops),
		.nimm = COUNT(imm),
		.arg = { OPENREG_POOL_AVG,
			 OPENREG_POOL_BACKWARD | OPENREG_POOL_ADAPTIVE | 0x40 },
		.ops = ops,
		.imm = imm,
	};

	for (uint64_t i = 0; i < COUNT(imm); i++)
		imm[i] = 100 + i;
	show(*state, &cmd);
	has(text, "  arguments 1 69 0 0: kind AVG, flags BACKWARD, ADAPTIVE, 0x40\n");
	has(text, "  operand 0 (X): f32 at ");
	has(text, "  operand 2 (places): ? at ");
	has(text, "  immediate 4 (input, dimension 1): 0x0000000000000068, 104, ");
	has(text, "  immediate 15 (divisor): 0x0000000000000073, 115, ");
}

static void test_index(void **state)
{
	const struct openreg_tensor ops[3] = { { .dtype = OPENREG_F32 } };
	const uint64_t imm[] = { 10, 20 };
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_INDEX,
		.nops = COUNT(ops),
		.nimm = COUNT(imm),
		.arg = { OPENREG_INDEX_END, OPENREG_INDEX_WRAP },
		.ops = ops,
		.imm = imm,
	};

	show(*state, &cmd);
	has(text, "  arguments 6 1 0 0: mode ?, flags WRAP\n");
	has(text, "  operand 1 (source): ");
	has(text, "  operand 2 (index 0): ");
	has(text, "  immediate 0 (extent of index 0): 0x000000000000000a, 10, ");
	has(text, "  immediate 1 (step of index 0): 0x0000000000000014, 20, ");
}

static void test_list(void **state)
{
	const struct openreg_tensor ops[1] = { { .dtype = OPENREG_I64 } };
	const uint64_t imm[] = { 100, 25 };
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_LIST,
		.nops = COUNT(ops),
		.nimm = COUNT(imm),
		.ops = ops,
		.imm = imm,
	};

	show(*state, &cmd);
	has(text, "  LIST, 1 slots, ");
	has(text, "  operand 0 (first slot): i64 at ");
	has(text, "  immediate 0 (slots): 0x0000000000000064, 100, ");
	has(text, "  immediate 1 (packets): 0x0000000000000019, 25, ");
}

static void test_trace(void **state)
{
	const struct openreg_tensor ops[1] = { { .dtype = OPENREG_I64 } };
	const uint64_t imm[] = { 4096 };
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_TRACE,
		.nops = COUNT(ops),
		.nimm = COUNT(imm),
		.ops = ops,
		.imm = imm,
	};

	show(*state, &cmd);
	has(text, "  TRACE, 1 slots, ");
	has(text, "  operand 0 (ring): i64 at ");
	has(text, "  immediate 0 (records): 0x0000000000001000, 4096, ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_instructions),
		FILES_TEST(test_types),
		FILES_TEST(test_arguments),
		FILES_TEST(test_scan_modes),
		FILES_TEST(test_commands),
		FILES_TEST(test_late),
		FILES_TEST(test_forms),
		FILES_TEST(test_stages),
		FILES_TEST(test_matmul),
		FILES_TEST(test_matmul_scaled),
		FILES_TEST(test_window),
		FILES_TEST(test_index),
		FILES_TEST(test_list),
		FILES_TEST(test_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
