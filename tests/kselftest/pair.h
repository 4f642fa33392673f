/* SPDX-License-Identifier: GPL-2.0-only */
/* Two cards, the second of which comes and goes; for a VM that has them. */
#ifndef OPENREG_TEST_PAIR_H
#define OPENREG_TEST_PAIR_H

#include <fcntl.h>
#include <stdbool.h>

#include "sharing.h"

#define RW (DRM_CLOEXEC | DRM_RDWR)
#define SECOND NODE "1"

/* A card, with MIB of both kinds of memory, mapped. */
struct end {
	int fd;
	struct queue q;
	struct bo vram, system;
	__u64 lent; /* address of memory of the other */
};

/* All return 0 or -errno. */
int end_open(const char *node, struct end *e);
void end_close(struct end *e); /* with its maps */
/* Memory of a file's card, to be written, for another file. */
int bo_lend(int from, __u32 handle, int to, struct bo *in);
/* The driver lets go of the second card, and takes it again. */
int second_find(void); /* before */
int second_unbind(void);
int second_bind(void);

/* Maps of the memory of a card that is gone are of one page, and harmless. */
bool is_dummy(volatile char *map);

#endif
