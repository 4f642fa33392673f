/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OPENREG_PRIME_H
#define OPENREG_PRIME_H

#include <linux/dma-buf.h>
#include <linux/fs.h>

struct drm_device;
struct drm_file;
struct drm_gem_object;
struct openreg_device;

/* The export opens the file, and all descriptors of a dma-buf refer to that file. */
static inline bool openreg_dma_buf_is_readonly(const struct dma_buf *dma_buf)
{
	return !(dma_buf->file->f_mode & FMODE_WRITE);
}

/* openreg_prime.c */
struct dma_buf *openreg_bo_export(struct drm_gem_object *obj, int flags);
bool openreg_prime_is_vram(const struct dma_buf *dma_buf);
int openreg_prime_handle_to_fd(struct drm_device *drm, struct drm_file *filp,
			       u32 handle, u32 flags, int *fd);
int openreg_prime_fd_to_handle(struct drm_device *drm, struct drm_file *filp,
			       int fd, u32 *handle);
void openreg_prime_revoke(struct openreg_device *odev);

/* openreg_import.c */
struct drm_gem_object *openreg_prime_import(struct drm_device *drm,
					    struct dma_buf *dma_buf);
int openreg_import_init(void);
void openreg_import_exit(void);

#endif
