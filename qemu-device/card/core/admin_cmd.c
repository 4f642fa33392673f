/* SPDX-License-Identifier: MIT */
/* Admin commands for contexts, segments and fills. */
#include "core.h"
#include "fill.h"
#include "queue.h"

#define RESULT(s) ((struct admin_result){ .status = OPENREG_ADMIN_##s })
#define LATE ((struct admin_result){ .late = true })

static bool no_args(const struct openreg_admin_cmd *cmd, unsigned int from)
{
	unsigned int i;

	for (i = from; i < 6; i++)
		if (cmd->arg[i])
			return false;
	return true;
}

/* Returns NULL if the context does not exist or CTX_DESTROY has started on it. */
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
	uint64_t released = cmd->create.released;
	struct context *ctx;

	(void)index;
	if (cmd->ctx >= OPENREG_MAX_CONTEXTS || cmd->id || !no_args(cmd, 1) ||
	    released % OPENREG_QUEUE_PAGE_SIZE)
		return RESULT(EINVAL);
	if (card->ctx[cmd->ctx])
		return RESULT(EEXIST);
	ctx = context_new(cmd->ctx);
	if (!ctx)
		return RESULT(ENOMEM);
	if (released && !context_map_released(card, ctx, released)) {
		context_free(card, ctx);
		return RESULT(EDMA);
	}
	if (released)
		context_clear_released(card, ctx);
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
	if (cmd->id || !no_args(cmd, 0))
		return RESULT(EINVAL);
	if (!ctx)
		return RESULT(ENOENT);
	ctx->dying = true;
	for (i = 0; i < OPENREG_MAX_QUEUES; i++)
		if (card->queue[i] && card->queue[i]->ctx == ctx)
			queue_request_stop(card->queue[i]);
	return LATE;
}

/* Frees each queue of the context once it has stopped; last, the context. */
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
	if (left || ctx->ndead)
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
	seg->ctx = ctx;
	seg->id = cmd->id;
	pthread_mutex_lock(&ctx->lock);
	ctx->segs[cmd->id] = seg;
	pthread_mutex_unlock(&ctx->lock);
	context_set_released(card, ctx, cmd->id, false);
	return RESULT(OK);
}

struct admin_result admin_seg_unbind(struct openreg_card *card,
				     const struct openreg_admin_cmd *cmd,
				     uint32_t index)
{
	struct context *ctx = find_ctx(card, cmd->ctx);
	bool clear = cmd->unbind.flags;
	struct segment *seg;

	(void)index;
	if (!no_args(cmd, 1) || cmd->unbind.flags & ~OPENREG_UNBIND_CLEAR)
		return RESULT(EINVAL);
	if (!ctx || cmd->id >= OPENREG_MAX_SEGMENTS)
		return RESULT(ENOENT);
	seg = ctx->segs[cmd->id];
	if (!seg || seg->dead)
		return RESULT(ENOENT);
	if (clear && seg->kind != OPENREG_SEG_VRAM)
		return RESULT(EINVAL);
	return (struct admin_result){
		.result = segment_kill(card, seg, clear),
	};
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

struct admin_result admin_fill(struct openreg_card *card,
			       const struct openreg_admin_cmd *cmd,
			       uint32_t index)
{
	uint8_t value = (uint8_t)cmd->fill.value;
	struct fill *fill;

	if (!fill_ok(card, cmd))
		return RESULT(EINVAL);
	if (fill_is_short(cmd->fill.length)) {
		fill_now(card, cmd->fill.offset, cmd->fill.length, value);
		return RESULT(OK);
	}
	fill = fill_new(cmd->fill.offset, cmd->fill.length, value);
	if (!fill)
		return RESULT(ENOMEM);
	fill->index = index;
	fill_begin(card, fill);
	return LATE;
}

bool admin_fill_done(struct openreg_card *card, const struct pending *p)
{
	struct fill *fill;

	pthread_mutex_lock(&card->sched.lock);
	for (fill = card->sched.fills; fill; fill = fill->next)
		if (fill->index == p->index)
			break;
	pthread_mutex_unlock(&card->sched.lock);
	return !fill || fill_end(card, fill);
}
