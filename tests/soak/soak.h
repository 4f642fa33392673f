/* SPDX-License-Identifier: GPL-2.0-only */
/* The soak program: starts and kills clients, and resets and unplugs the cards. */
#ifndef SOAK_H
#define SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared.h"

/* The seed alone decides the rounds and their actions. */
struct soak {
	uint64_t rng;
	unsigned int clients, cards, round;
	long long begun_ns, deadline_ns, stall_ns, told_ns;
	struct soak_shared *shared;
	int shared_fd;
	unsigned int kills, unplugs, resets, sleeps, exits;
	unsigned int compared; /* processes that openreg-smi had right */
	bool calm, failed;
};

uint64_t soak_below(struct soak *s, uint64_t below);
/* Prints the failure; always returns false. */
bool soak_fail(struct soak *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
uint64_t soak_turns(const struct soak *s);
/* Prints a line of progress every ten seconds. */
void soak_tell(struct soak *s);

/* ---- crew.c: the clients. All functions return false after a failure. ---- */

bool crew_start(struct soak *s);
/* Replaces the clients that have ended; fails if a client makes no progress. */
bool crew_look(struct soak *s);
bool crew_kill_one(struct soak *s);
/* The process of client i; 0: it has ended. */
pid_t crew_pid(unsigned int i);
/* Stops all clients and waits for their ends. */
bool crew_stop(struct soak *s);

/* ---- events.c ------------------------------------------------------------ */

bool events_begin(struct soak *s);
bool event_reset(struct soak *s);
bool event_unplug(struct soak *s);
/* Suspends and resumes the machine. No client may notice. */
bool event_sleep(struct soak *s);

/* ---- smi.c --------------------------------------------------------------- */

/* Pauses the clients, and fails if openreg-smi shows other figures than they count. */
bool smi_look(struct soak *s);

/* ---- memory.c ------------------------------------------------------------ */

void memory_begin(const struct soak *s);
/* At the end of a round, without clients: fails if the cards still have objects. */
bool memory_look(struct soak *s);
/* After all rounds: fails if memory in use has grown. */
bool memory_judge(struct soak *s);
long long memory_first(void), memory_last(void); /* KiB in use */

#endif
