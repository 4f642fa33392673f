// SPDX-License-Identifier: GPL-2.0-only
/* Failing allocations and user copies in ioctls of queues, clocks and syncobjs. */
#include <errno.h>

#include "failures.h"

static int call_queue(struct world *w)
{
	return new_queue(w->fd, &w->more);
}

static int call_first_queue(struct world *w)
{
	return new_queue(w->file, &w->more);
}

static int undo_queue(struct world *w, int ret)
{
	return ret ? 0 : queue_destroy(&w->more);
}

static int call_destroy(struct world *w)
{
	return queue_destroy(&w->more);
}

static int undo_destroy(struct world *w, int ret)
{
	return ret ? queue_destroy(&w->more) : 0;
}

static int call_wait(struct world *w)
{
	return queue_wait(&w->queue, w->seq, 20 * SEC_NS);
}

static int call_wait_in_vain(struct world *w)
{
	return queue_wait(&w->queue, w->queue.seq + 1, SEC_NS / 1000);
}

static int call_reset(struct world *w)
{
	return queue_reset(&w->queue, w->queue.tail, w->queue.seq);
}

static int call_timestamp(struct world *w)
{
	struct drm_openreg_timestamp args = {};

	return card_ioctl(w->fd, DRM_IOCTL_OPENREG_TIMESTAMP, &args);
}

static int prepare_signal(struct world *w)
{
	push_nop(w);
	return queue_wait(&w->queue, w->seq, 20 * SEC_NS);
}

static int call_signal(struct world *w)
{
	return queue_signal(&w->queue, w->syncobj, w->seq, 0);
}

static int call_point(struct world *w)
{
	return queue_signal(&w->queue, w->syncobj, w->seq, w->seq);
}

static int call_point_later(struct world *w)
{
	return queue_signal(&w->queue, w->syncobj, w->queue.seq + 1, w->queue.seq + 1);
}

/* Completes the packet, because a file can have only so many pending points. */
static int undo_point_later(struct world *w, int ret)
{
	return prepare_signal(w);
}

SWEEP(queue, .call = call_queue, .undo = undo_queue);
SWEEP(first_queue, fresh_file, call_first_queue, close_file);
SWEEP(destroy, call_queue, call_destroy, undo_destroy);
SWEEP(wait, push_nop, call_wait);
SWEEP(wait_in_vain, .call = call_wait_in_vain, .result = -ETIME);
SWEEP(reset, .call = call_reset);
SWEEP(timestamp, .call = call_timestamp);
SWEEP(signal, prepare_signal, call_signal);
SWEEP(point, prepare_signal, call_point);
SWEEP(point_later, .call = call_point_later, .undo = undo_point_later);

TEST_HARNESS_MAIN
