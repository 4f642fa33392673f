// SPDX-License-Identifier: MIT
/* Buffer objects: memory, and the segment that is its address. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define LIST_SHIFT 21
#define PATIENCE_NS 10000000000ll /* for memory that is on its way back */
#define STUCK_NS 20000000000ll /* until a queue that keeps it is stopped */
#define BACKOFF_MS 64

struct sim_bo {
	struct transport *t;
	uint32_t flags;
	uint32_t seg;
	uint64_t size;
	uint64_t offset; /* in VRAM */
	void *pages; /* SYSTEM */
	bool closing;
	struct sim_bo *next; /* of those that a packet uses still */
};

static uint64_t *held(struct transport *t, const struct sim_bo *bo)
{
	if (bo->flags & OPENREG_BO_VRAM)
		return &t->process_vram;
	return bo->flags & OPENREG_BO_SYSTEM ? &t->process_system :
					       &t->process_pinned;
}

static uint64_t vram_of(const struct sim_bo *bo)
{
	return bo->flags & OPENREG_BO_VRAM ? bo->size : 0;
}

/* All that is free is zero; the card's lock is not held. */
static void free_vram(struct sim_card *c, const struct sim_bo *bo)
{
	const struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_FILL,
		.fill = { .offset = bo->offset, .length = bo->size },
	};
	int ret = sim_admin(c, &cmd);

	pthread_mutex_lock(&c->lock);
	if (!ret)
		sim_extents_give(&c->free, bo->offset, bo->size);
	c->freeing -= bo->size;
	pthread_mutex_unlock(&c->lock);
}

/* What counted as closing, and of which the card has let go. */
static void free_memory(struct sim_card *c, struct sim_bo *bo)
{
	pthread_mutex_lock(&c->lock);
	c->closing_vram -= vram_of(bo);
	c->freeing += vram_of(bo);
	pthread_mutex_unlock(&c->lock);
	if (bo->flags & OPENREG_BO_VRAM)
		free_vram(c, bo);
	else if (bo->flags & OPENREG_BO_SYSTEM)
		munmap(bo->pages, bo->size);
	free(bo);
}

static void free_seg(struct sim_bo *bo)
{
	struct transport *t = bo->t;

	pthread_mutex_lock(&t->lock);
	t->segs[bo->seg] = NULL;
	t->closing--;
	pthread_mutex_unlock(&t->lock);
}

/* The card has let go of it. */
static void release(struct sim_bo *bo)
{
	struct sim_card *c = bo->t->card;

	free_seg(bo);
	free_memory(c, bo);
}

/* -EBUSY while a packet uses it. */
static int unbind(const struct sim_bo *bo)
{
	const struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_SEG_UNBIND,
		.ctx = bo->t->ctx,
		.id = bo->seg,
	};

	return sim_admin(bo->t->card, &cmd);
}

static void close_later(struct sim_card *c, struct sim_bo *bo)
{
	pthread_mutex_lock(&c->lock);
	bo->next = c->closing;
	c->closing = bo;
	pthread_mutex_unlock(&c->lock);
}

/*
 * Asks again for what is closing, of all who have the card open. Their
 * contexts are there as long as the sweep is held.
 */
static void sweep(struct sim_card *c)
{
	struct sim_bo *list, *bo, *over = NULL;

	if (pthread_mutex_trylock(&c->sweep))
		return;
	pthread_mutex_lock(&c->lock);
	list = c->closing;
	c->closing = NULL;
	pthread_mutex_unlock(&c->lock);
	while ((bo = list)) {
		list = bo->next;
		if (unbind(bo) == -EBUSY) {
			close_later(c, bo);
			continue;
		}
		free_seg(bo);
		bo->next = over;
		over = bo;
	}
	pthread_mutex_unlock(&c->sweep);
	while ((bo = over)) {
		over = bo->next;
		free_memory(c, bo);
	}
}

static int find_seg(struct transport *t, struct sim_bo *bo, bool *coming)
{
	const uint32_t num = t->card->info.max_segments;
	int ret = -ENOSPC;

	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; ret && i < num; i++) {
		uint32_t seg = 1 + (t->next_seg + i) % num;

		if (t->segs[seg])
			continue;
		t->segs[seg] = bo;
		bo->seg = seg;
		/* The next one gets another number: stale pointers fault. */
		t->next_seg = seg % num;
		ret = 0;
	}
	*coming = t->closing;
	pthread_mutex_unlock(&t->lock);
	return ret;
}

/* As with VRAM: waits for one that is on its way back. */
static int take_seg(struct transport *t, struct sim_bo *bo)
{
	const int64_t end = sim_now() + PATIENCE_NS;
	bool coming;
	int ret;

	while ((ret = find_seg(t, bo, &coming)) && coming && sim_now() < end) {
		sim_sleep_ms(1);
		sweep(t->card);
	}
	return ret;
}

