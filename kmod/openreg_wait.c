// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wait until a packet has completed. A process sleeps, and a point has a function that
 * the driver then calls.
 *
 * armed, in the kernel page, is the least sequence number that any process or point
 * waits for. The card raises the queue's vector when its completion counter reaches
 * armed. So the driver stores armed first, and then reads the counter again.
 *
 * The barrier in between must be mb(), not smp_mb(). smp_mb() is a locked instruction,
 * which an emulator may drop if the VM has one CPU. But the card is another thread of the
 * host even then.
 */

#include <linux/hrtimer.h>
#include <linux/rculist.h>
#include <linux/sched/signal.h>

#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"
#include "openreg_trace.h"

#define OPENREG_WAIT_PENDING 1
/* Limit of the points of one open file with packets in flight. */
#define OPENREG_POINTS_MAX 1024

static bool openreg_waiter_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct openreg_waiter, node)->seq <
	       rb_entry(b, struct openreg_waiter, node)->seq;
}

static void openreg_waiter_remove(struct openreg_queue *queue,
				  struct openreg_waiter *waiter)
{
	lockdep_assert_held(&queue->lock);
	rb_erase_cached(&waiter->node, &queue->waiters);
	WRITE_ONCE(queue->num_waiters, queue->num_waiters - 1);
	/* A waiter that sees this takes the lock before it leaves its stack frame. */
	WRITE_ONCE(waiter->waiting, 0);
}

/* Returns: the least sequence number of the waiters that remain. */
static u64 openreg_waiters_wake(struct openreg_queue *queue, u64 completed,
				bool all)
{
	struct openreg_waiter *waiter;
	struct rb_node *first;

	lockdep_assert_held(&queue->lock);
	while ((first = rb_first_cached(&queue->waiters))) {
		waiter = rb_entry(first, struct openreg_waiter, node);
		if (!all && waiter->seq > completed)
			return waiter->seq;
		openreg_waiter_remove(queue, waiter);
		wake_up_process(waiter->task);
		queue->wakes++;
	}
	return OPENREG_ARMED_NONE;
}

/* Calls done() of points in the order in which their packets completed. */
static void openreg_points_work(struct work_struct *work)
{
	struct openreg_queue *queue =
		container_of(work, struct openreg_queue, points_work);
	struct openreg_point *point, *next;
	LIST_HEAD(due);

	scoped_guard(spinlock_irq, &queue->lock)
		list_splice_init(&queue->points_due, &due);
	list_for_each_entry_safe(point, next, &due, link)
		point->done(point);
	openreg_queue_put(queue);
}

void openreg_points_init(struct openreg_queue *queue)
{
	INIT_LIST_HEAD(&queue->points);
	INIT_LIST_HEAD(&queue->points_due);
	INIT_WORK(&queue->points_work, openreg_points_work);
}

/*
 * Ends the points of completed packets. If @all is set, ends all other points too, with
 * an error: their packets will not complete. A work calls done(), because the interrupt
 * handler cannot take the lock of a syncobj.
 *
 * Returns: the least sequence number of the points that remain.
 */
static u64 openreg_points_wake(struct openreg_queue *queue, u64 completed,
			       bool all)
{
	struct openreg_point *point;
	bool due = false;

	lockdep_assert_held(&queue->lock);
	while (!list_empty(&queue->points)) {
		point = list_first_entry(&queue->points, struct openreg_point,
					 link);
		if (!all && point->seq > completed)
			break;
		point->error = point->seq > completed ? -EIO : 0;
		list_move_tail(&point->link, &queue->points_due);
		atomic_dec(&queue->ctx->num_points);
		due = true;
	}
	if (due) {
		kref_get(&queue->ref);
		/* Not the last reference: the queue is still in its table. */
		if (!queue_work(queue->odev->wq, &queue->points_work))
			openreg_queue_put(queue);
	}
	return list_empty(&queue->points) ? OPENREG_ARMED_NONE : point->seq;
}

