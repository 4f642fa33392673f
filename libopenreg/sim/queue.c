// SPDX-License-Identifier: MIT
/* User queues: creation, destruction, reset. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sim.h"

static void free_queue(struct sim_queue *q)
{
	if (q->ring)
		munmap(q->ring, q->ring_size);
	if (q->user)
		munmap(q->user, OPENREG_QUEUE_PAGE_SIZE);
	if (q->card)
		munmap(q->card, OPENREG_QUEUE_PAGE_SIZE);
	if (q->kernel)
		munmap(q->kernel, OPENREG_QUEUE_PAGE_SIZE);
	free(q);
}

static struct sim_queue *new_queue(struct transport *t, uint32_t slots)
{
	struct sim_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->t = t;
	q->ring_size = (uint64_t)slots * OPENREG_SLOT_SIZE;
	q->ring = sim_pages(q->ring_size);
	q->user = sim_pages(OPENREG_QUEUE_PAGE_SIZE);
	q->card = sim_pages(OPENREG_QUEUE_PAGE_SIZE);
	q->kernel = sim_pages(OPENREG_QUEUE_PAGE_SIZE);
	if (!q->ring || !q->user || !q->card || !q->kernel) {
		free_queue(q);
		return NULL;
	}
	q->kernel->armed = OPENREG_ARMED_NONE;
	return q;
}

static int take_id(struct sim_card *c, uint32_t *id)
{
	int ret = -ENOSPC;

	pthread_mutex_lock(&c->lock);
	for (uint32_t i = 0; ret && i < c->info.max_queues; i++) {
		if (c->queues[i])
			continue;
		c->queues[i] = true;
		*id = i;
		ret = 0;
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

static void give_id(struct sim_card *c, uint32_t id)
{
	pthread_mutex_lock(&c->lock);
	c->queues[id] = false;
	pthread_mutex_unlock(&c->lock);
}

static int command(struct sim_queue *q, uint16_t opcode)
{
	const struct openreg_admin_cmd cmd = cmd_of(opcode, q->t->ctx, q->id);

	return sim_admin(q->t->card, &cmd);
}

static int start(struct sim_queue *q, uint32_t slots, uint32_t priority)
{
	const struct client_queue queue = {
		.ctx = q->t->ctx,
		.id = q->id,
		.slots = slots,
		.door = q->t->ctx,
		.vector = 1 + q->id % (SIM_VECTORS - 1),
		.ring = (uintptr_t)q->ring,
		.user = (uintptr_t)q->user,
		.page = (uintptr_t)q->card,
		.kernel = (uintptr_t)q->kernel,
	};
	const struct openreg_admin_cmd cmd = cmd_queue(&queue, priority);

	q->vector = &q->t->card->vectors[queue.vector];
	return sim_admin(q->t->card, &cmd);
}

static void describe(struct sim_queue *q, struct transport_queue *tq,
		     void *card_page)
{
	*tq = (struct transport_queue){
		.number = q->id + 1,
		.ring = q->ring,
		.ring_size = q->ring_size,
		.user = q->user,
		.card = card_page,
		.state = q,
	};
}

int sim_queue_create(struct transport *t, uint32_t slots, uint32_t priority,
		     struct transport_queue *tq)
{
	struct sim_queue *q = new_queue(t, slots);
	void *card_page;
	int ret;

	if (!q)
		return -ENOMEM;
	/* The program gets a read-only mapping, as from the kernel's driver. */
	card_page = sim_pages_again(q->card, OPENREG_QUEUE_PAGE_SIZE);
	if (!card_page ||
	    mprotect(card_page, OPENREG_QUEUE_PAGE_SIZE, PROT_READ)) {
		free_queue(q);
		return -ENOMEM;
	}
	ret = take_id(t->card, &q->id);
	if (!ret) {
		ret = start(q, slots, priority);
		if (ret)
			give_id(t->card, q->id);
	}
	if (ret) {
		munmap(card_page, OPENREG_QUEUE_PAGE_SIZE);
		free_queue(q);
		return ret;
	}
	describe(q, tq, card_page);
	pthread_mutex_lock(&t->lock);
	q->next = t->queues;
	t->queues = q;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

void sim_queue_destroy(struct transport *t, struct transport_queue *tq)
{
	struct sim_queue *q = tq->state, **at;

	pthread_mutex_lock(&t->lock);
	for (at = &t->queues; *at != q; at = &(*at)->next)
		;
	*at = q->next;
	pthread_mutex_unlock(&t->lock);

	command(q, OPENREG_ADMIN_QUEUE_DESTROY);
	give_id(t->card, q->id);
	munmap((void *)(uintptr_t)tq->card, OPENREG_QUEUE_PAGE_SIZE);
	free_queue(q);
}

static uint64_t completed(const struct sim_queue *q)
{
	return __atomic_load_n(&q->card->completed, __ATOMIC_ACQUIRE);
}

static int restart(struct sim_queue *q, uint64_t head, uint64_t seq)
{
	const struct openreg_admin_cmd cmd = cmd_reset(q->t->ctx, q->id, head, seq);
	int ret;

	/* A worker may still use a queue that has faulted: wait until it does not. */
	ret = command(q, OPENREG_ADMIN_QUEUE_STOP);
	if (ret)
		return ret;
	if (seq < completed(q))
		return -EINVAL;
	return sim_admin(q->t->card, &cmd);
}

/* While resetting is set, waiters do not fail because the queue is stopped. */
static void set_resetting(struct sim_queue *q, bool on)
{
	pthread_mutex_lock(&q->vector->lock);
	q->resetting = on;
	if (!on) {
		sim_queue_arm(q);
		pthread_cond_broadcast(&q->vector->raised);
	}
	pthread_mutex_unlock(&q->vector->lock);
}

int sim_queue_reset(struct transport *t, struct transport_queue *tq,
		    uint64_t head, uint64_t seq)
{
	struct sim_queue *q = tq->state;
	int ret;

	if (seq < completed(q))
		return -EINVAL;
	set_resetting(q, true);
	ret = restart(q, head, seq);
	set_resetting(q, false);
	/* The card page has the same contents as the fault records. */
	client_forget_faults(&t->card->client);
	return ret;
}

void sim_queue_ring(struct transport *t, struct transport_queue *tq)
{
	(void)tq;
	openreg_card_doorbell(t->card->card, t->ctx);
}

void sim_queues_stop(struct transport *t)
{
	struct sim_queue *q;

	pthread_mutex_lock(&t->lock);
	for (q = t->queues; q; q = q->next) {
		command(q, OPENREG_ADMIN_QUEUE_STOP);
		pthread_mutex_lock(&q->vector->lock);
		pthread_cond_broadcast(&q->vector->raised);
		pthread_mutex_unlock(&q->vector->lock);
	}
	pthread_mutex_unlock(&t->lock);
}

/* Free the queues that the program has not destroyed, after CTX_DESTROY. */
void sim_queues_close(struct transport *t)
{
	struct sim_queue *q = t->queues, *next;

	for (; q; q = next) {
		next = q->next;
		give_id(t->card, q->id);
		free_queue(q);
	}
}
