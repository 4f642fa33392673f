/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CARD_H
#define BENCH_CARD_H

#include <stdio.h>
#include <stdlib.h>

#include <openreg.h>

#include "bench.h"

struct card {
	struct openreg_device *dev;
	struct openreg_queue *q;
};

static inline int64_t check(int64_t ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "bench: %s\n", openreg_last_error());
	exit(1);
}

static inline struct card open_card(uint32_t slots)
{
	struct openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
	struct card c;

	attr.slots = slots;
	check(openreg_device_open(0, &c.dev));
	check(openreg_queue_create(c.dev, &attr, &c.q));
	return c;
}

static inline void close_card(struct card *c)
{
	openreg_queue_destroy(c->q);
	openreg_device_close(c->dev);
}

static inline struct openreg_bo *make_bo(struct card *c, uint64_t size,
					 uint32_t flags)
{
	struct openreg_bo *bo;

	check(openreg_bo_alloc(c->dev, size, flags, &bo));
	return bo;
}

static inline void finish(struct card *c, int64_t seq)
{
	check(openreg_queue_wait(c->q, (uint64_t)check(seq), -1));
}

#endif
