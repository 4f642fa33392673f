// SPDX-License-Identifier: GPL-2.0-only
/* Calls done() of commands that have completed or cannot complete any more. */

#include "openreg_ctx.h"
#include "openreg_drv.h"

void openreg_admin_finish_work(struct work_struct *work)
{
	struct openreg_admin *admin =
		container_of(work, struct openreg_admin, finish);
	struct openreg_admin_req *req, *next;
	LIST_HEAD(done);

	scoped_guard(spinlock, &admin->lock)
		list_splice_init(&admin->finished, &done);
	list_for_each_entry_safe(req, next, &done, link) {
		list_del_init(&req->link);
		req->done(req);
		cond_resched();
	}
}

/* May done() drop the last reference to a context and so free all of its memory? */
static bool openreg_admin_may_free_ctx(const struct openreg_admin_req *req)
{
	return req->cmd.opcode == OPENREG_ADMIN_SEG_UNBIND &&
	       READ_ONCE(req->ctx->file_closed);
}

/**
 * openreg_admin_finish() - call done() of requests
 * @odev: the card
 * @done: the requests, which are on no other list
 *
 * The finish work calls done() of requests that may free much memory.
 */
void openreg_admin_finish(struct openreg_device *odev, struct list_head *done)
{
	struct openreg_admin *admin = &odev->admin;
	struct openreg_admin_req *req, *next;
	LIST_HEAD(later);

	list_for_each_entry_safe(req, next, done, link) {
		if (READ_ONCE(req->frees) || openreg_admin_may_free_ctx(req)) {
			list_move_tail(&req->link, &later);
			continue;
		}
		list_del_init(&req->link);
		req->done(req);
	}
	if (list_empty(&later))
		return;
	scoped_guard(spinlock, &admin->lock)
		list_splice_tail(&later, &admin->finished);
	queue_work(odev->wq, &admin->finish);
}

/*
 * Waits until done() was called for all requests that openreg_admin_finish() deferred, and
 * until released segments are finished. That frees memory, and numbers of contexts, queues
 * and doorbells.
 */
void openreg_admin_wait_finished(struct openreg_device *odev)
{
	flush_work(&odev->admin.finish);
	flush_work(&odev->unbinds_work);
}
