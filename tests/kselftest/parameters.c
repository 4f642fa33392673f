// SPDX-License-Identifier: GPL-2.0-only
/* Module parameters: bad values, and the limits of the range. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"

#include "card.h"
#include "machine.h"

#define TIMEOUT "/sys/module/openreg/parameters/admin_timeout_ms"

static const char *const bad[] = { "-1", "x", " ", "1.5", "4294967296",
				   "99999999999999999999", "1", "499" };
#define BAD (sizeof(bad) / sizeof(bad[0]))

static long long resets(void)
{
	return card_stat("resets");
}

FIXTURE(parameters)
{
	int unused;
};

FIXTURE_SETUP(parameters)
{
}

FIXTURE_TEARDOWN(parameters)
{
	EXPECT_EQ(0, card_works());
}

/* Bad values are refused and change nothing. */
TEST_F(parameters, nonsense)
{
	char text[32];
	struct stat st;
	unsigned int i;
	int ret;

	for (i = 0; i < BAD; i++) {
		ret = driver_set_timeout(bad[i]);
		EXPECT_TRUE(ret == -EINVAL || ret == -ERANGE)
			TH_LOG("%s: %d", bad[i], ret);
		EXPECT_EQ(0, file_get(TIMEOUT, text, sizeof(text)));
		EXPECT_STREQ("20000", text);
	}
	EXPECT_EQ(0, stat(TIMEOUT, &st));
	EXPECT_EQ(0644, st.st_mode & 0777);
}

/* No limit, the lowest and the highest value: the card works and is not reset. */
TEST_F_TIMEOUT(parameters, ends_of_the_range, 240)
{
	static const char *const good[] = { "0", "500", "4294967295" };
	long long before = resets();
	unsigned int i, turn;
	char text[32];

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		EXPECT_EQ(0, driver_set_timeout(good[i]));
		EXPECT_EQ(0, file_get(TIMEOUT, text, sizeof(text)));
		EXPECT_STREQ(good[i], text);
		for (turn = 0; turn < 10; turn++)
			EXPECT_EQ(0, card_works());
	}
	EXPECT_EQ(before, resets());
	EXPECT_EQ(0, driver_set_timeout("20000"));
}

/* The module does not load with a bad value, and loads without it. */
TEST_F_TIMEOUT(parameters, nonsense_at_load, 240)
{
	char parameters[64];
	unsigned int i;
	int ret;

	card_unused();
	ASSERT_EQ(0, module_unload());
	for (i = 0; i < BAD; i++) {
		snprintf(parameters, sizeof(parameters), "admin_timeout_ms=%s",
			 bad[i]);
		ret = module_load_with(parameters);
		EXPECT_TRUE(ret == -EINVAL || ret == -ERANGE)
			TH_LOG("%s: %d", parameters, ret);
	}
	EXPECT_EQ(-1, access("/sys/module/openreg", F_OK));
	ASSERT_EQ(0, module_load());
}

TEST_F_TIMEOUT(parameters, no_limit_at_load, 240)
{
	card_unused();
	ASSERT_EQ(0, module_unload());
	ASSERT_EQ(0, module_load_with("admin_timeout_ms=0"));
	EXPECT_EQ(0, card_works());
	EXPECT_EQ(0, resets());
	ASSERT_EQ(0, module_unload());
	ASSERT_EQ(0, module_load());
}

TEST_HARNESS_MAIN
