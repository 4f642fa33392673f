// SPDX-License-Identifier: GPL-2.0-only
// test hostile-admin not kselftest-checked: as hostile
/*
 * A card that completes the driver's commands wrongly or never, that has nonsense in its
 * registers, or that is gone.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <openreg_regs.h>

#include "kselftest_harness.h"

#include "inject.h"
#include "machine.h"

#define LONG (20 * SEC_NS)

static int begin(struct card_usage *before)
{
	int ret = inject_find();

	if (!ret)
		ret = card_recovers();
	if (ret)
		return ret;
	if (!card_is_idle())
		return -EBUSY;
	*before = card_unused();
	return 0;
}

FIXTURE(admin)
{
	struct card_usage before;
};

FIXTURE_SETUP(admin)
{
	ASSERT_EQ(0, begin(&self->before));
}

FIXTURE_TEARDOWN(admin)
{
	EXPECT_EQ(0, card_recovers());
	EXPECT_TRUE(card_settles(self->before));
}

/* Is this error allowed? The card may be reset meanwhile, or be out of resources. */
static bool documented(int ret)
{
	return !ret || ret == -EIO || ret == -EINVAL || ret == -ENOMEM ||
	       ret == -ENOSPC || ret == -EBUSY;
}

/* Makes the driver send each of its commands. Returns the first undocumented error. */
static int use_all(void)
{
	int ret, odd = 0, i, fd = card_open();
	struct drm_openreg_device_info info;
	struct queue q;
	struct bo bo;

#define TRY(call)					\
	({						\
		ret = (call);				\
		if (!documented(ret) && !odd)		\
			odd = ret;			\
		ret;					\
	})
	if (fd < 0)
		return fd;
	if (!TRY(bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo)))
		TRY(bo_close(fd, bo.handle));
	/* More than half of VRAM, and mapped: so the second object needs a FILL. */
	TRY(card_info(fd, &info));
	for (i = 0; i < 2; i++) {
		if (TRY(bo_create(fd, info.vram_size / 2 + 4096,
				  DRM_OPENREG_BO_VRAM, &bo)))
			break;
		ret = TRY(bo_map(fd, &bo));
		TRY(bo_close(fd, bo.handle));
		if (!ret)
			munmap(bo.cpu, bo.size);
	}
	if (!TRY(bo_create(fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo)))
		TRY(bo_close(fd, bo.handle));
	if (!TRY(queue_create(fd, 64, &q))) {
		TRY(queue_reset(&q, 0, 0));
		TRY(queue_destroy(&q));
		queue_unmap(&q);
	}
	close(fd);
	return odd;
}

static void *wait_for_ever(void *data)
{
	return (void *)(intptr_t)queue_wait(data, 1, FOREVER);
}

FIXTURE(never)
{
	struct card_usage before;
};

FIXTURE_VARIANT(never)
{
	__u32 mode;
};

FIXTURE_VARIANT_ADD(never, done) { .mode = ADMIN_NEVER };
FIXTURE_VARIANT_ADD(never, by_its_number) { .mode = ADMIN_NUMBER };

FIXTURE_SETUP(never)
{
	ASSERT_EQ(0, begin(&self->before));
}

FIXTURE_TEARDOWN(never)
{
	EXPECT_EQ(0, card_recovers());
	EXPECT_TRUE(card_settles(self->before));
}

/* The card never completes one command. A wait for a queue returns after the reset. */
TEST_F_TIMEOUT(never, of_each_command, 120)
{
	long long resets = card_stat("resets");
	pthread_t thread;
	struct queue q;
	void *result;
	__u32 opcode;
	int fd;

	for (opcode = OPENREG_ADMIN_CTX_CREATE; opcode <= OPENREG_ADMIN_FILL; opcode++) {
		fd = card_open();
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, queue_create(fd, 64, &q));
		ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_ever, &q));
		ASSERT_EQ(0, driver_set_timeout("500"));
		ASSERT_EQ(0, inject(INJECT_OPCODE, opcode));
		ASSERT_EQ(0, inject(INJECT_ADMIN, variant->mode));
		EXPECT_EQ(0, use_all()) TH_LOG("command %u", opcode);
		pthread_join(thread, &result);
		EXPECT_EQ(-EIO, (intptr_t)result) TH_LOG("command %u", opcode);
		EXPECT_LT(resets, card_stat("resets"));
		resets = card_stat("resets");
		ASSERT_EQ(0, inject(INJECT_ADMIN, 0));
		ASSERT_EQ(0, driver_set_timeout("20000"));
		queue_unmap(&q);
		close(fd);
	}
}

