/* SPDX-License-Identifier: MIT */
/* Memory that the clients and the soak program share. */
#ifndef SOAK_SHARED_H
#define SOAK_SHARED_H

#include <stdint.h>

#define SOAK_CLIENTS_MAX 64
#define SOAK_CARDS_MAX 2

/* What a client has on its card, by its own count. It is valid while the client pauses. */
struct soak_own {
	volatile int32_t pid; /* 0: the client does not pause */
	volatile uint32_t card, queues;
	volatile uint64_t vram; /* bytes; UINT64_MAX: unknown, the client imports memory */
};

/* Counters of one client and its successors. They stay after a client is killed. */
struct soak_slot {
	volatile uint64_t turns; /* completed turns with right results */
	volatile uint64_t launches, ioctls;
	volatile uint64_t ends; /* sessions ended by a reset or removal of the card */
	struct soak_own own;
};

struct soak_shared {
	uint32_t cards;
	volatile uint32_t pause; /* clients pause after a turn */
	/* For each card: number of resets and unplugs that have begun, and ended. */
	volatile uint32_t begun[SOAK_CARDS_MAX], over[SOAK_CARDS_MAX];
	struct soak_slot slots[SOAK_CLIENTS_MAX];
};

/* The last load needs two cards. */
#define SOAK_LOADS                                                            \
	{                                                                     \
		"compute", "copies", "launches", "churn", "userptr", "share", \
			"foreign", "syncobj", "faults", "pair"                \
	}

#endif
