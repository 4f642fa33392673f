/* SPDX-License-Identifier: MIT */
/* Memory that the clients and the soak program share. */
#ifndef SOAK_SHARED_H
#define SOAK_SHARED_H

#include <stdint.h>

#define SOAK_CLIENTS_MAX 64
#define SOAK_CARDS_MAX 2

/* Counters of one client and its successors. They stay after a client is killed. */
struct soak_slot {
	volatile uint64_t turns; /* completed turns with right results */
	volatile uint64_t launches, ioctls;
	volatile uint64_t ends; /* sessions ended by a reset or removal of the card */
};

struct soak_shared {
	uint32_t cards;
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
