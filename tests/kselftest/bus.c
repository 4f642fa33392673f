// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bus.h"
#include "machine.h"

#define PATIENCE (60 * SEC_NS)
#define WEDGED "WEDGED=rebind,bus-reset"

bool port_has_aer(const char *port)
{
	char path[256];

	snprintf(path, sizeof(path),
		 "/sys/bus/pci_express/drivers/aer/%s:pcie002", port);
	return !access(path, F_OK);
}

long long errors_of_port(const char *port, const char *kind)
{
	char path[256], name[64];
	long long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), PCI_DEVICES "%s/aer_dev_%s", port, kind);
	file = fopen(path, "r");
	if (!file)
		return -1;
	while (fscanf(file, "%63s %lld", name, &value) == 2)
		if (!strncmp(name, "TOTAL_ERR_", strlen("TOTAL_ERR_")))
			break;
	fclose(file);
	return value;
}

bool recovery_succeeds(int events)
{
	char event[4096];

	return uevents_find(events, "ERROR_EVENT=SUCCESSFUL_RECOVERY", PATIENCE,
			    event, sizeof(event));
}

bool recovery_fails(int events)
{
	char event[4096];

	return uevents_find(events, "ERROR_EVENT=FAILED_RECOVERY", PATIENCE,
			    event, sizeof(event));
}

bool wedged_event_sent(int events, const char *accel)
{
	char event[4096], name[128];

	snprintf(name, sizeof(name), "DEVNAME=%s", accel + strlen("/dev/"));
	return uevents_find(events, WEDGED, PATIENCE, event, sizeof(event)) &&
	       uevent_has(event, "ACTION=change") &&
	       uevent_has(event, "SUBSYSTEM=accel") && uevent_has(event, name);
}

bool no_wedged_event(int events)
{
	char event[4096];

	return !uevents_find(events, WEDGED, 0, event, sizeof(event));
}
