// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "card.h"
#include "fail.h"

static const char * const kinds[] = {
	"failslab", "fail_page_alloc", "fail_usercopy",
};

static int put(const char *kind, const char *name, const char *text)
{
	char path[128];
	int ret, fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", kind, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

bool fail_available(void)
{
	card_stat("queues"); /* mounts debugfs */
	return !access("/proc/thread-self/fail-nth", W_OK) &&
	       !access("/sys/kernel/debug/failslab/reject-start", W_OK) &&
	       !access("/sys/kernel/debug/fail_page_alloc", F_OK);
}

/* Finds the addresses of a kernel function. /proc/kallsyms lists functions in order. */
static bool function_range(const char *want, unsigned long *start,
			   unsigned long *end)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	char line[512], name[256];
	unsigned long at;

	*start = *end = 0;
	while (!*end && file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx %*c %255s", &at, name) != 2)
			continue;
		if (!strcmp(name, want))
			*start = at;
		else if (*start && at > *start)
			*end = at;
	}
	if (file)
		fclose(file);
	return *end;
}

/* Excludes the kernel's buddy allocator: it frees a block twice when a split fails. */
static int spare(const char *kind, unsigned long start, unsigned long end)
{
	char text[32];
	int ret;

	snprintf(text, sizeof(text), "0x%lx", start);
	ret = put(kind, "reject-start", text);
	snprintf(text, sizeof(text), "0x%lx", end);
	return ret ? ret : put(kind, "reject-end", text);
}

bool fail_dma_debug_is_off(void)
{
	int fd = open("/sys/kernel/debug/dma-api/disabled",
		      O_RDONLY | O_CLOEXEC);
	char state = 'N';

	if (fd >= 0 && read(fd, &state, 1) < 0)
		perror("dma-api/disabled");
	close(fd);
	return state == 'Y';
}

/* scripts/lib/vm.sh reads this line. After it, DMA-API being off is no error. */
static void mark_log(void)
{
	const char *text = fail_dma_debug_is_off() ?
		"openreg-tests: BUG: DMA-API: it is off before\n" :
		"openreg-tests: allocations fail on purpose\n";
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		perror("/dev/kmsg");
	close(fd);
}

int fail_setup(void)
{
	unsigned long start, end;
	unsigned int i;
	int ret = 0;

	mark_log();
	if (!function_range("gpu_buddy_alloc_blocks", &start, &end))
		return -ENOENT;
	for (i = 0; i < 3 && !ret; i++) {
		put(kinds[i], "verbose", "0");
		ret = spare(kinds[i], start, end);
	}
	if (!ret)
		ret = put("failslab", "ignore-gfp-wait", "N");
	if (!ret)
		ret = put("fail_page_alloc", "ignore-gfp-wait", "N");
	if (!ret)
		ret = put("fail_page_alloc", "ignore-gfp-highmem", "N");
	if (!ret)
		ret = put("fail_page_alloc", "min-order", "0");
	return ret;
}

/* Keeps the file open, because opening it could be the call that fails. */
static int nth_file(void)
{
	static __thread int file = -1;
	static __thread pid_t owner;

	if (file >= 0 && owner != gettid())
		close(file); /* the parent's */
	if (file < 0 || owner != gettid())
		file = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	owner = gettid();
	if (file < 0)
		abort();
	return file;
}

void fail_nth(int n)
{
	int len, tries = 0, file = nth_file();
	char text[16];

	len = snprintf(text, sizeof(text), "%d", n);
	/* The injected failure may hit the copy of this text. */
	while (pwrite(file, text, len, 0) != len)
		if (++tries == 3)
			abort();
}

bool fail_happened(void)
{
	char text[16] = "";
	ssize_t len = pread(nth_file(), text, sizeof(text) - 1, 0);

	/* If the read failed, the failure hit the read, not the call. */
	if (len >= 0 && !atoi(text))
		return true;
	fail_nth(0);
	return false;
}
