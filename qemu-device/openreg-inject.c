/*
 * openreg: a hostile card, for tests of drivers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * With x-inject=on, callbacks and a register region between card and host give wrong
 * values. A property x-inject-... switches each kind on. The guest can set the
 * properties, too, by a vendor-specific PCI capability. None of this affects a card
 * without x-inject.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bitops.h"
#include "qemu/log.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "openreg-inject.h"

#define INJECT_CAP_SIZE 16
#define INJECT_CAP_WHICH 4
#define INJECT_CAP_VALUE 8
#define INJECT_PERIOD_MIN 20
#define FAULT_SLOTS_MAX 4096

#define PAGE_OFF(field) offsetof(struct openreg_card_page, field)

static const struct {
    const char *name;
    uint32_t most;
    const char *description;
} openreg_injections[OPENREG_INJECT_END] = {
    [OPENREG_INJECT_QUEUE] = { "x-inject-queue", UINT32_MAX,
        "For tests: number of the queue that others affect (default: all)" },
    [OPENREG_INJECT_HEAD] = { "x-inject-head", HEAD_RANDOM,
        "For tests: store as head 1: a value too high, 2: 0, 3: random words" },
    [OPENREG_INJECT_COMPLETED] = { "x-inject-completed", COMPLETED_FLAPS,
        "For tests: store as completed 1: 0, 2: a value too high, "
        "3: random words, 4: 0 and all ones in turn" },
    [OPENREG_INJECT_STATE] = { "x-inject-state", UINT32_MAX,
        "For tests: value to store as a queue's state, unless 0" },
    [OPENREG_INJECT_IRQ] = { "x-inject-irq", IRQ_SPURIOUS,
        "For tests: 1: raise no interrupt, 2: raise all periodically" },
    [OPENREG_INJECT_FAULT] = { "x-inject-fault", FAULT_WRONG_SEQ,
        "For tests: forge fault records 1: of no queue, 2: random, 3: of a "
        "running queue, 4: more than the ring holds, 5: a full ring "
        "periodically, 6: with a wrong seq" },
    [OPENREG_INJECT_ADMIN] = { "x-inject-admin", ADMIN_KEEPS,
        "For tests: admin completions 1: are missing, 2: have a wrong seq, "
        "3: include the next command's, 4: set no bit in released pages" },
    [OPENREG_INJECT_STATUS] = { "x-inject-status", UINT32_MAX,
        "For tests: run no admin command, complete it with this status" },
    [OPENREG_INJECT_OPCODE] = { "x-inject-opcode", UINT16_MAX,
        "For tests: the only opcode that x-inject-admin and -status affect" },
    [OPENREG_INJECT_LATE] = { "x-inject-late", 1,
        "For tests: when set, store once what only a card without its last "
        "reset would store" },
    [OPENREG_INJECT_STALL] = { "x-inject-stall", STALL_TILL_STOP,
        "For tests: 1: ignore tails; bulk writes hang until 2: RESET, 3: FLR; "
        "4: one bulk write hangs until a stop of the queue" },
    [OPENREG_INJECT_GONE] = { "x-inject-gone", 1,
        "For tests: registers read as all ones, the card writes nothing" },
    [OPENREG_INJECT_REG] = { "x-inject-reg", OPENREG_MSIX_TABLE - 4,
        "For tests: offset of a register that reads as x-inject-reg-value" },
    [OPENREG_INJECT_REG_VALUE] = { "x-inject-reg-value", UINT32_MAX,
        "For tests: value that register x-inject-reg reads as" },
    [OPENREG_INJECT_PERIOD] = { "x-inject-period-us", 1000000,
        "For tests: time between two repetitions" },
};

/* Stores and interrupts that the card makes without cause; under the big lock */

static void inject_poke(OpenregInject *in, uint64_t bus, const void *buf,
                        uint64_t len)
{
    openreg_dma_write(in->s, bus, buf, len);
}

static void inject_poke64(OpenregInject *in, uint64_t bus, uint64_t value)
{
    inject_poke(in, bus, &value, sizeof(value));
}

static void inject_raise_all(OpenregInject *in)
{
    unsigned int vector;

    for (vector = 0; vector < in->s->vectors; vector++) {
        openreg_host_ops.raise(in->s, vector);
    }
}

static uint32_t inject_reg(OpenregInject *in, uint32_t reg)
{
    return openreg_card_reg_read(in->s->card, reg, 4);
}

