// SPDX-License-Identifier: GPL-2.0-only
// test failures-sharing-iommu not kselftest not kselftest-checked: as failures-iommu
/*
 * Failing allocations and user copies in export and import of dma-bufs, between files and
 * between cards. Needs a VM with two cards.
 */
#include <errno.h>
#include <fcntl.h>

#include "failures.h"
#include "pair.h"

/* Makes a new object for each try, because a second export allocates nothing. */
static int prepare_export(struct world *w, __u32 flags)
{
	int ret = bo_create(w->fd, SIZE, flags, &w->made);

	w->next = dup(w->fd);
	return ret ? ret : close(w->next) ? -errno : 0;
}

static int prepare_export_vram(struct world *w)
{
	return prepare_export(w, DRM_OPENREG_BO_VRAM);
}

static int prepare_export_system(struct world *w)
{
	return prepare_export(w, DRM_OPENREG_BO_SYSTEM);
}

static int call_export(struct world *w)
{
	int ret = bo_export(w->fd, w->made.handle, DRM_RDWR | DRM_CLOEXEC);

	w->file = ret;
	return ret < 0 ? ret : 0;
}

static int undo_export(struct world *w, int ret)
{
	if (ret == -EFAULT)
		close(w->next);
	else if (!ret)
		close_file(w, 0);
	return bo_close(w->fd, w->made.handle);
}

static int call_import(struct world *w)
{
	return handle_import(w->fd, w->imports, &w->handle);
}

/* The import is the file's first use of the card, so it also creates the context. */
static int call_first_import(struct world *w)
{
	return handle_import(w->file, w->imports, &w->handle);
}

static int call_import_other(struct world *w)
{
	return handle_import(w->other, w->exports, &w->handle);
}

static int undo_import(struct world *w, int ret)
{
	return ret ? 0 : bo_close(w->fd, w->handle);
}

static int undo_import_other(struct world *w, int ret)
{
	return ret ? 0 : bo_close(w->other, w->handle);
}

static int prepare_alias(struct world *w)
{
	w->file = bo_export(w->fd, w->vram.handle, DRM_RDWR | DRM_CLOEXEC);
	return w->file < 0 ? w->file : 0;
}

static int call_alias(struct world *w)
{
	return handle_import(w->other, w->file, &w->handle);
}

static int undo_alias(struct world *w, int ret)
{
	close(w->file);
	return undo_import_other(w, ret);
}

/* The import is the first use of the other card by this file. */
static int prepare_first_vram_of_card(struct world *w)
{
	w->next = open(SECOND, O_RDWR | O_CLOEXEC);
	return w->next < 0 ? -errno : prepare_alias(w);
}

static int call_first_vram_of_card(struct world *w)
{
	return handle_import(w->next, w->file, &w->handle);
}

static int undo_first_vram_of_card(struct world *w, int ret)
{
	close(w->next);
	return close_file(w, 0);
}

static int call_vram_of_card(struct world *w)
{
	return handle_import(w->second, w->file, &w->handle);
}

static int undo_vram_of_card(struct world *w, int ret)
{
	close(w->file);
	return ret ? 0 : bo_close(w->second, w->handle);
}

SWEEP(export_vram, prepare_export_vram, call_export, undo_export);
SWEEP(export_system, prepare_export_system, call_export, undo_export);
SWEEP(import, .call = call_import, .undo = undo_import, .makes = true);
SWEEP(first_import, fresh_file, call_first_import, close_file);
SWEEP(import_other, .call = call_import_other, .undo = undo_import_other);
SWEEP(import_alias, prepare_alias, call_alias, undo_alias);
SWEEP(first_vram_of_card, prepare_first_vram_of_card, call_first_vram_of_card,
      undo_first_vram_of_card);
SWEEP(vram_of_card, prepare_alias, call_vram_of_card, undo_vram_of_card,
      .makes = true, .on_second = true);

TEST_HARNESS_MAIN
