// SPDX-License-Identifier: GPL-2.0-only
/* The device file has one event: the card was removed. */

#include <linux/poll.h>

#include <drm/drm_drv.h>
#include <drm/drm_file.h>

#include "openreg_drv.h"

static bool openreg_is_gone(struct drm_file *file)
{
	return drm_dev_is_unplugged(file->minor->dev);
}

__poll_t openreg_poll(struct file *filp, struct poll_table_struct *wait)
{
	struct drm_file *file = filp->private_data;

	poll_wait(filp, &file->event_wait, wait);
	return openreg_is_gone(file) ? EPOLLHUP | EPOLLERR : 0;
}

ssize_t openreg_read_events(struct file *filp, char __user *buf, size_t count,
			    loff_t *offset)
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
