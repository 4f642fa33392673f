// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the bus has to tell: that it resets the card, that a transfer failed,
 * that the card was cut off. Documentation/PCI/pci-error-recovery.rst.
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
	/* Whatever it answers, what follows is stronger. */
	openreg_hw_reset(odev);
	/* The bus restores what it finds. */
	pci_clear_master(pdev);
}

static void openreg_pci_reset_done(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	/* The bus keeps what it found, and a wedged card had lost it. */
	openreg_hw_configure(odev);
	ret = openreg_hw_reset(odev) ?: openreg_hw_start(odev);
	openreg_reset_end(odev, ret ? -EIO : 0);
	if (ret)
		openreg_reset_report_wedged(odev, ret);
	mutex_unlock(&odev->reset_lock);
}

/*
 * After one that is not fatal the card may be looked at; else it is frozen. A
 * card that sleeps has nothing to lose: who wakes it up has it start anew.
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
					      "a fatal error on the bus, the card is cut off");
		return PCI_ERS_RESULT_NEED_RESET;
	default:
		/* Those that failed to bring it back are told that they did. */
		if (!odev->wedged_reported) {
			openreg_reset_cut_off(odev, -EIO,
					      "the bus gives the card up");
			openreg_reset_report_wedged(odev, -EIO);
		}
		return PCI_ERS_RESULT_DISCONNECT;
	}
}

/*
 * Nothing was lost that the card does not know of: it stops the queue whose
 * transfer is refused. If it does, it goes on.
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
			      "an error on the bus, and the card does not work");
	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t openreg_pci_slot_reset(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	guard(mutex)(&odev->reset_lock);
	/* For the sake of another function. */
	if (!odev->wedged && !odev->suspended)
		openreg_reset_cut_off(odev, -EIO, "the bus wants it reset");
	openreg_hw_configure(odev);
	if (odev->suspended)
		return PCI_ERS_RESULT_RECOVERED;
	ret = openreg_hw_reset(odev);
	if (!ret)
		return PCI_ERS_RESULT_RECOVERED;
	openreg_reset_report_wedged(odev, ret);
	return PCI_ERS_RESULT_DISCONNECT;
}

/* Contexts that were there have died; new ones may come. */
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
		dev_info(&pdev->dev, "the card is back\n");
}

const struct pci_error_handlers openreg_error_handlers = {
	.reset_prepare = openreg_pci_reset_prepare,
	.reset_done = openreg_pci_reset_done,
	.error_detected = openreg_pci_error,
	.mmio_enabled = openreg_pci_mmio_enabled,
	.slot_reset = openreg_pci_slot_reset,
	.resume = openreg_pci_resume,
};
