// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every allocation and user copy of every call fails, one in each attempt: the
 * call does, too, or does without; nothing is left behind, it works when it is
 * done again, and so does the card.
 * Needs a kernel with fault injection, as the debug kernel is.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include "kselftest_harness.h"

#include "fail.h"
#include "sharing.h"

/* More than any call asks for. */
#define MOST 2000
#define SIZE 65536

struct world {
	int fd; /* all is done with this file, */
	int other; /* and with this one what takes two */
	int imports; /* a dma-buf of the host's memory */
	int exports; /* one of bo */
	int pipe[2];
	struct queue queue;
	struct bo bo, vram;
	__u32 syncobj;

	/* Of one attempt. */
	int file;
	int next; /* the file descriptor that a call will get */
	__u32 handle;
	struct queue more;
	struct bo made;
	void *map;
	__u64 seq;
};

/* For each attempt: before it, itself, and after it, with its result. */
struct sweep {
	int (*prepare)(struct world *w);
	int (*call)(struct world *w);
	int (*undo)(struct world *w, int ret);
	int result; /* where nothing fails */
	bool always; /* it cannot fail, whatever else does */
	/*
	 * It makes something that stays, nameless, if its name cannot be copied to
	 * the user, with any DRM driver.
	 */
	bool makes;
};

static char memory[SIZE] __attribute__((aligned(4096)));

static int fresh_file(struct world *w)
{
	w->file = card_open();
	return w->file < 0 ? w->file : 0;
}

static int close_file(struct world *w, int ret)
{
	return close(w->file) ? -errno : 0;
}

static int close_made(struct world *w, int ret)
{
	return ret ? 0 : bo_close(w->fd, w->made.handle);
}

static int call_open(struct world *w)
{
	return fresh_file(w);
}

static int undo_open(struct world *w, int ret)
{
	return ret ? 0 : close_file(w, 0);
}

static int call_device(struct world *w)
{
	struct drm_openreg_device_info info;

	return card_info(w->fd, &info);
}

static int call_memory(struct world *w)
{
	struct drm_openreg_memory_info info;

	return card_memory(w->fd, &info);
}

static int call_vram(struct world *w)
{
	return bo_create(w->fd, SIZE, DRM_OPENREG_BO_VRAM, &w->made);
}

static int call_first_vram(struct world *w)
{
	return bo_create(w->file, SIZE, DRM_OPENREG_BO_VRAM, &w->made);
}

static int call_system(struct world *w)
{
	return bo_create(w->fd, SIZE, DRM_OPENREG_BO_SYSTEM, &w->made);
}

static int call_register(struct world *w)
{
	return bo_register(w->fd, memory, SIZE, 0, &w->made);
}

/* Pages that are not there yet. */
static int prepare_readonly(struct world *w)
{
	w->map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return w->map == MAP_FAILED ? -errno : 0;
}

static int call_readonly(struct world *w)
{
	return bo_register(w->fd, w->map, SIZE, DRM_OPENREG_BO_READONLY,
			   &w->made);
}

static int undo_readonly(struct world *w, int ret)
{
	munmap(w->map, SIZE);
	return close_made(w, ret);
}

static int call_info(struct world *w)
{
	struct drm_openreg_bo_info args = { .handle = w->bo.handle };

	return card_ioctl(w->fd, DRM_IOCTL_OPENREG_BO_INFO, &args);
}

static int make_bo(struct world *w)
{
	return call_system(w);
}

static int call_close(struct world *w)
{
	return bo_close(w->fd, w->made.handle);
}

static int undo_close(struct world *w, int ret)
{
	return ret ? bo_close(w->fd, w->made.handle) : 0;
}

static int new_queue(int fd, struct queue *queue)
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

static int call_queue(struct world *w)
{
	return new_queue(w->fd, &w->more);
}

static int call_first_queue(struct world *w)
{
	return new_queue(w->file, &w->more);
}

static int undo_queue(struct world *w, int ret)
{
	return ret ? 0 : queue_destroy(&w->more);
}

static int call_destroy(struct world *w)
{
	return queue_destroy(&w->more);
}

static int undo_destroy(struct world *w, int ret)
{
	return ret ? queue_destroy(&w->more) : 0;
}

