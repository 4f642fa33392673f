// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps of buffer objects and of the parts of queues. For what belongs to a card
 * that is gone there is a page of zeros to read and write, the same one for all
 * pages of the object: nobody who lives gets a SIGBUS.
 */

#include <linux/mm.h>

#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_vma_manager.h>

#include "openreg_drv.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

/* Pages mapped by one fault, around the one that was touched. */
#define OPENREG_FAULT_AROUND 64
/*
 * For who dies meanwhile. Of VM_FAULT_NOPAGE the kernel itself, if it copies for
 * him, would think that it may try again, for as long as the reset takes.
 */
#define OPENREG_FAULT_KILLED VM_FAULT_SIGBUS

static vm_fault_t openreg_fault_dummy(struct openreg_bo *bo,
				      struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;

	if (!bo->dummy)
		bo->dummy = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!bo->dummy)
		return VM_FAULT_OOM;
	return vmf_insert_pfn_prot(vma, vmf->address, page_to_pfn(bo->dummy),
				   vm_get_page_prot(vma->vm_flags));
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

static vm_fault_t openreg_fault_present(struct openreg_bo *bo,
					struct vm_fault *vmf)
{
	struct openreg_device *odev = to_openreg(bo->base.dev);
	vm_fault_t ret;

	if (down_read_killable(&odev->map_lock))
		return OPENREG_FAULT_KILLED;
	ret = odev->wedged && bo->ops->io ? openreg_fault_dummy(bo, vmf) :
					    openreg_fault_around(bo, vmf);
	up_read(&odev->map_lock);
	return ret;
}

static vm_fault_t openreg_fault_locked(struct openreg_bo *bo,
				       struct vm_fault *vmf)
{
	vm_fault_t ret;
	int cookie;

	if (bo->ops->survives)
		return openreg_fault_around(bo, vmf);
	if (bo->gone || !drm_dev_enter(bo->base.dev, &cookie))
		return openreg_fault_dummy(bo, vmf);
	ret = openreg_fault_present(bo, vmf);
	drm_dev_exit(cookie);
	return ret;
}

static vm_fault_t openreg_bo_fault(struct vm_fault *vmf)
{
	struct openreg_bo *bo = to_openreg_bo(vmf->vma->vm_private_data);
	vm_fault_t ret;

	if (mutex_lock_killable(&bo->lock))
		return OPENREG_FAULT_KILLED;
	ret = openreg_fault_locked(bo, vmf);
	mutex_unlock(&bo->lock);
	return ret;
}

const struct vm_operations_struct openreg_vm_ops = {
	.fault = openreg_bo_fault,
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
	if (ops->readonly) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	if (ops->io)
		flags |= VM_IO;
	/*
	 * A map keeps the memory from being freed: not for as long as a child
	 * of fork() lives, which cannot use the card by it anyway.
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

/* Doorbells of contexts that a reset has killed lead nowhere from now on. */
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
