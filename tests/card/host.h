/* SPDX-License-Identifier: MIT */
/*
 * A host for the card under test. It has memory at invented bus addresses, counts raised
 * vectors, and does the driver's part of the admin ring and of the queues.
 */
#ifndef TEST_HOST_H
#define TEST_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bus.h"

#define HOST_MEM (96ULL << 20)
#define HOST_VRAM (64ULL << 20)
#define HOST_ADMIN_SLOTS 64
#define HOST_FAULT_SLOTS 8

struct rig {
	struct openreg_card *card;
	struct openreg_card_config config;
	struct bus bus;
	struct client client;
	uint8_t *vram;
	uint64_t brk; /* first free byte of the bus' memory */
	atomic_bool paused;
	uint64_t released; /* a page for each context */
};

static inline struct rig *rig_of(const struct client_queue *q)
{
	return (struct rig *)((char *)q->client - offsetof(struct rig, client));
}

struct rig *rig_new(unsigned int workers);
struct rig *rig_new_spin(unsigned int workers, unsigned int spin_us);
/* Makes a new card with the same configuration and memory; the card is not enabled. */
void rig_make_card(struct rig *rig);
void rig_alloc_rings(struct rig *rig);
/* Clears the completions and fault records, and enables the card. */
void rig_enable(struct rig *rig);
void rig_free(struct rig *rig);
/* cmocka fixtures: an enabled card with two workers. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* Zeroed system memory, page aligned; returns its bus address. */
uint64_t rig_alloc(struct rig *rig, uint64_t len);
static inline void *rig_ptr(struct rig *rig, uint64_t bus)
{
	return bus_ptr(&rig->bus, bus);
}

static inline uint64_t rig_load(struct rig *rig, uint64_t bus)
{
	return client_load(&rig->client, bus);
}

static inline void rig_store(struct rig *rig, uint64_t bus, uint64_t value)
{
	client_store(&rig->client, bus, value);
}

static inline uint32_t rig_reg(struct rig *rig, uint32_t off)
{
	return client_reg(&rig->client, off);
}

void rig_pause(struct rig *rig);
/* Waits until cond holds; fails the test after two minutes. */
#define WAIT_FOR(cond)                                                         \
	do {                                                                   \
		uint64_t end_ = host_now() + 120000000000ULL;                  \
		while (!(cond)) {                                              \
			if (host_now() > end_)                                 \
				fail_msg("timed out waiting for: %s", #cond);  \
			host_rest();                                           \
		}                                                              \
	} while (0)
void host_rest(void);

/*
 * Admin commands: rig_submit() returns the command's index, rig_status() waits and
 * returns the status, rig_admin() does both.
 */
uint32_t rig_submit(struct rig *rig, const struct openreg_admin_cmd *cmd);
bool rig_completed(struct rig *rig, uint32_t index);
uint32_t rig_status(struct rig *rig, uint32_t index);
uint32_t rig_admin(struct rig *rig, const struct openreg_admin_cmd *cmd);
/* The same for a command that must succeed. */
void rig_do(struct rig *rig, struct openreg_admin_cmd cmd);
uint32_t rig_op(struct rig *rig, uint16_t opcode, uint32_t ctx, uint32_t id);
/* Is the segment's bit in the released page of the context? */
bool rig_released(struct rig *rig, uint32_t ctx, uint32_t id);
/* Waits until the segment is released. Returns true if a packet still used it. */
bool rig_unbind(struct rig *rig, uint32_t ctx, uint32_t id);
/* A segment of the pages at bus, in reverse order if scattered. */
struct openreg_admin_cmd cmd_system(struct rig *rig, uint32_t ctx, uint32_t id,
				    uint64_t bus, uint64_t len, uint32_t perm,
				    bool scattered);
#define RW (OPENREG_SEG_READ | OPENREG_SEG_WRITE)
/* Addresses in the segments that most tests have: 1 is VRAM, 2 system memory. */
#define VRAM(off) OPENREG_ADDR(0, 1, off)
#define SYSTEM(off) OPENREG_ADDR(0, 2, off)
/* Makes a context: segment 1 has the VRAM at off, segment 2 the memory at bus. */
void rig_bind(struct rig *rig, uint32_t ctx, uint64_t off, uint64_t bus, uint64_t len,
	      bool scattered);
/*
 * Makes contexts 1 and 2. In each, segment 1 has len bytes of VRAM and segment 2 has len
 * bytes of system memory. Segment 2 of context 2 is scattered and of kind PEER.
 */
void rig_bind_two(struct rig *rig, uint64_t len);

void tq_init(struct rig *rig, struct client_queue *q, uint32_t ctx, uint32_t id,
	     uint32_t slots);
/* Creates a queue in an existing context; id decides its doorbell and vector. */
void tq_create(struct rig *rig, struct client_queue *q, uint32_t ctx, uint32_t id);
void tq_arm(struct client_queue *q, uint64_t seq);
void tq_wait(struct client_queue *q); /* for all published packets */
struct openreg_fault_summary tq_wait_fault(struct client_queue *q);
struct openreg_fault_record rig_record(struct rig *rig, uint32_t i);
uint32_t tq_reset(struct client_queue *q, uint64_t head, uint64_t seq);
/* After a fault: resets the queue to its tail and consumes all fault records. */
void tq_recover(struct client_queue *q);

/* Packets. */
struct pkt {
	uint8_t bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
	size_t len;
};
void pkt_begin(struct pkt *p, unsigned int opcode, unsigned int ndim,
	       const int64_t *size);
void pkt_arg(struct pkt *p, unsigned int i, uint8_t value);
void pkt_operand(struct pkt *p, uint64_t addr, unsigned int dtype,
		 const int64_t *stride);
void pkt_imm(struct pkt *p, uint64_t value);
void pkt_instr(struct pkt *p, unsigned int op, unsigned int type,
	       unsigned int dst, unsigned int a, unsigned int b, unsigned int c,
	       unsigned int aux);
/* Writes a packet into the ring without publishing it; pads the end, waits for room. */
void tq_push(struct client_queue *q, struct pkt *p);
void tq_nop(struct client_queue *q);
void tq_run(struct client_queue *q, struct pkt *p); /* push, publish, wait */
/* The same for a packet that must end with this fault code; NONE: without a fault. */
struct openreg_fault_summary tq_expect(struct client_queue *q, struct pkt *p,
				       uint32_t code);

/* Common packets. */
void pkt_copy(struct pkt *p, uint64_t dst, uint64_t src, unsigned int dtype,
	      int64_t n);
void pkt_sync(struct pkt *p, unsigned int opcode, unsigned int arg,
	      uint64_t addr, uint64_t value);
/* Adds 1 to n elements in place, rounds times in one program: milliseconds of work. */
void pkt_grind(struct pkt *p, uint64_t addr, int64_t n, unsigned int rounds);
/* Adds ones to len / 4 words, then copies all words to system memory and back. */
void tq_push_round(struct client_queue *q, uint64_t len, unsigned int ones);
/* Sums one I32 as often as a packet may: minutes of work. Uses 12 bytes at addr. */
void pkt_endless(struct pkt *p, uint64_t addr);

#endif
