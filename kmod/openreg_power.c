// SPDX-License-Identifier: GPL-2.0-only
/*
 * Suspend and resume. Processes are frozen: they make no calls and ring no doorbells.
 *
 * - Suspend stops each queue at the end of a packet and resets the card. VRAM stays.
 * - Resume creates all contexts, segments and queues on the card again, and the queues go
 *   on.
 *
 * Hibernation is refused, because the driver does not save VRAM.
 */

#include <linux/interrupt.h>
#include <linux/iopoll.h>
#include <linux/pm.h>

#include <drm/drm_print.h>

#include "extra/openreg_extra.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_reset.h"

#define OPENREG_POWER_POLL_US 1000
/* How long suspend waits for commands of the driver; the longest clear memory. */
#define OPENREG_POWER_IDLE_US (20 * USEC_PER_SEC)
/* How long suspend waits for running packets. */
#define OPENREG_POWER_PAUSE_US (5 * USEC_PER_SEC)

static void openreg_queue_paused(struct openreg_admin_req *req)
{
	struct openreg_queue *queue =
		container_of(req, struct openreg_queue, pause);
	struct openreg_device *odev = queue->odev;

	/* If the command failed, openreg_queue_cut() must stop the queue. */
	if (!req->status)
		WRITE_ONCE(queue->pause_pending, false);
	atomic_dec(&odev->num_pausing);
	openreg_queue_put(queue);
}

/**
 * openreg_queue_pause() - begin to stop a queue at the end of its packet
 * @queue: the queue
 *
 * Asynchronous, and wakes no waiter. odev->num_pausing becomes 0 when all commands have
 * completed; pause_pending stays set if the command failed.
 */
static void openreg_queue_pause(struct openreg_queue *queue)
{
	const struct openreg_card_page *page;

	scoped_guard(spinlock_irq, &queue->lock) {
		if (queue->error)
			return;
		page = queue->card->coherent.cpu;
		queue->restarting = true;
		queue->run_on_resume = READ_ONCE(page->state) ==
				       OPENREG_QUEUE_RUNNING;
		WRITE_ONCE(queue->pause_pending, true);
	}
	kref_get(&queue->ref);
	atomic_inc(&queue->odev->num_pausing);
	queue->pause.cmd = (struct openreg_admin_cmd) {
		.opcode = OPENREG_ADMIN_QUEUE_STOP,
		.id = queue->id,
		.stop.when = OPENREG_STOP_AFTER_PACKET,
	};
	queue->pause.ctx = &queue->ctx->base;
	queue->pause.first = true;
	queue->pause.done = openreg_queue_paused;
	openreg_admin_submit(queue->odev, &queue->pause);
}

/**
 * openreg_queue_cut() - stop a queue whose packet takes too long
 * @queue: the queue
 *
 * The queue then has the fault OPENREG_FAULT_HANG, as after a migration of the VM. The
 * process can reset the queue.
 */
static void openreg_queue_cut(struct openreg_queue *queue)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_QUEUE_STOP,
		.id = queue->id,
	};
	const struct openreg_card_page *page = queue->card->coherent.cpu;
	u64 completed = READ_ONCE(page->completed);

	/* The pause was still pending when completed had this value. */
	smp_rmb();
	if (!READ_ONCE(queue->pause_pending) || READ_ONCE(queue->error))
		return;
	if (openreg_admin_exec_first(queue->odev, &queue->ctx->base, &cmd))
		return; /* the card was reset, and the queue died with it */
	/* The packet has ended after all, so the queue has stopped as it should. */
	if (READ_ONCE(page->completed) != completed)
		return;
	dev_warn(queue->odev->drm.dev,
		 "%s[%d]: queue %u stopped: its packet takes too long for the suspend\n",
		 queue->comm, queue->pid, queue->id);
	openreg_dump_queue(queue, "the packet takes too long for the suspend");
	guard(spinlock_irq)(&queue->lock);
	if (!queue->error)
		openreg_queue_write_hang(queue);
	WRITE_ONCE(queue->pause_pending, false);
}

/**
 * openreg_queue_restore() - create a queue on the card again after suspend
 * @queue: the queue, as openreg_queue_pause() or openreg_queue_cut() left it
 */
static int openreg_queue_restore(struct openreg_queue *queue)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_QUEUE_RESET,
		.id = queue->id,
	};
	const struct openreg_card_page *page;
	int ret;

	scoped_guard(spinlock_irq, &queue->lock) {
		if (queue->error)
			return 0;
		page = queue->card->coherent.cpu;
		cmd.reset.head = page->head;
		cmd.reset.seq = page->completed;
		/* The queue may have faulted before it stopped. */
		queue->run_on_resume &= page->state == OPENREG_QUEUE_STOPPED;
	}
	ret = openreg_queue_start(queue, OPENREG_QUEUE_KEEP,
				  openreg_admin_exec_first);
	if (ret || !queue->run_on_resume)
		return ret;
	return openreg_admin_exec_first(queue->odev, &queue->ctx->base, &cmd);
}

static void openreg_power_for_each(struct openreg_device *odev,
				   void (*fn)(struct openreg_queue *queue))
{
	struct openreg_ctx *ctx = NULL;
	struct openreg_queue *queue;

	while ((ctx = openreg_ctx_next(odev, ctx))) {
		guard(mutex)(&ctx->lock);
		list_for_each_entry(queue, &ctx->queues, ctx_link)
			fn(queue);
	}
}

