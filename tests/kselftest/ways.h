/* SPDX-License-Identifier: GPL-2.0-only */
/* Ways in which the chosen card goes, and comes back. */
#ifndef OPENREG_TEST_WAYS_H
#define OPENREG_TEST_WAYS_H

enum way {
	DRIVER, /* by hand */
	BUS, /* by hand, too */
	SURPRISE, /* it answers no more when the bus finds out */
	MACHINE, /* QEMU's; wants monitor_open() */
	WAYS
};

/* 0 if done. The first finds out where it is, when it was chosen, before it goes. */
int way_begin(void);
int way_go(enum way way);
int way_come(enum way way);

#endif
