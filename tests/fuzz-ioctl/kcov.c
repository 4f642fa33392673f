// SPDX-License-Identifier: GPL-2.0-only
/*
 * Coverage of the driver. With KCOV (dev-tools/kcov.rst): the lines that a thread has
 * reached. Else, with a driver that counts (blocks/): the number of blocks that all
 * threads have reached.
 */
#include <fcntl.h>
#include <linux/kcov.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run.h"

#define WORDS (1u << 17)

static int kcov = -1;
static uint64_t *words;
static uint64_t marks[CALLS_MAX + 1];
static unsigned int num_marks;
static bool started;
static int counter = -1;
static uint32_t blocks; /* count at the start of the program */
static unsigned long start, end; /* addresses of the driver */

static void find_driver(void)
{
	FILE *file = fopen("/proc/modules", "r");
	char line[512], name[64];
	unsigned long size;

	while (!end && file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %lu %*s %*s %*s 0x%lx", name, &size,
			   &start) == 3 && !strcmp(name, "openreg"))
			end = start + size;
	if (file)
		fclose(file);
}

bool kcov_open(void)
{
	counter = open("/sys/kernel/debug/openreg-blocks/count",
		       O_RDONLY | O_CLOEXEC);
	if (counter >= 0)
		return true;
	find_driver();
	kcov = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	if (kcov < 0 || ioctl(kcov, KCOV_INIT_TRACE, WORDS))
		return false;
	words = mmap(NULL, WORDS * sizeof(*words), PROT_READ | PROT_WRITE,
		     MAP_SHARED, kcov, 0);
	return words != MAP_FAILED;
}

static uint32_t count_blocks(void)
{
	char text[16] = "";

	if (pread(counter, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	return strtoul(text, NULL, 0);
}

void kcov_clear(void)
{
	if (counter >= 0)
		blocks = count_blocks();
	if (words)
		__atomic_store_n(&words[0], 0, __ATOMIC_RELAXED);
}

void kcov_start(void)
{
	num_marks = 0;
	kcov_clear();
	started = words && !ioctl(kcov, KCOV_ENABLE, KCOV_TRACE_PC);
}

void kcov_mark(unsigned int call)
{
	if (started && call <= CALLS_MAX)
		marks[num_marks++] = __atomic_load_n(&words[0], __ATOMIC_RELAXED);
}

/* True if no process has reached this address before. */
static bool is_new(uint32_t pc)
{
	uint32_t at = pc * 0x9e3779b1u >> 16, seen;

	for (;; at = (at + 1) % PCS_MAX) {
		seen = __atomic_load_n(&shared->pcs[at], __ATOMIC_RELAXED);
		if (seen == pc)
			return false;
		if (seen)
			continue;
		if (shared->num_pcs > PCS_MAX / 2)
			return false;
		if (__sync_bool_compare_and_swap(&shared->pcs[at], 0, pc)) {
			__atomic_add_fetch(&shared->num_pcs, 1,
					   __ATOMIC_RELAXED);
			return true;
		}
		if (shared->pcs[at] == pc)
			return false;
	}
}

/*
 * The counter does not say which program reached new blocks: all programs that ran
 * meanwhile are kept, uncut.
 */
static int more_blocks(void)
{
	uint32_t count = count_blocks();

	__atomic_store_n(&shared->num_pcs, count, __ATOMIC_RELAXED);
	return count > blocks ? CALLS_MAX : -1;
}

int kcov_collect(void)
{
	uint64_t count, i;
	unsigned int call = 0;
	int first = -1;

	if (counter >= 0)
		return more_blocks();
	if (!words)
		return -1;
	count = __atomic_load_n(&words[0], __ATOMIC_RELAXED);
	for (i = 0; i < count && i < WORDS - 1; i++) {
		while (call + 1 < num_marks && marks[call + 1] <= i)
			call++;
		if (words[i + 1] < start || words[i + 1] >= end)
			continue; /* outside of the driver */
		if (is_new(words[i + 1]) && first < 0)
			first = call;
	}
	return first;
}

void kcov_stop(void)
{
	if (started)
		ioctl(kcov, KCOV_DISABLE, 0);
	started = false;
}
