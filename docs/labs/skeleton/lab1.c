// SPDX-License-Identifier: GPL-2.0-only
/* Lab 1: binds to the card, checks what it is, and resets it. */

#include <linux/module.h>

#include "lab.h"

int lab_reset(struct lab *lab)
{
	/*
	 * TODO: reset the card, and wait until the reset has ended; LAB_TIMEOUT_SECONDS at most.
	 * If it does not end, clear bus mastering, so that the card cannot do DMA.
	 */
	return -ETIMEDOUT;
}

static int lab1_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct lab *lab;

	lab = devm_kzalloc(&pdev->dev, sizeof(*lab), GFP_KERNEL);
	if (!lab)
		return -ENOMEM;
	lab->pdev = pdev;
	pci_set_drvdata(pdev, lab);

	/* TODO: enable the device, and map BAR 0 to lab->regs. */

	/* TODO: allow DMA to 64-bit addresses. */

	/* TODO: check MAGIC, the major version, the revision. Return -ENODEV for another card. */

	/* TODO: reset the card with lab_reset(). */

	/* TODO: let the card do DMA. */

	/* TODO: return lab_later_start(lab). If it fails, undo what it does not undo. */
	return -ENODEV;
}

static void lab1_remove(struct pci_dev *pdev)
{
	/* TODO: the reverse of probe, without what pcim_ and devm_ functions undo. */
}

/* TODO: a table with the card's ids, and a pci_driver with the name "lab". */
