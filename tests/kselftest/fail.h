/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fault injection of the debug kernel: allocations and user copies of this thread fail.
 */
#ifndef OPENREG_TEST_FAIL_H
#define OPENREG_TEST_FAIL_H

#include <stdbool.h>

/* Does this kernel have fault injection? Mounts debugfs. */
bool fail_available(void);
/* Enables all kinds of failures for all callers. Returns 0 or -errno. Takes a second. */
int fail_setup(void);
/* Makes the nth allocation or copy from now fail, counted from 1. 0 makes none fail. */
void fail_nth(int n);
/* Has it failed? If not, cancels the failure. */
bool fail_happened(void);

/* Is DMA debugging off? It turns itself off for good if one of its allocations fails. */
bool fail_dma_debug_is_off(void);

#endif
