// SPDX-License-Identifier: GPL-2.0-only
/* Lab 1: binds to the card, checks what it is, and resets it. */

#include <linux/iopoll.h>
#include <linux/module.h>

#include "lab.h"

#define RESET_TIMEOUT_US (LAB_TIMEOUT_SECONDS * USEC_PER_SEC)

static int lab1_check(struct lab *lab)
{
	u32 magic = readl(lab->regs + OPENREG_REG_MAGIC);
	u32 version = readl(lab->regs + OPENREG_REG_VERSION);

	if (magic != OPENREG_MAGIC)
		return dev_err_probe(&lab->pdev->dev, -ENODEV, "magic is 0x%08x\n", magic);
	if (version >> 16 != OPENREG_ISA_MAJOR)
		return dev_err_probe(&lab->pdev->dev, -ENODEV, "version is 0x%08x\n", version);
	if (lab->pdev->revision != OPENREG_PCI_REVISION)
		return dev_err_probe(&lab->pdev->dev, -ENODEV, "revision is %u\n",
				     lab->pdev->revision);
	return 0;
}

/* An earlier driver may have left the card running. */
int lab_reset(struct lab *lab)
{
	void __iomem *control = lab->regs + OPENREG_REG_CONTROL;
	u32 value;
	int ret;

	if (lab_gone(lab))
		return -ENODEV;
	writel(OPENREG_CONTROL_RESET, control);
	ret = readl_poll_timeout(control, value, value == 0, 100, RESET_TIMEOUT_US);
	if (ret) /* the caller frees memory, so the card must not reach it any more */
		pci_clear_master(lab->pdev);
	return ret;
}

static int lab1_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct lab *lab;
	int ret;

	lab = devm_kzalloc(&pdev->dev, sizeof(*lab), GFP_KERNEL);
	if (!lab)
		return -ENOMEM;
	lab->pdev = pdev;
	pci_set_drvdata(pdev, lab);

	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	lab->regs = pcim_iomap_region(pdev, OPENREG_BAR_REGS, "lab");
	if (IS_ERR(lab->regs))
		return PTR_ERR(lab->regs);
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		return ret;
	ret = lab1_check(lab);
	if (ret)
		return ret;
	ret = lab_reset(lab);
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "the reset does not end\n");
	pci_set_master(pdev);

	ret = lab_later_start(lab);
	if (ret)
		pci_clear_master(pdev);
	return ret;
}

static void lab1_remove(struct pci_dev *pdev)
{
	struct lab *lab = pci_get_drvdata(pdev);

	lab_later_stop(lab);
	pci_clear_master(pdev);
}

static const struct pci_device_id lab_ids[] = {
	{ PCI_DEVICE(OPENREG_PCI_VENDOR, OPENREG_PCI_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, lab_ids);

static struct pci_driver lab_driver = {
	.name = "lab",
	.id_table = lab_ids,
	.probe = lab1_probe,
	.remove = lab1_remove,
};
module_pci_driver(lab_driver);
