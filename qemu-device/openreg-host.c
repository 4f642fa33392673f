/*
 * openreg: the callbacks of the card
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * They run in the card's threads, without the big lock. Behind a vIOMMU, accesses that
 * translate addresses run under the lock, because a failed translation raises an
 * interrupt.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bitops.h"
#include "qemu/log.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie_host.h"
#include "system/cpu-timers.h"
#include "openreg-pci.h"
#include "trace.h"

#define OPENREG_MAPPING_PAGE 4096

/* A mapping's host memory. A change of the address space replaces it as a whole. */
typedef struct OpenregTranslation {
    struct rcu_head rcu;
    MemoryRegionCache cache;
    bool good; /* cache is initialised, over the whole mapping */
} OpenregTranslation;

struct openreg_mapping {
    struct rcu_head rcu;
    QLIST_ENTRY(openreg_mapping) entry;
    hwaddr bus;
    hwaddr len;
    bool writable;
    OpenregTranslation *translation; /* RCU */
};

/*
 * Runs func, under the big lock if the card is behind a vIOMMU. That holds even while the
 * vIOMMU does not translate: the guest may switch translation on during the access.
 */
static void openreg_on_bus(OpenregState *s, OpenregLocked *func, void *opaque)
{
    if (qatomic_read(&s->iommu)) {
        openreg_run_locked(s, func, opaque);
    } else {
        func(s, opaque);
    }
}

/*
 * Looks up the host address of bytes that lie within one page. Returns NULL if they are
 * not memory. The caller is in an RCU read section.
 */
static void *openreg_translate(OpenregState *s, hwaddr bus, hwaddr len,
                               bool is_write, MemoryRegion **mr, hwaddr *xlat)
{
    hwaddr got = len;

    *mr = address_space_translate(openreg_as(s), bus, xlat, &got, is_write,
                                  OPENREG_ATTRS);
    if (got < len || !memory_region_is_ram(*mr) ||
        memory_region_is_ram_device(*mr) ||
        (is_write && ((*mr)->readonly || (*mr)->rom_device))) {
        return NULL;
    }
    return memory_region_get_ram_ptr(*mr) + *xlat;
}

static void openreg_translation_free(OpenregTranslation *t)
{
    if (t->good) {
        address_space_cache_destroy(&t->cache);
    }
    g_free(t);
}

static void openreg_mapping_free(OpenregMapping *m)
{
    g_free(m);
}

typedef struct OpenregProbe {
    OpenregMapping *mapping;
    bool good;
} OpenregProbe;

/* Is every page of a mapping behind a vIOMMU memory now? */
static void openreg_mapping_probe(OpenregState *s, void *opaque)
{
    OpenregProbe *probe = opaque;
    OpenregMapping *m = probe->mapping;
    MemoryRegion *mr;
    hwaddr xlat, off;

    RCU_READ_LOCK_GUARD();
    probe->good = true;
    for (off = 0; probe->good && off < m->len; off += OPENREG_MAPPING_PAGE) {
        probe->good = openreg_translate(s, m->bus + off, 8, m->writable, &mr,
                                        &xlat);
    }
}

static OpenregTranslation *openreg_translation_new(OpenregState *s,
                                                   OpenregMapping *m)
{
    OpenregTranslation *t = g_new0(OpenregTranslation, 1);
    int64_t len;

    len = address_space_cache_init(&t->cache, openreg_as(s), m->bus, m->len,
                                   m->writable);
    if (len < 0) {
        return t;
    }
    t->good = len == m->len &&
              (t->cache.ptr || memory_region_get_iommu(t->cache.mrs.mr));
    if (!t->good) {
        address_space_cache_destroy(&t->cache);
    }
    return t;
}

static struct openreg_mapping *openreg_map(void *host, uint64_t bus,
                                           uint64_t len, bool writable)
{
    OpenregState *s = host;
    OpenregProbe probe = {};
    OpenregMapping *m;
    bool good, direct;

    if (!len || bus % 8 || bus + len < bus) {
        trace_openreg_map(bus, len, writable, false);
        return NULL;
    }
    m = g_new0(OpenregMapping, 1);
    m->bus = bus;
    m->len = len;
    m->writable = writable;

    /* Map and insert under one lock, so that the listener misses no mapping. */
    qemu_mutex_lock(&s->mappings_lock);
    m->translation = openreg_translation_new(s, m);
    good = m->translation->good;
    direct = good && m->translation->cache.ptr;
    QLIST_INSERT_HEAD(&s->mappings, m, entry);
    qemu_mutex_unlock(&s->mappings_lock);

    if (good && !direct) {
        probe.mapping = m;
        openreg_on_bus(s, openreg_mapping_probe, &probe);
        good = probe.good;
    }
    trace_openreg_map(bus, len, writable, good);
    if (!good && !s->loading) {
        openreg_host_ops.unmap(s, m);
        return NULL;
    }
    return m;
}

