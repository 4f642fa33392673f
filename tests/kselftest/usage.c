// SPDX-License-Identifier: GPL-2.0-only
/* The driver reports about its users in fdinfo, sysfs and trace events. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "kselftest_harness.h"

#include "card.h"
#include "machine.h"
#include "pair.h"

#define TRACING "/sys/kernel/tracing/"

/* Gets the value of "name:\tvalue" in fdinfo. Returns false if not exactly one line. */
static bool fdinfo_text(int fd, const char *name, char *value, size_t size)
{
	size_t n = strlen(name);
	char path[64], line[256];
	int found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, n) || line[n] != ':')
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(value, size, "%s",
			 line + n + 1 + strspn(line + n + 1, " \t"));
		found++;
	}
	if (file)
		fclose(file);
	return found == 1;
}

/* Returns a number of fdinfo, in bytes if its unit is KiB or MiB, or -1. */
static long long fdinfo(int fd, const char *name)
{
	char text[64], unit[8] = "";
	long long value;

	if (!fdinfo_text(fd, name, text, sizeof(text)) ||
	    sscanf(text, "%lld %7s", &value, unit) < 1)
		return -1;
	return value << (!strcmp(unit, "KiB") ? 10 :
			 !strcmp(unit, "MiB") ? 20 : 0);
}

static int work(struct queue *queue, struct bo *bo, __u64 count)
{
	struct packet p;

	packet_busy(&p, bo->address, bo->address + 64, count);
	return queue_wait(queue, queue_push(queue, &p), 60 * SEC_NS);
}

TEST(memory_of_each_node)
{
	char *user = aligned_alloc(MIB, 4 * MIB);
	struct bo vram, system, registered;
	char accel[64] = NODE;
	glob_t found;
	int i, fd;

	ASSERT_NE(NULL, user);
	memset(user, 1, 4 * MIB);
	ASSERT_EQ(0, glob("/dev/accel/accel*", 0, NULL, &found));
	for (i = 0; i < 2; i++) {
		fd = open(accel, O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, fd);
		EXPECT_EQ(0, fdinfo(fd, "drm-total-vram"));
		EXPECT_EQ(0, fdinfo(fd, "drm-engine-card"));
		EXPECT_LT(0, fdinfo(fd, "drm-client-id"));
		ASSERT_EQ(0, bo_create(fd, 8 * MIB, DRM_OPENREG_BO_VRAM, &vram));
		ASSERT_EQ(0, bo_create(fd, 2 * MIB, DRM_OPENREG_BO_SYSTEM,
				       &system));
		ASSERT_EQ(0, bo_register(fd, user, 4 * MIB, 0, &registered));
		EXPECT_EQ(8 * MIB, fdinfo(fd, "drm-total-vram"));
		EXPECT_EQ(8 * MIB, fdinfo(fd, "drm-resident-vram"));
		EXPECT_EQ(2 * MIB, fdinfo(fd, "drm-total-system"));
		EXPECT_EQ(4 * MIB, fdinfo(fd, "drm-total-user"));
		ASSERT_EQ(0, bo_close(fd, vram.handle));
		ASSERT_EQ(0, bo_close(fd, registered.handle));
		EXPECT_EQ(0, fdinfo(fd, "drm-total-vram"));
		EXPECT_EQ(2 * MIB, fdinfo(fd, "drm-total-system"));
		EXPECT_EQ(0, fdinfo(fd, "drm-total-user"));
		close(fd);
		snprintf(accel, sizeof(accel), "%s", found.gl_pathv[0]);
	}
	globfree(&found);
	free(user);
}

static bool is_of_card(int fd, unsigned int card)
{
	char driver[64], device[64], slot[64];
	bool found;

	card_choose(card);
	found = slot_of_card(slot, sizeof(slot));
	card_choose(0);
	return found && fdinfo_text(fd, "drm-driver", driver, sizeof(driver)) &&
	       fdinfo_text(fd, "drm-pdev", device, sizeof(device)) &&
	       !strcmp(driver, "openreg") && !strcmp(device, slot);
}

/* Both nodes report driver and device. Each file has its own client id. */
TEST(driver_and_client)
{
	char accel[64];
	int i, j, fd[4];

	ASSERT_TRUE(accel_find(accel, sizeof(accel)));
	fd[0] = card_open();
	fd[1] = card_open();
	fd[2] = open(accel, O_RDWR | O_CLOEXEC);
	fd[3] = open(SECOND, O_RDWR | O_CLOEXEC);
	for (i = 0; i < 4; i++) {
		ASSERT_LE(0, fd[i]);
		EXPECT_TRUE(is_of_card(fd[i], i == 3)) TH_LOG("file %d", i);
		for (j = 0; i < 3 && j < i; j++)
			EXPECT_NE(fdinfo(fd[i], "drm-client-id"),
				  fdinfo(fd[j], "drm-client-id"));
	}
	for (i = 0; i < 4; i++)
		close(fd[i]);
}

