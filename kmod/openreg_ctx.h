/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_CTX_H
#define OPENREG_CTX_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/xarray.h>

#include "openreg_admin.h"

struct openreg_bo;
struct openreg_device;
struct openreg_file;

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
	bool closing; /* its file is being closed */
	bool stopped; /* the watchdog has stopped its queues */
	struct xarray segs; /* of struct openreg_bo; each has a reference */
	u32 next_seg;
	struct openreg_bo *doorbell; /* shared by all its queues */
	struct mutex lock; /* doorbell and queues */
	struct list_head queues; /* each has a reference */
	struct openreg_admin_req destroy;
};

struct openreg_ctx *openreg_ctx_get(struct openreg_file *file);
void openreg_ctx_close(struct openreg_ctx *ctx);
void openreg_ctx_put(struct openreg_ctx *ctx);
int openreg_ctx_bind(struct openreg_ctx *ctx, struct openreg_bo *bo);
void openreg_ctx_unbind(struct openreg_bo *bo);

#endif
