// SPDX-License-Identifier: MIT
/* openreg-dump reads damaged and hostile dumps without a sanitizer report. */
#include <unistd.h>

#include "dumps.h"

static char text[1 << 20];

/* A dump of a VECTOR packet with one field of each kind. */
static void make_program(struct openreg_dump *d)
{
	static const int64_t size[] = { 3, 4 };
	static const struct openreg_tensor ops[2] = {
		{ .dtype = OPENREG_F32 }, { .dtype = OPENREG_I64 },
	};
	static const uint64_t imm[] = { 1, 2 };
	static const struct openreg_instr instr[] = {
		{ .op = OPENREG_V_LOAD, .aux = 1 },
		{ .op = OPENREG_V_RANDOM, .dst = 1, .b = 1 },
		{ .op = OPENREG_V_CVT, .dst = 1, .a = 1 },
		{ .op = OPENREG_V_ROUND, .a = 1, .aux = OPENREG_F16 },
		{ .op = OPENREG_V_IMM, .dst = 2, .aux = 1 },
		{ .op = OPENREG_V_RED_MAX, .b = OPENREG_VNONE, .c = 1 },
	};
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = COUNT(size),
		.nops = COUNT(ops),
		.nimm = COUNT(imm),
		.ninstr = COUNT(instr),
		.size = size,
		.ops = ops,
		.imm = imm,
		.instr = instr,
	};

	make_dump(d, &cmd);
}

#define BATCH 256

/* Files that one run of the tool reads. */
struct batch {
	const struct files *files;
	unsigned int used;
};

/* Returns the tool's exit status. */
static int batch_run(struct batch *b)
{
	char all[64];
	int status;

	snprintf(all, sizeof(all), "%s/*", b->files->dir);
	status = read_dump(CHECKED_TOOL, all, text, sizeof(text));
	if (status > 1)
		fail_msg("status %d, in the end:\n%s", status,
			 text + (strlen(text) > 8192 ? strlen(text) - 8192 : 0));
	b->used = 0;
	return status;
}

static void batch_put(struct batch *b, const struct openreg_dump *d, size_t n)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%03u", b->files->dir, b->used++);
	write_file(path, d, n);
}

static void batch_add(struct batch *b, const struct openreg_dump *d)
{
	batch_put(b, d, sizeof(*d));
	if (b->used == BATCH)
		batch_run(b);
}

static unsigned int count(const char *part)
{
	unsigned int n = 0;

	for (const char *at = text; (at = strstr(at, part)); at++)
		n++;
	return n;
}

static void test_truncated(void **state)
{
	struct batch b = { .files = *state };
	struct openreg_dump d;
	unsigned int files;

	make_program(&d);
	for (size_t n = 0; n < sizeof(d); n += n < sizeof(d) - 16 ? 31 : 1)
		batch_put(&b, &d, n);
	files = b.used;
	assert_int_equal(batch_run(&b), 1);
	assert_int_equal(count("is no dump"), files);
	write_file(b.files->file, &d, sizeof(d));
	assert_int_equal(read_dump(CHECKED_TOOL, b.files->file, text,
				   sizeof(text)), 0);
	has(text, "instruction 5: RED_MAX f32 r0, operand 0, none, immediate 1 ");
}

/* Dumps of the first drivers end before late, the unanswered command. */
static void test_old(void **state)
{
	const struct files *f = *state;
	const size_t size = offsetof(struct openreg_dump, late);
	struct openreg_dump d;

	assert_int_equal(size, 2784);
	make_program(&d);
	d.size = (uint32_t)size;
	d.late.ms = 1;
	for (size_t n = size; n <= sizeof(d); n += sizeof(d.late)) {
		write_file(f->file, &d, n);
		assert_int_equal(read_dump(CHECKED_TOOL, f->file, text,
					   sizeof(text)), 0);
		has(text, "instruction 5: RED_MAX ");
		lacks(text, "\ncommand ");
	}
	d.size--;
	write_file(f->file, &d, sizeof(d));
	assert_int_equal(read_dump(CHECKED_TOOL, f->file, text, sizeof(text)),
			 1);
}

