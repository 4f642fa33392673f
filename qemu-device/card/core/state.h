/* SPDX-License-Identifier: MIT */
/* Saving and loading the state of a paused card. */
#ifndef OPENREG_CORE_STATE_H
#define OPENREG_CORE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define OPENREG_FINISH_NS 2000000000ULL /* for all packets together, before a save */

struct openreg_card;
struct queue;

void state_finish(struct openreg_card *card, uint64_t end);
/* Counts of the 64-bit words that a save writes and a load reads. */
#define STATE_MAGIC 0x0132564153474552ULL
#define STATE_REGS 12
#define STATE_STATS 10
#define STATE_QUEUE_STATS 5
void state_regs(struct openreg_card *card, uint64_t *words, bool load);
void state_stats(struct openreg_card *card, uint64_t *words, bool load);
void state_queue_stats(struct queue *q, uint64_t *words, bool load);

#endif
