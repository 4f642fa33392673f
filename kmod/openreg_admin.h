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

struct openreg_device;

/* What the admin ring has to know of a context: a part of struct openreg_ctx. */
struct openreg_admin_ctx {
	u32 id;
	struct list_head link; /* admin.ctxs */
	bool dead; /* the card has lost it in a reset; under admin.lock */
	bool file_closed; /* CTX_DESTROY follows; under unbinds.lock */
};

/**
 * struct openreg_admin_req - one command to the card
 * @cmd: the command; openreg_admin_submit() fills in the number of @ctx
 * @ctx: context of the command, or NULL
 * @done: the driver calls it once, in process context, when the command has completed
 *	or cannot complete any more. It must not wait for another command, and may
 *	free the request.
 * @first: the command is sent even between openreg_admin_hold() and
 *	openreg_admin_release(); for suspend and resume only
 * @frees: @done may free much memory, so a work calls it instead of the thread of
 *	the interrupt
 * @status: for @done: 0 or a negative error
 * @result: for @done: result of the completion, if @status is 0
 * @lost: for @done: the command did not complete before the card was reset or cut off
 */
struct openreg_admin_req {
	struct openreg_admin_cmd cmd;
	struct openreg_admin_ctx *ctx;
	void (*done)(struct openreg_admin_req *req);
	bool first;
	bool frees;
	int status;
	u64 result;
	bool lost;
	/* private: */
	struct list_head link;
	unsigned long issued; /* jiffies when the card got the command */
	unsigned long start; /* jiffies from which the watchdog counts */
};

enum openreg_admin_state {
	OPENREG_ADMIN_RUNNING,
	OPENREG_ADMIN_PAUSED, /* the card is being reset or is suspended */
	OPENREG_ADMIN_DEAD, /* the card is removed or wedged */
};

struct openreg_admin {
	spinlock_t lock; /* protects all fields, and dead of each context */
	enum openreg_admin_state state;
	int error; /* status of requests that the card does not complete */
	bool held; /* only requests with first are sent */
	struct openreg_admin_cmd *cmds;
	struct openreg_admin_cpl *cpls;
	dma_addr_t cmds_dma;
	dma_addr_t cpls_dma;
	struct openreg_admin_req *reqs[OPENREG_ADMIN_RING_SLOTS];
	u32 head; /* all commands before it are completed */
	u32 tail;
	struct list_head pending; /* requests that are not sent yet */
	struct list_head finished; /* requests whose done() the finish work calls */
	struct work_struct finish;
	struct list_head ctxs; /* all contexts of the card */
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
void openreg_admin_wait_finished(struct openreg_device *odev);
void openreg_admin_submit(struct openreg_device *odev,
			  struct openreg_admin_req *req);
int openreg_admin_exec(struct openreg_device *odev,
		       struct openreg_admin_ctx *ctx,
		       const struct openreg_admin_cmd *cmd);
int openreg_admin_exec_first(struct openreg_device *odev,
			     struct openreg_admin_ctx *ctx,
			     const struct openreg_admin_cmd *cmd);

/* openreg_watchdog.c */
unsigned long openreg_admin_timeout(void);
unsigned long openreg_clearing_time(struct openreg_device *odev);
void openreg_admin_watch(struct openreg_device *odev);
void openreg_admin_watchdog(struct work_struct *work);
struct openreg_admin_req *openreg_admin_find_late(struct openreg_admin *admin);

/* openreg_admin_exec() or openreg_admin_exec_first(). */
typedef int (*openreg_admin_exec_fn)(struct openreg_device *odev,
				     struct openreg_admin_ctx *ctx,
				     const struct openreg_admin_cmd *cmd);

#endif
