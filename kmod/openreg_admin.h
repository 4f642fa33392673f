/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_ADMIN_H
#define OPENREG_ADMIN_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "openreg_regs.h"

#define OPENREG_ADMIN_RING_SLOTS 256
#define OPENREG_ADMIN_MASK (OPENREG_ADMIN_RING_SLOTS - 1)

struct openreg_ctx;
struct openreg_device;

/**
 * struct openreg_admin_req - one command on its way to the card and back
 * @cmd: the command; @ctx's number is filled in by openreg_admin_submit()
 * @ctx: context it belongs to, or NULL
 * @done: called once, in process context, when the card is through with the
 *	command or never will be; must not wait for another command. May free
 *	the request.
 * @first: goes even while others are held back; set by who holds them
 * @frees: @done may free much, for which the interrupt's thread has no time
 * @status: 0 or a negative error, for @done
 * @lost: the card did not answer; it has been reset or cut off, for @done
 */
struct openreg_admin_req {
	struct openreg_admin_cmd cmd;
	struct openreg_ctx *ctx;
	void (*done)(struct openreg_admin_req *req);
	bool first;
	bool frees;
	int status;
	bool lost;
	/* private: */
	struct list_head link;
	unsigned long issued;
	unsigned long start; /* what its time counts from */
};

enum openreg_admin_state {
	OPENREG_ADMIN_RUNNING,
	OPENREG_ADMIN_PAUSED, /* the card is being reset, or sleeps */
	OPENREG_ADMIN_DEAD, /* the card is gone or wedged */
};

struct openreg_admin {
	spinlock_t lock; /* all of this, and the list and death of contexts */
	enum openreg_admin_state state;
	int error; /* what requests get when DEAD */
	bool held; /* only the first are sent */
	struct openreg_admin_cmd *cmds;
	struct openreg_admin_cpl *cpls;
	dma_addr_t cmds_dma;
	dma_addr_t cpls_dma;
	struct openreg_admin_req *reqs[OPENREG_ADMIN_RING_SLOTS];
	u32 head; /* no request is in a slot before it */
	u32 tail;
	struct list_head pending; /* no slot was free */
	struct list_head finished; /* done() is yet to be called, by finish */
	struct work_struct finish;
	struct list_head ctxs;
	struct delayed_work watchdog;
};

int openreg_admin_init(struct openreg_device *odev);
void openreg_admin_start(struct openreg_device *odev);
void openreg_admin_resume(struct openreg_device *odev);
void openreg_admin_stop(struct openreg_device *odev,
			enum openreg_admin_state state, int error);
void openreg_admin_hold(struct openreg_device *odev);
void openreg_admin_release(struct openreg_device *odev);
bool openreg_admin_is_idle(struct openreg_device *odev);
void openreg_admin_suspend(struct openreg_device *odev);
void openreg_admin_flush(struct openreg_device *odev);
void openreg_admin_drain(struct openreg_device *odev);
void openreg_admin_submit(struct openreg_device *odev,
			  struct openreg_admin_req *req);
int openreg_admin_exec(struct openreg_device *odev, struct openreg_ctx *ctx,
		       const struct openreg_admin_cmd *cmd);
int openreg_admin_exec_first(struct openreg_device *odev,
			     struct openreg_ctx *ctx,
			     const struct openreg_admin_cmd *cmd);

/* openreg_admin_finish.c */
void openreg_admin_finish_work(struct work_struct *work);
void openreg_admin_finish(struct openreg_device *odev, struct list_head *done);
void openreg_admin_wait_finished(struct openreg_device *odev);

/* openreg_health.c */
unsigned long openreg_admin_timeout(void);
void openreg_admin_watch(struct openreg_device *odev);
void openreg_admin_watchdog(struct work_struct *work);
struct openreg_admin_req *openreg_admin_find_late(struct openreg_admin *admin);

/* Either of the two. */
typedef int (*openreg_admin_exec_fn)(struct openreg_device *odev,
				     struct openreg_ctx *ctx,
				     const struct openreg_admin_cmd *cmd);

#endif
