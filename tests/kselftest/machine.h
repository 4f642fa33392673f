/* SPDX-License-Identifier: GPL-2.0-only */
/* The machine around the card: sysfs, PCI config space, QEMU's monitor. */
#ifndef OPENREG_TEST_MACHINE_H
#define OPENREG_TEST_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/pci_regs.h>
#include <linux/types.h>

#include "card.h"

#define PCI_DEVICES "/sys/bus/pci/devices/"
#define PCI_DRIVER "/sys/bus/pci/drivers/openreg/"

/* Functions that return an int return 0 or -errno, except as noted. */
int file_put(const char *path, const char *text);
int file_get(const char *path, char *text, size_t size); /* without newline */

/* Suspends as for S3, but skips the firmware, from which QEMU does not return. */
int machine_sleep(void);

/* Finds /dev/accel/accelN of the first card, and opens it. */
bool accel_find(char *path, size_t size);
int accel_open(void);
/* PCI address of the chosen card, or of the port above it, in the form of sysfs. */
bool slot_of_card(char *slot, size_t size);
bool slot_of_port(const char *card, char *slot, size_t size);
int slot_put(const char *slot, const char *file, const char *text);
/* Access PCI config space, and its command register. */
int slot_read(const char *slot, unsigned int offset, void *value, size_t size);
int slot_write(const char *slot, unsigned int offset, const void *value,
	       size_t size);
int slot_command(const char *slot, __u16 *command);
int slot_set_command(const char *slot, __u16 command);

/* Load and unload the driver of $OPENREG_KO. */
int module_load(void);
int module_load_with(const char *parameters);
int module_try_unload(void); /* -EWOULDBLOCK while it is in use */
int module_unload(void); /* waits up to 60 s until closed files are freed */
/* Sets the driver's admin_timeout_ms. */
int driver_set_timeout(const char *ms);
/* The driver then waits for the card until the test is over. */
#define TIMEOUT_NEVER "4294967295"

/* Returns a file descriptor for uevents from now on. */
int uevents_open(void);
/* Waits for a uevent with this line. Returns false on timeout. */
bool uevents_find(int fd, const char *line, __s64 timeout_ns, char *event,
		  size_t size);
bool uevent_has(const char *event, const char *line); /* for an event that was found */

/*
 * dump_read() gets the driver's dump as openreg-dump prints it, or returns false.
 * dump_drop() removes the dump, to allow the next one; it returns false after 20 s.
 */
bool dump_read(char *text, size_t size);
bool dump_drop(void);

/* Waits until a card exists and runs a packet. Returns -errno after 60 s. */
int card_await(void);
/* Opens the card, copies memory to and from it, and computes. */
int card_works(void);

/* QEMU's monitor, for a VM with --monitor. The answer is JSON. False on an error. */
bool monitor_open(void);
bool monitor_command(const char *command, const char *arguments, char *answer,
		     size_t size);
/* Runs a command of the human monitor. Returns false if it prints anything. */
bool monitor_human(const char *line);
/* Waits for an event that contains the text. */
bool monitor_event(const char *event, const char *text);

#endif
