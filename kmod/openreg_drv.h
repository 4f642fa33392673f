/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_DRV_H
#define OPENREG_DRV_H

#include <linux/fs.h>

#include <drm/drm_ioctl.h>

#include "openreg_device.h"

/* openreg_node.c */
int openreg_open(struct drm_device *drm, struct drm_file *filp);
void openreg_postclose(struct drm_device *drm, struct drm_file *filp);
extern const struct file_operations openreg_fops;
int openreg_node_register(struct openreg_device *odev);
void openreg_node_deregister(struct openreg_device *odev);
void openreg_node_release(struct openreg_device *odev);
void openreg_node_set_mode(struct openreg_device *odev);
void openreg_poll_wake(struct openreg_device *odev);

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
