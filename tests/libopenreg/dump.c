// SPDX-License-Identifier: MIT
/*
 * The driver leaves a dump of a fault, and openreg-dump reads it. For those of hangs
 * see tests/kselftest/hang.c.
 */
#include <errno.h>
#include <glob.h>
#include <unistd.h>

#include "dumps.h"

#define PATTERN "/sys/class/devcoredump/devcd*/data"
#define DEVICES "/sys/devices/virtual/devcoredump/devcd*"

/* The first one becomes the only one. */
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
	/* They go later; until then there is no new one. */
	for (int i = 0; i < 1000; i++) {
		if (glob(DEVICES, 0, NULL, &found) == GLOB_NOMATCH)
			return;
		globfree(&found);
		usleep(10000);
	}
	fail_msg("dumps that are dropped stay");
}

static bool there_is_one(void)
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

static void test_fault(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	const int64_t size[] = { 8, 16 }, stride[] = { 16, 1 };
	const struct openreg_tensor t =
		openreg_view(address(bo) + 4032, OPENREG_I32, stride);
	char text[8192], part[64];

	drop_dumps();
	ok(openreg_push_nop(c->q));
	ok(openreg_push_fill(c->q, 2, size, &t, 0x1234));
	run_fault(c);
	assert_true(there_is_one());
	assert_int_equal(read_dump(TOOL, "", text, sizeof(text)), 0);
	has(text, "reason     out of bounds");
	has(text, "by dump[");
	has(text, "packet     2, FILL");
	has(text, "operand    0");
	has(text, "faulted");
	has(text, "sizes [8, 16]");
	has(text, "strides [16, 1]");
	has(text, "immediate 0 (element): 0x0000000000001234");
	has(text, "STAT_FAULTS");
	snprintf(part, sizeof(part), "operand 0 (destination): i32 at 0x%016llx (card 0",
		 (unsigned long long)t.address);
	has(text, part);
	drop_dumps();
	openreg_bo_free(bo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fault, card_open, card_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
