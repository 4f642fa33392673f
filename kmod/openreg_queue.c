// SPDX-License-Identifier: GPL-2.0-only
/* User queues: create, destroy, reset. */

#include <linux/capability.h>

#include <drm/drm_print.h>

#include "openreg_compat.h"
#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_trace.h"

static void openreg_queue_release(struct kref *ref)
{
	struct openreg_queue *queue =
		container_of(ref, struct openreg_queue, ref);
	struct openreg_bo *bos[] = {
		queue->ring, queue->user, queue->card, queue->kernel,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bos); i++)
		if (!IS_ERR_OR_NULL(bos[i]))
			openreg_bo_put(bos[i]);
	mutex_destroy(&queue->op_lock);
	/* The interrupt handler may still read the queue under RCU. */
	kfree_rcu(queue, rcu);
}

void openreg_queue_put(struct openreg_queue *queue)
{
	kref_put(&queue->ref, openreg_queue_release);
}

static struct openreg_queue *openreg_queue_new(struct openreg_ctx *ctx,
					       u32 slots, u32 priority)
{
	struct openreg_device *odev = ctx->odev;
	struct openreg_queue *queue = kzalloc_obj(*queue);
	struct openreg_kernel_page *kernel;

	if (!queue)
		return ERR_PTR(-ENOMEM);
	kref_init(&queue->ref);
	mutex_init(&queue->op_lock);
	init_completion(&queue->op_completion);
	complete_all(&queue->op_completion);
	spin_lock_init(&queue->lock);
	queue->waiters = RB_ROOT_CACHED;
	openreg_points_init(queue);
	INIT_LIST_HEAD(&queue->ctx_link);
	queue->odev = odev;
	queue->ctx = ctx;
	queue->priority = priority;
	queue->pid = task_tgid_nr(current);
	get_task_comm(queue->comm, current);

	queue->ring = openreg_coherent_new(odev, slots * OPENREG_SLOT_SIZE,
					   &openreg_ring_ops);
	queue->user = openreg_coherent_new(odev, OPENREG_QUEUE_PAGE_SIZE,
					   &openreg_ring_ops);
	queue->card = openreg_coherent_new(odev, OPENREG_QUEUE_PAGE_SIZE,
					   &openreg_card_page_ops);
	queue->kernel = openreg_coherent_new(odev, OPENREG_QUEUE_PAGE_SIZE,
					     &openreg_kernel_page_ops);
	if (IS_ERR(queue->ring) || IS_ERR(queue->user) ||
	    IS_ERR(queue->card) || IS_ERR(queue->kernel)) {
		openreg_queue_put(queue);
		return ERR_PTR(-ENOMEM);
	}
	kernel = queue->kernel->coherent.cpu;
	kernel->armed = OPENREG_ARMED_NONE;
	queue->armed = OPENREG_ARMED_NONE;
	return queue;
}

/* Gives the queue a number and a vector. Call this before the card gets the queue. */
static int openreg_queue_register(struct openreg_queue *queue)
{
	struct openreg_device *odev = queue->odev;
	struct openreg_vector *vector = openreg_vector_get(odev);
	int ret;

	ret = xa_alloc(&odev->queues, &queue->id, queue,
		       XA_LIMIT(0, odev->info.max_queues - 1), GFP_KERNEL);
	if (ret == -EBUSY) {
		openreg_admin_wait_finished(odev);
		ret = xa_alloc(&odev->queues, &queue->id, queue,
			       XA_LIMIT(0, odev->info.max_queues - 1),
			       GFP_KERNEL);
	}
	if (ret)
		return ret == -EBUSY ? -ENOSPC : ret;
	queue->vector = vector;
	scoped_guard(spinlock_irq, &vector->lock) {
		list_add_tail_rcu(&queue->vector_link, &vector->queues);
		WRITE_ONCE(vector->num_queues, vector->num_queues + 1);
	}
	return 0;
}

/* Frees number and vector. The card must have destroyed the queue, and error be set. */
void openreg_queue_unregister(struct openreg_queue *queue)
{
	struct openreg_vector *vector = queue->vector;

	scoped_guard(spinlock_irq, &vector->lock) {
		list_del_rcu(&queue->vector_link);
		WRITE_ONCE(vector->num_queues, vector->num_queues - 1);
	}
	xa_erase(&queue->odev->queues, queue->id);
}

