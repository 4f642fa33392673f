/* SPDX-License-Identifier: GPL-2.0-only */
/* Names that differ between the kernels that this driver builds for. */
#ifndef OPENREG_COMPAT_H
#define OPENREG_COMPAT_H

#include <linux/slab.h>

#ifdef OPENREG_HAVE_GPU_BUDDY
#include <linux/gpu_buddy.h>
#else
#include <drm/drm_buddy.h>

#define gpu_buddy drm_buddy
#define gpu_buddy_block drm_buddy_block
#define gpu_buddy_init drm_buddy_init
#define gpu_buddy_fini drm_buddy_fini
#define gpu_buddy_alloc_blocks drm_buddy_alloc_blocks
#define gpu_buddy_free_list drm_buddy_free_list
#define gpu_buddy_block_offset drm_buddy_block_offset
#define gpu_buddy_block_size drm_buddy_block_size
#define gpu_buddy_block_is_clear drm_buddy_block_is_clear
#define GPU_BUDDY_CONTIGUOUS_ALLOCATION DRM_BUDDY_CONTIGUOUS_ALLOCATION
#define GPU_BUDDY_CLEAR_ALLOCATION DRM_BUDDY_CLEAR_ALLOCATION
#define GPU_BUDDY_CLEARED DRM_BUDDY_CLEARED
#endif

#ifndef OPENREG_HAVE_INVALIDATE_MAPPINGS
#define invalidate_mappings move_notify
#define dma_buf_invalidate_mappings dma_buf_move_notify
#endif

#ifndef gpu_buddy_driver_set_lock
#define gpu_buddy_driver_set_lock(mm, lock) ((void)(mm), (void)(lock))
#endif

/* Kernels that have this field warn if it is not set; later kernels print "0". */
#ifdef OPENREG_HAVE_DRIVER_DATE
#define OPENREG_DRIVER_DATE .date = "0",
#else
#define OPENREG_DRIVER_DATE
#endif

#ifndef kzalloc_obj
#define kzalloc_obj(obj) kzalloc(sizeof(obj), GFP_KERNEL)
#define kvmalloc_objs(obj, n) kvmalloc_array((n), sizeof(obj), GFP_KERNEL)
#endif

#endif
