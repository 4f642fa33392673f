// SPDX-License-Identifier: MIT
/* Buffer objects: memory, and the segment that is its address. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define LIST_SHIFT 21
#define PATIENCE_NS 10000000000ll /* longest wait for memory of closed objects */
#define STUCK_NS 20000000000ll /* then a queue that still uses the memory stops */

static uint64_t *held(struct transport *t, const struct sim_bo *bo)
{
	if (bo->flags & OPENREG_BO_VRAM)
		return &t->process_vram;
	return bo->flags & OPENREG_BO_SYSTEM ? &t->process_system :
					       &t->process_pinned;
}

static bool is_released(const struct sim_bo *bo)
{
	__u64 *word = &bo->t->released->bits[bo->seg / 64];

	return __atomic_load_n(word, __ATOMIC_SEQ_CST) >> bo->seg % 64 & 1;
}

static bool is_vram(const struct sim_file *f)
{
	return f && f->flags & OPENREG_BO_VRAM && !f->foreign;
}

/* Under the card's lock. True if the caller must free the file with free_file(). */
static bool drop_file(struct sim_card *c, struct sim_file *f)
{
	if (--f->users)
		return false;
	sim_listen_remove(c, f);
	if (is_vram(f))
		c->leaving += f->size;
	return true;
}

/* Frees memory, and gives back VRAM, which is then zeroed. */
static void free_file(struct sim_card *c, struct sim_file *f)
{
	const uint64_t offset = (uint64_t)(f->at - c->vram), size = f->size;
	const bool vram = is_vram(f), alias = f->alias, ok = sim_file_free(f);

	if (!vram && !alias)
		return;
	pthread_mutex_lock(&c->lock);
	if (vram)
		c->leaving -= size;
	if (ok && vram)
		sim_extents_give(&c->free, offset, size);
	else if (ok)
		sim_window_give(c, offset - c->vram_size, size);
	pthread_mutex_unlock(&c->lock);
}

void sim_file_put(struct sim_card *c, struct sim_file *f)
{
	bool last;

	pthread_mutex_lock(&c->lock);
	last = drop_file(c, f);
	pthread_mutex_unlock(&c->lock);
	if (last)
		free_file(c, f);
}

/* Under the card's lock. */
static void forget(struct sim_card *c, struct sim_bo *bo)
{
	bo->t->segs[bo->seg] = NULL;
	if (bo->file && !drop_file(c, bo->file))
		bo->file = NULL;
	if (bo->released)
		*bo->released = true;
}

/* Frees the closed objects that the card has released. Vector 0 calls this function. */
void sim_memory_release(struct sim_card *c)
{
	struct sim_bo **at = &c->closed, *released = NULL, *bo;

	pthread_mutex_lock(&c->lock);
	while ((bo = *at)) {
		if (!is_released(bo)) {
			at = &bo->next;
			continue;
		}
		*at = bo->next;
		forget(c, bo);
		bo->next = released;
		released = bo;
	}
	pthread_mutex_unlock(&c->lock);
	while ((bo = released)) {
		released = bo->next;
		if (bo->file)
			free_file(c, bo->file);
		free(bo);
	}
}

/* Under the card's lock. Has t a closed object, or is VRAM of any open device closed? */
static bool has_closed(const struct sim_card *c, const struct transport *t)
{
	const struct sim_bo *bo = c->closed;

	while (bo && (t ? bo->t != t : !is_vram(bo->file)))
		bo = bo->next;
	return bo || (!t && c->leaving);
}

static int find_vram(struct transport *t, struct sim_bo *bo, bool *coming)
{
	struct sim_card *c = t->card;
	uint64_t offset;
	int ret;

	pthread_mutex_lock(&c->lock);
	ret = sim_extents_take(&c->free, bo->size, &offset);
	*coming = has_closed(c, NULL);
	pthread_mutex_unlock(&c->lock);
	if (ret)
		return ret;
	bo->file = sim_file_new(bo->size, OPENREG_BO_VRAM, c->vram + offset);
	if (bo->file)
		return 0;
	*coming = false;
	pthread_mutex_lock(&c->lock);
	sim_extents_give(&c->free, offset, bo->size);
	pthread_mutex_unlock(&c->lock);
	return -ENOMEM;
}

static int find_seg(struct transport *t, struct sim_bo *bo, bool *coming)
{
	const uint32_t num = t->card->info.max_segments;
	int ret = -ENOSPC;

	pthread_mutex_lock(&t->card->lock);
	for (uint32_t i = 0; ret && i < num; i++) {
		uint32_t seg = 1 + (t->next_seg + i) % num;

		if (t->segs[seg])
			continue;
		t->segs[seg] = bo;
		bo->seg = seg;
		/* Do not reuse a number at once: stale addresses then fault. */
		t->next_seg = seg % num;
		ret = 0;
	}
	*coming = has_closed(t->card, t);
	pthread_mutex_unlock(&t->card->lock);
	return ret;
}

