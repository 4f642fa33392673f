// SPDX-License-Identifier: GPL-2.0-only
/*
 * Suspend and resume of queues. Their rings and pages are in system memory and stay, but
 * the card loses the queues. A queue stops at the end of a packet and later goes on from
 * there. Processes do not notice.
 */

#include "openreg_ctx.h"
#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

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
void openreg_queue_pause(struct openreg_queue *queue)
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
	queue->pause.ctx = queue->ctx;
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
void openreg_queue_cut(struct openreg_queue *queue)
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
	if (openreg_admin_exec_first(queue->odev, queue->ctx, &cmd))
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
int openreg_queue_restore(struct openreg_queue *queue)
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
	return openreg_admin_exec_first(queue->odev, queue->ctx, &cmd);
}
