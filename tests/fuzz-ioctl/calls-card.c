// SPDX-License-Identifier: GPL-2.0-only
/* Calls on a card's device file: objects, queues, packets. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <drm.h>

#include "calls.h"

static int do_open(struct ctx *c)
{
	/* The last node is another card, which shares memory with files of the first. */
	static const char *const nodes[] = {
		NODE, "/dev/accel/accel0", NODE, "/dev/accel/accel1",
	};
	int fd = open(nodes[c->a[0] % 4],
		      O_RDWR | O_CLOEXEC | (c->a[0] % 3 ? 0 : O_NONBLOCK));

	made_fd(c, fd);
	return fd < 0 ? -errno : 0;
}

static int do_close(struct ctx *c)
{
	int fd = -1;

	/* Close only files of the program, and each only once. */
	if (c->ref[0])
		fd = __atomic_exchange_n(&c->ref[0]->fd, -1, __ATOMIC_RELAXED);
	return fd < 0 ? -EBADF : close(fd) ? -errno : 0;
}

static int do_dup(struct ctx *c)
{
	int fd = fcntl(c->a[0], F_DUPFD_CLOEXEC, 3);

	made_fd(c, fd);
	return fd < 0 ? -errno : 0;
}

static int do_query(struct ctx *c)
{
	unsigned char buffer[512];
	struct drm_openreg_query args = {
		.type = c->a[1] < 8 ? c->a[1] % 2 : c->a[1],
		.size = c->a[2],
		.pointer = c->a[3] == 1 ? (uintptr_t)buffer : c->a[3],
	};

	if (args.pointer == (uintptr_t)buffer && args.size > sizeof(buffer))
		args.size = sizeof(buffer);
	return do_ioctl(c->a[0], DRM_IOCTL_OPENREG_QUERY, &args);
}

static int do_info(struct ctx *c)
{
	struct drm_openreg_bo_info args = { .handle = c->a[1] };
	int ret = do_ioctl(c->a[0], DRM_IOCTL_OPENREG_BO_INFO, &args);

	return ret;
}

static int do_bo(struct ctx *c)
{
	struct drm_openreg_bo_create args = {
		.size = c->a[1],
		.flags = c->a[2],
	};
	int ret = do_ioctl(c->a[0], DRM_IOCTL_OPENREG_BO_CREATE, &args);

	if (ret)
		return ret;
	c->made->handle = args.handle;
	c->made->address = args.address;
	c->made->offset = args.mmap_offset;
	c->made->size = args.size;
	return 0;
}

static int do_gem_close(struct ctx *c)
{
	struct drm_gem_close args = { .handle = c->a[1] };

	return do_ioctl(c->a[0], DRM_IOCTL_GEM_CLOSE, &args);
}

static int do_queue(struct ctx *c)
{
	struct drm_openreg_queue_create args = {
		.slots = c->a[1],
		.priority = c->a[2],
		.flags = c->a[3],
	};
	int ret = do_ioctl(c->a[0], DRM_IOCTL_OPENREG_QUEUE_CREATE, &args);

	if (ret)
		return ret;
	c->made->card = c->a[0];
	c->made->queue = (struct queue) {
		.fd = c->a[0],
		.id = args.queue,
		.slots = args.slots,
		.args = args,
	};
	return 0;
}

static int do_destroy(struct ctx *c)
{
	struct drm_openreg_queue_destroy args = {
		.queue = c->a[1],
		.pad = c->a[2],
	};

	return do_ioctl(c->a[0], DRM_IOCTL_OPENREG_QUEUE_DESTROY, &args);
}

static int do_wait(struct ctx *c)
{
	struct drm_openreg_queue_wait args = {
		.queue = c->a[1],
		.seq = c->a[2],
		.timeout_ns = deadline(c->a[3]),
		.flags = c->a[4],
	};

	return do_ioctl(c->a[0], DRM_IOCTL_OPENREG_QUEUE_WAIT, &args);
}

/* Small numbers count backwards from the ring's tail. */
static int do_reset(struct ctx *c)
{
	struct queue *q = c->ref[1] ? &c->ref[1]->queue : NULL;
	struct drm_openreg_queue_reset args = {
		.queue = c->a[1],
		.head = q && c->a[2] < 4 ? q->tail - c->a[2] : c->a[2],
		.seq = q && c->a[3] < 4 ? q->seq - c->a[3] : c->a[3],
		.flags = c->a[4],
	};

	return do_ioctl(c->a[0], DRM_IOCTL_OPENREG_QUEUE_RESET, &args);
}

static int do_timestamp(struct ctx *c)
{
	struct drm_openreg_timestamp args = { .flags = c->a[1], .pad = c->a[2] };

	return do_ioctl(c->a[0], DRM_IOCTL_OPENREG_TIMESTAMP, &args);
}

static int do_signal(struct ctx *c)
{
	struct drm_openreg_queue_signal args = {
		.queue = c->a[1],
		.syncobj = c->a[2],
		.point = c->a[3],
		.seq = c->a[4],
		.flags = c->a[5],
	};

	return do_ioctl(c->a[0], DRM_IOCTL_OPENREG_QUEUE_SIGNAL, &args);
}

