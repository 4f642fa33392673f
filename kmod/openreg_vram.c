// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device memory. The card clears an object when it is closed, unless a mapping or a
 * dma-buf still shows its memory. Other memory is cleared when it is allocated again.
 */

#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "openreg_device.h"
#include "openreg_gem.h"

/*
 * May the card clear the object as it unbinds it? Not if a mapping or a dma-buf shows the
 * memory. Then the object has more references than those of the handle and the segment.
 */
bool openreg_vram_can_clear(struct openreg_bo *bo)
{
	WRITE_ONCE(bo->vram.exposed, false);
	/* Pairs with openreg_vram_expose(), which has taken a reference. */
	smp_mb();
	return kref_read(&bo->base.refcount) <= 2;
}

/* The object is being mapped or exported; the caller has a reference. */
void openreg_vram_expose(struct openreg_bo *bo)
{
	/* The reference comes before this store: see openreg_vram_can_clear(). */
	smp_mb();
	WRITE_ONCE(bo->vram.exposed, true);
}

/* The card clears the object and then releases it. */
void openreg_vram_count_clearing(struct openreg_bo *bo)
{
	bo->vram.clearing = true;
	atomic64_add(bo->base.size, &to_openreg(bo->base.dev)->vram.clearing);
}

void openreg_vram_unbound(struct openreg_bo *bo, bool cleared)
{
	bo->vram.cleared = cleared;
	if (bo->vram.clearing)
		atomic64_sub(bo->base.size,
			     &to_openreg(bo->base.dev)->vram.clearing);
}

static void openreg_vram_fill_cmd(struct openreg_admin_cmd *cmd,
				  const struct openreg_bo *bo)
{
	*cmd = (struct openreg_admin_cmd) {
		.opcode = OPENREG_ADMIN_FILL,
		.fill.offset = bo->vram.offset,
		.fill.length = bo->base.size,
	};
}

static void openreg_vram_release(struct openreg_bo *bo)
{
	struct openreg_device *odev = to_openreg(bo->base.dev);
	bool cleared = bo->vram.cleared && !READ_ONCE(bo->vram.exposed);

	scoped_guard(mutex, &odev->vram.lock)
		gpu_buddy_free_list(&odev->vram.mm, &bo->vram.blocks,
				    cleared ? GPU_BUDDY_CLEARED : 0);
	openreg_bo_free(bo);
}

int openreg_vram_prepare(struct openreg_bo *bo, struct openreg_admin_cmd *cmd)
{
	cmd->seg.kind = OPENREG_SEG_VRAM;
	cmd->seg.base = bo->vram.offset;
	return 0;
}

void openreg_vram_unprepare(struct openreg_bo *bo)
{
}

static unsigned long openreg_vram_pfn(struct openreg_bo *bo, pgoff_t page)
{
	struct openreg_device *odev = to_openreg(bo->base.dev);

	return PHYS_PFN(odev->vram_base + bo->vram.offset) + page;
}

static const struct openreg_bo_ops openreg_vram_ops = {
	.prepare = openreg_vram_prepare,
	.unprepare = openreg_vram_unprepare,
	.pfn = openreg_vram_pfn,
	.release = openreg_vram_release,
	.io = true,
	.writecombine = true,
};

/* The allocator may return several blocks. They are contiguous. */
static int openreg_vram_take(struct openreg_vram *vram, u64 size,
			     struct list_head *blocks, u64 *offset,
			     bool *cleared)
{
	struct gpu_buddy_block *block;
	u64 sum = 0, end = 0;
	int ret;

	lockdep_assert_held(&vram->lock);
	ret = gpu_buddy_alloc_blocks(&vram->mm, 0, vram->mm.size, size,
				     PAGE_SIZE, blocks,
				     GPU_BUDDY_CONTIGUOUS_ALLOCATION |
				     GPU_BUDDY_CLEAR_ALLOCATION);
	if (ret)
		return ret == -EINVAL ? -ENOSPC : ret;

	*offset = U64_MAX;
	*cleared = true;
	list_for_each_entry(block, blocks, link) {
		u64 start = gpu_buddy_block_offset(block);
		u64 len = gpu_buddy_block_size(&vram->mm, block);

		*offset = min(*offset, start);
		end = max(end, start + len);
		sum += len;
		*cleared &= !!gpu_buddy_block_is_clear(block);
	}
	if (WARN_ON_ONCE(end - *offset != sum || sum != size)) {
		gpu_buddy_free_list(&vram->mm, blocks, 0);
		return -ENOSPC;
	}
	return 0;
}

