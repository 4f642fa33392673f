// SPDX-License-Identifier: MIT
/* Export and import of objects, as file descriptors of their memfds. */
#include <errno.h>

#include "sim.h"

/* Under the card's lock. */
static struct sim_bo *find_handle(struct transport *t, const struct sim_file *f)
{
	for (uint32_t seg = 0; seg < OPENREG_MAX_SEGMENTS; seg++) {
		struct sim_bo *bo = t->segs[seg];

		if (bo && !bo->closed && bo->file && bo->file->ino == f->ino &&
		    bo->file->dev == f->dev)
			return bo;
	}
	return NULL;
}

/* Under the card's lock. */
static struct sim_file *find_file(struct sim_card *c, const struct sim_file *f)
{
	for (size_t i = 0; i < c->num_shared; i++)
		if (c->shared[i]->ino == f->ino && c->shared[i]->dev == f->dev)
			return c->shared[i];
	return NULL;
}

int sim_bo_export(struct transport *t, uint32_t handle, bool readonly, int *fd)
{
	struct sim_card *c = t->card;
	struct sim_bo *bo;
	bool first = false;
	int ret;

	pthread_mutex_lock(&c->lock);
	bo = t->segs[handle];
	ret = bo->file ? sim_file_export(bo->file, c->index, readonly, fd, &first) :
			 -EOPNOTSUPP;
	if (first)
		sim_listen_add(c, bo->file);
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* The bytes of the window that an object takes: its large pages stay large pages. */
static uint64_t window_span(uint64_t size, uint64_t skip)
{
	return (skip + size + SIM_HUGE - 1) & ~(SIM_HUGE - 1ull);
}

void sim_window_give(struct sim_card *c, uint64_t offset, uint64_t size)
{
	const uint64_t skip = offset % SIM_HUGE;

	sim_extents_give(&c->window, offset - skip, window_span(size, skip));
}

/*
 * Maps a file. As with the kernel's driver, VRAM of this card becomes an alias: VRAM that
 * all engines reach. The card of another process counts as this one if it has the same index.
 */
static int map_file(struct sim_card *c, int fd, const struct sim_file *found,
		    struct sim_file **file)
{
	const uint64_t skip = found->data % SIM_HUGE;
	const bool alias = found->flags & OPENREG_BO_VRAM && found->card == c->index;
	uint8_t *at = NULL;
	uint64_t offset;

	if (alias) {
		if (sim_extents_take(&c->window, window_span(found->size, skip), &offset))
			return -ENOSPC;
		offset += skip;
		at = c->vram + c->vram_size + offset;
	}
	*file = sim_file_import(fd, found, at);
	if (*file)
		return 0;
	if (alias && sim_reserve(at, found->size))
		sim_window_give(c, offset, found->size);
	return -ENOMEM;
}

/* Takes a user of the file that the card has, or maps the file. */
static int get_file(struct sim_card *c, int fd, const struct sim_file *found,
		    struct sim_file **file)
{
	int ret = 0;

	pthread_mutex_lock(&c->lock);
	*file = find_file(c, found);
	if (*file) {
		(*file)->users++;
	} else {
		ret = map_file(c, fd, found, file);
		if (!ret)
			sim_listen_add(c, *file);
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

int sim_bo_import(struct transport *t, int fd, uint32_t *handle)
{
	struct sim_card *c = t->card;
	struct sim_file found, *file;
	struct sim_bo *bo;
	int ret = sim_file_check(fd, &found);

	if (ret)
		return ret;
	if (found.size > c->info.max_bo_size)
		return -EINVAL;
	pthread_mutex_lock(&c->lock);
	bo = find_handle(t, &found);
	if (bo)
		*handle = bo->seg;
	pthread_mutex_unlock(&c->lock);
	if (bo)
		return 0;
	ret = get_file(c, fd, &found, &file);
	if (ret)
		return ret;
	ret = sim_bo_of_file(t, file, handle);
	if (ret)
		sim_file_put(c, file);
	return ret;
}
