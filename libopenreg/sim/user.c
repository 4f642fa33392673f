// SPDX-License-Identifier: MIT
/*
 * Refuses to register the memory that the kernel's driver would refuse because it cannot
 * pin it. Here no memory is pinned.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

struct map {
	uintptr_t start;
	uintptr_t end;
	char perm[5];
};

/* 1: the range ends in this mapping; 0: check the next mapping, at m->end; or -errno. */
static int check_map(const struct map *m, uintptr_t at, uintptr_t end,
		     bool writable)
{
	if (m->start > at)
		return -EFAULT;
	if (m->perm[3] != 'p')
		return -EOPNOTSUPP;
	if (m->perm[0] != 'r' || (writable && m->perm[1] != 'w'))
		return -EFAULT;
	return m->end >= end;
}

static int check_maps(const void *ptr, uint64_t size, bool writable)
{
	uintptr_t at = (uintptr_t)ptr, end = at + size;
	FILE *f = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t len = 0;
	struct map m;
	int ret = 0;

	if (!f)
		return -ENOMEM;
	while (!ret && getline(&line, &len, f) > 0) {
		if (sscanf(line, "%lx-%lx %4s", &m.start, &m.end, m.perm) != 3)
			break;
		if (m.end <= at)
			continue;
		ret = check_map(&m, at, end, writable);
		at = m.end;
	}
	free(line);
	fclose(f);
	return ret > 0 ? 0 : ret ? ret : -EFAULT;
}

int sim_check_user_memory(const void *ptr, uint64_t size, bool writable)
{
	int cancel = sim_cancel_off();
	int ret = check_maps(ptr, size, writable);

	sim_cancel_restore(cancel);
	return ret;
}
