// SPDX-License-Identifier: GPL-2.0-only
/* Lab 2: enables the card, and gives it commands in the admin ring. */

#include <linux/dma-mapping.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/iopoll.h>

#include "lab.h"

int lab_alloc(struct lab *lab, struct lab_memory *memory, size_t size)
{
	/* TODO: dma_alloc_coherent() */
	return -ENOMEM;
}

void lab_free(struct lab *lab, struct lab_memory *memory)
{
	/* TODO: dma_free_coherent(), if something was allocated */
}

void lab2_stop(struct lab *lab)
{
	/* TODO: the card may use the memory until it is reset. Then free the memory. */
}

int lab2_start(struct lab *lab)
{
	/*
	 * TODO: allocate lab->cmds, lab->cpls and lab->faults. Write CARD_ID and the
	 * registers of both rings. Enable the card, and wait until STATUS has READY or
	 * FATAL. If anything fails, undo all.
	 */
	return -ENODEV;
}

int lab_admin(struct lab *lab, const struct openreg_admin_cmd *cmd)
{
	/*
	 * TODO: copy the command into its slot, count lab->admin_tail up, and write it to
	 * the register. Poll seq in the slot's completion. Return its status.
	 */
	return -ETIMEDOUT;
}
