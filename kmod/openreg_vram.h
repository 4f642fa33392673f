/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_VRAM_H
#define OPENREG_VRAM_H

#include <linux/mutex.h>
#include <linux/wait.h>

#include "openreg_compat.h"

struct openreg_bo;
struct openreg_device;
struct drm_openreg_memory_info;

struct openreg_vram {
	struct mutex lock; /* protects mm */
	struct gpu_buddy mm;
	atomic64_t clearing; /* bytes of unbound objects that the card clears */
	atomic_t maps; /* mappings of other devices */
	wait_queue_head_t unmapped; /* maps has become 0 */
};

int openreg_vram_init(struct openreg_device *odev);
void openreg_vram_count_clearing(struct openreg_bo *bo);
void openreg_vram_unbound(struct openreg_bo *bo, bool cleared);
bool openreg_vram_can_clear(struct openreg_bo *bo);
void openreg_vram_query(struct openreg_device *odev,
			struct drm_openreg_memory_info *info);

#endif
