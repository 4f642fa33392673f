// SPDX-License-Identifier: GPL-2.0-only
// test nocard not kselftest-checked: --cards 0
/* A machine without a card: the driver loads and logs nothing. */
#include <errno.h>
#include <string.h>
#include <sys/klog.h>

#include "kselftest_harness.h"

#include "card.h"

TEST(driver_is_loaded)
{
	EXPECT_EQ(0, access("/sys/module/openreg", F_OK));
}

TEST(there_is_no_node)
{
	EXPECT_EQ(-ENOENT, card_open());
}

/* Ignores the kernel's own messages about an out-of-tree module. */
TEST(driver_says_nothing)
{
	static char log[1 << 20];
	char *line, *save;
	int len = klogctl(3 /* read all */, log, sizeof(log) - 1);

	ASSERT_LT(0, len);
	for (line = strtok_r(log, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (strstr(line, "openreg-init") || strstr(line, "taint"))
			continue;
		EXPECT_EQ(NULL, strstr(line, "openreg")) TH_LOG("%s", line);
	}
}

TEST_HARNESS_MAIN
