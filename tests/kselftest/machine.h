/* SPDX-License-Identifier: GPL-2.0-only */
/* The machine around the card: sysfs, its PCI configuration, QEMU's monitor. */
#ifndef OPENREG_TEST_MACHINE_H
#define OPENREG_TEST_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/pci_regs.h>
#include <linux/types.h>

#include "card.h"

#define PCI_DEVICES "/sys/bus/pci/devices/"
#define PCI_DRIVER "/sys/bus/pci/drivers/openreg/"

/* All return 0 or -errno unless said otherwise. */
int file_put(const char *path, const char *text);
int file_get(const char *path, char *text, size_t size); /* without newline */

/* All of S3 but what the firmware does, from which QEMU's machine does not return. */
int machine_sleep(void);

/* The first card's /dev/accel/accelN, and a file descriptor of it. */
bool accel_find(char *path, size_t size);
int accel_open(void);
/* PCI address of the chosen card, or of the port above it, as sysfs writes it. */
bool slot_of_card(char *slot, size_t size);
bool slot_of_port(const char *card, char *slot, size_t size);
int slot_put(const char *slot, const char *file, const char *text);
/* Bytes of the configuration, and its command register. */
int slot_read(const char *slot, unsigned int offset, void *value, size_t size);
int slot_write(const char *slot, unsigned int offset, const void *value,
	       size_t size);
int slot_command(const char *slot, __u16 *command);
int slot_set_command(const char *slot, __u16 command);

/* The driver of $OPENREG_KO comes and goes. */
int module_load(void);
int module_try_unload(void); /* -EWOULDBLOCK while it is in use */
int module_unload(void); /* waits for what closed files have left, 60 s */
/* Milliseconds, of the driver's parameter. */
int driver_set_timeout(const char *ms);
/* Who then waits for the card does so until the test is over. */
#define TIMEOUT_NEVER "4294967295"

/* The kernel's events from now on: a file descriptor. */
int uevents_open(void);
/* Waits for one with that line in it; false if there is none in time. */
bool uevents_find(int fd, const char *line, __s64 timeout_ns, char *event,
		  size_t size);
bool uevent_has(const char *event, const char *line); /* one that was found */

/*
 * What the driver has left of a fault or a hang, as openreg-dump prints it: false
 * if there is nothing. Make room for the next, false if that takes 20 s.
 */
bool dump_read(char *text, size_t size);
bool dump_drop(void);

/* Waits until there is a card, and a packet runs on it; -errno after 60 s. */
int card_await(void);
/* Opens the card: memory both ways, and arithmetic. */
int card_works(void);

/*
 * QEMU's monitor, for a VM with --monitor. The answer is JSON; false if there is
 * none, or it is an error.
 */
bool monitor_open(void);
bool monitor_command(const char *command, const char *arguments, char *answer,
		     size_t size);
/* A command for a human; false if anything is answered. */
bool monitor_human(const char *line);
/* Until the event with that text in it comes. */
bool monitor_event(const char *event, const char *text);

#endif
