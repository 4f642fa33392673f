/* SPDX-License-Identifier: MIT */
/*
 * Filling VRAM with a byte, for the admin command FILL and to clear dead segments. The
 * admin thread runs short fills; the copy thread runs the others in slices.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "fill.h"

#define FILL_AT_ONCE (64u << 10)

bool fill_is_short(uint64_t len)
{
	return len <= FILL_AT_ONCE;
}

void fill_now(struct openreg_card *card, uint64_t off, uint64_t len,
	      uint8_t value)
{
	memset(card_vram(card) + off, value, len);
	card->ops->vram_written(card->host, off, len);
}

struct fill *fill_new(uint64_t off, uint64_t len, uint8_t value)
{
	struct fill *fill = calloc(1, sizeof(*fill));

	if (!fill)
		return NULL;
	fill->off = off;
	fill->end = off + len;
	fill->value = value;
	return fill;
}

/* sched.lock is held. The copy thread runs fills in the order of the list. */
void fill_append(struct openreg_card *card, struct fill *fill)
{
	struct fill **link = &card->sched.fills;

	while (*link)
		link = &(*link)->next;
	fill->next = NULL;
	*link = fill;
}

void fill_begin(struct openreg_card *card, struct fill *fill)
{
	pthread_mutex_lock(&card->sched.lock);
	fill_append(card, fill);
	pthread_mutex_unlock(&card->sched.lock);
	gate_kick_copy(card);
}

/* Frees the fill and returns true if it is complete. */
bool fill_end(struct openreg_card *card, struct fill *fill)
{
	struct fill **link = &card->sched.fills;
	bool over;

	pthread_mutex_lock(&card->sched.lock);
	over = fill->off == fill->end;
	if (over) {
		while (*link != fill)
			link = &(*link)->next;
		*link = fill->next;
	}
	pthread_mutex_unlock(&card->sched.lock);
	if (over)
		free(fill);
	return over;
}
