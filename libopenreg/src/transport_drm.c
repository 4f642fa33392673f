// SPDX-License-Identifier: MIT
/* Transport to the kernel's device. Only this file makes system calls on it. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xf86drm.h>

#include "openreg_accel.h"
#include "openreg_regs.h"
#include "transport.h"

#define DRIVER_NAME "openreg"
#define NODE "/dev/openreg"

struct transport {
	int fd;
};

static int call(struct transport *t, unsigned long request, void *arg)
{
	return drmIoctl(t->fd, request, arg) ? -errno : 0;
}

/* -ENODEV: the card is gone. -EPROTO: fd is no device of the openreg driver. */
static int check_driver(int fd, char *text, size_t len)
{
	drmVersionPtr v;
	bool ours;

	errno = 0;
	v = drmGetVersion(fd);
	if (!v)
		return errno == ENODEV ? -ENODEV : -EPROTO;
	ours = v->name && !strcmp(v->name, DRIVER_NAME);
	if (text)
		snprintf(text, len, "%s %d.%d.%d", v->name ? v->name : "?",
			 v->version_major, v->version_minor,
			 v->version_patchlevel);
	drmFreeVersion(v);
	return ours ? 0 : -EPROTO;
}

static int drm_open(const char *path, struct transport **out)
{
	struct transport *t = malloc(sizeof(*t));
	int error;

	if (!t)
		return -ENOMEM;
	t->fd = open(path, O_RDWR | O_CLOEXEC);
	error = t->fd < 0 ? -errno : check_driver(t->fd, NULL, 0);
	if (error) {
		if (t->fd >= 0)
			close(t->fd);
		free(t);
		return error;
	}
	*out = t;
	return 0;
}

static void drm_close(struct transport *t)
{
	close(t->fd);
	free(t);
}

static int drm_fd(const struct transport *t)
{
	return t->fd;
}

static bool drm_exists(unsigned int index, char *path, size_t len)
{
	struct stat st;

	if (index)
		snprintf(path, len, NODE "%u", index);
	else
		snprintf(path, len, NODE);
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

static bool card_on_bus(void)
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

static void explain_no_card(const char *path, char *text, size_t len)
{
	unsigned int cards = 0;
	char other[64];

	for (unsigned int i = 0; i < OPENREG_MAX_CARDS; i++)
		cards += drm_exists(i, other, sizeof(other));
	if (cards)
		snprintf(text, len,
			 "no %s: cards of this machine: %u, " NODE " is the first",
			 path, cards);
	else if (card_on_bus())
		snprintf(text, len,
			 "no %s: the PCI bus has a card without a driver; load the driver (insmod openreg.ko) and see dmesg",
			 path);
	else
		snprintf(text, len,
			 "no %s and no openreg card on the PCI bus: run inside the VM (make shell), start it with a card (scripts/vm --cards 1), or use a card inside this process (" OPENREG_ENV_TRANSPORT
			 "=sim; make sim)",
			 path);
}

static void drm_explain(int error, const char *path, char *text, size_t len)
{
	switch (error) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		explain_no_card(path, text, len);
		break;
	case -EACCES:
	case -EPERM:
		snprintf(text, len,
			 "no permission to open %s: run as root or as a member of the group that owns it (ls -l %s)",
			 path, path);
		break;
	case -EPROTO:
		snprintf(text, len,
			 "%s is not a device of the openreg driver: pass " NODE
			 " or a /dev/accel node of this driver",
			 path);
		break;
	default:
		snprintf(text, len, "cannot open %s: %s", path,
			 strerror(-error));
	}
}

static int query(struct transport *t, uint32_t type, void *buf, uint32_t size)
{
	struct drm_openreg_query q = {
		.type = type,
		.size = size,
		.pointer = (uintptr_t)buf,
	};

	return call(t, DRM_IOCTL_OPENREG_QUERY, &q);
}

