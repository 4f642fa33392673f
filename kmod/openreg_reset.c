// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reset of a card that does not answer, or by the bus. All contexts die, and new ones
 * work. A card that does not start again is wedged: all calls fail at once.
 */

#include <linux/interrupt.h>
#include <linux/kobject.h>
#include <linux/mm.h>

#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "extra/openreg_extra.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_reset.h"
#include "openreg_trace.h"

/* Fails all queues. The card does no DMA, so the driver can write their card pages. */
static void openreg_reset_fail_queues(struct openreg_device *odev, int error)
{
	struct openreg_queue *queue;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue) {
		openreg_queue_hang(queue, error);
		openreg_points_fail(queue);
	}
	xa_unlock(&odev->queues);
}

/* Makes all reset requests made so far stale. Stop the admin ring first. */
void openreg_reset_new_generation(struct openreg_device *odev)
{
	lockdep_assert_held(&odev->reset_lock);
	/* The ring is seen stopped before this: see openreg_hw_check_alive(). */
	smp_wmb();
	WRITE_ONCE(odev->generation, odev->generation + 1);
}

/* Blocks access to the card's memory and registers until openreg_reset_end(). */
void openreg_reset_begin(struct openreg_device *odev)
{
	openreg_admin_stop(odev, OPENREG_ADMIN_PAUSED, -EIO);
	openreg_reset_new_generation(odev);
	WRITE_ONCE(odev->num_resets, odev->num_resets + 1);
	openreg_bo_kill_doorbells(odev);
	down_write(&odev->map_lock);
	unmap_mapping_range(odev->drm.anon_inode->i_mapping, 0, 0, 1);
	disable_irq(pci_irq_vector(odev->pdev, 0));
}

/**
 * openreg_reset_end() - end a reset, with a card that works or is wedged
 * @odev: the card
 * @ret: 0 if the card has started again, else the error of all calls from now on
 */
void openreg_reset_end(struct openreg_device *odev, int ret)
{
	/* The card may still do DMA: cut it off before any of that memory is freed. */
	if (ret)
		pci_clear_master(odev->pdev);
	/* Set this before up_write(): mappings of a wedged card show dummy pages. */
	WRITE_ONCE(odev->wedged, ret);
	if (!ret)
		odev->wedged_reported = false;
	up_write(&odev->map_lock);
	openreg_reset_fail_queues(odev, ret ?: -EIO);
	if (ret)
		openreg_admin_stop(odev, OPENREG_ADMIN_DEAD, ret);
	openreg_admin_flush(odev);
	openreg_unbinds_finish_all(odev);
	if (!ret)
		openreg_admin_resume(odev);
	enable_irq(pci_irq_vector(odev->pdev, 0));
}

/*
 * Sends DRM's uevent for wedged devices; see "Device Wedging" in drm-uapi.rst. Does not
 * use drm_dev_wedged_event(): that sends it for the primary node, which compute devices
 * do not have.
 */
static void openreg_reset_send_wedged(struct openreg_device *odev)
{
	char *env[2] = { "WEDGED=rebind,bus-reset" };
	int idx;

	if (!drm_dev_enter(&odev->drm, &idx))
		return;
	kobject_uevent_env(&odev->drm.accel->kdev->kobj, KOBJ_CHANGE, env);
	drm_dev_exit(idx);
}

/* Reports a wedged card that is cut off from processes and from DMA. Under reset_lock. */
void openreg_reset_report_wedged(struct openreg_device *odev, int error)
{
	odev->wedged_reported = true;
	drm_err(&odev->drm,
		"the card did not start after a reset (%d): to try again, reset it by the bus, or unbind and bind it\n",
		error);
	openreg_reset_send_wedged(odev);
}

static void openreg_reset_work(struct work_struct *work)
{
	struct openreg_device *odev =
		container_of(work, struct openreg_device, reset_work);
	const char *reason = READ_ONCE(odev->reset_reason);
	int ret;

	guard(mutex)(&odev->reset_lock);
	/* A reset by the bus or a suspend may have come first. */
	if (odev->generation != READ_ONCE(odev->reset_wanted) || odev->suspended ||
	    odev->wedged)
		return;
	drm_err(&odev->drm, "resetting the card: %s\n", reason);
	trace_openreg_reset(odev, reason);
	openreg_dump_hang(odev, reason);
	openreg_reset_begin(odev);
	ret = openreg_hw_restart(odev);
	openreg_reset_end(odev, ret ? -EIO : 0);
	if (ret)
		openreg_reset_report_wedged(odev, ret);
}

/**
 * openreg_reset_request() - request a reset of the card
 * @odev: the card
 * @seen: the card's generation before the reason was found
 * @reason: a sentence for the log
 *
 * Does nothing if the card was reset or suspended since then.
 */
void openreg_reset_request(struct openreg_device *odev, u64 seen,
			   const char *reason)
{
	u64 wanted = READ_ONCE(odev->reset_wanted);

	/* Drop requests of older generations; keep the newest. */
	do {
		if (seen < wanted)
			return;
	} while (!try_cmpxchg64(&odev->reset_wanted, &wanted, seen));
	WRITE_ONCE(odev->reset_reason, reason);
	queue_work(odev->wq, &odev->reset_work);
}

/**
 * openreg_reset_cut_off() - stop using a card that is gone or must not be accessed
 * @odev: the card
 * @error: the error of all calls from now on
 * @reason: a sentence for the log
 *
 * The card is wedged until the bus resets it. Under reset_lock.
 */
void openreg_reset_cut_off(struct openreg_device *odev, int error,
			   const char *reason)
{
	dev_warn(odev->drm.dev, "%s\n", reason);
	trace_openreg_reset(odev, reason);
	openreg_reset_begin(odev);
	openreg_reset_end(odev, error);
}

