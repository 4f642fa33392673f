/* SPDX-License-Identifier: MIT */
/* Segments: binding them, and DMA to those in system memory. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "core.h"
#include "queue.h"

#define LIST_CHUNK 512 /* entries of a page list read at once */

static bool vram_ok(const struct openreg_card *card,
		    const struct openreg_admin_cmd *cmd)
{
	uint64_t size = card->config.vram_size;

	return !cmd->seg.npages && !cmd->seg.page_shift && !cmd->seg.offset &&
	       !(cmd->seg.base % OPENREG_QUEUE_PAGE_SIZE) &&
	       cmd->seg.length <= size &&
	       cmd->seg.base <= size - cmd->seg.length;
}

static bool list_ok(const struct openreg_admin_cmd *cmd)
{
	uint32_t shift = cmd->seg.page_shift;
	uint64_t end = cmd->seg.offset + cmd->seg.length;

	return (shift == 12 || shift == 21) && cmd->seg.offset < 1u << shift &&
	       !(cmd->seg.base % 8) &&
	       cmd->seg.npages == (end + (1ULL << shift) - 1) >> shift;
}

static bool bind_ok(const struct openreg_card *card,
		    const struct openreg_admin_cmd *cmd)
{
	if (!cmd->seg.length ||
	    cmd->seg.length > 1ULL << OPENREG_ADDR_OFFSET_BITS ||
	    !cmd->seg.perm ||
	    cmd->seg.perm & ~(OPENREG_SEG_READ | OPENREG_SEG_WRITE) ||
	    cmd->seg.reserved)
		return false;
	switch (cmd->seg.kind) {
	case OPENREG_SEG_VRAM:
		return vram_ok(card, cmd);
	case OPENREG_SEG_SYSTEM:
	case OPENREG_SEG_PEER:
		return list_ok(cmd);
	}
	return false;
}

/* Adds the page at segment offset off to the last run, or to a new one. */
static uint32_t add_page(struct openreg_card *card, struct segment *seg,
			 uint32_t *room, uint64_t off, uint64_t bus)
{
	struct run *last = seg->nruns ? &seg->runs[seg->nruns - 1] : NULL;

	if (last && last->bus + (off - last->off) == bus)
		return OPENREG_ADMIN_OK;
	if (card->nruns >= OPENREG_MAX_RUNS)
		return OPENREG_ADMIN_ENOMEM;
	if (seg->nruns == *room) {
		uint32_t more = *room ? *room * 2 : 4;
		struct run *runs = realloc(seg->runs, more * sizeof(*runs));

		if (!runs)
			return OPENREG_ADMIN_ENOMEM;
		seg->runs = runs;
		*room = more;
	}
	seg->runs[seg->nruns++] = (struct run){ .off = off, .bus = bus };
	card->nruns++;
	return OPENREG_ADMIN_OK;
}

static uint32_t read_list(struct openreg_card *card, struct segment *seg,
			  const struct openreg_admin_cmd *cmd)
{
	uint64_t page = 1ULL << cmd->seg.page_shift, list[LIST_CHUNK], i, j, n;
	uint32_t room = 0, status;

	for (i = 0; i < cmd->seg.npages; i += n) {
		n = cmd->seg.npages - i;
		n = n < LIST_CHUNK ? n : LIST_CHUNK;
		if (gate_held(card))
			return ADMIN_AGAIN;
		if (card->ops->dma_read(card->host, cmd->seg.base + i * 8, list,
					n * 8))
			return OPENREG_ADMIN_EDMA;
		for (j = 0; j < n; j++) {
			uint64_t first = i + j ? 0 : cmd->seg.offset;
			uint64_t off = (i + j) * page + first - cmd->seg.offset;

			if (list[j] % page || list[j] > UINT64_MAX - page)
				return OPENREG_ADMIN_EINVAL;
			status = add_page(card, seg, &room, off,
					  list[j] + first);
			if (status)
				return status;
		}
	}
	return OPENREG_ADMIN_OK;
}

