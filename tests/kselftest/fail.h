/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Allocations and user copies of this thread that fail: the debug kernel's fault
 * injection.
 */
#ifndef OPENREG_TEST_FAIL_H
#define OPENREG_TEST_FAIL_H

#include <stdbool.h>

/* Does this kernel have it? Mounts debugfs. */
bool fail_available(void);
/* For all kinds of failures, whatever asks; 0 or -errno. Takes a second. */
int fail_setup(void);
/* The nth from now fails, from 1 on; 0: none. */
void fail_nth(int n);
/* Has it? Takes it back if not. */
bool fail_happened(void);

/*
 * The debugging of DMA goes off for good, and finds nothing from then on, when an
 * allocation of its own fails.
 */
bool fail_dma_debug_is_off(void);

#endif
