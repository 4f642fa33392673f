// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of the PCI device in sysfs, /sys/bus/pci/devices/<address>/usage/. Any user may
 * read them: they are totals, and name no process. Each holds one number:
 *	compute_ns, copy_ns	time in which the engines worked since the last reset
 *	faults			queues that faulted since the last reset
 *	queues			existing queues
 *	resets			resets since the driver was bound
 */

#include <linux/device.h>
#include <linux/pci.h>
#include <linux/sysfs.h>

#include <drm/drm_drv.h>

#include "openreg_device.h"
#include "openreg_extra.h"

struct openreg_counter {
	struct device_attribute attr;
	u32 reg;
};

static struct openreg_device *to_odev(struct device *dev)
{
	return pci_get_drvdata(to_pci_dev(dev));
}

/* Returns -EBUSY during a reset, rather than wait for its end. */
static int openreg_read_counter(struct openreg_device *odev, u32 reg, u64 *value)
{
	int ret;

	if (!down_read_trylock(&odev->map_lock))
		return -EBUSY;
	ret = odev->wedged;
	if (!ret)
		*value = openreg_read64(odev, reg);
	up_read(&odev->map_lock);
	return ret;
}

static ssize_t openreg_counter_show(struct device *dev,
				    struct device_attribute *attr, char *buf)
{
	struct openreg_device *odev = to_odev(dev);
	u64 value;
	int ret, idx;

	if (!drm_dev_enter(&odev->drm, &idx))
		return -ENODEV;
	ret = openreg_read_counter(odev,
				   container_of(attr, struct openreg_counter, attr)->reg,
				   &value);
	drm_dev_exit(idx);
	return ret ?: sysfs_emit(buf, "%llu\n", value);
}

#define OPENREG_COUNTER(_name, _reg)					\
	static struct openreg_counter openreg_##_name = {		\
		.attr = __ATTR(_name, 0444, openreg_counter_show, NULL),\
		.reg = (_reg),						\
	}

OPENREG_COUNTER(compute_ns, OPENREG_REG_STAT_COMPUTE_NS);
OPENREG_COUNTER(copy_ns, OPENREG_REG_STAT_COPY_NS);
OPENREG_COUNTER(faults, OPENREG_REG_STAT_FAULTS);

static ssize_t queues_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%u\n", openreg_count_queues(to_odev(dev)));
}
static DEVICE_ATTR_RO(queues);

static ssize_t resets_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%llu\n", READ_ONCE(to_odev(dev)->num_resets));
}
static DEVICE_ATTR_RO(resets);

static struct attribute *openreg_usage_attrs[] = {
	&openreg_compute_ns.attr.attr,
	&openreg_copy_ns.attr.attr,
	&openreg_faults.attr.attr,
	&dev_attr_queues.attr,
	&dev_attr_resets.attr,
	NULL
};

static const struct attribute_group openreg_usage_group = {
	.name = "usage",
	.attrs = openreg_usage_attrs,
};

const struct attribute_group *openreg_groups[] = {
	&openreg_usage_group,
	NULL
};
