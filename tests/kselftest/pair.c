// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine.h"
#include "pair.h"

int end_open(const char *node, struct end *e)
{
	int ret;

	e->fd = open(node, O_RDWR | O_CLOEXEC);
	ret = e->fd < 0 ? -errno : queue_create(e->fd, 64, &e->q);
	if (!ret)
		ret = bo_create(e->fd, MIB, DRM_OPENREG_BO_VRAM, &e->vram);
	if (!ret)
		ret = bo_map(e->fd, &e->vram);
	if (!ret)
		ret = bo_create(e->fd, MIB, DRM_OPENREG_BO_SYSTEM, &e->system);
	if (!ret)
		ret = bo_map(e->fd, &e->system);
	return ret;
}

void end_close(struct end *e)
{
	queue_unmap(&e->q);
	munmap(e->vram.cpu, MIB);
	munmap(e->system.cpu, MIB);
	close(e->fd);
}

int bo_lend(int from, __u32 handle, int to, struct bo *in)
{
	int ret, db = bo_export(from, handle, RW);

	if (db < 0)
		return db;
	ret = bo_import(to, db, in);
	close(db);
	return ret;
}

static char second[64]; /* PCI address, in the form of sysfs */

int second_find(void)
{
	char path[PATH_MAX];

	if (!realpath("/sys/class/misc/openreg1/device", path))
		return -errno;
	snprintf(second, sizeof(second), "%s", strrchr(path, '/') + 1);
	return 0;
}

int second_unbind(void)
{
	return file_put(PCI_DRIVER "unbind", second);
}

int second_bind(void)
{
	return file_put(PCI_DRIVER "bind", second);
}

bool is_dummy(volatile char *map)
{
	if (map[0] || map[MIB - 1])
		return false;
	map[77] = 5;
	return map[MIB - 4096 + 77] == 5;
}