static int push_nop(struct world *w)
{
	struct packet p;

	packet_nop(&p);
	w->seq = queue_push(&w->queue, &p);
	return 0;
}

static int call_wait(struct world *w)
{
	return queue_wait(&w->queue, w->seq, 20 * SEC_NS);
}

static int call_wait_in_vain(struct world *w)
{
	return queue_wait(&w->queue, w->queue.seq + 1, SEC_NS / 1000);
}

static int call_reset(struct world *w)
{
	return queue_reset(&w->queue, w->queue.tail, w->queue.seq);
}

static int call_timestamp(struct world *w)
{
	struct drm_openreg_timestamp args = {};

	return card_ioctl(w->fd, DRM_IOCTL_OPENREG_TIMESTAMP, &args);
}

static int signal_point(struct world *w, __u64 seq, __u64 point)
{
	struct drm_openreg_queue_signal args = {
		.queue = w->queue.id,
		.syncobj = w->syncobj,
		.point = point,
		.seq = seq,
	};

	return card_ioctl(w->fd, DRM_IOCTL_OPENREG_QUEUE_SIGNAL, &args);
}

static int prepare_signal(struct world *w)
{
	push_nop(w);
	return queue_wait(&w->queue, w->seq, 20 * SEC_NS);
}

static int call_signal(struct world *w)
{
	return signal_point(w, w->seq, 0);
}

static int call_point(struct world *w)
{
	return signal_point(w, w->seq, w->seq);
}

static int call_point_later(struct world *w)
{
	return signal_point(w, w->queue.seq + 1, w->queue.seq + 1);
}

/* Else a later attempt would find the file's share of points used up. */
static int undo_point_later(struct world *w, int ret)
{
	return prepare_signal(w);
}

/* Of an object that has not been exported yet; later there is nothing to do. */
static int prepare_export(struct world *w, __u32 flags)
{
	int ret = bo_create(w->fd, SIZE, flags, &w->made);

	w->next = dup(w->fd);
	return ret ? ret : close(w->next) ? -errno : 0;
}

static int prepare_export_vram(struct world *w)
{
	return prepare_export(w, DRM_OPENREG_BO_VRAM);
}

static int prepare_export_system(struct world *w)
{
	return prepare_export(w, DRM_OPENREG_BO_SYSTEM);
}

static int call_export(struct world *w)
{
	int ret = bo_export(w->fd, w->made.handle, DRM_RDWR | DRM_CLOEXEC);

	w->file = ret;
	return ret < 0 ? ret : 0;
}

static int undo_export(struct world *w, int ret)
{
	if (ret == -EFAULT)
		close(w->next);
	undo_open(w, ret);
	return bo_close(w->fd, w->made.handle);
}

static int call_import(struct world *w)
{
	return handle_import(w->fd, w->imports, &w->handle);
}

/* The first thing that the file does. */
static int call_first_import(struct world *w)
{
	return handle_import(w->file, w->imports, &w->handle);
}

static int call_import_other(struct world *w)
{
	return handle_import(w->other, w->exports, &w->handle);
}

static int undo_import(struct world *w, int ret)
{
	return ret ? 0 : bo_close(w->fd, w->handle);
}

static int undo_import_other(struct world *w, int ret)
{
	return ret ? 0 : bo_close(w->other, w->handle);
}

static int prepare_alias(struct world *w)
{
	w->file = bo_export(w->fd, w->vram.handle, DRM_RDWR | DRM_CLOEXEC);
	return w->file < 0 ? w->file : 0;
}

static int call_alias(struct world *w)
{
	return handle_import(w->other, w->file, &w->handle);
}

static int undo_alias(struct world *w, int ret)
{
	close(w->file);
	return undo_import_other(w, ret);
}

static int map_part(struct world *w, __u64 offset, int prot)
{
	w->map = mmap(NULL, 4096, prot, MAP_SHARED, w->fd, offset);
	return w->map == MAP_FAILED ? -errno : 0;
}

static int call_map(struct world *w)
{
	return map_part(w, w->bo.mmap_offset, PROT_READ | PROT_WRITE);
}

static int undo_map(struct world *w, int ret)
{
	return ret ? 0 : munmap(w->map, 4096);
}