typedef int find_fn(struct transport *t, struct sim_bo *bo, bool *coming);

/* Calls find until it succeeds; waits while closed objects may still free memory. */
static int take(struct transport *t, struct sim_bo *bo, find_fn *find)
{
	const int64_t end = sim_now() + PATIENCE_NS;
	struct sim_vector *v = &t->card->vectors[0];
	int cancel = sim_cancel_off(), ret;
	bool coming;

	pthread_mutex_lock(&v->lock);
	while ((ret = find(t, bo, &coming)) && coming && !sim_stopped() &&
	       !sim_vector_wait(v, end))
		;
	pthread_mutex_unlock(&v->lock);
	sim_cancel_restore(cancel);
	return ret;
}

static int bind(struct transport *t, struct sim_bo *bo,
		struct openreg_admin_cmd *cmd)
{
	int ret = take(t, bo, find_seg);

	if (ret)
		return ret;
	cmd->id = bo->seg;
	cmd->seg.perm = OPENREG_SEG_READ;
	if (!(bo->flags & OPENREG_BO_READONLY))
		cmd->seg.perm |= OPENREG_SEG_WRITE;
	ret = sim_admin(t->card, cmd);
	pthread_mutex_lock(&t->card->lock);
	if (ret)
		t->segs[bo->seg] = NULL;
	else if (!bo->imported)
		*held(t, bo) += bo->size;
	pthread_mutex_unlock(&t->card->lock);
	return ret;
}

static int bind_vram(struct transport *t, struct sim_bo *bo)
{
	struct openreg_admin_cmd cmd = cmd_vram(t->ctx, 0,
						(uint64_t)(bo->file->at - t->card->vram),
						bo->size, 0);

	return bind(t, bo, &cmd);
}

/* Binds a range of any alignment: the page list has the large pages around the range. */
static int bind_memory(struct transport *t, struct sim_bo *bo, uintptr_t at)
{
	const uint64_t page = 1ull << LIST_SHIFT;
	uintptr_t first = at & ~(page - 1);
	uint64_t num = (at + bo->size - first + page - 1) >> LIST_SHIFT;
	uint64_t *list = malloc(num * sizeof(*list));
	struct openreg_admin_cmd cmd;
	int ret;

	if (!list)
		return -ENOMEM;
	for (uint64_t i = 0; i < num; i++)
		list[i] = first + i * page;
	cmd = cmd_pages(t->ctx, 0, (uintptr_t)list, (uint32_t)(at - first), bo->size, 0);
	if (bo->file && bo->file->foreign && bo->file->flags & OPENREG_BO_VRAM)
		cmd.seg.kind = OPENREG_SEG_PEER;
	cmd.seg.npages = num;
	cmd.seg.page_shift = LIST_SHIFT;
	ret = bind(t, bo, &cmd);
	free(list);
	return ret;
}

/* Gives up what a failed bind() leaves. */
static int bound(struct transport *t, struct sim_bo *bo, int ret)
{
	if (ret)
		sim_file_put(t->card, bo->file);
	return ret;
}

static int create_vram(struct transport *t, struct sim_bo *bo)
{
	int ret = -ENOSPC;

	if (bo->size <= t->card->vram_size)
		ret = take(t, bo, find_vram);
	return ret ? ret : bound(t, bo, bind_vram(t, bo));
}

/* The limit of the kernel's driver: half of the machine's memory. */
static bool too_much_system(struct transport *t, uint64_t size)
{
	uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 *
			(uint64_t)sysconf(_SC_PAGESIZE);

	return size > half || t->process_system > half - size;
}

