// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings of buffer objects, rings, queue pages and doorbells. Once the card is removed
 * they show a dummy page: one page of zeros, to read and write, for all pages of an
 * object. So a live process gets no SIGBUS. Only SYSTEM objects keep their pages.
 */

#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_vma_manager.h>

#include "openreg_device.h"
#include "openreg_gem.h"

/* Pages to map in one fault, around the page that was touched. */
#define OPENREG_FAULT_AROUND 64
/*
 * The task is being killed. Not VM_FAULT_NOPAGE: if the kernel copies for the task, it
 * would retry until the reset ends.
 */
#define OPENREG_FAULT_KILLED VM_FAULT_SIGBUS

/* An access to a mapping: the pages that it shows, and the locks held for that. */
struct openreg_view {
	bool present; /* show the object's own pages; else the dummy page */
	bool entered; /* map_lock is held and drm_dev_enter() succeeded */
	int idx;
};

static int openreg_view_enter(struct openreg_bo *bo, struct openreg_view *view)
{
	struct openreg_device *odev = to_openreg(bo->base.dev);

	view->present = bo->ops->survives;
	view->entered = false;
	if (view->present || bo->gone ||
	    !drm_dev_enter(bo->base.dev, &view->idx))
		return 0;
	if (down_read_killable(&odev->map_lock)) {
		drm_dev_exit(view->idx);
		return -EINTR;
	}
	view->entered = true;
	view->present = !odev->wedged || !bo->ops->io;
	return 0;
}

static int openreg_view_begin(struct openreg_bo *bo, struct openreg_view *view)
{
	int ret = mutex_lock_killable(&bo->lock);

	if (ret)
		return ret;
	ret = openreg_view_enter(bo, view);
	if (ret)
		mutex_unlock(&bo->lock);
	return ret;
}

static void openreg_view_end(struct openreg_bo *bo, struct openreg_view *view)
{
	if (view->entered) {
		up_read(&to_openreg(bo->base.dev)->map_lock);
		drm_dev_exit(view->idx);
	}
	mutex_unlock(&bo->lock);
}

static struct page *openreg_bo_dummy(struct openreg_bo *bo)
{
	lockdep_assert_held(&bo->lock);
	if (!bo->dummy)
		bo->dummy = alloc_page(GFP_KERNEL | __GFP_ZERO);
	return bo->dummy;
}

static vm_fault_t openreg_fault_dummy(struct openreg_bo *bo,
				      struct vm_fault *vmf)
{
	struct page *dummy = openreg_bo_dummy(bo);

	if (!dummy)
		return VM_FAULT_OOM;
	return vmf_insert_pfn_prot(vmf->vma, vmf->address, page_to_pfn(dummy),
				   vm_get_page_prot(vmf->vma->vm_flags));
}

static vm_fault_t openreg_fault_around(struct openreg_bo *bo,
				       struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	pgoff_t start = drm_vma_node_start(&bo->base.vma_node);
	pgoff_t touched = vmf->pgoff - start;
	pgoff_t base = vma->vm_pgoff - start; /* page at vm_start */
	pgoff_t first = max(round_down(touched, OPENREG_FAULT_AROUND), base);
	pgoff_t last = min3(round_down(touched, OPENREG_FAULT_AROUND) +
			    OPENREG_FAULT_AROUND, base + vma_pages(vma),
			    (pgoff_t)(bo->base.size >> PAGE_SHIFT));
	vm_fault_t ret;
	pgoff_t page;

	if (touched >= bo->base.size >> PAGE_SHIFT)
		return VM_FAULT_SIGBUS;

	ret = vmf_insert_pfn(vma, vmf->address & PAGE_MASK,
			     bo->ops->pfn(bo, touched));
	for (page = first; page < last && ret == VM_FAULT_NOPAGE; page++)
		if (page != touched)
			ret = vmf_insert_pfn(vma, vma->vm_start +
					     ((page - base) << PAGE_SHIFT),
					     bo->ops->pfn(bo, page));
	return ret;
}

static vm_fault_t openreg_bo_fault(struct vm_fault *vmf)
{
	struct openreg_bo *bo = to_openreg_bo(vmf->vma->vm_private_data);
	struct openreg_view view;
	vm_fault_t ret;

	if (openreg_view_begin(bo, &view))
		return OPENREG_FAULT_KILLED;
	ret = view.present ? openreg_fault_around(bo, vmf) :
			     openreg_fault_dummy(bo, vmf);
	openreg_view_end(bo, &view);
	return ret;
}

