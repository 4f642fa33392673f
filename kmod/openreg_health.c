// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who sleeps on a queue sleeps until the card says something. What it says may
 * get lost on the way, and a card that has died says nothing. So as long as
 * anybody sleeps the driver looks at the queues now and then, and asks the card;
 * the watchdog of the admin ring sees whether an answer comes.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/stringify.h>

#include "openreg_ctx.h"
#include "openreg_drv.h"
#include "openreg_queue.h"

/* A card that its host runs late must not be reset at every command. */
#define OPENREG_ADMIN_TIMEOUT_MIN 500

static unsigned int openreg_admin_timeout_ms = 20000;

static int openreg_admin_timeout_set(const char *text,
				     const struct kernel_param *param)
{
	unsigned int ms;
	int ret = kstrtouint(text, 0, &ms);

	if (ret)
		return ret;
	if (ms && ms < OPENREG_ADMIN_TIMEOUT_MIN) {
		pr_err("admin_timeout_ms cannot be %u: it is %u or more, or 0 for no limit\n",
		       ms, OPENREG_ADMIN_TIMEOUT_MIN);
		return -EINVAL;
	}
	return param_set_uint(text, param);
}

static const struct kernel_param_ops openreg_admin_timeout_ops = {
	.set = openreg_admin_timeout_set,
	.get = param_get_uint,
};

module_param_cb(admin_timeout_ms, &openreg_admin_timeout_ops,
		&openreg_admin_timeout_ms, 0644);
__MODULE_PARM_TYPE(admin_timeout_ms, "uint");
MODULE_PARM_DESC(admin_timeout_ms,
		 "how long the card may take for a command of the driver before it is reset, and a packet for a closed buffer before its queue is stopped: "
		 __stringify(OPENREG_ADMIN_TIMEOUT_MIN)
		 " or more, or 0 for no limit (20000)");

#define OPENREG_HEALTH_MAX HZ

/* In jiffies. */
unsigned long openreg_admin_timeout(void)
{
	unsigned int ms = READ_ONCE(openreg_admin_timeout_ms);

	return ms ? msecs_to_jiffies(ms) : MAX_JIFFY_OFFSET;
}

static unsigned long openreg_health_period(void)
{
	return clamp(openreg_admin_timeout() / 4, 1UL,
		     (unsigned long)OPENREG_HEALTH_MAX);
}

static bool openreg_health_is_awaited(struct openreg_queue *queue)
{
	return READ_ONCE(queue->num_waiters) ||
	       !list_empty_careful(&queue->points);
}

/* Is anybody left who sleeps? */
static bool openreg_health_poll(struct openreg_device *odev)
{
	struct openreg_queue *queue;
	bool awaited = false;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue) {
		if (!openreg_health_is_awaited(queue))
			continue;
		openreg_queue_notify(queue);
		awaited |= openreg_health_is_awaited(queue);
	}
	xa_unlock(&odev->queues);
	return awaited;
}

static void openreg_health_ping_done(struct openreg_admin_req *req)
{
	struct openreg_health *health =
		container_of(req, struct openreg_health, ping);

	WRITE_ONCE(health->ping_pending, false);
}

static void openreg_health_work(struct work_struct *work)
{
	struct openreg_device *odev =
		container_of(work, struct openreg_device, health.work.work);
	struct openreg_health *health = &odev->health;

	if (!openreg_health_poll(odev))
		return;
	openreg_hw_check_alive(odev);
	if (!READ_ONCE(health->ping_pending)) {
		WRITE_ONCE(health->ping_pending, true);
		openreg_admin_submit(odev, &health->ping);
	}
	openreg_health_watch(odev);
}

/* Somebody is about to sleep. */
void openreg_health_watch(struct openreg_device *odev)
{
	queue_delayed_work(odev->wq, &odev->health.work,
			   openreg_health_period());
}

void openreg_health_init(struct openreg_device *odev)
{
	INIT_DELAYED_WORK(&odev->health.work, openreg_health_work);
	odev->health.ping.cmd.opcode = OPENREG_ADMIN_NOP;
	odev->health.ping.done = openreg_health_ping_done;
}

void openreg_health_fini(struct openreg_device *odev)
{
	disable_delayed_work_sync(&odev->health.work);
}

static unsigned long openreg_admin_watchdog_period(void)
{
	return clamp(openreg_admin_timeout() / 4, 1UL, (unsigned long)HZ);
}

/* A command is on its way. */
void openreg_admin_watch(struct openreg_device *odev)
{
	queue_delayed_work(odev->wq, &odev->admin.watchdog,
			   openreg_admin_watchdog_period());
}

static bool openreg_admin_late(const struct openreg_admin *admin,
			       const struct openreg_admin_req *req)
{
	unsigned long timeout = openreg_admin_timeout();

	/* Whoever asks for that stops it at once if it takes too long. */
	if (req->cmd.opcode == OPENREG_ADMIN_QUEUE_STOP &&
	    req->cmd.stop.when == OPENREG_STOP_AFTER_PACKET)
		return false;
	if (req->cmd.opcode == OPENREG_ADMIN_FILL)
		timeout += (req->cmd.fill.length >> 28) * HZ;
	return time_after(jiffies, req->start + timeout);
}

/*
 * The first that the card should have answered by now, or NULL. Of FILLs only the
 * first can be late: the card serves large ones one after the other.
 */
struct openreg_admin_req *openreg_admin_find_late(struct openreg_admin *admin)
{
	struct openreg_admin_req *req;
	bool filling = false;
	u32 i;

	lockdep_assert_held(&admin->lock);
	for (i = admin->head; i != admin->tail; i++) {
		req = admin->reqs[i & OPENREG_ADMIN_MASK];
		if (!req)
			continue;
		if (req->cmd.opcode == OPENREG_ADMIN_FILL) {
			if (filling)
				continue;
			filling = true;
		}
		if (openreg_admin_late(admin, req))
			return req;
	}
	return NULL;
}

void openreg_admin_watchdog(struct work_struct *work)
{
	struct openreg_device *odev =
		container_of(work, struct openreg_device, admin.watchdog.work);
	struct openreg_admin *admin = &odev->admin;
	bool busy, late, running;
	u64 seen;

	openreg_admin_drain(odev);

	spin_lock(&admin->lock);
	busy = admin->head != admin->tail;
	late = openreg_admin_find_late(admin);
	running = admin->state == OPENREG_ADMIN_RUNNING;
	seen = READ_ONCE(odev->generation);
	spin_unlock(&admin->lock);

	if (running)
		busy |= openreg_unbinds_watch(odev);
	if (running && late)
		openreg_reset_request(odev, seen,
				      "an admin command did not complete");
	else if (running && busy)
		openreg_hw_check_alive(odev);
	if (busy)
		openreg_admin_watch(odev);
}
