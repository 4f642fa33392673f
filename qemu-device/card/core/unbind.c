/* SPDX-License-Identifier: MIT */
/*
 * Dead segments. SEG_UNBIND makes a segment dead at once: new packets cannot reach it.
 * The card releases a dead segment when no packet uses it and its memory is clear. Then
 * it sets the segment's bit in the context's released page. A dead segment is on one list
 * at a time: admin.dead while a packet uses it, sched.clears while the copy thread clears
 * it, then sched.cleared.
 */
#include "core.h"
#include "fill.h"
#include "segment.h"

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

/* No packet uses the segment. Returns true if this releases the segment at once. */
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

/* Adds the segment to admin.dead. The card clears its VRAM again from the start. */
void segment_load_dead(struct openreg_card *card, struct segment *seg)
{
	seg->ctx->ndead++;
	seg->next_dead = card->admin.dead;
	card->admin.dead = seg;
}

/*
 * Makes the segment dead: packets that begin from now on cannot reach it. Returns true if
 * packets that began before still use it.
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

/* Clears and releases the dead segments that no packet uses any more. */
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
