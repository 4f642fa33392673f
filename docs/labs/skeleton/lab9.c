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

static __maybe_unused struct plug *the_plug; /* of the card that is bound now */

static int lab9_open(struct inode *inode, struct file *file)
{
	/* TODO: allocate a struct plug_file that holds a reference to the_plug. */
	return -ENODEV;
}

static int lab9_release(struct inode *inode, struct file *file)
{
	/* TODO: drop it. Do not use the card: the driver may have left it. */
	return 0;
}

static ssize_t lab9_write(struct file *file, const char __user *data, size_t size, loff_t *pos)
{
	/*
	 * TODO: run a packet of one slot, as the file "packet" of lab 6 does. -ENODEV if the
	 * driver has left the card. The card must not go away while you use it: hold "use".
	 */
	return -ENODEV;
}

static vm_fault_t lab9_fault(struct vm_fault *vmf)
{
	/* TODO: insert the page with vmf_insert_pfn(), but only while the driver has the card. */
	return VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct lab9_vm_ops = {
	.fault = lab9_fault,
};

static int lab9_mmap(struct file *file, struct vm_area_struct *vma)
{
	/* TODO: page 0 alone, and shared. */
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &lab9_vm_ops;
	return -ENODEV;
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

static __maybe_unused void lab9_watch(struct work_struct *work)
{
	/*
	 * TODO: if the card is gone, set lab->stopped. In any case wake all threads that
	 * sleep: the card may have raised no vector. Run again in a second.
	 */
}

void lab9_stop(struct lab *lab)
{
	misc_deregister(&lab9_misc);
	/*
	 * TODO: let no thread enter any more, have those inside leave, remove the page from
	 * all processes, and stop the work. Then destroy the context and free the page. Files
	 * that are open keep the struct plug.
	 */
}

int lab9_start(struct lab *lab)
{
	/*
	 * TODO: make a struct plug with one page, bind the page as segment LAB_SEG_PAGE of
	 * LAB_CONTEXT, and schedule the work.
	 */
	return misc_register(&lab9_misc);
}
