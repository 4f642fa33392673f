// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "openreg_regs.h"

API int openreg_device_count(void)
{
	char path[64];
	int count = 0;

	for (unsigned int i = 0; i < OPENREG_MAX_CARDS; i++)
		count += transport_exists(i, path, sizeof(path));
	return count;
}

/* Path of the node that is number index among those that exist. */
static bool find_node(unsigned int index, char *path, size_t len)
{
	for (unsigned int i = 0; i < OPENREG_MAX_CARDS; i++)
		if (transport_exists(i, path, len) && !index--)
			return true;
	return false;
}

static int fail_no_card(const char *path)
{
	if (openreg_device_count() > 0)
		return openreg_fail(-ENODEV,
				    "no %s: there are %d cards here, /dev/openreg is the first",
				    path, openreg_device_count());
	if (transport_card_on_bus())
		return openreg_fail(-ENODEV,
				    "no %s: the card is there but no driver has it; load the driver (insmod openreg.ko) and look at dmesg",
				    path);
	return openreg_fail(-ENODEV,
			    "no %s and no openreg card on the PCI bus: run inside the VM (make shell), or start it with a card (scripts/vm --cards 1)",
			    path);
}

static int fail_open(int error, const char *path)
{
	switch (error) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		return fail_no_card(path);
	case -EACCES:
	case -EPERM:
		return openreg_fail(-EACCES,
				    "no permission to open %s: run as root or as a member of the group that owns it (ls -l %s)",
				    path, path);
	case -EPROTO:
		return openreg_fail(-EPROTO,
				    "%s is not a device of the openreg driver: pass /dev/openreg or an /dev/accel node of it",
				    path);
	default:
		return openreg_fail(error, "cannot open %s: %s", path,
				    strerror(-error));
	}
}

static int check_version(const struct openreg_device_info *info)
{
	if (info->isa_version >> 16 == OPENREG_ISA_MAJOR)
		return 0;
	return openreg_fail(-EPROTO,
			    "the card at %s speaks ISA %u.%u, this library %u.x: build card, driver and library from one source",
			    info->pci, info->isa_version >> 16,
			    info->isa_version & 0xffff, OPENREG_ISA_MAJOR);
}

static int device_init(struct openreg_device *dev, const char *path)
{
	int ret;

	dev->mine = openreg_process_mark();
	if (!dev->mine)
		return openreg_fail(-ENOMEM,
				    "no memory for the library's fork mark");
	snprintf(dev->info.path, sizeof(dev->info.path), "%s", path);
	ret = transport_info(dev->fd, &dev->info);
	if (ret)
		return openreg_fail(ret, "cannot query %s: %s", path,
				    strerror(-ret));
	return check_version(&dev->info);
}

API int openreg_device_open_path(const char *path, struct openreg_device **out)
{
	struct openreg_device *dev;
	int ret;

	*out = NULL;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return openreg_fail(-ENOMEM, "out of memory");
	dev->fd = transport_open(path);
	if (dev->fd < 0) {
		ret = fail_open(dev->fd, path);
		free(dev);
		return ret;
	}
	ret = device_init(dev, path);
	if (ret) {
		openreg_device_close(dev);
		return ret;
	}
	*out = dev;
	return 0;
}

API int openreg_device_open(unsigned int index, struct openreg_device **out)
{
	char path[64];

	*out = NULL;
	if (index >= OPENREG_MAX_CARDS)
		return openreg_fail(-ENODEV, "card %u: a machine has at most %u",
				    index, OPENREG_MAX_CARDS);
	if (!find_node(index, path, sizeof(path))) {
		if (!transport_exists(index, path, sizeof(path)))
			return fail_no_card(path);
		return openreg_fail(-ENODEV, "no card %u: %d are here", index,
				    openreg_device_count());
	}
	return openreg_device_open_path(path, out);
}

API void openreg_device_close(struct openreg_device *dev)
{
	if (!dev)
		return;
	transport_close(dev->fd);
	free(dev);
}

API int openreg_device_fd(const struct openreg_device *dev)
{
	return dev->fd;
}

API int openreg_device_get_info(struct openreg_device *dev,
				struct openreg_device_info *info)
{
	*info = dev->info;
	return 0;
}

API int openreg_device_get_memory(struct openreg_device *dev,
				  struct openreg_memory_info *info)
{
	int ret;

	memset(info, 0, sizeof(*info));
	if (!*dev->mine)
		return openreg_fail_forked();
	ret = transport_memory(dev->fd, info);
	if (ret)
		return openreg_fail(ret, "cannot query memory of %s: %s",
				    dev->info.path, openreg_strerror(ret));
	return 0;
}

API int openreg_device_get_timestamp(struct openreg_device *dev,
				     struct openreg_timestamp *ts)
{
	int ret;

	memset(ts, 0, sizeof(*ts));
	if (!*dev->mine)
		return openreg_fail_forked();
	ret = transport_timestamp(dev->fd, ts);
	if (ret)
		return openreg_fail(ret, "cannot read the clock of %s: %s",
				    dev->info.path, openreg_strerror(ret));
	return 0;
}
