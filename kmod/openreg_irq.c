// SPDX-License-Identifier: GPL-2.0-only
/* Interrupts: vector 0 is the driver's, queues share the rest. */

#include <linux/interrupt.h>
#include <linux/rculist.h>

#include "openreg_drv.h"
#include "openreg_queue.h"
#include "openreg_trace.h"

/* Waking is all a queue's vector is for: cheap enough for hard context. */
static irqreturn_t openreg_vector_irq(int irq, void *data)
{
	struct openreg_vector *vector = data;
	struct openreg_queue *queue;

	trace_openreg_irq(vector->odev, vector - vector->odev->vectors);
	guard(rcu)();
	list_for_each_entry_rcu(queue, &vector->queues, vector_link)
		if (READ_ONCE(queue->num_waiters) ||
		    !list_empty(&queue->points))
			openreg_queue_notify(queue);
	return IRQ_HANDLED;
}

static irqreturn_t openreg_admin_irq(int irq, void *data)
{
	struct openreg_device *odev = data;

	trace_openreg_irq(odev, 0);
	openreg_admin_drain(odev);
	openreg_fault_drain(odev);
	openreg_hw_check_alive(odev);
	return IRQ_HANDLED;
}

/* Least loaded vector for a new queue. */
struct openreg_vector *openreg_vector_get(struct openreg_device *odev)
{
	struct openreg_vector *best = &odev->vectors[1];
	unsigned int i;

	for (i = 2; i < odev->num_vectors; i++)
		if (READ_ONCE(odev->vectors[i].num_queues) <
		    READ_ONCE(best->num_queues))
			best = &odev->vectors[i];
	return best;
}

static int openreg_irq_alloc(struct openreg_device *odev)
{
	struct device *dev = odev->drm.dev;
	u32 have = min_t(u32, openreg_read(odev, OPENREG_REG_VECTORS),
			 OPENREG_MAX_VECTORS);
	int num;

	if (have < 2)
		return dev_err_probe(dev, -EPROTO,
				     "card has %u vectors, at least 2 are needed\n",
				     have);
	num = pci_alloc_irq_vectors(odev->pdev, 2, have, PCI_IRQ_MSIX);
	if (num < 0)
		return dev_err_probe(dev, num,
				     "cannot get at least 2 MSI-X vectors\n");
	odev->num_vectors = num;
	odev->info.vectors = num;
	return 0;
}

int openreg_irq_init(struct openreg_device *odev)
{
	struct device *dev = odev->drm.dev;
	unsigned int i;
	int ret;

	ret = openreg_irq_alloc(odev);
	if (ret)
		return ret;

	for (i = 1; i < odev->num_vectors; i++) {
		struct openreg_vector *vector = &odev->vectors[i];

		vector->odev = odev;
		spin_lock_init(&vector->lock);
		INIT_LIST_HEAD(&vector->queues);
		ret = devm_request_irq(dev, pci_irq_vector(odev->pdev, i),
				       openreg_vector_irq, 0, "openreg-queue",
				       vector);
		if (ret)
			return dev_err_probe(dev, ret,
					     "cannot get interrupt %u\n", i);
	}
	ret = devm_request_threaded_irq(dev, pci_irq_vector(odev->pdev, 0),
					NULL, openreg_admin_irq, IRQF_ONESHOT,
					"openreg-admin", odev);
	if (ret)
		return dev_err_probe(dev, ret, "cannot get interrupt 0\n");
	return 0;
}
