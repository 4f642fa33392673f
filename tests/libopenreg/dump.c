// SPDX-License-Identifier: MIT
// test dump not sim
/*
 * The driver makes a dump of a fault, and openreg-dump reads it. For dumps of hangs see
 * tests/kselftest/hang.c.
 */
#include <errno.h>
#include <glob.h>
#include <unistd.h>

#include "dumps.h"

#define PATTERN "/sys/class/devcoredump/devcd*/data"
#define DEVICES "/sys/devices/virtual/devcoredump/devcd*"

/* Drops all dumps: the kernel keeps only the first dump of a card. */
static void drop_dumps(void)
{
	glob_t found;

	if (glob(PATTERN, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		FILE *f = fopen(found.gl_pathv[i], "w");

		if (f) {
			fputs("1", f);
			fclose(f);
		}
	}
	globfree(&found);
	/* The kernel drops dumps with a delay, and takes no new dump before. */
	for (int i = 0; i < 1000; i++) {
		if (glob(DEVICES, 0, NULL, &found) == GLOB_NOMATCH)
			return;
		globfree(&found);
		usleep(10000);
	}
	fail_msg("dropped dumps still exist");
}

static bool wait_for_dump(void)
{
	for (int i = 0; i < 1000; i++) {
		glob_t found;

		if (!glob(PATTERN, 0, NULL, &found)) {
			globfree(&found);
			return true;
		}
		usleep(10000);
	}
	return false;
}

/* Runs a fault; the driver has made the dump when the reset of the queue returns. */
static void run_to_dump(struct card *c, char *text, size_t size)
{
	drop_dumps();
	run_fault(c);
	assert_true(wait_for_dump());
	assert_int_equal(read_dump(TOOL, "", text, size), 0);
	drop_dumps();
}

static uint64_t reg(const char *text, const char *name)
{
	char part[64];
	const char *at;

	snprintf(part, sizeof(part), " %-16s 0x", name);
	has(text, part);
	at = strstr(text, part) + strlen(part);
	return strtoull(at, NULL, 16);
}

static void test_fault(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	const int64_t size[] = { 8, 16 }, stride[] = { 16, 1 };
	const struct openreg_tensor t =
		openreg_view(address(bo) + 4032, OPENREG_I32, stride);
	char text[8192], part[64];

	ok(openreg_push_nop(c->q));
	ok(openreg_push_fill(c->q, 2, size, &t, 0x1234));
	run_to_dump(c, text, sizeof(text));
	has(text, "reason     out of bounds");
	has(text, "by dump[");
	has(text, "packet     2, FILL");
	has(text, "operand    0");
	has(text, " slots, head 1, tail 3\ncompleted  1; faulted");
	has(text, "  FILL, 2 slots, flags 0x0, cookie 0x0\n"
		  "  arguments 0 0 0 0\n  sizes [8, 16]\n");
	has(text, "strides [16, 1]");
	has(text, "immediate 0 (element): 0x0000000000001234, 4660, ");
	snprintf(part, sizeof(part), "operand 0 (destination): i32 at 0x%016llx (card 0",
		 (unsigned long long)t.address);
	has(text, part);
	openreg_bo_free(bo);
}

/* A program that reads a register before it is written. */
static void push_bad_program(struct card *c, uint64_t address)
{
	static const int64_t size[] = { 16 };
	static const struct openreg_instr instr[] = {
		{ .op = OPENREG_V_LOAD, .aux = 1 },
		{ .op = OPENREG_V_IMM, .dst = 1 },
		{ .op = OPENREG_V_FMA, .dst = 2, .a = 0, .b = 1, .c = 3 },
		{ .op = OPENREG_V_STORE, .a = 2, .aux = 0 },
	};
	const struct openreg_tensor ops[] = {
		{ .address = address, .dtype = OPENREG_F32 },
		{ .address = address + 64, .dtype = OPENREG_F32 },
	};
	const uint64_t imm = openreg_imm_f64(1.5);
	const struct openreg_command v = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = COUNT(size),
		.nops = COUNT(ops),
		.nimm = 1,
		.ninstr = COUNT(instr),
		.size = size,
		.ops = ops,
		.imm = &imm,
		.instr = instr,
	};

	ok(openreg_push(c->q, &v));
}

static void test_program(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	char text[8192];

	push_bad_program(c, address(bo));
	run_to_dump(c, text, sizeof(text));
	has(text, "packet     1, VECTOR");
	has(text, "detail     0x2\n");
	has(text, " slots, head 0, tail 2\ncompleted  0; faulted");
	has(text, "  immediate 0: 0x3ff8000000000000, 4609434218613702656, 1.5\n"
		  "  instruction 0: LOAD f32 r0, operand 1\n"
		  "  instruction 1: IMM f32 r1, immediate 0 (0x3ff8000000000000, 4609434218613702656, 1.5)\n"
		  "  instruction 2: FMA f32 r2, r0, r1, r3\n"
		  "  instruction 3: STORE f32 r2, operand 0\n"
		  "registers\n");
	openreg_bo_free(bo);
}

/* All registers have names, and the values of the card at the fault. */
static void test_registers(void **state)
{
	struct card *c = *state;
	char text[8192];
	uint64_t faults = 0;

	for (int i = 0; i < 2; i++) {
		push_bad_program(c, 0);
		run_to_dump(c, text, sizeof(text));
		lacks(text, " ? ");
		assert_int_equal(reg(text, "VERSION"),
				 OPENREG_ISA_MAJOR << 16 | OPENREG_ISA_MINOR);
		assert_int_equal(reg(text, "STATUS"), OPENREG_STATUS_READY);
		assert_int_equal(reg(text, "CONTROL"), OPENREG_CONTROL_ENABLE);
		/* The driver has not consumed the record of this fault yet. */
		assert_int_equal(reg(text, "FAULT_TAIL") -
				 reg(text, "FAULT_HEAD"), 1);
		if (i)
			assert_int_equal(reg(text, "STAT_FAULTS"), faults + 1);
		faults = reg(text, "STAT_FAULTS");
		assert_true(faults > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fault, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_program, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_registers, card_open, card_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
