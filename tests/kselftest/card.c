// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "card.h"

__s64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC_NS + ts.tv_nsec;
}

static unsigned int chosen;
static char node[32] = NODE;

void card_choose(unsigned int number)
{
	chosen = number;
	snprintf(node, sizeof(node), number ? NODE "%u" : NODE, number);
}

unsigned int card_number(void)
{
	return chosen;
}

const char *card_node(void)
{
	return node;
}

int card_open(void)
{
	int fd = open(node, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int card_ioctl(int fd, unsigned long request, void *arg)
{
	int ret;

	do {
		ret = ioctl(fd, request, arg);
	} while (ret < 0 && (errno == EINTR || errno == EAGAIN));
	return ret < 0 ? -errno : 0;
}

static int card_query(int fd, __u32 type, void *result, __u32 size)
{
	struct drm_openreg_query query = {
		.type = type,
		.size = size,
		.pointer = (uintptr_t)result,
	};

	return card_ioctl(fd, DRM_IOCTL_OPENREG_QUERY, &query);
}

int card_info(int fd, struct drm_openreg_device_info *info)
{
	return card_query(fd, DRM_OPENREG_QUERY_DEVICE, info, sizeof(*info));
}

int card_memory(int fd, struct drm_openreg_memory_info *info)
{
	return card_query(fd, DRM_OPENREG_QUERY_MEMORY, info, sizeof(*info));
}

int syncobj_create(int fd, __u32 *handle)
{
	struct drm_syncobj_create args = {};
	int ret = card_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &args);

	*handle = args.handle;
	return ret;
}

int syncobj_point(int fd, unsigned long request, __u32 handle, __u64 *point)
{
	struct drm_syncobj_timeline_array args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)point,
		.count_handles = 1,
	};

	return card_ioctl(fd, request, &args);
}

int queue_signal(const struct queue *queue, __u32 syncobj, __u64 seq, __u64 point)
{
	struct drm_openreg_queue_signal args = {
		.queue = queue->id, .syncobj = syncobj, .seq = seq, .point = point,
	};

	return card_ioctl(queue->fd, DRM_IOCTL_OPENREG_QUEUE_SIGNAL, &args);
}

int bo_create(int fd, __u64 size, __u32 flags, struct bo *bo)
{
	struct drm_openreg_bo_create args = { .size = size, .flags = flags };
	int ret = card_ioctl(fd, DRM_IOCTL_OPENREG_BO_CREATE, &args);

	*bo = (struct bo) {
		.handle = args.handle,
		.size = args.size,
		.address = args.address,
		.mmap_offset = args.mmap_offset,
	};
	return ret;
}

int bo_register(int fd, void *memory, __u64 size, __u32 flags,
		struct bo *bo)
{
	struct drm_openreg_mem_register args = {
		.user_address = (uintptr_t)memory,
		.size = size,
		.flags = flags,
	};
	int ret = card_ioctl(fd, DRM_IOCTL_OPENREG_MEM_REGISTER, &args);

	*bo = (struct bo) {
		.handle = args.handle,
		.size = size,
		.address = args.address,
		.cpu = memory,
	};
	return ret;
}

static int card_map(int fd, __u64 offset, __u64 size, int prot,
		    void **result)
{
	void *map = mmap(NULL, size, prot, MAP_SHARED, fd, offset);

	*result = map;
	return map == MAP_FAILED ? -errno : 0;
}

int bo_map(int fd, struct bo *bo)
{
	return card_map(fd, bo->mmap_offset, bo->size, PROT_READ | PROT_WRITE,
			&bo->cpu);
}

int bo_close(int fd, __u32 handle)
{
	struct drm_gem_close args = { .handle = handle };

	return card_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &args);
}

int queue_create(int fd, __u32 slots, struct queue *queue)
{
	void *ring, *user, *card, *doorbell;
	int ret;

	*queue = (struct queue) {
		.fd = fd,
		.slots = slots,
		.args.slots = slots,
		.args.priority = 1,
	};
	ret = card_ioctl(fd, DRM_IOCTL_OPENREG_QUEUE_CREATE, &queue->args);
	if (ret)
		return ret;
	queue->id = queue->args.queue;

	ret = card_map(fd, queue->args.ring_offset, slots * OPENREG_SLOT_SIZE,
		       PROT_READ | PROT_WRITE, &ring);
	if (!ret)
		ret = card_map(fd, queue->args.user_offset, 4096,
			       PROT_READ | PROT_WRITE, &user);
	if (!ret)
		ret = card_map(fd, queue->args.card_offset, 4096, PROT_READ,
			       &card);
	if (!ret)
		ret = card_map(fd, queue->args.doorbell_offset, 4096,
			       PROT_WRITE, &doorbell);
	if (ret)
		return ret;
	queue->ring = ring;
	queue->user = user;
	queue->card = card;
	queue->doorbell = doorbell;
	return 0;
}

void queue_unmap(struct queue *queue)
{
	munmap(queue->ring, queue->slots * OPENREG_SLOT_SIZE);
	munmap((void *)queue->user, 4096);
	munmap((void *)queue->card, 4096);
	munmap((void *)queue->doorbell, 4096);
}

int queue_destroy(struct queue *queue)
{
	struct drm_openreg_queue_destroy args = { .queue = queue->id };

	return card_ioctl(queue->fd, DRM_IOCTL_OPENREG_QUEUE_DESTROY, &args);
}

int queue_reset(struct queue *queue, __u64 head, __u64 seq)
{
	struct drm_openreg_queue_reset args = {
		.queue = queue->id,
		.head = head,
		.seq = seq,
	};

	return card_ioctl(queue->fd, DRM_IOCTL_OPENREG_QUEUE_RESET, &args);
}

