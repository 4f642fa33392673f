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
static DEFINE_IDA(ids); /* 0 belongs to lab 3 */

static u32 doorbell_of(struct client *client)
{
	return LAB_DOORBELL + client->id;
}

static u32 max_id(struct lab *lab)
{
	u64 pieces = readq(lab->regs + OPENREG_REG_VRAM_SIZE) / LAB_BUFFER_SIZE;

	return min3(readl(lab->regs + OPENREG_REG_DOORBELLS) - LAB_DOORBELL,
		    readl(lab->regs + OPENREG_REG_MAX_CONTEXTS),
		    (u32)min(pieces, U32_MAX)) - 1;
}

/* Without a context no packet can use the memory any more. */
static void client_free(struct client *client)
{
	struct openreg_admin_cmd destroy = {
		.opcode = OPENREG_ADMIN_CTX_DESTROY,
		.ctx = client->id,
	};
	int i;

	mutex_lock(&client->lab->lock);
	if (lab_admin(client->lab, &destroy) < 0)
		lab_reset(client->lab);
	mutex_unlock(&client->lab->lock);
	for (i = 0; i < PAGES; i++)
		lab_free(client->lab, &client->pages[i]);
	ida_free(&ids, client->id);
	kfree(client);
}

static int client_alloc(struct client *client)
{
	struct openreg_kernel_page *kernel;
	int i, ret = 0;
	u64 *list;

	for (i = 0; !ret && i < PAGES; i++)
		ret = lab_alloc(client->lab, &client->pages[i], PAGE_SIZE);
	if (ret)
		return ret;
	kernel = client->pages[KERNEL].cpu;
	kernel->armed = OPENREG_ARMED_NONE;
	list = client->pages[LIST].cpu;
	for (i = 0; i < LAB_BUFFER_PAGES; i++)
		list[i] = client->pages[BUFFER + i].bus;
	return 0;
}

static int client_create(struct client *client)
{
	struct lab_memory *pages = client->pages;
	u64 vram = (u64)client->id * LAB_BUFFER_SIZE;
	u32 both = OPENREG_SEG_READ | OPENREG_SEG_WRITE, ctx = client->id;
	struct openreg_admin_cmd cmds[] = {
		{ /* the process before may have left data */
			.opcode = OPENREG_ADMIN_FILL,
			.fill = { .offset = vram, .length = LAB_BUFFER_SIZE },
		}, {
			.opcode = OPENREG_ADMIN_CTX_CREATE, .ctx = ctx,
			.create.released = pages[RELEASED].bus,
		}, {
			.opcode = OPENREG_ADMIN_SEG_BIND, .ctx = ctx, .id = LAB_SEG_VRAM,
			.seg = { .kind = OPENREG_SEG_VRAM, .perm = both,
				 .length = LAB_BUFFER_SIZE, .base = vram },
		}, {
			.opcode = OPENREG_ADMIN_SEG_BIND, .ctx = ctx, .id = LAB_SEG_BUFFER,
			.seg = { .kind = OPENREG_SEG_SYSTEM, .perm = both,
				 .length = LAB_BUFFER_SIZE, .base = pages[LIST].bus,
				 .npages = LAB_BUFFER_PAGES, .page_shift = PAGE_SHIFT },
		}, {
			.opcode = OPENREG_ADMIN_QUEUE_CREATE, .ctx = ctx, .id = client->id,
			.queue = { .ring = pages[RING].bus, .user_page = pages[USER].bus,
				   .card_page = pages[CARD].bus,
				   .kernel_page = pages[KERNEL].bus,
				   .slots = LAB_RING_SLOTS, .doorbell = doorbell_of(client),
				   .vector = LAB_VECTOR,
				   .priority = OPENREG_PRIORITY_NORMAL },
		},
	};
	int i, ret = 0;

	mutex_lock(&client->lab->lock);
	for (i = 0; !ret && i < ARRAY_SIZE(cmds); i++)
		ret = lab_admin(client->lab, &cmds[i]);
	mutex_unlock(&client->lab->lock);
	return ret > 0 ? -EIO : ret;
}

static int lab7_open(struct inode *inode, struct file *file)
{
	struct client *client = kzalloc(sizeof(*client), GFP_KERNEL);
	int ret;

	if (!client)
		return -ENOMEM;
	client->lab = the_lab;
	ret = ida_alloc_range(&ids, 1, max_id(the_lab), GFP_KERNEL);
	if (ret < 0) {
		kfree(client);
		return ret;
	}
	client->id = ret;
	ret = client_alloc(client);
	if (!ret)
		ret = client_create(client);
	if (ret)
		client_free(client);
	else
		file->private_data = client;
	return ret;
}

/* The kernel calls this when the last mapping has gone, too. */
static int lab7_release(struct inode *inode, struct file *file)
{
	client_free(file->private_data);
	return 0;
}

static struct lab_memory *client_memory(struct client *client, unsigned long page)
{
	if (page >= LAB_MAP_BUFFER && page - LAB_MAP_BUFFER < LAB_BUFFER_PAGES)
		return &client->pages[BUFFER + page - LAB_MAP_BUFFER];
	switch (page) {
	case LAB_MAP_RING:
		return &client->pages[RING];
	case LAB_MAP_USER_PAGE:
		return &client->pages[USER];
	case LAB_MAP_CARD_PAGE:
		return &client->pages[CARD];
	}
	return NULL;
}

static int lab7_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct client *client = file->private_data;
	struct pci_dev *pdev = client->lab->pdev;
	unsigned long page = vma->vm_pgoff;
	struct lab_memory *memory;

	if (vma_pages(vma) != 1)
		return -EINVAL;
	vma->vm_pgoff = 0; /* the offset in the memory that is mapped */
	if (page == LAB_MAP_DOORBELL) {
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
		return vm_iomap_memory(vma, pci_resource_start(pdev, OPENREG_BAR_DOORBELL) +
				       doorbell_of(client) * OPENREG_DOORBELL_STRIDE, PAGE_SIZE);
	}
	if (page == LAB_MAP_CARD_PAGE) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	memory = client_memory(client, page);
	if (!memory)
		return -EINVAL;
	return dma_mmap_coherent(&pdev->dev, vma, memory->cpu, memory->bus, memory->size);
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
