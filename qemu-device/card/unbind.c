/* SPDX-License-Identifier: MIT */
/*
 * Dead segments. SEG_UNBIND kills a segment at once. The card releases it when no packet
 * uses it any more and its memory is clear, and sets its bit in the context's released
 * page. The segment is on one list at a time: admin.dead while a packet uses it,
 * sched.clears while the copy thread clears it, then sched.cleared.
 */
#include "core.h"

static bool is_in_use(const struct segment *seg)
{
	bool in_use;

	pthread_mutex_lock(&seg->ctx->lock);
	in_use = seg->refs;
	pthread_mutex_unlock(&seg->ctx->lock);
	return in_use;
}

static void release(struct openreg_card *card, struct segment *seg)
{
	struct context *ctx = seg->ctx;
	uint32_t id = seg->id;

	pthread_mutex_lock(&ctx->lock);
	ctx->segs[id] = NULL;
	pthread_mutex_unlock(&ctx->lock);
	ctx->ndead--;
	segment_free(card, seg);
	context_set_released(card, ctx, id, true);
}

static void begin_clear(struct openreg_card *card, struct segment *seg)
{
	struct sched *sched = &card->sched;

	seg->next_dead = NULL;
	pthread_mutex_lock(&sched->lock);
	if (sched->clears)
		sched->last_clear->next_dead = seg;
	else
		sched->clears = seg;
	sched->last_clear = seg;
	pthread_mutex_unlock(&sched->lock);
	gate_kick_copy(card);
}

/* No packet uses the segment any more. Returns true if it is released at once. */
static bool end_use(struct openreg_card *card, struct segment *seg)
{
	if (seg->clear && !fill_is_short(seg->length)) {
		begin_clear(card, seg);
		return false;
	}
	if (seg->clear)
		fill_now(card, seg->base, seg->length, 0);
	release(card, seg);
	return true;
}

/* The segment is dead in a saved state: the card clears it from the start. */
void segment_load_dead(struct openreg_card *card, struct segment *seg)
{
	seg->ctx->ndead++;
	seg->next_dead = card->admin.dead;
	card->admin.dead = seg;
}

/*
 * Packets that begin from now on cannot reach the segment. Returns true if packets that
 * began before still use it.
 */
bool segment_kill(struct openreg_card *card, struct segment *seg, bool clear)
{
	seg->clear = clear;
	pthread_mutex_lock(&seg->ctx->lock);
	seg->dead = true;
	pthread_mutex_unlock(&seg->ctx->lock);
	if (is_in_use(seg)) {
		segment_load_dead(card, seg);
		return true;
	}
	seg->ctx->ndead++;
	end_use(card, seg);
	return false;
}

static struct segment *take_cleared(struct openreg_card *card)
{
	struct segment *seg;

	pthread_mutex_lock(&card->sched.lock);
	seg = card->sched.cleared;
	card->sched.cleared = NULL;
	pthread_mutex_unlock(&card->sched.lock);
	return seg;
}

/* Releases every dead segment that is ready. */
void segments_release(struct openreg_card *card)
{
	struct segment **link = &card->admin.dead, *seg, *next;
	bool any = false;

	while ((seg = *link) && !gate_held(card)) {
		if (is_in_use(seg)) {
			link = &seg->next_dead;
			continue;
		}
		*link = seg->next_dead;
		any |= end_use(card, seg);
	}
	for (seg = take_cleared(card); seg; seg = next) {
		next = seg->next_dead;
		release(card, seg);
		any = true;
	}
	if (any)
		card_raise(card, 0);
}
