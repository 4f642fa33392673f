/* SPDX-License-Identifier: MIT */
/* Contexts, their segments, and which bytes of a segment a packet may reach. */
#ifndef OPENREG_CORE_SEGMENT_H
#define OPENREG_CORE_SEGMENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "card.h"
#include "job/args.h"

#define OPENREG_MAX_RUNS (1u << 23) /* page runs of all segments together */
#define OPENREG_DMA_MAX (4ULL << 20) /* bytes of one bulk DMA callback */

struct openreg_check_memory;
struct openreg_mapping;
struct queue;

/* Pages of a system or peer segment that are adjacent on the bus. */
struct run {
	uint64_t off; /* segment offset of the first byte */
	uint64_t bus; /* bus address of the first byte */
};

struct segment {
	uint32_t kind;
	uint32_t perm;
	uint64_t length;
	uint64_t base; /* VRAM offset */
	struct run *runs;
	uint32_t nruns;
	unsigned int refs; /* context.lock */
	bool dead; /* context.lock */

	struct context *ctx;
	uint32_t id;
	struct segment *next_dead; /* on the list of dead segments that unbind.c names */
	bool clear; /* fill it with zeros before its release */
	uint64_t ncleared; /* copy thread only; bytes cleared so far */
	struct openreg_check_memory *check; /* under the lock of the card's check */
};

/* Bytes that an operand of the current packet can reach; seg is NULL if none. */
struct reach {
	struct segment *seg;
	uint64_t off; /* segment offset of element 0, bytes */
	uint64_t lo; /* segment offset of the first byte */
	uint64_t hi; /* segment offset after the last byte */
	bool written;
};

struct context {
	uint32_t id;
	bool dying;
	uint64_t released_base; /* bus address, or 0 */
	unsigned int ndead; /* admin thread only; dead segments, not released yet */
	struct openreg_mapping *released;
	uint64_t released_bits[OPENREG_MAX_SEGMENTS / 64]; /* content of the released page */
	pthread_mutex_t lock;
	struct segment *segs[OPENREG_MAX_SEGMENTS];
	uint64_t vruntime; /* sched.lock, ns */
	uint64_t signals; /* sched.lock, SIGNAL packets of its queues */
	unsigned int nawake; /* sched.lock, its queues on sched.awake */
	unsigned int polls; /* sched.lock, tails polled in this round */
	uint64_t round; /* sched.lock, the round that polls counts */
	atomic_size_t memory; /* bytes that its jobs hold */
	/* Under the lock of the card's check: where its findings go, and their number */
	uint64_t report;
	uint64_t report_size;
	uint64_t nfindings;
};

/* context.c, segment.c */
struct context *context_new(uint32_t id);
bool context_map_released(struct openreg_card *card, struct context *ctx,
			  uint64_t bus);
void context_clear_released(struct openreg_card *card, struct context *ctx);
void context_set_released(struct openreg_card *card, struct context *ctx,
			  uint32_t id, bool released);
void context_free(struct openreg_card *card, struct context *ctx);
struct segment *segment_new(struct openreg_card *card,
			    const struct openreg_admin_cmd *cmd,
			    uint32_t *status);
void segment_free(struct openreg_card *card, struct segment *seg);
void segments_put(struct queue *q, unsigned int n);
void segment_put(struct queue *q, struct segment *seg);
int segment_read(struct queue *q, const struct segment *seg, uint64_t off,
		 void *buf, uint64_t len);
int segment_write(struct queue *q, const struct segment *seg, uint64_t off,
		  const void *buf, uint64_t len);
int segment_store(struct queue *q, uint64_t addr, const void *bytes, uint64_t len);
uint64_t segment_bus(const struct segment *seg, uint64_t off, uint64_t *left);

/* unbind.c */
bool segment_kill(struct openreg_card *card, struct segment *seg, bool clear);
void segment_load_dead(struct openreg_card *card, struct segment *seg);
void segments_release(struct openreg_card *card);

/* address.c */
struct segment *segment_get(struct queue *q, uint64_t addr, uint64_t len);
#define ADDRESS_COMPUTE 1u /* operands must be in VRAM */
#define ADDRESS_PEER 2u /* those that are only read may be in PEER segments, too */
struct openreg_verdict address_check(struct queue *q, struct openreg_args *args,
				     unsigned int flags);

#endif
