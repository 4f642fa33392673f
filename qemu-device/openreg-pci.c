/*
 * openreg: a processing accelerator for PyTorch as a PCI Express device
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * card/ has the card itself, in plain C; docs/specs/openreg.rst is its manual. This file
 * adds the PCI function, the BARs and the interrupts.
 */
#include "qemu/osdep.h"
#include "qemu/host-utils.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie.h"
#include "openreg-pci.h"
#include "trace.h"

#define OPENREG_VRAM_DEFAULT (1 * GiB)
#define OPENREG_VRAM_MIN (2 * MiB)
#define OPENREG_VRAM_MAX (1 * TiB)
#define OPENREG_WORKERS_AUTO 8
#define OPENREG_WORKERS_MAX 64
#define OPENREG_SPIN_US_MAX 100000
#define OPENREG_SLOW_US_MAX 100000
#define OPENREG_EXP_CAP_OFFSET 0x80

uint64_t openreg_reg_read(void *opaque, hwaddr addr, unsigned size)
{
    OpenregState *s = opaque;
    uint64_t value = s->card ? openreg_card_reg_read(s->card, addr, size) : 0;

    trace_openreg_reg_read(addr, size, value);
    return value;
}

void openreg_reg_write(void *opaque, hwaddr addr, uint64_t value,
                       unsigned size)
{
    OpenregState *s = opaque;

    trace_openreg_reg_write(addr, size, value);
    if (s->card) {
        openreg_card_reg_write(s->card, addr, value, size);
    }
}

static const MemoryRegionOps openreg_reg_ops = {
    .read = openreg_reg_read,
    .write = openreg_reg_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 4,
    .valid.max_access_size = 8,
    .impl.min_access_size = 4,
    .impl.max_access_size = 8,
};

static bool openreg_check_range(const char *name, uint64_t value, uint64_t min,
                                uint64_t max, Error **errp)
{
    if (value < min || value > max) {
        error_setg(errp, "openreg: %s=%" PRIu64 " is out of range, it must be "
                   "%" PRIu64 " to %" PRIu64, name, value, min, max);
        return false;
    }
    return true;
}

static bool openreg_check_memdev(OpenregState *s, Error **errp)
{
    const char *id = object_get_canonical_path_component(OBJECT(s->memdev));
    uint64_t size;

    if (host_memory_backend_is_mapped(s->memdev)) {
        error_setg(errp, "openreg: memdev=%s is in use by another device, "
                   "give each card a backend of its own", id);
        return false;
    }
    s->vram = host_memory_backend_get_memory(s->memdev);
    if (memory_region_is_rom(s->vram)) {
        error_setg(errp, "openreg: memdev=%s is read-only, VRAM must be "
                   "writable", id);
        return false;
    }
    size = memory_region_size(s->vram);
    if (s->vram_size != OPENREG_VRAM_DEFAULT && s->vram_size != size) {
        error_setg(errp, "openreg: vram-size=%" PRIu64 " and memdev=%s of %" PRIu64
                   " bytes contradict each other, leave vram-size out", s->vram_size,
                   id, size);
        return false;
    }
    s->vram_size = size;
    return true;
}

static bool openreg_check_properties(OpenregState *s, Error **errp)
{
    const char *error;

    if (!pci_bus_is_express(pci_get_bus(PCI_DEVICE(s)))) {
        error_setg(errp, "openreg: needs a PCI Express slot: use -machine q35 "
                   "and put the card behind a pcie-root-port");
        return false;
    }
    if (s->memdev && !openreg_check_memdev(s, errp)) {
        return false;
    }
    if (!is_power_of_2(s->vram_size) || s->vram_size < OPENREG_VRAM_MIN ||
        s->vram_size > OPENREG_VRAM_MAX) {
        error_setg(errp, "openreg: %" PRIu64 " bytes of VRAM are not possible, "
                   "vram-size (or the size of memdev) must be a power of two from "
                   "2M to 1T, such as vram-size=1G", s->vram_size);
        return false;
    }
    if (s->check && !openreg_card_parse_checks(s->check, &s->checks, &error)) {
        error_setg(errp, "openreg: x-check=%s is not possible: %s", s->check,
                   error);
        return false;
    }
    if (!s->workers) {
        s->workers = MIN(g_get_num_processors(), OPENREG_WORKERS_AUTO);
    }
    return openreg_check_range("workers", s->workers, 1, OPENREG_WORKERS_MAX,
                               errp) &&
           openreg_check_range("vectors", s->vectors, 2, OPENREG_MAX_VECTORS,
                               errp) &&
           openreg_check_range("doorbells", s->doorbells, 1,
                               OPENREG_MAX_DOORBELLS, errp) &&
           openreg_check_range("spin-us", s->spin_us, 0, OPENREG_SPIN_US_MAX,
                               errp) &&
           openreg_check_range("x-slow-us", s->slow_us, 0, OPENREG_SLOW_US_MAX,
                               errp);
}