struct segment *segment_new(struct openreg_card *card,
			    const struct openreg_admin_cmd *cmd,
			    uint32_t *status)
{
	struct segment *seg;

	*status = OPENREG_ADMIN_EINVAL;
	if (!bind_ok(card, cmd))
		return NULL;
	*status = OPENREG_ADMIN_ENOMEM;
	seg = calloc(1, sizeof(*seg));
	if (!seg)
		return NULL;
	seg->kind = cmd->seg.kind;
	seg->perm = cmd->seg.perm;
	seg->length = cmd->seg.length;
	seg->base = seg->kind == OPENREG_SEG_VRAM ? cmd->seg.base : 0;
	*status = OPENREG_ADMIN_OK;
	if (seg->kind != OPENREG_SEG_VRAM)
		*status = read_list(card, seg, cmd);
	if (*status) {
		segment_free(card, seg);
		return NULL;
	}
	return seg;
}

void segment_free(struct openreg_card *card, struct segment *seg)
{
	card->nruns -= seg->nruns;
	openreg_check_memory_free(seg->check);
	free(seg->runs);
	free(seg);
}

void segments_put(struct queue *q, unsigned int n)
{
	bool release = false;
	unsigned int i;

	pthread_mutex_lock(&q->ctx->lock);
	for (i = 0; i < n; i++) {
		struct segment *seg = q->reach[i].seg;

		q->reach[i].seg = NULL;
		if (seg && !--seg->refs)
			release |= seg->dead;
	}
	pthread_mutex_unlock(&q->ctx->lock);
	if (release)
		gate_kick_admin(q->card);
}

/* Drops a reference of segment_get(). */
void segment_put(struct queue *q, struct segment *seg)
{
	bool release;

	pthread_mutex_lock(&q->ctx->lock);
	release = !--seg->refs && seg->dead;
	pthread_mutex_unlock(&q->ctx->lock);
	if (release)
		gate_kick_admin(q->card);
}

/* Returns the bus address of a byte; *left: adjacent bytes on the bus from there on. */
uint64_t segment_bus(const struct segment *seg, uint64_t off, uint64_t *left)
{
	uint32_t lo = 0, hi = seg->nruns;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (seg->runs[mid].off <= off)
			lo = mid;
		else
			hi = mid;
	}
	*left = (hi < seg->nruns ? seg->runs[hi].off : seg->length) - off;
	return seg->runs[lo].bus + (off - seg->runs[lo].off);
}

int segment_read(struct queue *q, const struct segment *seg, uint64_t off,
		 void *buf, uint64_t len)
{
	struct openreg_card *card = q->card;
	uint8_t *to = buf;

	atomic_fetch_add(&q->dma_read, len);
	atomic_fetch_add(&card->stats.dma_read, len);
	while (len) {
		uint64_t n, bus = segment_bus(seg, off, &n);

		n = n < len ? n : len;
		n = n < OPENREG_DMA_MAX ? n : OPENREG_DMA_MAX;
		if (card->ops->dma_read(card->host, bus, to, n))
			return -1;
		to += n;
		off += n;
		len -= n;
	}
	return 0;
}

int segment_write(struct queue *q, const struct segment *seg, uint64_t off,
		  const void *buf, uint64_t len)
{
	struct openreg_card *card = q->card;
	const uint8_t *from = buf;

	atomic_fetch_add(&q->dma_written, len);
	atomic_fetch_add(&card->stats.dma_written, len);
	while (len) {
		uint64_t n, bus = segment_bus(seg, off, &n);

		n = n < len ? n : len;
		n = n < OPENREG_DMA_MAX ? n : OPENREG_DMA_MAX;
		if (card->ops->dma_write(card->host, bus, from, n))
			return -1;
		from += n;
		off += n;
		len -= n;
	}
	return 0;
}

/* Writes bytes at an address, if a packet of the queue may. Returns 0 or -1. */
int segment_store(struct queue *q, uint64_t addr, const void *bytes, uint64_t len)
{
	struct openreg_card *card = q->card;
	struct segment *seg = segment_get(q, addr, len);
	uint64_t off = OPENREG_ADDR_OFFSET(addr);
	int r = 0;

	if (!seg)
		return -1;
	if (seg->kind == OPENREG_SEG_VRAM) {
		memcpy(card_vram(card) + seg->base + off, bytes, len);
		card->ops->vram_written(card->host, seg->base + off, len);
	} else {
		r = segment_write(q, seg, off, bytes, len);
	}
	segment_put(q, seg);
	return r;
}