/* The kernel reads the page, so that nobody is killed if it cannot be had. */
static int call_touch(struct world *w)
{
	char byte;

	if (write(w->pipe[1], w->map, 1) != 1)
		return -errno;
	return read(w->pipe[0], &byte, 1) == 1 ? 0 : -errno;
}

static int undo_touch(struct world *w, int ret)
{
	char byte;

	if (ret) { /* if it was the reading that failed */
		fcntl(w->pipe[0], F_SETFL, O_NONBLOCK);
		if (read(w->pipe[0], &byte, 1) < 0 && errno != EAGAIN)
			return -errno;
		fcntl(w->pipe[0], F_SETFL, 0);
	}
	return undo_map(w, 0);
}

static int map_vram(struct world *w)
{
	return map_part(w, w->vram.mmap_offset, PROT_READ | PROT_WRITE);
}

static int map_card_page(struct world *w)
{
	return map_part(w, w->queue.args.card_offset, PROT_READ);
}

static int call_fdinfo(struct world *w)
{
	char path[64], text[4096];
	int ret, fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", w->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = read(fd, text, sizeof(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static int call_stats(struct world *w)
{
	return card_stat("objects") < 0 ? -ENOMEM : 0;
}

static int call_poll(struct world *w)
{
	struct pollfd poll_fd = { .fd = w->fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) < 0 ? -errno : 0;
}

/* A file that has something of everything. */
static int prepare_release(struct world *w)
{
	int ret = fresh_file(w);

	if (!ret)
		ret = new_queue(w->file, &w->more);
	if (!ret)
		ret = call_first_vram(w);
	if (!ret)
		ret = bo_register(w->file, memory, SIZE, 0, &w->made);
	return ret;
}

static int call_release(struct world *w)
{
	return close_file(w, 0);
}

FIXTURE(failures)
{
	struct card_usage before;
	struct world w;
};

static int *points; /* so far, of all tests: each is a process */
static int set_up; /* what fail_setup() said */

__attribute__((constructor)) static void begin(void)
{
	points = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fail_available())
		set_up = fail_setup();
}

FIXTURE_SETUP(failures)
{
	struct drm_syncobj_create create = {};
	struct world *w = &self->w;
	void *host;

	if (!fail_available())
		SKIP(return, "this kernel has no fault injection");
	ASSERT_EQ(0, set_up);
	memset(memory, 1, sizeof(memory));
	self->before = card_unused();
	ASSERT_EQ(0, pipe(w->pipe));
	w->fd = card_open();
	w->other = card_open();
	ASSERT_LE(0, w->fd);
	ASSERT_LE(0, w->other);
	ASSERT_EQ(0, queue_create(w->fd, 64, &w->queue));
	ASSERT_EQ(0, bo_create(w->fd, SIZE, DRM_OPENREG_BO_SYSTEM, &w->bo));
	ASSERT_EQ(0, bo_create(w->fd, SIZE, DRM_OPENREG_BO_VRAM, &w->vram));
	ASSERT_EQ(0, bo_create(w->other, SIZE, DRM_OPENREG_BO_VRAM, &w->made));
	ASSERT_EQ(0, card_ioctl(w->fd, DRM_IOCTL_SYNCOBJ_CREATE, &create));
	w->syncobj = create.handle;
	w->imports = udmabuf(SIZE, false, &host);
	ASSERT_LE(0, w->imports);
	w->exports = bo_export(w->fd, w->bo.handle, DRM_RDWR | DRM_CLOEXEC);
	ASSERT_LE(0, w->exports);
}

FIXTURE_TEARDOWN(failures)
{
	struct world *w = &self->w;

	queue_unmap(&w->queue);
	close(w->exports);
	close(w->imports);
	close(w->other);
	close(w->fd);
	EXPECT_TRUE(card_settles(self->before));
}

FIXTURE_VARIANT(failures)
{
	struct sweep sweep;
};

#define SWEEP(name, ...)						\
	FIXTURE_VARIANT_ADD(failures, name) { .sweep = { __VA_ARGS__ } }

