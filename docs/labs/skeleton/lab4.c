// SPDX-License-Identifier: GPL-2.0-only
/* Lab 4: lets a thread sleep until the queue's vector. */

#include <linux/interrupt.h>

#include "lab.h"

static irqreturn_t lab4_irq(int irq, void *data)
{
	/* TODO: wake all threads in lab_sleep(). An interrupt handler must not sleep. */
	return IRQ_NONE;
}

void lab4_stop(struct lab *lab)
{
	/* TODO: free the interrupt, then the vectors. */
}

int lab4_start(struct lab *lab)
{
	/*
	 * TODO: initialize lab->wake, lab->sleepers_lock and lab->sleepers. Allocate MSI-X
	 * vectors up to LAB_VECTOR, and request that of the queue with lab4_irq().
	 */
	return -ENODEV;
}

int lab_sleep(struct lab *lab, u64 seq)
{
	/*
	 * TODO: sleep until lab_result() is not -ETIMEDOUT, or the time is over. armed must
	 * be the least number of all threads that sleep, before this thread looks at
	 * completed, and again after it has woken.
	 */
	return -EIO;
}
