// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/openreg, a second device node for the accel minor. Its open() calls accel_open()
 * with an inode that has the device number of the minor.
 */

#include <linux/fs.h>
#include <linux/miscdevice.h>

#include <drm/drm_accel.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>

#include "openreg_drv.h"

/* Contexts isolate users, so every user may use the card, as with a GPU. */
#define OPENREG_NODE_MODE 0666

static int openreg_node_open(struct inode *inode, struct file *filp)
{
	struct miscdevice *misc = filp->private_data;
	struct openreg_device *odev =
		container_of(misc, struct openreg_device, misc);

	filp->private_data = NULL;
	return accel_open(odev->node_inode, filp);
}

static const struct file_operations openreg_node_fops = {
	.owner = THIS_MODULE,
	.open = openreg_node_open,
	.release = openreg_release,
	.unlocked_ioctl = openreg_ioctl,
	.compat_ioctl = openreg_compat_ioctl,
	.poll = openreg_poll,
	.read = openreg_read_events,
	.llseek = noop_llseek,
	.mmap = drm_gem_mmap,
	.show_fdinfo = drm_show_fdinfo,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

static char *openreg_minor_devnode(const struct device *dev, umode_t *mode,
				   kuid_t *uid, kgid_t *gid)
{
	if (mode)
		*mode = OPENREG_NODE_MODE;
	return NULL; /* the class sets the name */
}

static const struct device_type openreg_minor_type = {
	.name = "accel_minor",
	.devnode = openreg_minor_devnode,
};

/* Overrides the mode 0600 of the accel class. Call this before drm_dev_register(). */
void openreg_node_set_mode(struct openreg_device *odev)
{
	odev->drm.accel->kdev->type = &openreg_minor_type;
}

int openreg_node_register(struct openreg_device *odev)
{
	dev_t devt = odev->drm.accel->kdev->devt;
	struct inode *inode;
	int ret;

	inode = alloc_anon_inode(odev->drm.anon_inode->i_sb);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	init_special_inode(inode, S_IFCHR | OPENREG_NODE_MODE, devt);
	odev->node_inode = inode;

	if (odev->info.card)
		snprintf(odev->node_name, sizeof(odev->node_name), "openreg%u",
			 odev->info.card);
	else
		strscpy(odev->node_name, "openreg");
	odev->misc.minor = MISC_DYNAMIC_MINOR;
	odev->misc.name = odev->node_name;
	odev->misc.fops = &openreg_node_fops;
	odev->misc.mode = OPENREG_NODE_MODE;
	odev->misc.parent = odev->drm.dev;
	ret = misc_register(&odev->misc);
	if (ret)
		openreg_node_release(odev);
	return ret;
}

void openreg_node_deregister(struct openreg_device *odev)
{
	misc_deregister(&odev->misc);
}

void openreg_node_release(struct openreg_device *odev)
{
	iput(odev->node_inode);
	odev->node_inode = NULL;
}
