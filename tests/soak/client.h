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
#define WAIT_NS 200000000000ll /* after this a packet counts as hung */

/* A client opens the card, runs turns of its load, and reopens the card after an end. */
struct client {
	struct soak_shared *shared;
	struct soak_slot *slot;
	uint64_t rng;
	unsigned int card, other; /* this client's card, and its peer's card */
	uint32_t over; /* value of shared->over[card] at the open */
	bool cut; /* the session ended because of the other card */
	struct openreg_device *dev;
	struct openreg_queue *q[QUEUES];
	uint64_t counted[QUEUES]; /* packets counted so far */
	char text[256]; /* text of wrong() */
	void *load; /* private to the load */
};

/*
 * The functions return 0 or -errno; -EBADMSG, with a text, is a wrong result. end() frees
 * the objects of begin(), also after a failed begin(): unset pointers are NULL.
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
/* 0..below-1 */
uint64_t random_below(struct client *c, uint64_t below);

/* Stores the text and returns -EBADMSG. */
int wrong(struct client *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* True if a reset or unplug of the card has begun since over was read. */
bool disturbed_since(const struct client *c, unsigned int card, uint32_t over);

/* Submits all packets and waits for them. */
int finish(struct client *c, unsigned int queue);
int alloc(struct client *c, uint64_t size, uint32_t flags,
	  struct openreg_bo **bo);
/* Also maps the buffer. */
int alloc_mapped(struct client *c, uint64_t size, uint32_t flags,
		 struct openreg_bo **bo, void **map);

/* Fills memory with pseudo-random bytes of seed. */
void noise(void *memory, size_t size, uint64_t seed);
/* Offset of the first byte that differs from noise(); size if all are equal. */
size_t not_noise(const void *memory, size_t size, uint64_t seed);

/* Forks a peer process; each process has one end of a socket pair. */
bool share_split(void);
bool share_is_peer(void);

#endif
