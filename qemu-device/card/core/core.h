/* SPDX-License-Identifier: MIT */
/*
 * The card as a whole, for the core's files.
 *
 * Lock order, outermost first: sched.lock, context.lock, gate.lock.
 *
 * The host may hold its own big lock when it calls a register or doorbell function, and
 * its callbacks for mappings and DMA may take that lock. So that the two cannot deadlock:
 *
 * - register and doorbell functions take no lock of the card but gate.lock
 * - the card calls none of these callbacks with gate.lock held
 */
#ifndef OPENREG_CORE_H
#define OPENREG_CORE_H

#include "admin.h"
#include "card.h"
#include "gate.h"
#include "regs.h"
#include "sched.h"
#include "worker.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the card is little-endian and so must its host be"
#endif

struct context;
struct openreg_check;
struct queue;

struct openreg_card {
	struct openreg_card_config config;
	const struct openreg_host_ops *ops;
	void *host;
	struct gate gate;
	struct sched sched;
	struct regs regs;
	struct stats stats;
	struct admin admin;
	struct fault_ring faults;
	pthread_mutex_t signal_lock;
	struct openreg_check *check; /* NULL: the card does not check */
	atomic_uint_fast64_t doors[OPENREG_MAX_DOORBELLS / 64];
	/* The admin thread writes both under sched.lock. */
	struct context *ctx[OPENREG_MAX_CONTEXTS];
	struct queue *queue[OPENREG_MAX_QUEUES];
	uint32_t nruns; /* admin thread only */
	bool loaded; /* raise every vector at resume */
	atomic_size_t extra; /* bytes that jobs hold beside their operands */
	struct worker copier;
	struct worker *workers;
	atomic_int caller_cpu; /* processor of the last doorbell or lent thread */
	pthread_mutex_t lending; /* for lent */
	struct worker lent; /* for a thread that the host lends */
};

static inline uint8_t *card_vram(struct openreg_card *card)
{
	return card->config.vram;
}

/* card.c */
uint64_t now_ns(void);
void cpu_relax(void);
/* Makes a card without threads; openreg_card_new() starts them. */
struct openreg_card *card_make(const struct openreg_card_config *config,
			       const struct openreg_host_ops *ops, void *host,
			       const char **error);
void card_guest_error(struct openreg_card *card, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void card_raise(struct openreg_card *card, unsigned int vector);
void card_drop_state(struct openreg_card *card);
void card_clear(struct openreg_card *card);

#endif