struct openreg_bo *openreg_vram_bo_new(struct openreg_device *odev, u64 size)
{
	struct openreg_admin_cmd cmd;
	struct openreg_bo *bo;
	bool cleared;
	int ret;

	if (size > odev->info.vram_size)
		return ERR_PTR(-ENOSPC);
	bo = openreg_bo_new(odev, size, &openreg_vram_ops);
	if (IS_ERR(bo))
		return bo;

	bo->flags = DRM_OPENREG_BO_VRAM;
	INIT_LIST_HEAD(&bo->vram.blocks);
	scoped_guard(mutex, &odev->vram.lock)
		ret = openreg_vram_take(&odev->vram, size, &bo->vram.blocks,
					&bo->vram.offset, &cleared);
	if (!ret && !cleared) {
		openreg_vram_fill_cmd(&cmd, bo);
		ret = openreg_admin_exec(odev, NULL, &cmd);
	}
	if (ret) {
		openreg_bo_put(bo);
		return ERR_PTR(ret);
	}
	return bo;
}

static bool openreg_vram_has_free(struct openreg_vram *vram, u64 size)
{
	struct gpu_buddy_block *block, *next;
	LIST_HEAD(blocks);
	u64 offset;
	bool clear;

	if (openreg_vram_take(vram, size, &blocks, &offset, &clear))
		return false;
	list_for_each_entry_safe(block, next, &blocks, link) {
		LIST_HEAD(one);

		clear = gpu_buddy_block_is_clear(block);
		list_move(&block->link, &one);
		gpu_buddy_free_list(&vram->mm, &one,
				    clear ? GPU_BUDDY_CLEARED : 0);
	}
	return true;
}

/* The allocator does not report this. Bisect: at most log2(pages) allocations. */
static u64 openreg_vram_largest(struct openreg_vram *vram)
{
	u64 low = 0, high = vram->mm.avail >> PAGE_SHIFT;

	if (high && openreg_vram_has_free(vram, high << PAGE_SHIFT))
		return high << PAGE_SHIFT;
	while (low + 1 < high) {
		u64 mid = low + (high - low) / 2;

		if (openreg_vram_has_free(vram, mid << PAGE_SHIFT))
			low = mid;
		else
			high = mid;
	}
	return low << PAGE_SHIFT;
}

void openreg_vram_query(struct openreg_device *odev,
			struct drm_openreg_memory_info *info)
{
	struct openreg_vram *vram = &odev->vram;

	guard(mutex)(&vram->lock);
	info->vram_total = vram->mm.size;
	info->vram_free = vram->mm.avail + atomic64_read(&vram->clearing);
	info->vram_largest = openreg_vram_largest(vram);
}

static void openreg_vram_fini(struct drm_device *drm, void *data)
{
	struct openreg_vram *vram = data;

	gpu_buddy_fini(&vram->mm);
}

int openreg_vram_init(struct openreg_device *odev)
{
	struct openreg_vram *vram = &odev->vram;
	int ret;

	ret = drmm_mutex_init(&odev->drm, &vram->lock);
	if (ret)
		return ret;
	init_waitqueue_head(&vram->unmapped);
	ret = gpu_buddy_init(&vram->mm, odev->info.vram_size, PAGE_SIZE);
	if (ret)
		return ret;
	gpu_buddy_driver_set_lock(&vram->mm, &vram->lock);
	return drmm_add_action_or_reset(&odev->drm, openreg_vram_fini, vram);
}
