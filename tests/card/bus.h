/* SPDX-License-Identifier: MIT */
/*
 * The bus of the card under test: memory at invented addresses, which counts what the
 * card does, and can refuse accesses. The callbacks abort if the card breaks their
 * contract.
 */
#ifndef TEST_BUS_H
#define TEST_BUS_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../libopenreg/sim/client.h"
#include "card.h"

#define BUS_BASE 0x100000000ULL

/* Aborts: a cmocka assertion in a card's thread would longjmp to another stack. */
#define must(cond)                                                             \
	do {                                                                   \
		if (!(cond)) {                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,     \
				#cond);                                        \
			abort();                                               \
		}                                                              \
	} while (0)

struct bus {
	struct openreg_card *card; /* for client_ops */
	uint8_t *mem; /* len bytes at BUS_BASE */
	uint64_t len;
	uint64_t vram_size;
	unsigned int vectors;
	bool counting_clock; /* the clock counts interrupts: each run takes the same path */
	/* A range that refuses all accesses. */
	_Atomic uint64_t bad_bus;
	_Atomic uint64_t bad_len;
	atomic_bool refuse; /* refuses all DMA, but no mapping */
	atomic_uint raised[OPENREG_MAX_VECTORS];
	_Atomic uint64_t interrupts; /* raised vectors of all kinds */
	atomic_uint guest_errors;
	atomic_uint mappings;
	atomic_uint threads;
	_Atomic uint64_t loads; /* number of 64-bit loads through mappings */
	_Atomic uint64_t dirty; /* bytes reported by vram_written */
};

/* Accesses that this thread has begun and not ended: 0 or 1. */
extern __thread int bus_depth;

/* Their host is a struct bus. */
extern const struct openreg_host_ops bus_ops;
extern const struct client_ops bus_client_ops;

static inline void *bus_ptr(const struct bus *bus, uint64_t at)
{
	return bus->mem + (at - BUS_BASE);
}

uint64_t host_now(void);

#endif
