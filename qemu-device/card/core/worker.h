/* SPDX-License-Identifier: MIT */
/* The threads of the engines. */
#ifndef OPENREG_CORE_WORKER_H
#define OPENREG_CORE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"

#define OPENREG_STAGE_SIZE (256u << 10)
#define OPENREG_PACKET_BYTES (OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE)

struct openreg_card;

struct worker {
	struct openreg_card *card;
	pthread_t thread;
	bool started;
	bool access; /* between access_begin and access_end */
	atomic_int cpu; /* processor that it runs on, or CPU_ASLEEP */
	uint64_t idle_since;
	uint64_t delay_random; /* last random number for config.slow_us */
	struct openreg_scratch *scratch; /* NULL in the copy thread */
	uint8_t *stage[2];
	uint8_t packet[OPENREG_PACKET_BYTES];
};

#define CPU_ASLEEP -1

/* card.c */
bool worker_init(struct openreg_card *card, struct worker *w, bool compute);
void worker_fini(struct worker *w);

/* worker.c, copier.c */
void *worker_main(void *opaque);
bool copier_step(struct worker *w);
void *copier_main(void *opaque);

/* lent_thread.c */
void worker_set_cpu(struct worker *w, int cpu);
void caller_set_cpu(struct openreg_card *card);

/* delay.c */
void delay_step(struct worker *w);

#endif
