// SPDX-License-Identifier: MIT
#include "extent.h"

#include <errno.h>
#include <stdlib.h>

struct sim_extent {
	uint64_t offset;
	uint64_t size;
	struct sim_extent *next;
};

static struct sim_extent *extent_new(uint64_t offset, uint64_t size,
				     struct sim_extent *next)
{
	struct sim_extent *x = malloc(sizeof(*x));

	if (x)
		*x = (struct sim_extent){ offset, size, next };
	return x;
}

int sim_extents_init(struct sim_extents *e, uint64_t size)
{
	e->first = extent_new(0, size, NULL);
	return e->first ? 0 : -ENOMEM;
}

void sim_extents_fini(struct sim_extents *e)
{
	struct sim_extent *x = e->first, *next;

	for (; x; x = next) {
		next = x->next;
		free(x);
	}
	e->first = NULL;
}

int sim_extents_take(struct sim_extents *e, uint64_t size, uint64_t *offset)
{
	struct sim_extent **at, **best = NULL, *x;

	for (at = &e->first; *at; at = &(*at)->next)
		if ((*at)->size >= size && (!best || (*at)->size < (*best)->size))
			best = at;
	if (!best)
		return -ENOSPC;
	x = *best;
	*offset = x->offset;
	x->offset += size;
	x->size -= size;
	if (!x->size) {
		*best = x->next;
		free(x);
	}
	return 0;
}

int sim_extents_give(struct sim_extents *e, uint64_t offset, uint64_t size)
{
	struct sim_extent **at = &e->first, *before = NULL, *after, *x;

	for (; *at && (*at)->offset < offset; at = &(*at)->next)
		before = *at;
	after = *at;
	if (before && before->offset + before->size == offset) {
		before->size += size;
		x = before;
	} else {
		x = extent_new(offset, size, after);
		if (!x)
			return -ENOMEM;
		*at = x;
	}
	if (after && x->offset + x->size == after->offset) {
		x->size += after->size;
		x->next = after->next;
		free(after);
	}
	return 0;
}

void sim_extents_sum(const struct sim_extents *e, uint64_t *total,
		     uint64_t *largest)
{
	const struct sim_extent *x;

	*total = 0;
	*largest = 0;
	for (x = e->first; x; x = x->next) {
		*total += x->size;
		if (x->size > *largest)
			*largest = x->size;
	}
}
