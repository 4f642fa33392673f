// SPDX-License-Identifier: GPL-2.0-only
// test recovery: as power
/*
 * A card that hangs is reset, by an FLR if needed. A card that does not start again is
 * wedged, and no call waits for it. Also errors of the PCI bus.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "bus.h"
#include "card.h"
#include "machine.h"
#include "sharing.h"

FIXTURE(recovery)
{
	char slot[64], port[64];
	__u16 command, port_command;
	long long resets;
	char accel[64];
	int fd, events;
	struct queue q;
	struct bo vram, sys;
	struct packet p;
	pthread_t thread;
};

FIXTURE_SETUP(recovery)
{
	ASSERT_EQ(0, card_works());
	ASSERT_TRUE(slot_of_card(self->slot, sizeof(self->slot)));
	ASSERT_TRUE(slot_of_port(self->slot, self->port, sizeof(self->port)));
	ASSERT_EQ(0, slot_command(self->slot, &self->command));
	ASSERT_EQ(0, slot_command(self->port, &self->port_command));
	ASSERT_TRUE(self->command & PCI_COMMAND_MEMORY);
	ASSERT_TRUE(self->command & PCI_COMMAND_MASTER);
	self->resets = card_stat("resets");
	self->fd = card_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, queue_create(self->fd, 64, &self->q));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_VRAM,
			       &self->vram));
	ASSERT_EQ(0, bo_create(self->fd, MIB, DRM_OPENREG_BO_SYSTEM,
			       &self->sys));
	ASSERT_EQ(0, bo_map(self->fd, &self->vram));
	ASSERT_EQ(0, bo_map(self->fd, &self->sys));
	ASSERT_TRUE(accel_find(self->accel, sizeof(self->accel)));
	self->events = uevents_open();
	ASSERT_LE(0, self->events);
	ASSERT_EQ(0, driver_set_timeout("2000"));
}

FIXTURE_TEARDOWN(recovery)
{
	close(self->fd);
	close(self->events);
	EXPECT_EQ(0, slot_set_command(self->port, self->port_command));
	EXPECT_EQ(0, driver_set_timeout("20000"));
	EXPECT_EQ(0, card_works());
}

static void *wait_for_ever(void *data)
{
	struct queue *q = data;

	return (void *)(intptr_t)queue_wait(q, 1000, FOREVER);
}

/* A thread waits for a packet that waits for a word, which is never written. */
#define SLEEP								\
	do {								\
		packet_wait(&self->p, self->vram.address);		\
		queue_push(&self->q, &self->p);				\
		ASSERT_EQ(0, pthread_create(&self->thread, NULL,	\
					    wait_for_ever, &self->q));	\
	} while (0)

#define WAKE_UP								\
	({								\
		void *result_;						\
		pthread_join(self->thread, &result_);			\
		(int)(intptr_t)result_;					\
	})

/* Closes the port above the card, so that the card answers no request. */
#define DIE								\
	do {								\
		__u16 closed_ = self->port_command & ~PCI_COMMAND_MEMORY; \
									\
		SLEEP;							\
		ASSERT_EQ(0, slot_set_command(self->port, closed_));	\
		EXPECT_EQ(-EIO, WAKE_UP);				\
	} while (0)

static bool is_master(const char *slot)
{
	__u16 command;

	return slot_command(slot, &command) || command & PCI_COMMAND_MASTER;
}

/* Registers cannot be read, and the driver finds out only because a thread waits. */
TEST_F_TIMEOUT(recovery, deaf, 120)
{
	SLEEP;
	ASSERT_EQ(0, slot_set_command(self->slot,
				      self->command & ~PCI_COMMAND_MEMORY));
	EXPECT_EQ(-EIO, WAKE_UP);
	ASSERT_EQ(0, card_await());
	EXPECT_EQ(self->resets + 1, card_stat("resets"));
	EXPECT_EQ(OPENREG_QUEUE_FAULTED, self->q.card->state);
	EXPECT_EQ(OPENREG_FAULT_HANG, self->q.card->fault.code);
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 0));
	EXPECT_TRUE(no_wedged_event(self->events));
}

