/* SPDX-License-Identifier: MIT */
/*
 * A card without threads. The caller runs the threads' work step by step in one thread,
 * so the same input always takes the same path. For fuzzers, and for tests that count
 * allocations.
 *
 * Memory is small. The host's callbacks abort if the card breaks their contract. With
 * ASan, all VRAM outside of the segments is poisoned.
 */
#ifndef TEST_STEPPER_H
#define TEST_STEPPER_H

#include "bus.h"
#include "core/core.h"
#include "core/exec.h"
#include "core/queue.h"

#define STEPPER_MEM (128u << 10)
#define STEPPER_VRAM (2u << 20)
#define STEPPER_USED 0x40000 /* bytes of VRAM in which all segments lie */
#define STEPPER_QUEUES 4
#define STEPPER_SLOTS 64 /* of a ring */
#define STEPPER_ADMIN_SLOTS 64
#define STEPPER_FAULT_SLOTS 8
#define STEPPER_DOORBELLS 8
#define STEPPER_VECTORS 8

/* Offsets in system memory. */
#define STEPPER_ADMIN 0x0000
#define STEPPER_CPL 0x1000
#define STEPPER_FAULTS 0x2000
#define STEPPER_RELEASED 0x3000 /* of all contexts */
#define STEPPER_QUEUE(n) (0x4000 + (n) * 0x4000) /* ring and three pages */
#define STEPPER_LISTS 0x14000
#define STEPPER_PAGES 0x15000 /* of segments */

/* The segments that generated packets use. */
struct stepper_place {
	uint32_t id;
	uint32_t kind;
	uint32_t perm;
	uint32_t offset; /* VRAM: first byte; else: in the first page */
	uint64_t length;
	uint32_t page; /* not VRAM: its first page, in reverse order; ~0: no memory */
};
#define STEPPER_PLACES 8
#define STEPPER_DEAD 9 /* an unbound segment; the next numbers have no segment */
extern const struct stepper_place stepper_places[STEPPER_PLACES];

struct stepper {
	struct openreg_card *card;
	struct bus bus;
	struct client client;
	struct client_queue queue[STEPPER_QUEUES];
	uint8_t *vram;
};

struct stepper *stepper_new(void);
/* Makes a new card on the same memory; the caller has freed the old card. */
void stepper_make_card(struct stepper *rig);
void stepper_free_card(struct stepper *rig);
struct openreg_admin_cmd stepper_bind_cmd(struct stepper *rig, uint32_t ctx,
					  const struct stepper_place *place);
struct openreg_admin_cmd stepper_queue_cmd(struct stepper *rig, uint32_t ctx, uint32_t id);
/* Enables the card with an admin ring. */
void stepper_enable(struct stepper *rig);
/* Makes context 1 with all segments, and queue 0, without an admin ring. */
struct queue *stepper_make_queue(struct stepper *rig);
/* Does one step of each thread of the card. False if no thread had work. */
bool stepper_step(struct stepper *rig, unsigned int worker);
/* Pushes and publishes a packet to queue n, and rings. Does not wait for room. */
void stepper_push(struct stepper *rig, unsigned int n, const uint8_t *packet);
/* Fills all segments with one of four fixed images. */
void stepper_fill(struct stepper *rig, unsigned int image);
/* Aborts if the bytes around the segments have changed. */
void stepper_check_guards(const struct stepper *rig);

/* For ASan: poison all VRAM, then allow access to some bytes. */
void stepper_poison(struct stepper *rig);
void stepper_allow(struct stepper *rig, uint64_t off, uint64_t len);

#endif
