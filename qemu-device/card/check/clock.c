/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include <stdlib.h>
#include <string.h>

/* The place of serial, or where it would be. */
static unsigned int find(const struct clock *c, uint32_t serial)
{
	unsigned int lo = 0, hi = c->n;

	while (lo < hi) {
		const unsigned int mid = (lo + hi) / 2;

		if (c->at[mid].serial < serial)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool is_at(const struct clock *c, unsigned int i, uint32_t serial)
{
	return i < c->n && c->at[i].serial == serial;
}

epoch_t clock_get(const struct clock *c, uint32_t serial)
{
	const unsigned int i = find(c, serial);

	return is_at(c, i, serial) ? c->at[i].epoch : 0;
}

static bool reserve(struct clock *c, unsigned int room)
{
	struct tick *at;

	if (room <= c->room)
		return true;
	room += 4;
	at = realloc(c->at, room * sizeof(*at));
	if (!at)
		return false;
	c->at = at;
	c->room = room;
	return true;
}

bool clock_raise(struct clock *c, uint32_t serial, epoch_t epoch)
{
	const unsigned int i = find(c, serial);

	if (!is_at(c, i, serial)) {
		if (!reserve(c, c->n + 1))
			return false;
		memmove(&c->at[i + 1], &c->at[i], (c->n++ - i) * sizeof(*c->at));
		c->at[i] = (struct tick){ .serial = serial };
	}
	if (c->at[i].epoch < epoch)
		c->at[i].epoch = epoch;
	return true;
}

bool clock_join(struct clock *c, const struct clock *from)
{
	unsigned int i;

	for (i = 0; i < from->n; i++)
		if (!clock_raise(c, from->at[i].serial, from->at[i].epoch))
			return false;
	return true;
}

bool clock_copy(struct clock *c, const struct clock *from)
{
	c->n = 0;
	return clock_join(c, from);
}

void clock_free(struct clock *c)
{
	free(c->at);
	*c = (struct clock){ 0 };
}