static int bind(struct transport *t, struct sim_bo *bo,
		struct openreg_admin_cmd *cmd)
{
	int ret = take_seg(t, bo);

	if (ret)
		return ret;
	cmd->opcode = OPENREG_ADMIN_SEG_BIND;
	cmd->ctx = t->ctx;
	cmd->id = bo->seg;
	cmd->seg.perm = OPENREG_SEG_READ;
	if (!(bo->flags & OPENREG_BO_READONLY))
		cmd->seg.perm |= OPENREG_SEG_WRITE;
	ret = sim_admin(t->card, cmd);
	pthread_mutex_lock(&t->lock);
	if (ret)
		t->segs[bo->seg] = NULL;
	else
		*held(t, bo) += bo->size;
	pthread_mutex_unlock(&t->lock);
	return ret;
}

/* A list of large pages that hold the range, wherever it begins. */
static int bind_memory(struct transport *t, struct sim_bo *bo, uintptr_t at)
{
	const uint64_t page = 1ull << LIST_SHIFT;
	uintptr_t first = at & ~(page - 1);
	uint64_t num = (at + bo->size - first + page - 1) >> LIST_SHIFT;
	struct openreg_admin_cmd cmd = {
		.seg = {
			.kind = OPENREG_SEG_SYSTEM,
			.length = bo->size,
			.npages = num,
			.page_shift = LIST_SHIFT,
			.offset = (uint32_t)(at - first),
		},
	};
	uint64_t *list = malloc(num * sizeof(*list));
	int ret;

	if (!list)
		return -ENOMEM;
	for (uint64_t i = 0; i < num; i++)
		list[i] = first + i * page;
	cmd.seg.base = (uintptr_t)list;
	ret = bind(t, bo, &cmd);
	free(list);
	return ret;
}