static void openreg_unmap(void *host, struct openreg_mapping *m)
{
    OpenregState *s = host;

    trace_openreg_unmap(m->bus);
    qemu_mutex_lock(&s->mappings_lock);
    QLIST_REMOVE(m, entry);
    qemu_mutex_unlock(&s->mappings_lock);
    call_rcu(m->translation, openreg_translation_free, rcu);
    call_rcu(m, openreg_mapping_free, rcu);
}

/* The address space has changed: bus mastering, the vIOMMU, memory hot-plug. */
static void openreg_listener_commit(MemoryListener *listener)
{
    OpenregState *s = container_of(listener, OpenregState, listener);
    OpenregTranslation *old, *new;
    OpenregMapping *m;

    QEMU_LOCK_GUARD(&s->mappings_lock);
    QLIST_FOREACH(m, &s->mappings, entry) {
        old = m->translation;
        new = openreg_translation_new(s, m);
        trace_openreg_remap(m->bus, m->len, new->good);
        qatomic_rcu_set(&m->translation, new);
        call_rcu(old, openreg_translation_free, rcu);
    }
}

/* Accesses bytes of a mapping at their host address. */
typedef void OpenregAccess(void *ptr, void *opaque);

typedef struct OpenregSlow {
    hwaddr bus, len;
    bool is_write;
    OpenregAccess *access;
    void *opaque;
    bool good;
} OpenregSlow;

static void openreg_access_slow(OpenregState *s, void *opaque)
{
    OpenregSlow *slow = opaque;
    MemoryRegion *mr;
    hwaddr xlat;
    void *ptr;

    RCU_READ_LOCK_GUARD();
    ptr = openreg_translate(s, slow->bus, slow->len, slow->is_write, &mr, &xlat);
    slow->good = ptr;
    if (!ptr) {
        trace_openreg_dma_error(slow->is_write, slow->bus, slow->len,
                                MEMTX_ERROR);
        return;
    }
    slow->access(ptr, slow->opaque);
    if (slow->is_write) {
        memory_region_set_dirty(mr, xlat, slow->len);
    }
}

/*
 * Runs access on [off, off + len) of a mapping. Returns false if there is no memory at
 * these bus addresses now. The thread is between access_begin and access_end.
 */
static bool openreg_mapping_access(OpenregState *s, OpenregMapping *m, hwaddr off,
                                   hwaddr len, bool is_write,
                                   OpenregAccess *access, void *opaque)
{
    OpenregTranslation *t = qatomic_rcu_read(&m->translation);

    if (off > m->len || len > m->len - off || !t->good ||
        (is_write && !m->writable)) {
        return false;
    }
    /* A reset has begun: drop the write without an error, the IOMMU may be reset. */
    if (is_write && unlikely(qatomic_read(&s->dropping)) && qatomic_read(&s->iommu)) {
        return false;
    }
    if (unlikely(!t->cache.ptr)) {
        OpenregSlow slow = {
            .bus = m->bus + off, .len = len, .is_write = is_write,
            .access = access, .opaque = opaque,
        };

        openreg_on_bus(s, openreg_access_slow, &slow);
        return slow.good;
    }
    access(t->cache.ptr + off, opaque);
    if (is_write) {
        address_space_cache_invalidate(&t->cache, off, len);
    }
    return true;
}

/* The wake rule needs sequential consistency; qatomic_read() is relaxed. */
static void openreg_load64(void *ptr, void *opaque)
{
    *(uint64_t *)opaque = le64_to_cpu(__atomic_load_n((uint64_t *)ptr,
                                                      __ATOMIC_SEQ_CST));
}

static void openreg_store64(void *ptr, void *opaque)
{
    __atomic_store_n((uint64_t *)ptr, cpu_to_le64(*(uint64_t *)opaque),
                     __ATOMIC_SEQ_CST);
}

static void openreg_load32(void *ptr, void *opaque)
{
    *(uint32_t *)opaque = le32_to_cpu(__atomic_load_n((uint32_t *)ptr,
                                                      __ATOMIC_SEQ_CST));
}

static void openreg_store32(void *ptr, void *opaque)
{
    __atomic_store_n((uint32_t *)ptr, cpu_to_le32(*(uint32_t *)opaque),
                     __ATOMIC_SEQ_CST);
}

/* A load that fails returns all ones, as on PCI. */
static uint64_t openreg_mapping_load64(void *host, struct openreg_mapping *m,
                                       uint64_t off)
{
    uint64_t value = UINT64_MAX;

    openreg_mapping_access(host, m, off, sizeof(value), false, openreg_load64,
                           &value);
    return value;
}

static void openreg_mapping_store64(void *host, struct openreg_mapping *m,
                                    uint64_t off, uint64_t value)
{
    openreg_mapping_access(host, m, off, sizeof(value), true, openreg_store64,
                           &value);
}

static uint32_t openreg_mapping_load32(void *host, struct openreg_mapping *m,
                                       uint64_t off)
{
    uint32_t value = UINT32_MAX;

    openreg_mapping_access(host, m, off, sizeof(value), false, openreg_load32,
                           &value);
    return value;
}