/* Creates the queue on the card. exec() sends the command. */
int openreg_queue_start(struct openreg_queue *queue, u32 flags,
			openreg_admin_exec_fn exec)
{
	struct openreg_device *odev = queue->odev;
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_QUEUE_CREATE,
		.id = queue->id,
		.queue.ring = queue->ring->coherent.dma,
		.queue.user_page = queue->user->coherent.dma,
		.queue.card_page = queue->card->coherent.dma,
		.queue.kernel_page = queue->kernel->coherent.dma,
		.queue.slots = queue->ring->base.size / OPENREG_SLOT_SIZE,
		.queue.doorbell = queue->ctx->doorbell->doorbell.page,
		.queue.vector = queue->vector - odev->vectors,
		.queue.priority = queue->priority,
		.queue.flags = flags,
	};

	return exec(odev, &queue->ctx->base, &cmd);
}

static int openreg_queue_allow(struct openreg_queue *queue,
			       struct drm_file *filp)
{
	struct openreg_bo *bos[] = {
		queue->ring, queue->user, queue->card, queue->ctx->doorbell,
	};
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(bos); i++) {
		ret = drm_vma_node_allow(&bos[i]->base.vma_node, filp);
		if (ret)
			break;
	}
	if (!ret)
		return 0;
	while (i--)
		drm_vma_node_revoke(&bos[i]->base.vma_node, filp);
	return ret;
}

static void openreg_queue_revoke(struct openreg_queue *queue,
				 struct drm_file *filp)
{
	drm_vma_node_revoke(&queue->ring->base.vma_node, filp);
	drm_vma_node_revoke(&queue->user->base.vma_node, filp);
	drm_vma_node_revoke(&queue->card->base.vma_node, filp);
	drm_vma_node_revoke(&queue->ctx->doorbell->base.vma_node, filp);
}

/* Revokes the file's permission to map, which freeing the objects does not. */
void openreg_queues_close(struct openreg_file *file, struct drm_file *filp)
{
	struct openreg_queue *queue;
	unsigned long num;

	xa_for_each(&file->queues, num, queue)
		openreg_queue_revoke(queue, filp);
}

static void openreg_queue_offsets(struct openreg_queue *queue,
				  struct drm_openreg_queue_create *args)
{
	args->ring_offset =
		drm_vma_node_offset_addr(&queue->ring->base.vma_node);
	args->user_offset =
		drm_vma_node_offset_addr(&queue->user->base.vma_node);
	args->card_offset =
		drm_vma_node_offset_addr(&queue->card->base.vma_node);
	args->doorbell_offset =
		drm_vma_node_offset_addr(&queue->ctx->doorbell->base.vma_node);
}

static int openreg_queue_check(struct openreg_device *odev,
			       const struct drm_openreg_queue_create *args)
{
	if (args->flags || !is_power_of_2(args->slots) ||
	    args->slots < OPENREG_RING_SLOTS_MIN ||
	    args->slots > odev->info.max_ring_slots ||
	    args->priority > OPENREG_PRIORITY_HIGH)
		return -EINVAL;
	if (args->priority > OPENREG_PRIORITY_NORMAL && !capable(CAP_SYS_NICE))
		return -EACCES;
	return 0;
}

/* Takes over the reference to the queue, also if it fails. */
static int openreg_queue_setup(struct openreg_queue *queue,
			       struct drm_file *filp)
{
	int ret;

	ret = openreg_queue_allow(queue, filp);
	if (ret)
		goto out_put;
	ret = openreg_queue_register(queue);
	if (ret)
		goto out_revoke;
	ret = openreg_queue_start(queue, 0, openreg_admin_exec);
	if (ret)
		goto out_unregister;
	scoped_guard(mutex, &queue->ctx->lock)
		list_add_tail(&queue->ctx_link, &queue->ctx->queues);
	trace_openreg_queue_create(queue);
	return 0;

out_unregister:
	openreg_queue_fail(queue, -EIO);
	openreg_queue_unregister(queue);
out_revoke:
	openreg_queue_revoke(queue, filp);
out_put:
	openreg_queue_put(queue);
	return ret;
}

