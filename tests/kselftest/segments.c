// SPDX-License-Identifier: GPL-2.0-only
// test segments not kselftest-checked
/* A process can hold as many buffer objects as the card has segments. */
#include <errno.h>

#include "kselftest_harness.h"

#include "card.h"

FIXTURE(segments)
{
	int fd;
	struct drm_openreg_device_info info;
};

FIXTURE_SETUP(segments)
{
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, card_info(self->fd, &self->info));
}

FIXTURE_TEARDOWN(segments)
{
	close(self->fd);
}

TEST_F_TIMEOUT(segments, as_many_as_there_are_segments, 280)
{
	unsigned int n = 0, last = 0;
	struct bo bo;
	int ret;

	do {
		ret = bo_create(self->fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo);
		n += !ret;
		last = ret ? last : bo.handle;
	} while (!ret && n <= self->info.max_segments);
	EXPECT_EQ(-ENOSPC, ret);
	EXPECT_EQ(self->info.max_segments, n);
	/* After closing one object, one more can be created. */
	ASSERT_EQ(0, bo_close(self->fd, last));
	EXPECT_EQ(0, bo_create(self->fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo));
}

TEST_HARNESS_MAIN