int queue_wait(struct queue *queue, __u64 seq, __s64 timeout_ns)
{
	struct drm_openreg_queue_wait args = {
		.queue = queue->id,
		.seq = seq,
		.timeout_ns = timeout_ns == FOREVER ? FOREVER :
			      timeout_ns ? now_ns() + timeout_ns : 0,
	};

	return card_ioctl(queue->fd, DRM_IOCTL_OPENREG_QUEUE_WAIT, &args);
}

int queue_spin(struct queue *queue, __u64 seq)
{
	__s64 deadline = now_ns() + 20 * SEC_NS;

	while (queue->card->completed < seq)
		if (now_ns() > deadline)
			return -ETIME;
	return 0;
}

static unsigned int packet_slots(const struct packet *packet)
{
	return packet->bytes[offsetof(struct openreg_packet, slots)];
}

static void queue_put(struct queue *queue, const struct packet *packet)
{
	const unsigned int slots = packet_slots(packet);
	unsigned char *at = queue->ring +
		(queue->tail & (queue->slots - 1)) * OPENREG_SLOT_SIZE;

	memcpy(at, packet->bytes, slots * OPENREG_SLOT_SIZE);
	queue->tail += slots;
	queue->seq++;
}

__u64 queue_write(struct queue *queue, const struct packet *packet)
{
	unsigned int slots = packet_slots(packet);
	unsigned int left = queue->slots - (queue->tail & (queue->slots - 1));
	unsigned int pad = slots > left ? left : 0;
	struct packet nop;

	if (queue->tail + pad + slots - queue->card->head > queue->slots)
		queue_publish(queue);
	while (queue->tail + pad + slots - queue->card->head > queue->slots)
		if (queue->card->state != OPENREG_QUEUE_RUNNING)
			return 0;

	if (pad) {
		openreg_encode_nop(nop.bytes, pad);
		queue_put(queue, &nop);
	}
	queue_put(queue, packet);
	return queue->seq;
}

void queue_publish(struct queue *queue)
{
	__atomic_store_n(&queue->user->tail, queue->tail, __ATOMIC_RELEASE);
	/* mfence: with one emulated CPU a lock prefix may be no barrier. */
	__asm__ volatile("mfence" ::: "memory");
	if (queue->card->asleep)
		*queue->doorbell = 1;
}

__u64 queue_push(struct queue *queue, const struct packet *packet)
{
	__u64 seq = queue_write(queue, packet);

	queue_publish(queue);
	return seq;
}

__u64 queue_push_blindly(struct queue *queue, const struct packet *packet)
{
	unsigned int slots = packet_slots(packet);

	if ((queue->tail & (queue->slots - 1)) + slots > queue->slots)
		return 0;
	queue_put(queue, packet);
	queue_publish(queue);
	return queue->seq;
}

static int stats_path(char *path, size_t size)
{
	glob_t found;
	int ret = -1;

	if (access("/sys/kernel/debug/accel", F_OK))
		mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (glob("/sys/kernel/debug/accel/*/openreg_stats", 0, NULL, &found))
		return -1;
	/* By bus address: the index is the card's number if all cards are bound. */
	if (found.gl_pathc > chosen)
		ret = snprintf(path, size, "%s", found.gl_pathv[chosen]);
	globfree(&found);
	return ret;
}

long long card_stat(const char *name)
{
	char path[256], key[64];
	long long value, result = -1;
	FILE *file;

	if (stats_path(path, sizeof(path)) < 0)
		return -1;
	file = fopen(path, "r");
	if (!file)
		return -1;
	while (fscanf(file, "%63s %lld", key, &value) == 2)
		if (!strcmp(key, name))
			result = value;
	fclose(file);
	return result;
}

void await_compute(long long ns)
{
	while (card_stat("compute_ns") < ns)
		usleep(1000);
}

void push_and_begin(struct queue *queue, const struct packet *packet)
{
	long long before = card_stat("compute_ns");

	queue_push(queue, packet);
	await_compute(before + 1);
}

struct card_usage card_usage(void)
{
	return (struct card_usage) {
		.vram_free = card_stat("vram_free"),
		.contexts = card_stat("contexts"),
		.queues = card_stat("queues"),
		.objects = card_stat("objects"),
	};
}

struct card_usage card_unused(void)
{
	__s64 deadline = now_ns() + 60 * SEC_NS;
	long long total = card_stat("vram_total");
	struct card_usage now = card_usage();

	while ((now.vram_free != total || now.contexts || now.queues ||
		now.objects) && now_ns() < deadline) {
		usleep(1000);
		now = card_usage();
	}
	if (now.vram_free != total || now.contexts || now.queues || now.objects)
		fprintf(stderr,
			"# in use for a minute: VRAM %lld of %lld free, contexts %lld, queues %lld, objects %lld\n",
			now.vram_free, total, now.contexts, now.queues,
			now.objects);
	return now;
}

bool card_settles(struct card_usage before)
{
	__s64 deadline = now_ns() + 60 * SEC_NS;
	struct card_usage now;

	do {
		now = card_usage();
		if (!memcmp(&now, &before, sizeof(now)))
			return true;
		usleep(1000);
	} while (now_ns() < deadline);
	fprintf(stderr,
		"# vram_free %lld was %lld, contexts %lld was %lld, queues %lld was %lld, objects %lld was %lld\n",
		now.vram_free, before.vram_free, now.contexts, before.contexts,
		now.queues, before.queues, now.objects, before.objects);
	return false;
}