/* A process can exit while the card does not complete CTX_DESTROY. */
TEST_F_TIMEOUT(admin, exits_do_not_wait, 60)
{
	int status, i;
	pid_t pid;

	ASSERT_EQ(0, driver_set_timeout(TIMEOUT_NEVER));
	ASSERT_EQ(0, inject(INJECT_OPCODE, 2)); /* CTX_DESTROY */
	ASSERT_EQ(0, inject(INJECT_ADMIN, ADMIN_NEVER));
	for (i = 0; i < 10; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(-card_works());
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
	}
	/* The card has destroyed none of the ten contexts. */
	EXPECT_LE(self->before.contexts + 10, card_stat("contexts"));
}

/* The card also completes the next command, which the driver has not sent yet. */
TEST_F_TIMEOUT(admin, next_one_done_too, 60)
{
	int i;

	ASSERT_EQ(0, inject(INJECT_OPCODE, 3)); /* SEG_BIND */
	ASSERT_EQ(0, inject(INJECT_ADMIN, ADMIN_TWICE));
	for (i = 0; i < 10; i++)
		EXPECT_EQ(0, card_works());
}

/* Statuses that are valid, unknown, and impossible for the command. */
TEST_F_TIMEOUT(admin, wrong_status, 280)
{
	const __u32 statuses[] = { 1, 2, 3, 4, 5, 6, 7, 8, 0xffffffff };
	__u32 opcode;
	unsigned int i;

	for (opcode = OPENREG_ADMIN_CTX_CREATE; opcode <= OPENREG_ADMIN_FILL; opcode++) {
		ASSERT_EQ(0, inject(INJECT_OPCODE, opcode));
		for (i = 0; i < 9; i++) {
			ASSERT_EQ(0, inject(INJECT_STATUS, statuses[i]));
			EXPECT_EQ(0, use_all())
				TH_LOG("command %u status %u", opcode,
				       statuses[i]);
		}
		ASSERT_EQ(0, inject(INJECT_STATUS, 0));
	}
}

/* The card reports FATAL, and again after every reset. */
TEST_F_TIMEOUT(admin, always_fatal, 60)
{
	int fd = card_open();
	struct queue q;
	struct bo bo;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, queue_create(fd, 64, &q));
	ASSERT_EQ(0, inject(INJECT_REG_VALUE, 3));
	ASSERT_EQ(0, inject(INJECT_REG, OPENREG_REG_STATUS));
	/* Any command makes the driver read the status register. */
	bo_create(fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo);
	EXPECT_EQ(-EIO, queue_wait(&q, 1, FOREVER));
	/* From now on all calls fail at once. */
	while (card_works() != -EIO)
		usleep(1000);
	EXPECT_EQ(-EIO, bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(-EIO, queue_destroy(&q));
	queue_unmap(&q);
	close(fd);
}

/* The card is gone, but the bus has not reported that. */
TEST_F_TIMEOUT(admin, gone, 120)
{
	struct drm_openreg_timestamp stamp = {};
	int ret, fd = card_open();
	struct queue q;
	struct bo bo;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, queue_create(fd, 64, &q));
	ASSERT_EQ(0, driver_set_timeout("500"));
	ASSERT_EQ(0, inject(INJECT_GONE, 1));
	EXPECT_EQ(-ETIME, queue_wait(&q, 1, SEC_NS / 20));
	ret = card_ioctl(fd, DRM_IOCTL_OPENREG_TIMESTAMP, &stamp);
	/* The driver may have detected it already. */
	EXPECT_TRUE(!ret || ret == -EIO);
	EXPECT_NE(0, card_stat("packets"));
	EXPECT_EQ(-EIO, bo_create(fd, 4096, DRM_OPENREG_BO_SYSTEM, &bo));
	EXPECT_EQ(-EIO, queue_wait(&q, 1, FOREVER));
	while (card_works() != -EIO)
		usleep(1000);
	ASSERT_EQ(0, driver_set_timeout(TIMEOUT_NEVER));
	EXPECT_EQ(-EIO, bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo));
	EXPECT_EQ(-EIO, queue_destroy(&q));
	queue_unmap(&q);
	close(fd);

	/* The driver can be unloaded, and does not bind a card that is gone. */
	ASSERT_EQ(0, module_unload());
	ASSERT_EQ(0, module_load());
	EXPECT_FALSE(have_node());
	inject_none();
	EXPECT_EQ(0, card_flr());
	ASSERT_EQ(0, card_bind());
}

