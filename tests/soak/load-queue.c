// SPDX-License-Identifier: MIT
/* Loads: many small launches, points of syncobjs, and queues that fault on purpose. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <drm.h>
#include <openreg_accel.h>
#include <xf86drm.h>

#include "client.h"

/* ---- launches: of two queues that wait for each other -------------------- */

struct launches {
	struct openreg_bo *bo;
	volatile uint64_t *word; /* two of them */
	uint64_t sum, turn;
};

static int launches_begin(struct client *c)
{
	struct launches *x = c->load;

	return alloc_mapped(c, 4096, OPENREG_BO_SYSTEM, &x->bo,
			    (void **)&x->word);
}

static void launches_end(struct client *c)
{
	openreg_bo_free(((struct launches *)c->load)->bo);
}

static int many(struct client *c, uint64_t count, uint64_t at)
{
	uint64_t i;
	int64_t ret = 0;

	for (i = 0; i < count && ret >= 0; i++) {
		ret = i % 4 ? openreg_push_nop(c->q[0]) :
			      openreg_push_signal(c->q[0], at,
						  OPENREG_SIGNAL_ADD, 1);
		if (ret >= 0 && random_below(c, 8) == 0)
			ret = openreg_queue_submit(c->q[0]);
	}
	return ret < 0 ? (int)ret : 0;
}

static int launches_turn(struct client *c)
{
	struct launches *x = c->load;
	const uint64_t at = openreg_bo_address(x->bo);
	const uint64_t count = 1 + random_below(c, 1500);
	int ret;

	x->turn++;
	x->sum += (count + 3) / 4;
	/* The second queue waits for the first, then signals its own word. */
	ret = openreg_push_wait(c->q[1], at, OPENREG_WAIT_GE, x->sum);
	if (!ret)
		ret = openreg_push_signal(c->q[1], at + 8, OPENREG_SIGNAL_SET,
					  x->turn);
	if (!ret && openreg_queue_submit(c->q[1]) < 0)
		return finish(c, 1);
	if (!ret)
		ret = many(c, count, at);
	if (!ret)
		ret = finish(c, 0);
	if (!ret)
		ret = finish(c, 1);
	if (ret)
		return ret;
	if (x->word[0] != x->sum || x->word[1] != x->turn)
		return wrong(c, "%llu signals of %llu, turn %llu of %llu",
			     (unsigned long long)x->word[0],
			     (unsigned long long)x->sum,
			     (unsigned long long)x->word[1],
			     (unsigned long long)x->turn);
	return 0;
}

/* ---- syncobjs ------------------------------------------------------------ */

struct syncobj {
	uint32_t handle;
	uint64_t point;
};

static int card_ioctl(struct client *c, unsigned long request, void *arg)
{
	return drmIoctl(openreg_device_fd(c->dev), request, arg) ? -errno : 0;
}

static int syncobj_begin(struct client *c)
{
	struct syncobj *x = c->load;
	struct drm_syncobj_create create = { 0 };
	int ret = card_ioctl(c, DRM_IOCTL_SYNCOBJ_CREATE, &create);

	x->handle = create.handle;
	return ret;
}

/* Sometimes leave the syncobj to the close of the file, as a killed process does. */
static void syncobj_end(struct client *c)
{
	struct syncobj *x = c->load;
	struct drm_syncobj_destroy destroy = { .handle = x->handle };

	if (x->handle && random_below(c, 2))
		card_ioctl(c, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy);
}

