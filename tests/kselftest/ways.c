// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "card.h"
#include "machine.h"
#include "ways.h"

static char slot[64], port[64];
static __u16 port_command;
static __u8 port_buses[2];
static unsigned long long vram_size;

#define VRAM_BAR "/resource4"

int way_begin(void)
{
	char path[256];
	struct stat st;

	if (!slot_of_card(slot, sizeof(slot)) ||
	    !slot_of_port(slot, port, sizeof(port)))
		return -ENOENT;
	snprintf(path, sizeof(path), PCI_DEVICES "%s" VRAM_BAR, slot);
	if (stat(path, &st))
		return -errno;
	vram_size = st.st_size;
	return slot_command(port, &port_command) ||
	       slot_read(port, PCI_SECONDARY_BUS, port_buses, 2);
}

/* Closes the port above the card. First disables DMA of the card. */
static int cut_off(void)
{
	const __u8 none[2] = { 0, 0 };

	return slot_set_command(slot, 0) ||
	       slot_write(port, PCI_SECONDARY_BUS, none, 2) ||
	       slot_set_command(port, port_command & ~PCI_COMMAND_MEMORY);
}

static int let_through(void)
{
	return slot_write(port, PCI_SECONDARY_BUS, port_buses, 2) ||
	       slot_set_command(port, port_command);
}

int way_go(enum way way)
{
	char name[32], id[64], answer[1024];

	switch (way) {
	case DRIVER:
		return file_put(PCI_DRIVER "unbind", slot);
	case BUS:
		return slot_put(slot, "remove", "1");
	case SURPRISE:
		if (cut_off())
			return -EIO;
		return slot_put(slot, "remove", "1");
	default:
		snprintf(name, sizeof(name), "\"card%u\"", card_number());
		snprintf(id, sizeof(id), "\"id\": %s", name);
		if (!monitor_command("device_del", id, answer,
				     sizeof(answer)) ||
		    !monitor_event("DEVICE_DELETED", name))
			return -EIO;
		return 0;
	}
}

int way_come(enum way way)
{
	char device[256], answer[1024];

	switch (way) {
	case DRIVER:
		return file_put(PCI_DRIVER "bind", slot);
	case SURPRISE:
		if (let_through())
			return -EIO;
		return file_put("/sys/bus/pci/rescan", "1");
	case BUS:
		return file_put("/sys/bus/pci/rescan", "1");
	default:
		snprintf(device, sizeof(device),
			 "\"driver\": \"openreg\", \"id\": \"card%u\", \"bus\": \"port%u\", \"vram-size\": %llu",
			 card_number(), card_number(), vram_size);
		if (!monitor_command("device_add", device, answer,
				     sizeof(answer))) {
			fprintf(stderr, "# device_add: %s\n", answer);
			return -EIO;
		}
		return card_await();
	}
}
