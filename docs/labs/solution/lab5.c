// SPDX-License-Identifier: GPL-2.0-only
/* Lab 5: binds memory to the context, and gives the queue to a process. */

#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "lab.h"

static struct lab *the_lab; /* the device file has one card */

static int lab5_bind(struct lab *lab, u32 number, const struct openreg_admin_cmd *seg)
{
	struct openreg_admin_cmd cmd = *seg;
	int ret;

	cmd.opcode = OPENREG_ADMIN_SEG_BIND;
	cmd.ctx = LAB_CONTEXT;
	cmd.id = number;
	cmd.seg.perm = OPENREG_SEG_READ | OPENREG_SEG_WRITE;
	cmd.seg.length = LAB_BUFFER_SIZE;
	ret = lab_admin(lab, &cmd);
	return ret > 0 ? -EIO : ret;
}

/* Another process may have left data in VRAM. */
static int lab5_clear(struct lab *lab)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_FILL,
		.fill.length = LAB_BUFFER_SIZE,
	};
	int ret = lab_admin(lab, &cmd);

	return ret > 0 ? -EIO : ret;
}

static int lab5_bind_vram(struct lab *lab)
{
	struct openreg_admin_cmd cmd = { .seg.kind = OPENREG_SEG_VRAM };
	int ret = lab5_clear(lab);

	return ret ? ret : lab5_bind(lab, LAB_SEG_VRAM, &cmd);
}

/* The card copies the list of pages during the command. */
static int lab5_bind_buffer(struct lab *lab)
{
	struct openreg_admin_cmd cmd = { .seg.kind = OPENREG_SEG_SYSTEM };
	struct lab_memory list = { };
	int i, ret;
	u64 *page;

	ret = lab_alloc(lab, &list, LAB_BUFFER_PAGES * sizeof(*page));
	if (ret)
		return ret;
	page = list.cpu;
	for (i = 0; i < LAB_BUFFER_PAGES; i++)
		page[i] = lab->buffer[i].bus;
	cmd.seg.base = list.bus;
	cmd.seg.npages = LAB_BUFFER_PAGES;
	cmd.seg.page_shift = PAGE_SHIFT;
	ret = lab5_bind(lab, LAB_SEG_BUFFER, &cmd);
	if (ret == -ETIMEDOUT)
		lab_reset(lab); /* the card may still read the list */
	lab_free(lab, &list);
	return ret;
}

static struct lab_memory *lab5_memory(struct lab *lab, unsigned long page)
{
	switch (page) {
	case LAB_MAP_RING:
		return &lab->ring;
	case LAB_MAP_USER_PAGE:
		return &lab->user_page;
	case LAB_MAP_CARD_PAGE:
		return &lab->card_page;
	}
	page -= LAB_MAP_BUFFER;
	return page < LAB_BUFFER_PAGES ? &lab->buffer[page] : NULL;
}

/* The process maps one page at a time. No page that it must not write may become writable. */
static int lab5_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct lab *lab = the_lab;
	struct lab_memory *memory;
	resource_size_t bell = pci_resource_start(lab->pdev, OPENREG_BAR_DOORBELL) +
			       LAB_DOORBELL * OPENREG_DOORBELL_STRIDE;
	unsigned long page = vma->vm_pgoff;

	if (vma_pages(vma) != 1)
		return -EINVAL;
	if (page == LAB_MAP_CARD_PAGE) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	vma->vm_pgoff = 0; /* the offset in the memory that is mapped */
	if (page == LAB_MAP_DOORBELL) {
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
		return vm_iomap_memory(vma, bell, PAGE_SIZE);
	}
	memory = lab5_memory(lab, page);
	if (!memory)
		return -EINVAL;
	return dma_mmap_coherent(&lab->pdev->dev, vma, memory->cpu, memory->bus, memory->size);
}

static const struct file_operations lab5_fops = {
	.owner = THIS_MODULE,
	.mmap = lab5_mmap,
};

static struct miscdevice lab5_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lab",
	.fops = &lab5_fops,
};

void lab5_stop(struct lab *lab)
{
	struct openreg_admin_cmd unbind = {
		.opcode = OPENREG_ADMIN_CTX_DESTROY,
		.ctx = LAB_CONTEXT,
	};
	int i;

	if (the_lab)
		misc_deregister(&lab5_misc);
	the_lab = NULL;
	/* When the context has gone, no packet can use the buffer. */
	if (lab_admin(lab, &unbind) < 0)
		lab_reset(lab);
	for (i = 0; i < LAB_BUFFER_PAGES; i++)
		lab_free(lab, &lab->buffer[i]);
}

int lab5_start(struct lab *lab)
{
	int i, ret = 0;

	for (i = 0; !ret && i < LAB_BUFFER_PAGES; i++)
		ret = lab_alloc(lab, &lab->buffer[i], PAGE_SIZE);
	if (!ret)
		ret = lab5_bind_vram(lab);
	if (!ret)
		ret = lab5_bind_buffer(lab);
	if (!ret) {
		the_lab = lab;
		ret = misc_register(&lab5_misc);
		if (ret)
			the_lab = NULL;
	}
	if (ret)
		lab5_stop(lab);
	return ret;
}
