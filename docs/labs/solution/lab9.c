// SPDX-License-Identifier: GPL-2.0-only
/* Lab 9: the card may go away at any moment, and it may forget to raise a vector. */

#include <linux/io.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "lab.h"

/* Exists until the driver has left the card and the last file is closed. */
struct plug {
	struct kref refs;
	struct rw_semaphore use; /* for lab, files and page */
	struct lab *lab; /* NULL: the driver has left the card */
	struct list_head files;
	struct lab_memory page;
	struct delayed_work watch;
};

struct plug_file {
	struct plug *plug;
	struct list_head link;
	struct address_space *mapping;
};

static struct plug *the_plug; /* of the card that is bound now */

static void plug_free(struct kref *refs)
{
	kfree(container_of(refs, struct plug, refs));
}

/* misc_open() and misc_deregister() exclude each other, so the_plug is valid here. */
static int lab9_open(struct inode *inode, struct file *file)
{
	struct plug_file *mine = kzalloc(sizeof(*mine), GFP_KERNEL);

	if (!mine)
		return -ENOMEM;
	mine->plug = the_plug;
	mine->mapping = file->f_mapping;
	kref_get(&mine->plug->refs);
	down_write(&mine->plug->use);
	list_add(&mine->link, &mine->plug->files);
	up_write(&mine->plug->use);
	file->private_data = mine;
	return 0;
}

/* Must not use the card: the driver may have left it. */
static int lab9_release(struct inode *inode, struct file *file)
{
	struct plug_file *mine = file->private_data;

	down_write(&mine->plug->use);
	list_del(&mine->link);
	up_write(&mine->plug->use);
	kref_put(&mine->plug->refs, plug_free);
	kfree(mine);
	return 0;
}

static int lab9_run(struct lab *lab, const void *slot)
{
	u64 seq;
	int ret;

	mutex_lock(&lab->lock);
	ret = lab_submit(lab, slot, &seq);
	mutex_unlock(&lab->lock);
	return ret ? ret : lab_sleep(lab, seq);
}

static ssize_t lab9_write(struct file *file, const char __user *data, size_t size, loff_t *pos)
{
	struct plug_file *mine = file->private_data;
	struct plug *plug = mine->plug;
	u8 slot[OPENREG_SLOT_SIZE];
	int ret = -ENODEV;

	if (size != sizeof(slot))
		return -EINVAL;
	if (copy_from_user(slot, data, size))
		return -EFAULT;
	down_read(&plug->use);
	if (plug->lab)
		ret = lab9_run(plug->lab, slot);
	up_read(&plug->use);
	return ret ? ret : size;
}

/* Maps the page only while the driver has the card. */
static vm_fault_t lab9_fault(struct vm_fault *vmf)
{
	struct plug_file *mine = vmf->vma->vm_file->private_data;
	struct plug *plug = mine->plug;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	void *cpu = plug->page.cpu;

	down_read(&plug->use);
	if (plug->lab)
		ret = vmf_insert_pfn(vmf->vma, vmf->address,
				     is_vmalloc_addr(cpu) ? vmalloc_to_pfn(cpu) :
							    PHYS_PFN(virt_to_phys(cpu)));
	up_read(&plug->use);
	return ret;
}

static const struct vm_operations_struct lab9_vm_ops = {
	.fault = lab9_fault,
};

static int lab9_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct plug_file *mine = file->private_data;
	int ret = 0;

	if (vma->vm_pgoff || vma_pages(vma) != 1 || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	down_read(&mine->plug->use);
	if (!mine->plug->lab)
		ret = -ENODEV;
	up_read(&mine->plug->use);
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &lab9_vm_ops;
	return ret;
}

static const struct file_operations lab9_fops = {
	.owner = THIS_MODULE,
	.open = lab9_open,
	.release = lab9_release,
	.write = lab9_write,
	.mmap = lab9_mmap,
};

static struct miscdevice lab9_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lab9",
	.fops = &lab9_fops,
};

/* Threads look once a second, in case the card raises no vector, or is not there any more. */
static void lab9_watch(struct work_struct *work)
{
	struct plug *plug = container_of(to_delayed_work(work), struct plug, watch);
	struct lab *lab;

	down_read(&plug->use);
	lab = plug->lab;
	if (lab) {
		if (lab_gone(lab))
			WRITE_ONCE(lab->stopped, true);
		wake_up_all(&lab->wake);
		schedule_delayed_work(&plug->watch, HZ);
	}
	up_read(&plug->use);
}

/* The card copies the list of pages during the command. */
static int lab9_bind(struct lab *lab, struct plug *plug)
{
	struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_SEG_BIND,
		.ctx = LAB_CONTEXT,
		.id = LAB_SEG_PAGE,
		.seg = { .kind = OPENREG_SEG_SYSTEM, .perm = OPENREG_SEG_READ | OPENREG_SEG_WRITE,
			 .length = PAGE_SIZE, .npages = 1, .page_shift = PAGE_SHIFT },
	};
	struct lab_memory list = { };
	int ret = lab_alloc(lab, &list, sizeof(u64));

	if (ret)
		return ret;
	*(u64 *)list.cpu = plug->page.bus;
	cmd.seg.base = list.bus;
	ret = lab_admin(lab, &cmd);
	if (ret < 0)
		lab_reset(lab); /* the card may still read the list */
	lab_free(lab, &list);
	return ret > 0 ? -EIO : ret;
}

/* No thread enters any more, those inside leave, and no process keeps the page. */
static void plug_close(struct plug *plug)
{
	struct lab *lab = plug->lab;
	struct plug_file *file;

	WRITE_ONCE(lab->stopped, true);
	wake_up_all(&lab->wake);
	down_write(&plug->use);
	plug->lab = NULL;
	list_for_each_entry(file, &plug->files, link)
		unmap_mapping_range(file->mapping, 0, PAGE_SIZE, 1);
	up_write(&plug->use);
	cancel_delayed_work_sync(&plug->watch);
}

void lab9_stop(struct lab *lab)
{
	struct openreg_admin_cmd destroy = {
		.opcode = OPENREG_ADMIN_CTX_DESTROY,
		.ctx = LAB_CONTEXT,
	};
	struct plug *plug = the_plug;

	misc_deregister(&lab9_misc);
	plug_close(plug);
	/* When the context has gone, no packet can use the page. A card that is gone has no DMA. */
	if (lab_admin(lab, &destroy) < 0)
		lab_reset(lab);
	lab_free(lab, &plug->page);
	kref_put(&plug->refs, plug_free);
}

int lab9_start(struct lab *lab)
{
	struct plug *plug = kzalloc(sizeof(*plug), GFP_KERNEL);
	int ret;

	if (!plug)
		return -ENOMEM;
	kref_init(&plug->refs);
	init_rwsem(&plug->use);
	INIT_LIST_HEAD(&plug->files);
	INIT_DELAYED_WORK(&plug->watch, lab9_watch);
	plug->lab = lab;
	ret = lab_alloc(lab, &plug->page, PAGE_SIZE);
	if (!ret)
		ret = lab9_bind(lab, plug);
	the_plug = plug;
	if (!ret)
		ret = misc_register(&lab9_misc);
	if (ret) {
		/* lab3_stop() destroys the context, but after this memory is free. */
		lab_reset(lab);
		lab_free(lab, &plug->page);
		kref_put(&plug->refs, plug_free);
		return ret;
	}
	schedule_delayed_work(&plug->watch, HZ);
	return 0;
}
