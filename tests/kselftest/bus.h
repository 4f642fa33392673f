/* SPDX-License-Identifier: GPL-2.0-only */
/* Errors of the bus, and who is told of what became of the card. */
#ifndef OPENREG_TEST_BUS_H
#define OPENREG_TEST_BUS_H

#include <stdbool.h>

/* Does the kernel watch errors of this port? */
bool port_has_aer(const char *port);
/* Those that it has seen, or -1; kind is "fatal" or "nonfatal". */
long long errors_of_port(const char *port, const char *kind);

/*
 * For events of uevents_open(), within a minute: the bus is through with an error and
 * with what it tells drivers of it, for better or worse.
 */
bool bus_recovers(int events);
bool bus_gives_up(int events);

/* Somebody was told that this card needs help, as DRM's documentation has it. */
bool wedged_is_told(int events, const char *accel);
bool wedged_is_not_told(int events);

#endif