static bool openreg_init_vram(OpenregState *s, Error **errp)
{
    if (s->memdev) {
        host_memory_backend_set_mapped(s->memdev, true);
        vmstate_register_ram(s->vram, DEVICE(s));
        return true;
    }
    if (!memory_region_init_ram(&s->vram_ram, OBJECT(s), "openreg-vram",
                                s->vram_size, errp)) {
        return false;
    }
    s->vram = &s->vram_ram;
    return true;
}

static void openreg_exit_vram(OpenregState *s)
{
    /* Free the name now: a new card may need it before this card's memory is freed. */
    vmstate_unregister_ram(s->vram, DEVICE(s));
    if (s->memdev) {
        host_memory_backend_set_mapped(s->memdev, false);
    }
}

static void openreg_init_bars(OpenregState *s)
{
    PCIDevice *pci = PCI_DEVICE(s);

    memory_region_init(&s->regs_bar, OBJECT(s), "openreg-bar0",
                       OPENREG_BAR_REGS_SIZE);
    memory_region_init_io(&s->regs, OBJECT(s),
                          s->inject ? &openreg_inject_reg_ops : &openreg_reg_ops,
                          s, "openreg-regs", OPENREG_MSIX_TABLE);
    memory_region_add_subregion(&s->regs_bar, 0, &s->regs);
    openreg_doorbell_init(s);

    pci_register_bar(pci, OPENREG_BAR_REGS, PCI_BASE_ADDRESS_MEM_TYPE_64,
                     &s->regs_bar);
    pci_register_bar(pci, OPENREG_BAR_DOORBELL, PCI_BASE_ADDRESS_MEM_TYPE_64,
                     &s->doorbell_bar);
    pci_register_bar(pci, OPENREG_BAR_VRAM,
                     PCI_BASE_ADDRESS_MEM_TYPE_64 |
                     PCI_BASE_ADDRESS_MEM_PREFETCH, s->vram);
}

/* Needed, because a subregion in a region of the same device keeps the device alive. */
static void openreg_exit_bars(OpenregState *s)
{
    memory_region_del_subregion(&s->regs_bar, &s->regs);
}

static void openreg_exit_pci(OpenregState *s)
{
    PCIDevice *pci = PCI_DEVICE(s);

    msix_unuse_all_vectors(pci);
    msix_uninit(pci, &s->regs_bar, &s->regs_bar);
    pcie_cap_exit(pci);
    openreg_exit_bars(s);
}

static bool openreg_init_pci(OpenregState *s, Error **errp)
{
    PCIDevice *pci = PCI_DEVICE(s);
    unsigned int i;

    openreg_init_bars(s);
    if (pcie_endpoint_cap_init(pci, OPENREG_EXP_CAP_OFFSET) < 0) {
        error_setg(errp, "openreg: no room for the PCI Express capability");
        openreg_exit_bars(s);
        return false;
    }
    pcie_cap_flr_init(pci);
    if (msix_init(pci, s->vectors, &s->regs_bar, OPENREG_BAR_REGS,
                  OPENREG_MSIX_TABLE, &s->regs_bar, OPENREG_BAR_REGS,
                  OPENREG_MSIX_PBA, 0, errp) < 0) {
        pcie_cap_exit(pci);
        openreg_exit_bars(s);
        return false;
    }
    for (i = 0; i < s->vectors; i++) {
        msix_vector_use(pci, i);
    }
    if (s->inject && !openreg_inject_add_capability(s, errp)) {
        openreg_exit_pci(s);
        return false;
    }
    return true;
}

