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
#include "openreg_device.h"
#include "openreg_extra.h"
#include "openreg_queue.h"

struct openreg_syncobj_point {
	struct openreg_point base;
	struct drm_syncobj *syncobj;
	struct dma_fence *fence; /* signalled */
	struct dma_fence_chain *chain; /* NULL: the syncobj has no timeline */
	u64 value; /* on the timeline */
};

static void openreg_syncobj_free(struct openreg_syncobj_point *point)
{
	dma_fence_chain_free(point->chain);
	dma_fence_put(point->fence);
	drm_syncobj_put(point->syncobj);
	kfree(point);
}

static void openreg_syncobj_signal(struct openreg_point *base)
{
	struct openreg_syncobj_point *point =
		container_of(base, struct openreg_syncobj_point, base);

	/* The fence is not published yet, so its fields can be set. */
	point->fence->timestamp = ktime_get();
	point->fence->error = base->error;
	if (point->chain)
		drm_syncobj_add_point(point->syncobj, point->chain,
				      point->fence, point->value);
	else
		drm_syncobj_replace_fence(point->syncobj, point->fence);
	point->chain = NULL;
	openreg_syncobj_free(point);
}

static struct openreg_syncobj_point *
openreg_syncobj_new(struct drm_file *filp,
		    const struct drm_openreg_queue_signal *args)
{
	struct openreg_syncobj_point *point;

	point = kzalloc_obj(*point);
	if (!point)
		return ERR_PTR(-ENOMEM);
	point->base.seq = args->seq;
	point->base.done = openreg_syncobj_signal;
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
		openreg_syncobj_free(point);
		return ERR_PTR(-ENOMEM);
	}
	return point;
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
	struct openreg_syncobj_point *point = openreg_syncobj_new(filp, args);
	u64 completed;
	int ret;

	if (IS_ERR(point))
		return PTR_ERR(point);
	ret = openreg_queue_wait(queue, args->seq, 0, &completed);
	if (!ret) {
		/* Add the points of earlier packets first. */
		openreg_queue_notify(queue);
		flush_work(&queue->points_work);
		openreg_syncobj_signal(&point->base);
		return 0;
	}
	if (ret == -ETIME)
		ret = openreg_point_add(queue, &point->base);
	if (ret) {
		openreg_syncobj_free(point);
		return ret;
	}
	openreg_health_watch(queue->odev);
	openreg_queue_notify(queue);
	return 0;
}
