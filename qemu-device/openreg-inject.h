/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hostile card: interfaces of openreg-inject.c and openreg-inject-ops.c.
 */
#ifndef HW_MISC_OPENREG_INJECT_H
#define HW_MISC_OPENREG_INJECT_H

#include "openreg-pci.h"

#define OPENREG_INJECT_AHEAD (1u << 20)

/* Values of the properties. */
enum { HEAD_BEYOND = 1, HEAD_BACK, HEAD_RANDOM };
enum { COMPLETED_BACK = 1, COMPLETED_AHEAD, COMPLETED_RANDOM,
       COMPLETED_FLAPS };
enum { IRQ_LOST = 1, IRQ_SPURIOUS };
enum { FAULT_NO_QUEUE = 1, FAULT_RANDOM, FAULT_OTHERS, FAULT_OVERFLOW,
       FAULT_FLOOD, FAULT_WRONG_SEQ };
enum { ADMIN_NEVER = 1, ADMIN_NUMBER, ADMIN_TWICE, ADMIN_KEEPS };
enum { STALL_DEAF = 1, STALL_TILL_RESET, STALL_TILL_FLR, STALL_TILL_STOP };

/* A queue, from the driver's QUEUE_CREATE. The entry stays after QUEUE_DESTROY. */
typedef struct InjectQueue {
    uint64_t card_page;
    uint64_t kernel_page;
    uint32_t ctx;
    uint32_t start; /* the value of starts when the queue was created */
    bool gone; /* destroyed; atomic */
} InjectQueue;

struct openreg_inject {
    OpenregState *s;
    struct openreg_host_ops ops;
    uint8_t cap; /* offset in the config space */
    QEMUTimer *timer;
    uint64_t random;
    bool high; /* COMPLETED_FLAPS: the last value stored was all ones */
    uint32_t resets; /* atomic */

    /* For STALL_TILL_STOP, since x-inject-stall was set; atomic. */
    bool stall_next; /* no write has stalled yet */
    bool stopped; /* a command has stopped the queue */

    /* From the last ENABLE; atomic. */
    uint64_t admin_base;
    uint64_t admin_cpl;
    uint32_t admin_slots;
    uint32_t starts; /* number of ENABLEs */
    uint32_t resets_before; /* resets at that time */

    /* Only the card's admin thread uses these. */
    struct openreg_admin_cmd last;
    uint16_t opcodes[4096]; /* of the commands in the slots */
    InjectQueue queues[OPENREG_MAX_QUEUES];
};

static inline uint32_t openreg_inject_value(OpenregInject *in,
                                            unsigned int which)
{
    return qatomic_read(&in->s->inject_value[which]);
}

static inline bool openreg_inject_gone(OpenregInject *in)
{
    return openreg_inject_value(in, OPENREG_INJECT_GONE);
}

static inline uint64_t openreg_inject_random(OpenregInject *in)
{
    in->random ^= in->random << 13;
    in->random ^= in->random >> 7;
    in->random ^= in->random << 17;
    return in->random;
}

/* openreg-inject-ops.c: openreg_host_ops with callbacks that store wrong values. */
void openreg_inject_make_ops(struct openreg_host_ops *ops);

#endif
