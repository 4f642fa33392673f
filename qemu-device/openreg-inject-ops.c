/*
 * openreg: the callbacks of a hostile card
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The callbacks read the driver's admin commands to learn which mappings are queue pages
 * and completions. Then they change the values that the card stores there.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bitops.h"
#include "qemu/rcu.h"
#include "openreg-inject.h"

#define NO_COMMAND 0x7fff
#define PAGE_OFF(field) offsetof(struct openreg_card_page, field)

/* What a mapping of openreg-host.c contains. */
typedef enum {
    MAPPING_OTHER, MAPPING_CPL, MAPPING_USER, MAPPING_CARD, MAPPING_RELEASED
} MappingKind;

typedef struct InjectMapping {
    struct rcu_head rcu;
    struct openreg_mapping *real;
    MappingKind kind;
    uint32_t queue;
    uint64_t len;
    uint64_t tail; /* last seen */
} InjectMapping;

static bool inject_concerns_queue(OpenregInject *in, uint32_t id)
{
    uint32_t queue = openreg_inject_value(in, OPENREG_INJECT_QUEUE);

    return queue == UINT32_MAX || queue == id;
}

static bool inject_concerns(OpenregInject *in, const InjectMapping *m)
{
    return inject_concerns_queue(in, m->queue);
}

static bool inject_concerns_command(OpenregInject *in, uint32_t opcode)
{
    uint32_t only = openreg_inject_value(in, OPENREG_INJECT_OPCODE);

    return !only || only == opcode;
}

static MappingKind inject_kind(OpenregInject *in, uint64_t bus, uint64_t len,
                               bool writable)
{
    const struct openreg_admin_cmd *cmd = &in->last;

    if (writable && bus == qatomic_read(&in->admin_cpl) &&
        len == 16 * qatomic_read(&in->admin_slots)) {
        return MAPPING_CPL;
    }
    if (cmd->opcode == OPENREG_ADMIN_QUEUE_CREATE &&
        bus == (writable ? cmd->queue.card_page : cmd->queue.user_page)) {
        return writable ? MAPPING_CARD : MAPPING_USER;
    }
    if (writable && cmd->opcode == OPENREG_ADMIN_CTX_CREATE &&
        bus == cmd->create.released) {
        return MAPPING_RELEASED;
    }
    return MAPPING_OTHER;
}

static struct openreg_mapping *inject_map(void *host, uint64_t bus,
                                          uint64_t len, bool writable)
{
    OpenregInject *in = ((OpenregState *)host)->inject;
    struct openreg_mapping *real;
    InjectMapping *m;

    real = openreg_host_ops.map(host, bus, len, writable);
    if (!real) {
        return NULL;
    }
    m = g_new0(InjectMapping, 1);
    m->real = real;
    m->kind = inject_kind(in, bus, len, writable);
    m->queue = in->last.id;
    m->len = len;
    return (struct openreg_mapping *)m;
}

static void inject_unmap(void *host, struct openreg_mapping *mapping)
{
    InjectMapping *m = (InjectMapping *)mapping;

    openreg_host_ops.unmap(host, m->real);
    g_free_rcu(m, rcu);
}

static uint64_t inject_load64(void *host, struct openreg_mapping *mapping,
                              uint64_t off)
{
    OpenregInject *in = ((OpenregState *)host)->inject;
    InjectMapping *m = (InjectMapping *)mapping;

    if (openreg_inject_gone(in)) {
        return UINT64_MAX;
    }
    if (m->kind != MAPPING_USER) {
        return openreg_host_ops.load64(host, m->real, off);
    }
    if (openreg_inject_value(in, OPENREG_INJECT_STALL) != STALL_DEAF ||
        !inject_concerns(in, m)) {
        qatomic_set(&m->tail,
                    openreg_host_ops.load64(host, m->real, off));
    }
    return qatomic_read(&m->tail);
}

static uint32_t inject_load32(void *host, struct openreg_mapping *mapping,
                              uint64_t off)
{
    OpenregInject *in = ((OpenregState *)host)->inject;
    InjectMapping *m = (InjectMapping *)mapping;

    return openreg_inject_gone(in) ? UINT32_MAX :
           openreg_host_ops.load32(host, m->real, off);
}

