// SPDX-License-Identifier: GPL-2.0-only
/* The PCI and DRM drivers: probe and remove. */

#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/suspend.h>

#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "extra/openreg_extra.h"
#include "extra/openreg_prime.h"
#include "openreg_compat.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_reset.h"

static DEFINE_IDA(openreg_cards);

static const struct drm_driver openreg_drm_driver = {
	.driver_features = DRIVER_COMPUTE_ACCEL | DRIVER_GEM |
			   DRIVER_SYNCOBJ | DRIVER_SYNCOBJ_TIMELINE,
	.open = openreg_open,
	.postclose = openreg_postclose,
	.prime_handle_to_fd = openreg_prime_handle_to_fd,
	.prime_fd_to_handle = openreg_prime_fd_to_handle,
	.gem_prime_import = openreg_prime_import,
	.show_fdinfo = openreg_show_fdinfo,
	.ioctls = openreg_ioctls,
	.num_ioctls = OPENREG_NUM_IOCTLS,
	.fops = &openreg_fops,
	.name = "openreg",
	.desc = "openreg accelerator",
	OPENREG_DRIVER_DATE
	.major = 1,
	.minor = 1, /* DRM_OPENREG_QUEUE_SIGNAL */
};

static const struct drm_gem_object_funcs openreg_bo_funcs = {
	.free = openreg_bo_gem_free,
	.open = openreg_bo_open,
	.close = openreg_bo_close,
	.export = openreg_bo_export,
	.mmap = openreg_bo_mmap,
	.vm_ops = &openreg_vm_ops,
};

/* Vector 0 was raised: the card may have released segments or recorded faults. */
static void openreg_notify(struct openreg_device *odev)
{
	openreg_unbinds_notify(odev);
	openreg_fault_drain(odev);
}

static const struct openreg_upcalls openreg_upcalls = {
	.broken = openreg_reset_request,
	.notify = openreg_notify,
	.notify_queues = openreg_vector_notify,
	.poll_queues = openreg_queues_poll,
	.watch = openreg_stuck_watch,
	.drain_faults = openreg_fault_try_drain,
	.bo_funcs = &openreg_bo_funcs,
};

static void openreg_card_release(void *data)
{
	struct openreg_device *odev = data;

	ida_free(&openreg_cards, odev->info.card);
}

static int openreg_card_number(struct openreg_device *odev)
{
	int card = ida_alloc_max(&openreg_cards, OPENREG_MAX_CARDS - 1,
				 GFP_KERNEL);

	if (card < 0)
		return dev_err_probe(odev->drm.dev, card,
				     "more than %d cards\n",
				     OPENREG_MAX_CARDS);
	odev->info.card = card;
	return devm_add_action_or_reset(odev->drm.dev, openreg_card_release,
					odev);
}

static void openreg_wq_release(void *data)
{
	destroy_workqueue(data);
}

static int openreg_wq_init(struct openreg_device *odev)
{
	odev->wq = alloc_workqueue("openreg", WQ_UNBOUND, 0);
	if (!odev->wq)
		return -ENOMEM;
	return devm_add_action_or_reset(odev->drm.dev, openreg_wq_release,
					odev->wq);
}

static void openreg_tables_fini(struct drm_device *drm, void *data)
{
	struct openreg_device *odev = data;

	xa_destroy(&odev->queues);
	ida_destroy(&odev->doorbell_ids);
	ida_destroy(&odev->ctx_ids);
}

static int openreg_tables_init(struct openreg_device *odev)
{
	ida_init(&odev->ctx_ids);
	ida_init(&odev->doorbell_ids);
	xa_init_flags(&odev->queues, XA_FLAGS_ALLOC);
	INIT_LIST_HEAD(&odev->bos);
	openreg_reclaim_init(&odev->reclaim);
	INIT_WORK(&odev->unbinds_work, openreg_unbinds_work);
	openreg_health_init(odev);
	return drmm_add_action_or_reset(&odev->drm, openreg_tables_fini, odev) ?:
	       drmm_mutex_init(&odev->drm, &odev->bos_lock) ?:
	       openreg_reset_init(odev);
}

static int openreg_init(struct openreg_device *odev)
{
	return openreg_card_number(odev) ?:
	       openreg_tables_init(odev) ?:
	       openreg_wq_init(odev) ?:
	       openreg_hw_init(odev) ?:
	       openreg_vram_init(odev) ?:
	       openreg_admin_init(odev) ?:
	       openreg_fault_init(odev) ?:
	       openreg_irq_init(odev) ?:
	       openreg_hw_save_config(odev);
}

static void openreg_fail_queues(struct openreg_device *odev)
{
	struct openreg_queue *queue;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue)
		openreg_queue_fail(queue, -ENODEV);
	xa_unlock(&odev->queues);
}

/*
 * Makes all calls return and refuses new ones. drm_dev_unplug() waits for the calls of
 * all DRM devices, so first wake the calls that wait for memory or for a queue.
 */