static bool holds(int fd, const char *region, long long total, long long shared)
{
	const char *name[] = { "total", "resident", "shared" };
	const long long value[] = { total, total, shared };
	long long found;
	char line[32];
	int i;

	for (i = 0; i < 3; i++) {
		snprintf(line, sizeof(line), "drm-%s-%s", name[i], region);
		found = fdinfo(fd, line);
		if (found == value[i])
			continue;
		fprintf(stderr, "# %s is %lld, not %lld\n", line, found,
			value[i]);
		return false;
	}
	return true;
}

/* Shared memory counts in full, and as shared, for both files. */
TEST(shared_memory)
{
	const char *region[] = { "vram", "system" };
	const __u32 flags[] = { DRM_OPENREG_BO_VRAM, DRM_OPENREG_BO_SYSTEM };
	int i, dma_buf, fd = card_open(), other = card_open();
	struct bo bo, own, in;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, bo_create(fd, 2 * MIB, flags[i], &own));
		ASSERT_EQ(0, bo_create(fd, 8 * MIB, flags[i], &bo));
		EXPECT_TRUE(holds(fd, region[i], 10 * MIB, 0));
		dma_buf = bo_export(fd, bo.handle, DRM_CLOEXEC);
		ASSERT_LE(0, dma_buf);
		EXPECT_TRUE(holds(fd, region[i], 10 * MIB, 8 * MIB));
		ASSERT_EQ(0, bo_import(other, dma_buf, &in));
		close(dma_buf);
		EXPECT_TRUE(holds(other, region[i], 8 * MIB, 8 * MIB));
		EXPECT_TRUE(holds(other, region[!i], 0, 0));
		EXPECT_EQ(0, fdinfo(fd, "openreg-imported"));
		EXPECT_EQ(8 * MIB, fdinfo(other, "openreg-imported"));
		ASSERT_EQ(0, bo_close(fd, bo.handle));
		EXPECT_TRUE(holds(fd, region[i], 2 * MIB, 0));
		EXPECT_TRUE(holds(other, region[i], 8 * MIB, 8 * MIB));
		ASSERT_EQ(0, bo_close(other, in.handle));
		EXPECT_TRUE(holds(other, region[i], 0, 0));
	}
	EXPECT_TRUE(holds(fd, "user", 0, 0));
	close(fd);
	close(other);
}

/* Imports of memory that is not VRAM count as system. */
TEST(imported_memory)
{
	int dma_buf, fd = card_open();
	void *memory;
	struct bo in;

	ASSERT_LE(0, fd);
	dma_buf = udmabuf(2 * MIB, false, &memory);
	ASSERT_LE(0, dma_buf);
	ASSERT_EQ(0, bo_import(fd, dma_buf, &in));
	EXPECT_TRUE(holds(fd, "system", 2 * MIB, 2 * MIB));
	EXPECT_TRUE(holds(fd, "vram", 0, 0));
	EXPECT_TRUE(holds(fd, "user", 0, 0));
	EXPECT_EQ(2 * MIB, fdinfo(fd, "openreg-imported"));
	ASSERT_EQ(0, bo_close(fd, in.handle));
	EXPECT_TRUE(holds(fd, "system", 0, 0));
	EXPECT_EQ(0, fdinfo(fd, "openreg-imported"));
	munmap(memory, 2 * MIB);
	close(dma_buf);
	close(fd);
}

/* Imports from another card count as system and as shared. */
TEST(memory_of_another_card)
{
	const char *region[] = { "vram", "system" };
	const __u32 flags[] = { DRM_OPENREG_BO_VRAM, DRM_OPENREG_BO_SYSTEM };
	int i, dma_buf, fd = card_open();
	int other = open(SECOND, O_RDWR | O_CLOEXEC);
	struct bo bo, in;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, bo_create(fd, 8 * MIB, flags[i], &bo));
		dma_buf = bo_export(fd, bo.handle, RW);
		ASSERT_LE(0, dma_buf);
		ASSERT_EQ(0, bo_import(other, dma_buf, &in));
		close(dma_buf);
		EXPECT_TRUE(holds(other, "system", 8 * MIB, 8 * MIB));
		EXPECT_TRUE(holds(other, "vram", 0, 0));
		EXPECT_TRUE(holds(other, "user", 0, 0));
		EXPECT_TRUE(holds(fd, region[i], 8 * MIB, 8 * MIB));
		EXPECT_TRUE(holds(fd, region[!i], 0, 0));
		ASSERT_EQ(0, bo_close(fd, bo.handle));
		EXPECT_TRUE(holds(fd, region[i], 0, 0));
		EXPECT_TRUE(holds(other, "system", 8 * MIB, 8 * MIB));
		ASSERT_EQ(0, bo_close(other, in.handle));
		EXPECT_TRUE(holds(other, "system", 0, 0));
	}
	close(fd);
	close(other);
}