/* The queue of x-inject-queue; NULL if the driver has never created it. */
static InjectQueue *inject_queue(OpenregInject *in)
{
    uint32_t id = openreg_inject_value(in, OPENREG_INJECT_QUEUE);

    return id < OPENREG_MAX_QUEUES && in->queues[id].card_page ?
           &in->queues[id] : NULL;
}

static void inject_make_record(OpenregInject *in, uint32_t mode, uint32_t seq,
                               struct openreg_fault_record *record)
{
    InjectQueue *queue = inject_queue(in);
    uint64_t words[sizeof(*record) / 8];
    unsigned int i;

    for (i = 0; i < ARRAY_SIZE(words); i++) {
        words[i] = openreg_inject_random(in);
    }
    memcpy(record, words, sizeof(*record));
    record->seq = seq;
    if (mode == FAULT_NO_QUEUE) {
        record->queue = UINT32_MAX - record->queue % 8;
    } else if (mode == FAULT_OTHERS && queue) {
        record->queue = openreg_inject_value(in, OPENREG_INJECT_QUEUE);
        record->ctx = queue->ctx;
    }
}

/* Record 0: seq of the ring's next round; record 1: random; record 2: one too low. */
static uint32_t inject_wrong_seq(OpenregInject *in, uint32_t seq,
                                 uint32_t slots, unsigned int i)
{
    switch (i) {
    case 0:
        return seq + slots;
    case 1:
        return seq ^ (uint32_t)(openreg_inject_random(in) | 1);
    }
    return seq - 1;
}

/*
 * Writes forged records from the driver's head on, so that the driver accepts all of
 * them. Writes only to the current ring. A ring from before a reset is memory of others
 * by now, and only an IOMMU protects that from a card that still writes there.
 */
static void inject_forge(OpenregInject *in, uint32_t mode)
{
    uint64_t base = openreg_card_reg_read(in->s->card, OPENREG_REG_FAULT_BASE,
                                          8);
    uint32_t slots = inject_reg(in, OPENREG_REG_FAULT_SLOTS);
    uint32_t head = inject_reg(in, OPENREG_REG_FAULT_HEAD);
    uint32_t n = mode == FAULT_FLOOD ? slots : 3, i;
    struct openreg_fault_record record;

    if (mode == FAULT_OVERFLOW) {
        n = 3 * slots + 1;
    }
    /* The card checks the number of slots only at ENABLE. */
    if (!is_power_of_2(slots) || slots > FAULT_SLOTS_MAX) {
        return;
    }
    for (i = 0; i < n; i++) {
        inject_make_record(in, mode, head + i + 1, &record);
        if (mode == FAULT_WRONG_SEQ) {
            record.seq = inject_wrong_seq(in, record.seq, slots, i);
        }
        inject_poke(in, base + ((head + i) & (slots - 1)) * 64ULL, &record,
                    sizeof(record));
    }
    openreg_host_ops.raise(in->s, 0);
}

/* Stores as if no reset had happened: the queue runs on, all commands complete. */
static void inject_late(OpenregInject *in)
{
    InjectQueue *queue = inject_queue(in);
    uint64_t i;

    if (queue) {
        inject_poke64(in, queue->card_page + PAGE_OFF(completed), 1ULL << 40);
        inject_poke64(in, queue->card_page + PAGE_OFF(asleep),
                      (uint64_t)OPENREG_QUEUE_RUNNING << 32);
    }
    for (i = 0; i < in->admin_slots; i++) {
        inject_poke64(in, in->admin_cpl + 16 * i, (i + 1) << 32);
    }
    inject_raise_all(in);
}

/*
 * Stores 0 and all ones in turn as completed, and random words as armed. Stops when the
 * queue is destroyed or the card reset, because its pages may be other memory then.
 */
static void inject_flap(OpenregInject *in)
{
    InjectQueue *queue = inject_queue(in);

    in->high = !in->high;
    if (queue && !qatomic_read(&queue->gone) && queue->start == in->starts &&
        inject_reg(in, OPENREG_REG_CONTROL) & OPENREG_CONTROL_ENABLE) {
        inject_poke64(in, queue->card_page + PAGE_OFF(completed),
                      in->high ? UINT64_MAX : 0);
        inject_poke64(in, queue->kernel_page, openreg_inject_random(in));
        inject_raise_all(in);
    }
}

