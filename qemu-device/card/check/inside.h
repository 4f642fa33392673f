/* SPDX-License-Identifier: MIT */
/* What the files of this room share. */
#ifndef OPENREG_CHECK_INSIDE_H
#define OPENREG_CHECK_INSIDE_H

#include <pthread.h>

#include "check.h"
#include "clock.h"
#include "shape.h"

#define SNAPSHOTS 64 /* of a queue's clock; the oldest are lost */
#define SIGNALS 64 /* of a word; the oldest are lost */
#define WORDS 256 /* buckets */
#define WORDS_MAX 64 /* words of a bucket; the oldest are lost */
#define FINDINGS 16 /* of one packet */
#define KNOWN 4096 /* findings of a context that are told apart, a power of two */

struct snapshot {
	epoch_t epoch;
	struct clock clock; /* the queue's, from this packet on */
};

struct reported { /* the findings of a context */
	unsigned int queues; /* of the context */
	uint64_t known[KNOWN]; /* hashes of findings, or 0 */
	unsigned int nknown;
};

struct openreg_check_queue {
	const void *ctx;
	struct reported *reported; /* queues of a context share it */
	uint32_t serial; /* no later queue has it */
	struct openreg_finding_access now; /* the packet that runs */
	epoch_t epoch; /* of this packet */
	struct clock clock; /* of other queues */
	struct snapshot snapshots[SNAPSHOTS]; /* number n is in place n % SNAPSHOTS */
	uint64_t nsnapshots;
	struct openreg_finding found[FINDINGS];
	unsigned int nfound;
	struct openreg_check_queue *next;
};

struct signal {
	uint64_t value;
	struct clock clock; /* of the queue at its SIGNAL */
};

struct word {
	uint64_t number;
	struct signal signals[SIGNALS]; /* number n is in place n % SIGNALS */
	uint64_t nsignals;
	bool partial; /* it may have been lost before, with SIGNALs */
	struct word *next;
};

struct openreg_check {
	pthread_mutex_t lock;
	unsigned int what;
	bool failed; /* memory was short: nothing is checked any more */
	bool said; /* openreg_check_ended() has returned true */
	bool words_lost;
	uint64_t rounds; /* what is left of ROUNDS_MAX for this access */
	uint32_t serials;
	uint8_t *gone; /* by serial: the queue has been freed */
	struct openreg_check_queue *queues;
	struct word *words[WORDS];
};

struct block {
	uint64_t lo;
	uint64_t hi;
	uint64_t zone; /* end of the red zone behind the block; hi: there is none */
	struct openreg_finding_access note; /* of its NOTE */
	uint64_t unwritten; /* bytes */
	uint64_t *written; /* a bit for each byte; NULL: all bits are alike */
};

struct past { /* an access that later ones can race with */
	uint64_t lo; /* of its shape */
	uint64_t hi;
	struct shape *shape; /* NULL: no gaps */
	uint32_t serial;
	epoch_t epoch;
	struct openreg_finding_access access;
};

struct openreg_check_memory {
	uint64_t base;
	struct block *blocks; /* by lo */
	unsigned int nblocks, blocks_room;
	struct past *past;
	unsigned int npast, past_room;
};

/* check.c */
void word_free(struct word *word);
/* Returns the place of a new finding, or NULL if this one is known. */
struct openreg_finding *check_find(struct openreg_check_queue *q,
				   const struct openreg_finding *finding);

/* block.c */
struct block *block_at(struct openreg_check_memory *m, uint64_t off);
void check_init(struct openreg_check *check, struct openreg_check_queue *q,
		struct openreg_check_memory *m, const struct shape *shape,
		const struct openreg_finding_access *access, bool exact);
void check_bounds(struct openreg_check_queue *q, struct openreg_check_memory *m,
		  const struct shape *shape, const struct openreg_finding_access *access,
		  uint64_t off);

/* race.c */
void check_race(struct openreg_check *check, struct openreg_check_queue *q,
		struct openreg_check_memory *m, const struct shape *shape,
		const struct openreg_finding_access *access);

#endif
