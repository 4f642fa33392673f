// SPDX-License-Identifier: GPL-2.0-only
/* Lab 3: makes a context and a queue, and gives the card packets without a command. */

#include <linux/io.h>
#include <linux/iopoll.h>

#include "lab.h"

#define TIMEOUT_US (LAB_TIMEOUT_SECONDS * USEC_PER_SEC)

static int lab3_alloc(struct lab *lab)
{
	struct lab_memory *pages[] = { &lab->released, &lab->user_page, &lab->card_page,
				       &lab->kernel_page };
	struct openreg_kernel_page *kernel;
	int i, ret;

	ret = lab_alloc(lab, &lab->ring, LAB_RING_SLOTS * OPENREG_SLOT_SIZE);
	for (i = 0; !ret && i < ARRAY_SIZE(pages); i++)
		ret = lab_alloc(lab, pages[i], OPENREG_QUEUE_PAGE_SIZE);
	if (ret)
		return ret;
	kernel = lab->kernel_page.cpu;
	kernel->armed = OPENREG_ARMED_NONE;
	return 0;
}

static int lab3_create(struct lab *lab)
{
	struct openreg_admin_cmd context = {
		.opcode = OPENREG_ADMIN_CTX_CREATE,
		.ctx = LAB_CONTEXT,
		.create.released = lab->released.bus,
	};
	struct openreg_admin_cmd queue = {
		.opcode = OPENREG_ADMIN_QUEUE_CREATE,
		.ctx = LAB_CONTEXT,
		.id = LAB_QUEUE,
		.queue = {
			.ring = lab->ring.bus,
			.user_page = lab->user_page.bus,
			.card_page = lab->card_page.bus,
			.kernel_page = lab->kernel_page.bus,
			.slots = LAB_RING_SLOTS,
			.doorbell = LAB_DOORBELL,
			.vector = LAB_VECTOR,
			.priority = OPENREG_PRIORITY_NORMAL,
		},
	};
	int ret = lab_admin(lab, &context);

	if (!ret)
		ret = lab_admin(lab, &queue);
	return ret > 0 ? -EIO : ret;
}

void lab3_stop(struct lab *lab)
{
	struct openreg_admin_cmd destroy = {
		.opcode = OPENREG_ADMIN_CTX_DESTROY, /* its queues, too */
		.ctx = LAB_CONTEXT,
	};

	/* Without a completion the card may still use the pages. */
	if (lab_admin(lab, &destroy) < 0)
		lab_reset(lab);
	lab_free(lab, &lab->kernel_page);
	lab_free(lab, &lab->card_page);
	lab_free(lab, &lab->user_page);
	lab_free(lab, &lab->released);
	lab_free(lab, &lab->ring);
}

int lab3_start(struct lab *lab)
{
	int ret;

	lab->doorbells = pcim_iomap_region(lab->pdev, OPENREG_BAR_DOORBELL, "lab");
	if (IS_ERR(lab->doorbells))
		return PTR_ERR(lab->doorbells);
	ret = lab3_alloc(lab);
	if (!ret)
		ret = lab3_create(lab);
	if (ret)
		lab3_stop(lab);
	return ret;
}

/* Makes the slots written so far visible to the card, and wakes it if it sleeps. */
static void lab3_publish(struct lab *lab)
{
	struct openreg_user_page *user = lab->user_page.cpu;
	struct openreg_card_page *card = lab->card_page.cpu;

	dma_wmb(); /* the packet before the tail */
	WRITE_ONCE(user->tail, lab->tail);
	mb(); /* the tail before the load; pairs with the card's barrier */
	if (READ_ONCE(card->asleep))
		writel(1, lab->doorbells + LAB_DOORBELL * OPENREG_DOORBELL_STRIDE);
}

int lab_submit(struct lab *lab, const void *slot, u64 *seq)
{
	struct openreg_card_page *card = lab->card_page.cpu;

	if (lab->tail - READ_ONCE(card->head) >= LAB_RING_SLOTS)
		return -EAGAIN;
	memcpy(lab->ring.cpu + lab->tail % LAB_RING_SLOTS * OPENREG_SLOT_SIZE, slot,
	       OPENREG_SLOT_SIZE);
	lab->tail++;
	*seq = ++lab->seq;
	lab3_publish(lab);
	return 0;
}

/* Whether the thread need not wait any longer. */
static bool lab3_ended(struct lab *lab, u64 seq)
{
	struct openreg_card_page *card = lab->card_page.cpu;

	return READ_ONCE(card->completed) >= seq ||
	       READ_ONCE(card->state) != OPENREG_QUEUE_RUNNING || READ_ONCE(lab->stopped);
}

int lab_result(struct lab *lab, u64 seq)
{
	struct openreg_card_page *card = lab->card_page.cpu;

	if (!lab3_ended(lab, seq))
		return -ETIMEDOUT;
	dma_rmb(); /* what the packet wrote was visible before completed */
	if (READ_ONCE(card->completed) >= seq)
		return 0;
	return READ_ONCE(lab->stopped) ? -ENODEV : -EIO;
}

int lab_poll(struct lab *lab, u64 seq)
{
	bool ended;

	read_poll_timeout(lab3_ended, ended, ended, 10, TIMEOUT_US, false, lab, seq);
	return lab_result(lab, seq);
}
