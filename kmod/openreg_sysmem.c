// SPDX-License-Identifier: GPL-2.0-only
/*
 * System memory that the card reaches by DMA: page lists, SYSTEM objects, registered
 * memory, which is private memory of a process, pinned for the card, and the coherent
 * memory of rings and of the pages beside them.
 */

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>

#include <drm/drm_print.h>

#include "openreg_compat.h"
#include "openreg_device.h"
#include "openreg_gem.h"

#define OPENREG_HUGE_SHIFT 21
/* Allocate chunks of 2 MiB: long runs make short page lists and fast copies. */
#define OPENREG_CHUNK_ORDER (OPENREG_HUGE_SHIFT - PAGE_SHIFT)

int openreg_pages_map(struct openreg_bo *bo)
{
	struct openreg_pages *mem = &bo->mem;
	struct device *dev = bo->base.dev->dev;
	int ret;

	ret = sg_alloc_table_from_pages(&mem->sgt, mem->pages, mem->num, 0,
					(u64)mem->num << PAGE_SHIFT,
					GFP_KERNEL);
	if (ret)
		return ret;
	ret = dma_map_sgtable(dev, &mem->sgt, mem->dir, 0);
	if (ret) {
		sg_free_table(&mem->sgt);
		return ret;
	}
	mem->mapped = true;
	return 0;
}

void openreg_pages_unmap(struct openreg_bo *bo)
{
	struct openreg_pages *mem = &bo->mem;

	if (!mem->mapped)
		return;
	mem->mapped = false;
	dma_unmap_sgtable(bo->base.dev->dev, &mem->sgt, mem->dir, 0);
	sg_free_table(&mem->sgt);
}

/* Returns how many pages of this size the memory has; 0 if they do not fit it. */
static u64 openreg_pages_count(struct sg_table *sgt, unsigned int shift)
{
	u64 mask = BIT_ULL(shift) - 1;
	struct scatterlist *sg;
	u64 count = 0;
	int i;

	for_each_sgtable_dma_sg(sgt, sg, i) {
		u64 start = sg_dma_address(sg);
		u64 end = start + sg_dma_len(sg);

		if ((i && (start & mask)) ||
		    (i + 1 < sgt->nents && (end & mask)))
			return 0;
		count += ((end + mask) >> shift) - (start >> shift);
	}
	return count;
}

static void openreg_pages_fill_list(struct openreg_pages *mem,
				    unsigned int shift)
{
	u64 mask = BIT_ULL(shift) - 1;
	struct scatterlist *sg;
	size_t n = 0;
	int i;

	for_each_sgtable_dma_sg(&mem->sgt, sg, i) {
		u64 end = sg_dma_address(sg) + sg_dma_len(sg);
		u64 page = sg_dma_address(sg) & ~mask;

		for (; page < end; page += mask + 1)
			mem->list[n++] = cpu_to_le64(page);
	}
}

int openreg_pages_prepare(struct openreg_bo *bo, struct openreg_admin_cmd *cmd)
{
	struct openreg_device *odev = to_openreg(bo->base.dev);
	struct openreg_pages *mem = &bo->mem;
	unsigned int shift = OPENREG_HUGE_SHIFT;
	u64 count = 0;

	if (odev->page_shifts & BIT(shift))
		count = openreg_pages_count(&mem->sgt, shift);
	if (!count) {
		shift = PAGE_SHIFT;
		count = openreg_pages_count(&mem->sgt, shift);
	}

	mem->list_size = count * sizeof(*mem->list);
	mem->list = dma_alloc_coherent(odev->drm.dev, mem->list_size,
				       &mem->list_dma,
				       GFP_KERNEL | __GFP_NOWARN);
	if (!mem->list)
		return -ENOMEM;
	openreg_pages_fill_list(mem, shift);

	cmd->seg.kind = OPENREG_SEG_SYSTEM;
	cmd->seg.base = mem->list_dma;
	cmd->seg.npages = count;
	cmd->seg.page_shift = shift;
	cmd->seg.offset = mem->offset + (sg_dma_address(mem->sgt.sgl) &
					 (BIT(shift) - 1));
	return 0;
}

/* Frees the page list. The card has read it when SEG_BIND completes. */
void openreg_pages_unprepare(struct openreg_bo *bo)
{
	struct openreg_pages *mem = &bo->mem;

	dma_free_coherent(bo->base.dev->dev, mem->list_size, mem->list,
			  mem->list_dma);
	mem->list = NULL;
}

static unsigned int openreg_pages_alloc_chunk(struct page **pages,
					      unsigned long want)
{
	unsigned int order = min_t(unsigned int, ilog2(want),
				   OPENREG_CHUNK_ORDER);
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN;
	struct page *page;
	unsigned long i;

	for (;; order--) {
		page = alloc_pages(gfp | (order ? __GFP_NORETRY :
					  __GFP_RETRY_MAYFAIL), order);
		if (page)
			break;
		if (!order)
			return 0;
	}
	if (order)
		split_page(page, order);
	for (i = 0; i < 1UL << order; i++)
		pages[i] = page + i;
	return 1U << order;
}

/* Pages of all SYSTEM objects and rings, of all cards. */
static atomic_long_t openreg_system_pages;

