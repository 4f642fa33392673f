/* SPDX-License-Identifier: MIT */
/* Contexts: what isolates one process from another. */
#include <stdlib.h>

#include "core.h"

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

/* Its queues are gone, so nothing refers to its segments. */
void context_free(struct openreg_card *card, struct context *ctx)
{
	unsigned int i;

	for (i = 0; i < OPENREG_MAX_SEGMENTS; i++)
		if (ctx->segs[i])
			segment_free(card, ctx->segs[i]);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}