static void format_pci(uint64_t pci, char *buf, size_t len)
{
	snprintf(buf, len, "%04x:%02x:%02x.%x", (unsigned int)(pci >> 32),
		 (unsigned int)(pci >> 8 & 0xff),
		 (unsigned int)(pci >> 3 & 0x1f), (unsigned int)(pci & 7));
}

static int drm_info(struct transport *t, struct openreg_device_info *info)
{
	struct drm_openreg_device_info k = { 0 };
	int ret = query(t, DRM_OPENREG_QUERY_DEVICE, &k, sizeof(k));

	if (ret)
		return ret;
	check_driver(t->fd, info->driver, sizeof(info->driver));
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

static int drm_memory(struct transport *t, struct openreg_memory_info *info)
{
	struct drm_openreg_memory_info k = { 0 };
	int ret = query(t, DRM_OPENREG_QUERY_MEMORY, &k, sizeof(k));

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

static int drm_timestamp(struct transport *t, struct openreg_timestamp *ts)
{
	struct drm_openreg_timestamp k = { 0 };
	int ret = call(t, DRM_IOCTL_OPENREG_TIMESTAMP, &k);

	if (ret)
		return ret;
	ts->cpu_before = k.cpu_before;
	ts->card = k.card;
	ts->cpu_after = k.cpu_after;
	return 0;
}

static int drm_bo_create(struct transport *t, uint64_t size, uint32_t flags,
			struct transport_bo *bo)
{
	struct drm_openreg_bo_create k = { .size = size, .flags = flags };
	int ret = call(t, DRM_IOCTL_OPENREG_BO_CREATE, &k);

	if (ret)
		return ret;
	bo->size = k.size;
	bo->address = k.address;
	bo->map_offset = k.mmap_offset;
	bo->handle = k.handle;
	return 0;
}

static int drm_mem_register(struct transport *t, void *ptr, uint64_t size, uint32_t flags,
			   struct transport_bo *bo)
{
	struct drm_openreg_mem_register k = {
		.user_address = (uintptr_t)ptr,
		.size = size,
		.flags = flags,
	};
	int ret = call(t, DRM_IOCTL_OPENREG_MEM_REGISTER, &k);

	if (ret)
		return ret;
	bo->size = size;
	bo->address = k.address;
	bo->map_offset = 0;
	bo->handle = k.handle;
	return 0;
}

static void drm_bo_close(struct transport *t, uint32_t handle)
{
	struct drm_gem_close k = { .handle = handle };

	drmIoctl(t->fd, DRM_IOCTL_GEM_CLOSE, &k);
}

static int drm_bo_export(struct transport *t, uint32_t handle, bool readonly, int *fd)
{
	const uint32_t mode = readonly ? 0 : DRM_RDWR;

	return drmPrimeHandleToFD(t->fd, handle, DRM_CLOEXEC | mode, fd) ?
		       -errno :
		       0;
}

static int drm_bo_import(struct transport *t, int fd, uint32_t *handle)
{
	return drmPrimeFDToHandle(t->fd, fd, handle) ? -errno : 0;
}

static int drm_bo_info(struct transport *t, struct transport_bo *bo,
		       uint32_t *flags)
{
	struct drm_openreg_bo_info k = { .handle = bo->handle };
	int ret = call(t, DRM_IOCTL_OPENREG_BO_INFO, &k);

	if (ret)
		return ret;
	bo->size = k.size;
	bo->address = k.address;
	bo->map_offset = k.mmap_offset;
	bo->readonly = k.flags & DRM_OPENREG_BO_READONLY;
	*flags = k.flags;
	return 0;
}

static int map(struct transport *t, uint64_t offset, size_t size, int prot,
	       void **ptr)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, t->fd, (off_t)offset);

	*ptr = p == MAP_FAILED ? NULL : p;
	return p == MAP_FAILED ? -errno : 0;
}

static int drm_map(struct transport *t, const struct transport_bo *bo,
		   void **ptr)
{
	const int prot = bo->readonly ? PROT_READ : PROT_READ | PROT_WRITE;

	return map(t, bo->map_offset, bo->size, prot, ptr);
}

