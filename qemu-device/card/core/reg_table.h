/* SPDX-License-Identifier: MIT */
/*
 * Every register of the card. Accesses, resets and saved states go by these tables;
 * tests/docs/check-manual.py compares them with the manual.
 *
 * A register OPENREG_REG_<name> has 32 or 64 bits. A write of the driver
 *
 * - changes nothing if the register is RO
 * - changes a SETUP register while ENABLE is 0
 * - changes RW and KICK registers always; KICK also wakes the admin thread
 */
#ifndef OPENREG_CORE_REG_TABLE_H
#define OPENREG_CORE_REG_TABLE_H

/* X(name, bits, write, value): registers without state */
#define REGS_FIXED(X)                                                          \
	X(MAGIC, 32, RO, OPENREG_MAGIC)                                        \
	X(VERSION, 32, RO, OPENREG_ISA_MAJOR << 16 | OPENREG_ISA_MINOR)        \
	X(PACKETS, 64, RO, decode_packets(card->check))                        \
	X(DTYPES, 64, RO, ((1u << OPENREG_DTYPE_END) - 1) & ~1u)               \
	X(VRAM_SIZE, 64, RO, card->config.vram_size)                           \
	X(MAX_CONTEXTS, 32, RO, OPENREG_MAX_CONTEXTS)                          \
	X(MAX_QUEUES, 32, RO, OPENREG_MAX_QUEUES)                              \
	X(MAX_SEGMENTS, 32, RO, OPENREG_MAX_SEGMENTS)                          \
	X(DOORBELLS, 32, RO, card->config.doorbells)                           \
	X(VECTORS, 32, RO, card->config.vectors)                               \
	X(PAGE_SHIFTS, 32, RO, 1u << 12 | 1u << 21)                            \
	X(RING_SLOTS, 32, RO, OPENREG_RING_SLOTS_MAX)                          \
	X(WORKERS, 32, RO, card->config.workers)                               \
	X(SLICE_US, 32, RO, OPENREG_DECIDE_NS / 1000)                          \
	X(MAX_WORK, 32, RO, OPENREG_MAX_WORK_LOG2)                             \
	X(CLOCK, 64, RO, card->ops->clock_ns(card->host))

/* X(name, bits, write, field of struct regs). A saved state has them in this order. */
#define REGS_STATE(X)                                                          \
	X(CONTROL, 32, KICK, control)                                          \
	X(CARD_ID, 32, RW, card_id)                                            \
	X(ADMIN_BASE, 64, SETUP, admin_base)                                   \
	X(ADMIN_CPL, 64, SETUP, admin_cpl)                                     \
	X(ADMIN_SLOTS, 32, SETUP, admin_slots)                                 \
	X(ADMIN_TAIL, 32, KICK, admin_tail)                                    \
	X(FAULT_BASE, 64, SETUP, fault_base)                                   \
	X(FAULT_SLOTS, 32, SETUP, fault_slots)                                 \
	X(STATUS, 32, RO, status)                                              \
	X(FAULT_HEAD, 32, RW, fault_head)                                      \
	X(FAULT_TAIL, 32, RO, fault_tail)                                      \
	X(FAULT_DROPPED, 32, RO, fault_dropped)

/* X(name, bits, write, field of struct stats), after those in a saved state */
#define REGS_STATS(X)                                                          \
	X(STAT_PACKETS, 64, RO, packets)                                       \
	X(STAT_DOORBELLS, 64, RO, doorbells)                                   \
	X(STAT_INTERRUPTS, 64, RO, interrupts)                                 \
	X(STAT_DMA_READ, 64, RO, dma_read)                                     \
	X(STAT_DMA_WRITTEN, 64, RO, dma_written)                               \
	X(STAT_COMPUTE_NS, 64, RO, compute_ns)                                 \
	X(STAT_COPY_NS, 64, RO, copy_ns)                                       \
	X(STAT_FAULTS, 64, RO, faults)                                         \
	X(STAT_SLEEPS, 64, RO, sleeps)                                         \
	X(STAT_SLEEP_NS, 64, RO, sleep_ns)

#endif
