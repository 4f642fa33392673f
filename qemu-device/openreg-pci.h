/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Private interfaces of the QEMU side of the openreg card.
 */
#ifndef HW_MISC_OPENREG_PCI_H
#define HW_MISC_OPENREG_PCI_H

#include "qemu/event_notifier.h"
#include "qemu/queue.h"
#include "qemu/thread.h"
#include "hw/pci/pci_device.h"
#include "openreg-compat.h"
#include "system/hostmem.h"
#include "system/runstate.h"
#include "qom/object.h"

#include "card/card.h"

#define TYPE_OPENREG "openreg"
OBJECT_DECLARE_SIMPLE_TYPE(OpenregState, OPENREG)

typedef struct openreg_mapping OpenregMapping;
typedef struct openreg_inject OpenregInject;

/* Numbers of the x-inject-... properties: faults of a card with x-inject=on. */
enum {
    OPENREG_INJECT_QUEUE,
    OPENREG_INJECT_HEAD,
    OPENREG_INJECT_COMPLETED,
    OPENREG_INJECT_STATE,
    OPENREG_INJECT_IRQ,
    OPENREG_INJECT_FAULT,
    OPENREG_INJECT_ADMIN,
    OPENREG_INJECT_STATUS,
    OPENREG_INJECT_OPCODE,
    OPENREG_INJECT_LATE,
    OPENREG_INJECT_STALL,
    OPENREG_INJECT_GONE,
    OPENREG_INJECT_REG,
    OPENREG_INJECT_REG_VALUE,
    OPENREG_INJECT_PERIOD,
    OPENREG_INJECT_END
};

struct OpenregState {
    PCIDevice parent_obj;

    /* Properties */
    uint64_t vram_size;
    HostMemoryBackend *memdev;
    uint32_t workers;
    uint32_t vectors;
    uint32_t doorbells;
    uint32_t spin_us;
    uint32_t slow_us;
    char *check;
    unsigned int checks;
    OnOffAuto ioeventfd;
    bool inject_on;
    uint32_t inject_value[OPENREG_INJECT_END]; /* atomic */

    OpenregInject *inject; /* NULL unless inject_on */
    MemoryRegion regs_bar;
    MemoryRegion regs;
    MemoryRegion doorbell_bar;
    MemoryRegion vram_ram;
    MemoryRegion *vram;

    /* NULL before realize, and after openreg_exit_card(). */
    struct openreg_card *card;
    QLIST_ENTRY(OpenregState) next_card; /* while there is a card */
    VMChangeStateEntry *vm_change;

    /* Number of reasons to pause the card; under the BQL. */
    unsigned int pauses;
    bool stopped;

    /* Vectors that the card raised and the BH has not sent yet. */
    uint64_t raised;
    QEMUBH *raise_bh;

    EventNotifier *notifiers;
    EventNotifier notifier_stop;
    QemuThread notifier_thread;

    /* Mappings of system memory, and the listener that remaps them. */
    QemuMutex mappings_lock;
    QLIST_HEAD(, openreg_mapping) mappings;
    MemoryListener listener;
    bool loading; /* keep mappings that have no memory now */
    bool iommu; /* the card is behind an IOMMU; atomic */
    bool dropping; /* a reset or an unplug has begun: translate nothing; atomic */
    DeviceState *host_bridge; /* owns all configuration registers; or NULL */

    /* The card's state, to or from a migration stream. */
    uint8_t *blob;
    uint32_t blob_size;
};

/* openreg-pci.c: the registers. */
uint64_t openreg_reg_read(void *opaque, hwaddr addr, unsigned size);
void openreg_reg_write(void *opaque, hwaddr addr, uint64_t value,
                       unsigned size);

/* openreg-inject.c: a hostile card; or openreg-inject-off.c, without it. */
extern const MemoryRegionOps openreg_inject_reg_ops;
void openreg_inject_class_init(ObjectClass *class);
void openreg_inject_instance_init(OpenregState *s);
bool openreg_inject_init(OpenregState *s, Error **errp);
void openreg_inject_exit(OpenregState *s);
bool openreg_inject_add_capability(OpenregState *s, Error **errp);
void openreg_inject_config_write(OpenregState *s, uint32_t addr, int len);
const struct openreg_host_ops *openreg_inject_ops(OpenregState *s);

/* openreg-host.c: the callbacks of the card. */
extern const struct openreg_host_ops openreg_host_ops;
void openreg_host_init(OpenregState *s);
void openreg_host_exit(OpenregState *s);
/* Under the BQL. Call it again at reset: a machine may get its IOMMU after the card. */
void openreg_host_find_iommu(OpenregState *s);

/* openreg-doorbell.c: the doorbell BAR and its thread. */
void openreg_doorbell_init(OpenregState *s);
bool openreg_doorbell_start(OpenregState *s, Error **errp);
void openreg_doorbell_stop(OpenregState *s);

/* openreg-dma.c */
int openreg_dma_read(void *host, uint64_t bus, void *buf, uint64_t len);
int openreg_dma_write(void *host, uint64_t bus, const void *buf, uint64_t len);

/* openreg-peer.c */
void openreg_peer_add(OpenregState *s);
void openreg_peer_remove(OpenregState *s);
void openreg_signalled(void *host, bool vram, uint64_t at);

/* The card accesses memory only, never registers of other devices. */
#define OPENREG_ATTRS ((MemTxAttrs) { .memory = 1 })

static inline AddressSpace *openreg_as(OpenregState *s)
{
    return pci_get_address_space(PCI_DEVICE(s));
}

/* openreg-locked.c: functions that run under the BQL for the card's threads. */
/* Starts the server thread, at the first call only; under the BQL. */
void openreg_locked_start(void);
typedef void OpenregLocked(OpenregState *s, void *opaque);
/*
 * Runs func under the BQL, in this thread or in another, and waits for its end. Does not
 * run func if a reset or an unplug has begun: the caller sets results to failure first.
 */
void openreg_run_locked(OpenregState *s, OpenregLocked *func, void *opaque);
/* Is such a func on this thread's stack? Then this thread must not wait for the card. */
bool openreg_in_access(void);
/*
 * Under the BQL. Serves the requests of the card's threads until the condition holds.
 * Call openreg_changed() after a change that can make it hold. The BQL stays held, unless
 * a func of another thread has dropped it and needs it back.
 */
typedef bool OpenregCondition(OpenregState *s);
void openreg_serve_until(OpenregState *s, OpenregCondition *holds);
void openreg_changed(void);

/*
 * openreg-state.c: pausing, reset and migration. Call these under the BQL. They drop it
 * only where openreg_serve_until() does, and the card may be unplugged in that time.
 */
void openreg_state_init(OpenregState *s);
void openreg_state_exit(OpenregState *s);
void openreg_pause(OpenregState *s);
void openreg_unpause(OpenregState *s);
void openreg_drop_accesses(OpenregState *s);
void openreg_reset(OpenregState *s);
extern const VMStateDescription openreg_vmstate;

#endif
