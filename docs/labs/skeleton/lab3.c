// SPDX-License-Identifier: GPL-2.0-only
/* Lab 3: makes a context and a queue, and gives the card packets without a command. */

#include <linux/io.h>
#include <linux/iopoll.h>

#include "lab.h"

void lab3_stop(struct lab *lab)
{
	/*
	 * TODO: destroy the context, and with it the queue. If the command does not
	 * complete, reset the card: it may still use the memory. Then free the memory.
	 */
}

int lab3_start(struct lab *lab)
{
	/*
	 * TODO: map BAR 2 to lab->doorbells. Allocate the released page, the ring and the
	 * three pages. Store OPENREG_ARMED_NONE to armed. Create the context LAB_CONTEXT and
	 * the queue LAB_QUEUE, with LAB_DOORBELL and LAB_VECTOR. If anything fails, undo all.
	 */
	return -ENODEV;
}

int lab_submit(struct lab *lab, const void *slot, u64 *seq)
{
	/*
	 * TODO: if there is no free slot, return -EAGAIN. Write the packet, then the tail.
	 * Ring the doorbell if the card sleeps: "Waking the card" has the four steps.
	 */
	return -EIO;
}

int lab_result(struct lab *lab, u64 seq)
{
	/* TODO: 0 if the packet has completed, -EIO if the queue does not run, else -ETIMEDOUT */
	return -EIO;
}

int lab_poll(struct lab *lab, u64 seq)
{
	/* TODO: wait until lab_result() is not -ETIMEDOUT, LAB_TIMEOUT_SECONDS at most. */
	return -EIO;
}