static const struct {
	const char *name;
	enum injection which;
	__u32 value;
} wrongs[] = {
	{ "interrupts lost", INJECT_IRQ, IRQ_LOST },
	{ "interrupts for nothing", INJECT_IRQ, IRQ_SPURIOUS },
	{ "forged faults", INJECT_FAULT, FAULT_FLOOD },
	{ "commands never done", INJECT_ADMIN, ADMIN_NEVER },
	{ "wrong status", INJECT_STATUS, 3 },
	{ "deaf", INJECT_STALL, STALL_DEAF },
	{ "random numbers", INJECT_COMPLETED, 3 },
};

TEST_F_TIMEOUT(admin, unload, 120)
{
	struct packet p;
	struct queue q;
	unsigned int i;
	int fd;

	packet_nop(&p);
	for (i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		fd = card_open();
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, queue_create(fd, 64, &q));
		ASSERT_EQ(0, inject(INJECT_PERIOD, 100));
		ASSERT_EQ(0, inject(wrongs[i].which, wrongs[i].value));
		queue_push_blindly(&q, &p);
		queue_unmap(&q);
		close(fd);
		ASSERT_EQ(0, module_unload()) TH_LOG("%s", wrongs[i].name);
		EXPECT_FALSE(have_node());
		ASSERT_EQ(0, module_load()) TH_LOG("%s", wrongs[i].name);
		inject_none();
		EXPECT_EQ(0, card_works()) TH_LOG("%s", wrongs[i].name);
	}
}

/* No value here makes the card hang. */
static const struct {
	__u32 reg;
	__u32 values[3];
} nonsense[] = {
	{ OPENREG_REG_VERSION, { 0, 0xffffffff, 0x7fff0000 } },
	{ OPENREG_REG_STATUS, { 2, 3, 0xffffffff } },
	{ OPENREG_REG_CONTROL, { 0xffffffff, 0xffffffff, 0xffffffff } },
	{ OPENREG_REG_PACKETS, { 0, 0xffffffff, 1 } },
	{ OPENREG_REG_VRAM_SIZE, { 1, 4097, 0xffffffff } },
	{ OPENREG_REG_VRAM_SIZE + 4, { 1, 0x80000000, 0xffffffff } },
	{ OPENREG_REG_MAX_CONTEXTS, { 0, 1, 0xffffffff } },
	{ OPENREG_REG_MAX_QUEUES, { 0, 1, 0xffffffff } },
	{ OPENREG_REG_MAX_SEGMENTS, { 0, 2, 0xffffffff } },
	{ OPENREG_REG_DOORBELLS, { 0, 1, 0xffffffff } },
	{ OPENREG_REG_VECTORS, { 0, 2, 0xffffffff } },
	{ OPENREG_REG_PAGE_SHIFTS, { 0, 1 << 12, 0xffffffff } },
	{ OPENREG_REG_RING_SLOTS, { 0, 65, 0xffffffff } },
	{ OPENREG_REG_WORKERS, { 0, 0xffffffff, 1 } },
	{ OPENREG_REG_SLICE_US, { 0, 0xffffffff, 1 } },
	{ OPENREG_REG_MAX_WORK, { 0, 0xffffffff, 64 } },
};

