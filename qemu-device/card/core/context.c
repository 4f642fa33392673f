/* SPDX-License-Identifier: MIT */
/* Contexts isolate processes from one another. */
#include <stdlib.h>

#include "core.h"
#include "segment.h"

struct context *context_new(uint32_t id)
{
	struct context *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->id = id;
	if (pthread_mutex_init(&ctx->lock, NULL)) {
		free(ctx);
		return NULL;
	}
	return ctx;
}

/* Returns false if DMA cannot reach the page. */
bool context_map_released(struct openreg_card *card, struct context *ctx,
			  uint64_t bus)
{
	ctx->released_base = bus;
	ctx->released = card->ops->map(card->host, bus,
				       OPENREG_QUEUE_PAGE_SIZE, true);
	return ctx->released;
}

void context_clear_released(struct openreg_card *card, struct context *ctx)
{
	uint64_t off;

	card->ops->access_begin(card->host);
	for (off = 0; off < OPENREG_QUEUE_PAGE_SIZE; off += 8)
		card->ops->store64(card->host, ctx->released, off, 0);
	card->ops->access_end(card->host);
}

/* The context has no queue left, so no packet refers to its segments. */
void context_free(struct openreg_card *card, struct context *ctx)
{
	unsigned int i;

	for (i = 0; i < OPENREG_MAX_SEGMENTS; i++)
		if (ctx->segs[i])
			segment_free(card, ctx->segs[i]);
	if (ctx->released)
		card->ops->unmap(card->host, ctx->released);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}

void context_set_released(struct openreg_card *card, struct context *ctx,
			  uint32_t id, bool released)
{
	uint64_t bit = 1ULL << id % 64, *word = &ctx->released_bits[id / 64];

	*word = released ? *word | bit : *word & ~bit;
	if (!ctx->released)
		return;
	card->ops->access_begin(card->host);
	card->ops->store64(card->host, ctx->released, id / 64 * 8, *word);
	card->ops->access_end(card->host);
}