static bool inject_repeats(OpenregInject *in)
{
    return in->s->inject_value[OPENREG_INJECT_IRQ] == IRQ_SPURIOUS ||
           in->s->inject_value[OPENREG_INJECT_FAULT] == FAULT_FLOOD ||
           in->s->inject_value[OPENREG_INJECT_COMPLETED] == COMPLETED_FLAPS;
}

static void inject_timer_start(OpenregInject *in)
{
    int64_t us = MAX(in->s->inject_value[OPENREG_INJECT_PERIOD],
                     INJECT_PERIOD_MIN);

    if (inject_repeats(in)) {
        timer_mod(in->timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                             us * SCALE_US);
    } else {
        timer_del(in->timer);
    }
}

static void inject_tick(void *opaque)
{
    OpenregInject *in = opaque;

    if (in->s->card && !openreg_inject_gone(in)) {
        if (in->s->inject_value[OPENREG_INJECT_IRQ] == IRQ_SPURIOUS) {
            inject_raise_all(in);
        }
        if (in->s->inject_value[OPENREG_INJECT_FAULT] == FAULT_FLOOD) {
            inject_forge(in, FAULT_FLOOD);
        }
        if (in->s->inject_value[OPENREG_INJECT_COMPLETED] == COMPLETED_FLAPS) {
            inject_flap(in);
        }
    }
    inject_timer_start(in);
}

/* Registers */

static uint64_t inject_reg_read(void *opaque, hwaddr addr, unsigned size)
{
    OpenregState *s = opaque;
    uint32_t reg = s->inject_value[OPENREG_INJECT_REG] & ~3u;
    uint32_t as = s->inject_value[OPENREG_INJECT_REG_VALUE];
    uint64_t value = openreg_reg_read(opaque, addr, size);

    /* The card was unplugged while a vCPU waited for the big lock. */
    if (!s->inject || openreg_inject_gone(s->inject)) {
        return UINT64_MAX;
    }
    if (reg && reg >= addr && reg < addr + size) {
        value = deposit64(value, 8 * (reg - addr), 32, as);
    }
    return value;
}

static void inject_note_rings(OpenregInject *in)
{
    struct openreg_card *card = in->s->card;

    qatomic_set(&in->admin_base,
                openreg_card_reg_read(card, OPENREG_REG_ADMIN_BASE, 8));
    qatomic_set(&in->admin_cpl,
                openreg_card_reg_read(card, OPENREG_REG_ADMIN_CPL, 8));
    qatomic_set(&in->admin_slots,
                MIN(openreg_card_reg_read(card, OPENREG_REG_ADMIN_SLOTS, 4),
                    ARRAY_SIZE(in->opcodes)));
    qatomic_inc(&in->starts);
    qatomic_set(&in->resets_before, qatomic_read(&in->resets));
}

static void inject_reg_write(void *opaque, hwaddr addr, uint64_t value,
                             unsigned size)
{
    OpenregState *s = opaque;
    OpenregInject *in = s->inject;

    if (!in || openreg_inject_gone(in)) {
        return;
    }
    if (s->card && addr == OPENREG_REG_CONTROL) {
        if (value & OPENREG_CONTROL_ENABLE) {
            inject_note_rings(in);
        }
        if (value & OPENREG_CONTROL_RESET &&
            openreg_inject_value(in, OPENREG_INJECT_STALL) != STALL_TILL_FLR) {
            qatomic_inc(&in->resets);
        }
    }
    openreg_reg_write(opaque, addr, value, size);
}

const MemoryRegionOps openreg_inject_reg_ops = {
    .read = inject_reg_read,
    .write = inject_reg_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 4,
    .valid.max_access_size = 8,
    .impl.min_access_size = 4,
    .impl.max_access_size = 8,
};

/* Setting the properties */

static void inject_set(OpenregState *s, unsigned int which, uint32_t value)
{
    if (which == OPENREG_INJECT_STALL && s->inject) {
        qatomic_set(&s->inject->stopped, false);
        qatomic_set(&s->inject->stall_next, true);
    }
    qatomic_set(&s->inject_value[which], value);
    if (!s->inject || !s->card) {
        return;
    }
    inject_timer_start(s->inject);
    if (which == OPENREG_INJECT_FAULT && value) {
        inject_forge(s->inject, value);
    }
    if (which == OPENREG_INJECT_LATE && value) {
        inject_late(s->inject);
    }
}