/* Waits until engine time grows: the card counts it after it completes the packet. */
static bool grows(int fd, long long than)
{
	__s64 end = now_ns() + 20 * SEC_NS;

	while (fdinfo(fd, "drm-engine-card") <= than)
		if (now_ns() > end)
			return false;
	return true;
}

/* Engine time counts for the queue's file, and stays after the queue is destroyed. */
TEST(engine_time)
{
	long long before;
	int fd = card_open(), other = card_open();
	struct queue queue;
	struct bo bo;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, queue_create(fd, 64, &queue));
	ASSERT_EQ(0, work(&queue, &bo, 1 << 20));
	EXPECT_TRUE(grows(fd, 0));
	before = fdinfo(fd, "drm-engine-card");
	ASSERT_EQ(0, work(&queue, &bo, 1 << 22));
	EXPECT_TRUE(grows(fd, before));
	before = fdinfo(fd, "drm-engine-card");
	EXPECT_EQ(1, fdinfo(fd, "openreg-queues"));
	ASSERT_EQ(0, queue_destroy(&queue));
	EXPECT_EQ(0, fdinfo(fd, "openreg-queues"));
	EXPECT_LE(before, fdinfo(fd, "drm-engine-card"));
	EXPECT_EQ(0, fdinfo(other, "drm-engine-card"));

	before = fdinfo(fd, "drm-engine-card");
	ASSERT_EQ(0, queue_create(fd, 64, &queue));
	ASSERT_EQ(0, work(&queue, &bo, 1 << 20));
	EXPECT_TRUE(grows(fd, before));
	close(fd);
	close(other);
}

/* Returns the card's clock, which also measures engine time, or -1. */
static long long card_clock(int fd)
{
	struct drm_openreg_timestamp stamp = {};

	return card_ioctl(fd, DRM_IOCTL_OPENREG_TIMESTAMP, &stamp) ?
	       -1 : (long long)stamp.card;
}

#define QUEUES 4

/* Several threads work. Engine time is at most capacity times elapsed time. */
TEST(engine_capacity)
{
	long long begin, end, busy, capacity;
	struct drm_openreg_device_info info;
	struct queue queue[QUEUES];
	struct packet p;
	struct bo bo;
	int i, fd = card_open();

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, card_info(fd, &info));
	capacity = fdinfo(fd, "drm-engine-capacity-card");
	EXPECT_EQ(info.workers + 1ll, capacity);
	begin = card_clock(fd);
	ASSERT_LE(0, begin);
	ASSERT_EQ(0, bo_create(fd, 16 * MIB, DRM_OPENREG_BO_VRAM, &bo));
	for (i = 0; i < QUEUES; i++) {
		ASSERT_EQ(0, queue_create(fd, 64, &queue[i]));
		packet_busy(&p, bo.address + 64 * i, bo.address + 4096, 1 << 24);
		queue_push(&queue[i], &p);
		packet_copy(&p, bo.address + 8 * MIB, bo.address, 8 * MIB,
			    OPENREG_U8);
		queue_push(&queue[i], &p);
	}
	for (i = 0; i < QUEUES; i++)
		EXPECT_EQ(0, queue_wait(&queue[i], 2, 60 * SEC_NS));
	EXPECT_TRUE(grows(fd, 0));
	busy = fdinfo(fd, "drm-engine-card");
	end = card_clock(fd);
	EXPECT_LE(busy, capacity * (end - begin))
		TH_LOG("%lld ns of %lld in %lld", busy, capacity, end - begin);
	close(fd);
}

static bool in_trace(const char *event, const char *detail)
{
	FILE *file = fopen(TRACING "trace", "r");
	char line[512];
	bool found = false;

	while (!found && file && fgets(line, sizeof(line), file))
		found = strstr(line, event) && strstr(line, detail);
	if (file)
		fclose(file);
	return found;
}

/* Waits for the event: threads of the driver may emit it a little later. */
static bool traced(const char *event, const char *detail)
{
	__s64 end = now_ns() + 20 * SEC_NS;

	while (!in_trace(event, detail))
		if (now_ns() > end)
			return false;
	return true;
}

FIXTURE(trace) { };

FIXTURE_SETUP(trace)
{
	mount("tracefs", TRACING, "tracefs", 0, NULL);
	ASSERT_EQ(0, file_put(TRACING "trace", ""));
	ASSERT_EQ(0, file_put(TRACING "events/openreg/enable", "1"));
}

FIXTURE_TEARDOWN(trace)
{
	ASSERT_EQ(0, file_put(TRACING "events/openreg/enable", "0"));
}

