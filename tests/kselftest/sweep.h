/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Repeats a call, and makes another of its allocations and user copies fail each time,
 * until each has failed once. The call must return an error or succeed without it, leave
 * nothing behind, and work when it is repeated.
 */
#ifndef OPENREG_TEST_SWEEP_H
#define OPENREG_TEST_SWEEP_H

#include <stdbool.h>

#include "sharing.h"

#define SIZE 65536

struct world {
	int fd; /* the file of most calls */
	int other; /* a second file */
	int second; /* a file of the second card, or -1 */
	int imports; /* a udmabuf */
	int exports; /* the dma-buf of bo */
	int pipe[2];
	struct queue queue;
	struct bo bo, vram;
	__u32 syncobj;

	/* For one attempt. */
	int file;
	int next; /* the next free file descriptor, or another file */
	__u32 handle;
	struct queue more;
	struct bo made;
	void *map;
	__u64 seq;
};

/* For each attempt: prepare, call, then undo with the result of the call. */
struct sweep {
	int (*prepare)(struct world *w);
	int (*call)(struct world *w);
	int (*undo)(struct world *w, int ret);
	int result; /* of the call if no allocation fails */
	bool always; /* the call never fails */
	int says; /* the error that DRM returns instead of -ENOMEM, or 0 */
	/*
	 * The call makes an object. With any DRM driver, the object stays without a name
	 * if the handle cannot be copied to the process.
	 */
	bool makes;
	bool on_second; /* the object is on the second card */
};

struct sweep_result {
	int injected; /* number of failures */
	int wrong; /* number of errors; each is printed */
};

/* Functions that return an int return 0 or -errno. */
int world_open(struct world *w);
void world_close(struct world *w);
struct sweep_result sweep_run(struct world *w, const struct sweep *sweep);

/* For use in struct sweep. */
int fresh_file(struct world *w); /* opens w->file */
int close_file(struct world *w, int ret);
int close_made(struct world *w, int ret);
int new_queue(int fd, struct queue *queue); /* does not map it */
int push_nop(struct world *w); /* to w->queue; sets w->seq */

#endif