static bool openreg_init_card(OpenregState *s, Error **errp)
{
    const struct openreg_card_config config = {
        .vram = memory_region_get_ram_ptr(s->vram),
        .vram_size = s->vram_size,
        .workers = s->workers,
        .doorbells = s->doorbells,
        .vectors = s->vectors,
        .spin_us = s->spin_us,
        .slow_us = s->slow_us,
        .checks = s->checks,
    };
    const char *error = NULL;
    sigset_t all, old;

    openreg_locked_start();
    openreg_host_init(s);
    /* Block signals in the card's threads, as qemu_thread_create() does. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    s->card = openreg_card_new(&config, openreg_inject_ops(s), s, &error);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!s->card) {
        error_setg(errp, "openreg: %s", error);
        openreg_host_exit(s);
        return false;
    }
    openreg_peer_add(s);
    return true;
}

/* Clears s->card, so that a handler that still waits for the big lock cannot use it. */
static void openreg_exit_card(OpenregState *s)
{
    struct openreg_card *card = s->card;

    openreg_doorbell_stop(s);
    openreg_peer_remove(s);
    s->card = NULL;
    openreg_card_free(card);
    openreg_host_exit(s);
}

static void openreg_realize(PCIDevice *pci, Error **errp)
{
    OpenregState *s = OPENREG(pci);

    if (!openreg_check_properties(s, errp) || !openreg_inject_init(s, errp)) {
        return;
    }
    if (!openreg_init_vram(s, errp)) {
        goto exit_inject;
    }
    if (!openreg_init_pci(s, errp)) {
        goto exit_vram;
    }
    if (!openreg_init_card(s, errp)) {
        goto exit_pci;
    }
    if (!openreg_doorbell_start(s, errp)) {
        openreg_exit_card(s);
        goto exit_pci;
    }
    openreg_state_init(s);
    return;

exit_pci:
    openreg_exit_pci(s);
exit_vram:
    openreg_exit_vram(s);
exit_inject:
    openreg_inject_exit(s);
}

static void openreg_exit(PCIDevice *pci)
{
    OpenregState *s = OPENREG(pci);

    openreg_state_exit(s);
    openreg_exit_card(s);
    openreg_exit_pci(s);
    openreg_exit_vram(s);
    openreg_inject_exit(s);
}

static void openreg_config_write(PCIDevice *pci, uint32_t addr, uint32_t value,
                                 int len)
{
    OpenregState *s = OPENREG(pci);

    pci_default_write_config(pci, addr, value, len);
    if (s->inject) {
        openreg_inject_config_write(s, addr, len);
    }
    object_ref(OBJECT(s));
    pcie_cap_flr_write_config(pci, addr, value, len);
    object_unref(OBJECT(s));
}

static void openreg_reset_enter(Object *obj, ResetType type)
{
    openreg_drop_accesses(OPENREG(obj));
}

/* Resets in the hold phase, because the enter phase must not wait for the card. */
static void openreg_reset_hold(Object *obj, ResetType type)
{
    openreg_reset(OPENREG(obj));
}

static void openreg_instance_init(Object *obj)
{
    openreg_inject_instance_init(OPENREG(obj));
}

static const Property openreg_properties[] = {
    DEFINE_PROP_SIZE("vram-size", OpenregState, vram_size, OPENREG_VRAM_DEFAULT),
    DEFINE_PROP_LINK("memdev", OpenregState, memdev, TYPE_MEMORY_BACKEND,
                     HostMemoryBackend *),
    DEFINE_PROP_UINT32("workers", OpenregState, workers, 0),
    DEFINE_PROP_UINT32("vectors", OpenregState, vectors, 32),
    DEFINE_PROP_UINT32("doorbells", OpenregState, doorbells, 64),
    DEFINE_PROP_UINT32("spin-us", OpenregState, spin_us, 100),
    DEFINE_PROP_UINT32("x-slow-us", OpenregState, slow_us, 0),
    DEFINE_PROP_STRING("x-check", OpenregState, check),
    DEFINE_PROP_ON_OFF_AUTO("ioeventfd", OpenregState, ioeventfd,
                            ON_OFF_AUTO_AUTO),
    DEFINE_PROP_BOOL("x-inject", OpenregState, inject_on, false),
};

static void openreg_class_init(ObjectClass *class, OPENREG_CLASS_CONST void *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);
    ResettableClass *rc = RESETTABLE_CLASS(class);

    pc->realize = openreg_realize;
    pc->exit = openreg_exit;
    pc->config_write = openreg_config_write;
    pc->vendor_id = OPENREG_PCI_VENDOR;
    pc->device_id = OPENREG_PCI_DEVICE;
    pc->revision = OPENREG_PCI_REVISION;
    pc->class_id = OPENREG_PCI_CLASS;
    rc->phases.enter = openreg_reset_enter;
    rc->phases.hold = openreg_reset_hold;
    dc->desc = "openreg processing accelerator";
    dc->vmsd = &openreg_vmstate;
    dc->hotpluggable = true;
    device_class_set_props(dc, openreg_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);

    object_class_property_set_description(class, "vram-size",
        "Size of VRAM, a power of two (default 1G, or memdev's size)");
    object_class_property_set_description(class, "memdev",
        "ID of a memory backend to use as VRAM");
    object_class_property_set_description(class, "workers",
        "Compute threads (default: host CPUs, at most 8)");
    object_class_property_set_description(class, "vectors",
        "MSI-X vectors, 2 to 64");
    object_class_property_set_description(class, "doorbells",
        "Doorbell pages, 1 to 256");
    object_class_property_set_description(class, "spin-us",
        "Microseconds that an idle card polls before it sleeps");
    object_class_property_set_description(class, "x-slow-us",
        "For tests: engines sleep a random time below this before each step");
    object_class_property_set_description(class, "x-check",
        "Find faults of the programs: race, init, bounds, with + between");
    object_class_property_set_description(class, "ioeventfd",
        "Take doorbells by eventfd (default: under KVM)");
    object_class_property_set_description(class, "x-inject",
        "For tests: allow x-inject-..., which make the card misbehave");
    openreg_inject_class_init(class);
}

static void openreg_register_types(void)
{
    static OPENREG_CLASS_CONST InterfaceInfo interfaces[] = {
        { INTERFACE_PCIE_DEVICE },
        { }
    };
    static const TypeInfo openreg_info = {
        .name = TYPE_OPENREG,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(OpenregState),
        .instance_init = openreg_instance_init,
        .class_init = openreg_class_init,
        .interfaces = interfaces,
    };

    type_register_static(&openreg_info);
}
type_init(openreg_register_types)
