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
bool recovery_succeeds(int events);
bool recovery_fails(int events);

/* Was DRM's uevent for a wedged device sent for this card, or not sent at all? */
bool wedged_event_sent(int events, const char *accel);
bool no_wedged_event(int events);

#endif
