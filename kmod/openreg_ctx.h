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
#include "openreg_device.h"

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
	struct openreg_admin_ctx base;
	struct kref ref;
	struct openreg_device *odev;
	struct xarray segs; /* struct openreg_bo, with a reference once bound */
	u32 next_seg;
	struct openreg_bo *released; /* struct openreg_released_page */
	struct openreg_bo *doorbell; /* shared by all its queues */
	struct mutex lock; /* protects doorbell and queues */
	struct list_head queues; /* struct openreg_queue; holds its first reference */
	struct openreg_unbinds unbinds;
	atomic_t num_points; /* points with packets in flight */
	struct openreg_admin_req destroy;
};

/* Kinds of memory that are counted for each open file. */
enum openreg_region {
	OPENREG_REGION_VRAM,
	OPENREG_REGION_SYSTEM,
	OPENREG_REGION_USER,
	OPENREG_REGIONS
};

struct openreg_file {
	struct openreg_device *odev;
	struct mutex lock; /* creation of ctx */
	struct openreg_ctx *ctx;
	struct xarray queues; /* struct openreg_queue by its number in the file */
	u32 next_queue;
	atomic64_t memory[OPENREG_REGIONS]; /* bytes */
	u64 past_busy_ns; /* engine time of destroyed queues; under queues.xa_lock */
};

/* How long a call waits for memory before it fails, in jiffies. */
#define OPENREG_MEMORY_TIMEOUT (10 * HZ)

static inline struct openreg_ctx *to_openreg_ctx(struct openreg_admin_ctx *base)
{
	return container_of(base, struct openreg_ctx, base);
}

/* openreg_ctx.c */
struct openreg_ctx *openreg_ctx_get(struct openreg_file *file);
int openreg_ctx_check(struct openreg_file *file);
void openreg_ctx_close(struct openreg_ctx *ctx);
void openreg_ctx_put(struct openreg_ctx *ctx);
int openreg_ctx_bind(struct openreg_ctx *ctx, struct openreg_bo *bo);
void openreg_ctx_unbind(struct openreg_bo *bo);
int openreg_ctx_need_doorbell(struct openreg_ctx *ctx);
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
void openreg_reclaim_init(struct openreg_reclaim *reclaim);
void openreg_reclaim_begin(struct openreg_device *odev);
void openreg_reclaim_end(struct openreg_device *odev);
int openreg_reclaim_done(struct openreg_device *odev);
bool openreg_reclaim_wait(struct openreg_device *odev, int ret, int done,
			  unsigned long deadline);
void openreg_reclaim_wake(struct openreg_device *odev);

#endif
