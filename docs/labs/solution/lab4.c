// SPDX-License-Identifier: GPL-2.0-only
/* Lab 4: lets a thread sleep until the queue's vector. */

#include <linux/interrupt.h>

#include "lab.h"

#define TIMEOUT (LAB_SLEEP_SECONDS * HZ)

/* A thread in lab_sleep(), in the list lab->sleepers */
struct sleeper {
	struct list_head link;
	u64 seq;
};

static irqreturn_t lab4_irq(int irq, void *data)
{
	struct lab *lab = data;

	wake_up_all(&lab->wake);
	return IRQ_HANDLED;
}

void lab4_stop(struct lab *lab)
{
	free_irq(pci_irq_vector(lab->pdev, LAB_VECTOR), lab);
	pci_free_irq_vectors(lab->pdev);
}

int lab4_start(struct lab *lab)
{
	int ret;

	init_waitqueue_head(&lab->wake);
	spin_lock_init(&lab->sleepers_lock);
	INIT_LIST_HEAD(&lab->sleepers);
	ret = pci_alloc_irq_vectors(lab->pdev, LAB_VECTOR + 1, LAB_VECTOR + 1, PCI_IRQ_MSIX);
	if (ret < 0)
		return ret;
	ret = request_irq(pci_irq_vector(lab->pdev, LAB_VECTOR), lab4_irq, 0, "lab", lab);
	if (ret)
		pci_free_irq_vectors(lab->pdev);
	return ret;
}

/* Stores the least number that a thread sleeps for. The caller holds sleepers_lock. */
static void lab4_arm(struct lab *lab)
{
	struct openreg_kernel_page *kernel = lab->kernel_page.cpu;
	u64 least = OPENREG_ARMED_NONE;
	struct sleeper *sleeper;

	list_for_each_entry(sleeper, &lab->sleepers, link)
		least = min(least, sleeper->seq);
	WRITE_ONCE(kernel->armed, least);
	mb(); /* armed before the next load of completed; pairs with the card's barrier */
}

int lab_sleep(struct lab *lab, u64 seq)
{
	struct sleeper me = { .seq = seq };

	spin_lock(&lab->sleepers_lock);
	list_add(&me.link, &lab->sleepers);
	lab4_arm(lab);
	spin_unlock(&lab->sleepers_lock);

	wait_event_timeout(lab->wake, lab_result(lab, seq) != -ETIMEDOUT, TIMEOUT);

	spin_lock(&lab->sleepers_lock);
	list_del(&me.link);
	lab4_arm(lab);
	spin_unlock(&lab->sleepers_lock);
	/* The packet of another thread may have completed before armed named it. */
	wake_up_all(&lab->wake);
	return lab_result(lab, seq);
}
