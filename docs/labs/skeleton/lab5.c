// SPDX-License-Identifier: GPL-2.0-only
/* Lab 5: binds memory to the context, and gives the queue to a process. */

#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "lab.h"

static struct lab *the_lab; /* the device file has one card */

static int lab5_mmap(struct file *file, struct vm_area_struct *vma)
{
	/*
	 * TODO: map one page, by its number vma->vm_pgoff: LAB_MAP_RING and so on. Refuse
	 * all else. Only the card may write the card page.
	 */
	return -EINVAL;
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
	/*
	 * TODO: remove the device file. Then make sure that no packet can use the buffer
	 * any more: destroy the context, or unbind the segments and wait for their release.
	 * Then free the buffer.
	 */
}

int lab5_start(struct lab *lab)
{
	/*
	 * TODO: allocate the pages of lab->buffer. Clear the first LAB_BUFFER_SIZE bytes of
	 * VRAM with FILL and bind them as LAB_SEG_VRAM. Bind the buffer as LAB_SEG_BUFFER,
	 * with a list of its pages. Register the device file. If anything fails, undo all.
	 */
	return -ENODEV;
}