static void openreg_unplug(struct openreg_device *odev)
{
	WRITE_ONCE(odev->removing, true);
	openreg_fail_queues(odev);
	openreg_reclaim_wake(odev);
	drm_dev_unplug(&odev->drm);
	/* Queues that were created meanwhile. */
	openreg_fail_queues(odev);
	openreg_poll_wake(odev);
}

/* Stops the card for good. After this it does no DMA, and no command is in flight. */
static void openreg_shutdown(struct openreg_device *odev)
{
	struct openreg_queue *queue;
	unsigned long id;

	openreg_reset_fini(odev);
	if (openreg_hw_reset(odev) && pci_device_is_present(odev->pdev))
		drm_err(&odev->drm, "the card does not stop\n");
	pci_clear_master(odev->pdev);
	/* Not synchronize_irq(): that misses an interrupt that is yet to be taken. */
	disable_irq(pci_irq_vector(odev->pdev, 0));
	openreg_admin_stop(odev, OPENREG_ADMIN_DEAD, -ENODEV);

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue)
		openreg_points_fail(queue);
	xa_unlock(&odev->queues);
	openreg_admin_flush(odev);
	openreg_admin_wait_finished(odev);
	openreg_unbinds_finish_all(odev);
	cancel_work_sync(&odev->unbinds_work);
	openreg_bo_detach_all(odev);
}

static int openreg_register(struct openreg_device *odev)
{
	int ret;

	openreg_debugfs_init(odev);
	openreg_node_set_mode(odev);
	ret = drm_dev_register(&odev->drm, 0);
	if (ret)
		return ret;
	ret = openreg_node_register(odev);
	if (!ret)
		return 0;
	/* A process may already have opened /dev/accel/accelN. */
	openreg_unplug(odev);
	openreg_prime_revoke(odev);
	return ret;
}

static int openreg_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	const struct drm_openreg_device_info *info;
	struct openreg_device *odev;
	int ret;

	odev = devm_drm_dev_alloc(&pdev->dev, &openreg_drm_driver,
				  struct openreg_device, drm);
	if (IS_ERR(odev))
		return PTR_ERR(odev);
	odev->pdev = pdev;
	odev->upcalls = &openreg_upcalls;
	pci_set_drvdata(pdev, odev);

	ret = openreg_init(odev);
	if (ret)
		return ret;
	ret = openreg_hw_start(odev);
	if (ret) {
		dev_err_probe(&pdev->dev, ret, "the card does not start\n");
		goto out_shutdown;
	}
	openreg_admin_resume(odev);
	ret = openreg_register(odev);
	if (ret) {
		dev_err_probe(&pdev->dev, ret, "cannot register the device nodes\n");
		goto out_shutdown;
	}

	info = &odev->info;
	dev_info(&pdev->dev,
		 "openreg: %llu MiB VRAM, %u queues, %u vectors, ISA %u.%u, /dev/%s, /dev/accel/accel%d\n",
		 info->vram_size >> 20, info->max_queues, info->vectors,
		 info->isa_version >> 16, info->isa_version & 0xffff,
		 odev->node_name, odev->drm.accel->index);
	return 0;

out_shutdown:
	openreg_shutdown(odev);
	return ret;
}

static void openreg_remove(struct pci_dev *pdev)
{
	struct openreg_device *odev = pci_get_drvdata(pdev);

	/* Abort a suspend that is starting: it would deadlock with this removal. */
	pm_system_wakeup();
	/*
	 * The card is gone and completes no command. Fail them all: a call that waits
	 * for one keeps drm_dev_unplug() waiting.
	 */
	if (!pci_device_is_present(pdev)) {
		guard(mutex)(&odev->reset_lock);
		openreg_reset_cut_off(odev, -ENODEV, "the card is gone");
	}
	openreg_node_deregister(odev);
	openreg_unplug(odev);
	openreg_node_release(odev);
	openreg_prime_revoke(odev);
	openreg_shutdown(odev);
}

static const struct pci_device_id openreg_pci_ids[] = {
	{ PCI_DEVICE(OPENREG_PCI_VENDOR, OPENREG_PCI_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, openreg_pci_ids);

static struct pci_driver openreg_pci_driver = {
	.name = "openreg",
	.id_table = openreg_pci_ids,
	.probe = openreg_probe,
	.remove = openreg_remove,
	.dev_groups = openreg_groups,
	.driver.pm = pm_sleep_ptr(&openreg_pm_ops),
	.err_handler = &openreg_error_handlers,
};

static int __init openreg_module_init(void)
{
	int ret = openreg_import_init();

	if (ret)
		return ret;
	ret = pci_register_driver(&openreg_pci_driver);
	if (ret)
		openreg_import_exit();
	return ret;
}
module_init(openreg_module_init);

static void __exit openreg_module_exit(void)
{
	pci_unregister_driver(&openreg_pci_driver);
	openreg_import_exit();
}
module_exit(openreg_module_exit);

MODULE_DESCRIPTION("openreg accelerator");
MODULE_LICENSE("GPL");