static void inject_prop_get(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    OpenregState *s = OPENREG(obj);

    visit_type_uint32(v, name, &s->inject_value[(uintptr_t)opaque], errp);
}

static void inject_prop_set(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    OpenregState *s = OPENREG(obj);
    unsigned int which = (uintptr_t)opaque;
    uint32_t value;

    if (!visit_type_uint32(v, name, &value, errp)) {
        return;
    }
    if (value > openreg_injections[which].most) {
        error_setg(errp, "openreg: %s=%" PRIu32 " is out of range, it must be "
                   "0 to %" PRIu32, name, value,
                   openreg_injections[which].most);
        return;
    }
    if (DEVICE(obj)->realized && !s->inject) {
        error_setg(errp, "openreg: %s works only if the device was made with "
                   "x-inject=on", name);
        return;
    }
    inject_set(s, which, value);
}

static uint32_t inject_default(unsigned int which)
{
    switch (which) {
    case OPENREG_INJECT_QUEUE:
        return UINT32_MAX;
    case OPENREG_INJECT_PERIOD:
        return 1000;
    }
    return 0;
}

void openreg_inject_instance_init(OpenregState *s)
{
    unsigned int i;

    for (i = 0; i < OPENREG_INJECT_END; i++) {
        s->inject_value[i] = inject_default(i);
    }
}

void openreg_inject_class_init(ObjectClass *class)
{
    unsigned int i;

    for (i = 0; i < OPENREG_INJECT_END; i++) {
        const char *name = openreg_injections[i].name;
        const char *text = openreg_injections[i].description;

        object_class_property_add(class, name, "uint32", inject_prop_get,
                                  inject_prop_set, NULL, (void *)(uintptr_t)i);
        object_class_property_set_description(class, name, text);
    }
}

/* Two registers for the guest: the number of the property, and its value. */
bool openreg_inject_add_capability(OpenregState *s, Error **errp)
{
    PCIDevice *pci = PCI_DEVICE(s);
    int cap = pci_add_capability(pci, PCI_CAP_ID_VNDR, 0, INJECT_CAP_SIZE,
                                 errp);

    if (cap < 0) {
        return false;
    }
    s->inject->cap = cap;
    pci_set_byte(pci->config + cap + 2, INJECT_CAP_SIZE);
    pci_set_long(pci->wmask + cap + INJECT_CAP_WHICH, UINT32_MAX);
    pci_set_long(pci->wmask + cap + INJECT_CAP_VALUE, UINT32_MAX);
    return true;
}

void openreg_inject_config_write(OpenregState *s, uint32_t addr, int len)
{
    PCIDevice *pci = PCI_DEVICE(s);
    uint32_t cap = s->inject->cap;
    uint32_t which = pci_get_long(pci->config + cap + INJECT_CAP_WHICH);
    uint32_t value = pci_get_long(pci->config + cap + INJECT_CAP_VALUE);

    if (addr != cap + INJECT_CAP_VALUE || len != 4) {
        return;
    }
    if (which >= OPENREG_INJECT_END ||
        value > openreg_injections[which].most) {
        qemu_log_mask(LOG_GUEST_ERROR, "openreg: injection %u cannot be %u\n",
                      which, value);
        return;
    }
    inject_set(s, which, value);
}

bool openreg_inject_init(OpenregState *s, Error **errp)
{
    OpenregInject *in;
    unsigned int i;

    for (i = 0; i < OPENREG_INJECT_END && !s->inject_on; i++) {
        if (s->inject_value[i] != inject_default(i)) {
            error_setg(errp, "openreg: %s works only with x-inject=on",
                       openreg_injections[i].name);
            return false;
        }
    }
    if (!s->inject_on) {
        return true;
    }
    in = g_new0(OpenregInject, 1);
    in->s = s;
    in->random = 0x9e3779b97f4a7c15ULL;
    in->stall_next = true;
    in->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, inject_tick, in);
    openreg_inject_make_ops(&in->ops);
    s->inject = in;
    inject_timer_start(in);
    return true;
}

const struct openreg_host_ops *openreg_inject_ops(OpenregState *s)
{
    return s->inject ? &s->inject->ops : &openreg_host_ops;
}

/* Call after the card is freed. */
void openreg_inject_exit(OpenregState *s)
{
    if (s->inject) {
        timer_free(s->inject->timer);
        g_free(s->inject);
        s->inject = NULL;
    }
}
