/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_DRV_H
#define OPENREG_DRV_H

#include <linux/fs.h>
#include <linux/poll.h>

#include <drm/drm_ioctl.h>

#include "openreg_device.h"

/* openreg_node.c */
int openreg_node_register(struct openreg_device *odev);
void openreg_node_deregister(struct openreg_device *odev);
void openreg_node_release(struct openreg_device *odev);
void openreg_node_set_mode(struct openreg_device *odev);
__poll_t openreg_poll(struct file *filp, struct poll_table_struct *wait);
ssize_t openreg_read_events(struct file *filp, char __user *buf, size_t count,
			    loff_t *offset);
void openreg_poll_wake(struct openreg_device *odev);

/* openreg_drv.c */
int openreg_release(struct inode *inode, struct file *filp);

/* openreg_ioctl.c */
#define OPENREG_NUM_IOCTLS (DRM_OPENREG_QUEUE_SIGNAL + 1)
extern const struct drm_ioctl_desc openreg_ioctls[OPENREG_NUM_IOCTLS];
long openreg_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);
#ifdef CONFIG_COMPAT
long openreg_compat_ioctl(struct file *filp, unsigned int cmd,
			  unsigned long arg);
#else
#define openreg_compat_ioctl NULL
#endif

#endif
