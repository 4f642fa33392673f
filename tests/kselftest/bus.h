/* SPDX-License-Identifier: GPL-2.0-only */
/* Errors of the PCI bus, and the uevents that report how the card recovered. */
#ifndef OPENREG_TEST_BUS_H
#define OPENREG_TEST_BUS_H

#include <stdbool.h>

/* Does the kernel handle AER errors of this port? */
bool port_has_aer(const char *port);
/* Number of errors that the port has reported, or -1. kind is "fatal" or "nonfatal". */
long long errors_of_port(const char *port, const char *kind);

/*
 * Wait up to a minute for the uevent at the end of an error recovery: the recovery has
 * succeeded, or has failed. events is from uevents_open().
 */
bool bus_recovers(int events);
bool bus_gives_up(int events);

/* Was DRM's uevent for a wedged device sent for this card, or not sent at all? */
bool wedged_is_told(int events, const char *accel);
bool wedged_is_not_told(int events);

#endif
