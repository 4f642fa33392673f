// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every allocation and user copy of every call fails once: an error, nothing
 * left behind.
 * Needs a kernel with fault injection, as the debug kernel is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "card.h"

/* More than any call allocates. */
#define MOST 400

static int write_to(const char *path, const char *text)
{
	int ret, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static int fail_nth(int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", n);
	return write_to("/proc/thread-self/fail-nth", text);
}

/* Did the failure happen? Takes it back if not. */
static bool failed(void)
{
	char text[16] = "";
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	bool happened;

	if (read(fd, text, sizeof(text) - 1) < 0)
		abort();
	happened = atoi(text) == 0;
	if (write(fd, "0", 1) < 0)
		abort();
	close(fd);
	return happened;
}

/* Where the driver's code is. */
static bool driver_range(unsigned long *start, unsigned long *end)
{
	char line[512], name[64];
	FILE *file = fopen("/proc/modules", "r");
	unsigned long size;
	bool found = false;

	while (!found && file && fgets(line, sizeof(line), file))
		found = sscanf(line, "%63s %lu %*s %*s %*s 0x%lx", name, &size,
			       start) == 3 && !strcmp(name, "openreg");
	if (file)
		fclose(file);
	*end = *start + size;
	return found && *start;
}

/* Where a function of the kernel is. */
static bool function_range(const char *want, unsigned long *start,
			   unsigned long *end)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	char line[512], name[256];
	unsigned long at;

	*start = 0;
	*end = -1ul;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx %*c %255s", &at, name) == 2 &&
		    !strcmp(name, want))
			*start = at;
	if (file)
		rewind(file);
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx", &at) == 1 && at > *start && at < *end)
			*end = at;
	if (file)
		fclose(file);
	return *start;
}

static int set_range(const char *where, const char *what, unsigned long start,
		     unsigned long end)
{
	char path[128], text[32];
	int ret;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s-start", where,
		 what);
	snprintf(text, sizeof(text), "0x%lx", start);
	ret = write_to(path, text);
	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s-end", where,
		 what);
	snprintf(text, sizeof(text), "0x%lx", end);
	return ret ? ret : write_to(path, text);
}

/*
 * Only what the driver asks for fails; and not what the kernel's buddy
 * allocator asks for in turn, which frees a block twice when a split fails.
 */
static int aim(const char *where)
{
	unsigned long start, end;
	int ret;

	if (!driver_range(&start, &end))
		return -ENOENT;
	ret = set_range(where, "require", start, end);
	if (ret)
		return ret;
	if (!function_range("gpu_buddy_alloc_blocks", &start, &end))
		return -ENOENT;
	return set_range(where, "reject", start, end);
}

static bool have_injection(void)
{
	card_stat("queues"); /* mounts debugfs */
	return !access("/proc/thread-self/fail-nth", W_OK) &&
	       !access("/sys/kernel/debug/failslab/require-start", W_OK) &&
	       !access("/sys/kernel/debug/fail_page_alloc", F_OK);
}

enum call {
	OPEN, VRAM, SYSTEM, REGISTER, QUEUE, FIRST_VRAM, CALLS,
};

static const char * const names[CALLS] = {
	"open", "VRAM BO", "SYSTEM BO", "registration", "queue",
	"VRAM BO with a new context",
};

static char memory[65536] __attribute__((aligned(4096)));

static int attempt(enum call call, int fd)
{
	struct drm_openreg_queue_create args = { .slots = 64, .priority = 1 };
	struct drm_openreg_queue_destroy destroy = {};
	struct bo bo;
	int ret;

	switch (call) {
	case OPEN:
		ret = card_open();
		if (ret >= 0)
			close(ret);
		return ret < 0 ? ret : 0;
	case VRAM:
	case FIRST_VRAM:
		ret = bo_create(fd, 65536, DRM_OPENREG_BO_VRAM, &bo);
		break;
	case SYSTEM:
		ret = bo_create(fd, 65536, DRM_OPENREG_BO_SYSTEM, &bo);
		break;
	case REGISTER:
		ret = bo_register(fd, memory, sizeof(memory), 0, &bo);
		break;
	default:
		ret = card_ioctl(fd, DRM_IOCTL_OPENREG_QUEUE_CREATE, &args);
		destroy.queue = args.queue;
		if (!ret)
			card_ioctl(fd, DRM_IOCTL_OPENREG_QUEUE_DESTROY,
				   &destroy);
		return ret;
	}
	if (!ret)
		bo_close(fd, bo.handle);
	return ret;
}

FIXTURE(failures)
{
	struct card_usage before;
};

FIXTURE_SETUP(failures)
{
	if (!have_injection())
		SKIP(return, "this kernel has no fault injection");
	ASSERT_EQ(0, aim("failslab"));
	ASSERT_EQ(0, aim("fail_page_alloc"));
	ASSERT_EQ(0, aim("fail_usercopy"));
	ASSERT_EQ(0, write_to("/sys/kernel/debug/failslab/ignore-gfp-wait",
			      "N"));
	ASSERT_EQ(0, write_to("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait",
			      "N"));
	ASSERT_EQ(0, write_to("/sys/kernel/debug/fail_page_alloc/min-order",
			      "0"));
	memset(memory, 1, sizeof(memory));
	self->before = card_usage();
}

FIXTURE_TEARDOWN(failures)
{
	EXPECT_TRUE(card_settles(self->before));
}

FIXTURE_VARIANT(failures)
{
	enum call call;
};

FIXTURE_VARIANT_ADD(failures, open) { .call = OPEN };
FIXTURE_VARIANT_ADD(failures, vram) { .call = VRAM };
FIXTURE_VARIANT_ADD(failures, system) { .call = SYSTEM };
FIXTURE_VARIANT_ADD(failures, registration) { .call = REGISTER };
FIXTURE_VARIANT_ADD(failures, queue) { .call = QUEUE };
FIXTURE_VARIANT_ADD(failures, first_vram) { .call = FIRST_VRAM };

TEST_F_TIMEOUT(failures, one_by_one, 280)
{
	int n, ret, fd = card_open(), injected = 0;
	bool happened = true;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, attempt(variant->call == FIRST_VRAM ? OPEN :
			     variant->call, fd));
	for (n = 1; n <= MOST && happened; n++) {
		if (variant->call == FIRST_VRAM) {
			close(fd);
			fd = card_open();
			ASSERT_LE(0, fd);
		}
		ASSERT_EQ(0, fail_nth(n));
		ret = attempt(variant->call, fd);
		happened = failed();
		injected += happened;
		if (!happened) {
			EXPECT_EQ(0, ret);
		} else {
			EXPECT_TRUE(!ret || ret == -ENOMEM || ret == -EFAULT)
				TH_LOG("%s: %s", names[variant->call],
				       strerror(-ret));
		}
	}
	EXPECT_FALSE(happened);
	EXPECT_LT(0, injected);
	EXPECT_EQ(0, attempt(variant->call, fd));
	close(fd);
}

TEST_HARNESS_MAIN