static void drm_unmap(void *ptr, size_t size)
{
	if (ptr)
		munmap(ptr, size);
}

static int map_queue(struct transport *t, const struct drm_openreg_queue_create *k,
		     struct transport_queue *tq)
{
	const int rw = PROT_READ | PROT_WRITE;
	void *user = NULL, *card = NULL, *doorbell = NULL;
	int ret;

	ret = map(t, k->ring_offset, tq->ring_size, rw, &tq->ring);
	if (!ret)
		ret = map(t, k->user_offset, OPENREG_QUEUE_PAGE_SIZE, rw,
			  &user);
	if (!ret)
		ret = map(t, k->card_offset, OPENREG_QUEUE_PAGE_SIZE,
			  PROT_READ, &card);
	if (!ret)
		ret = map(t, k->doorbell_offset, OPENREG_DOORBELL_STRIDE,
			  PROT_WRITE, &doorbell);
	tq->user = user;
	tq->card = card;
	tq->doorbell = doorbell;
	return ret;
}

static void drm_queue_destroy(struct transport *t, struct transport_queue *tq)
{
	struct drm_openreg_queue_destroy k = { .queue = tq->number };

	drmIoctl(t->fd, DRM_IOCTL_OPENREG_QUEUE_DESTROY, &k);
	drm_unmap(tq->ring, tq->ring_size);
	drm_unmap((void *)(uintptr_t)tq->user, OPENREG_QUEUE_PAGE_SIZE);
	drm_unmap((void *)(uintptr_t)tq->card, OPENREG_QUEUE_PAGE_SIZE);
	drm_unmap((void *)(uintptr_t)tq->doorbell,
			OPENREG_DOORBELL_STRIDE);
}

static int drm_queue_create(struct transport *t, uint32_t slots, uint32_t priority,
			   struct transport_queue *tq)
{
	struct drm_openreg_queue_create k = {
		.slots = slots,
		.priority = priority,
	};
	int ret = call(t, DRM_IOCTL_OPENREG_QUEUE_CREATE, &k);

	if (ret)
		return ret;
	memset(tq, 0, sizeof(*tq));
	tq->number = k.queue;
	tq->ring_size = (size_t)slots * OPENREG_SLOT_SIZE;
	ret = map_queue(t, &k, tq);
	if (ret)
		drm_queue_destroy(t, tq);
	return ret;
}

static int drm_queue_wait(struct transport *t, struct transport_queue *tq,
			  uint64_t seq, int64_t deadline_ns)
{
	struct drm_openreg_queue_wait k = {
		.queue = tq->number,
		.seq = seq,
		.timeout_ns = deadline_ns,
	};

	return call(t, DRM_IOCTL_OPENREG_QUEUE_WAIT, &k);
}

static int drm_queue_reset(struct transport *t, struct transport_queue *tq,
			   uint64_t head, uint64_t seq)
{
	struct drm_openreg_queue_reset k = {
		.queue = tq->number,
		.head = head,
		.seq = seq,
	};

	return call(t, DRM_IOCTL_OPENREG_QUEUE_RESET, &k);
}

const struct transport_ops openreg_drm_transport = {
	.size = sizeof(struct transport_ops),
	.more_vram = "start the VM with a larger --vram",
	.more_system = "start the VM with a larger --mem",
	.not_shared = "it is not a dma-buf in whole pages",
	.exists = drm_exists,
	.open = drm_open,
	.close = drm_close,
	.explain = drm_explain,
	.fd = drm_fd,
	.info = drm_info,
	.memory = drm_memory,
	.timestamp = drm_timestamp,
	.bo_create = drm_bo_create,
	.mem_register = drm_mem_register,
	.bo_close = drm_bo_close,
	.bo_export = drm_bo_export,
	.bo_import = drm_bo_import,
	.bo_info = drm_bo_info,
	.map = drm_map,
	.unmap = drm_unmap,
	.queue_create = drm_queue_create,
	.queue_destroy = drm_queue_destroy,
	.queue_wait = drm_queue_wait,
	.queue_reset = drm_queue_reset,
};
