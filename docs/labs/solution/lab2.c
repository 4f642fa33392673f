// SPDX-License-Identifier: GPL-2.0-only
/* Lab 2: enables the card, and gives it commands in the admin ring. */

#include <linux/dma-mapping.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/iopoll.h>

#include "lab.h"

#define TIMEOUT_US (LAB_TIMEOUT_SECONDS * USEC_PER_SEC)

int lab_alloc(struct lab *lab, struct lab_memory *memory, size_t size)
{
	memory->cpu = dma_alloc_coherent(&lab->pdev->dev, size, &memory->bus, GFP_KERNEL);
	if (!memory->cpu)
		return -ENOMEM;
	memory->size = size;
	return 0;
}

void lab_free(struct lab *lab, struct lab_memory *memory)
{
	if (memory->cpu)
		dma_free_coherent(&lab->pdev->dev, memory->size, memory->cpu, memory->bus);
	memory->cpu = NULL;
}

static int lab2_alloc(struct lab *lab)
{
	int ret;

	ret = lab_alloc(lab, &lab->cmds, LAB_ADMIN_SLOTS * sizeof(struct openreg_admin_cmd));
	if (!ret)
		ret = lab_alloc(lab, &lab->cpls,
				LAB_ADMIN_SLOTS * sizeof(struct openreg_admin_cpl));
	if (!ret)
		ret = lab_alloc(lab, &lab->faults,
				LAB_FAULT_SLOTS * sizeof(struct openreg_fault_record));
	return ret;
}

static int lab2_enable(struct lab *lab)
{
	void __iomem *regs = lab->regs;
	u32 status;
	int ret;

	writel(LAB_CARD, regs + OPENREG_REG_CARD_ID);
	writeq(lab->cmds.bus, regs + OPENREG_REG_ADMIN_BASE);
	writeq(lab->cpls.bus, regs + OPENREG_REG_ADMIN_CPL);
	writel(LAB_ADMIN_SLOTS, regs + OPENREG_REG_ADMIN_SLOTS);
	writeq(lab->faults.bus, regs + OPENREG_REG_FAULT_BASE);
	writel(LAB_FAULT_SLOTS, regs + OPENREG_REG_FAULT_SLOTS);
	writel(OPENREG_CONTROL_ENABLE, regs + OPENREG_REG_CONTROL);
	ret = readl_poll_timeout(regs + OPENREG_REG_STATUS, status, status, 100, TIMEOUT_US);
	if (ret)
		return ret;
	return status == OPENREG_STATUS_READY ? 0 : -EIO;
}

/* The card may use the memory until the reset has ended. */
void lab2_stop(struct lab *lab)
{
	lab_reset(lab);
	lab_free(lab, &lab->faults);
	lab_free(lab, &lab->cpls);
	lab_free(lab, &lab->cmds);
}

int lab2_start(struct lab *lab)
{
	int ret = lab2_alloc(lab);

	if (!ret)
		ret = lab2_enable(lab);
	if (ret)
		lab2_stop(lab);
	return ret;
}

int lab_admin(struct lab *lab, const struct openreg_admin_cmd *cmd)
{
	u32 slot = lab->admin_tail % LAB_ADMIN_SLOTS;
	struct openreg_admin_cmd *cmds = lab->cmds.cpu;
	struct openreg_admin_cpl *cpl = (struct openreg_admin_cpl *)lab->cpls.cpu + slot;
	u32 seq;
	int ret;

	if (lab_gone(lab))
		return -ENODEV;
	cmds[slot] = *cmd;
	lab->admin_tail++;
	/* writel() orders the stores before it. */
	writel(lab->admin_tail, lab->regs + OPENREG_REG_ADMIN_TAIL);
	ret = read_poll_timeout(READ_ONCE, seq, seq == lab->admin_tail, 10, TIMEOUT_US, false,
				cpl->seq);
	if (ret)
		return ret;
	dma_rmb(); /* status was written together with seq */
	return cpl->status;
}