int openreg_queue_create(struct openreg_file *file, struct drm_file *filp,
			 struct drm_openreg_queue_create *args)
{
	struct openreg_queue *queue;
	struct openreg_ctx *ctx;
	int ret;

	ret = openreg_queue_check(file->odev, args);
	if (ret)
		return ret;
	ctx = openreg_ctx_get(file);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ret = openreg_ctx_need_doorbell(ctx);
	if (ret == -ENOSPC) {
		openreg_admin_wait_finished(file->odev);
		ret = openreg_ctx_need_doorbell(ctx);
	}
	if (ret)
		return ret;
	queue = openreg_queue_new(ctx, args->slots, args->priority);
	if (IS_ERR(queue))
		return PTR_ERR(queue);

	/* Reserve the number now, so that xa_store() below cannot fail. */
	ret = xa_alloc_cyclic(&file->queues, &args->queue, NULL,
			      XA_LIMIT(1, S32_MAX), &file->next_queue,
			      GFP_KERNEL);
	if (ret < 0) {
		openreg_queue_put(queue);
		return ret;
	}
	openreg_queue_offsets(queue, args);
	ret = openreg_queue_setup(queue, filp);
	if (ret) {
		xa_release(&file->queues, args->queue);
		return ret;
	}
	xa_store(&file->queues, args->queue, queue, GFP_KERNEL);
	return 0;
}

struct openreg_queue *openreg_queue_lookup(struct openreg_file *file, u32 num)
{
	struct openreg_queue *queue;

	xa_lock(&file->queues);
	queue = xa_load(&file->queues, num);
	if (queue)
		kref_get(&queue->ref);
	xa_unlock(&file->queues);
	return queue;
}

/* Engine time so far. Constant once the queue has failed. */
u64 openreg_queue_busy_ns(struct openreg_queue *queue)
{
	const struct openreg_card_page *card;

	guard(spinlock_irqsave)(&queue->lock);
	if (queue->error)
		return queue->last_busy_ns;
	card = queue->card->coherent.cpu;
	return READ_ONCE(card->busy_ns);
}

/*
 * Takes the queue out of the file's table, with its reference. The file keeps the engine
 * time. Returns false if another call has taken the queue.
 */
static bool openreg_queue_take(struct openreg_file *file,
			       struct openreg_queue *queue, u32 num)
{
	bool taken;

	xa_lock(&file->queues);
	taken = xa_load(&file->queues, num) == queue;
	if (taken) {
		file->past_busy_ns += openreg_queue_busy_ns(queue);
		__xa_erase(&file->queues, num);
	}
	xa_unlock(&file->queues);
	return taken;
}

static void openreg_queue_op_done(struct openreg_admin_req *req)
{
	struct openreg_queue *queue =
		container_of(req, struct openreg_queue, op);
	struct openreg_ctx *ctx = to_openreg_ctx(req->ctx);

	if (req->cmd.opcode == OPENREG_ADMIN_QUEUE_DESTROY)
		openreg_points_fail(queue);
	complete_all(&queue->op_completion);
	openreg_queue_put(queue);
	openreg_ctx_put(ctx);
}

/*
 * Runs a command for the queue. The card may need as long as the running packet does.
 * Returns -EINTR if the caller was killed; a command that was sent goes on.
 */
static int openreg_queue_exec(struct openreg_queue *queue,
			      const struct openreg_admin_cmd *cmd)
{
	lockdep_assert_held(&queue->op_lock);

	/* An earlier caller may have been killed while its command ran. */
	if (wait_for_completion_killable(&queue->op_completion))
		return -EINTR;
	reinit_completion(&queue->op_completion);
	kref_get(&queue->ref);
	kref_get(&queue->ctx->ref);
	queue->op.cmd = *cmd;
	queue->op.ctx = &queue->ctx->base;
	queue->op.done = openreg_queue_op_done;
	queue->op.frees = false;
	openreg_admin_submit(queue->odev, &queue->op);
	if (wait_for_completion_killable(&queue->op_completion)) {
		/* The file may be closed by then, so done() may free the context. */
		WRITE_ONCE(queue->op.frees, true);
		return -EINTR;
	}
	return queue->op.status;
}

