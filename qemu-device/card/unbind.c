/* SPDX-License-Identifier: MIT */
/*
 * Dead segments. SEG_UNBIND kills a segment at once. The admin thread releases it when no
 * packet uses it any more and its memory is clear, and sets its bit in the context's
 * released page.
 */
#include <stdlib.h>

#include "core.h"

static bool is_in_use(const struct segment *seg)
{
	bool in_use;

	pthread_mutex_lock(&seg->ctx->lock);
	in_use = seg->refs;
	pthread_mutex_unlock(&seg->ctx->lock);
	return in_use;
}

/* No packet uses the segment. Returns true once its memory is zero. */
static bool clear(struct openreg_card *card, struct segment *seg)
{
	if (!seg->fill) {
		fill_now(card, seg->base, seg->length, 0);
		return true;
	}
	if (!seg->clearing) {
		seg->clearing = true;
		fill_begin(card, seg->fill);
		return false;
	}
	if (!fill_end(card, seg->fill))
		return false;
	seg->fill = NULL;
	return true;
}

static bool release(struct openreg_card *card, struct segment *seg)
{
	struct context *ctx = seg->ctx;
	uint32_t id = seg->id;

	if (is_in_use(seg) || (seg->clear && !clear(card, seg)))
		return false;
	pthread_mutex_lock(&ctx->lock);
	ctx->segs[id] = NULL;
	pthread_mutex_unlock(&ctx->lock);
	segment_free(card, seg);
	context_set_released(card, ctx, id, true);
	return true;
}

/* Without memory for a fill the admin thread clears the segment itself. */
static void prepare_clear(struct segment *seg)
{
	if (!seg->clear || fill_is_short(seg->length))
		return;
	seg->fill = fill_new(seg->base, seg->length, 0);
	if (seg->fill)
		seg->fill->of_segment = true;
}

static void add_dead(struct openreg_card *card, struct segment *seg)
{
	seg->next_dead = card->admin.dead;
	card->admin.dead = seg;
}

/* The segment is dead in a saved state. */
void segment_load_dead(struct openreg_card *card, struct segment *seg)
{
	prepare_clear(seg);
	add_dead(card, seg);
}

/*
 * Packets that begin from now on cannot reach the segment. Returns true if packets that
 * began before still use it.
 */
bool segment_kill(struct openreg_card *card, struct segment *seg, bool clear)
{
	seg->clear = clear;
	prepare_clear(seg);
	pthread_mutex_lock(&seg->ctx->lock);
	seg->dead = true;
	pthread_mutex_unlock(&seg->ctx->lock);
	if (release(card, seg))
		return false;
	add_dead(card, seg);
	return is_in_use(seg);
}

/* Releases every dead segment that is ready. */
void segments_release(struct openreg_card *card)
{
	struct segment **link = &card->admin.dead, *seg, *next;
	bool any = false;

	while ((seg = *link)) {
		next = seg->next_dead;
		if (release(card, seg)) {
			*link = next;
			any = true;
		} else {
			link = &seg->next_dead;
		}
	}
	if (any)
		card_raise(card, 0);
}

/* CTX_DESTROY waits for these. */
bool context_has_dead(const struct openreg_card *card,
		      const struct context *ctx)
{
	const struct segment *seg = card->admin.dead;

	while (seg && seg->ctx != ctx)
		seg = seg->next_dead;
	return seg;
}