static int openreg_bo_try_charge(struct openreg_bo *bo)
{
	unsigned long num = bo->base.size >> PAGE_SHIFT;
	unsigned long limit = totalram_pages() / 2;
	long old = atomic_long_read(&openreg_system_pages);

	do {
		if (num > limit || old > limit - num) {
			drm_dbg(bo->base.dev,
				"%lu pages, %ld allocated, the limit is %lu\n",
				num, old, limit);
			return -ENOMEM;
		}
	} while (!atomic_long_try_cmpxchg(&openreg_system_pages, &old,
					  old + num));
	bo->charged = num;
	return 0;
}

/* Counts the pages against a limit: any user may allocate, and they cannot be swapped. */
int openreg_bo_charge(struct openreg_bo *bo)
{
	int ret = openreg_bo_try_charge(bo);

	if (!ret)
		return 0;
	/* The finish work may be freeing pages of closed files: wait and try again. */
	openreg_admin_wait_finished(to_openreg(bo->base.dev));
	return openreg_bo_try_charge(bo);
}

void openreg_bo_uncharge(struct openreg_bo *bo)
{
	atomic_long_sub(bo->charged, &openreg_system_pages);
	bo->charged = 0;
}

static int openreg_system_alloc(struct openreg_pages *mem, unsigned long num)
{
	mem->pages = kvmalloc_objs(*mem->pages, num);
	if (!mem->pages)
		return -ENOMEM;

	while (mem->num < num) {
		unsigned int got;

		if (fatal_signal_pending(current))
			return -EINTR;
		got = openreg_pages_alloc_chunk(mem->pages + mem->num,
						num - mem->num);
		if (!got)
			return -ENOMEM;
		mem->num += got;
		cond_resched();
	}
	return 0;
}

static unsigned long openreg_system_pfn(struct openreg_bo *bo, pgoff_t page)
{
	return page_to_pfn(bo->mem.pages[page]);
}

static void openreg_system_release(struct openreg_bo *bo)
{
	unsigned long i;

	for (i = 0; i < bo->mem.num; i++) {
		__free_page(bo->mem.pages[i]);
		if (!(i % OPENREG_FREE_BATCH))
			cond_resched();
	}
	kvfree(bo->mem.pages);
	openreg_bo_free(bo);
}

static const struct openreg_bo_ops openreg_system_ops = {
	.prepare = openreg_pages_prepare,
	.unprepare = openreg_pages_unprepare,
	.pfn = openreg_system_pfn,
	.detach = openreg_pages_unmap,
	.release = openreg_system_release,
	.survives = true,
};

struct openreg_bo *openreg_system_bo_new(struct openreg_device *odev, u64 size)
{
	struct openreg_bo *bo = openreg_bo_new(odev, size, &openreg_system_ops);
	int ret;

	if (IS_ERR(bo))
		return bo;
	bo->flags = DRM_OPENREG_BO_SYSTEM;
	bo->mem.dir = DMA_BIDIRECTIONAL;
	ret = openreg_bo_charge(bo);
	if (!ret)
		ret = openreg_system_alloc(&bo->mem, size >> PAGE_SHIFT);
	if (!ret)
		ret = openreg_pages_map(bo);
	if (ret) {
		openreg_bo_put(bo);
		return ERR_PTR(ret);
	}
	return bo;
}

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

static unsigned long openreg_coherent_pfn(struct openreg_bo *bo, pgoff_t page)
{
	void *cpu = bo->coherent.cpu + (page << PAGE_SHIFT);

	/* With an IOMMU the pages may be scattered. */
	return is_vmalloc_addr(cpu) ? vmalloc_to_pfn(cpu) :
				      PHYS_PFN(virt_to_phys(cpu));
}

static void openreg_coherent_detach(struct openreg_bo *bo)
{
	if (bo->coherent.cpu)
		dma_free_coherent(bo->base.dev->dev, bo->base.size,
				  bo->coherent.cpu, bo->coherent.dma);
	bo->coherent.cpu = NULL;
}

const struct openreg_bo_ops openreg_ring_ops = {
	.pfn = openreg_coherent_pfn,
	.detach = openreg_coherent_detach,
	.release = openreg_bo_free,
};

const struct openreg_bo_ops openreg_card_page_ops = {
	.pfn = openreg_coherent_pfn,
	.detach = openreg_coherent_detach,
	.release = openreg_bo_free,
	.readonly = true,
};

const struct openreg_bo_ops openreg_kernel_page_ops = {
	.detach = openreg_coherent_detach,
	.release = openreg_bo_free,
};

struct openreg_bo *openreg_coherent_new(struct openreg_device *odev, u64 size,
					const struct openreg_bo_ops *ops)
{
	struct openreg_bo *bo = openreg_bo_new(odev, size, ops);
	int ret;

	if (IS_ERR(bo))
		return bo;
	/* Charge the memory: a mapping keeps it after the queue is destroyed. */
	ret = openreg_bo_charge(bo);
	if (ret)
		goto out_put;
	bo->coherent.cpu = dma_alloc_coherent(odev->drm.dev, size,
					      &bo->coherent.dma,
					      GFP_KERNEL_ACCOUNT |
					      __GFP_NOWARN);
	if (!bo->coherent.cpu)
		ret = -ENOMEM;
	else if (ops->pfn)
		ret = drm_gem_create_mmap_offset(&bo->base);
	if (!ret)
		return bo;
out_put:
	openreg_bo_put(bo);
	return ERR_PTR(ret);
}
