/* SPDX-License-Identifier: GPL-2.0-only */
/* dma-bufs of cards, of system memory (udmabuf), and of another driver (vgem). */
#ifndef OPENREG_TEST_SHARING_H
#define OPENREG_TEST_SHARING_H

#include "card.h"

/* Functions that return an int return 0 or -errno, except as noted. */

/* Returns a file descriptor or -errno. flags are of DRM_IOCTL_PRIME_HANDLE_TO_FD. */
int bo_export(int fd, __u32 handle, __u32 flags);
/* Imports and fills in bo from DRM_IOCTL_OPENREG_BO_INFO. Does not map it. */
int bo_import(int fd, int dma_buf, struct bo *bo);
/* Imports on any DRM device. Returns only the handle. */
int handle_import(int fd, int dma_buf, __u32 *handle);
__u32 bo_flags(int fd, __u32 handle); /* 0 without such a handle */

int dma_buf_sync(int dma_buf, __u64 flags);
void *dma_buf_map(int dma_buf, __u64 size); /* or MAP_FAILED */

/*
 * Returns a file descriptor for a dma-buf of system memory, which is also mapped at
 * *memory. If backwards, the dma-buf has the pages of the mapping in opposite order.
 */
int udmabuf(__u64 size, bool backwards, void **memory);

/* Loads the driver vgem if needed. Returns a file descriptor or -errno. */
int vgem_open(void);
int vgem_map(int fd, __u32 handle, __u64 size, void **memory);
int vgem_create(int fd, __u64 size, __u32 *handle, void **memory);

/* Copies bytes on the card and waits for the packet. */
int card_copy(struct queue *queue, __u64 dst, __u64 src, __u64 bytes);

/* Fill memory with pseudo-random bytes of a seed, and check for them. */
void noise(void *memory, size_t size, unsigned int seed);
bool is_noise(const void *memory, size_t size, unsigned int seed);

#endif
