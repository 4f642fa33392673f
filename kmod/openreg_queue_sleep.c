// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues while the system sleeps. Their rings and pages are in system memory
 * and stay; the card forgets them. A queue stops where a packet ends and goes on
 * from there, so that nobody notices.
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

	/* A card that cannot stop like this has not stopped. */
	if (!req->status)
		WRITE_ONCE(queue->pause_pending, false);
	atomic_dec(&odev->num_pausing);
	openreg_queue_put(queue);
}

/**
 * openreg_queue_pause() - stop a queue where its packet ends
 * @queue: the queue
 *
 * Nobody is woken by that. The card's num_pausing tells when it is done, and
 * pausing whether it was.
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
 * Its user finds what he would after a move to another host: it has hung, and
 * can be reset.
 */
void openreg_queue_cut(struct openreg_queue *queue)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_QUEUE_STOP,
		.id = queue->id,
	};
	const struct openreg_card_page *page = queue->card->coherent.cpu;
	u64 completed = READ_ONCE(page->completed);

	/* It was not through when it had completed so much. */
	smp_rmb();
	if (!READ_ONCE(queue->pause_pending) || READ_ONCE(queue->error))
		return;
	if (openreg_admin_exec_first(queue->odev, queue->ctx, &cmd))
		return; /* then it dies with the card */
	/* Its packet has ended after all, and it has stopped as the others. */
	if (READ_ONCE(page->completed) != completed)
		return;
	dev_warn(queue->odev->drm.dev,
		 "%s[%d]: queue %u stopped, its packet takes too long to sleep\n",
		 queue->comm, queue->pid, queue->id);
	openreg_dump_queue(queue, "its packet takes too long to sleep");
	guard(spinlock_irq)(&queue->lock);
	if (!queue->error)
		openreg_queue_write_hang(queue);
	WRITE_ONCE(queue->pause_pending, false);
}

/**
 * openreg_queue_restore() - tell a card that was reset of a queue
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
		/* It may have faulted before it stopped. */
		queue->run_on_resume &= page->state == OPENREG_QUEUE_STOPPED;
	}
	ret = openreg_queue_start(queue, OPENREG_QUEUE_KEEP,
				  openreg_admin_exec_first);
	if (ret || !queue->run_on_resume)
		return ret;
	return openreg_admin_exec_first(queue->odev, queue->ctx, &cmd);
}
