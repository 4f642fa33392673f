/* SPDX-License-Identifier: MIT */
/*
 * A card that checks programs: which accesses race, which bytes are read before a packet
 * wrote them, which accesses leave a block. docs/sanitizers.md describes it.
 *
 * A packet is checked when it begins, so the order of the checks is that of the packets.
 * The caller holds the lock of the check, unless a function says otherwise.
 */
#ifndef OPENREG_CHECK_H
#define OPENREG_CHECK_H

#include <stddef.h>

#include "job/args.h"

enum {
	OPENREG_CHECK_RACE = 1,
	OPENREG_CHECK_INIT = 2,
	OPENREG_CHECK_BOUNDS = 4,
	OPENREG_CHECK_ALL = 7,
};

struct openreg_check; /* of a card */
struct openreg_check_queue; /* of a queue */
struct openreg_check_memory; /* of a segment */

/* No lock is needed. what: OPENREG_CHECK_...; NULL: memory is short. */
struct openreg_check *openreg_check_new(unsigned int what);
void openreg_check_free(struct openreg_check *check);
void openreg_check_lock(struct openreg_check *check);
void openreg_check_unlock(struct openreg_check *check);

/* Did memory become too short to check anything? Says so once. */
bool openreg_check_ended(struct openreg_check *check);

/* ctx: queues of one context share memory. NULL: memory is short, so nothing is checked. */
struct openreg_check_queue *openreg_check_queue_new(struct openreg_check *check,
						    const void *ctx);
/* The queue has stopped for good: its accesses are earlier than all that follow. */
void openreg_check_queue_free(struct openreg_check *check, struct openreg_check_queue *q);
/* No lock is needed: no packet uses the memory. NULL is allowed. */
void openreg_check_memory_free(struct openreg_check_memory *memory);

/* The queue begins a packet. */
void openreg_check_begin(struct openreg_check_queue *q, const struct openreg_packet *header,
			 uint64_t seq, uint16_t in_list);
/*
 * Operand i of this packet accesses a segment, of which base is the address. off: offset
 * of element 0. what: the checks to do now. Makes *memory at its first use.
 */
void openreg_check_access(struct openreg_check *check, struct openreg_check_queue *q,
			  unsigned int what, struct openreg_check_memory **memory,
			  uint64_t base, const struct openreg_args *args, unsigned int i,
			  uint64_t off);

/* NOTE packets. lo, hi: offsets in the segment. zone: bytes of the red zone from hi on. */
void openreg_check_block(struct openreg_check *check, struct openreg_check_queue *q,
			 struct openreg_check_memory **memory, uint64_t lo, uint64_t hi,
			 uint64_t zone);
void openreg_check_unblock(struct openreg_check *check,
			   struct openreg_check_memory *memory, uint64_t lo, uint64_t hi);
void openreg_check_number(struct openreg_check_queue *q, uint32_t number);
void openreg_check_seen(struct openreg_check *check, struct openreg_check_queue *q,
			uint32_t number, uint64_t seq);

/*
 * SIGNAL stores value in the word with this number. WAIT finds `actual` there, which is
 * what it waits for.
 */
void openreg_check_signal(struct openreg_check *check, struct openreg_check_queue *q,
			  uint64_t word, bool add, uint64_t value);
void openreg_check_wait(struct openreg_check *check, struct openreg_check_queue *q,
			uint64_t word, unsigned int mode, uint64_t value,
			uint64_t actual);

/* Moves a finding of this queue to *finding; false: there is none. number stays 0. */
bool openreg_check_take(struct openreg_check_queue *q, struct openreg_finding *finding);

#endif