static int do_map_queue(struct ctx *c)
{
	const struct drm_openreg_queue_create *args;
	struct queue *q;

	if (!c->ref[0] || !c->ref[0]->queue.id || c->ref[0]->mapped)
		return -ENOENT;
	c->ref[0]->mapped = true;
	q = &c->ref[0]->queue;
	args = &q->args;
	q->ring = map_at(q->fd, args->ring_offset, q->slots * 64ull,
			 PROT_READ | PROT_WRITE);
	q->user = map_at(q->fd, args->user_offset, 4096, PROT_READ | PROT_WRITE);
	q->card = map_at(q->fd, args->card_offset, 4096, PROT_READ);
	q->doorbell = map_at(q->fd, args->doorbell_offset, 4096, PROT_WRITE);
	return q->ring && q->user && q->card && q->doorbell ? 0 : -errno;
}

static bool is_mapped(const struct queue *q)
{
	return q->ring && q->user && q->card && q->doorbell;
}

static void make_packet(struct packet *p, struct ctx *c)
{
	uint64_t dst = c->a[2], src = c->a[3], bytes = c->a[4];

	switch (c->a[1]) {
	case 0:
	case 1:
		packet_nop(p);
		break;
	case 2:
	case 3:
		packet_copy(p, dst, src, bytes, OPENREG_U8);
		break;
	case 4:
	case 5:
		packet_fill(p, dst, bytes / 4, OPENREG_I32, bytes);
		break;
	case 6:
		packet_wait(p, dst);
		break;
	case 7: /* satisfies a WAIT */
		packet_fill(p, dst, 1, OPENREG_I64, 1);
		break;
	case 8:
		packet_busy(p, dst, dst, bytes * 16);
		break;
	case 9:
		packet_add(p, dst, dst, src, bytes / 4);
		break;
	default:
		openreg_encode(p->bytes, (unsigned char)c->a[1], 0); /* a fault */
	}
}

/* Writes without a check for room: overtaking the card is only a fault of the queue. */
static void write_packet(struct queue *q, const struct packet *p)
{
	unsigned int slots = p->bytes[1], at = q->tail & (q->slots - 1);
	struct packet nop;

	if (at + slots > q->slots) {
		packet_nop(&nop);
		memcpy(q->ring + at * 64, nop.bytes, 64);
		q->ring[at * 64 + 1] = q->slots - at;
		q->tail += q->slots - at;
		q->seq++;
		at = 0;
	}
	memcpy(q->ring + at * 64, p->bytes, slots * 64);
	q->ring[at * 64 + 1] = slots;
	q->tail += slots;
	q->seq++;
	queue_publish(q);
}

static int do_packet(struct ctx *c)
{
	struct packet p = {};
	struct queue *q = c->ref[0] ? &c->ref[0]->queue : NULL;

	if (!q || !is_mapped(q))
		return -ENOENT;
	make_packet(&p, c);
	call_guarded = true;
	if (!sigsetjmp(call_guard, 1))
		write_packet(q, &p);
	call_guarded = false;
	return 0;
}

static int do_tail(struct ctx *c)
{
	struct queue *q = c->ref[0] ? &c->ref[0]->queue : NULL;

	if (!q || !is_mapped(q))
		return -ENOENT;
	call_guarded = true;
	if (!sigsetjmp(call_guard, 1)) {
		q->tail += c->a[1];
		queue_publish(q);
	}
	call_guarded = false;
	return 0;
}

/* Any ioctl number and size of DRM, with mostly zeros as its argument. */
static int do_raw(struct ctx *c)
{
	unsigned int nr = c->a[1] % 256, size = c->a[2] % 128;
	uint64_t buffer[32] = {};
	unsigned int i;

	/* Half of the numbers belong to the driver, half to the DRM core. */
	if (c->a[3] % 2)
		nr = DRM_COMMAND_BASE + nr % 12;
	for (i = 0; i < 8; i++)
		if (c->a[3] >> i & 1)
			buffer[i] = c->a[3] >> 8 ? c->a[3] : c->a[4];
	return do_ioctl(c->a[0], _IOC(c->a[3] >> 1 & 3, 'd', nr, size), buffer);
}

static int do_flink(struct ctx *c)
{
	struct drm_gem_flink flink = { .handle = c->a[1] };
	struct drm_gem_open gem_open = {};
	int ret = do_ioctl(c->a[0], DRM_IOCTL_GEM_FLINK, &flink);

	if (ret)
		return ret;
	gem_open.name = flink.name;
	return do_ioctl(c->a[2], DRM_IOCTL_GEM_OPEN, &gem_open);
}

static int do_change_handle(struct ctx *c)
{
	struct drm_gem_change_handle args = {
		.handle = c->a[1],
		.new_handle = c->a[2],
	};

	return do_ioctl(c->a[0], DRM_IOCTL_GEM_CHANGE_HANDLE, &args);
}

call_fn * const card_calls[OPS] = {
	[OP_OPEN] = do_open,
	[OP_CLOSE] = do_close,
	[OP_DUP] = do_dup,
	[OP_QUERY] = do_query,
	[OP_BO] = do_bo,
	[OP_INFO] = do_info,
	[OP_GEM_CLOSE] = do_gem_close,
	[OP_QUEUE] = do_queue,
	[OP_DESTROY] = do_destroy,
	[OP_WAIT] = do_wait,
	[OP_RESET] = do_reset,
	[OP_TIMESTAMP] = do_timestamp,
	[OP_SIGNAL] = do_signal,
	[OP_MAP_QUEUE] = do_map_queue,
	[OP_PACKET] = do_packet,
	[OP_TAIL] = do_tail,
	[OP_RAW] = do_raw,
	[OP_FLINK] = do_flink,
	[OP_CHANGE_HANDLE] = do_change_handle,
};