/* Wakes the waiters of completed packets and arms the queue for the others. */
void openreg_queue_notify(struct openreg_queue *queue)
{
	const struct openreg_card_page *card;
	struct openreg_kernel_page *kernel;
	u64 armed, completed;
	bool stopped;

	guard(spinlock_irqsave)(&queue->lock);
	/* If error is set, the interrupt came late, and the pages may be freed. */
	if (queue->error)
		return;
	card = queue->card->coherent.cpu;
	kernel = queue->kernel->coherent.cpu;
	do {
		stopped = !queue->restarting &&
			  READ_ONCE(card->state) != OPENREG_QUEUE_RUNNING;
		/* The card stops a queue after the last packet it completes. */
		rmb();
		completed = READ_ONCE(card->completed);
		armed = min(openreg_waiters_wake(queue, completed, stopped),
			    openreg_points_wake(queue, completed, stopped));
		if (armed == queue->armed)
			break;
		queue->armed = armed;
		WRITE_ONCE(kernel->armed, armed);
		mb(); /* pairs with the card's barrier: see above */
	} while (READ_ONCE(card->completed) >= armed);
}

/* Notifies the queues of a vector that was raised. Cheap enough for hard context. */
void openreg_vector_notify(struct openreg_vector *vector)
{
	struct openreg_queue *queue;

	guard(rcu)();
	list_for_each_entry_rcu(queue, &vector->queues, vector_link)
		if (READ_ONCE(queue->num_waiters) ||
		    !list_empty(&queue->points))
			openreg_queue_notify(queue);
}

static bool openreg_queue_is_awaited(struct openreg_queue *queue)
{
	return READ_ONCE(queue->num_waiters) ||
	       !list_empty_careful(&queue->points);
}

/*
 * Notifies all queues with waiters, in case an interrupt was lost. Called by the watchdog.
 * Returns true if a process or a point still waits.
 */
bool openreg_queues_poll(struct openreg_device *odev)
{
	struct openreg_queue *queue;
	bool awaited = false;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue) {
		if (!openreg_queue_is_awaited(queue))
			continue;
		openreg_queue_notify(queue);
		awaited |= openreg_queue_is_awaited(queue);
	}
	xa_unlock(&odev->queues);
	return awaited;
}

static void openreg_queue_set_error(struct openreg_queue *queue, int error)
{
	const struct openreg_card_page *card;

	lockdep_assert_held(&queue->lock);
	if (!queue->error) {
		card = queue->card->coherent.cpu;
		queue->last_completed = READ_ONCE(card->completed);
		queue->last_busy_ns = READ_ONCE(card->busy_ns);
	}
	WRITE_ONCE(queue->error, error);
	openreg_waiters_wake(queue, 0, true);
}

/**
 * openreg_queue_fail() - fail all waits for a queue
 * @queue: the queue
 * @error: the error of all waits, now and later
 *
 * After this the driver does not access the pages of the queue, except for a dump before
 * a reset. The card may still do so. Call openreg_points_fail() when it cannot any more.
 */
void openreg_queue_fail(struct openreg_queue *queue, int error)
{
	guard(spinlock_irqsave)(&queue->lock);
	openreg_queue_set_error(queue, error);
}

/*
 * Writes a HANG fault to the card page. The card does not run the queue any more, and may
 * have left a packet half done.
 */
void openreg_queue_write_hang(struct openreg_queue *queue)
{
	struct openreg_card_page *card = queue->card->coherent.cpu;

	lockdep_assert_held(&queue->lock);
	card->fault = (struct openreg_fault_summary) {
		.code = OPENREG_FAULT_HANG,
		.operand = OPENREG_NO_OPERAND,
		.seq = READ_ONCE(card->completed) + 1,
	};
	/* A process that sees this state must see the fault too. */
	smp_store_release(&card->state, OPENREG_QUEUE_FAULTED);
}

/**
 * openreg_queue_hang() - fail a queue that the card has lost
 * @queue: the queue
 * @error: the error of all waits, now and later
 *
 * Call this only after the card was reset or cut off, or has destroyed the context. It
 * does not write the card page any more. So the driver does: else user space would see
 * the queue run for ever.
 */
void openreg_queue_hang(struct openreg_queue *queue, int error)
{
	guard(spinlock_irqsave)(&queue->lock);
	if (queue->error)
		return;
	openreg_queue_write_hang(queue);
	openreg_queue_set_error(queue, error);
}

/* Ends all points. The queue has failed, and the card does no DMA for it any more. */
void openreg_points_fail(struct openreg_queue *queue)
{
	guard(spinlock_irqsave)(&queue->lock);
	openreg_points_wake(queue, queue->last_completed, true);
}

