// SPDX-License-Identifier: GPL-2.0-only
/* The admin ring: commands of the driver to the card, and their completions. */

#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/jiffies.h>

#include <drm/drm_print.h>

#include "openreg_admin.h"
#include "openreg_device.h"

static int openreg_admin_errno(struct openreg_device *odev,
			       const struct openreg_admin_req *req, u32 status)
{
	switch (status) {
	case OPENREG_ADMIN_OK:
		return 0;
	case OPENREG_ADMIN_EINVAL:
		return -EINVAL;
	case OPENREG_ADMIN_ENOMEM:
		return -ENOMEM;
	case OPENREG_ADMIN_ENOENT:
		return -EIO;
	default:
		dev_warn_ratelimited(odev->drm.dev,
				     "admin command %u failed with status %u\n",
				     req->cmd.opcode, status);
		return -EIO;
	}
}

/*
 * Is this status impossible for this command? Then the card may still use the memory or
 * the number that the command was to release, or use what it claims to have refused.
 */
static bool openreg_admin_is_impossible(const struct openreg_admin_req *req,
					u32 status)
{
	/* Commands queued during suspend may name a context that the card lost. */
	if (req->ctx && READ_ONCE(req->ctx->dead) &&
	    status == OPENREG_ADMIN_ENOENT)
		return false;
	switch (req->cmd.opcode) {
	case OPENREG_ADMIN_CTX_DESTROY:
		return status != OPENREG_ADMIN_OK &&
		       status != OPENREG_ADMIN_ENOENT;
	case OPENREG_ADMIN_QUEUE_DESTROY:
		return status != OPENREG_ADMIN_OK;
	case OPENREG_ADMIN_SEG_UNBIND:
		/* CTX_DESTROY came first, and destroyed the segment too. */
		return status != OPENREG_ADMIN_OK &&
		       (status != OPENREG_ADMIN_ENOENT ||
			!READ_ONCE(req->ctx->file_closed));
	case OPENREG_ADMIN_QUEUE_STOP:
	case OPENREG_ADMIN_QUEUE_RESET:
		return status != OPENREG_ADMIN_OK &&
		       status != OPENREG_ADMIN_EINVAL &&
		       status != OPENREG_ADMIN_ENOENT;
	default:
		return status != OPENREG_ADMIN_OK &&
		       status != OPENREG_ADMIN_EINVAL &&
		       status != OPENREG_ADMIN_ENOMEM &&
		       status != OPENREG_ADMIN_EDMA;
	}
}

static struct openreg_admin_req *
openreg_admin_next(struct openreg_admin *admin)
{
	struct openreg_admin_req *req;

	list_for_each_entry(req, &admin->pending, link)
		if (!admin->held || req->first)
			return req;
	return NULL;
}

/* Sends pending requests to the card while slots are free. */
static void openreg_admin_kick(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;
	struct openreg_admin_req *req;
	u32 tail = admin->tail;

	lockdep_assert_held(&admin->lock);

	if (admin->state != OPENREG_ADMIN_RUNNING)
		return;

	while ((req = openreg_admin_next(admin))) {
		u32 slot = tail & OPENREG_ADMIN_MASK;

		if (admin->reqs[slot])
			break;
		list_del_init(&req->link);
		req->issued = jiffies;
		req->start = req->issued;
		admin->reqs[slot] = req;
		admin->cmds[slot] = req->cmd;
		/* Drop a completion that the card wrote before it got this command. */
		WRITE_ONCE(admin->cpls[slot].seq, tail);
		tail++;
	}
	if (tail == admin->tail)
		return;

	admin->tail = tail;
	/* writel() orders the commands before the tail. */
	openreg_write(odev, OPENREG_REG_ADMIN_TAIL, tail);
	openreg_admin_watch(odev);
}

/**
 * openreg_admin_submit() - send a command to the card
 * @odev: the card
 * @req: the request. Its @done is called once, perhaps before this function returns, so
 *	the caller must not hold a lock that @done takes.
 */
void openreg_admin_submit(struct openreg_device *odev,
			  struct openreg_admin_req *req)
{
	struct openreg_admin *admin = &odev->admin;
	int error = 0;

	if (req->ctx)
		req->cmd.ctx = req->ctx->id;
	req->lost = false;

	spin_lock(&admin->lock);
	if (admin->state == OPENREG_ADMIN_DEAD)
		error = admin->error;
	else if (admin->state == OPENREG_ADMIN_RUNNING && req->ctx &&
		 req->ctx->dead)
		error = -EIO;
	if (!error) {
		list_add_tail(&req->link, &admin->pending);
		openreg_admin_kick(odev);
	}
	spin_unlock(&admin->lock);

	if (error) {
		req->status = error;
		req->lost = true;
		req->done(req);
	}
}

struct openreg_admin_sync {
	struct openreg_admin_req req;
	struct completion completion;
};

