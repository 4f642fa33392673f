/* SPDX-License-Identifier: MIT */
/* What the clients and the program that starts them tell each other. */
#ifndef SOAK_SHARED_H
#define SOAK_SHARED_H

#include <stdint.h>

#define SOAK_CLIENTS_MAX 64
#define SOAK_CARDS_MAX 2

/* Of one client after the other: whoever is killed has told so far. */
struct soak_slot {
	volatile uint64_t turns; /* work that was done and is right */
	volatile uint64_t launches, ioctls;
	volatile uint64_t ends; /* the card went, or was reset, under it */
};

struct soak_shared {
	uint32_t cards;
	/* Of each card: resets and unplugs that were begun, and that are over. */
	volatile uint32_t begun[SOAK_CARDS_MAX], over[SOAK_CARDS_MAX];
	struct soak_slot slots[SOAK_CLIENTS_MAX];
};

/* The last wants two cards. */
#define SOAK_LOADS                                                            \
	{                                                                     \
		"compute", "copies", "launches", "churn", "userptr", "share", \
			"foreign", "syncobj", "faults", "pair"                \
	}

#endif