static int openreg_access_page(struct page *page, size_t offset, void *buf,
			       int len, int write)
{
	if (write)
		memcpy_to_page(page, offset, buf, len);
	else
		memcpy_from_page(buf, page, offset, len);
	return len;
}

/* Maps the card's memory with the same caching as mmap() does. */
static int openreg_access_io(struct openreg_bo *bo, pgoff_t page, size_t offset,
			     void *buf, int len, int write)
{
	phys_addr_t phys = PFN_PHYS(bo->ops->pfn(bo, page));
	void __iomem *io = bo->ops->writecombine ?
		ioremap_wc(phys, PAGE_SIZE) : ioremap(phys, PAGE_SIZE);

	if (!io)
		return -ENOMEM;
	if (write)
		memcpy_toio(io + offset, buf, len);
	else
		memcpy_fromio(buf, io + offset, len);
	iounmap(io);
	return len;
}

static int openreg_access_view(struct openreg_bo *bo, bool present,
			       pgoff_t page, size_t offset, void *buf, int len,
			       int write)
{
	struct page *memory;

	if (present && bo->ops->io)
		return openreg_access_io(bo, page, offset, buf, len, write);
	memory = present ? pfn_to_page(bo->ops->pfn(bo, page)) :
			   openreg_bo_dummy(bo);
	return memory ? openreg_access_page(memory, offset, buf, len, write) :
			-ENOMEM;
}

/* Access by a debugger, which sees what the process sees. At most one page a call. */
static int openreg_bo_access(struct vm_area_struct *vma, unsigned long addr,
			     void *buf, int len, int write)
{
	struct openreg_bo *bo = to_openreg_bo(vma->vm_private_data);
	pgoff_t page = linear_page_index(vma, addr) -
		       drm_vma_node_start(&bo->base.vma_node);
	size_t offset = offset_in_page(addr);
	struct openreg_view view;
	int ret;

	if (page >= bo->base.size >> PAGE_SHIFT)
		return -EFAULT;
	/* As for all shared mappings: a debugger cannot force a write. */
	if (write && !(vma->vm_flags & VM_WRITE))
		return -EFAULT;
	ret = openreg_view_begin(bo, &view);
	if (ret)
		return ret;
	ret = openreg_access_view(bo, view.present, page, offset, buf,
				  min_t(int, len, PAGE_SIZE - offset), write);
	openreg_view_end(bo, &view);
	return ret;
}

const struct vm_operations_struct openreg_vm_ops = {
	.fault = openreg_bo_fault,
	.access = openreg_bo_access,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

int openreg_bo_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	const struct openreg_bo_ops *ops = to_openreg_bo(obj)->ops;
	vm_flags_t flags = VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP;

	if (ops->mmap)
		return ops->mmap(to_openreg_bo(obj), vma);
	/* Page frames cannot be copied on write. */
	if (!ops->pfn || is_cow_mapping(vma->vm_flags))
		return -EINVAL;
	if (openreg_bo_owns_vram(to_openreg_bo(obj)))
		openreg_vram_expose(to_openreg_bo(obj));
	if (ops->readonly) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	if (ops->io)
		flags |= VM_IO;
	/*
	 * A child of fork() gets no mapping. It would keep the memory from being freed,
	 * and the child cannot use the card through it anyway.
	 */
	flags |= VM_DONTCOPY;
	vm_flags_set(vma, flags);

	vma->vm_page_prot = vm_get_page_prot(vma->vm_flags);
	if (ops->writecombine)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	if (ops->noncached)
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	return 0;
}

/* Makes doorbell mappings show the dummy page. A reset has killed their contexts. */
void openreg_bo_kill_doorbells(struct openreg_device *odev)
{
	struct openreg_bo *bo;

	guard(mutex)(&odev->bos_lock);
	list_for_each_entry(bo, &odev->bos, link) {
		if (!bo->ops->noncached)
			continue;
		scoped_guard(mutex, &bo->lock)
			bo->gone = true;
		drm_vma_node_unmap(&bo->base.vma_node,
				   odev->drm.anon_inode->i_mapping);
	}
}
