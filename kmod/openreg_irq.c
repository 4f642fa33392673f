// SPDX-License-Identifier: GPL-2.0-only
/* Interrupts: vector 0 is for the driver, and the queues share the others. */

#include <linux/interrupt.h>

#include "openreg_device.h"
#include "openreg_trace.h"

/*
 * Limit for the vectors of all cards together. An x86 CPU has 200, and suspend moves the
 * vectors of all CPUs to the last one online.
 */
#define OPENREG_VECTORS_ALL 128

static DEFINE_MUTEX(openreg_vectors_lock);
static int openreg_vectors_taken;

static irqreturn_t openreg_vector_irq(int irq, void *data)
{
	struct openreg_vector *vector = data;

	trace_openreg_irq(vector->odev, vector - vector->odev->vectors);
	vector->odev->upcalls->notify_queues(vector);
	return IRQ_HANDLED;
}

static irqreturn_t openreg_admin_irq(int irq, void *data)
{
	struct openreg_device *odev = data;

	trace_openreg_irq(odev, 0);
	openreg_admin_drain(odev);
	odev->upcalls->notify(odev);
	openreg_hw_check_alive(odev);
	return IRQ_HANDLED;
}

/* Returns the vector with the fewest queues. */
struct openreg_vector *openreg_vector_get(struct openreg_device *odev)
{
	struct openreg_vector *best = &odev->vectors[1];
	unsigned int i;

	for (i = 2; i < odev->info.vectors; i++)
		if (READ_ONCE(odev->vectors[i].num_queues) <
		    READ_ONCE(best->num_queues))
			best = &odev->vectors[i];
	return best;
}

/*
 * Returns how many vectors a card may get: a quarter of those left, so that later cards
 * get some. The first four get 32, 24, 18 and 13, and sixteen cards get 131 in all.
 */
static int openreg_irq_share(u32 have)
{
	int left;

	lockdep_assert_held(&openreg_vectors_lock);
	left = OPENREG_VECTORS_ALL - openreg_vectors_taken;
	return clamp(left / 4, 2, (int)have);
}

static void openreg_irq_uncount(void *data)
{
	struct openreg_device *odev = data;

	guard(mutex)(&openreg_vectors_lock);
	openreg_vectors_taken -= odev->info.vectors;
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
	scoped_guard(mutex, &openreg_vectors_lock) {
		num = pci_alloc_irq_vectors(odev->pdev, 2,
					    openreg_irq_share(have),
					    PCI_IRQ_MSIX);
		if (num > 0)
			openreg_vectors_taken += num;
	}
	if (num < 0)
		return dev_err_probe(dev, num,
				     "cannot get at least 2 MSI-X vectors\n");
	odev->info.vectors = num;
	return devm_add_action_or_reset(dev, openreg_irq_uncount, odev);
}

static int openreg_irq_request(struct openreg_device *odev, unsigned int i)
{
	struct openreg_vector *vector = &odev->vectors[i];

	vector->odev = odev;
	spin_lock_init(&vector->lock);
	INIT_LIST_HEAD(&vector->queues);
	return devm_request_irq(odev->drm.dev, pci_irq_vector(odev->pdev, i),
				openreg_vector_irq, 0, "openreg-queue", vector);
}

/* Uses fewer vectors if other devices have left fewer. Two are enough. */
static void openreg_irq_reduce(struct openreg_device *odev, unsigned int num)
{
	dev_info(odev->drm.dev,
		 "only %u of %u interrupt vectors are available\n", num,
		 odev->info.vectors);
	guard(mutex)(&openreg_vectors_lock);
	openreg_vectors_taken -= odev->info.vectors - num;
	odev->info.vectors = num;
}

int openreg_irq_init(struct openreg_device *odev)
{
	struct device *dev = odev->drm.dev;
	unsigned int i;
	int ret;

	ret = openreg_irq_alloc(odev);
	if (ret)
		return ret;

	ret = devm_request_threaded_irq(dev, pci_irq_vector(odev->pdev, 0),
					NULL, openreg_admin_irq, IRQF_ONESHOT,
					"openreg-admin", odev);
	if (ret)
		return dev_err_probe(dev, ret, "cannot get interrupt 0\n");
	for (i = 1; i < odev->info.vectors; i++) {
		ret = openreg_irq_request(odev, i);
		if (ret == -ENOSPC && i >= 2) {
			openreg_irq_reduce(odev, i);
			break;
		}
		if (ret)
			return dev_err_probe(dev, ret,
					     "cannot get interrupt %u\n", i);
	}
	return 0;
}
