/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_RESET_H
#define OPENREG_RESET_H

#include "openreg_device.h"

/* openreg_fault.c */
int openreg_fault_init(struct openreg_device *odev);
void openreg_fault_drain(struct openreg_device *odev);
void openreg_fault_try_drain(struct openreg_device *odev);

/* openreg_stuck.c */
bool openreg_stuck_watch(struct openreg_device *odev);

/* openreg_reset.c */
int openreg_reset_init(struct openreg_device *odev);
void openreg_reset_new_generation(struct openreg_device *odev);
void openreg_reset_begin(struct openreg_device *odev);
void openreg_reset_end(struct openreg_device *odev, int ret);
void openreg_reset_report_wedged(struct openreg_device *odev, int error);
void openreg_reset_cut_off(struct openreg_device *odev, int error,
			   const char *reason);
void openreg_reset_request(struct openreg_device *odev, u64 seen,
			   const char *reason);
void openreg_reset_fini(struct openreg_device *odev);
extern const struct pci_error_handlers openreg_error_handlers;

/* openreg_power.c */
extern const struct dev_pm_ops openreg_pm_ops;

#endif