/**
 * openreg_point_add() - call a function when a packet has completed
 * @queue: the queue
 * @point: its @seq and @done are set
 *
 * After this call openreg_health_watch() and openreg_queue_notify(): the packet may have
 * completed already.
 *
 * Returns: 0; the queue's error if it has failed; -EBUSY if the context has too many
 * points. After an error @done is not called.
 */
int openreg_point_add(struct openreg_queue *queue,
		      struct openreg_point *point)
{
	struct list_head *after;

	guard(spinlock_irq)(&queue->lock);
	if (queue->error)
		return queue->error;
	if (atomic_inc_return(&queue->ctx->num_points) > OPENREG_POINTS_MAX) {
		atomic_dec(&queue->ctx->num_points);
		return -EBUSY;
	}
	list_for_each_prev(after, &queue->points)
		if (list_entry(after, struct openreg_point, link)->seq <=
		    point->seq)
			break;
	list_add(&point->link, after);
	return 0;
}

static int openreg_wait_check(struct openreg_queue *queue, u64 seq,
			      u64 *completed)
{
	const struct openreg_card_page *card;
	u32 state;

	guard(spinlock_irq)(&queue->lock);
	if (queue->error) {
		*completed = queue->last_completed;
		return *completed >= seq && queue->error != -ENODEV ?
			0 : queue->error;
	}
	card = queue->card->coherent.cpu;
	state = READ_ONCE(card->state);
	/* The card stops a queue after the last packet that it completes. */
	rmb();
	*completed = READ_ONCE(card->completed);
	if (*completed >= seq)
		return 0;
	return state == OPENREG_QUEUE_RUNNING || queue->restarting ?
		OPENREG_WAIT_PENDING : -EIO;
}

static void openreg_wait_add(struct openreg_queue *queue,
			     struct openreg_waiter *waiter)
{
	scoped_guard(spinlock_irq, &queue->lock) {
		if (queue->error)
			return;
		waiter->waiting = 1;
		rb_add_cached(&waiter->node, &queue->waiters,
			      openreg_waiter_less);
		WRITE_ONCE(queue->num_waiters, queue->num_waiters + 1);
		queue->sleeps++;
	}
	openreg_health_watch(queue->odev);
	openreg_queue_notify(queue);
}

static void openreg_wait_remove(struct openreg_queue *queue,
				struct openreg_waiter *waiter)
{
	/* Take the lock even if woken: the waker may still use this stack frame. */
	scoped_guard(spinlock_irq, &queue->lock) {
		if (!waiter->waiting)
			return;
		openreg_waiter_remove(queue, waiter);
	}
	openreg_queue_notify(queue);
}

static int openreg_wait_sleep(struct openreg_waiter *waiter, s64 timeout_ns)
{
	ktime_t expires = ns_to_ktime(timeout_ns);
	int ret = 0;

	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		/* Check signals first: a hostile card may wake the task for ever. */
		if (signal_pending(current)) {
			ret = -ERESTARTSYS;
			break;
		}
		if (!READ_ONCE(waiter->waiting))
			break;
		if (!schedule_hrtimeout_range(timeout_ns == S64_MAX ?
					      NULL : &expires,
					      current->timer_slack_ns,
					      HRTIMER_MODE_ABS)) {
			ret = -ETIME;
			break;
		}
	}
	__set_current_state(TASK_RUNNING);
	return ret;
}

/**
 * openreg_queue_wait() - wait until a packet has completed
 * @queue: the queue
 * @seq: sequence number of the packet
 * @timeout_ns: absolute, CLOCK_MONOTONIC; S64_MAX to wait without limit
 * @completed: out: the completion counter, also on errors
 *
 * Returns: 0, -ETIME, -EIO, -ENODEV or -ERESTARTSYS.
 */
int openreg_queue_wait(struct openreg_queue *queue, u64 seq, s64 timeout_ns,
		       u64 *completed)
{
	struct openreg_waiter waiter = {
		.task = current,
		.seq = seq,
	};
	int ret = 0, result;

	for (;;) {
		result = openreg_wait_check(queue, seq, completed);
		if (result != OPENREG_WAIT_PENDING)
			return result;
		if (ret)
			return ret;
		if (timeout_ns <= 0 || ktime_get_ns() >= timeout_ns)
			return -ETIME;
		trace_openreg_wait_begin(queue, seq);
		openreg_wait_add(queue, &waiter);
		ret = openreg_wait_sleep(&waiter, timeout_ns);
		openreg_wait_remove(queue, &waiter);
		trace_openreg_wait_end(queue, seq, ret);
	}
}