SWEEP(open, .call = call_open, .undo = undo_open);
SWEEP(query_device, .call = call_device);
SWEEP(query_memory, .call = call_memory);
SWEEP(vram, .call = call_vram, .undo = close_made, .makes = true);
SWEEP(first_vram, fresh_file, call_first_vram, close_file);
SWEEP(system, .call = call_system, .undo = close_made, .makes = true);
SWEEP(registration, .call = call_register, .undo = close_made, .makes = true);
SWEEP(readonly, prepare_readonly, call_readonly, undo_readonly, .makes = true);
SWEEP(info, .call = call_info);
SWEEP(close_handle, make_bo, call_close, undo_close);
SWEEP(queue, .call = call_queue, .undo = undo_queue);
SWEEP(first_queue, fresh_file, call_first_queue, close_file);
SWEEP(destroy, call_queue, call_destroy, undo_destroy);
SWEEP(wait, push_nop, call_wait);
SWEEP(wait_in_vain, .call = call_wait_in_vain, .result = -ETIME);
SWEEP(reset, .call = call_reset);
SWEEP(timestamp, .call = call_timestamp);
SWEEP(signal, prepare_signal, call_signal);
SWEEP(point, prepare_signal, call_point);
SWEEP(point_later, .call = call_point_later, .undo = undo_point_later);
SWEEP(export_vram, prepare_export_vram, call_export, undo_export);
SWEEP(export_system, prepare_export_system, call_export, undo_export);
SWEEP(import, .call = call_import, .undo = undo_import, .makes = true);
SWEEP(first_import, fresh_file, call_first_import, close_file);
SWEEP(import_other, .call = call_import_other, .undo = undo_import_other);
SWEEP(import_alias, prepare_alias, call_alias, undo_alias);
SWEEP(map, .call = call_map, .undo = undo_map);
SWEEP(touch_system, call_map, call_touch, undo_touch);
SWEEP(touch_vram, map_vram, call_touch, undo_touch);
SWEEP(touch_card_page, map_card_page, call_touch, undo_touch);
SWEEP(fdinfo, .call = call_fdinfo);
SWEEP(stats, .call = call_stats);
SWEEP(poll, .call = call_poll);
SWEEP(release, .prepare = prepare_release, .call = call_release,
      .always = true);

/* The result of the call; *failed_undo, of what is around it. */
static int attempt(struct world *w, const struct sweep *sweep, int n,
		   bool *happened, int *around)
{
	int ret;

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
	       (!sweep->always && (ret == -ENOMEM || ret == -EFAULT));
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

TEST_F_TIMEOUT(failures, one_by_one, 280)
{
	const struct sweep *sweep = &variant->sweep;
	struct drm_openreg_memory_info before, after;
	int n, ret, around, injected = 0;
	struct world *w = &self->w;
	bool happened = true, made;

	ASSERT_EQ(sweep->result, attempt(w, sweep, 0, &happened, &around));
	ASSERT_EQ(0, around);
	ASSERT_EQ(0, card_memory(w->fd, &before));
	for (n = 1, happened = true; n <= MOST && happened; n++) {
		ret = attempt(w, sweep, n, &happened, &around);
		injected += happened;
		EXPECT_EQ(0, around) TH_LOG("failure %d: %s around it", n,
					    strerror(-around));
		EXPECT_TRUE(sensible(sweep, ret))
			TH_LOG("failure %d: %s", n, strerror(-ret));
		if (!happened)
			EXPECT_EQ(sweep->result, ret);
		ASSERT_EQ(0, card_memory(w->fd, &after));
		/* What it made stays, or is what the next import finds. */
		made = sweep->makes && ret == -EFAULT;
		EXPECT_TRUE(made || same_memory(&before, &after))
			TH_LOG("failure %d leaves memory behind", n);
		ret = attempt(w, sweep, 0, &happened, &around);
		EXPECT_EQ(sweep->result, ret);
		EXPECT_EQ(0, around);
		if (made)
			ASSERT_EQ(0, card_memory(w->fd, &before));
		happened = n == injected;
	}
	EXPECT_GE(MOST, n);
	EXPECT_EQ(0, still_computes(w));
	__atomic_add_fetch(points, injected, __ATOMIC_RELAXED);
	TH_LOG("%d failures, %d so far", injected, *points);
}

TEST_HARNESS_MAIN
