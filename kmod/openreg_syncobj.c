// SPDX-License-Identifier: GPL-2.0-only
/*
 * Syncobj points that are signalled when a packet completes.
 *
 * A packet of a user queue may never complete, so the driver never makes an unsignalled
 * fence. When the packet has completed, the driver adds the point with a fence that is
 * signalled already. Until then a process waits for the point to be added.
 */

#include <linux/dma-fence.h>
#include <linux/dma-fence-chain.h>

#include <drm/drm_syncobj.h>

#include "openreg_compat.h"
#include "openreg_ctx.h"
#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

/* Limit of the points of one open file that are not added yet. */
#define OPENREG_POINTS_MAX 1024

struct openreg_point {
	struct list_head link;
	u64 seq; /* sequence number of the packet */
	int error; /* -EIO if the packet will not complete, or 0 */
	struct drm_syncobj *syncobj;
	struct dma_fence *fence; /* signalled */
	struct dma_fence_chain *chain; /* NULL: the syncobj has no timeline */
	u64 value; /* on the timeline */
};

static void openreg_point_free(struct openreg_point *point)
{
	dma_fence_chain_free(point->chain);
	dma_fence_put(point->fence);
	drm_syncobj_put(point->syncobj);
	kfree(point);
}

static struct openreg_point *
openreg_point_new(struct drm_file *filp,
		  const struct drm_openreg_queue_signal *args)
{
	struct openreg_point *point;

	point = kzalloc_obj(*point);
	if (!point)
		return ERR_PTR(-ENOMEM);
	point->seq = args->seq;
	point->value = args->point;
	point->syncobj = drm_syncobj_find(filp, args->syncobj);
	if (!point->syncobj) {
		kfree(point);
		return ERR_PTR(-ENOENT);
	}
	point->fence = dma_fence_allocate_private_stub(0);
	if (args->point)
		point->chain = dma_fence_chain_alloc();
	if (!point->fence || (args->point && !point->chain)) {
		openreg_point_free(point);
		return ERR_PTR(-ENOMEM);
	}
	return point;
}

static void openreg_point_signal(struct openreg_point *point)
{
	/* The fence is not published yet, so its fields can be set. */
	point->fence->timestamp = ktime_get();
	point->fence->error = point->error;
	if (point->chain)
		drm_syncobj_add_point(point->syncobj, point->chain,
				      point->fence, point->value);
	else
		drm_syncobj_replace_fence(point->syncobj, point->fence);
	point->chain = NULL;
	openreg_point_free(point);
}

/* Adds points in the order in which their packets completed. */
static void openreg_points_work(struct work_struct *work)
{
	struct openreg_queue *queue =
		container_of(work, struct openreg_queue, points_work);
	struct openreg_point *point, *next;
	LIST_HEAD(due);

	scoped_guard(spinlock_irq, &queue->lock)
		list_splice_init(&queue->points_due, &due);
	list_for_each_entry_safe(point, next, &due, link)
		openreg_point_signal(point);
	openreg_queue_put(queue);
}

void openreg_points_init(struct openreg_queue *queue)
{
	INIT_LIST_HEAD(&queue->points);
	INIT_LIST_HEAD(&queue->points_due);
	INIT_WORK(&queue->points_work, openreg_points_work);
}

/**
 * openreg_points_wake() - add the points of completed packets
 * @queue: the queue, locked
 * @completed: completion counter of the queue
 * @all: add the points of all other packets too, with an error: they will not complete
 *
 * A work adds the points, because the interrupt handler cannot take a syncobj's lock.
 *
 * Returns: the least sequence number of the points that remain.
 */
u64 openreg_points_wake(struct openreg_queue *queue, u64 completed, bool all)
{
	struct openreg_point *point;
	bool due = false;

	lockdep_assert_held(&queue->lock);
	while (!list_empty(&queue->points)) {
		point = list_first_entry(&queue->points, struct openreg_point,
					 link);
		if (!all && point->seq > completed)
			break;
		point->error = point->seq > completed ? -EIO : 0;
		list_move_tail(&point->link, &queue->points_due);
		atomic_dec(&queue->ctx->num_points);
		due = true;
	}
	if (due) {
		kref_get(&queue->ref);
		/* Not the last reference: the queue is still in its table. */
		if (!queue_work(queue->odev->wq, &queue->points_work))
			openreg_queue_put(queue);
	}
	return list_empty(&queue->points) ? OPENREG_ARMED_NONE : point->seq;
}

/* Adds all points. The queue has failed, and the card does no DMA for it any more. */
void openreg_points_fail(struct openreg_queue *queue)
{
	guard(spinlock_irqsave)(&queue->lock);
	openreg_points_wake(queue, queue->last_completed, true);
}

static int openreg_point_add(struct openreg_queue *queue,
			     struct openreg_point *point)
{
	struct list_head *after;

	guard(spinlock_irq)(&queue->lock);
	if (queue->error)
		return queue->error;
	if (atomic_inc_return(&queue->ctx->num_points) > OPENREG_POINTS_MAX) {
		atomic_dec(&queue->ctx->num_points);
		return -EBUSY;
	}
	list_for_each_prev(after, &queue->points)
		if (list_entry(after, struct openreg_point, link)->seq <=
		    point->seq)
			break;
	list_add(&point->link, after);
	return 0;
}

/**
 * openreg_queue_signal() - signal a point of a syncobj when a packet completes
 * @queue: the queue
 * @filp: the file of the syncobj
 * @args: the packet and the point
 *
 * Returns: 0 or a negative error. If the packet has completed already, the point is added
 * when this returns.
 */
int openreg_queue_signal(struct openreg_queue *queue, struct drm_file *filp,
			 const struct drm_openreg_queue_signal *args)
{
	struct openreg_point *point = openreg_point_new(filp, args);
	u64 completed;
	int ret;

	if (IS_ERR(point))
		return PTR_ERR(point);
	ret = openreg_queue_wait(queue, args->seq, 0, &completed);
	if (!ret) {
		/* Add the points of earlier packets first. */
		openreg_queue_notify(queue);
		flush_work(&queue->points_work);
		openreg_point_signal(point);
		return 0;
	}
	if (ret == -ETIME)
		ret = openreg_point_add(queue, point);
	if (ret) {
		openreg_point_free(point);
		return ret;
	}
	openreg_health_watch(queue->odev);
	openreg_queue_notify(queue);
	return 0;
}
