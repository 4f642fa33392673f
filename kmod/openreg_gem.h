/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_GEM_H
#define OPENREG_GEM_H

#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>

#include <drm/drm_gem.h>

#include "openreg_accel.h"

#include "openreg_admin.h"
#include "openreg_drv.h"

struct openreg_bo;
struct openreg_ctx;
struct openreg_device;

/* A BO has one owner for life: the file that opened it first. */
struct openreg_bo_ops {
	/* Memory that can take long to get; import holds a lock of all files. */
	int (*open)(struct openreg_bo *bo);
	/* Fill in cmd->seg; list memory is freed by unprepare. */
	int (*prepare)(struct openreg_bo *bo, struct openreg_admin_cmd *cmd);
	void (*unprepare)(struct openreg_bo *bo);
	/* The context has it; it has let go, and gives its reference away. */
	void (*bound)(struct openreg_bo *bo);
	void (*unbound)(struct openreg_bo *bo);
	/* Page frame of a page of the object; under bo->lock, not gone. */
	unsigned long (*pfn)(struct openreg_bo *bo, pgoff_t page);
	/* Instead of pfn. */
	int (*mmap)(struct openreg_bo *bo, struct vm_area_struct *vma);
	/*
	 * The object or the card goes away: undo what refers to its struct
	 * device, if that has not been done.
	 */
	void (*detach)(struct openreg_bo *bo);
	/* Last reference is gone; frees bo, at once or later. */
	void (*release)(struct openreg_bo *bo);
	/* How it is mapped; user memory is not. */
	bool io; /* memory of the card */
	bool noncached, writecombine, readonly;
	bool survives; /* pages stay when the card goes */
};

/* Pages that are freed before others may have the CPU. */
#define OPENREG_FREE_BATCH 512UL
/* What the thread of an interrupt frees. */
#define OPENREG_FREE_AT_ONCE SZ_1M

/* Pages that the card reaches by DMA. */
struct openreg_pages {
	struct page **pages;
	unsigned long num;
	u32 offset; /* of the first byte in the first page */
	enum dma_data_direction dir;
	struct sg_table sgt;
	bool mapped;
	__le64 *list; /* while the card binds them */
	size_t list_size;
	dma_addr_t list_dma;
	struct mm_struct *mm; /* whose pinned_vm counts them, or NULL */
};

/* A dma-buf that somebody else exports. */
struct openreg_import {
	struct dma_buf *dma_buf;
	struct sg_table *sgt; /* of openreg_pages, while mapped; under lock */
	bool bound; /* the context has it, and lives */
	bool revoked; /* the exporter wants it back */
	struct work_struct unbound;
	struct work_struct revoke;
};

struct openreg_bo {
	struct drm_gem_object base;
	const struct openreg_bo_ops *ops;
	u32 flags; /* DRM_OPENREG_BO_*; 0 for parts of queues */
	u64 length; /* bytes that the segment spans */
	unsigned long charged; /* pages, against the limit of system memory */
	struct list_head link; /* odev->bos */
	struct mutex lock; /* gone, dummy, import.sgt, and the page tables against gone */
	bool gone;
	struct page *dummy; /* what maps show once gone */

	struct openreg_ctx *ctx; /* set once, by the first open */
	u32 seg;
	u64 address;
	bool close_counted; /* in vram.pending_free; true for other memory too */
	bool unbinding; /* SEG_UNBIND is sent once */
	struct list_head in_use; /* ctx->unbinds; under its lock */
	unsigned long closed_at; /* jiffies */
	struct openreg_admin_req req; /* SEG_UNBIND */

	union {
		struct {
			struct list_head blocks;
			u64 offset;
			struct dma_buf *dma_buf; /* exported as; under its resv */
			bool exposed; /* mapped or exported since its unbind began */
			bool cleared; /* by the card, when it was unbound */
		} vram;
		struct openreg_pages mem;
		struct {
			void *cpu;
			dma_addr_t dma;
		} coherent;
		struct {
			u32 page;
		} doorbell;
	};
	struct openreg_import import; /* of memory above, by its ops */
};

static inline struct openreg_bo *to_openreg_bo(struct drm_gem_object *obj)
{
	return container_of(obj, struct openreg_bo, base);
}

/* Has memory of the card that goes back to its allocator with the object. */
static inline bool openreg_bo_owns_vram(const struct openreg_bo *bo)
{
	return bo->flags == DRM_OPENREG_BO_VRAM;
}

static inline enum openreg_region openreg_bo_region(const struct openreg_bo *bo)
{
	if (bo->flags & DRM_OPENREG_BO_VRAM)
		return OPENREG_REGION_VRAM;
	if (bo->flags & DRM_OPENREG_BO_SYSTEM)
		return OPENREG_REGION_SYSTEM;
	return OPENREG_REGION_USER;
}

/* openreg_gem.c */
struct openreg_bo *openreg_bo_new(struct openreg_device *odev, u64 size,
				  const struct openreg_bo_ops *ops);
void openreg_bo_free(struct openreg_bo *bo);
void openreg_bo_put(struct openreg_bo *bo);
void openreg_bo_detach_all(struct openreg_device *odev);
void openreg_bo_kill_doorbells(struct openreg_device *odev);

/* openreg_mmap.c */
int openreg_bo_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma);
extern const struct vm_operations_struct openreg_vm_ops;

/* openreg_vram.c, openreg_sysmem.c, openreg_userptr.c */
struct openreg_bo *openreg_vram_bo_new(struct openreg_device *odev, u64 size);
int openreg_vram_prepare(struct openreg_bo *bo, struct openreg_admin_cmd *cmd);
void openreg_vram_unprepare(struct openreg_bo *bo);
void openreg_vram_expose(struct openreg_bo *bo);
struct openreg_bo *openreg_system_bo_new(struct openreg_device *odev, u64 size);
struct openreg_bo *openreg_user_bo_new(struct openreg_device *odev, u64 address,
				       u64 size, bool readonly);
int openreg_bo_charge(struct openreg_bo *bo);
void openreg_bo_uncharge(struct openreg_bo *bo);
int openreg_pages_map(struct openreg_bo *bo);
void openreg_pages_unmap(struct openreg_bo *bo);
int openreg_pages_prepare(struct openreg_bo *bo, struct openreg_admin_cmd *cmd);
void openreg_pages_unprepare(struct openreg_bo *bo);

#endif
