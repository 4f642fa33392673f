/* SPDX-License-Identifier: GPL-2.0-only */
/* dma-bufs: of cards, of the host's memory, of another driver. */
#ifndef OPENREG_TEST_SHARING_H
#define OPENREG_TEST_SHARING_H

#include "card.h"

/* All return 0 or -errno unless said otherwise. */

/* File descriptor of the dma-buf; flags of DRM_IOCTL_PRIME_HANDLE_TO_FD. */
int bo_export(int fd, __u32 handle, __u32 flags);
/* With what DRM_IOCTL_OPENREG_BO_INFO says of it; not mapped. */
int bo_import(int fd, int dma_buf, struct bo *bo);
/* Of any DRM device; only the handle. */
int handle_import(int fd, int dma_buf, __u32 *handle);
__u32 bo_flags(int fd, __u32 handle); /* 0 without such a handle */

int dma_buf_sync(int dma_buf, __u64 flags);
void *dma_buf_map(int dma_buf, __u64 size); /* or MAP_FAILED */

/*
 * File descriptor of a dma-buf of that many bytes of host memory, which is mapped
 * at *memory, too. Its pages are in the order of their addresses there, or in the
 * opposite one.
 */
int udmabuf(__u64 size, bool backwards, void **memory);

/* The driver vgem, loaded if need be: its file descriptor. */
int vgem_open(void);
int vgem_map(int fd, __u32 handle, __u64 size, void **memory);
int vgem_create(int fd, __u64 size, __u32 *handle, void **memory);

/* Bytes copied by the card, and waited for. */
int card_copy(struct queue *queue, __u64 dst, __u64 src, __u64 bytes);

/* Bytes that look like no others. */
void noise(void *memory, size_t size, unsigned int seed);
bool is_noise(const void *memory, size_t size, unsigned int seed);

#endif
