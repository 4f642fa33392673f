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
#include "openreg_ctx.h"
#include "openreg_device.h"

struct openreg_bo;
struct openreg_ctx;
struct openreg_device;

/* An object belongs to the file that opened it first, until it is freed. */
struct openreg_bo_ops {
	/*
	 * Optional. Get memory here if that can take long: DRM creates an imported
	 * object under a lock, and calls this without the lock.
	 */
	int (*open)(struct openreg_bo *bo);
	/* Fill in cmd->seg. unprepare frees the page list. */
	int (*prepare)(struct openreg_bo *bo, struct openreg_admin_cmd *cmd);
	void (*unprepare)(struct openreg_bo *bo);
	/*
	 * Optional. bound: the segment is bound. unbound: the card has released the
	 * segment; the function takes over the context's reference to the object.
	 */
	void (*bound)(struct openreg_bo *bo);
	void (*unbound)(struct openreg_bo *bo);
	/* Page frame of a page of the object; under bo->lock, and not if bo->gone. */
	unsigned long (*pfn)(struct openreg_bo *bo, pgoff_t page);
	/* Optional, instead of pfn. */
	int (*mmap)(struct openreg_bo *bo, struct vm_area_struct *vma);
	/*
	 * Optional. The object is freed or the card is removed: undo all that refers to
	 * the struct device. Called twice if both happen.
	 */
	void (*detach)(struct openreg_bo *bo);
	/* The last reference is dropped: free bo. */
	void (*release)(struct openreg_bo *bo);
	/* How mmap() maps the object; registered memory cannot be mapped. */
	bool io; /* VRAM or a doorbell */
	bool noncached, writecombine, readonly;
	bool survives; /* pages stay when the card is removed */
};

/* Pages to free between two calls of cond_resched(). */
#define OPENREG_FREE_BATCH 512UL
/* The thread of the admin interrupt frees objects up to this size itself. */
#define OPENREG_FREE_AT_ONCE SZ_1M

/* Pages that the card reaches by DMA. */
struct openreg_pages {
	struct page **pages;
	unsigned long num;
	u32 offset; /* of the first byte in the first page */
	enum dma_data_direction dir;
	struct sg_table sgt;
	bool mapped;
	__le64 *list; /* page list, while the card binds the segment */
	size_t list_size;
	dma_addr_t list_dma;
	struct mm_struct *mm; /* its pinned_vm counts the pages; or NULL */
};

/* An imported dma-buf. */
struct openreg_import {
	struct dma_buf *dma_buf;
	struct sg_table *sgt; /* the exporter's mapping, or NULL; under bo->lock */
	bool bound; /* a segment is bound to it, so bo->ctx is valid */
	bool revoked; /* the exporter has taken the memory back */
	struct work_struct unbound;
	struct work_struct revoke;
};

struct openreg_bo {
	struct drm_gem_object base;
	const struct openreg_bo_ops *ops;
	u32 flags; /* DRM_OPENREG_BO_*; 0 for parts of queues */
	u64 length; /* bytes that the segment spans */
	unsigned long charged; /* pages counted against the limit of system memory */
	struct list_head link; /* odev->bos */
	/* Protects gone, dummy, import.sgt. Held to map pages, which needs !gone. */
	struct mutex lock;
	bool gone; /* mappings show the dummy page */
	struct page *dummy; /* allocated at the first access */

	struct openreg_ctx *ctx; /* set once, by the first open */
	u32 seg;
	u64 address;
	bool unbinding; /* SEG_UNBIND was submitted; it must be sent only once */
	bool reclaim; /* openreg_bo_free() ends a reclaim */
	struct list_head in_use; /* ctx->unbinds; under its lock */
	unsigned long closed_at; /* jiffies */
	struct openreg_admin_req req; /* SEG_UNBIND */

	union {
		struct {
			struct list_head blocks;
			u64 offset;
			struct dma_buf *dma_buf; /* the export, or NULL; under its resv */
			bool exposed; /* mapped or exported since its unbind began */
			bool clearing; /* counted in odev->vram.clearing */
			bool cleared; /* by the card, when it released the segment */
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
	struct openreg_import import; /* of imported objects, with vram or mem above */
};

static inline struct openreg_bo *to_openreg_bo(struct drm_gem_object *obj)
{
	return container_of(obj, struct openreg_bo, base);
}

/* Does freeing the object free VRAM? Not if it is an import of VRAM. */
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
int openreg_bo_open(struct drm_gem_object *obj, struct drm_file *filp);
void openreg_bo_close(struct drm_gem_object *obj, struct drm_file *filp);
void openreg_bo_gem_free(struct drm_gem_object *obj);
struct openreg_bo *openreg_bo_new(struct openreg_device *odev, u64 size,
				  const struct openreg_bo_ops *ops);
void openreg_bo_free(struct openreg_bo *bo);
void openreg_bo_put(struct openreg_bo *bo);
void openreg_bo_detach_all(struct openreg_device *odev);
void openreg_bo_kill_doorbells(struct openreg_device *odev);

/* openreg_mmap.c */
int openreg_bo_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma);
extern const struct vm_operations_struct openreg_vm_ops;

/* openreg_vram.c */
int openreg_vram_init(struct openreg_device *odev);
void openreg_vram_count_clearing(struct openreg_bo *bo);
void openreg_vram_unbound(struct openreg_bo *bo, bool cleared);
bool openreg_vram_can_clear(struct openreg_bo *bo);
void openreg_vram_query(struct openreg_device *odev,
			struct drm_openreg_memory_info *info);
struct openreg_bo *openreg_vram_bo_new(struct openreg_device *odev, u64 size);
int openreg_vram_prepare(struct openreg_bo *bo, struct openreg_admin_cmd *cmd);
void openreg_vram_unprepare(struct openreg_bo *bo);
void openreg_vram_expose(struct openreg_bo *bo);

/* openreg_sysmem.c */
struct openreg_bo *openreg_system_bo_new(struct openreg_device *odev, u64 size);
struct openreg_bo *openreg_user_bo_new(struct openreg_device *odev, u64 address,
				       u64 size, bool readonly);
int openreg_bo_charge(struct openreg_bo *bo);
void openreg_bo_uncharge(struct openreg_bo *bo);
int openreg_pages_map(struct openreg_bo *bo);
void openreg_pages_unmap(struct openreg_bo *bo);
int openreg_pages_prepare(struct openreg_bo *bo, struct openreg_admin_cmd *cmd);
void openreg_pages_unprepare(struct openreg_bo *bo);
extern const struct openreg_bo_ops openreg_ring_ops;
extern const struct openreg_bo_ops openreg_card_page_ops;
extern const struct openreg_bo_ops openreg_kernel_page_ops;
struct openreg_bo *openreg_coherent_new(struct openreg_device *odev, u64 size,
					const struct openreg_bo_ops *ops);

#endif
