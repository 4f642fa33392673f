/* SPDX-License-Identifier: MIT */
/* Admin commands for contexts, segments and clearing memory. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define RESULT(s) ((struct admin_result){ .status = OPENREG_ADMIN_##s })
#define LATE ((struct admin_result){ .late = true })
#define FILL_AT_ONCE (1u << 20)

static bool no_args(const struct openreg_admin_cmd *cmd)
{
	unsigned int i;

	for (i = 0; i < 6; i++)
		if (cmd->arg[i])
			return false;
	return true;
}

/* NULL if there is none or it is on its way out. */
static struct context *find_ctx(struct openreg_card *card, uint32_t id)
{
	struct context *ctx;

	if (id >= OPENREG_MAX_CONTEXTS)
		return NULL;
	ctx = card->ctx[id];
	return ctx && !ctx->dying ? ctx : NULL;
}

struct admin_result admin_ctx_create(struct openreg_card *card,
				     const struct openreg_admin_cmd *cmd,
				     uint32_t index)
{
	struct context *ctx;

	(void)index;
	if (cmd->ctx >= OPENREG_MAX_CONTEXTS || cmd->id || !no_args(cmd))
		return RESULT(EINVAL);
	if (card->ctx[cmd->ctx])
		return RESULT(EEXIST);
	ctx = context_new(cmd->ctx);
	if (!ctx)
		return RESULT(ENOMEM);
	pthread_mutex_lock(&card->sched.lock);
	ctx->vruntime = card->sched.min_vruntime;
	card->ctx[cmd->ctx] = ctx;
	pthread_mutex_unlock(&card->sched.lock);
	return RESULT(OK);
}

struct admin_result admin_ctx_destroy(struct openreg_card *card,
				      const struct openreg_admin_cmd *cmd,
				      uint32_t index)
{
	struct context *ctx = find_ctx(card, cmd->ctx);
	unsigned int i;

	(void)index;
	if (cmd->id || !no_args(cmd))
		return RESULT(EINVAL);
	if (!ctx)
		return RESULT(ENOENT);
	ctx->dying = true;
	for (i = 0; i < OPENREG_MAX_QUEUES; i++)
		if (card->queue[i] && card->queue[i]->ctx == ctx)
			queue_request_stop(card->queue[i]);
	return LATE;
}

/* Its queues are freed one by one as they come to rest. */
bool admin_ctx_gone(struct openreg_card *card, const struct pending *p)
{
	struct context *ctx = card->ctx[p->ctx];
	struct pending q = { .ctx = p->ctx };
	bool left = false;

	if (!ctx)
		return true;
	for (q.id = 0; q.id < OPENREG_MAX_QUEUES; q.id++)
		if (card->queue[q.id] && card->queue[q.id]->ctx == ctx)
			left |= !admin_queue_gone(card, &q);
	if (left)
		return false;
	pthread_mutex_lock(&card->sched.lock);
	card->ctx[p->ctx] = NULL;
	pthread_mutex_unlock(&card->sched.lock);
	context_free(card, ctx);
	return true;
}

struct admin_result admin_seg_bind(struct openreg_card *card,
				   const struct openreg_admin_cmd *cmd,
				   uint32_t index)
{
	struct context *ctx = find_ctx(card, cmd->ctx);
	struct segment *seg;
	uint32_t status;

	(void)index;
	if (!ctx)
		return RESULT(ENOENT);
	if (!cmd->id || cmd->id >= OPENREG_MAX_SEGMENTS)
		return RESULT(EINVAL);
	if (ctx->segs[cmd->id])
		return RESULT(EEXIST);
	seg = segment_new(card, cmd, &status);
	if (!seg)
		return (struct admin_result){ .status = status };
	pthread_mutex_lock(&ctx->lock);
	ctx->segs[cmd->id] = seg;
	pthread_mutex_unlock(&ctx->lock);
	return RESULT(OK);
}

/* Never late, or one user's packet could hold up every user's commands. */
struct admin_result admin_seg_unbind(struct openreg_card *card,
				     const struct openreg_admin_cmd *cmd,
				     uint32_t index)
{
	struct context *ctx = find_ctx(card, cmd->ctx);
	struct segment *seg;
	bool busy;

	(void)index;
	if (!no_args(cmd))
		return RESULT(EINVAL);
	if (!ctx || cmd->id >= OPENREG_MAX_SEGMENTS || !ctx->segs[cmd->id])
		return RESULT(ENOENT);
	pthread_mutex_lock(&ctx->lock);
	seg = ctx->segs[cmd->id];
	seg->dead = true;
	busy = seg->refs;
	if (!busy)
		ctx->segs[cmd->id] = NULL;
	pthread_mutex_unlock(&ctx->lock);
	if (busy)
		return RESULT(EBUSY);
	segment_free(card, seg);
	return RESULT(OK);
}

static bool fill_ok(const struct openreg_card *card,
		    const struct openreg_admin_cmd *cmd)
{
	uint64_t size = card->config.vram_size;

	return !cmd->ctx && !cmd->id && !(cmd->fill.offset % 4096) &&
	       !(cmd->fill.length % 4096) && cmd->fill.length <= size &&
	       cmd->fill.offset <= size - cmd->fill.length &&
	       cmd->fill.value <= 255 && !cmd->arg[3] && !cmd->arg[4] &&
	       !cmd->arg[5];
}

/* sched.lock is held. They are served in this order. */
void fill_append(struct openreg_card *card, struct fill *fill)
{
	struct fill **link = &card->sched.fills;

	while (*link)
		link = &(*link)->next;
	fill->next = NULL;
	*link = fill;
}

struct admin_result admin_fill(struct openreg_card *card,
			       const struct openreg_admin_cmd *cmd,
			       uint32_t index)
{
	struct fill *fill;

	if (!fill_ok(card, cmd))
		return RESULT(EINVAL);
	if (cmd->fill.length <= FILL_AT_ONCE) {
		memset(card_vram(card) + cmd->fill.offset, (int)cmd->fill.value,
		       cmd->fill.length);
		card->ops->vram_written(card->host, cmd->fill.offset,
					cmd->fill.length);
		return RESULT(OK);
	}
	fill = calloc(1, sizeof(*fill));
	if (!fill)
		return RESULT(ENOMEM);
	fill->off = cmd->fill.offset;
	fill->end = cmd->fill.offset + cmd->fill.length;
	fill->value = (uint8_t)cmd->fill.value;
	fill->index = index;
	pthread_mutex_lock(&card->sched.lock);
	fill_append(card, fill);
	pthread_mutex_unlock(&card->sched.lock);
	gate_kick_copy(card);
	return LATE;
}

bool admin_fill_done(struct openreg_card *card, const struct pending *p)
{
	struct fill **link, *fill;

	pthread_mutex_lock(&card->sched.lock);
	for (link = &card->sched.fills; (fill = *link); link = &fill->next)
		if (fill->index == p->index)
			break;
	if (fill && fill->off < fill->end) {
		pthread_mutex_unlock(&card->sched.lock);
		return false;
	}
	if (fill)
		*link = fill->next;
	pthread_mutex_unlock(&card->sched.lock);
	free(fill);
	return true;
}