/* The driver refuses the card, or binds it and does no harm. */
TEST_F_TIMEOUT(admin, nonsense_in_registers, 280)
{
	unsigned int i, j, taken = 0;

	ASSERT_EQ(0, card_unbind());
	for (i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		ASSERT_EQ(0, inject(INJECT_REG, nonsense[i].reg));
		for (j = 0; j < 3; j++) {
			ASSERT_EQ(0, inject(INJECT_REG_VALUE,
					    nonsense[i].values[j]));
			card_bind();
			if (!have_node())
				continue;
			taken++;
			card_works();
			ASSERT_EQ(0, card_unbind());
		}
	}
	inject_none();
	ASSERT_EQ(0, card_bind());
	EXPECT_LT(10, taken);
	EXPECT_GT(40, taken);
}

/*
 * Reads a mapping of VRAM again and again, from the parent's signal on, itself or through
 * the kernel. Again and again, since a reset that is about to begin may allow one access.
 */
static void touch(int with, bool by_kernel)
{
	int fd = card_open(), sink[2];
	struct bo bo;
	char byte;

	if (fd < 0 || pipe(sink) ||
	    bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo) || bo_map(fd, &bo) ||
	    write(with, "", 1) != 1 || read(with, &byte, 1) != 1)
		_exit(1);
	while (!by_kernel)
		byte = *(volatile char *)bo.cpu;
	while (write(sink[1], bo.cpu, 1) == 1 && read(sink[0], &byte, 1) == 1)
		;
	_exit(2);
}

/* Is the card being reset? Then the timestamp fails, although the card is not wedged. */
static bool is_being_reset(int fd)
{
	struct drm_openreg_timestamp stamp = {};
	struct drm_openreg_device_info info;

	return card_ioctl(fd, DRM_IOCTL_OPENREG_TIMESTAMP, &stamp) == -EIO &&
	       !card_info(fd, &info);
}

/* Makes the driver begin a reset that the card does not complete. */
static bool reset_begins(int fd)
{
	__s64 end = now_ns() + 2 * LONG;
	struct bo bo;

	if (bo_create(fd, 4096, DRM_OPENREG_BO_VRAM, &bo) ||
	    driver_set_timeout("1000") || inject(INJECT_REG, OPENREG_REG_CONTROL) ||
	    inject(INJECT_REG_VALUE, OPENREG_CONTROL_RESET) ||
	    inject(INJECT_ADMIN, ADMIN_NEVER) || bo_close(fd, bo.handle))
		return false;
	while (!is_being_reset(fd))
		if (now_ns() > end)
			return false;
	return true;
}

/* Waits until the process is in uninterruptible sleep. */
static bool falls_asleep(pid_t pid)
{
	__s64 end = now_ns() + LONG;
	char path[32], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (state != 'D' && now_ns() < end) {
		file = fopen(path, "r");
		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = 0;
		if (file)
			fclose(file);
	}
	return state == 'D';
}

/* Kills the process. Does it die before the reset is over? */
static bool dies_in_a_reset(int fd, pid_t pid)
{
	int status;

	if (kill(pid, SIGKILL))
		return false;
	while (is_being_reset(fd))
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFSIGNALED(status) && is_being_reset(fd);
	waitpid(pid, &status, 0);
	return false;
}

/* An access to VRAM waits for the end of a reset, but a killed process does not. */
TEST_F_TIMEOUT(admin, killed_in_a_reset, 120)
{
	long long resets = card_stat("resets");
	int i, fd, with[2];
	char byte;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, with));
		fd = card_open();
		ASSERT_LE(0, fd);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			touch(with[1], i);
		ASSERT_EQ(1, read(with[0], &byte, 1));
		ASSERT_TRUE(reset_begins(fd));
		/* During a reset the driver reports its own statistics, and reads none of the card's. */
		EXPECT_EQ(resets + i + 1, card_stat("resets"));
		EXPECT_EQ(-1, card_stat("packets"));
		ASSERT_EQ(1, write(with[0], "", 1));
		EXPECT_TRUE(falls_asleep(pid));
		EXPECT_TRUE(dies_in_a_reset(fd, pid));
		inject_none();
		EXPECT_EQ(0, card_await());
		EXPECT_LE(0, card_stat("packets"));
		close(fd);
		close(with[0]);
		close(with[1]);
	}
}

TEST_HARNESS_MAIN