static int openreg_queue_destroy_on_card(struct openreg_queue *queue)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_QUEUE_DESTROY,
		.id = queue->id,
	};

	trace_openreg_queue_destroy(queue);
	/* Log a fault first: processes often destroy a queue right after its fault. */
	queue->odev->upcalls->drain_faults(queue->odev);
	openreg_queue_fail(queue, -EIO);
	/* Ignore other errors: the card has stopped the queue or was reset. */
	return openreg_queue_exec(queue, &cmd) == -EINTR ? -EINTR : 0;
}

int openreg_queue_destroy(struct openreg_file *file, struct drm_file *filp,
			  u32 num)
{
	struct openreg_queue *queue = openreg_queue_lookup(file, num);
	int ret;

	if (!queue)
		return -ENOENT;
	ret = mutex_lock_killable(&queue->op_lock);
	if (ret)
		goto out_put;
	/* If the caller is killed here, nothing has been done. */
	ret = wait_for_completion_killable(&queue->op_completion) ? -EINTR : -ENOENT;
	if (ret == -ENOENT && openreg_queue_take(file, queue, num)) {
		ret = openreg_queue_destroy_on_card(queue);
		openreg_queue_revoke(queue, filp);
	}
	mutex_unlock(&queue->op_lock);
	/* After -EINTR the card may still use the queue: free it with its context. */
	if (!ret) {
		scoped_guard(mutex, &queue->ctx->lock)
			list_del_init(&queue->ctx_link);
		openreg_queue_unregister(queue);
		openreg_queue_put(queue);
	}
out_put:
	openreg_queue_put(queue);
	return ret;
}

static int openreg_queue_peek(struct openreg_queue *queue, u64 *completed)
{
	const struct openreg_card_page *card;

	guard(spinlock_irq)(&queue->lock);
	if (queue->error)
		return queue->error;
	card = queue->card->coherent.cpu;
	*completed = READ_ONCE(card->completed);
	return 0;
}

/* While restarting is set, waiters do not take the queue for one that has stopped. */
void openreg_queue_set_restarting(struct openreg_queue *queue, bool on)
{
	scoped_guard(spinlock_irq, &queue->lock)
		queue->restarting = on;
	if (!on)
		openreg_queue_notify(queue);
}

static int openreg_queue_restart(struct openreg_queue *queue, u64 head, u64 seq)
{
	struct openreg_admin_cmd cmd = { .id = queue->id };
	u64 completed;
	int ret;

	/* Also if the queue has faulted: a worker may still be leaving it. */
	cmd.opcode = OPENREG_ADMIN_QUEUE_STOP;
	ret = openreg_queue_exec(queue, &cmd);
	/* If the queue has faulted, its record is in the fault ring by now. */
	queue->odev->upcalls->drain_faults(queue->odev);
	if (!ret)
		ret = openreg_queue_peek(queue, &completed);
	if (ret)
		return ret;
	if (seq < completed)
		return -EINVAL;

	cmd.opcode = OPENREG_ADMIN_QUEUE_RESET;
	cmd.reset.head = head;
	cmd.reset.seq = seq;
	return openreg_queue_exec(queue, &cmd);
}

int openreg_queue_reset(struct openreg_queue *queue, u64 head, u64 seq)
{
	u64 completed;
	int ret;

	ret = mutex_lock_killable(&queue->op_lock);
	if (ret)
		return ret;
	ret = openreg_queue_peek(queue, &completed);
	if (!ret && seq < completed)
		ret = -EINVAL;
	if (ret)
		goto out;
	trace_openreg_queue_reset(queue);
	/* If the queue has faulted, its waiters must return with that. */
	openreg_queue_notify(queue);
	openreg_queue_set_restarting(queue, true);
	ret = openreg_queue_restart(queue, head, seq);
	openreg_queue_set_restarting(queue, false);
out:
	mutex_unlock(&queue->op_lock);
	return ret;
}
