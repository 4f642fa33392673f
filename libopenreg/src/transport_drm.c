// SPDX-License-Identifier: MIT
/* The kernel's device: the only file that makes system calls on it. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xf86drm.h>

#include "openreg_accel.h"
#include "openreg_regs.h"
#include "transport.h"

#define DRIVER_NAME "openreg"

static int call(int fd, unsigned long request, void *arg)
{
	return drmIoctl(fd, request, arg) ? -errno : 0;
}

static bool driver_is_ours(int fd, char *text, size_t len)
{
	drmVersionPtr v = drmGetVersion(fd);
	bool ours;

	if (!v)
		return false;
	ours = v->name && !strcmp(v->name, DRIVER_NAME);
	if (text)
		snprintf(text, len, "%s %d.%d.%d", v->name ? v->name : "?",
			 v->version_major, v->version_minor,
			 v->version_patchlevel);
	drmFreeVersion(v);
	return ours;
}

int transport_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (!driver_is_ours(fd, NULL, 0)) {
		close(fd);
		return -EPROTO;
	}
	return fd;
}

void transport_close(int fd)
{
	close(fd);
}

bool transport_exists(unsigned int index, char *path, size_t len)
{
	struct stat st;

	if (index)
		snprintf(path, len, OPENREG_PATH "%u", index);
	else
		snprintf(path, len, OPENREG_PATH);
	return stat(path, &st) == 0 && S_ISCHR(st.st_mode);
}

static bool file_has(const char *dir, const char *name, unsigned int value)
{
	char path[512];
	unsigned int v = 0;
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fscanf(f, "%x", &v);
	fclose(f);
	return n == 1 && v == value;
}

bool transport_card_on_bus(void)
{
	bool found = false;
	glob_t g;

	if (glob("/sys/bus/pci/devices/*", 0, NULL, &g))
		return false;
	for (size_t i = 0; i < g.gl_pathc && !found; i++)
		found = file_has(g.gl_pathv[i], "vendor", OPENREG_PCI_VENDOR) &&
			file_has(g.gl_pathv[i], "device", OPENREG_PCI_DEVICE);
	globfree(&g);
	return found;
}

static int query(int fd, uint32_t type, void *buf, uint32_t size)
{
	struct drm_openreg_query q = {
		.type = type,
		.size = size,
		.pointer = (uintptr_t)buf,
	};

	return call(fd, DRM_IOCTL_OPENREG_QUERY, &q);
}

static void format_pci(uint64_t pci, char *buf, size_t len)
{
	snprintf(buf, len, "%04x:%02x:%02x.%x", (unsigned int)(pci >> 32),
		 (unsigned int)(pci >> 8 & 0xff),
		 (unsigned int)(pci >> 3 & 0x1f), (unsigned int)(pci & 7));
}

int transport_info(int fd, struct openreg_device_info *info)
{
	struct drm_openreg_device_info k = { 0 };
	int ret = query(fd, DRM_OPENREG_QUERY_DEVICE, &k, sizeof(k));

	if (ret)
		return ret;
	driver_is_ours(fd, info->driver, sizeof(info->driver));
	format_pci(k.pci, info->pci, sizeof(info->pci));
	info->isa_version = k.isa_version;
	info->card = k.card;
	info->packets = k.packets;
	info->dtypes = k.dtypes;
	info->vram_size = k.vram_size;
	info->max_bo_size = k.max_bo_size;
	info->max_queues = k.max_queues;
	info->max_segments = k.max_segments;
	info->max_ring_slots = k.max_ring_slots;
	info->workers = k.workers;
	info->slice_us = k.slice_us;
	info->max_work = k.max_work;
	info->vectors = k.vectors;
	return 0;
}

int transport_memory(int fd, struct openreg_memory_info *info)
{
	struct drm_openreg_memory_info k = { 0 };
	int ret = query(fd, DRM_OPENREG_QUERY_MEMORY, &k, sizeof(k));

	if (ret)
		return ret;
	info->vram_total = k.vram_total;
	info->vram_free = k.vram_free;
	info->vram_largest = k.vram_largest;
	info->process_vram = k.process_vram;
	info->process_system = k.process_system;
	info->process_pinned = k.process_pinned;
	return 0;
}

int transport_timestamp(int fd, struct openreg_timestamp *ts)
{
	struct drm_openreg_timestamp k = { 0 };
	int ret = call(fd, DRM_IOCTL_OPENREG_TIMESTAMP, &k);

	if (ret)
		return ret;
	ts->cpu_before = k.cpu_before;
	ts->card = k.card;
	ts->cpu_after = k.cpu_after;
	return 0;
}

int transport_bo_create(int fd, uint64_t size, uint32_t flags,
			struct transport_bo *bo)
{
	struct drm_openreg_bo_create k = { .size = size, .flags = flags };
	int ret = call(fd, DRM_IOCTL_OPENREG_BO_CREATE, &k);

	if (ret)
		return ret;
	bo->size = k.size;
	bo->address = k.address;
	bo->map_offset = k.mmap_offset;
	bo->handle = k.handle;
	return 0;
}

int transport_mem_register(int fd, void *ptr, uint64_t size, uint32_t flags,
			   struct transport_bo *bo)
{
	struct drm_openreg_mem_register k = {
		.user_address = (uintptr_t)ptr,
		.size = size,
		.flags = flags,
	};
	int ret = call(fd, DRM_IOCTL_OPENREG_MEM_REGISTER, &k);

	if (ret)
		return ret;
	bo->size = size;
	bo->address = k.address;
	bo->map_offset = 0;
	bo->handle = k.handle;
	return 0;
}

void transport_bo_close(int fd, uint32_t handle)
{
	struct drm_gem_close k = { .handle = handle };

	drmIoctl(fd, DRM_IOCTL_GEM_CLOSE, &k);
}

static int map(int fd, uint64_t offset, size_t size, int prot, void **ptr)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, (off_t)offset);

	*ptr = p == MAP_FAILED ? NULL : p;
	return p == MAP_FAILED ? -errno : 0;
}

int transport_map(int fd, uint64_t offset, size_t size, void **ptr)
{
	return map(fd, offset, size, PROT_READ | PROT_WRITE, ptr);
}

void transport_unmap(void *ptr, size_t size)
{
	if (ptr)
		munmap(ptr, size);
}

static int map_queue(int fd, const struct drm_openreg_queue_create *k,
		     struct transport_queue *tq)
{
	const int rw = PROT_READ | PROT_WRITE;
	void *user = NULL, *card = NULL, *doorbell = NULL;
	int ret;

	ret = map(fd, k->ring_offset, tq->ring_size, rw, &tq->ring);
	if (!ret)
		ret = map(fd, k->user_offset, OPENREG_QUEUE_PAGE_SIZE, rw,
			  &user);
	if (!ret)
		ret = map(fd, k->card_offset, OPENREG_QUEUE_PAGE_SIZE,
			  PROT_READ, &card);
	if (!ret)
		ret = map(fd, k->doorbell_offset, OPENREG_DOORBELL_STRIDE,
			  PROT_WRITE, &doorbell);
	tq->user = user;
	tq->card = card;
	tq->doorbell = doorbell;
	return ret;
}

int transport_queue_create(int fd, uint32_t slots, uint32_t priority,
			   struct transport_queue *tq)
{
	struct drm_openreg_queue_create k = {
		.slots = slots,
		.priority = priority,
	};
	int ret = call(fd, DRM_IOCTL_OPENREG_QUEUE_CREATE, &k);

	if (ret)
		return ret;
	memset(tq, 0, sizeof(*tq));
	tq->number = k.queue;
	tq->ring_size = (size_t)slots * OPENREG_SLOT_SIZE;
	ret = map_queue(fd, &k, tq);
	if (ret)
		transport_queue_destroy(fd, tq);
	return ret;
}

void transport_queue_destroy(int fd, struct transport_queue *tq)
{
	struct drm_openreg_queue_destroy k = { .queue = tq->number };

	drmIoctl(fd, DRM_IOCTL_OPENREG_QUEUE_DESTROY, &k);
	transport_unmap(tq->ring, tq->ring_size);
	transport_unmap((void *)(uintptr_t)tq->user, OPENREG_QUEUE_PAGE_SIZE);
	transport_unmap((void *)(uintptr_t)tq->card, OPENREG_QUEUE_PAGE_SIZE);
	transport_unmap((void *)(uintptr_t)tq->doorbell,
			OPENREG_DOORBELL_STRIDE);
}

int transport_queue_wait(int fd, uint32_t number, uint64_t seq,
			 int64_t deadline_ns)
{
	struct drm_openreg_queue_wait k = {
		.queue = number,
		.seq = seq,
		.timeout_ns = deadline_ns,
	};

	return call(fd, DRM_IOCTL_OPENREG_QUEUE_WAIT, &k);
}

int transport_queue_reset(int fd, uint32_t number, uint64_t head, uint64_t seq)
{
	struct drm_openreg_queue_reset k = {
		.queue = number,
		.head = head,
		.seq = seq,
	};

	return call(fd, DRM_IOCTL_OPENREG_QUEUE_RESET, &k);
}
