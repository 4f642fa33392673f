/* SPDX-License-Identifier: MIT */
/* Registers, statistics and the ring of fault records. */
#ifndef OPENREG_CORE_REGS_H
#define OPENREG_CORE_REGS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct openreg_mapping;

/* In regs.control: ENABLE went from 1 to 0, and the admin thread has yet to act on it. */
#define CONTROL_FELL (1u << 31)

/* Registers that the guest writes or reads; gate.lock, except the atomic ones. */
struct regs {
	uint32_t control; /* and CONTROL_FELL */
	uint32_t card_id;
	uint64_t admin_base;
	uint64_t admin_cpl;
	uint32_t admin_slots;
	uint32_t admin_tail;
	uint64_t fault_base;
	uint32_t fault_slots;
	atomic_uint status;
	atomic_uint fault_head;
	atomic_uint fault_tail;
	atomic_uint fault_dropped;
	atomic_uint card;
};

struct stats {
	atomic_uint_fast64_t packets;
	atomic_uint_fast64_t doorbells;
	atomic_uint_fast64_t interrupts;
	atomic_uint_fast64_t dma_read;
	atomic_uint_fast64_t dma_written;
	atomic_uint_fast64_t compute_ns;
	atomic_uint_fast64_t copy_ns;
	atomic_uint_fast64_t faults;
	atomic_uint_fast64_t sleeps;
	atomic_uint_fast64_t sleep_ns;
};

struct fault_ring {
	pthread_mutex_t lock;
	struct openreg_mapping *mapping;
	uint64_t base;
	uint32_t slots;
};

#endif
