/* SPDX-License-Identifier: MIT */
/* Registers, statistics and the ring of fault records. */
#ifndef OPENREG_CORE_REGS_H
#define OPENREG_CORE_REGS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "reg_table.h"

struct openreg_card;
struct openreg_mapping;

/* In regs.control: ENABLE went from 1 to 0, and the admin thread has yet to act on it. */
#define CONTROL_FELL (1u << 31)

typedef atomic_uint card_reg32;
typedef atomic_uint_fast64_t card_reg64;

#define FIELD(name, bits, write, field) card_reg##bits field;
/* Writes need gate.lock, except to status and the fault counters. */
struct regs {
	REGS_STATE(FIELD)
};

struct stats {
	REGS_STATS(FIELD)
};
#undef FIELD

struct fault_ring {
	pthread_mutex_t lock;
	struct openreg_mapping *mapping;
	uint64_t base;
	uint32_t slots;
};

#define REGS_ONE(name, bits, write, field) +1
#define REGS_SAVED (0 REGS_STATE(REGS_ONE) REGS_STATS(REGS_ONE))

/* With gate.lock held: all registers with state, and the statistics. */
void regs_clear(struct openreg_card *card);
void regs_save(struct openreg_card *card, uint64_t words[REGS_SAVED]);
void regs_load(struct openreg_card *card, const uint64_t words[REGS_SAVED]);

#endif