/* Registers can be read, but the card does no DMA and raises no interrupt. */
TEST_F_TIMEOUT(recovery, mute, 120)
{
	__u16 command;

	SLEEP;
	ASSERT_EQ(0, slot_set_command(self->slot,
				      self->command & ~PCI_COMMAND_MASTER));
	EXPECT_EQ(-EIO, WAKE_UP);
	ASSERT_EQ(0, card_await());
	EXPECT_EQ(self->resets + 1, card_stat("resets"));
	ASSERT_EQ(0, slot_command(self->slot, &command));
	EXPECT_EQ(self->command, command);
}

/* As mute, but a call that needs a command finds out. */
TEST_F_TIMEOUT(recovery, mute_to_a_call, 120)
{
	struct bo bo;

	ASSERT_EQ(0, slot_set_command(self->slot,
				      self->command & ~PCI_COMMAND_MASTER));
	EXPECT_EQ(-EIO, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	ASSERT_EQ(0, card_await());
	EXPECT_EQ(-EIO, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(self->resets + 1, card_stat("resets"));
}

/* Arguments for calls on a wedged card. */
struct given {
	__u32 syncobj;
	__u32 handle; /* object that can be exported */
	int dma_buf; /* dma-buf that can be imported */
};

/* Returns how many calls do not fail with EIO. A call that blocks ends the test. */
static unsigned int calls_that_work(int fd, const struct queue *q,
				    const struct given *given)
{
	static char memory[8192];
	struct drm_openreg_bo_create create = {
		.size = 4096, .flags = DRM_OPENREG_BO_VRAM,
	};
	struct drm_openreg_bo_info info = { .handle = 1 };
	struct drm_openreg_mem_register reg = {
		.user_address = (uintptr_t)memory, .size = sizeof(memory),
	};
	struct drm_openreg_queue_create queue = { .slots = 64 };
	struct drm_openreg_queue_destroy destroy = { .queue = 12345 };
	struct drm_openreg_queue_wait wait = {
		.queue = q->id, .seq = 1, .timeout_ns = INT64_MAX,
	};
	struct drm_openreg_queue_reset reset = { .queue = q->id };
	struct drm_openreg_timestamp stamp = {};
	struct drm_openreg_query query = {};
	struct drm_openreg_queue_signal signal = {
		.queue = q->id, .syncobj = given->syncobj, .seq = 1,
	};
	struct drm_prime_handle export = {
		.handle = given->handle, .flags = DRM_CLOEXEC | DRM_RDWR,
	};
	struct drm_prime_handle import = { .fd = given->dma_buf };
	const struct {
		unsigned long request;
		void *arg;
	} calls[] = {
		{ DRM_IOCTL_OPENREG_QUERY, &query },
		{ DRM_IOCTL_OPENREG_BO_CREATE, &create },
		{ DRM_IOCTL_OPENREG_BO_INFO, &info },
		{ DRM_IOCTL_OPENREG_MEM_REGISTER, &reg },
		{ DRM_IOCTL_OPENREG_QUEUE_CREATE, &queue },
		{ DRM_IOCTL_OPENREG_QUEUE_DESTROY, &destroy },
		{ DRM_IOCTL_OPENREG_QUEUE_WAIT, &wait },
		{ DRM_IOCTL_OPENREG_QUEUE_RESET, &reset },
		{ DRM_IOCTL_OPENREG_TIMESTAMP, &stamp },
		{ DRM_IOCTL_OPENREG_QUEUE_SIGNAL, &signal },
		{ DRM_IOCTL_PRIME_HANDLE_TO_FD, &export },
		{ DRM_IOCTL_PRIME_FD_TO_HANDLE, &import },
	};
	unsigned int i, bad = 0;

	/* None of the calls may wait for the card. */
	driver_set_timeout(TIMEOUT_NEVER);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int ret = card_ioctl(fd, calls[i].request, calls[i].arg);

		if (ret == -EIO)
			continue;
		fprintf(stderr, "# call %u: %d\n", i, ret);
		bad++;
	}
	driver_set_timeout("2000");
	return bad;
}

static int give(int fd, __u32 handle, struct given *given, void **memory)
{
	int ret = syncobj_create(fd, &given->syncobj);

	given->handle = handle;
	given->dma_buf = udmabuf(MIB, false, memory);
	return ret ? ret : given->dma_buf < 0 ? given->dma_buf : 0;
}

/*
 * The port above the card is closed, so neither a reset by register nor an FLR helps.
 * Calls on old and new files fail at once.
 */
TEST_F_TIMEOUT(recovery, dead, 120)
{
	struct drm_openreg_device_info info;
	struct given given;
	volatile char *mark;
	void *memory;
	int fd;

	ASSERT_EQ(0, give(self->fd, self->sys.handle, &given, &memory));
	mark = (volatile char *)self->vram.cpu + 4096;
	*mark = 1;
	DIE;
	/* The wait may return before the reset has ended. */
	while (card_info(self->fd, &info) != -EIO)
		usleep(1000);
	EXPECT_EQ(0, calls_that_work(self->fd, &self->q, &given));
	EXPECT_TRUE(wedged_event_sent(self->events, self->accel));
	fd = card_open();
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EIO, card_info(fd, &info));
	close(fd);
	close(given.dma_buf);
	munmap(memory, MIB);
	/* Mappings of VRAM show the dummy page, mappings of system memory stay. */
	EXPECT_EQ(0, *mark);
	*mark = 2;
	*self->q.doorbell = 1;
	memset(self->sys.cpu, 3, MIB);
	EXPECT_EQ(OPENREG_QUEUE_FAULTED, self->q.card->state);
	EXPECT_EQ(0, bo_close(self->fd, self->vram.handle));
	close(self->fd);

	/* The port is still closed, so a reset by the bus fails. */
	EXPECT_TRUE(no_wedged_event(self->events));
	EXPECT_FALSE(is_master(self->slot));
	EXPECT_EQ(0, slot_put(self->slot, "reset", "1"));
	EXPECT_TRUE(wedged_event_sent(self->events, self->accel));
	self->fd = card_open();
	EXPECT_EQ(-EIO, card_info(self->fd, &info));
	EXPECT_FALSE(is_master(self->slot));
	ASSERT_EQ(0, slot_set_command(self->port, self->port_command));
	EXPECT_EQ(0, slot_put(self->slot, "reset", "1"));
	EXPECT_EQ(0, card_works());
	EXPECT_TRUE(is_master(self->slot));
	EXPECT_EQ(0, card_info(self->fd, &info));
	EXPECT_TRUE(no_wedged_event(self->events));
}