static void openreg_reset_unregister_keys(struct drm_device *drm, void *data)
{
	struct openreg_device *odev = data;

	lockdep_unregister_key(&odev->reset_key);
	lockdep_unregister_key(&odev->map_key);
}

int openreg_reset_init(struct openreg_device *odev)
{
	int ret;

	lockdep_register_key(&odev->reset_key);
	lockdep_register_key(&odev->map_key);
	ret = drmm_add_action_or_reset(&odev->drm, openreg_reset_unregister_keys,
				       odev);
	if (ret)
		return ret;
	INIT_WORK(&odev->reset_work, openreg_reset_work);
	init_rwsem(&odev->map_lock);
	lockdep_set_class(&odev->map_lock, &odev->map_key);
	ret = drmm_mutex_init(&odev->drm, &odev->dump_lock);
	if (!ret)
		ret = drmm_mutex_init(&odev->drm, &odev->reset_lock);
	if (!ret)
		lockdep_set_class(&odev->reset_lock, &odev->reset_key);
	return ret;
}

/* Ends resets, watchdogs and commands for good. */
void openreg_reset_fini(struct openreg_device *odev)
{
	disable_work_sync(&odev->reset_work);
	openreg_admin_stop(odev, OPENREG_ADMIN_PAUSED, -ENODEV);
	disable_delayed_work_sync(&odev->admin.watchdog);
	openreg_health_fini(odev);
}

/*
 * Callbacks of the PCI core: a reset of the card by the bus, and recovery from bus
 * errors. See Documentation/PCI/pci-error-recovery.rst.
 */

static void openreg_pci_reset_prepare(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);

	dev_warn(&pdev->dev, "the bus resets the card\n");
	trace_openreg_reset(odev, "by the bus");
	mutex_lock(&odev->reset_lock);
	openreg_reset_begin(odev);
	/* Ignore the result: the reset by the bus follows. */
	openreg_hw_reset(odev);
	/* The PCI core saves this state and restores it after the reset. */
	pci_clear_master(pdev);
}

static void openreg_pci_reset_done(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	/* The PCI core restored the state that it saved, which a wedged card had lost. */
	openreg_hw_configure(odev);
	ret = openreg_hw_reset(odev) ?: openreg_hw_start(odev);
	openreg_reset_end(odev, ret ? -EIO : 0);
	if (ret)
		openreg_reset_report_wedged(odev, ret);
	mutex_unlock(&odev->reset_lock);
}

/*
 * Registers can still be read after an error that is not fatal. After a fatal error they
 * cannot. A suspended card has nothing to lose: resume starts it again.
 */
static pci_ers_result_t openreg_pci_error(struct pci_dev *pdev,
					  pci_channel_state_t state)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	guard(mutex)(&odev->reset_lock);
	switch (state) {
	case pci_channel_io_frozen:
		if (!odev->suspended)
			openreg_reset_cut_off(odev, -EIO,
					      "a fatal error on the bus: the card is cut off");
		return PCI_ERS_RESULT_NEED_RESET;
	default:
		/* slot_reset may have failed before and reported it: report it once. */
		if (!odev->wedged_reported) {
			openreg_reset_cut_off(odev, -EIO,
					      "a permanent error on the bus: the card is cut off");
			openreg_reset_report_wedged(odev, -EIO);
		}
		return PCI_ERS_RESULT_DISCONNECT;
	}
}

/*
 * After an error that is not fatal. The card itself stops a queue after a failed transfer,
 * so nothing else is lost. If the card is ready, it goes on.
 */
static pci_ers_result_t openreg_pci_mmio_enabled(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);

	guard(mutex)(&odev->reset_lock);
	if (odev->suspended)
		return PCI_ERS_RESULT_RECOVERED;
	if (odev->wedged)
		return PCI_ERS_RESULT_NEED_RESET;
	if (openreg_hw_is_ready(odev))
		return PCI_ERS_RESULT_RECOVERED;
	openreg_reset_cut_off(odev, -EIO,
			      "an error on the bus: the card does not work");
	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t openreg_pci_slot_reset(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	guard(mutex)(&odev->reset_lock);
	/* The reset is for another function of the same slot. */
	if (!odev->wedged && !odev->suspended)
		openreg_reset_cut_off(odev, -EIO, "the bus resets the slot");
	openreg_hw_configure(odev);
	if (odev->suspended)
		return PCI_ERS_RESULT_RECOVERED;
	ret = openreg_hw_reset(odev);
	if (!ret)
		return PCI_ERS_RESULT_RECOVERED;
	openreg_reset_report_wedged(odev, ret);
	return PCI_ERS_RESULT_DISCONNECT;
}

/* Restarts the card. All old contexts are dead; new ones work. */
static void openreg_pci_resume(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);
	int ret;

	guard(mutex)(&odev->reset_lock);
	if (!odev->wedged || odev->suspended)
		return;
	openreg_reset_begin(odev);
	ret = openreg_hw_restart(odev);
	openreg_reset_end(odev, ret ? -EIO : 0);
	if (ret)
		openreg_reset_report_wedged(odev, ret);
	else
		dev_info(&pdev->dev, "the card works again\n");
}

const struct pci_error_handlers openreg_error_handlers = {
	.reset_prepare = openreg_pci_reset_prepare,
	.reset_done = openreg_pci_reset_done,
	.error_detected = openreg_pci_error,
	.mmio_enabled = openreg_pci_mmio_enabled,
	.slot_reset = openreg_pci_slot_reset,
	.resume = openreg_pci_resume,
};
