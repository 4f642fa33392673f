// SPDX-License-Identifier: GPL-2.0-only
/* Parameters of the module that are nonsense, or at their ends. */
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
				   "99999999999999999999" };
#define BAD (sizeof(bad) / sizeof(bad[0]))

static int load(const char *parameters)
{
	int ret, fd = open(getenv("OPENREG_KO"), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
	close(fd);
	return ret;
}

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

/* Refused, and nothing has changed. */
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

/* With none every command may be late, and what comes of it is a reset. */
TEST_F_TIMEOUT(parameters, none_and_the_most, 240)
{
	long long before;
	char text[32];
	int i, ret, late = 0;

	EXPECT_EQ(0, driver_set_timeout("4294967295"));
	before = resets();
	EXPECT_EQ(0, card_works());
	EXPECT_EQ(before, resets());
	EXPECT_EQ(0, driver_set_timeout("0"));
	EXPECT_EQ(0, file_get(TIMEOUT, text, sizeof(text)));
	EXPECT_STREQ("0", text);
	before = resets();
	for (i = 0; i < 20; i++) {
		ret = card_works();
		EXPECT_TRUE(!ret || ret == -EIO) TH_LOG("%d", ret);
		late += !!ret;
	}
	EXPECT_EQ(0, driver_set_timeout("20000"));
	EXPECT_EQ(0, card_await());
	EXPECT_TRUE(!late || resets() > before);
}

/* The module does not load with them, and does without. */
TEST_F_TIMEOUT(parameters, nonsense_at_load, 240)
{
	char parameters[64];
	unsigned int i;
	int ret;

	card_unused();
	do {
		ret = syscall(SYS_delete_module, "openreg", O_NONBLOCK);
	} while (ret && errno == EAGAIN);
	ASSERT_EQ(0, ret);
	for (i = 0; i < BAD; i++) {
		snprintf(parameters, sizeof(parameters), "admin_timeout_ms=%s",
			 bad[i]);
		ret = load(parameters);
		EXPECT_TRUE(ret == -EINVAL || ret == -ERANGE)
			TH_LOG("%s: %d", parameters, ret);
	}
	EXPECT_EQ(-1, access("/sys/module/openreg", F_OK));
	ASSERT_EQ(0, load(""));
}

TEST_HARNESS_MAIN
