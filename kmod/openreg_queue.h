/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_QUEUE_H
#define OPENREG_QUEUE_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "openreg_admin.h"

struct openreg_bo;
struct openreg_ctx;
struct openreg_device;
struct openreg_file;
struct openreg_vector;

struct openreg_waiter {
	struct rb_node node;
	struct task_struct *task;
	u64 seq;
	/* In the tree. No bool: for a bool, UBSAN makes gcc add an unmarked read. */
	unsigned int waiting;
};

/* A function to call when a packet has completed or will not complete any more. */
struct openreg_point {
	struct list_head link;
	u64 seq; /* sequence number of the packet */
	int error; /* for done: -EIO if the packet will not complete, or 0 */
	/* Called once, in process context. It frees the point. */
	void (*done)(struct openreg_point *point);
};

struct openreg_queue {
	struct kref ref;
	struct rcu_head rcu;
	struct openreg_device *odev;
	struct openreg_ctx *ctx;
	u32 id; /* number on the card */
	struct mutex op_lock; /* serializes op */
	struct openreg_admin_req op; /* stop, reset or destroy, for an ioctl */
	struct completion op_completion; /* op is completed */
	struct list_head ctx_link;
	struct list_head vector_link;
	struct openreg_vector *vector;
	struct openreg_bo *ring, *user, *card, *kernel;

	/* Protects the fields from here to stopping. The interrupt handler takes it. */
	spinlock_t lock;
	struct rb_root_cached waiters; /* struct openreg_waiter, by seq */
	unsigned int num_waiters; /* also read without the lock */
	struct list_head points; /* struct openreg_point, by seq */
	struct list_head points_due; /* points whose done() points_work will call */
	int error; /* if set, no packet completes, and the pages may be freed */
	u64 last_completed, last_busy_ns; /* values when error was set */
	u64 armed; /* last value stored to the kernel page, which the card can write */
	u64 sleeps, wakes;
	bool restarting; /* stopped for a reset or a suspend: waiters go on waiting */
	bool run_on_resume; /* the queue ran when the system was suspended */
	bool stopping; /* the stop command is not completed */

	struct work_struct points_work; /* holds a reference while queued */
	struct openreg_admin_req stop; /* for openreg_stuck_stop() */
	struct openreg_admin_req pause; /* for openreg_queue_pause() */
	bool pause_pending; /* the pause command has not succeeded */
	u32 priority;
	pid_t pid; /* the process that created the queue */
	char comm[TASK_COMM_LEN];
};

/* openreg_queue.c */
int openreg_queue_create(struct openreg_file *file, struct drm_file *filp,
			 struct drm_openreg_queue_create *args);
struct openreg_queue *openreg_queue_lookup(struct openreg_file *file, u32 num);
int openreg_queue_destroy(struct openreg_file *file, struct drm_file *filp,
			  u32 num);
int openreg_queue_reset(struct openreg_queue *queue, u64 head, u64 seq);
void openreg_queues_close(struct openreg_file *file, struct drm_file *filp);
void openreg_queue_put(struct openreg_queue *queue);
u64 openreg_queue_busy_ns(struct openreg_queue *queue);
void openreg_queue_unregister(struct openreg_queue *queue);
void openreg_queue_set_restarting(struct openreg_queue *queue, bool on);
int openreg_queue_start(struct openreg_queue *queue, u32 flags,
			openreg_admin_exec_fn exec);

/* openreg_wait.c */
void openreg_queue_notify(struct openreg_queue *queue);
void openreg_vector_notify(struct openreg_vector *vector);
bool openreg_queues_poll(struct openreg_device *odev);
void openreg_queue_fail(struct openreg_queue *queue, int error);
void openreg_queue_write_hang(struct openreg_queue *queue);
void openreg_queue_hang(struct openreg_queue *queue, int error);
int openreg_queue_wait(struct openreg_queue *queue, u64 seq, s64 timeout_ns,
		       u64 *completed);
void openreg_points_init(struct openreg_queue *queue);
int openreg_point_add(struct openreg_queue *queue, struct openreg_point *point);
void openreg_points_fail(struct openreg_queue *queue);

#endif
