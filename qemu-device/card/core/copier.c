/* SPDX-License-Identifier: MIT */
/* The copy thread: long copies beside compute, long fills, and clears of segments. */
#include <sched.h>

#include "core.h"
#include "exec.h"
#include "fill.h"
#include "queue.h"

#define FILL_SLICE (2u << 20) /* small: the first touch of a VRAM page is slow */

/* Picks as for compute: by context, then by priority, then in turn. */
static struct queue *pick_copy(struct openreg_card *card)
{
	struct queue *best = NULL, *q;

	for (q = card->sched.awake; q; q = q->awake_next) {
		if (q->active != ACTIVE_COPY || q->owners)
			continue;
		if (!best || sched_better(q, best))
			best = q;
	}
	if (best) {
		best->served = ++card->sched.served;
		best->owners++;
	}
	return best;
}

static struct fill *pick_fill(struct openreg_card *card)
{
	struct fill *fill = card->sched.fills;

	while (fill && fill->off == fill->end)
		fill = fill->next;
	return fill;
}

static void run_fill(struct openreg_card *card, struct fill *fill)
{
	uint64_t n = fill->end - fill->off, start = now_ns();

	n = n < FILL_SLICE ? n : FILL_SLICE;
	fill_now(card, fill->off, n, fill->value);
	atomic_fetch_add(&card->stats.copy_ns, now_ns() - start);
	pthread_mutex_lock(&card->sched.lock);
	fill->off += n;
	pthread_mutex_unlock(&card->sched.lock);
	gate_kick_admin(card);
}

/* Clears the next slice of the first segment on sched.clears. */
static void run_clear(struct openreg_card *card, struct segment *seg)
{
	uint64_t n = seg->length - seg->ncleared, start = now_ns();

	n = n < FILL_SLICE ? n : FILL_SLICE;
	fill_now(card, seg->base + seg->ncleared, n, 0);
	atomic_fetch_add(&card->stats.copy_ns, now_ns() - start);
	seg->ncleared += n;
	if (seg->ncleared < seg->length)
		return;
	pthread_mutex_lock(&card->sched.lock);
	card->sched.clears = seg->next_dead;
	seg->next_dead = card->sched.cleared;
	card->sched.cleared = seg;
	pthread_mutex_unlock(&card->sched.lock);
	gate_kick_admin(card);
}

/*
 * Runs one slice; copies take turns with fills and clears. Fills come before clears,
 * since the driver waits for each fill. Returns false if it had no work.
 */
bool copier_step(struct worker *w)
{
	struct openreg_card *card = w->card;
	struct queue *q = NULL;
	struct segment *clear;
	struct fill *fill;

	pthread_mutex_lock(&card->sched.lock);
	fill = pick_fill(card);
	clear = fill ? NULL : card->sched.clears;
	if ((!fill && !clear) || !card->sched.fill_turn)
		q = pick_copy(card);
	card->sched.fill_turn = !card->sched.fill_turn;
	pthread_mutex_unlock(&card->sched.lock);
	if (q) {
		exec_copy(w, q);
		sched_ensure_polled(card);
		return true;
	}
	if (fill)
		run_fill(card, fill);
	else if (clear)
		run_clear(card, clear);
	return fill || clear;
}

void *copier_main(void *opaque)
{
	struct worker *w = opaque;
	struct openreg_card *card = w->card;
	bool go;

	card->ops->thread_enter(card->host);
	go = gate_enter(card);
	while (go) {
		worker_set_cpu(w, sched_getcpu());
		if (gate_held(card)) {
			gate_leave(card);
			go = gate_enter(card);
		} else if (!copier_step(w)) {
			worker_set_cpu(w, CPU_ASLEEP);
			go = gate_wait_kick(card, &card->gate.copy,
					    &card->gate.copy_kick);
		}
	}
	gate_leave(card);
	card->ops->thread_leave(card->host);
	return NULL;
}
