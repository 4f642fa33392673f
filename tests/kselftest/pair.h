/* SPDX-License-Identifier: GPL-2.0-only */
/* Two cards; the driver of the second can be unbound. Needs a VM with two cards. */
#ifndef OPENREG_TEST_PAIR_H
#define OPENREG_TEST_PAIR_H

#include <fcntl.h>
#include <stdbool.h>

#include "sharing.h"

#define RW (DRM_CLOEXEC | DRM_RDWR)
#define SECOND NODE "1"

/* A card with a queue and 1 MiB of each kind of memory, mapped. */
struct end {
	int fd;
	struct queue q;
	struct bo vram, system;
	__u64 lent; /* address of imported memory of the other card */
};

/* All return 0 or -errno. */
int end_open(const char *node, struct end *e);
void end_close(struct end *e); /* also unmaps */
/* Exports an object with write access, and imports it into another file. */
int bo_lend(int from, __u32 handle, int to, struct bo *in);
/* Find the second card; then unbind and bind its driver. */
int second_find(void);
int second_unbind(void);
int second_bind(void);

/* Does the mapping show a dummy page: zeros, and the same page everywhere? */
bool is_dummy(volatile char *map);

#endif
