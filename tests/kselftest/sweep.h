/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A call is made again and again, and each time another of what it asks the
 * kernel for fails, until nothing is left that could: it must fail with it or do
 * without, leave nothing behind, and work when it is done again.
 */
#ifndef OPENREG_TEST_SWEEP_H
#define OPENREG_TEST_SWEEP_H

#include <stdbool.h>

#include "sharing.h"

#define SIZE 65536

struct world {
	int fd; /* all is done with this file, */
	int other; /* with this one what takes two, */
	int second; /* and with this one what takes two cards, if there are */
	int imports; /* a dma-buf of the host's memory */
	int exports; /* one of bo */
	int pipe[2];
	struct queue queue;
	struct bo bo, vram;
	__u32 syncobj;

	/* Of one attempt. */
	int file;
	int next; /* the file descriptor that a call will get, or another file */
	__u32 handle;
	struct queue more;
	struct bo made;
	void *map;
	__u64 seq;
};

/* For each attempt: before it, itself, and after it, with its result. */
struct sweep {
	int (*prepare)(struct world *w);
	int (*call)(struct world *w);
	int (*undo)(struct world *w, int ret);
	int result; /* where nothing fails */
	bool always; /* it cannot fail, whatever else does */
	int says; /* what the core makes of -ENOMEM here, if it is something else */
	/*
	 * It makes something that stays, nameless, if its name cannot be copied to
	 * the user, with any DRM driver.
	 */
	bool makes;
	bool on_second; /* what it makes is the second card's */
};

struct sweep_result {
	int injected; /* failures */
	int wrong; /* what should not be: each is told */
};

/* All return 0 or -errno unless said otherwise. */
int world_open(struct world *w);
void world_close(struct world *w);
struct sweep_result sweep_run(struct world *w, const struct sweep *sweep);

/* For the calls. */
int fresh_file(struct world *w); /* w->file */
int close_file(struct world *w, int ret);
int close_made(struct world *w, int ret);
int new_queue(int fd, struct queue *queue); /* which is not mapped */
int push_nop(struct world *w); /* to the world's queue; w->seq */

#endif