/* A wedged card can be unbound, and works after it is bound again. */
TEST_F_TIMEOUT(recovery, dead_and_unbound, 120)
{
	struct drm_openreg_device_info info;

	DIE;
	EXPECT_TRUE(wedged_event_sent(self->events, self->accel));
	ASSERT_EQ(0, file_put(PCI_DRIVER "unbind", self->slot));
	EXPECT_EQ(-ENODEV, card_info(self->fd, &info));
	ASSERT_EQ(0, slot_set_command(self->port, self->port_command));
	ASSERT_EQ(0, file_put(PCI_DRIVER "bind", self->slot));
}

/* A wedged card works again after a suspend, and mappings show VRAM again. */
TEST_F_TIMEOUT(recovery, dead_and_asleep, 120)
{
	volatile char *mark = (volatile char *)self->vram.cpu + 4096;
	struct drm_openreg_device_info info;

	*mark = 1;
	DIE;
	EXPECT_TRUE(wedged_event_sent(self->events, self->accel));
	EXPECT_EQ(0, *mark);
	*mark = 2;
	ASSERT_EQ(0, slot_set_command(self->port, self->port_command));
	EXPECT_EQ(-EIO, card_info(self->fd, &info));
	ASSERT_EQ(0, machine_sleep());
	EXPECT_EQ(0, card_works());
	EXPECT_EQ(0, card_info(self->fd, &info));
	EXPECT_EQ(1, *mark);
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 0));
}

