/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of lab.ko share. You write lab1.c, lab2.c and so on. later.c is given:
 * it starts the labs in their order, and turns files in debugfs into calls.
 */
#ifndef LAB_H
#define LAB_H

#ifdef __KERNEL__
#include <linux/io.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#endif

#include "openreg_regs.h"

#define LAB_ADMIN_SLOTS 16
#define LAB_FAULT_SLOTS 16
#define LAB_RING_SLOTS 64
#define LAB_CARD 3 /* the number to write to CARD_ID */
#define LAB_CONTEXT 0
#define LAB_QUEUE 0
#define LAB_DOORBELL 1 /* page */
#define LAB_VECTOR 1
/* A card that works needs milliseconds, also on a busy host. The limits only end a hang. */
#define LAB_TIMEOUT_SECONDS 5
#define LAB_SLEEP_SECONDS 30

/* Lab 5: segments of the context, and pages of /dev/lab for mmap(). */
#define LAB_SEG_VRAM 1 /* the first LAB_BUFFER_SIZE bytes of VRAM */
#define LAB_SEG_BUFFER 2
#define LAB_SEG_PAGE 3 /* lab 9 */
#define LAB_BUFFER_PAGES 16
#define LAB_BUFFER_SIZE (LAB_BUFFER_PAGES * 4096)
#define LAB_MAP_RING 0
#define LAB_MAP_USER_PAGE 1
#define LAB_MAP_CARD_PAGE 2 /* to read only */
#define LAB_MAP_DOORBELL 3
#define LAB_MAP_BUFFER 16 /* and the following */

/* copy.c uses the numbers above, too. */
#ifdef __KERNEL__

/* Memory that the driver and the card share: one pointer for each. */
struct lab_memory {
	void *cpu;
	dma_addr_t bus;
	size_t size;
};

struct lab {
	struct pci_dev *pdev;
	void __iomem *regs; /* lab 1 */

	/* Lab 2: the admin ring and the fault ring. */
	struct lab_memory cmds;
	struct lab_memory cpls;
	struct lab_memory faults;
	u32 admin_tail;

	/* Lab 3: one queue. */
	void __iomem *doorbells;
	struct lab_memory released;
	struct lab_memory ring;
	struct lab_memory user_page;
	struct lab_memory card_page;
	struct lab_memory kernel_page;
	u64 tail; /* slots published */
	u64 seq; /* number of the last packet written */

	/* Lab 4: threads that sleep. */
	wait_queue_head_t wake;
	spinlock_t sleepers_lock; /* for sleepers, and for armed in the kernel page */
	struct list_head sleepers;

	u32 fault_head; /* lab 6: records taken */

	/* Lab 5: one page of system memory each. */
	struct lab_memory buffer[LAB_BUFFER_PAGES];

	bool stopped; /* lab 9: no thread may wait for a packet any more */

	struct mutex lock; /* later.c: one command or submission at a time */
	struct dentry *files;
};

/*
 * lab1.c: resets the card. Returns 0, or -ETIMEDOUT if the reset does not end. In both cases
 * the card no longer writes to memory, so the caller may free what the card has used.
 */
int lab_reset(struct lab *lab);

/* later.c. Call these at the end of probe and at the beginning of remove. */
int lab_later_start(struct lab *lab);
void lab_later_stop(struct lab *lab);

/* lab2.c */
/* Allocates zeroed memory that the card can reach. */
int lab_alloc(struct lab *lab, struct lab_memory *memory, size_t size);
/* Frees it. Does nothing if nothing was allocated. */
void lab_free(struct lab *lab, struct lab_memory *memory);
int lab2_start(struct lab *lab);
void lab2_stop(struct lab *lab);
/*
 * Gives the card one command, and waits for its completion. Returns the status of the
 * completion (enum openreg_admin_status), or -ETIMEDOUT after LAB_TIMEOUT_SECONDS.
 */
int lab_admin(struct lab *lab, const struct openreg_admin_cmd *cmd);

/* lab3.c */
int lab3_start(struct lab *lab);
void lab3_stop(struct lab *lab);
/*
 * Writes a packet of one slot, OPENREG_SLOT_SIZE bytes, to the ring, and publishes it.
 * Returns 0 and the packet's number in seq, or -EAGAIN if the ring is full.
 */
int lab_submit(struct lab *lab, const void *slot, u64 *seq);
/*
 * Returns 0 if packet number seq has completed, -EIO if it has not and the queue does not run,
 * else -ETIMEDOUT. From lab 9 on, -ENODEV if it has not and lab->stopped is set.
 */
int lab_result(struct lab *lab, u64 seq);
/*
 * Polls until packet number seq has completed. Returns 0, -ETIMEDOUT after
 * LAB_TIMEOUT_SECONDS, or -EIO if the queue does not run.
 */
int lab_poll(struct lab *lab, u64 seq);

/* lab4.c */
int lab4_start(struct lab *lab);
void lab4_stop(struct lab *lab);
/*
 * As lab_poll(), but sleeps until the queue's vector, LAB_SLEEP_SECONDS at most. Several
 * threads may call it.
 */
int lab_sleep(struct lab *lab, u64 seq);

/* lab5.c */
int lab5_start(struct lab *lab);
void lab5_stop(struct lab *lab);

/* lab6.c */
/* Takes the next record of the fault ring. Returns 0, or -ENOENT if there is none. */
int lab_fault(struct lab *lab, struct openreg_fault_record *record);
/*
 * Lets a faulted queue continue behind all packets that were submitted. Returns the status
 * of the command, or an error.
 */
int lab_recover(struct lab *lab);

/* lab7.c */
int lab7_start(struct lab *lab);
void lab7_stop(struct lab *lab);

/* lab9.c */
int lab9_start(struct lab *lab);
void lab9_stop(struct lab *lab);

/* Given: a card that has been pulled out reads as all ones. */
static inline bool lab_gone(struct lab *lab)
{
	return readl(lab->regs + OPENREG_REG_MAGIC) == U32_MAX;
}

#endif /* __KERNEL__ */
#endif