/* The length in the packet's header is too short. */
static void test_short_packet(void **state)
{
	const struct files *f = *state;
	struct openreg_dump d;

	for (uint8_t slots = 0; slots < 3; slots++) {
		make_program(&d);
		assert_true(d.slots[1] > slots);
		d.slots[1] = slots;
		write_file(f->file, &d, sizeof(d));
		assert_int_equal(read_dump(CHECKED_TOOL, f->file, text,
					   sizeof(text)), 0);
		has(text, "  the packet's fields do not fit in its length\n");
	}
}

static void test_flipped(void **state)
{
	struct batch b = { .files = *state };
	struct openreg_dump d, flipped;
	size_t bits;

	make_program(&d);
	bits = d.slots[1] * OPENREG_SLOT_SIZE * 8;
	for (size_t i = 0; i < bits; i++) {
		flipped = d;
		flipped.slots[i / 8] ^= (uint8_t)(1 << i % 8);
		batch_add(&b, &flipped);
	}
	batch_run(&b);
}

/* Flips each bit of the arguments of each opcode. */
static void test_flipped_arguments(void **state)
{
	struct batch b = { .files = *state };
	const size_t at = sizeof(struct openreg_packet) +
			  offsetof(struct openreg_op, arg);
	struct openreg_dump d;

	for (unsigned int i = 0; i < 32 * OPENREG_OP_END; i++) {
		make_program(&d);
		d.slots[0] = (uint8_t)(i / 32);
		d.slots[at + i % 32 / 8] ^= (uint8_t)(1 << i % 8);
		batch_add(&b, &d);
	}
	batch_run(&b);
}

/* Random bytes at random places of the dump, or everywhere except in its header. */
static void test_noise(void **state)
{
	struct batch b = { .files = *state };
	struct openreg_dump d, bad;
	uint16_t at[8];
	uint8_t bytes[sizeof(d)];

	make_program(&d);
	for (unsigned int i = 0; i < 384; i++) {
		bad = d;
		noise(bytes, sizeof(bytes), 2 * i);
		noise(at, sizeof(at), 2 * i + 1);
		for (unsigned int k = 0; k < COUNT(at); k++)
			((uint8_t *)&bad)[at[k] % sizeof(bad)] = bytes[k];
		batch_add(&b, &bad);
		memcpy(&bad, bytes, sizeof(bad));
		memcpy(&bad, &d, offsetof(struct openreg_dump, card));
		memcpy(&bad.slots, &d.slots, i % 48);
		batch_add(&b, &bad);
	}
	batch_run(&b);
}

static void test_bad_files(void **state)
{
	const struct files *f = *state;
	char bytes[8192] = "";

	write_file(f->file, bytes, 0);
	assert_int_equal(read_dump(TOOL, f->file, text, sizeof(text)), 1);
	has(text, "is no dump");
	memset(bytes, 0xff, sizeof(bytes));
	memcpy(bytes, "ORDM\1\0\0\0", 8);
	write_file(f->file, bytes, sizeof(bytes));
	assert_int_equal(read_dump(TOOL, f->file, text, sizeof(text)), 0);
	has(text, "do not fit in its length");
	bytes[4] = 2;
	write_file(f->file, bytes, sizeof(bytes));
	assert_int_equal(read_dump(TOOL, f->file, text, sizeof(text)), 1);
	has(text, "is no dump of openreg, version 1");
	assert_int_equal(unlink(f->file), 0);
	assert_int_equal(read_dump(TOOL, f->file, text, sizeof(text)), 1);
	has(text, "No such file");
	assert_int_equal(read_dump(TOOL, "--bad", text, sizeof(text)), 2);
	has(text, "usage");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_truncated),
		FILES_TEST(test_old),
		FILES_TEST(test_short_packet),
		FILES_TEST(test_flipped),
		FILES_TEST(test_flipped_arguments),
		FILES_TEST(test_noise),
		FILES_TEST(test_bad_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
