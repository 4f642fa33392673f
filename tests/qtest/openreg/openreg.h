/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small driver for the openreg card over qtest, for the tests of the card.
 *
 * No guest code runs: the test accesses guest memory and PCI from outside.
 * Waits poll, with a timeout.
 */
#ifndef TESTS_QTEST_OPENREG_H
#define TESTS_QTEST_OPENREG_H

#include "qemu/osdep.h"
#include "../libqtest.h"
#include "../libqos/pci.h"
#include "../libqos/pci-pc.h"
#include "uapi/client.h"
#include "uapi/openreg_encode.h"

#define OR_PAGE 4096u
#define OR_VRAM (64u << 20)
#define OR_VRAM_ARG "vram-size=64M"
#define OR_ADMIN_SLOTS 64u
#define OR_FAULT_SLOTS 16u
#define OR_RING_SLOTS 64u
#define OR_SLOT 4 /* on pcie.0 */
#define OR_TIMEOUT_US (60 * G_USEC_PER_SEC)

/* A card of a machine. Two cards can share a machine. */
typedef struct OrCard {
    QTestState *qts;
    QPCIBus *bus;
    QPCIDevice *dev;
    QPCIBar regs;
    QPCIBar bells;
    QPCIBar vram;
    uint64_t vram_bytes;
    uint64_t iova; /* bus address minus guest address, with an IOMMU */
    uint64_t next; /* first unused guest memory */
    uint64_t end;
    struct client client;
} OrCard;

/* Its addresses are bus addresses. */
typedef struct client_queue OrQueue;

static inline OrCard *or_of(const OrQueue *q)
{
    return q->client->host;
}

/* A packet under construction. */
typedef struct OrPacket {
    uint8_t bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
} OrPacket;

#define OR_HDR(p) ((struct openreg_packet *)(p)->bytes)
#define OR_OP(p) ((struct openreg_op *)((p)->bytes + 16))

/* Starts a machine with 256 MiB of memory; further arguments as for printf(). */
QTestState *or_start_machine(const char *format, ...) G_GNUC_PRINTF(1, 2);
/*
 * Starts a machine with one card at OR_SLOT of pcie.0. args: further properties of
 * the card, each with a comma before it, or "".
 */
QTestState *or_start(const char *args);

/* Finds the card at a slot and maps its BARs; or_mem() allocates from mem on. */
OrCard *or_probe(QTestState *qts, int devfn, uint64_t mem);
void or_enable(OrCard *card);
/* or_start(), or_probe() and or_enable(). */
OrCard *or_card(const char *args);
void or_card_free(OrCard *card);
void or_quit(OrCard *card);

uint32_t or_reg(OrCard *card, unsigned int off);
uint64_t or_reg64(OrCard *card, unsigned int off);
void or_reg_write(OrCard *card, unsigned int off, uint32_t value);
void or_reg_write64(OrCard *card, unsigned int off, uint64_t value);

/* Allocates guest memory, page aligned and zeroed. */
uint64_t or_mem(OrCard *card, uint64_t len);
/* The same; returns the bus address. */
uint64_t or_bus(OrCard *card, uint64_t len);

/* Polls until the condition holds; fails the test after OR_TIMEOUT_US. */
#define OR_WAIT(condition)                                                   \
    do {                                                                     \
        gint64 or_end = g_get_monotonic_time() + OR_TIMEOUT_US;              \
        while (!(condition)) {                                               \
            g_assert_cmpint(g_get_monotonic_time(), <, or_end);              \
            g_usleep(200);                                                   \
        }                                                                    \
    } while (0)

/* Resets the card by CONTROL, with further bits, and waits for the end. */
void or_reset(OrCard *card, uint32_t bits);
/* Sends a command, waits for its completion, and returns the status. */
uint32_t or_admin(OrCard *card, const struct openreg_admin_cmd *cmd);
/* Sends a command without a wait; returns its index. */
uint32_t or_admin_send(OrCard *card, const struct openreg_admin_cmd *cmd);
bool or_admin_done(OrCard *card, uint32_t index, uint32_t *status);

uint32_t or_ctx_create(OrCard *card, uint32_t ctx);
uint32_t or_seg_vram(OrCard *card, uint32_t ctx, uint32_t seg, uint32_t perm,
                     uint64_t base, uint64_t len);
/* Binds pages of 4 KiB at these guest addresses. */
uint32_t or_seg_system(OrCard *card, uint32_t ctx, uint32_t seg, uint32_t perm,
                       const uint64_t *pages, unsigned int npages,
                       uint32_t offset, uint64_t len);
/* Allocates a queue's memory. */
OrQueue *or_new_queue(OrCard *card, uint32_t ctx, uint32_t id, uint32_t vector);
/* Creates a queue; fails the test if the card refuses. */
OrQueue *or_queue(OrCard *card, uint32_t ctx, uint32_t id, uint32_t vector);

void or_packet(OrPacket *p, unsigned int opcode, uint32_t cookie);
void or_space(OrPacket *p, unsigned int ndim, const int64_t *size);
/* stride NULL: dense, row-major. */
void or_operand(OrPacket *p, uint64_t addr, unsigned int dtype,
                const int64_t *stride);
void or_imm(OrPacket *p, uint64_t value);
void or_imm_f64(OrPacket *p, double value);
void or_instr(OrPacket *p, unsigned int op, unsigned int type, unsigned int dst,
              unsigned int a, unsigned int b, unsigned int c, unsigned int aux);

/*
 * Writes and publishes the packet, rings if the card sleeps, and returns the
 * sequence number.
 */
uint64_t or_push(OrQueue *q, OrPacket *p);
void or_wait(OrQueue *q, uint64_t seq);
/* Waits for the queue to fault; consumes and checks the fault record. */
void or_wait_fault(OrQueue *q, struct openreg_fault_record *record);

/*
 * Creates context 1 and its queue 0. Segment 1 is all of VRAM, segment 2 is the
 * page OR_SHARED of system memory.
 */
#define OR_SHARED 0x8003000ULL
#define OR_V(off) OPENREG_ADDR(0, 1, off)
#define OR_S(off) OPENREG_ADDR(0, 2, off)
OrQueue *or_setup(OrCard *card);
/* A packet that a test can interrupt: a million slow functions. */
void or_long(OrPacket *p);
/* WAIT until the word is at least value, or SIGNAL that sets it. */
void or_word(OrPacket *p, unsigned int opcode, uint64_t addr, uint64_t value);
/* or_setup() and a packet that must complete. */
void or_works(OrCard *card);
/* or_setup() with long packets running and a WAIT that never ends. */
void or_busy(OrCard *card);

/* Resets the card by a function level reset. */
void or_flr(OrCard *card);
/*
 * Sets up the card after a reset: checks that the registers are reset, writes the
 * old BAR addresses, and calls or_enable().
 */
void or_reprobe(OrCard *card);

/* Makes a vector write data to a word of guest memory; returns its address. */
uint64_t or_vector(OrCard *card, unsigned int vector, uint32_t data);

#endif