static int wait_for_point(struct client *c, uint64_t point)
{
	struct syncobj *x = c->load;
	struct drm_syncobj_timeline_wait wait = {
		.handles = (uintptr_t)&x->handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
		.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	wait.timeout_nsec = ts.tv_sec * 1000000000ll + ts.tv_nsec + WAIT_NS;
	return card_ioctl(c, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait);
}

static int syncobj_turn(struct client *c)
{
	struct syncobj *x = c->load;
	struct drm_openreg_queue_signal signal = {
		.queue = openreg_queue_number(c->q[0]),
		.syncobj = x->handle,
	};
	uint64_t points = 1 + random_below(c, 8), i, k;
	int64_t seq = 0;
	int ret = 0;

	for (i = 0; i < points && !ret; i++) {
		for (k = random_below(c, 100); k != UINT64_MAX && !ret; k--)
			ret = openreg_push_nop(c->q[0]);
		if (ret)
			return ret;
		seq = openreg_queue_submit(c->q[0]);
		if (seq < 0)
			return (int)seq;
		signal.seq = (uint64_t)seq;
		signal.point = ++x->point;
		ret = card_ioctl(c, DRM_IOCTL_OPENREG_QUEUE_SIGNAL, &signal);
	}
	if (!ret)
		ret = wait_for_point(c, x->point);
	if (ret)
		return ret;
	/* The driver also adds the point if the packet will not complete. */
	ret = openreg_queue_wait(c->q[0], (uint64_t)seq, 0);
	return ret == -ETIME ? wrong(c, "point %llu came before its packet",
				     (unsigned long long)x->point) : ret;
}

/* ---- faults -------------------------------------------------------------- */

#define ROOM 65536u

struct faults {
	struct openreg_bo *bo;
	unsigned char *map;
};

static int faults_begin(struct client *c)
{
	struct faults *x = c->load;

	return alloc_mapped(c, ROOM, OPENREG_BO_VRAM, &x->bo,
			    (void **)&x->map);
}

static void faults_end(struct client *c)
{
	openreg_bo_free(((struct faults *)c->load)->bo);
}

/* Pushes a WAIT that never completes; faults_turn() then resets the queue. */
static int push_endless(struct client *c)
{
	struct faults *x = c->load;
	int ret = openreg_push_wait(c->q[0], openreg_bo_address(x->bo),
				    OPENREG_WAIT_GE, UINT64_MAX);
	int64_t seq;

	if (ret)
		return ret;
	seq = openreg_queue_submit(c->q[0]);
	ret = seq < 0 ? (int)seq : openreg_queue_wait(c->q[0], (uint64_t)seq,
						      1000000);
	return ret == -ETIME ? 0 : ret ? ret :
	       wrong(c, "a WAIT that never ends has completed");
}

static int push_bad(struct client *c, unsigned int *code)
{
	struct faults *x = c->load;
	const uint64_t at = openreg_bo_address(x->bo);
	int64_t ret;

	switch (random_below(c, 3)) {
	case 0:
		*code = OPENREG_FAULT_BOUNDS;
		ret = openreg_fill_async(c->q[0], at + 1, 1, ROOM);
		break;
	case 1:
		*code = OPENREG_FAULT_ADDRESS;
		ret = openreg_fill_async(c->q[0], (uintptr_t)x->map, 1, 1);
		break;
	default:
		*code = OPENREG_FAULT_ALIGNMENT;
		ret = openreg_push_signal(c->q[0], at + 4, OPENREG_SIGNAL_SET,
					  1);
	}
	return ret < 0 ? (int)ret : 0;
}

static int fault_and_look(struct client *c)
{
	struct openreg_fault_summary fault;
	unsigned int code;
	int ret = push_bad(c, &code);

	if (!ret)
		ret = finish(c, 0);
	if (ret != -EIO)
		return ret ? ret : wrong(c, "a bad packet has completed");
	ret = openreg_queue_fault(c->q[0], &fault);
	if (ret < 0)
		return ret;
	if (ret == 0)
		return wrong(c, "a bad packet has left no fault");
	return fault.code == code ? 0 :
	       wrong(c, "the fault is %s, not %s", openreg_fault_name(fault.code),
		     openreg_fault_name(code));
}

static int faults_turn(struct client *c)
{
	struct faults *x = c->load;
	/* Below 255: this must not satisfy the WAIT of push_endless(). */
	const unsigned char mark = (unsigned char)random_below(c, 255);
	int ret = random_below(c, 4) ? fault_and_look(c) : push_endless(c);
	int64_t seq;

	if (!ret)
		ret = openreg_queue_reset(c->q[0]);
	if (ret)
		return ret;
	seq = openreg_fill_async(c->q[0], openreg_bo_address(x->bo), mark,
				 ROOM);
	ret = seq < 0 ? (int)seq : finish(c, 0);
	if (!ret && (x->map[0] != mark || x->map[ROOM - 1] != mark))
		ret = wrong(c, "%02x and %02x after a reset, not %02x",
			    x->map[0], x->map[ROOM - 1], mark);
	return ret;
}

const struct load load_launches = {
	"launches", sizeof(struct launches), launches_begin, launches_turn,
	launches_end,
};

const struct load load_syncobj = {
	"syncobj", sizeof(struct syncobj), syncobj_begin, syncobj_turn,
	syncobj_end,
};

const struct load load_faults = {
	"faults", sizeof(struct faults), faults_begin, faults_turn, faults_end,
};
