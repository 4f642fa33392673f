// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who sleeps on a queue sleeps until the card says something. What it says may
 * get lost on the way, and a card that has died says nothing. So as long as
 * anybody sleeps the driver looks at the queues now and then, and asks the card;
 * the watchdog of the admin ring sees whether an answer comes.
 */

#include "openreg_drv.h"
#include "openreg_queue.h"

#define OPENREG_HEALTH_MAX HZ

static unsigned long openreg_health_period(void)
{
	return clamp(openreg_admin_timeout() / 4, 1UL,
		     (unsigned long)OPENREG_HEALTH_MAX);
}

static bool openreg_health_expects(struct openreg_queue *queue)
{
	return !list_empty_careful(&queue->waiters) ||
	       !list_empty_careful(&queue->points);
}

/* Is anybody left who sleeps? */
static bool openreg_health_look(struct openreg_device *odev)
{
	struct openreg_queue *queue;
	bool anybody = false;
	unsigned long id;

	xa_lock(&odev->queues);
	xa_for_each(&odev->queues, id, queue) {
		if (!openreg_health_expects(queue))
			continue;
		openreg_queue_notify(queue);
		anybody |= openreg_health_expects(queue);
	}
	xa_unlock(&odev->queues);
	return anybody;
}

static void openreg_health_answer(struct openreg_admin_req *req)
{
	struct openreg_health *health =
		container_of(req, struct openreg_health, ping);

	WRITE_ONCE(health->asking, false);
}

static void openreg_health_work(struct work_struct *work)
{
	struct openreg_device *odev =
		container_of(work, struct openreg_device, health.work.work);
	struct openreg_health *health = &odev->health;

	if (!openreg_health_look(odev))
		return;
	openreg_hw_check_alive(odev);
	if (!READ_ONCE(health->asking)) {
		WRITE_ONCE(health->asking, true);
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
	odev->health.ping.done = openreg_health_answer;
}

void openreg_health_fini(struct openreg_device *odev)
{
	disable_delayed_work_sync(&odev->health.work);
}
