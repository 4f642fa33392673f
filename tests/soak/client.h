/* SPDX-License-Identifier: MIT */
#ifndef SOAK_CLIENT_H
#define SOAK_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openreg.h>

#include "shared.h"

#define QUEUES 2
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define WAIT_NS 200000000000ll /* nothing takes as long: it hangs */

/* A client opens the card, does turns of its load, and opens it again if it went. */
struct client {
	struct soak_shared *shared;
	struct soak_slot *slot;
	uint64_t rng;
	unsigned int card, other; /* its own, and that of who it shares with */
	uint32_t over; /* of shared, when the card was opened */
	bool cut; /* by what happened to the other card */
	struct openreg_device *dev;
	struct openreg_queue *q[QUEUES];
	uint64_t counted[QUEUES]; /* packets */
	char text[256]; /* what was wrong */
	void *load; /* its own */
};

/*
 * All return 0 or -errno; -EBADMSG with a text is a wrong result. What begin()
 * has made end() frees, and finds NULL where begin() did not come to it.
 */
struct load {
	const char *name;
	size_t size; /* of client->load, zeroed before begin() */
	int (*begin)(struct client *c);
	int (*turn)(struct client *c);
	void (*end)(struct client *c);
};

extern const struct load load_compute, load_copies, load_launches, load_churn,
	load_userptr, load_share, load_share_peer, load_foreign, load_syncobj,
	load_faults, load_pair;

uint64_t random64(struct client *c);
/* From 0 to below. */
uint64_t random_below(struct client *c, uint64_t below);

int wrong(struct client *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* A reset or an unplug of the card may have met what was opened when this was over. */
bool disturbed_since(const struct client *c, unsigned int card, uint32_t over);

/* Submits, and waits. */
int finish(struct client *c, unsigned int queue);
int alloc(struct client *c, uint64_t size, uint32_t flags,
	  struct openreg_bo **bo);
/* Mapped as well. */
int alloc_mapped(struct client *c, uint64_t size, uint32_t flags,
		 struct openreg_bo **bo, void **map);

/* Bytes that look like no others, at an offset within them. */
void noise(void *memory, size_t size, uint64_t seed);
/* Where they are not that; size if nowhere. */
size_t not_noise(const void *memory, size_t size, uint64_t seed);

/* Makes a second process of this; each has its end of a socket. */
bool share_split(void);
bool share_is_peer(void);

#endif
