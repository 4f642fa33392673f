// SPDX-License-Identifier: GPL-2.0-only
// test neighbour: --monitor --device-prop multifunction=on --device pci-testdev,bus=port0,addr=0.1
// test neighbour-iommu not kselftest-checked: --monitor --iommu --device-prop multifunction=on --device pci-testdev,bus=port0,addr=0.1
/*
 * Others on the card's bus: a second function of its slot without a driver, and a CPU
 * that reads the bridge above while the card is reset.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/io.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kselftest_harness.h"

#include "bus.h"
#include "card.h"
#include "machine.h"

FIXTURE(neighbour)
{
	char slot[64], port[64];
	char accel[64];
	long long resets;
	int fd, events, errors;
	struct queue q;
	struct bo vram;
	struct packet p;
	pthread_t thread;
};

FIXTURE_SETUP(neighbour)
{
	char other[64], path[128];

	ASSERT_EQ(0, card_works());
	ASSERT_TRUE(monitor_open());
	ASSERT_TRUE(slot_of_card(self->slot, sizeof(self->slot)));
	ASSERT_TRUE(slot_of_port(self->slot, self->port, sizeof(self->port)));
	ASSERT_TRUE(port_has_aer(self->port));
	snprintf(other, sizeof(other), "%s", self->slot);
	other[strlen(other) - 1] = '1';
	snprintf(path, sizeof(path), PCI_DEVICES "%s/config", other);
	ASSERT_EQ(0, access(path, F_OK));
	snprintf(path, sizeof(path), PCI_DEVICES "%s/driver", other);
	ASSERT_NE(0, access(path, F_OK));
	ASSERT_TRUE(accel_find(self->accel, sizeof(self->accel)));
	self->events = uevents_open();
	ASSERT_LE(0, self->events);
	self->errors = uevents_open();
	ASSERT_LE(0, self->errors);
	self->resets = card_stat("resets");
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
}

FIXTURE_TEARDOWN(neighbour)
{
	close(self->fd);
	close(self->events);
	close(self->errors);
	EXPECT_EQ(0, card_works());
}

/* Since 6.18 the PCI core tells drivers that a recovery has failed. */
static bool bus_reports_failure(void)
{
	unsigned int major, minor;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	return major > 6 || (major == 6 && minor >= 18);
}

static void *wait_for_ever(void *data)
{
	return (void *)(intptr_t)queue_wait(data, 1000, FOREVER);
}

/*
 * The recovery fails, because the second function has no driver. A kernel before 6.18 does
 * not tell the card's driver that the recovery has failed.
 */
TEST_F_TIMEOUT(neighbour, fatal_bus_error, 120)
{
	volatile char *mark = (volatile char *)self->vram.cpu + 4096;
	struct drm_openreg_device_info info;
	void *result;

	*mark = 1;
	packet_wait(&self->p, self->vram.address);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, wait_for_ever,
				    &self->q));
	ASSERT_TRUE(monitor_human("pcie_aer_inject_error port0 DLP"));
	pthread_join(self->thread, &result);
	EXPECT_EQ(-EIO, (int)(intptr_t)result);
	EXPECT_TRUE(recovery_fails(self->errors));
	if (bus_reports_failure())
		EXPECT_TRUE(wedged_event_sent(self->events, self->accel));

	/* The card is wedged until it is reset by the bus. */
	EXPECT_LT(self->resets, card_stat("resets"));
	EXPECT_EQ(-EIO, card_info(self->fd, &info));
	EXPECT_EQ(0, *mark);
	EXPECT_EQ(OPENREG_QUEUE_FAULTED, self->q.card->state);
	EXPECT_EQ(0, slot_put(self->slot, "reset", "1"));
	EXPECT_EQ(0, card_works());
	EXPECT_EQ(0, card_info(self->fd, &info));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 0));
	EXPECT_TRUE(no_wedged_event(self->events));
}

static int slot_express(const char *slot, __u8 *at)
{
	__u8 header[2];
	int ret = slot_read(slot, PCI_CAPABILITY_LIST, at, sizeof(*at));

	while (!ret && *at) {
		ret = slot_read(slot, *at, header, sizeof(header));
		if (ret || header[0] == PCI_CAP_ID_EXP)
			return ret;
		*at = header[1];
	}
	return ret ? ret : -ENOENT;
}

/* Resets the function by config space, so that the driver stops nothing first. */
static int slot_reset_function(const char *slot)
{
	__u8 header[PCI_STD_HEADER_SIZEOF], at;
	__u16 control;
	int ret = slot_read(slot, 0, header, sizeof(header));

	ret = ret ? ret : slot_express(slot, &at);
	ret = ret ? ret : slot_read(slot, at + PCI_EXP_DEVCTL, &control,
				    sizeof(control));
	control |= PCI_EXP_DEVCTL_BCR_FLR;
	ret = ret ? ret : slot_write(slot, at + PCI_EXP_DEVCTL, &control,
				     sizeof(control));
	usleep(100000);
	ret = ret ? ret : slot_write(slot, PCI_BASE_ADDRESS_0,
				     header + PCI_BASE_ADDRESS_0, 24);
	return ret ? ret : slot_write(slot, PCI_COMMAND, header + PCI_COMMAND,
				      2);
}

/*
 * The config address register of the same bridge. Reads return the address that the
 * kernel wrote last, and need no lock of the kernel.
 */
#define CONFIG_ADDRESS 0xcf8
#define CONFIG_ENABLED 0x80000000

struct watch {
	bool stop; /* atomic */
	unsigned long reads, wrong;
};

static void *watch_bridge(void *data)
{
	struct watch *w = data;

	ioperm(CONFIG_ADDRESS, 4, 1);
	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		w->wrong += !(inl(CONFIG_ADDRESS) & CONFIG_ENABLED);
		w->reads++;
	}
	return NULL;
}

/* A reset waits until the card has stopped. Other accesses to the bridge do not. */
TEST_F_TIMEOUT(neighbour, reset_of_a_card_at_work, 120)
{
	struct watch w = {};
	int i;

	if (ioperm(CONFIG_ADDRESS, 4, 1) && errno == ENOSYS)
		SKIP(return, "this kernel allows no access to I/O ports");
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, watch_bridge, &w));
	packet_endless(&self->p, self->vram.address, self->vram.address + 64);
	for (i = 0; i < 10; i++) {
		queue_push(&self->q, &self->p);
		EXPECT_EQ(-ETIME, queue_wait(&self->q, 1, SEC_NS / 100));
		ASSERT_EQ(0, slot_reset_function(self->slot));
		ASSERT_EQ(0, slot_put(self->slot, "reset", "1"));
		ASSERT_EQ(0, card_await());
		queue_unmap(&self->q);
		close(self->fd);
		self->fd = card_open();
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
		ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
				       &self->vram));
	}
	__atomic_store_n(&w.stop, true, __ATOMIC_RELAXED);
	pthread_join(self->thread, NULL);
	EXPECT_LT(0, w.reads);
	EXPECT_EQ(0, w.wrong);
}

TEST_HARNESS_MAIN
