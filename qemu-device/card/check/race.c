/* SPDX-License-Identifier: MIT */
/*
 * Races: two packets of different queues access a byte, at least one writes it, and
 * nothing makes one of them wait for the other.
 */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

#define PAST_MAX 16384 /* accesses of a segment that the card remembers */
#define ROUNDS_MAX (1u << 24) /* of all comparisons of an access; all queues wait for them */

static bool is_earlier(const struct openreg_check *check,
		       const struct openreg_check_queue *q, const struct past *p)
{
	return p->serial == q->serial || check->gone[p->serial] ||
	       clock_get(&q->clock, p->serial) >= p->epoch;
}

static struct shape shape_of_past(const struct past *p)
{
	if (p->shape)
		return *p->shape;
	return (struct shape){ .lo = p->lo, .hi = p->hi, .row = p->hi - p->lo };
}

static void report(struct openreg_check_queue *q, struct openreg_check_memory *m,
		   const struct past *p, const struct shape *s,
		   const struct openreg_finding_access *access)
{
	const uint64_t lo = s->lo > p->lo ? s->lo : p->lo;
	const uint64_t hi = s->hi < p->hi ? s->hi : p->hi;
	const struct block *b = block_at(m, lo);
	struct openreg_finding f = {
		.kind = OPENREG_FINDING_RACE,
		.access = *access,
		.other = p->access,
		.addr = m->base + lo,
		.bytes = hi - lo,
	};

	if (b) {
		f.block = m->base + b->lo;
		f.block_bytes = b->hi - b->lo;
	}
	check_find(q, &f);
}

/*
 * Compares an access with a past one that may have a byte in common. Returns true if the
 * new one takes its place: whatever will race with the old one also races with the new.
 * That needs order: a later packet can wait for the new one alone.
 */
static bool compare(struct openreg_check *check, struct openreg_check_queue *q,
		    struct openreg_check_memory *m, const struct past *p,
		    const struct shape *s, const struct openreg_finding_access *access)
{
	const bool earlier = is_earlier(check, q, p);
	const struct shape old = shape_of_past(p);

	if (!earlier && (access->written || p->access.written) &&
	    shape_meets(&old, s, &check->rounds))
		report(q, m, p, s, access);
	return earlier && (access->written || !p->access.written) && shape_covers(s, &old);
}

static void forget(struct openreg_check_memory *m, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		free(m->past[i].shape);
	m->npast -= n;
	memmove(m->past, m->past + n, m->npast * sizeof(*m->past));
}

static bool reserve(struct openreg_check_memory *m)
{
	const unsigned int room = m->past_room ? 2 * m->past_room : 16;
	struct past *past;

	if (m->npast == PAST_MAX)
		forget(m, PAST_MAX / 2);
	if (m->npast < m->past_room)
		return true;
	past = realloc(m->past, room * sizeof(*past));
	if (!past)
		return false;
	m->past = past;
	m->past_room = room;
	return true;
}

static bool remember(struct openreg_check_queue *q, struct openreg_check_memory *m,
		     const struct shape *s, const struct openreg_finding_access *access)
{
	struct past p = {
		.lo = s->lo,
		.hi = s->hi,
		.serial = q->serial,
		.epoch = q->epoch,
		.access = *access,
	};

	if (!reserve(m))
		return false;
	if (s->ndim) {
		p.shape = malloc(sizeof(*p.shape));
		if (!p.shape)
			return false;
		*p.shape = *s;
	}
	m->past[m->npast++] = p;
	return true;
}

void check_race(struct openreg_check *check, struct openreg_check_queue *q,
		struct openreg_check_memory *m, const struct shape *s,
		const struct openreg_finding_access *access)
{
	unsigned int i, left = 0;

	check->rounds = ROUNDS_MAX;
	for (i = 0; i < m->npast; i++) {
		struct past *p = &m->past[i];

		if (p->lo < s->hi && s->lo < p->hi && compare(check, q, m, p, s, access))
			free(p->shape);
		else
			m->past[left++] = *p;
	}
	m->npast = left;
	if (!remember(q, m, s, access))
		check->failed = true;
}
