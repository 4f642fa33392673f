// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>
#include <linux/udmabuf.h>

#include <drm.h>

#include "sharing.h"

#define PAGE 4096

int bo_export(int fd, __u32 handle, __u32 flags)
{
	struct drm_prime_handle args = { .handle = handle, .flags = flags };

	return card_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args) ?: args.fd;
}

int handle_import(int fd, int dma_buf, __u32 *handle)
{
	struct drm_prime_handle args = { .fd = dma_buf };
	int ret = card_ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);

	*handle = args.handle;
	return ret;
}

int bo_import(int fd, int dma_buf, struct bo *bo)
{
	struct drm_openreg_bo_info info = {};
	int ret = handle_import(fd, dma_buf, &info.handle);

	if (!ret)
		ret = card_ioctl(fd, DRM_IOCTL_OPENREG_BO_INFO, &info);
	*bo = (struct bo) {
		.handle = info.handle,
		.size = info.size,
		.address = info.address,
		.mmap_offset = info.mmap_offset,
	};
	return ret;
}

__u32 bo_flags(int fd, __u32 handle)
{
	struct drm_openreg_bo_info info = { .handle = handle };

	card_ioctl(fd, DRM_IOCTL_OPENREG_BO_INFO, &info);
	return info.flags;
}

int dma_buf_sync(int dma_buf, __u64 flags)
{
	struct dma_buf_sync args = { .flags = flags };

	return card_ioctl(dma_buf, DMA_BUF_IOCTL_SYNC, &args);
}

void *dma_buf_map(int dma_buf, __u64 size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, dma_buf, 0);
}

/* Backwards needs an entry for each page. udmabuf allows 1024 entries. */
static int udmabuf_create(int memfd, __u64 size, bool backwards)
{
	unsigned int i, count = backwards ? size / PAGE : 1;
	struct udmabuf_create_list *list;
	int ret, fd = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	list = calloc(1, sizeof(*list) + count * sizeof(list->list[0]));
	if (!list)
		return -ENOMEM;
	list->flags = UDMABUF_FLAGS_CLOEXEC;
	list->count = count;
	for (i = 0; i < count; i++) {
		list->list[i].memfd = memfd;
		list->list[i].size = size / count;
		list->list[i].offset = (count - 1 - i) * (size / count);
	}
	ret = ioctl(fd, UDMABUF_CREATE_LIST, list);
	if (ret < 0)
		ret = -errno;
	free(list);
	close(fd);
	return ret;
}

int udmabuf(__u64 size, bool backwards, void **memory)
{
	int ret, memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (memfd < 0)
		return -errno;
	*memory = MAP_FAILED;
	if (!ftruncate(memfd, size) && !fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		*memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			       memfd, 0);
	ret = *memory == MAP_FAILED ? -errno :
				      udmabuf_create(memfd, size, backwards);
	close(memfd);
	return ret;
}

static bool is_vgem(int fd)
{
	char name[8] = "";
	struct drm_version version = { .name = name, .name_len = 4 };

	return !card_ioctl(fd, DRM_IOCTL_VERSION, &version) &&
	       !strcmp(name, "vgem");
}

int vgem_open(void)
{
	char path[32];
	int i, fd;

	/* Ignore the status: modprobe fails if vgem is built in. */
	if (system("modprobe vgem") == -1)
		return -errno;
	for (i = 0; i < 16; i++) {
		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && is_vgem(fd))
			return fd;
		close(fd);
	}
	return -ENODEV;
}

int vgem_map(int fd, __u32 handle, __u64 size, void **memory)
{
	struct drm_mode_map_dumb map = { .handle = handle };
	int ret = card_ioctl(fd, DRM_IOCTL_MODE_MAP_DUMB, &map);

	if (ret)
		return ret;
	*memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       map.offset);
	return *memory == MAP_FAILED ? -errno : 0;
}

int vgem_create(int fd, __u64 size, __u32 *handle, void **memory)
{
	struct drm_mode_create_dumb create = {
		.width = PAGE / 4,
		.height = size / PAGE,
		.bpp = 32,
	};
	int ret = card_ioctl(fd, DRM_IOCTL_MODE_CREATE_DUMB, &create);

	*handle = create.handle;
	return ret ? ret : vgem_map(fd, create.handle, size, memory);
}

int card_copy(struct queue *queue, __u64 dst, __u64 src, __u64 bytes)
{
	struct packet p;

	packet_copy(&p, dst, src, bytes, OPENREG_U8);
	return queue_wait(queue, queue_push(queue, &p), 60 * SEC_NS);
}

static __u32 noise_word(size_t i, unsigned int seed)
{
	return (i + 1 + seed * 0x10001u) * 2654435761u ^ seed;
}

void noise(void *memory, size_t size, unsigned int seed)
{
	__u32 *word = memory;
	size_t i;

	for (i = 0; i < size / 4; i++)
		word[i] = noise_word(i, seed);
}

bool is_noise(const void *memory, size_t size, unsigned int seed)
{
	const __u32 *word = memory;
	size_t i;

	for (i = 0; i < size / 4; i++)
		if (word[i] != noise_word(i, seed))
			return false;
	return true;
}
