// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two watchdogs. A process that waits for a queue sleeps until the card raises an
 * interrupt. The interrupt may be lost, or the card may hang. So while any process waits,
 * the health work polls the queues and sends a NOP to the card as a ping. The watchdog of
 * the admin ring resets a card that does not complete a command, such as the ping.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/stringify.h>

#include "openreg_admin.h"
#include "openreg_device.h"

/* A lower limit would reset a card on a slow host. */
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
		pr_err("admin_timeout_ms=%u is too small: use at least %u, or 0 for no limit\n",
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
		 "time limit in ms: the driver resets a card that does not complete a command, and stops a queue that keeps a closed buffer in use; at least "
		 __stringify(OPENREG_ADMIN_TIMEOUT_MIN)
		 ", or 0 for no limit (default 20000)");

#define OPENREG_HEALTH_MAX HZ

/* Returns the time limit in jiffies. */
unsigned long openreg_admin_timeout(void)
{
	unsigned int ms = READ_ONCE(openreg_admin_timeout_ms);

	return ms ? msecs_to_jiffies(ms) : MAX_JIFFY_OFFSET;
}

/* The longest time that the card needs for what it clears, in jiffies: at 256 MiB/s. */
unsigned long openreg_clearing_time(struct openreg_device *odev)
{
	return (atomic64_read(&odev->vram.clearing) >> 28) * HZ;
}

static unsigned long openreg_health_period(void)
{
	return clamp(openreg_admin_timeout() / 4, 1UL,
		     (unsigned long)OPENREG_HEALTH_MAX);
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

	if (!odev->upcalls->poll_queues(odev))
		return;
	openreg_hw_check_alive(odev);
	if (!READ_ONCE(health->ping_pending)) {
		WRITE_ONCE(health->ping_pending, true);
		openreg_admin_submit(odev, &health->ping);
	}
	openreg_health_watch(odev);
}

/* Starts the health work. Call this before a process waits or when a point is added. */
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

/* Starts the watchdog. Call this when a command was sent or a segment stays in use. */
void openreg_admin_watch(struct openreg_device *odev)
{
	queue_delayed_work(odev->wq, &odev->admin.watchdog,
			   openreg_admin_watchdog_period());
}

static bool openreg_admin_late(struct openreg_admin *admin,
			       const struct openreg_admin_req *req)
{
	struct openreg_device *odev =
		container_of(admin, struct openreg_device, admin);
	unsigned long timeout = openreg_admin_timeout();

	/* The suspend code limits this time itself, and then stops the queue at once. */
	if (req->cmd.opcode == OPENREG_ADMIN_QUEUE_STOP &&
	    req->cmd.stop.when == OPENREG_STOP_AFTER_PACKET)
		return false;
	if (req->cmd.opcode == OPENREG_ADMIN_FILL)
		timeout += (req->cmd.fill.length >> 28) * HZ;
	/* The card clears the context's closed objects first, in turn with others'. */
	if (req->cmd.opcode == OPENREG_ADMIN_CTX_DESTROY)
		timeout += openreg_clearing_time(odev);
	return time_after(jiffies, req->start + timeout);
}

/*
 * Returns the first command that the card has not completed in time, or NULL. Of all
 * FILLs only the first can be late: the card runs them one by one.
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
		busy |= odev->upcalls->watch(odev);
	if (running && late)
		odev->upcalls->broken(odev, seen,
				      "an admin command did not complete");
	else if (running && busy)
		openreg_hw_check_alive(odev);
	if (busy)
		openreg_admin_watch(odev);
}
