// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device nodes and their files. /dev/openreg is a second node for the accel minor: its
 * open() calls accel_open() with an inode that has the device number of the minor. A device
 * file has one event: the card was removed.
 */

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/poll.h>

#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>

#include "openreg_compat.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_drv.h"
#include "openreg_queue.h"

/* Contexts isolate users, so every user may use the card, as with a GPU. */
#define OPENREG_NODE_MODE 0666

int openreg_open(struct drm_device *drm, struct drm_file *filp)
{
	struct openreg_file *file = kzalloc_obj(*file);

	if (!file)
		return -ENOMEM;
	file->odev = to_openreg(drm);
	mutex_init(&file->lock);
	xa_init_flags(&file->queues, XA_FLAGS_ALLOC1);
	filp->driver_priv = file;
	return 0;
}

/* Stops the queues first, because drm_release() closes the objects one by one. */
static int openreg_release(struct inode *inode, struct file *filp)
{
	struct drm_file *drm_file = filp->private_data;
	struct openreg_file *file = drm_file->driver_priv;

	openreg_queues_close(file, drm_file);
	if (file->ctx)
		openreg_ctx_close(file->ctx);
	return drm_release(inode, filp);
}

void openreg_postclose(struct drm_device *drm, struct drm_file *filp)
{
	struct openreg_file *file = filp->driver_priv;

	if (file->ctx)
		openreg_ctx_put(file->ctx);
	xa_destroy(&file->queues);
	mutex_destroy(&file->lock);
	kfree(file);
}

static bool openreg_is_gone(struct drm_file *file)
{
	return drm_dev_is_unplugged(file->minor->dev);
}

static __poll_t openreg_poll(struct file *filp, struct poll_table_struct *wait)
{
	struct drm_file *file = filp->private_data;

	poll_wait(filp, &file->event_wait, wait);
	return openreg_is_gone(file) ? EPOLLHUP | EPOLLERR : 0;
}

static ssize_t openreg_read_events(struct file *filp, char __user *buf,
				   size_t count, loff_t *offset)
{
	struct drm_file *file = filp->private_data;
	int ret;

	if (filp->f_flags & O_NONBLOCK && !openreg_is_gone(file))
		return -EAGAIN;
	ret = wait_event_interruptible(file->event_wait, openreg_is_gone(file));
	return ret ?: -ENODEV;
}

/* Wakes all that poll or read. Call this after drm_dev_unplug(). */
void openreg_poll_wake(struct openreg_device *odev)
{
	struct drm_device *drm = &odev->drm;
	struct drm_file *file;

	guard(mutex)(&drm->filelist_mutex);
	list_for_each_entry(file, &drm->filelist, lhead)
		wake_up_interruptible(&file->event_wait);
}

const struct file_operations openreg_fops = {
	.owner = THIS_MODULE,
	.open = accel_open,
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