static void inject_read(void *host, struct openreg_mapping *mapping,
                        uint64_t off, void *buf, uint64_t len)
{
    OpenregInject *in = ((OpenregState *)host)->inject;
    InjectMapping *m = (InjectMapping *)mapping;

    if (openreg_inject_gone(in)) {
        memset(buf, 0xff, len);
    } else {
        openreg_host_ops.read(host, m->real, off, buf, len);
    }
}

static uint64_t inject_head(OpenregInject *in, uint64_t value)
{
    switch (openreg_inject_value(in, OPENREG_INJECT_HEAD)) {
    case HEAD_BEYOND:
        return value + OPENREG_INJECT_AHEAD;
    case HEAD_BACK:
        return 0;
    case HEAD_RANDOM:
        return openreg_inject_random(in);
    }
    return value;
}

static uint64_t inject_completed(OpenregInject *in, uint64_t value)
{
    switch (openreg_inject_value(in, OPENREG_INJECT_COMPLETED)) {
    case COMPLETED_BACK:
        return 0;
    case COMPLETED_AHEAD:
        return value + OPENREG_INJECT_AHEAD;
    case COMPLETED_RANDOM:
        return openreg_inject_random(in);
    }
    return value;
}

/* Stores the word of a completion that makes the completion valid. */
static void inject_complete(OpenregInject *in, InjectMapping *m, uint64_t off,
                            uint64_t value)
{
    uint32_t mode = openreg_inject_value(in, OPENREG_INJECT_ADMIN);
    uint32_t status = openreg_inject_value(in, OPENREG_INJECT_STATUS);

    if (inject_concerns_command(in, in->opcodes[off / 16])) {
        if (mode == ADMIN_NEVER) {
            return;
        }
        if (status) {
            value = deposit64(value, 0, 32, status);
        }
        if (mode == ADMIN_NUMBER) {
            value += 7ULL << 32;
        }
        if (mode == ADMIN_TWICE) {
            openreg_host_ops.store64(in->s, m->real,
                                     (off + 16) % m->len,
                                     value + (1ULL << 32));
        }
    }
    openreg_host_ops.store64(in->s, m->real, off, value);
}

static void inject_store64(void *host, struct openreg_mapping *mapping,
                           uint64_t off, uint64_t value)
{
    OpenregInject *in = ((OpenregState *)host)->inject;
    InjectMapping *m = (InjectMapping *)mapping;

    if (openreg_inject_gone(in)) {
        return;
    }
    if (m->kind == MAPPING_CPL && off % 16 == 0) {
        inject_complete(in, m, off, value);
        return;
    }
    if (m->kind == MAPPING_RELEASED &&
        openreg_inject_value(in, OPENREG_INJECT_ADMIN) == ADMIN_KEEPS) {
        return;
    }
    if (m->kind == MAPPING_CARD && inject_concerns(in, m)) {
        if (off == PAGE_OFF(head)) {
            value = inject_head(in, value);
        } else if (off == PAGE_OFF(completed)) {
            value = inject_completed(in, value);
        }
    }
    openreg_host_ops.store64(host, m->real, off, value);
}

static void inject_store32(void *host, struct openreg_mapping *mapping,
                           uint64_t off, uint32_t value)
{
    OpenregInject *in = ((OpenregState *)host)->inject;
    InjectMapping *m = (InjectMapping *)mapping;
    uint32_t state = openreg_inject_value(in, OPENREG_INJECT_STATE);

    if (openreg_inject_gone(in)) {
        return;
    }
    if (m->kind == MAPPING_CARD && off == PAGE_OFF(state) && state &&
        inject_concerns(in, m)) {
        value = state;
    }
    openreg_host_ops.store32(host, m->real, off, value);
}

/* Bulk DMA, which also reads the admin commands */

/* Does the command stop a queue that x-inject-queue names? */
static bool inject_stops(OpenregInject *in, const struct openreg_admin_cmd *cmd)
{
    uint32_t only = openreg_inject_value(in, OPENREG_INJECT_QUEUE);

    switch (cmd->opcode) {
    case OPENREG_ADMIN_QUEUE_STOP:
    case OPENREG_ADMIN_QUEUE_DESTROY:
        return inject_concerns_queue(in, cmd->id);
    case OPENREG_ADMIN_CTX_DESTROY:
        return only >= OPENREG_MAX_QUEUES || in->queues[only].ctx == cmd->ctx;
    }
    return false;
}

