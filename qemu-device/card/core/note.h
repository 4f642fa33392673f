/* SPDX-License-Identifier: MIT */
/* A checking card: NOTE packets, and the checks of all others. */
#ifndef OPENREG_CORE_NOTE_H
#define OPENREG_CORE_NOTE_H

#include "exec.h"

struct queue;
struct segment;

struct openreg_verdict note_check(const struct queue *q, struct openreg_args *args);
enum step note_exec(struct queue *q);

/* The functions below need a card that checks. */

/* The operands have passed the core's checks; the packet has not begun. */
void note_packet(struct queue *q);
/* Around the store of a SIGNAL. */
void note_signal_begin(struct queue *q);
void note_signal_end(struct queue *q, uint64_t word, uint64_t value);
/* The queue's WAIT is met. */
void note_wait(struct queue *q, uint64_t word, int (*load)(struct queue *q, uint64_t *word));
void note_queue_free(struct queue *q);

#endif
