/* SPDX-License-Identifier: GPL-2.0-only */
/* The program that starts the clients, kills them, and does worse to the card. */
#ifndef SOAK_H
#define SOAK_H

#include <stdbool.h>
#include <stdint.h>

#include "shared.h"

/* Rounds and their actions come from the seed alone. */
struct soak {
	uint64_t rng;
	unsigned int clients, cards, round;
	long long begun_ns, deadline_ns, stall_ns, told_ns;
	struct soak_shared *shared;
	int shared_fd;
	unsigned int kills, unplugs, resets, sleeps, exits;
	bool calm, failed;
};

uint64_t soak_below(struct soak *s, uint64_t below);
/* A line with what failed; always false. */
bool soak_fail(struct soak *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
uint64_t soak_turns(const struct soak *s);
/* A line of progress if it is time for one. */
void soak_tell(struct soak *s);

/* ---- crew.c: the clients. All false once something has failed. ----------- */

bool crew_start(struct soak *s);
/* Takes up who has ended, puts others in their place, sees who stands still. */
bool crew_look(struct soak *s);
bool crew_kill_one(struct soak *s);
/* All of them, and waits for them. */
bool crew_stop(struct soak *s);

/* ---- events.c ------------------------------------------------------------ */

bool events_begin(struct soak *s);
bool event_reset(struct soak *s);
bool event_unplug(struct soak *s);
/* Of the whole machine. No client may notice. */
bool event_sleep(struct soak *s);

/* ---- memory.c ------------------------------------------------------------ */

void memory_begin(const struct soak *s);
/* At the end of a round: nobody has a card, and nothing may be left. */
bool memory_look(struct soak *s);
/* Of all rounds: does it become more and more? */
bool memory_judge(struct soak *s);
long long memory_first(void), memory_last(void); /* KiB in use */

#endif
