/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_CTX_H
#define OPENREG_CTX_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "openreg_admin.h"

struct openreg_bo;
struct openreg_device;
struct openreg_file;

/* Closed objects of a context. */
struct openreg_unbinds {
	spinlock_t lock; /* protects all fields */
	struct list_head in_use; /* struct openreg_bo: unbound, not released */
	bool ctx_destroyed; /* by the card */
	bool queues_stopped; /* because a segment was in use for too long */
	unsigned long stopped_at; /* jiffies */
};

/*
 * The segments and queues of one open file. References: the file, the CTX_DESTROY
 * command, each command of a queue, and each unbind until the card has released
 * the segment.
 */
struct openreg_ctx {
	struct kref ref;
	struct openreg_device *odev;
	u32 id;
	struct list_head link; /* admin.ctxs */
	bool dead; /* the card has lost it in a reset; under admin.lock */
	bool file_closed; /* CTX_DESTROY follows; under unbinds.lock */
	struct xarray segs; /* struct openreg_bo, with a reference once bound */
	u32 next_seg;
	struct openreg_bo *released; /* struct openreg_released_page */
	struct openreg_bo *doorbell; /* shared by all its queues */
	struct mutex lock; /* protects doorbell and queues */
	struct list_head queues; /* struct openreg_queue; holds its first reference */
	struct openreg_unbinds unbinds;
	atomic_t num_points; /* points whose packets have not completed */
	struct openreg_admin_req destroy;
};

/* openreg_ctx.c */
struct openreg_ctx *openreg_ctx_get(struct openreg_file *file);
int openreg_ctx_check(struct openreg_file *file);
void openreg_ctx_close(struct openreg_ctx *ctx);
void openreg_ctx_put(struct openreg_ctx *ctx);
int openreg_ctx_bind(struct openreg_ctx *ctx, struct openreg_bo *bo);
void openreg_ctx_unbind(struct openreg_bo *bo);
void openreg_ctx_release_bo(struct openreg_bo *bo);
int openreg_ctx_restore(struct openreg_ctx *ctx);
void openreg_ctx_kill(struct openreg_ctx *ctx);
struct openreg_ctx *openreg_ctx_next(struct openreg_device *odev,
				     struct openreg_ctx *last);

/* openreg_unbind.c */
void openreg_unbind(struct openreg_bo *bo);
void openreg_unbinds_init(struct openreg_unbinds *unbinds);
void openreg_unbinds_work(struct work_struct *work);
void openreg_unbinds_notify(struct openreg_device *odev);
void openreg_unbinds_finish_all(struct openreg_device *odev);
void openreg_unbinds_finish_ctx(struct openreg_ctx *ctx);
bool openreg_unbinds_are_late(struct openreg_ctx *ctx);

#endif