static void openreg_admin_sync_done(struct openreg_admin_req *req)
{
	struct openreg_admin_sync *sync =
		container_of(req, struct openreg_admin_sync, req);

	complete(&sync->completion);
}

static int openreg_admin_run(struct openreg_device *odev,
			     struct openreg_admin_ctx *ctx,
			     const struct openreg_admin_cmd *cmd, bool first)
{
	struct openreg_admin_sync sync = {
		.req = {
			.cmd = *cmd,
			.ctx = ctx,
			.done = openreg_admin_sync_done,
			.first = first,
		},
	};

	init_completion(&sync.completion);
	openreg_admin_submit(odev, &sync.req);
	wait_for_completion(&sync.completion);
	return sync.req.status;
}

/**
 * openreg_admin_exec() - run a command and wait for its completion
 * @odev: the card
 * @ctx: context of the command, or NULL
 * @cmd: the command
 *
 * The wait is bounded: the watchdog resets a card that does not complete a command.
 *
 * Returns: 0 or a negative error; -EIO if the card was reset.
 */
int openreg_admin_exec(struct openreg_device *odev,
		       struct openreg_admin_ctx *ctx,
		       const struct openreg_admin_cmd *cmd)
{
	return openreg_admin_run(odev, ctx, cmd, false);
}

/* As openreg_admin_exec(), but runs the command even while others are held. */
int openreg_admin_exec_first(struct openreg_device *odev,
			     struct openreg_admin_ctx *ctx,
			     const struct openreg_admin_cmd *cmd)
{
	return openreg_admin_run(odev, ctx, cmd, true);
}

static void openreg_admin_finish_work(struct work_struct *work)
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
static void openreg_admin_finish(struct openreg_device *odev,
				 struct list_head *done)
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

/* Returns false if the status is impossible: the request then waits for a reset. */
static bool openreg_admin_complete(struct openreg_device *odev,
				   struct openreg_admin_req *req,
				   struct openreg_admin_cpl *cpl)
{
	u32 status = READ_ONCE(cpl->status);

	if (openreg_admin_is_impossible(req, status)) {
		WRITE_ONCE(cpl->seq, 0);
		dev_warn_ratelimited(odev->drm.dev,
				     "admin command %u has the impossible status %u\n",
				     req->cmd.opcode, status);
		/* In any other state a reset is under way already. */
		if (odev->admin.state == OPENREG_ADMIN_RUNNING)
			odev->upcalls->broken(odev, READ_ONCE(odev->generation),
					      "the card gave a command an impossible status");
		return false;
	}
	req->status = openreg_admin_errno(odev, req, status);
	req->result = READ_ONCE(cpl->result);
	return true;
}

/* The card runs FILLs one by one, so the timeout of the next one starts now. */
static void openreg_admin_restart_fills(struct openreg_admin *admin, u32 completed)
{
	struct openreg_admin_req *req;
	u32 i;

	for (i = completed + 1; i != admin->tail; i++) {
		req = admin->reqs[i & OPENREG_ADMIN_MASK];
		if (req && req->cmd.opcode == OPENREG_ADMIN_FILL)
			req->start = jiffies;
	}
}

static void openreg_admin_advance(struct openreg_admin *admin)
{
	while (admin->head != admin->tail &&
	       !admin->reqs[admin->head & OPENREG_ADMIN_MASK])
		admin->head++;
}

/* Handles all completions. Called by the thread of vector 0 and by the watchdog. */
void openreg_admin_drain(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;
	LIST_HEAD(done);
	u32 i;

	spin_lock(&admin->lock);
	for (i = admin->head; i != admin->tail; i++) {
		u32 slot = i & OPENREG_ADMIN_MASK;
		struct openreg_admin_req *req = admin->reqs[slot];
		struct openreg_admin_cpl *cpl = &admin->cpls[slot];

		if (!req || READ_ONCE(cpl->seq) != i + 1)
			continue;
		dma_rmb();
		if (!openreg_admin_complete(odev, req, cpl))
			continue;
		admin->reqs[slot] = NULL;
		list_add_tail(&req->link, &done);
		if (req->cmd.opcode == OPENREG_ADMIN_FILL)
			openreg_admin_restart_fills(admin, i);
	}
	openreg_admin_advance(admin);
	openreg_admin_kick(odev);
	spin_unlock(&admin->lock);

	openreg_admin_finish(odev, &done);
}

/**
 * openreg_admin_stop() - send no more commands
 * @odev: the card
 * @state: PAUSED keeps new requests until openreg_admin_resume() or
 *	openreg_admin_flush(), DEAD refuses them
 * @error: status of the requests that the card does not complete any more
 *
 * Marks all contexts as dead. Use DEAD only after the card was reset or cut off from the
 * bus: after a refused request its caller frees memory that the card used.
 */
void openreg_admin_stop(struct openreg_device *odev,
			enum openreg_admin_state state, int error)
{
	struct openreg_admin *admin = &odev->admin;
	struct openreg_admin_ctx *ctx;