static void openreg_mapping_store32(void *host, struct openreg_mapping *m,
                                    uint64_t off, uint32_t value)
{
    openreg_mapping_access(host, m, off, sizeof(value), true, openreg_store32,
                           &value);
}

struct openreg_copy_out {
    void *buf;
    hwaddr len;
};

static void openreg_copy_out(void *ptr, void *opaque)
{
    struct openreg_copy_out *copy = opaque;

    memcpy(copy->buf, ptr, copy->len);
}

static void openreg_mapping_read(void *host, struct openreg_mapping *m,
                                 uint64_t off, void *buf, uint64_t len)
{
    struct openreg_copy_out copy = { .buf = buf };

    /* Page by page: behind a vIOMMU, adjacent pages may lie anywhere in memory. */
    for (; len; len -= copy.len, off += copy.len, copy.buf += copy.len) {
        copy.len = MIN(len, OPENREG_MAPPING_PAGE -
                            (m->bus + off) % OPENREG_MAPPING_PAGE);
        if (!openreg_mapping_access(host, m, off, copy.len, false,
                                    openreg_copy_out, &copy)) {
            memset(copy.buf, 0xff, copy.len);
        }
    }
}

static void openreg_vram_written(void *host, uint64_t off, uint64_t len)
{
    OpenregState *s = host;

    memory_region_set_dirty(s->vram, off, len);
}

static void openreg_raise(void *host, unsigned int vector)
{
    OpenregState *s = host;

    trace_openreg_raise(vector);
    qatomic_or(&s->raised, BIT_ULL(vector));
    qemu_bh_schedule(s->raise_bh);
}

/*
 * Sends the vectors that workers raised. Runs only in the main loop, and not while a stop
 * of the VM waits for disks: the guest chooses the address of a message, and the write
 * there may unplug a card.
 *
 * A save may drop vectors that are still to be sent: a loaded card raises all vectors.
 */
static void openreg_raise_bh(void *opaque)
{
    OpenregState *s = opaque;
    uint64_t raised = qatomic_xchg(&s->raised, 0);
    unsigned int vector;

    object_ref(OBJECT(s));
    for (; raised; raised &= raised - 1) {
        vector = ctz64(raised);
        if (msix_enabled(PCI_DEVICE(s)) && vector < s->vectors) {
            msix_notify(PCI_DEVICE(s), vector);
        }
    }
    object_unref(OBJECT(s));
}

/* This clock stops with the VM and migrates with it. */
static uint64_t openreg_clock_ns(void *host)
{
    return cpu_get_clock();
}

static void openreg_guest_error(void *host, const char *message)
{
    qemu_log_mask(LOG_GUEST_ERROR, "openreg: %s\n", message);
}

static void openreg_thread_enter(void *host)
{
    rcu_register_thread();
}

static void openreg_thread_leave(void *host)
{
    rcu_unregister_thread();
}

static void openreg_access_begin(void *host)
{
    rcu_read_lock();
}

static void openreg_access_end(void *host)
{
    rcu_read_unlock();
}

const struct openreg_host_ops openreg_host_ops = {
    .thread_enter = openreg_thread_enter,
    .thread_leave = openreg_thread_leave,
    .access_begin = openreg_access_begin,
    .access_end = openreg_access_end,
    .map = openreg_map,
    .unmap = openreg_unmap,
    .load64 = openreg_mapping_load64,
    .store64 = openreg_mapping_store64,
    .load32 = openreg_mapping_load32,
    .store32 = openreg_mapping_store32,
    .read = openreg_mapping_read,
    .dma_read = openreg_dma_read,
    .dma_write = openreg_dma_write,
    .vram_written = openreg_vram_written,
    .raise = openreg_raise,
    .signalled = openreg_signalled,
    .clock_ns = openreg_clock_ns,
    .guest_error = openreg_guest_error,
};

void openreg_host_find_iommu(OpenregState *s)
{
    AddressSpace *as = pci_device_iommu_address_space(PCI_DEVICE(s));

    qatomic_set(&s->iommu, as != &address_space_memory);
}

void openreg_host_init(OpenregState *s)
{
    Object *bridge = object_resolve_path_type("", TYPE_PCIE_HOST_BRIDGE, NULL);

    s->host_bridge = bridge ? DEVICE(bridge) : NULL;
    openreg_host_find_iommu(s);
    qemu_mutex_init(&s->mappings_lock);
    QLIST_INIT(&s->mappings);
    s->raise_bh = aio_bh_new_guarded(iohandler_get_aio_context(),
                                     openreg_raise_bh, s,
                                     &DEVICE(s)->mem_reentrancy_guard);
    s->listener = (MemoryListener) {
        .name = "openreg",
        .commit = openreg_listener_commit,
    };
    memory_listener_register(&s->listener, openreg_as(s));
}

/* Call after the card is freed; no mapping exists then. */
void openreg_host_exit(OpenregState *s)
{
    memory_listener_unregister(&s->listener);
    qemu_bh_delete(s->raise_bh);
    qemu_mutex_destroy(&s->mappings_lock);
}
