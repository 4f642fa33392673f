// SPDX-License-Identifier: MIT
/* Checks the allocator of device memory against a map of every unit. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "extent.h"

#define UNITS 4096
#define HELD 256

static bool taken[UNITS];

static uint64_t longest_free(void)
{
	uint64_t run = 0, longest = 0;

	for (unsigned int i = 0; i < UNITS; i++) {
		run = taken[i] ? 0 : run + 1;
		if (run > longest)
			longest = run;
	}
	return longest;
}

static void mark(uint64_t offset, uint64_t size, bool value)
{
	assert_true(offset + size <= UNITS);
	for (uint64_t i = offset; i < offset + size; i++) {
		assert_int_equal(taken[i], !value);
		taken[i] = value;
	}
}

static void check_sums(const struct sim_extents *e)
{
	uint64_t total, largest, free = 0;

	sim_extents_sum(e, &total, &largest);
	for (unsigned int i = 0; i < UNITS; i++)
		free += !taken[i];
	assert_int_equal(total, free);
	assert_int_equal(largest, longest_free());
}

static void test_random(void **state)
{
	uint64_t at[HELD], size[HELD] = { 0 }, x = 88172645463325252ull;
	struct sim_extents e;

	(void)state;
	assert_int_equal(sim_extents_init(&e, UNITS), 0);
	for (unsigned int i = 0; i < 20000; i++) {
		unsigned int k;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		k = x % HELD;
		if (size[k]) {
			mark(at[k], size[k], false);
			assert_int_equal(sim_extents_give(&e, at[k], size[k]), 0);
			size[k] = 0;
		} else {
			uint64_t want = 1 + (x >> 32) % 40;
			int ret = sim_extents_take(&e, want, &at[k]);

			assert_int_equal(ret, want > longest_free() ? -ENOSPC : 0);
			if (!ret)
				mark(at[k], size[k] = want, true);
		}
		if (i % 64 == 0)
			check_sums(&e);
	}
	for (unsigned int k = 0; k < HELD; k++)
		if (size[k]) {
			mark(at[k], size[k], false);
			sim_extents_give(&e, at[k], size[k]);
		}
	check_sums(&e);
	assert_int_equal(sim_extents_take(&e, UNITS, &at[0]), 0);
	assert_int_equal(sim_extents_take(&e, 1, &at[0]), -ENOSPC);
	sim_extents_fini(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
