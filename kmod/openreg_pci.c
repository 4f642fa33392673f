// SPDX-License-Identifier: GPL-2.0-only
/*
 * Callbacks of the PCI core: a reset of the card by the bus, and recovery from bus
 * errors. See Documentation/PCI/pci-error-recovery.rst.
 */

#include <linux/mm.h>

#include <drm/drm_print.h>

#include "openreg_drv.h"
#include "openreg_trace.h"

static void openreg_pci_reset_prepare(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);

	dev_warn(&pdev->dev, "the bus resets the card\n");
	trace_openreg_reset(odev, "by the bus");
	mutex_lock(&odev->reset_lock);
	openreg_reset_begin(odev);
	/* Ignore the result: the reset by the bus follows. */
	openreg_hw_reset(odev);
	/* The PCI core saves this state and restores it after the reset. */
	pci_clear_master(pdev);
}

static void openreg_pci_reset_done(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	/* The PCI core restored the state that it saved, which a wedged card had lost. */
	openreg_hw_configure(odev);
	ret = openreg_hw_reset(odev) ?: openreg_hw_start(odev);
	openreg_reset_end(odev, ret ? -EIO : 0);
	if (ret)
		openreg_reset_report_wedged(odev, ret);
	mutex_unlock(&odev->reset_lock);
}

/*
 * Registers can still be read after an error that is not fatal. After a fatal error they
 * cannot. A suspended card has nothing to lose: resume starts it again.
 */
static pci_ers_result_t openreg_pci_error(struct pci_dev *pdev,
					  pci_channel_state_t state)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	guard(mutex)(&odev->reset_lock);
	switch (state) {
	case pci_channel_io_frozen:
		if (!odev->suspended)
			openreg_reset_cut_off(odev, -EIO,
					      "a fatal error on the bus: the card is cut off");
		return PCI_ERS_RESULT_NEED_RESET;
	default:
		/* slot_reset may have failed before and reported it: report it once. */
		if (!odev->wedged_reported) {
			openreg_reset_cut_off(odev, -EIO,
					      "a permanent error on the bus: the card is cut off");
			openreg_reset_report_wedged(odev, -EIO);
		}
		return PCI_ERS_RESULT_DISCONNECT;
	}
}

/*
 * After an error that is not fatal. The card itself stops a queue whose transfer failed,
 * so nothing else is lost. If the card is ready, it goes on.
 */
static pci_ers_result_t openreg_pci_mmio_enabled(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);

	guard(mutex)(&odev->reset_lock);
	if (odev->suspended)
		return PCI_ERS_RESULT_RECOVERED;
	if (odev->wedged)
		return PCI_ERS_RESULT_NEED_RESET;
	if (openreg_hw_is_ready(odev))
		return PCI_ERS_RESULT_RECOVERED;
	openreg_reset_cut_off(odev, -EIO,
			      "an error on the bus: the card does not work");
	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t openreg_pci_slot_reset(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	guard(mutex)(&odev->reset_lock);
	/* The reset is for another function of the same slot. */
	if (!odev->wedged && !odev->suspended)
		openreg_reset_cut_off(odev, -EIO, "the bus resets the slot");
	openreg_hw_configure(odev);
	if (odev->suspended)
		return PCI_ERS_RESULT_RECOVERED;
	ret = openreg_hw_reset(odev);
	if (!ret)
		return PCI_ERS_RESULT_RECOVERED;
	openreg_reset_report_wedged(odev, ret);
	return PCI_ERS_RESULT_DISCONNECT;
}

/* Restarts the card. All old contexts are dead; new ones work. */
static void openreg_pci_resume(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	guard(mutex)(&odev->reset_lock);
	if (!odev->wedged || odev->suspended)
		return;
	openreg_reset_begin(odev);
	ret = openreg_hw_restart(odev);
	openreg_reset_end(odev, ret ? -EIO : 0);
	if (ret)
		openreg_reset_report_wedged(odev, ret);
	else
		dev_info(&pdev->dev, "the card works again\n");
}

const struct pci_error_handlers openreg_error_handlers = {
	.reset_prepare = openreg_pci_reset_prepare,
	.reset_done = openreg_pci_reset_done,
	.error_detected = openreg_pci_error,
	.mmio_enabled = openreg_pci_mmio_enabled,
	.slot_reset = openreg_pci_slot_reset,
	.resume = openreg_pci_resume,
};