static void openreg_power_pause(struct openreg_device *odev)
{
	int left;

	openreg_power_for_each(odev, openreg_queue_pause);
	/* openreg_queue_cut() stops the queues that are late. */
	read_poll_timeout(atomic_read, left, !left, OPENREG_POWER_POLL_US,
			  OPENREG_POWER_PAUSE_US, false, &odev->num_pausing);
	openreg_power_for_each(odev, openreg_queue_cut);
}

static void openreg_power_end_pause(struct openreg_queue *queue)
{
	openreg_queue_set_restarting(queue, false);
}

/* The card has all contexts and queues again: send held commands and wake waiters. */
static void openreg_power_release(struct openreg_device *odev)
{
	openreg_admin_release(odev);
	openreg_power_for_each(odev, openreg_power_end_pause);
}

/* Resets the card and stops both watchdogs. Under reset_lock. */
static void openreg_power_down(struct openreg_device *odev)
{
	disable_delayed_work_sync(&odev->admin.watchdog);
	disable_delayed_work_sync(&odev->health.work);
	disable_irq(pci_irq_vector(odev->pdev, 0));
	/* Finish released segments first: resume must not bind them again. */
	openreg_admin_wait_finished(odev);
	openreg_fault_drain(odev);
	openreg_admin_suspend(odev);
	openreg_reset_new_generation(odev);
	if (!odev->wedged && openreg_hw_reset(odev))
		drm_err(&odev->drm, "the card does not stop\n");
	pci_clear_master(odev->pdev);
	openreg_unbinds_finish_all(odev);
	WRITE_ONCE(odev->suspended, true);
}

static int openreg_power_suspend(struct device *dev)
{
	struct openreg_device *odev = dev_get_drvdata(dev);
	bool idle;

	flush_work(&odev->reset_work);
	openreg_admin_hold(odev);
	if (read_poll_timeout(openreg_admin_is_idle, idle, idle,
			      OPENREG_POWER_POLL_US, OPENREG_POWER_IDLE_US,
			      false, odev)) {
		dev_warn(dev, "cannot suspend: the card is busy\n");
		openreg_admin_release(odev);
		return -EBUSY;
	}
	openreg_power_pause(odev);

	guard(mutex)(&odev->reset_lock);
	openreg_power_down(odev);
	return 0;
}

static int openreg_power_restore_ctx(struct openreg_ctx *ctx)
{
	struct openreg_queue *queue;
	int ret;

	ret = openreg_ctx_restore(ctx);
	if (ret)
		return ret;
	guard(mutex)(&ctx->lock);
	list_for_each_entry(queue, &ctx->queues, ctx_link) {
		ret = openreg_queue_restore(queue);
		if (ret)
			return ret;
	}
	return 0;
}

/* Restores all contexts. A context that cannot be restored dies as in a reset. */
static void openreg_power_restore(struct openreg_device *odev)
{
	struct openreg_ctx *ctx = NULL;
	int ret;

	while ((ctx = openreg_ctx_next(odev, ctx))) {
		if (READ_ONCE(ctx->base.dead) || READ_ONCE(ctx->base.file_closed))
			continue;
		ret = openreg_power_restore_ctx(ctx);
		if (!ret)
			continue;
		drm_err(&odev->drm, "cannot restore context %u (%d)\n", ctx->base.id,
			ret);
		openreg_ctx_kill(ctx);
	}
}

/* Restarts the card and both watchdogs. Under reset_lock. */
static int openreg_power_up(struct openreg_device *odev)
{
	int ret, wedged = odev->wedged;

	/* Mappings of a wedged card's memory show dummy pages: unmap these. */
	if (wedged)
		openreg_reset_begin(odev);
	ret = openreg_hw_restart(odev);
	WRITE_ONCE(odev->suspended, false);
	enable_delayed_work(&odev->admin.watchdog);
	enable_delayed_work(&odev->health.work);
	openreg_health_watch(odev);
	if (wedged) {
		openreg_reset_end(odev, ret ? wedged : 0);
	} else if (!ret) {
		openreg_admin_resume(odev);
	} else {
		openreg_reset_begin(odev);
		openreg_reset_end(odev, -EIO);
	}
	if (ret && !odev->wedged_reported)
		openreg_reset_report_wedged(odev, ret);
	enable_irq(pci_irq_vector(odev->pdev, 0));
	return ret;
}

static int openreg_power_resume(struct device *dev)
{
	struct openreg_device *odev = dev_get_drvdata(dev);
	int ret;

	scoped_guard(mutex, &odev->reset_lock)
		ret = openreg_power_up(odev);
	/* If the card hangs here, the watchdog resets it, and the commands fail. */
	if (!ret)
		openreg_power_restore(odev);
	openreg_power_release(odev);
	return ret;
}

static int openreg_power_freeze(struct device *dev)
{
	dev_err(dev, "cannot hibernate: VRAM would be lost\n");
	return -EOPNOTSUPP;
}

const struct dev_pm_ops openreg_pm_ops = {
	.suspend = openreg_power_suspend,
	.resume = openreg_power_resume,
	.freeze = openreg_power_freeze,
};
