// SPDX-License-Identifier: GPL-2.0-only
/* Registered memory: private memory of a process, pinned for the card. */

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include <drm/drm_print.h>

#include "openreg_compat.h"
#include "openreg_drv.h"
#include "openreg_gem.h"

static int openreg_user_try_charge(struct openreg_bo *bo, unsigned long num)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct mm_struct *mm = current->mm;
	long pinned;

	pinned = atomic64_add_return(num, &mm->pinned_vm);
	if (pinned > limit && !capable(CAP_IPC_LOCK)) {
		atomic64_sub(num, &mm->pinned_vm);
		drm_dbg(bo->base.dev,
			"%lu pages to pin, %ld pinned, RLIMIT_MEMLOCK is %lu\n",
			num, pinned - num, limit);
		return -ENOMEM;
	}
	mmgrab(mm);
	bo->mem.mm = mm;
	return 0;
}

static int openreg_user_charge(struct openreg_bo *bo, unsigned long num)
{
	int ret = openreg_user_try_charge(bo, num);

	if (!ret)
		return 0;
	/* The finish work may be unpinning memory of closed files: wait and try again. */
	openreg_admin_wait_finished(to_openreg(bo->base.dev));
	return openreg_user_try_charge(bo, num);
}

/*
 * Returns a better error than pinning, which returns only EFAULT. The check in
 * openreg_user_pin() is the one that counts: the mapping may change in between.
 */
static int openreg_user_check(u64 address, u64 size)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	u64 end = address + size;
	int ret = 0;

	mmap_read_lock(mm);
	while (address < end && !ret) {
		vma = vma_lookup(mm, address);
		if (!vma)
			ret = -EFAULT;
		else if (vma->vm_flags & (VM_SHARED | VM_IO | VM_PFNMAP))
			ret = -EOPNOTSUPP;
		else
			address = vma->vm_end;
	}
	mmap_read_unlock(mm);
	return ret;
}

static int openreg_user_pin(struct openreg_bo *bo, u64 start,
			    unsigned long num)
{
	struct openreg_pages *mem = &bo->mem;
	unsigned int flags = FOLL_LONGTERM;
	unsigned long i;

	if (!(bo->flags & DRM_OPENREG_BO_READONLY))
		flags |= FOLL_WRITE;
	mem->pages = kvmalloc_objs(*mem->pages, num);
	if (!mem->pages)
		return -ENOMEM;

	while (mem->num < num) {
		int batch = min(num - mem->num, 1UL << 18);
		int got = pin_user_pages_fast(start + (mem->num << PAGE_SHIFT),
					      batch, flags,
					      mem->pages + mem->num);

		if (got <= 0)
			return got ?: -EFAULT;
		mem->num += got;
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	/*
	 * A private mapping of a file has anonymous pages by now. Other pages mean that
	 * the mapping has changed since openreg_user_check().
	 */
	for (i = 0; i < num; i++)
		if (!PageAnon(mem->pages[i]))
			return -EOPNOTSUPP;
	return 0;
}

static void openreg_user_release(struct openreg_bo *bo)
{
	struct openreg_pages *mem = &bo->mem;
	unsigned long i;

	for (i = 0; i < mem->num; i += OPENREG_FREE_BATCH) {
		unpin_user_pages_dirty_lock(mem->pages + i,
					    min(mem->num - i,
						OPENREG_FREE_BATCH),
					    mem->dir == DMA_BIDIRECTIONAL);
		cond_resched();
	}
	kvfree(mem->pages);
	if (mem->mm) {
		atomic64_sub(bo->base.size >> PAGE_SHIFT, &mem->mm->pinned_vm);
		mmdrop(mem->mm);
	}
	openreg_bo_free(bo);
}

static const struct openreg_bo_ops openreg_user_ops = {
	.prepare = openreg_pages_prepare,
	.unprepare = openreg_pages_unprepare,
	.detach = openreg_pages_unmap,
	.release = openreg_user_release,
};

/* Creates an object of pinned memory, not yet mapped for DMA. May fault pages in. */
struct openreg_bo *openreg_user_bo_new(struct openreg_device *odev, u64 address,
				       u64 size, bool readonly)
{
	u32 offset = offset_in_page(address);
	struct openreg_bo *bo;
	unsigned long num;
	int ret;

	bo = openreg_bo_new(odev, PAGE_ALIGN(offset + size), &openreg_user_ops);
	if (IS_ERR(bo))
		return bo;

	bo->flags = DRM_OPENREG_BO_USER;
	bo->mem.dir = DMA_BIDIRECTIONAL;
	if (readonly) {
		bo->flags |= DRM_OPENREG_BO_READONLY;
		bo->mem.dir = DMA_TO_DEVICE;
	}
	bo->length = size;
	bo->mem.offset = offset;
	num = bo->base.size >> PAGE_SHIFT;

	ret = openreg_user_check(address, size);
	if (!ret)
		ret = openreg_user_charge(bo, num);
	if (!ret)
		ret = openreg_user_pin(bo, address - offset, num);
	if (ret) {
		openreg_bo_put(bo);
		return ERR_PTR(ret);
	}
	return bo;
}
