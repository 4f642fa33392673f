// SPDX-License-Identifier: GPL-2.0-only
/* Lab 6: reads why a queue has faulted, and lets it continue. */

#include <linux/io.h>

#include "lab.h"

int lab_fault(struct lab *lab, struct openreg_fault_record *record)
{
	struct openreg_fault_record *ring = lab->faults.cpu;
	struct openreg_fault_record *next = &ring[lab->fault_head % LAB_FAULT_SLOTS];

	if (READ_ONCE(next->seq) != lab->fault_head + 1)
		return -ENOENT;
	dma_rmb(); /* the card wrote seq last */
	*record = *next;
	lab->fault_head++;
	/* The card may overwrite the record from now on. */
	writel(lab->fault_head, lab->regs + OPENREG_REG_FAULT_HEAD);
	return 0;
}

int lab_recover(struct lab *lab)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_QUEUE_RESET,
		.ctx = LAB_CONTEXT,
		.id = LAB_QUEUE,
		.reset = { .head = lab->tail, .seq = lab->seq },
	};

	return lab_admin(lab, &cmd);
}
