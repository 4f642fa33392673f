// SPDX-License-Identifier: GPL-2.0-only
/* What each call does. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include <drm.h>

#include "../kselftest/fail.h"
#include "../kselftest/sharing.h"
#include "run.h"

/* More is nobody's: maps of the fuzzer itself stay. */
#define MAP_MOST (1ull << 28)

struct ctx {
	struct run *run;
	struct result *made;
	uint64_t a[ARGS_MAX];
	struct result *ref[ARGS_MAX]; /* or NULL */
};

static __thread sigjmp_buf guard;
static __thread volatile bool guarded;
static __thread unsigned int fail_next;

static void on_fault(int sig)
{
	if (guarded)
		siglongjmp(guard, 1);
	_exit(99);
}

static void on_tick(int sig)
{
}

void run_init(void)
{
	struct sigaction fault = { .sa_handler = on_fault };
	struct sigaction tick = { .sa_handler = on_tick }; /* no restart */

	fault.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGALRM, &tick, NULL);
	sigaction(SIGUSR1, &tick, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void count(uint64_t *what)
{
	__atomic_add_fetch(what, 1, __ATOMIC_RELAXED);
}

static int do_ioctl(int fd, unsigned long request, void *args)
{
	int ret = ioctl(fd, request, args);

	count(&shared->ioctls);
	return ret < 0 ? -errno : 0;
}

static void made_fd(struct ctx *c, int fd)
{
	c->made->fd = fd;
}

static uint64_t deadline(uint64_t us)
{
	if (us > 1000000)
		return us; /* as it is */
	return us ? now_ns() + us * 1000 : 0;
}

static int do_open(struct ctx *c)
{
	int fd = open(c->a[0] % 2 ? "/dev/accel/accel0" : NODE,
		      O_RDWR | O_CLOEXEC | (c->a[0] % 3 ? 0 : O_NONBLOCK));

	made_fd(c, fd);
	return fd < 0 ? -errno : 0;
}

static int do_close(struct ctx *c)
{
	int fd = -1;

	/* Only what a program has made, and only once. */
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

static int do_register(struct ctx *c)
{
	struct drm_openreg_mem_register args = {
		.user_address = c->a[1] + (c->a[4] % 3 ? 0 : c->a[4]),
		.size = c->a[2],
		.flags = c->a[3],
	};
	int ret = do_ioctl(c->a[0], DRM_IOCTL_OPENREG_MEM_REGISTER, &args);

	if (ret)
		return ret;
	c->made->handle = args.handle;
	c->made->address = args.address;
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

/* Small numbers are counted back from where the ring is. */
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

static void *map_at(int fd, uint64_t offset, uint64_t size, int prot)
{
	void *map = mmap(NULL, size, prot, MAP_SHARED, fd, offset);

	return map == MAP_FAILED ? NULL : map;
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
	case 7: /* what a WAIT waits for */
		packet_fill(p, dst, 1, OPENREG_I64, 1);
		break;
	case 8:
		packet_busy(p, dst, dst, bytes * 16);
		break;
	case 9:
		packet_add(p, dst, dst, src, bytes / 4);
		break;
	default:
		packet_begin(p, c->a[1]); /* a fault */
	}
}

/* Without a look at where the card is: to overtake it is a fault, no more. */
static void write_packet(struct queue *q, const struct packet *p)
{
	unsigned int slots = (p->len + 63) / 64, at = q->tail & (q->slots - 1);
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
	guarded = true;
	if (!sigsetjmp(guard, 1))
		write_packet(q, &p);
	guarded = false;
	return 0;
}

static int do_tail(struct ctx *c)
{
	struct queue *q = c->ref[0] ? &c->ref[0]->queue : NULL;

	if (!q || !is_mapped(q))
		return -ENOENT;
	guarded = true;
	if (!sigsetjmp(guard, 1)) {
		q->tail += c->a[1];
		queue_publish(q);
	}
	guarded = false;
	return 0;
}

static int made_map(struct ctx *c, void *map, uint64_t size)
{
	if (map == MAP_FAILED || !map)
		return -errno;
	c->made->map = map;
	c->made->size = size;
	return 0;
}

static int do_map(struct ctx *c)
{
	uint64_t size = c->ref[1] && c->a[4] % 2 ? c->ref[1]->size : c->a[2];
	int flags = c->a[4] == 6 ? MAP_PRIVATE : MAP_SHARED;

	if (c->a[4] == 8)
		flags |= MAP_POPULATE;
	return made_map(c, mmap(NULL, size, c->a[3] & 7, flags, c->a[0],
				c->a[1]), size);
}

static int do_map_part(struct ctx *c)
{
	const struct drm_openreg_queue_create *args;
	uint64_t offset, size = c->a[3];

	if (!c->ref[1])
		return -ENOENT;
	args = &c->ref[1]->queue.args;
	offset = (const uint64_t[]) {
		args->ring_offset, args->user_offset, args->card_offset,
		args->doorbell_offset }[c->a[2] % 4];
	return made_map(c, map_at(c->a[0], offset, size, c->a[4] & 7), size);
}

static int do_memory(struct ctx *c)
{
	int flags = MAP_ANONYMOUS | (c->a[2] == 3 ? MAP_SHARED : MAP_PRIVATE);
	uint64_t size = c->a[0];

	if (size > MAP_MOST)
		return -EINVAL;
	if (c->a[2] == 4)
		flags |= MAP_POPULATE;
	return made_map(c, mmap(NULL, size, c->a[1] & 7, flags, -1, 0), size);
}

/* Only within what the program has mapped. */
static uint64_t within(struct ctx *c)
{
	struct result *r = c->ref[0];

	if (!r || !r->map)
		return 0;
	return c->a[1] < r->size ? c->a[1] : r->size;
}

static int do_unmap(struct ctx *c)
{
	uint64_t size = within(c);

	if (!size)
		return -EINVAL;
	return munmap(c->ref[0]->map, size) ? -errno : 0;
}

static int do_protect(struct ctx *c)
{
	uint64_t size = within(c);

	if (!size)
		return -EINVAL;
	return mprotect(c->ref[0]->map, size, c->a[2] & 7) ? -errno : 0;
}

static int do_advise(struct ctx *c)
{
	uint64_t size = within(c);

	if (!size)
		return -EINVAL;
	return madvise(c->ref[0]->map, size, c->a[2]) ? -errno : 0;
}

static int do_touch(struct ctx *c)
{
	volatile unsigned char *at;
	int ret = 0;

	if (!c->ref[0] || !c->ref[0]->map)
		return -ENOENT;
	at = (unsigned char *)c->ref[0]->map + c->a[1] % (c->ref[0]->size | 1);
	guarded = true;
	if (sigsetjmp(guard, 1))
		ret = -EFAULT;
	else if (c->a[2] % 2)
		*at = c->a[2];
	else
		(void)*at;
	guarded = false;
	return ret;
}

static int do_export(struct ctx *c)
{
	struct drm_prime_handle args = { .handle = c->a[1], .flags = c->a[2] };
	int ret = do_ioctl(c->a[0], DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);

	if (!ret)
		made_fd(c, args.fd);
	return ret;
}

static int do_import(struct ctx *c)
{
	struct drm_prime_handle args = { .fd = c->a[1] };
	struct drm_openreg_bo_info info = {};
	int ret = do_ioctl(c->a[0], DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);

	if (ret)
		return ret;
	info.handle = args.handle;
	c->made->handle = args.handle;
	if (!do_ioctl(c->a[0], DRM_IOCTL_OPENREG_BO_INFO, &info)) {
		c->made->address = info.address;
		c->made->offset = info.mmap_offset;
		c->made->size = info.size;
	}
	return 0;
}

static int do_sync(struct ctx *c)
{
	struct dma_buf_sync args = { .flags = c->a[1] };

	return do_ioctl(c->a[0], DMA_BUF_IOCTL_SYNC, &args);
}

static int do_map_buf(struct ctx *c)
{
	return made_map(c, map_at(c->a[0], 0, c->a[1], c->a[2] & 7), c->a[1]);
}

static int do_udmabuf(struct ctx *c)
{
	uint64_t size = (c->a[0] & 0x3fffff & ~4095ull) ?: 4096;
	void *memory = MAP_FAILED;
	int fd = udmabuf(size, size <= 1 << 20 && c->a[1] % 2, &memory);

	if (memory != MAP_FAILED)
		munmap(memory, size);
	if (fd >= 0)
		made_fd(c, fd);
	return fd < 0 ? fd : 0;
}

static int do_syncobj(struct ctx *c)
{
	struct drm_syncobj_create args = { .flags = c->a[1] % 2 };
	int ret = do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_CREATE, &args);

	if (!ret)
		c->made->syncobj = args.handle;
	return ret;
}

static int do_syncobj_destroy(struct ctx *c)
{
	struct drm_syncobj_destroy args = { .handle = c->a[1] };

	return do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_DESTROY, &args);
}

