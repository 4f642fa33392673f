// SPDX-License-Identifier: GPL-2.0-only
/* Lab 7: each open file has a context, a queue and memory of its own. */

#include <linux/idr.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "lab.h"

enum { RING, USER, CARD, KERNEL, RELEASED, LIST, BUFFER, PAGES = BUFFER + LAB_BUFFER_PAGES };

struct client {
	struct lab *lab;
	u32 id; /* of the context and the queue; also counts doorbells and pieces of VRAM */
	struct lab_memory pages[PAGES];
};

static struct lab *the_lab;
static __maybe_unused DEFINE_IDA(ids); /* 0 belongs to lab 3 */

static __maybe_unused void client_free(struct client *client)
{
	/*
	 * TODO: destroy the context. When no packet can use the memory any more, free it
	 * and the number.
	 */
}

static int lab7_open(struct inode *inode, struct file *file)
{
	/*
	 * TODO: take a free number for the context, the queue, the doorbell and the piece of
	 * VRAM. Allocate all pages. Clear the VRAM, which another process may have used. Create
	 * the context, its two segments as in lab 5, and the queue. Other threads may use the
	 * admin ring: hold lab->lock.
	 */
	return -ENODEV;
}

/* The kernel calls this when the last mapping has gone, too. */
static int lab7_release(struct inode *inode, struct file *file)
{
	client_free(file->private_data);
	return 0;
}

static int lab7_mmap(struct file *file, struct vm_area_struct *vma)
{
	/* TODO: as in lab 5, but the pages and the doorbell of this client */
	return -EINVAL;
}

static const struct file_operations lab7_fops = {
	.owner = THIS_MODULE,
	.open = lab7_open,
	.release = lab7_release,
	.mmap = lab7_mmap,
};

static struct miscdevice lab7_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lab7",
	.fops = &lab7_fops,
};

int lab7_start(struct lab *lab)
{
	the_lab = lab;
	return misc_register(&lab7_misc);
}

void lab7_stop(struct lab *lab)
{
	misc_deregister(&lab7_misc);
}
