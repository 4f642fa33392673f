/* SPDX-License-Identifier: GPL-2.0-only */
/* Ways to remove the chosen card and to add it again. */
#ifndef OPENREG_TEST_WAYS_H
#define OPENREG_TEST_WAYS_H

enum way {
	DRIVER, /* unbind the driver in sysfs */
	BUS, /* remove the PCI device in sysfs */
	SURPRISE, /* as BUS, but the card does not answer any more */
	MACHINE, /* hot-unplug in QEMU; needs monitor_open() */
	WAYS
};

/* All return 0 or an error. Call way_begin() first, while the chosen card is there. */
int way_begin(void);
int way_go(enum way way);
int way_come(enum way way);

#endif