static void inject_command(OpenregInject *in, uint64_t off,
                           struct openreg_admin_cmd *cmd)
{
    if (cmd->opcode == OPENREG_ADMIN_QUEUE_CREATE &&
        cmd->id < OPENREG_MAX_QUEUES) {
        in->queues[cmd->id] = (InjectQueue) {
            .card_page = cmd->queue.card_page,
            .kernel_page = cmd->queue.kernel_page,
            .ctx = cmd->ctx,
            .start = qatomic_read(&in->starts),
        };
    }
    if (cmd->opcode == OPENREG_ADMIN_QUEUE_DESTROY &&
        cmd->id < OPENREG_MAX_QUEUES) {
        qatomic_set(&in->queues[cmd->id].gone, true);
    }
    if (inject_stops(in, cmd)) {
        qatomic_set(&in->stopped, true);
    }
    in->last = *cmd;
    in->opcodes[off / sizeof(*cmd)] = cmd->opcode;
    if (openreg_inject_value(in, OPENREG_INJECT_STATUS) &&
        inject_concerns_command(in, cmd->opcode)) {
        cmd->opcode = NO_COMMAND;
    }
}

static int inject_dma_read(void *host, uint64_t bus, void *buf, uint64_t len)
{
    OpenregInject *in = ((OpenregState *)host)->inject;
    uint64_t off = bus - qatomic_read(&in->admin_base);

    if (openreg_inject_gone(in)) {
        return -1;
    }
    if (openreg_host_ops.dma_read(host, bus, buf, len)) {
        return -1;
    }
    if (len == sizeof(struct openreg_admin_cmd) &&
        off / len < qatomic_read(&in->admin_slots)) {
        inject_command(in, off, buf);
    }
    return 0;
}

static bool inject_stalls_all(OpenregInject *in)
{
    uint32_t how = openreg_inject_value(in, OPENREG_INJECT_STALL);

    return how == STALL_TILL_RESET || how == STALL_TILL_FLR;
}

/* No reset has begun since the last ENABLE, and nothing pauses the card. */
static bool inject_may_stall(OpenregInject *in)
{
    return qatomic_read(&in->resets) == qatomic_read(&in->resets_before) &&
           !qatomic_read(&in->s->pauses);
}

/*
 * Hangs like a broken engine. Returns false if a reset or a pause ends the hang, true if
 * a change of the property does.
 */
static bool inject_stall(OpenregInject *in)
{
    if (!inject_stalls_all(in)) {
        return true;
    }
    while (inject_stalls_all(in) && inject_may_stall(in)) {
        g_usleep(1000);
    }
    return !inject_stalls_all(in);
}

/* Delays one write like a slow engine; the caller then does the write. */
static void inject_stall_once(OpenregInject *in)
{
    if (openreg_inject_value(in, OPENREG_INJECT_STALL) != STALL_TILL_STOP ||
        !qatomic_xchg(&in->stall_next, false)) {
        return;
    }
    while (openreg_inject_value(in, OPENREG_INJECT_STALL) == STALL_TILL_STOP &&
           !qatomic_read(&in->stall_next) && !qatomic_read(&in->stopped) &&
           inject_may_stall(in)) {
        g_usleep(1000);
    }
}

static int inject_dma_write(void *host, uint64_t bus, const void *buf,
                            uint64_t len)
{
    OpenregInject *in = ((OpenregState *)host)->inject;

    inject_stall_once(in);
    if (!inject_stall(in) || openreg_inject_gone(in)) {
        return -1;
    }
    return openreg_host_ops.dma_write(host, bus, buf, len);
}

static void inject_raise(void *host, unsigned int vector)
{
    OpenregInject *in = ((OpenregState *)host)->inject;

    if (openreg_inject_gone(in) ||
        openreg_inject_value(in, OPENREG_INJECT_IRQ) == IRQ_LOST) {
        return;
    }
    openreg_host_ops.raise(host, vector);
}

void openreg_inject_make_ops(struct openreg_host_ops *ops)
{
    *ops = openreg_host_ops;
    ops->map = inject_map;
    ops->unmap = inject_unmap;
    ops->load64 = inject_load64;
    ops->store64 = inject_store64;
    ops->load32 = inject_load32;
    ops->store32 = inject_store32;
    ops->read = inject_read;
    ops->dma_read = inject_dma_read;
    ops->dma_write = inject_dma_write;
    ops->raise = inject_raise;
}