	spin_lock(&admin->lock);
	WRITE_ONCE(admin->state, state);
	admin->error = error;
	list_for_each_entry(ctx, &admin->ctxs, link)
		WRITE_ONCE(ctx->dead, true);
	spin_unlock(&admin->lock);
}

/* Sends only requests with @first to the card until openreg_admin_release(). */
void openreg_admin_hold(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;

	spin_lock(&admin->lock);
	WRITE_ONCE(admin->held, true);
	spin_unlock(&admin->lock);
}

void openreg_admin_release(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;

	spin_lock(&admin->lock);
	WRITE_ONCE(admin->held, false);
	openreg_admin_kick(odev);
	spin_unlock(&admin->lock);
}

/* Has the card completed all commands? */
bool openreg_admin_is_idle(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;
	bool idle;

	spin_lock(&admin->lock);
	idle = admin->head == admin->tail;
	spin_unlock(&admin->lock);
	return idle;
}

/* Pauses the ring but keeps all contexts alive: resume restores them on the card. */
void openreg_admin_suspend(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;

	spin_lock(&admin->lock);
	if (admin->state == OPENREG_ADMIN_RUNNING)
		WRITE_ONCE(admin->state, OPENREG_ADMIN_PAUSED);
	spin_unlock(&admin->lock);
}

/* Moves to @lost all requests that the card had, and all for dead contexts. */
static void openreg_admin_take_lost(struct openreg_admin *admin,
				    struct list_head *lost)
{
	struct openreg_admin_req *req, *next;
	u32 i;

	lockdep_assert_held(&admin->lock);
	for (i = 0; i < OPENREG_ADMIN_RING_SLOTS; i++) {
		if (admin->reqs[i])
			list_add_tail(&admin->reqs[i]->link, lost);
		admin->reqs[i] = NULL;
	}
	admin->head = 0;
	admin->tail = 0;
	list_for_each_entry_safe(req, next, &admin->pending, link)
		if (admin->state == OPENREG_ADMIN_DEAD ||
		    (req->ctx && req->ctx->dead))
			list_move_tail(&req->link, lost);
	list_for_each_entry(req, lost, link) {
		req->status = admin->error ?: -EIO;
		req->lost = true;
	}
}

/*
 * Finishes, with the error, every command that the card had or that is for a dead
 * context. The card must do no DMA any more. Other commands stay pending.
 */
void openreg_admin_flush(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;
	LIST_HEAD(lost);

	spin_lock(&admin->lock);
	openreg_admin_take_lost(admin, &lost);
	spin_unlock(&admin->lock);

	openreg_admin_finish(odev, &lost);
}

/* Writes the ring's address to the registers, before the card is enabled. */
void openreg_admin_start(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;

	memset(admin->cpls, 0,
	       OPENREG_ADMIN_RING_SLOTS * sizeof(*admin->cpls));
	openreg_write64(odev, OPENREG_REG_ADMIN_BASE, admin->cmds_dma);
	openreg_write64(odev, OPENREG_REG_ADMIN_CPL, admin->cpls_dma);
	openreg_write(odev, OPENREG_REG_ADMIN_SLOTS, OPENREG_ADMIN_RING_SLOTS);
}

/* Sends commands again. The card has just been enabled, and its ring is empty. */
void openreg_admin_resume(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;
	LIST_HEAD(lost);

	spin_lock(&admin->lock);
	/* Requests for dead contexts may have been queued since the flush. */
	openreg_admin_take_lost(admin, &lost);
	WRITE_ONCE(admin->state, OPENREG_ADMIN_RUNNING);
	openreg_admin_kick(odev);
	spin_unlock(&admin->lock);

	openreg_admin_finish(odev, &lost);
}

int openreg_admin_init(struct openreg_device *odev)
{
	struct openreg_admin *admin = &odev->admin;
	struct device *dev = odev->drm.dev;

	spin_lock_init(&admin->lock);
	INIT_LIST_HEAD(&admin->pending);
	INIT_LIST_HEAD(&admin->finished);
	INIT_WORK(&admin->finish, openreg_admin_finish_work);
	INIT_LIST_HEAD(&admin->ctxs);
	INIT_DELAYED_WORK(&admin->watchdog, openreg_admin_watchdog);
	admin->state = OPENREG_ADMIN_PAUSED;

	admin->cmds = dmam_alloc_coherent(dev, OPENREG_ADMIN_RING_SLOTS *
					  sizeof(*admin->cmds),
					  &admin->cmds_dma, GFP_KERNEL);
	admin->cpls = dmam_alloc_coherent(dev, OPENREG_ADMIN_RING_SLOTS *
					  sizeof(*admin->cpls),
					  &admin->cpls_dma, GFP_KERNEL);
	return admin->cmds && admin->cpls ? 0 : -ENOMEM;
}
