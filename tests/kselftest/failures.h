/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fixture of failures*.c, which have a SWEEP() for each call. Needs a kernel with
 * fault injection, such as the debug kernel.
 */
#ifndef OPENREG_TEST_FAILURES_H
#define OPENREG_TEST_FAILURES_H

#include <sys/mman.h>

#include "kselftest_harness.h"

#include "fail.h"
#include "sweep.h"

FIXTURE(failures)
{
	struct card_usage before;
	struct world w;
};

static int *points; /* failures so far, of all tests; shared, as each test is a process */
static int set_up; /* result of fail_setup() */

__attribute__((constructor)) static void begin(void)
{
	points = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fail_available())
		set_up = fail_setup();
}

FIXTURE_SETUP(failures)
{
	if (!fail_available())
		SKIP(return, "this kernel has no fault injection");
	ASSERT_EQ(0, set_up);
	self->before = card_unused();
	ASSERT_EQ(0, world_open(&self->w));
}

FIXTURE_TEARDOWN(failures)
{
	world_close(&self->w);
	EXPECT_TRUE(card_settles(self->before));
}

FIXTURE_VARIANT(failures)
{
	struct sweep sweep;
};

#define SWEEP(name, ...)						\
	FIXTURE_VARIANT_ADD(failures, name) { .sweep = { __VA_ARGS__ } }

TEST_F_TIMEOUT(failures, one_by_one, 280)
{
	struct sweep_result result = sweep_run(&self->w, &variant->sweep);

	EXPECT_EQ(0, result.wrong);
	__atomic_add_fetch(points, result.injected, __ATOMIC_RELAXED);
	TH_LOG("%d failures, %d so far", result.injected, *points);
}

#endif