static int do_syncobj_wait(struct ctx *c)
{
	uint32_t handle = c->a[1];
	uint64_t point = c->a[2];
	struct drm_syncobj_timeline_wait args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.timeout_nsec = deadline(c->a[3]),
		.count_handles = 1,
		.flags = c->a[4] & 7,
	};

	return do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

static int do_syncobj_timeline(struct ctx *c)
{
	uint32_t handle = c->a[1];
	uint64_t point = c->a[2];
	struct drm_syncobj_timeline_array args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};
	struct drm_syncobj_array array = {
		.handles = (uintptr_t)&handle,
		.count_handles = 1,
	};

	if (c->a[3] % 3 == 2)
		return do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_RESET, &array);
	return do_ioctl(c->a[0], c->a[3] % 3 ? DRM_IOCTL_SYNCOBJ_QUERY :
			DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &args);
}

static int do_syncobj_eventfd(struct ctx *c)
{
	int ret, fd = eventfd(0, EFD_CLOEXEC);
	struct drm_syncobj_eventfd args = {
		.handle = c->a[1],
		.flags = c->a[3] & 2,
		.point = c->a[2],
		.fd = fd,
	};

	ret = do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_EVENTFD, &args);
	close(fd);
	return ret;
}

static int do_syncobj_to_fd(struct ctx *c)
{
	struct drm_syncobj_handle args = {
		.handle = c->a[1],
		.flags = c->a[2] & 1,
	};
	int ret = do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args);

	if (!ret)
		made_fd(c, args.fd);
	return ret;
}