static int create_system(struct transport *t, struct sim_bo *bo)
{
	if (too_much_system(t, bo->size))
		return -ENOMEM;
	bo->file = sim_file_new(bo->size, OPENREG_BO_SYSTEM, NULL);
	if (!bo->file)
		return -ENOMEM;
	return bound(t, bo, bind_memory(t, bo, (uintptr_t)bo->file->at));
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

/* map_offset is the address of the memory in this process: sim_map() maps it again. */
static void describe(const struct transport *t, const struct sim_bo *bo,
		     struct transport_bo *out)
{
	out->size = bo->size;
	out->address = OPENREG_ADDR(t->card->index, bo->seg, 0);
	out->handle = bo->seg;
	out->map_offset = bo->file ? (uintptr_t)bo->file->at : 0;
	out->readonly = bo->file && bo->flags & OPENREG_BO_READONLY;
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

int sim_bo_of_file(struct transport *t, struct sim_file *file, uint32_t *handle)
{
	/* As with the kernel's driver, VRAM of another card is used like system memory. */
	const bool system = file->foreign && !file->alias;
	struct sim_bo *bo = bo_new(t, file->size, system ? OPENREG_BO_SYSTEM : file->flags);
	int ret;

	if (!bo)
		return -ENOMEM;
	bo->imported = true;
	bo->file = file;
	if (file->readonly)
		bo->flags |= OPENREG_BO_READONLY;
	ret = system || !(file->flags & OPENREG_BO_VRAM) ?
		      bind_memory(t, bo, (uintptr_t)file->at) : bind_vram(t, bo);
	if (ret)
		free(bo);
	else
		*handle = bo->seg;
	return ret;
}

int sim_bo_info(struct transport *t, struct transport_bo *out, uint32_t *flags)
{
	const struct sim_bo *bo;

	pthread_mutex_lock(&t->card->lock);
	bo = t->segs[out->handle];
	describe(t, bo, out);
	*flags = bo->flags | OPENREG_BO_IMPORTED;
	pthread_mutex_unlock(&t->card->lock);
	return 0;
}

/* The object may be freed on return: the card can release it at any time. */
static void close_bo(struct transport *t, struct sim_bo *bo, bool *released)
{
	const struct openreg_admin_cmd cmd = cmd_unbind(t->ctx, bo->seg, 0);
	struct sim_card *c = t->card;
	bool gone = false;
	uint64_t in_use;

	pthread_mutex_lock(&c->lock);
	if (!bo->imported)
		*held(t, bo) -= bo->size;
	bo->closed = true;
	bo->released = &gone;
	bo->next = c->closed;
	c->closed = bo;
	pthread_mutex_unlock(&c->lock);
	if (sim_admin_result(c, &cmd, &in_use))
		in_use = 1;
	pthread_mutex_lock(&c->lock);
	if (gone && released)
		*released = true;
	if (!gone) {
		bo->released = released;
		bo->idle = !in_use;
	}
	pthread_mutex_unlock(&c->lock);
}

static bool wait_released(struct sim_card *c, const bool *released,
			  int64_t end)
{
	struct sim_vector *v = &c->vectors[0];
	int cancel = sim_cancel_off(), late = 0;
	bool done;

	pthread_mutex_lock(&v->lock);
	do {
		pthread_mutex_lock(&c->lock);
		done = *released;
		pthread_mutex_unlock(&c->lock);
		if (!done)
			late = sim_vector_wait(v, end);
	} while (!done && !late && !sim_stopped());
	pthread_mutex_unlock(&v->lock);
	sim_cancel_restore(cancel);
	return !late;
}

/* If the process ends, the card may release the object after its closer has returned. */
static void forget_waiter(struct sim_card *c, struct sim_bo *bo,
			  const bool *released)
{
	pthread_mutex_lock(&c->lock);
	if (!*released)
		bo->released = NULL;
	pthread_mutex_unlock(&c->lock);
}

/*
 * Wait until no packet uses the memory: it belongs to the program, which may free it as
 * soon as this returns. If a packet uses it for too long, stop the queues.
 */
static void close_user(struct transport *t, struct sim_bo *bo)
{
	bool released = false;

	close_bo(t, bo, &released);
	if (wait_released(t->card, &released, sim_now() + STUCK_NS)) {
		forget_waiter(t->card, bo, &released);
		return;
	}
	sim_queues_stop(t);
	wait_released(t->card, &released, INT64_MAX);
	forget_waiter(t->card, bo, &released);
}

void sim_bo_close(struct transport *t, uint32_t handle)
{
	struct sim_bo *bo;

	if (sim_stopped())
		return;
	pthread_mutex_lock(&t->card->lock);
	bo = t->segs[handle];
	pthread_mutex_unlock(&t->card->lock);
	if (bo->flags & (OPENREG_BO_VRAM | OPENREG_BO_SYSTEM))
		close_bo(t, bo, NULL);
	else
		close_user(t, bo);
}

int sim_memory(struct transport *t, struct openreg_memory_info *info)
{
	struct sim_card *c = t->card;
	const struct sim_bo *bo;

	info->vram_total = c->vram_size;
	pthread_mutex_lock(&c->lock);
	sim_extents_sum(&c->free, &info->vram_free, &info->vram_largest);
	info->vram_free += c->leaving;
	for (bo = c->closed; bo; bo = bo->next)
		if (bo->idle && is_vram(bo->file) && bo->file->users == 1)
			info->vram_free += bo->size;
	info->process_vram = t->process_vram;
	info->process_system = t->process_system;
	info->process_pinned = t->process_pinned;
	pthread_mutex_unlock(&c->lock);
	return 0;
}

/* Close all objects before CTX_DESTROY, which waits until all are released. */
void sim_memory_close(struct transport *t)
{
	for (uint32_t seg = 0; seg < OPENREG_MAX_SEGMENTS; seg++) {
		struct sim_bo *bo;

		pthread_mutex_lock(&t->card->lock);
		bo = t->segs[seg];
		if (bo && bo->closed)
			bo = NULL;
		pthread_mutex_unlock(&t->card->lock);
		if (bo)
			close_bo(t, bo, NULL);
	}
}