TEST_F(trace, events)
{
	char address[64];
	struct queue queue;
	struct packet p;
	struct bo bo;
	int fd;

	fd = card_open();
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bo_create(fd, 2 * MIB, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, bo_map(fd, &bo));
	ASSERT_EQ(0, queue_create(fd, 64, &queue));
	/* The packet must still run when the wait begins, or no wait event is traced. */
	packet_wait(&p, bo.address);
	EXPECT_EQ(-ETIME, queue_wait(&queue, queue_push(&queue, &p), SEC_NS / 50));
	*(volatile __u64 *)bo.cpu = 1;
	packet_fill(&p, bo.address + 2 * MIB, 4, OPENREG_I32, 0);
	EXPECT_EQ(-EIO, queue_wait(&queue, queue_push(&queue, &p), 20 * SEC_NS));
	EXPECT_EQ(0, queue_reset(&queue, queue.tail, queue.seq));
	EXPECT_EQ(0, queue_destroy(&queue));
	EXPECT_EQ(0, bo_close(fd, bo.handle));
	close(fd);

	snprintf(address, sizeof(address), "address=0x%llx size=%llu",
		 bo.address, 2 * MIB);
	EXPECT_TRUE(traced("openreg_bo_bind:", address));
	EXPECT_TRUE(traced("openreg_bo_close:", address));
	EXPECT_TRUE(traced("openreg_bo_unbound:", address));
	EXPECT_TRUE(traced("openreg_queue_create:", "card=0"));
	EXPECT_TRUE(traced("openreg_queue_reset:", "card=0"));
	EXPECT_TRUE(traced("openreg_queue_destroy:", "card=0"));
	EXPECT_TRUE(traced("openreg_wait_begin:", "seq=1"));
	snprintf(address, sizeof(address), "seq=1 ret=%d", -ETIME);
	EXPECT_TRUE(traced("openreg_wait_end:", address));
	EXPECT_TRUE(traced("openreg_irq:", "vector=0"));
	snprintf(address, sizeof(address), "seq=2 code=%u", OPENREG_FAULT_BOUNDS);
	EXPECT_TRUE(traced("openreg_fault:", address));
}

#define NOBODY 65534

/* Reads a number from usage/ of the card in sysfs as a user without privileges. */
static long long counter(const char *slot, const char *name)
{
	char path[128];
	long long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/usage/%s", slot, name);
	if (seteuid(NOBODY))
		return -1;
	file = fopen(path, "r");
	if (file) {
		if (fscanf(file, "%lld", &value) != 1)
			value = -errno;
		fclose(file);
	}
	return seteuid(0) ? -1 : value;
}

FIXTURE(counters) {
	char slot[64];
};

FIXTURE_SETUP(counters)
{
	ASSERT_TRUE(slot_of_card(self->slot, sizeof(self->slot)));
}

FIXTURE_TEARDOWN(counters)
{
}

TEST_F_TIMEOUT(counters, every_user, 120)
{
	static const char *const names[] = { "compute_ns", "copy_ns", "faults",
					     "queues", "resets" };
	long long resets = card_stat("resets");
	struct queue queue;
	struct packet p;
	const char *slot = self->slot;
	struct bo bo;
	size_t i;
	int fd;

	fd = card_open();
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bo_create(fd, 2 * MIB, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, queue_create(fd, 64, &queue));
	ASSERT_EQ(0, work(&queue, &bo, 1000));
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		EXPECT_EQ(card_stat(names[i]), counter(slot, names[i]))
			TH_LOG("%s", names[i]);
	EXPECT_LT(0, counter(slot, "compute_ns"));
	EXPECT_EQ(1, counter(slot, "queues"));
	packet_fill(&p, bo.address + 2 * MIB, 4, OPENREG_I32, 0);
	EXPECT_EQ(-EIO, queue_wait(&queue, queue_push(&queue, &p), 20 * SEC_NS));
	EXPECT_EQ(card_stat("faults"), counter(slot, "faults"));
	EXPECT_LT(0, counter(slot, "faults"));
	close(fd);
	EXPECT_EQ(0, slot_put(slot, "reset", "1"));
	EXPECT_EQ(0, card_await());
	EXPECT_EQ(resets + 1, counter(slot, "resets"));
	EXPECT_EQ(0, counter(slot, "faults"));
}

TEST_F_TIMEOUT(trace, reset, 120)
{
	char slot[64];

	ASSERT_TRUE(slot_of_card(slot, sizeof(slot)));
	EXPECT_EQ(0, slot_put(slot, "reset", "1"));
	EXPECT_TRUE(traced("openreg_reset:", "card=0 reason=by the bus"));
	EXPECT_EQ(0, card_await());
}

TEST_HARNESS_MAIN
