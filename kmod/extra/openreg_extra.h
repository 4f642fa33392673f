/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_EXTRA_H
#define OPENREG_EXTRA_H

#include "openreg_device.h"

struct attribute_group;
struct drm_file;
struct drm_printer;
struct openreg_queue;

/* openreg_syncobj.c */
int openreg_queue_signal(struct openreg_queue *queue, struct drm_file *filp,
			 const struct drm_openreg_queue_signal *args);

/* openreg_dump.c */
void openreg_dump_fault(struct openreg_device *odev, struct openreg_queue *queue,
			const struct openreg_fault_record *record,
			const char *reason);
void openreg_dump_queue(struct openreg_queue *queue, const char *reason);
void openreg_dump_hang(struct openreg_device *odev, const char *reason);

/* openreg_fdinfo.c */
void openreg_show_fdinfo(struct drm_printer *p, struct drm_file *filp);

/* openreg_debugfs.c */
void openreg_debugfs_init(struct openreg_device *odev);
unsigned int openreg_count_queues(struct openreg_device *odev);

/* openreg_sysfs.c */
extern const struct attribute_group *openreg_groups[];

#endif
