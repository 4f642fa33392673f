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
	struct sim_file *at = c->shared;

	while (at && (at->ino != f->ino || at->dev != f->dev))
		at = at->next_shared;
	return at;
}

int sim_bo_export(struct transport *t, uint32_t handle, bool readonly, int *fd)
{
	struct sim_card *c = t->card;
	struct sim_bo *bo;
	bool first = false;
	int ret;

	pthread_mutex_lock(&c->lock);
	bo = t->segs[handle];
	ret = bo->file ? sim_file_export(bo->file, readonly, fd, &first) : -EOPNOTSUPP;
	if (first)
		sim_listen_add(c, bo->file);
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* Takes a user of the file that the card has, or maps the file. */
static int get_file(struct sim_card *c, int fd, const struct sim_file *found,
		    struct sim_file **file)
{
	struct sim_file *f;

	pthread_mutex_lock(&c->lock);
	f = find_file(c, found);
	if (f) {
		f->users++;
	} else {
		f = sim_file_import(fd, found);
		if (f)
			sim_listen_add(c, f);
	}
	pthread_mutex_unlock(&c->lock);
	*file = f;
	return f ? 0 : -ENOMEM;
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
