/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small driver for the openreg card over qtest, for its tests.
 *
 * There is no guest code: the test reads and writes guest memory and PCI from
 * outside, and waits by polling with a bound.
 */
#ifndef TESTS_QTEST_OPENREG_H
#define TESTS_QTEST_OPENREG_H

#include "qemu/osdep.h"
#include "../libqtest.h"
#include "../libqos/pci.h"
#include "../libqos/pci-pc.h"
#include "uapi/openreg_isa.h"
#include "uapi/openreg_regs.h"

#define OR_PAGE 4096u
#define OR_VRAM (64u << 20)
#define OR_VRAM_ARG "vram-size=64M"
#define OR_ADMIN_SLOTS 64u
#define OR_FAULT_SLOTS 16u
#define OR_RING_SLOTS 64u
#define OR_SLOT 4 /* on pcie.0 */
#define OR_TIMEOUT_US (60 * G_USEC_PER_SEC)

/* What a test has: one machine with one card, or two on one machine. */
typedef struct OrCard {
    QTestState *qts;
    QPCIBus *bus;
    QPCIDevice *dev;
    QPCIBar regs;
    QPCIBar bells;
    QPCIBar vram;
    uint64_t vram_bytes;
    uint64_t iova; /* what the IOMMU takes from a bus address */
    uint64_t next; /* guest memory that is not handed out yet */
    uint64_t end;
    uint64_t admin;
    uint64_t cpl;
    uint64_t faults;
    uint32_t tail; /* admin commands sent */
} OrCard;

typedef struct OrQueue {
    OrCard *card;
    uint32_t ctx;
    uint32_t id;
    uint32_t doorbell;
    uint64_t ring;
    uint64_t user_page;
    uint64_t card_page;
    uint64_t kernel_page;
    uint64_t tail; /* slots */
    uint64_t seq; /* packets */
} OrQueue;

/* A packet under construction. */
typedef struct OrPacket {
    uint8_t bytes[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
    size_t len;
} OrPacket;

#define OR_HDR(p) ((struct openreg_packet *)(p)->bytes)
#define OR_OP(p) ((struct openreg_op *)((p)->bytes + 16))

/* A machine with 256 MiB of memory; the rest as for printf. */
QTestState *or_start_machine(const char *format, ...) G_GNUC_PRINTF(1, 2);
/*
 * With one card at OR_SLOT of pcie.0; args are further properties of it that
 * begin with a comma, or "".
 */
QTestState *or_start(const char *args);

/* Finds the card at a slot, maps its BARs, and takes memory from mem on. */
OrCard *or_probe(QTestState *qts, int devfn, uint64_t mem);
void or_enable(OrCard *card);
/* or_start, or_probe and or_enable. */
OrCard *or_card(const char *args);
void or_card_free(OrCard *card);
void or_quit(OrCard *card);

uint32_t or_reg(OrCard *card, unsigned int off);
uint64_t or_reg64(OrCard *card, unsigned int off);
void or_reg_write(OrCard *card, unsigned int off, uint32_t value);
void or_reg_write64(OrCard *card, unsigned int off, uint64_t value);

/* Guest memory, page aligned and zeroed. */
uint64_t or_mem(OrCard *card, uint64_t len);

/* Polls until the condition holds; the test fails if it never does. */
#define OR_WAIT(condition)                                                   \
    do {                                                                     \
        gint64 or_end = g_get_monotonic_time() + OR_TIMEOUT_US;              \
        while (!(condition)) {                                               \
            g_assert_cmpint(g_get_monotonic_time(), <, or_end);              \
            g_usleep(200);                                                   \
        }                                                                    \
    } while (0)

/* By CONTROL, with other bits of it if need be, until that is done. */
void or_reset(OrCard *card, uint32_t bits);
/* Sends a command and waits for its completion; status out of it. */
uint32_t or_admin(OrCard *card, const struct openreg_admin_cmd *cmd);
/* Sends only; the command's index. */
uint32_t or_admin_send(OrCard *card, const struct openreg_admin_cmd *cmd);
bool or_admin_done(OrCard *card, uint32_t index, uint32_t *status);

uint32_t or_ctx_create(OrCard *card, uint32_t ctx);
uint32_t or_seg_vram(OrCard *card, uint32_t ctx, uint32_t seg, uint32_t perm,
                     uint64_t base, uint64_t len);
/* Pages of 4 KiB at the bus addresses in pages. */
uint32_t or_seg_system(OrCard *card, uint32_t ctx, uint32_t seg, uint32_t perm,
                       const uint64_t *pages, unsigned int npages,
                       uint32_t offset, uint64_t len);
/* Makes a queue that must succeed. */
OrQueue *or_queue(OrCard *card, uint32_t ctx, uint32_t id, uint32_t vector);

void or_packet(OrPacket *p, unsigned int opcode, uint32_t cookie);
void or_space(OrPacket *p, unsigned int ndim, const int64_t *size);
/* Strides may be NULL: dense, row-major. */
void or_operand(OrPacket *p, uint64_t addr, unsigned int dtype,
                const int64_t *stride);
void or_imm(OrPacket *p, uint64_t value);
void or_imm_f64(OrPacket *p, double value);
void or_instr(OrPacket *p, unsigned int op, unsigned int type, unsigned int dst,
              unsigned int a, unsigned int b, unsigned int c, unsigned int aux);

/* Writes the packet, moves tail, rings if the card sleeps; the number of it. */
uint64_t or_push(OrQueue *q, OrPacket *p);
void or_wait(OrQueue *q, uint64_t seq);
/* Waits for the queue to fault, takes and checks the ring's record. */
void or_wait_fault(OrQueue *q, struct openreg_fault_record *record);
uint32_t or_queue_state(OrQueue *q);

/*
 * A context 1 with all of VRAM as segment 1 and the page OR_SHARED of system
 * memory as segment 2, and its queue 0.
 */
#define OR_SHARED 0x8003000ULL
#define OR_V(off) OPENREG_ADDR(0, 1, off)
#define OR_S(off) OPENREG_ADDR(0, 2, off)
OrQueue *or_setup(OrCard *card);
/* A packet that a test can interrupt: a million hard functions. */
void or_long(OrPacket *p);
/* WAIT until the word is at least value, or SIGNAL that sets it. */
void or_word(OrPacket *p, unsigned int opcode, uint64_t addr, uint64_t value);
/* or_setup, and a packet that must succeed. */
void or_works(OrCard *card);
/* or_setup, long packets at work and one that waits for ever. */
void or_busy(OrCard *card);

/* By the bus. */
void or_flr(OrCard *card);
/*
 * After a reset, of which it is sure: addresses from scratch, the same pages for
 * MMIO, and or_enable.
 */
void or_reprobe(OrCard *card);

/* Aims a vector at a word of guest memory, which it sets to data. */
uint64_t or_vector(OrCard *card, unsigned int vector, uint32_t data);

#endif
