// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resetting a card, because it does not answer or because somebody asked the
 * bus for it: all contexts die, new ones work.
 */

#include <linux/interrupt.h>
#include <linux/mm.h>

#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "openreg_ctx.h"
#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_trace.h"

static void openreg_reset_fail_queues(struct openreg_device *odev, bool quiet)
{
	struct openreg_queue *queue;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue) {
		if (quiet)
			openreg_queue_hang(queue);
		else
			openreg_queue_fail(queue, -EIO);
		openreg_points_fail(queue);
	}
	xa_unlock(&odev->queues);
}

/* Nobody reaches the card's memory until openreg_reset_end(). */
static int openreg_reset_begin(struct openreg_device *odev)
{
	lockdep_assert_held(&odev->reset_lock);
	odev->num_resets++;
	openreg_admin_stop(odev, OPENREG_ADMIN_PAUSED, -EIO);
	openreg_bo_kill_doorbells(odev);
	down_write(&odev->map_lock);
	unmap_mapping_range(odev->drm.anon_inode->i_mapping, 0, 0, 1);
	disable_irq(pci_irq_vector(odev->pdev, 0));
	return openreg_hw_reset(odev);
}

static void openreg_reset_wedge(struct openreg_device *odev, int error)
{
	drm_err(&odev->drm,
		"the card did not come back from a reset (%d); reset it by the bus, or unbind and bind it, to try again\n",
		error);
	WRITE_ONCE(odev->wedged, true);
	pci_clear_master(odev->pdev);
	openreg_admin_stop(odev, OPENREG_ADMIN_DEAD, -EIO);
	openreg_admin_flush(odev);
}

static void openreg_reset_end(struct openreg_device *odev, int ret)
{
	up_write(&odev->map_lock);
	/* It may still do DMA: cut it off before anybody uses that memory. */
	if (ret)
		pci_clear_master(odev->pdev);
	openreg_reset_fail_queues(odev, !ret);
	if (!ret) {
		openreg_admin_flush(odev);
		ret = openreg_hw_start(odev);
	}
	if (ret) {
		openreg_reset_wedge(odev, ret);
	} else {
		WRITE_ONCE(odev->wedged, false);
		openreg_admin_resume(odev);
	}
	enable_irq(pci_irq_vector(odev->pdev, 0));
}

static void openreg_reset_work(struct work_struct *work)
{
	struct openreg_device *odev =
		container_of(work, struct openreg_device, reset_work);

	guard(mutex)(&odev->reset_lock);
	/* The bus may have been faster. */
	if (odev->num_resets != READ_ONCE(odev->resets_when_asked))
		return;
	drm_err(&odev->drm, "resetting the card: %s\n", odev->reset_reason);
	trace_openreg_reset(odev, odev->reset_reason);
	openreg_dump_hang(odev, odev->reset_reason);
	openreg_reset_end(odev, openreg_reset_begin(odev));
}

void openreg_reset_request(struct openreg_device *odev, const char *reason)
{
	odev->reset_reason = reason;
	WRITE_ONCE(odev->resets_when_asked, READ_ONCE(odev->num_resets));
	queue_work(odev->wq, &odev->reset_work);
}

static void openreg_reset_prepare(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);

	dev_warn(&pdev->dev, "the bus resets the card\n");
	trace_openreg_reset(odev, "by the bus");
	mutex_lock(&odev->reset_lock);
	/* Whatever it answers, what follows is stronger. */
	openreg_reset_begin(odev);
}

static void openreg_reset_done(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	ret = openreg_hw_reset(odev);
	/* A card that was wedged had lost it. */
	if (!ret)
		pci_set_master(pdev);
	openreg_reset_end(odev, ret);
	mutex_unlock(&odev->reset_lock);
}

const struct pci_error_handlers openreg_error_handlers = {
	.reset_prepare = openreg_reset_prepare,
	.reset_done = openreg_reset_done,
};

int openreg_reset_init(struct openreg_device *odev)
{
	INIT_WORK(&odev->reset_work, openreg_reset_work);
	init_rwsem(&odev->map_lock);
	return drmm_mutex_init(&odev->drm, &odev->reset_lock);
}

/* No reset, no watchdog and no command to the card after this. */
void openreg_reset_fini(struct openreg_device *odev)
{
	disable_work_sync(&odev->reset_work);
	openreg_admin_stop(odev, OPENREG_ADMIN_PAUSED, -ENODEV);
	disable_delayed_work_sync(&odev->admin.watchdog);
}
