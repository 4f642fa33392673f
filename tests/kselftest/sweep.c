// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"
#include "pair.h"
#include "sweep.h"

/* More allocations and copies than any call makes. */
#define MOST 2000

int fresh_file(struct world *w)
{
	w->file = card_open();
	return w->file < 0 ? w->file : 0;
}

int close_file(struct world *w, int ret)
{
	return close(w->file) ? -errno : 0;
}

int close_made(struct world *w, int ret)
{
	return ret ? 0 : bo_close(w->fd, w->made.handle);
}

int new_queue(int fd, struct queue *queue)
{
	*queue = (struct queue) {
		.fd = fd,
		.args.slots = 64,
		.args.priority = 1,
	};
	if (card_ioctl(fd, DRM_IOCTL_OPENREG_QUEUE_CREATE, &queue->args))
		return -errno;
	queue->id = queue->args.queue;
	return 0;
}

int push_nop(struct world *w)
{
	struct packet p;

	packet_nop(&p);
	w->seq = queue_push(&w->queue, &p);
	return 0;
}

static int world_fill(struct world *w)
{
	void *host;
	int ret;

	ret = queue_create(w->fd, 64, &w->queue);
	if (!ret)
		ret = bo_create(w->fd, SIZE, DRM_OPENREG_BO_SYSTEM, &w->bo);
	if (!ret)
		ret = bo_create(w->fd, SIZE, DRM_OPENREG_BO_VRAM, &w->vram);
	if (!ret)
		ret = bo_create(w->other, SIZE, DRM_OPENREG_BO_VRAM, &w->made);
	if (!ret && w->second >= 0)
		ret = bo_create(w->second, SIZE, DRM_OPENREG_BO_VRAM, &w->made);
	if (!ret)
		ret = syncobj_create(w->fd, &w->syncobj);
	w->imports = udmabuf(SIZE, false, &host);
	w->exports = bo_export(w->fd, w->bo.handle, RW);
	return ret ? ret : w->imports < 0 ? w->imports :
			   w->exports < 0 ? w->exports : 0;
}

int world_open(struct world *w)
{
	if (pipe(w->pipe))
		return -errno;
	w->fd = card_open();
	w->other = card_open();
	w->second = open(SECOND, O_RDWR | O_CLOEXEC);
	return w->fd < 0 ? w->fd : w->other < 0 ? w->other : world_fill(w);
}

void world_close(struct world *w)
{
	queue_unmap(&w->queue);
	close(w->exports);
	close(w->imports);
	close(w->second);
	close(w->other);
	close(w->fd);
}

/* Returns the result of the call. *around is that of prepare and undo. */
static int attempt(struct world *w, const struct sweep *sweep, int n,
		   bool *happened, int *around)
{
	int ret;

	*happened = false;
	*around = sweep->prepare ? sweep->prepare(w) : 0;
	if (*around)
		return 0;
	fail_nth(n);
	ret = sweep->call(w);
	*happened = n && fail_happened();
	if (sweep->undo)
		*around = sweep->undo(w, ret);
	return ret;
}

static bool sensible(const struct sweep *sweep, int ret)
{
	return ret == sweep->result ||
	       (!sweep->always && (ret == -ENOMEM || ret == -EFAULT)) ||
	       (sweep->says && ret == sweep->says);
}

static bool same_memory(const struct drm_openreg_memory_info *a,
			const struct drm_openreg_memory_info *b)
{
	return a->process_vram == b->process_vram &&
	       a->process_system == b->process_system &&
	       a->process_pinned == b->process_pinned;
}

static int still_computes(struct world *w)
{
	int ret = push_nop(w);

	return ret ? ret : queue_wait(&w->queue, w->seq, 20 * SEC_NS);
}

static int memory_of(struct world *w, const struct sweep *sweep,
		     struct drm_openreg_memory_info *info)
{
	return card_memory(sweep->on_second ? w->second : w->fd, info);
}

static void wrong(struct sweep_result *result, int n, const char *what, int ret)
{
	fprintf(stderr, "# failure %d: %s: %s\n", n, what, strerror(-ret));
	result->wrong++;
}

/* Makes the nth allocation or copy fail. Returns false if the call makes fewer. */
static bool sweep_one(struct world *w, const struct sweep *sweep, int n,
		      struct drm_openreg_memory_info *before,
		      struct sweep_result *result)
{
	struct drm_openreg_memory_info after;
	int ret, around, error;
	bool happened, none, made;

	ret = attempt(w, sweep, n, &happened, &around);
	if (around)
		wrong(result, n, "prepare or undo", around);
	if (!sensible(sweep, ret) || (!happened && ret != sweep->result))
		wrong(result, n, "the call", ret);
	error = memory_of(w, sweep, &after);
	/* The new object stays without a name, or the next import finds it. */
	made = sweep->makes && ret == -EFAULT;
	if (error || !(made || same_memory(before, &after)))
		wrong(result, n, "leaves memory behind", error);
	ret = attempt(w, sweep, 0, &none, &around);
	if (ret != sweep->result)
		wrong(result, n, "the call, repeated", ret);
	if (around)
		wrong(result, n, "prepare or undo, repeated", around);
	if (made && memory_of(w, sweep, before))
		wrong(result, n, "cannot read the memory", 0);
	return happened;
}

struct sweep_result sweep_run(struct world *w, const struct sweep *sweep)
{
	struct drm_openreg_memory_info before;
	struct sweep_result result = {};
	int around, n, ret;
	bool happened;

	ret = attempt(w, sweep, 0, &happened, &around);
	if (ret != sweep->result)
		wrong(&result, 0, "the call", ret);
	if (around)
		wrong(&result, 0, "prepare or undo", around);
	ret = memory_of(w, sweep, &before);
	if (ret)
		wrong(&result, 0, "cannot read the memory", ret);
	for (n = 1; n <= MOST && !result.wrong; n++) {
		if (!sweep_one(w, sweep, n, &before, &result))
			break;
		result.injected++;
	}
	if (n > MOST)
		wrong(&result, n, "too many allocations", 0);
	ret = still_computes(w);
	if (ret)
		wrong(&result, n, "the card, afterwards", ret);
	return result;
}