/* Waits until the card had this number of resets. Returns false on timeout. */
static bool resets_reach(long long number, int seconds)
{
	__s64 end = now_ns() + seconds * SEC_NS;

	while (card_stat("resets") < number) {
		if (now_ns() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* The PCI core resets the card. Contexts die, and new contexts work. */
TEST_F_TIMEOUT(recovery, fatal_bus_error, 120)
{
	struct bo bo;

	ASSERT_TRUE(port_has_aer(self->port));
	ASSERT_TRUE(monitor_open());
	SLEEP;
	ASSERT_TRUE(monitor_human("pcie_aer_inject_error port0 DLP"));
	EXPECT_EQ(-EIO, WAKE_UP);
	ASSERT_EQ(0, card_await());
	EXPECT_EQ(-EIO, bo_create(self->fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 0));
	*self->q.doorbell = 1;
	EXPECT_LT(self->resets, card_stat("resets"));
}

/*
 * The PCI core resets the port as well, but the port stays closed, so the recovery fails.
 * No thread waits and no call runs: only the PCI core's callbacks report the error.
 */
TEST_F_TIMEOUT(recovery, fatal_bus_error_for_good, 120)
{
	long long before = errors_of_port(self->port, "fatal");
	struct drm_openreg_device_info info;
	int errors = uevents_open();

	ASSERT_LE(0, errors);
	ASSERT_TRUE(port_has_aer(self->port));
	ASSERT_TRUE(monitor_open());
	ASSERT_LE(0, before);
	ASSERT_EQ(0, slot_set_command(self->port,
				      self->port_command & ~PCI_COMMAND_MEMORY));
	ASSERT_TRUE(monitor_human("pcie_aer_inject_error port0 DLP"));
	EXPECT_TRUE(wedged_event_sent(self->events, self->accel));
	EXPECT_LT(before, errors_of_port(self->port, "fatal"));
	EXPECT_TRUE(recovery_fails(errors));
	/*
	 * One reset: the cut-off. The driver has found out itself that the recovery
	 * failed. The callback for that, since 6.18, sends no second uevent.
	 */
	EXPECT_EQ(self->resets + 1, card_stat("resets"));
	EXPECT_TRUE(no_wedged_event(self->events));
	close(errors);
	EXPECT_EQ(-EIO, card_info(self->fd, &info));
	ASSERT_EQ(0, slot_set_command(self->port, self->port_command));
	EXPECT_EQ(0, slot_put(self->slot, "reset", "1"));
	EXPECT_EQ(0, card_works());
	EXPECT_EQ(0, card_info(self->fd, &info));
}

/* The driver finds that the card is ready after the error: nothing is reset. */
TEST_F_TIMEOUT(recovery, other_bus_error, 120)
{
	__u64 seq;

	ASSERT_TRUE(port_has_aer(self->port));
	ASSERT_TRUE(monitor_open());
	SLEEP;
	ASSERT_TRUE(monitor_human("pcie_aer_inject_error port0 COMP_TIME"));
	EXPECT_TRUE(recovery_succeeds(self->events));
	*(volatile __u64 *)self->vram.cpu = 1;
	packet_nop(&self->p);
	do {
		seq = queue_push(&self->q, &self->p);
	} while (seq && seq < 1000);
	EXPECT_EQ(0, WAKE_UP);
	EXPECT_EQ(self->resets, card_stat("resets"));
}

/*
 * The driver finds that the card is not ready after the error: the PCI core resets it. No
 * thread waits and no call runs, as above.
 */
TEST_F_TIMEOUT(recovery, other_bus_error_and_deaf, 120)
{
	ASSERT_TRUE(port_has_aer(self->port));
	ASSERT_TRUE(monitor_open());
	packet_wait(&self->p, self->vram.address);
	queue_push(&self->q, &self->p);
	ASSERT_EQ(0, slot_set_command(self->slot,
				      self->command & ~PCI_COMMAND_MEMORY));
	ASSERT_TRUE(monitor_human("pcie_aer_inject_error port0 COMP_TIME"));
	/* Two resets: the cut-off and the restart. */
	EXPECT_TRUE(resets_reach(self->resets + 2, 20));
	ASSERT_EQ(0, card_await());
	EXPECT_EQ(self->resets + 2, card_stat("resets"));
	EXPECT_EQ(-EIO, queue_wait(&self->q, 1, 0));
}

TEST_HARNESS_MAIN