static int find_vram(struct sim_card *c, struct sim_bo *bo, bool *coming)
{
	int ret;

	pthread_mutex_lock(&c->lock);
	ret = sim_extents_take(&c->free, bo->size, &bo->offset);
	*coming = c->freeing || c->closing_vram;
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* Waits for memory that is on its way back before it gives up. */
static int take_vram(struct sim_card *c, struct sim_bo *bo)
{
	const int64_t end = sim_now() + PATIENCE_NS;
	bool coming;
	int ret;

	if (bo->size > c->vram_size)
		return -ENOSPC;
	sweep(c);
	while ((ret = find_vram(c, bo, &coming)) && coming && sim_now() < end) {
		sim_sleep_ms(1);
		sweep(c);
	}
	return ret;
}

static int create_vram(struct transport *t, struct sim_bo *bo)
{
	struct openreg_admin_cmd cmd = { .seg.kind = OPENREG_SEG_VRAM };
	int ret = take_vram(t->card, bo);

	if (ret)
		return ret;
	cmd.seg.length = bo->size;
	cmd.seg.base = bo->offset;
	ret = bind(t, bo, &cmd);
	if (ret) {
		pthread_mutex_lock(&t->card->lock);
		sim_extents_give(&t->card->free, bo->offset, bo->size);
		pthread_mutex_unlock(&t->card->lock);
	}
	return ret;
}

/* As the kernel's driver: half of the machine's memory. */
static bool too_much_system(struct transport *t, uint64_t size)
{
	uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 *
			(uint64_t)sysconf(_SC_PAGESIZE);

	return size > half || t->process_system > half - size;
}

static int create_system(struct transport *t, struct sim_bo *bo)
{
	int ret;

	sweep(t->card);
	if (too_much_system(t, bo->size))
		return -ENOMEM;
	bo->pages = sim_pages(bo->size);
	if (!bo->pages)
		return -ENOMEM;
	ret = bind_memory(t, bo, (uintptr_t)bo->pages);
	if (ret)
		munmap(bo->pages, bo->size);
	return ret;
}

static struct sim_bo *bo_new(struct transport *t, uint64_t size,
			     uint32_t flags)
{
	struct sim_bo *bo = calloc(1, sizeof(*bo));

	if (bo) {
		bo->t = t;
		bo->size = size;
		bo->flags = flags;
	}
	return bo;
}

/* For those who map it the offset in VRAM, or the pages themselves. */
static void describe(const struct transport *t, const struct sim_bo *bo,
		     struct transport_bo *out)
{
	out->size = bo->size;
	out->address = OPENREG_ADDR(t->card->index, bo->seg, 0);
	out->handle = bo->seg;
	out->map_offset = 0;
	if (bo->flags & OPENREG_BO_VRAM)
		out->map_offset = (uintptr_t)t->card->vram + bo->offset;
	else if (bo->flags & OPENREG_BO_SYSTEM)
		out->map_offset = (uintptr_t)bo->pages;
}

int sim_bo_create(struct transport *t, uint64_t size, uint32_t flags,
		  struct transport_bo *out)
{
	struct sim_bo *bo;
	int ret;

	if (!size || size > t->card->info.max_bo_size ||
	    (flags != OPENREG_BO_VRAM && flags != OPENREG_BO_SYSTEM))
		return -EINVAL;
	bo = bo_new(t, (size + SIM_PAGE - 1) & ~(SIM_PAGE - 1ull), flags);
	if (!bo)
		return -ENOMEM;
	ret = flags == OPENREG_BO_VRAM ? create_vram(t, bo) :
					 create_system(t, bo);
	if (ret)
		free(bo);
	else
		describe(t, bo, out);
	return ret;
}

int sim_mem_register(struct transport *t, void *ptr, uint64_t size,
		     uint32_t flags, struct transport_bo *out)
{
	struct sim_bo *bo;
	int ret;

	if (!size || size > t->card->info.max_bo_size ||
	    (uintptr_t)ptr + size < size || flags & ~OPENREG_BO_READONLY)
		return -EINVAL;
	ret = sim_check_user_memory(ptr, size, !(flags & OPENREG_BO_READONLY));
	if (ret)
		return ret;
	sweep(t->card);
	bo = bo_new(t, size, flags);
	if (!bo)
		return -ENOMEM;
	ret = bind_memory(t, bo, (uintptr_t)ptr);
	if (ret)
		free(bo);
	else
		describe(t, bo, out);
	return ret;
}

/*
 * Nothing is pinned: its owner may free the memory as soon as this returns, so
 * this waits until no packet uses it. A queue that never ends is stopped.
 */
static void wait_unbound(struct transport *t, struct sim_bo *bo)
{
	int64_t stuck = sim_now() + STUCK_NS;
	unsigned int ms = 1;

	while (unbind(bo) == -EBUSY) {
		sim_sleep_ms(ms);
		if (ms < BACKOFF_MS)
			ms *= 2;
		if (sim_now() > stuck) {
			sim_queues_stop(t);
			stuck = INT64_MAX;
		}
	}
	release(bo);
}

/* From now on others wait for its memory rather than fail. */
static struct sim_bo *begin_close(struct transport *t, uint32_t handle)
{
	struct sim_card *c = t->card;
	struct sim_bo *bo;

	pthread_mutex_lock(&t->lock);
	bo = t->segs[handle];
	pthread_mutex_lock(&c->lock);
	bo->closing = true;
	c->closing_vram += vram_of(bo);
	pthread_mutex_unlock(&c->lock);
	*held(t, bo) -= bo->size;
	t->closing++;
	pthread_mutex_unlock(&t->lock);
	return bo;
}

void sim_bo_close(struct transport *t, uint32_t handle)
{
	struct sim_bo *bo;

	if (sim_stopped())
		return;
	sweep(t->card);
	bo = begin_close(t, handle);
	if (!(bo->flags & (OPENREG_BO_VRAM | OPENREG_BO_SYSTEM)))
		wait_unbound(t, bo);
	else if (unbind(bo) != -EBUSY)
		release(bo);
	else
		close_later(t->card, bo);
}

int sim_map(struct transport *t, const struct transport_bo *bo, void **ptr)
{
	(void)t;
	*ptr = sim_pages_again((void *)(uintptr_t)bo->map_offset, bo->size);
	return *ptr ? 0 : -ENOMEM;
}

void sim_unmap(void *ptr, size_t size)
{
	munmap(ptr, size);
}

int sim_memory(struct transport *t, struct openreg_memory_info *info)
{
	struct sim_card *c = t->card;

	sweep(c);
	info->vram_total = c->vram_size;
	pthread_mutex_lock(&c->lock);
	sim_extents_sum(&c->free, &info->vram_free, &info->vram_largest);
	info->vram_free += c->freeing;
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_lock(&t->lock);
	info->process_vram = t->process_vram;
	info->process_system = t->process_system;
	info->process_pinned = t->process_pinned;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

/*
 * Before CTX_DESTROY, which takes the segments and waits for the packets: from
 * then on an unbind that fails does not say that nothing uses the memory.
 */
void sim_memory_detach(struct transport *t)
{
	struct sim_card *c = t->card;
	struct sim_bo **at;

	pthread_mutex_lock(&c->sweep);
	pthread_mutex_lock(&c->lock);
	for (at = &c->closing; *at;) {
		if ((*at)->t == t)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
	for (uint32_t seg = 0; seg < OPENREG_MAX_SEGMENTS; seg++)
		if (t->segs[seg] && !t->segs[seg]->closing)
			c->closing_vram += vram_of(t->segs[seg]);
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_unlock(&c->sweep);
}

/* After CTX_DESTROY: no packet is left that could use any of it. */
void sim_memory_close(struct transport *t)
{
	for (uint32_t seg = 0; seg < OPENREG_MAX_SEGMENTS; seg++)
		if (t->segs[seg])
			free_memory(t->card, t->segs[seg]);
}
