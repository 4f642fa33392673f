// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resetting a card, because it does not answer or because somebody asked the
 * bus for it: all contexts die, new ones work. A card that does not come back is
 * wedged: whatever is asked of it fails at once.
 */

#include <linux/interrupt.h>
#include <linux/kobject.h>
#include <linux/mm.h>

#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "openreg_ctx.h"
#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_trace.h"

/* The card does no DMA, so that what its users see can be written. */
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

/* What was found of the card is void; the admin ring stands still. */
void openreg_reset_new_generation(struct openreg_device *odev)
{
	lockdep_assert_held(&odev->reset_lock);
	/* In this order: see openreg_hw_check_alive(). */
	smp_wmb();
	WRITE_ONCE(odev->generation, odev->generation + 1);
}

/* Nobody reaches the card's memory until openreg_reset_end(). */
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
 * openreg_reset_end() - let a card be used again, or nobody
 * @odev: the card
 * @ret: 0 if it has started anew; else what all calls get from now on
 */
void openreg_reset_end(struct openreg_device *odev, int ret)
{
	/* It may still do DMA: cut it off before anybody uses that memory. */
	if (ret)
		pci_clear_master(odev->pdev);
	/* Maps of a wedged card's memory show nothing of it. */
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
 * DRM's uevent of wedged devices, see "Device Wedging" in its drm-uapi.rst. From
 * here since drm_dev_wedged_event() sends it for the primary node, which devices
 * for computing do not have.
 */
static void openreg_reset_send_wedged(struct openreg_device *odev)
{
	char *env[2] = { "WEDGED=rebind,bus-reset" };
	int cookie;

	if (!drm_dev_enter(&odev->drm, &cookie))
		return;
	kobject_uevent_env(&odev->drm.accel->kdev->kobj, KOBJ_CHANGE, env);
	drm_dev_exit(cookie);
}

/* When nobody can reach the card, nor the card anybody. Under reset_lock. */
void openreg_reset_report_wedged(struct openreg_device *odev, int error)
{
	odev->wedged_reported = true;
	drm_err(&odev->drm,
		"the card did not come back from a reset (%d); reset it by the bus, or unbind and bind it, to try again\n",
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
	/* The bus, or a sleep, may have been faster. */
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
 * openreg_reset_request() - have the card reset
 * @odev: the card
 * @seen: its generation before the reason was found
 * @reason: a sentence for the log
 *
 * Nothing happens if it has been reset since, or has slept.
 */
void openreg_reset_request(struct openreg_device *odev, u64 seen,
			   const char *reason)
{
	u64 wanted = READ_ONCE(odev->reset_wanted);

	/* Who looked before a reset takes nothing from who looked after it. */
	do {
		if (seen < wanted)
			return;
	} while (!try_cmpxchg64(&odev->reset_wanted, &wanted, seen));
	WRITE_ONCE(odev->reset_reason, reason);
	queue_work(odev->wq, &odev->reset_work);
}

/**
 * openreg_reset_cut_off() - do without a card that may not be touched, or is gone
 * @odev: the card
 * @error: what all calls get from now on
 * @reason: a sentence for the log
 *
 * It counts as wedged until the bus brings it back. Under reset_lock.
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

/* No reset, no watchdog and no command to the card after this. */
void openreg_reset_fini(struct openreg_device *odev)
{
	disable_work_sync(&odev->reset_work);
	openreg_admin_stop(odev, OPENREG_ADMIN_PAUSED, -ENODEV);
	disable_delayed_work_sync(&odev->admin.watchdog);
	openreg_health_fini(odev);
}