static int do_syncobj_from_fd(struct ctx *c)
{
	struct drm_syncobj_handle args = { .fd = c->a[1], .flags = c->a[2] & 1 };
	int ret = do_ioctl(c->a[0], DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args);

	if (!ret)
		c->made->syncobj = args.handle;
	return ret;
}

static int read_file(const char *path)
{
	char buffer[4096];
	int ret, fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = read(fd, buffer, sizeof(buffer)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static int do_fdinfo(struct ctx *c)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", (int)c->a[0]);
	return read_file(path);
}

static int do_poll(struct ctx *c)
{
	struct pollfd fd = { .fd = c->a[0], .events = POLLIN | POLLOUT };

	return poll(&fd, 1, 1) < 0 ? -errno : 0;
}

/* A card's file has nothing to read: whoever sleeps there is interrupted. */
static int do_read(struct ctx *c)
{
	char buffer[16];

	return read(c->a[0], buffer, c->a[1]) < 0 ? -errno : 0;
}

static void be_child(struct ctx *c)
{
	struct drm_openreg_bo_create args = {
		.size = 4096,
		.flags = DRM_OPENREG_BO_SYSTEM,
	};
	unsigned int i;

	/* The timer of those that are killed does not come along. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	switch (c->a[0] % 4) {
	case 0:
		break;
	case 1:
		for (i = 0; i < CALLS_MAX; i++)
			close(c->run->result[i].fd);
		break;
	case 2:
		do_ioctl(c->a[1], DRM_IOCTL_OPENREG_BO_CREATE, &args);
		break;
	default:
		pause();
	}
	if (c->a[0] > 7 && c->ref[2] && c->ref[2]->map)
		*(volatile char *)c->ref[2]->map = 1;
	_exit(0);
}

static int do_fork(struct ctx *c)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		be_child(c);
	c->run->child[c->made - c->run->result] = pid;
	return 0;
}

/* Any number and size of DRM's, with next to nothing in it. */
static int do_raw(struct ctx *c)
{
	unsigned int nr = c->a[1] % 256, size = c->a[2] % 128;
	uint64_t buffer[32] = {};
	unsigned int i;

	/* The driver's own, as often as the core's. */
	if (c->a[3] % 2)
		nr = DRM_COMMAND_BASE + nr % 12;
	for (i = 0; i < 8; i++)
		if (c->a[3] >> i & 1)
			buffer[i] = c->a[3] >> 8 ? c->a[3] : c->a[4];
	return do_ioctl(c->a[0], _IOC(c->a[3] >> 1 & 3, 'd', nr, size), buffer);
}

static int do_sleep(struct ctx *c)
{
	return usleep(c->a[0] % 5000) ? -errno : 0;
}

static int do_fail(struct ctx *c)
{
	fail_next = 1 + c->a[0] % 128;
	return 0;
}

static int do_limit(struct ctx *c)
{
	const struct rlimit limit = { c->a[0], c->a[0] };

	return setrlimit(RLIMIT_MEMLOCK, &limit) ? -errno : 0;
}

static int do_stats(struct ctx *c)
{
	return card_stat("objects") < 0 ? -EIO : 0;
}

static int do_flr(struct ctx *c)
{
	int ret, fd = open("/sys/class/misc/openreg/device/reset",
			   O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret = write(fd, "1", 1) == 1 ? 0 : -errno;
	close(fd);
	return ret;
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

static int (* const calls[OPS])(struct ctx *c) = {
	[OP_OPEN] = do_open,
	[OP_CLOSE] = do_close,
	[OP_DUP] = do_dup,
	[OP_QUERY] = do_query,
	[OP_BO] = do_bo,
	[OP_INFO] = do_info,
	[OP_REGISTER] = do_register,
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
	[OP_MAP] = do_map,
	[OP_MAP_PART] = do_map_part,
	[OP_MEMORY] = do_memory,
	[OP_UNMAP] = do_unmap,
	[OP_PROTECT] = do_protect,
	[OP_ADVISE] = do_advise,
	[OP_TOUCH] = do_touch,
	[OP_EXPORT] = do_export,
	[OP_IMPORT] = do_import,
	[OP_SYNC] = do_sync,
	[OP_MAP_BUF] = do_map_buf,
	[OP_UDMABUF] = do_udmabuf,
	[OP_SYNCOBJ] = do_syncobj,
	[OP_SYNCOBJ_DESTROY] = do_syncobj_destroy,
	[OP_SYNCOBJ_WAIT] = do_syncobj_wait,
	[OP_SYNCOBJ_TIMELINE] = do_syncobj_timeline,
	[OP_SYNCOBJ_EVENTFD] = do_syncobj_eventfd,
	[OP_SYNCOBJ_TO_FD] = do_syncobj_to_fd,
	[OP_SYNCOBJ_FROM_FD] = do_syncobj_from_fd,
	[OP_FDINFO] = do_fdinfo,
	[OP_POLL] = do_poll,
	[OP_READ] = do_read,
	[OP_FORK] = do_fork,
	[OP_RAW] = do_raw,
	[OP_SLEEP] = do_sleep,
	[OP_FAIL] = do_fail,
	[OP_LIMIT] = do_limit,
	[OP_STATS] = do_stats,
	[OP_FLR] = do_flr,
	[OP_FLINK] = do_flink,
	[OP_CHANGE_HANDLE] = do_change_handle,
};

static uint64_t value_of(const struct result *r, enum kind kind)
{
	switch (kind) {
	case KIND_CARD:
	case KIND_BUF:
	case KIND_FD:
		return r->fd;
	case KIND_HANDLE:
		return r->handle;
	case KIND_QUEUE:
		return r->queue.id;
	case KIND_SYNCOBJ:
		return r->syncobj;
	case KIND_MAP:
		return (uintptr_t)r->map;
	case KIND_ADDRESS:
		return r->address;
	case KIND_OFFSET:
		return r->offset;
	default:
		return 0;
	}
}

bool call_run(struct run *run, unsigned int at)
{
	const struct call *call = &run->program->call[at];
	struct ctx c = { .run = run, .made = &run->result[at] };
	unsigned int i, failing = fail_next;
	int ret;

	for (i = 0; i < ARGS_MAX; i++) {
		c.a[i] = call->arg[i].value;
		if (!call->arg[i].ref)
			continue;
		c.ref[i] = &run->result[call->arg[i].value];
		c.a[i] = value_of(c.ref[i], ops[call->op].arg[i]);
	}
	fail_next = 0;
	if (failing)
		fail_nth(failing);
	ret = calls[call->op](&c);
	if (failing)
		fail_nth(0);
	count(&shared->calls);
	count(&shared->op_calls[call->op]);
	if (!ret) {
		count(&shared->good);
		count(&shared->op_good[call->op]);
	}
	return !ret;
}

static void undo_queue(struct queue *q)
{
	if (q->ring)
		munmap(q->ring, q->slots * 64ull);
	if (q->user)
		munmap((void *)q->user, 4096);
	if (q->card)
		munmap((void *)q->card, 4096);
	if (q->doorbell)
		munmap((void *)q->doorbell, 4096);
}

void call_undo(struct run *run, unsigned int at)
{
	struct result *r = &run->result[at];

	if (run->child[at] > 0) {
		kill(run->child[at], SIGKILL);
		waitpid(run->child[at], NULL, 0);
	}
	if (r->map)
		munmap(r->map, r->size);
	undo_queue(&r->queue);
	if (r->fd >= 0)
		close(r->fd);
}
