/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_CTX_H
#define OPENREG_CTX_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "openreg_admin.h"

struct openreg_bo;
struct openreg_device;
struct openreg_file;

/* Closed objects of a context that packets still use. */
struct openreg_unbinds {
	spinlock_t lock; /* all of this */
	struct list_head busy; /* of struct openreg_bo, the next to ask for first */
	struct delayed_work work;
	unsigned int backoff_ms;
	unsigned int closing; /* objects that were closed and are still there */
	unsigned int released; /* such objects so far */
	wait_queue_head_t wait; /* for one more */
	bool gone; /* the card has destroyed the context */
	bool stopping; /* its queues were stopped, as one is busy for too long */
	unsigned long stopped; /* when */
};

/*
 * What the card keeps apart for one open file. Lives until the card has
 * destroyed it and the file, and every unbind under way, let go of it.
 */
struct openreg_ctx {
	struct kref ref;
	struct openreg_device *odev;
	u32 id;
	struct list_head link; /* admin.ctxs */
	bool dead; /* the card has forgotten it; under admin.lock */
	bool closing; /* its file is being closed; under unbinds.lock */
	struct xarray segs; /* of struct openreg_bo; each has a reference, once bound */
	u32 next_seg;
	struct openreg_bo *doorbell; /* shared by all its queues */
	struct mutex lock; /* doorbell and queues */
	struct list_head queues; /* with the reference that creation gave */
	struct openreg_unbinds unbinds;
	atomic_t num_points; /* of syncobjs that have not appeared */
	struct openreg_admin_req destroy;
};

/* openreg_ctx.c */
struct openreg_ctx *openreg_ctx_get(struct openreg_file *file);
int openreg_ctx_check(struct openreg_file *file);
void openreg_ctx_close(struct openreg_ctx *ctx);
void openreg_ctx_put(struct openreg_ctx *ctx);
int openreg_ctx_bind(struct openreg_ctx *ctx, struct openreg_bo *bo);
void openreg_ctx_unbind(struct openreg_bo *bo, bool background);
void openreg_ctx_release_bo(struct openreg_bo *bo);
int openreg_ctx_restore(struct openreg_ctx *ctx);
void openreg_ctx_lose(struct openreg_ctx *ctx);
struct openreg_ctx *openreg_ctx_next(struct openreg_device *odev,
				     struct openreg_ctx *last);

/* openreg_unbind.c */
void openreg_unbind(struct openreg_bo *bo, bool background);
void openreg_unbinds_init(struct openreg_unbinds *unbinds);
void openreg_unbinds_finish(struct openreg_ctx *ctx);
bool openreg_unbinds_are_late(struct openreg_ctx *ctx);
unsigned int openreg_unbinds_released(struct openreg_file *file);
bool openreg_unbinds_wait(struct openreg_file *file, unsigned int released,
			  unsigned long deadline);
void openreg_unbinds_wake(struct openreg_device *odev);

/* For what was closed and is on its way back. */
#define OPENREG_PATIENCE (10 * HZ)

static inline bool openreg_is_short(int error)
{
	return error == -ENOMEM || error == -ENOSPC;
}

void openreg_unbinds_drain(struct openreg_device *odev);

#endif
