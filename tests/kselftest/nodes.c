// SPDX-License-Identifier: GPL-2.0-only
/* /dev/openreg and /dev/accel/accelN are two nodes of one device. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "kselftest_harness.h"

#include "card.h"
#include "machine.h"

FIXTURE(nodes)
{
	int fd[2];
	char accel[64]; /* /dev/accel/accelN */
};

FIXTURE_SETUP(nodes)
{
	card_unused(); /* the driver frees memory of earlier tests in its own time */
	self->fd[0] = open(NODE, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->fd[0]) TH_LOG(NODE ": %s", strerror(errno));
	ASSERT_TRUE(accel_find(self->accel, sizeof(self->accel)));
	self->fd[1] = open(self->accel, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->fd[1])
		TH_LOG("%s: %s", self->accel, strerror(errno));
}

FIXTURE_TEARDOWN(nodes)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

TEST_F(nodes, same_mode)
{
	struct stat a, b;

	ASSERT_EQ(0, stat(NODE, &a));
	ASSERT_EQ(0, stat(self->accel, &b));
	EXPECT_TRUE(S_ISCHR(a.st_mode));
	EXPECT_EQ(a.st_mode, b.st_mode);
	EXPECT_EQ(0666, a.st_mode & 0777);
	EXPECT_EQ(a.st_uid, b.st_uid);
	EXPECT_EQ(a.st_gid, b.st_gid);
}

/* Both nodes have the same PCI device as parent. */
TEST_F(nodes, same_parent)
{
	char path[PATH_MAX], a[PATH_MAX], b[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/accel/%s/device",
		 strrchr(self->accel, '/') + 1);
	ASSERT_NE(NULL, realpath("/sys/class/misc/openreg/device", a));
	ASSERT_NE(NULL, realpath(path, b));
	EXPECT_STREQ(a, b);
}

TEST_F(nodes, same_card)
{
	struct drm_openreg_device_info info[2] = {};

	ASSERT_EQ(0, card_info(self->fd[0], &info[0]));
	ASSERT_EQ(0, card_info(self->fd[1], &info[1]));
	EXPECT_EQ(0, memcmp(&info[0], &info[1], sizeof(info[0])));
	EXPECT_NE(0, info[0].pci);
}

TEST_F(nodes, same_memory)
{
	struct drm_openreg_memory_info before, after;
	struct bo bo;
	int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, card_memory(self->fd[!i], &before));
		ASSERT_EQ(0, bo_create(self->fd[i], 8 * MIB,
				       DRM_OPENREG_BO_VRAM, &bo));
		ASSERT_EQ(0, card_memory(self->fd[!i], &after));
		EXPECT_EQ(before.vram_free - 8 * MIB, after.vram_free);
		EXPECT_EQ(before.process_vram, after.process_vram);
		ASSERT_EQ(0, card_memory(self->fd[i], &after));
		EXPECT_EQ(8 * MIB, after.process_vram);
	}
}

TEST_F(nodes, both_work)
{
	struct queue q[2];
	struct packet p;
	struct bo bo[2];
	int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, queue_create(self->fd[i], 64, &q[i]));
		ASSERT_EQ(0, bo_create(self->fd[i], 4096, DRM_OPENREG_BO_VRAM,
				       &bo[i]));
		ASSERT_EQ(0, bo_map(self->fd[i], &bo[i]));
		packet_fill(&p, bo[i].address, 1024, OPENREG_I32, 7 + i);
		queue_push(&q[i], &p);
	}
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, queue_wait(&q[i], 1, 20 * SEC_NS));
		EXPECT_EQ(7 + i, ((int *)bo[i].cpu)[1023]);
	}
}

/* Files of different nodes have separate contexts. */
TEST_F(nodes, files_are_apart)
{
	struct drm_openreg_bo_info info = {};
	struct bo bo;

	ASSERT_EQ(0, bo_create(self->fd[0], 4096, DRM_OPENREG_BO_SYSTEM, &bo));
	info.handle = bo.handle;
	EXPECT_EQ(-ENOENT, card_ioctl(self->fd[1], DRM_IOCTL_OPENREG_BO_INFO,
				      &info));
	EXPECT_EQ(-EACCES, bo_map(self->fd[1], &bo));
}

TEST_HARNESS_MAIN
