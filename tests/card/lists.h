/* SPDX-License-Identifier: MIT */
/* LISTs of the rig. */
#ifndef TEST_LISTS_H
#define TEST_LISTS_H

#include "host.h"

#define LIST_LEN (1u << 20) /* bytes of the segments with LISTs */
/* Segments of contexts 1 and 2; 1 is the VRAM that the packets use. */
enum { SEG_DATA = 1, SEG_VRAM, SEG_SYSTEM, SEG_PEER, SEG_END };

/* A LIST that the test writes through the processor. */
struct list {
	struct rig *rig;
	uint64_t addr;
	uint8_t *at; /* the CPU's view of the segment's first byte */
	uint32_t slots;
	uint32_t packets;
};

/* A rig with contexts 1 and 2; their segments SEG_DATA have len bytes. */
struct rig *lists_rig(unsigned int workers, uint64_t len);
/* Begins an empty LIST at the start of the segment of context 1. */
void list_init(struct rig *rig, struct list *list, unsigned int seg);
void list_add(struct list *list, const struct pkt *p);
void list_nop(struct list *list, unsigned int slots);
/* Adds a WAIT or a SIGNAL. */
void list_sync(struct list *list, unsigned int opcode, unsigned int arg, uint64_t addr,
	       uint64_t value);
/* Adds a SIGNAL that adds 1 to the word at addr. */
void list_count(struct list *list, uint64_t addr);
/* Pushes the LIST, without publishing it. */
void list_push(struct client_queue *q, const struct list *list);
void pkt_list(struct pkt *p, uint64_t addr, uint64_t slots, uint64_t packets);

/* A word of SEG_DATA of context 1 */
uint64_t list_data(struct rig *rig, uint64_t off);

#endif
