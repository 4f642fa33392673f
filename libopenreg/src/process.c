// SPDX-License-Identifier: MIT
/*
 * Detects fork(). The mark is a page that the kernel clears in every child, however the
 * child was made. One load shows if this process opened the device.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* Atomic, without a mutex: a child could inherit the mutex locked by another thread. */
static _Atomic(volatile uint8_t *) mark;

static volatile uint8_t *make_mark(size_t size)
{
	uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, size, MADV_WIPEONFORK)) {
		munmap(p, size);
		return NULL;
	}
	*p = 1;
	return p;
}

/* A child that opens a device makes a new page: its copy of the parent's page stays 0. */
const volatile uint8_t *openreg_process_mark(void)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	volatile uint8_t *now = atomic_load(&mark), *own;

	if (now && *now)
		return now;
	own = make_mark(size);
	if (!own || atomic_compare_exchange_strong(&mark, &now, own))
		return own;
	/* Another thread stored its page first. */
	munmap((void *)(uintptr_t)own, size);
	return now;
}

int openreg_fail_forked(void)
{
	return openreg_fail(-EPERM,
			    "this process is a child of fork(), and its parent opened the device: open it again here, or start workers by spawn or exec");
}

int64_t openreg_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}
