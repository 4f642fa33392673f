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
	uint32_t flags;
	uint32_t seg;
	uint64_t size;
	uint64_t offset; /* in VRAM */
	void *pages; /* SYSTEM */
	struct sim_bo *next; /* of those that are closing */
};

static uint64_t *held(struct transport *t, const struct sim_bo *bo)
{
	if (bo->flags & OPENREG_BO_VRAM)
		return &t->process_vram;
	return bo->flags & OPENREG_BO_SYSTEM ? &t->process_system :
					       &t->process_pinned;
}

/* All that is free is zero. */
static void free_vram(struct sim_card *c, const struct sim_bo *bo)
{
	const struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_FILL,
		.fill = { .offset = bo->offset, .length = bo->size },
	};

	if (sim_admin(c, &cmd))
		return;
	pthread_mutex_lock(&c->lock);
	sim_extents_give(&c->free, bo->offset, bo->size);
	pthread_mutex_unlock(&c->lock);
}

static void free_memory(struct sim_card *c, struct sim_bo *bo)
{
	if (bo->flags & OPENREG_BO_VRAM)
		free_vram(c, bo);
	else if (bo->flags & OPENREG_BO_SYSTEM)
		munmap(bo->pages, bo->size);
	free(bo);
}

/* The card has let go of it. */
static void release(struct transport *t, struct sim_bo *bo)
{
	pthread_mutex_lock(&t->lock);
	t->segs[bo->seg] = NULL;
	pthread_mutex_unlock(&t->lock);
	free_memory(t->card, bo);
}

/* -EBUSY while a packet uses it. */
static int unbind(struct transport *t, struct sim_bo *bo)
{
	const struct openreg_admin_cmd cmd = {
		.opcode = OPENREG_ADMIN_SEG_UNBIND,
		.ctx = t->ctx,
		.id = bo->seg,
	};

	return sim_admin(t->card, &cmd);
}

/* Asks again for what is closing; true if some of it is still in use. */
static bool sweep(struct transport *t)
{
	struct sim_bo *list, *bo;
	bool busy = false;

	pthread_mutex_lock(&t->lock);
	list = t->closing;
	t->closing = NULL;
	pthread_mutex_unlock(&t->lock);
	while ((bo = list)) {
		list = bo->next;
		if (unbind(t, bo) != -EBUSY) {
			release(t, bo);
			continue;
		}
		busy = true;
		pthread_mutex_lock(&t->lock);
		bo->next = t->closing;
		t->closing = bo;
		pthread_mutex_unlock(&t->lock);
	}
	return busy;
}

static int take_seg(struct transport *t, struct sim_bo *bo)
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
	pthread_mutex_unlock(&t->lock);
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

static int take_vram(struct transport *t, struct sim_bo *bo)
{
	const int64_t end = sim_now() + PATIENCE_NS;
	struct sim_card *c = t->card;
	bool busy;
	int ret;

	for (;;) {
		busy = sweep(t);
		pthread_mutex_lock(&c->lock);
		ret = sim_extents_take(&c->free, bo->size, &bo->offset);
		pthread_mutex_unlock(&c->lock);
		if (!ret || !busy || sim_now() > end)
			return ret;
		sim_sleep_ms(1);
	}
}

static int create_vram(struct transport *t, struct sim_bo *bo)
{
	struct openreg_admin_cmd cmd = { .seg.kind = OPENREG_SEG_VRAM };
	int ret = take_vram(t, bo);

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

	sweep(t);
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

static struct sim_bo *bo_new(uint64_t size, uint32_t flags)
{
	struct sim_bo *bo = calloc(1, sizeof(*bo));

	if (bo) {
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
	bo = bo_new((size + SIM_PAGE - 1) & ~(SIM_PAGE - 1ull), flags);
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
	sweep(t);
	bo = bo_new(size, flags);
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

	while (unbind(t, bo) == -EBUSY) {
		sim_sleep_ms(ms);
		if (ms < BACKOFF_MS)
			ms *= 2;
		if (sim_now() > stuck) {
			sim_queues_stop(t);
			stuck = INT64_MAX;
		}
	}
	release(t, bo);
}

void sim_bo_close(struct transport *t, uint32_t handle)
{
	struct sim_bo *bo;

	sweep(t);
	pthread_mutex_lock(&t->lock);
	bo = t->segs[handle];
	*held(t, bo) -= bo->size;
	pthread_mutex_unlock(&t->lock);

	if (!(bo->flags & (OPENREG_BO_VRAM | OPENREG_BO_SYSTEM))) {
		wait_unbound(t, bo);
	} else if (unbind(t, bo) != -EBUSY) {
		release(t, bo);
	} else {
		pthread_mutex_lock(&t->lock);
		bo->next = t->closing;
		t->closing = bo;
		pthread_mutex_unlock(&t->lock);
	}
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

	sweep(t);
	info->vram_total = c->vram_size;
	pthread_mutex_lock(&c->lock);
	sim_extents_sum(&c->free, &info->vram_free, &info->vram_largest);
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_lock(&t->lock);
	info->process_vram = t->process_vram;
	info->process_system = t->process_system;
	info->process_pinned = t->process_pinned;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

/* After CTX_DESTROY: no packet is left that could use any of it. */
void sim_memory_close(struct transport *t)
{
	for (uint32_t seg = 0; seg < OPENREG_MAX_SEGMENTS; seg++)
		if (t->segs[seg])
			free_memory(t->card, t->segs[seg]);
}
