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

#define OPENREG_WINDOW_PAGE 4096

/* The mapping of a window. A change of the address space replaces it as a whole. */
typedef struct OpenregWindowMap {
    struct rcu_head rcu;
    MemoryRegionCache cache;
    bool good; /* cache is initialised, over the whole window */
} OpenregWindowMap;

struct openreg_window {
    struct rcu_head rcu;
    QLIST_ENTRY(openreg_window) entry;
    hwaddr bus;
    hwaddr len;
    bool writable;
    OpenregWindowMap *map; /* RCU */
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

static void openreg_window_map_free(OpenregWindowMap *map)
{
    if (map->good) {
        address_space_cache_destroy(&map->cache);
    }
    g_free(map);
}

static void openreg_window_free(OpenregWindow *w)
{
    g_free(w);
}

typedef struct OpenregProbe {
    OpenregWindow *window;
    bool good;
} OpenregProbe;

/* Is every page of a translated window memory now? */
static void openreg_window_probe(OpenregState *s, void *opaque)
{
    OpenregProbe *probe = opaque;
    OpenregWindow *w = probe->window;
    MemoryRegion *mr;
    hwaddr xlat, off;

    RCU_READ_LOCK_GUARD();
    probe->good = true;
    for (off = 0; probe->good && off < w->len; off += OPENREG_WINDOW_PAGE) {
        probe->good = openreg_translate(s, w->bus + off, 8, w->writable, &mr,
                                        &xlat);
    }
}

static OpenregWindowMap *openreg_window_map_new(OpenregState *s,
                                                OpenregWindow *w)
{
    OpenregWindowMap *map = g_new0(OpenregWindowMap, 1);
    int64_t len;

    len = address_space_cache_init(&map->cache, openreg_as(s), w->bus, w->len,
                                   w->writable);
    if (len < 0) {
        return map;
    }
    map->good = len == w->len &&
                (map->cache.ptr || memory_region_get_iommu(map->cache.mrs.mr));
    if (!map->good) {
        address_space_cache_destroy(&map->cache);
    }
    return map;
}

static struct openreg_window *openreg_window_map(void *host, uint64_t bus,
                                                 uint64_t len, bool writable)
{
    OpenregState *s = host;
    OpenregProbe probe = {};
    OpenregWindow *w;
    bool good, direct;

    if (!len || bus % 8 || bus + len < bus) {
        trace_openreg_window_map(bus, len, writable, false);
        return NULL;
    }
    w = g_new0(OpenregWindow, 1);
    w->bus = bus;
    w->len = len;
    w->writable = writable;

    /* Map and insert under one lock, so that the listener misses no window. */
    qemu_mutex_lock(&s->window_lock);
    w->map = openreg_window_map_new(s, w);
    good = w->map->good;
    direct = good && w->map->cache.ptr;
    QLIST_INSERT_HEAD(&s->windows, w, entry);
    qemu_mutex_unlock(&s->window_lock);

    if (good && !direct) {
        probe.window = w;
        openreg_on_bus(s, openreg_window_probe, &probe);
        good = probe.good;
    }
    trace_openreg_window_map(bus, len, writable, good);
    if (!good && !s->loading) {
        openreg_host_ops.window_unmap(s, w);
        return NULL;
    }
    return w;
}

static void openreg_window_unmap(void *host, struct openreg_window *w)
{
    OpenregState *s = host;

    trace_openreg_window_unmap(w->bus);
    qemu_mutex_lock(&s->window_lock);
    QLIST_REMOVE(w, entry);
    qemu_mutex_unlock(&s->window_lock);
    call_rcu(w->map, openreg_window_map_free, rcu);
    call_rcu(w, openreg_window_free, rcu);
}

/* The address space has changed: bus mastering, the vIOMMU, memory hot-plug. */
static void openreg_listener_commit(MemoryListener *listener)
{
    OpenregState *s = container_of(listener, OpenregState, listener);
    OpenregWindowMap *old, *new;
    OpenregWindow *w;

    QEMU_LOCK_GUARD(&s->window_lock);
    QLIST_FOREACH(w, &s->windows, entry) {
        old = w->map;
        new = openreg_window_map_new(s, w);
        trace_openreg_window_remap(w->bus, w->len, new->good);
        qatomic_rcu_set(&w->map, new);
        call_rcu(old, openreg_window_map_free, rcu);
    }
}

/* Accesses bytes of a window at their host address. */
typedef void OpenregAccess(void *ptr, void *opaque);

typedef struct OpenregSlow {
    hwaddr bus, len;
    bool is_write;
    OpenregAccess *access;
    void *opaque;
    bool good;
} OpenregSlow;

static void openreg_window_slow(OpenregState *s, void *opaque)
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
 * Runs access on [off, off + len) of a window. Returns false if there is no memory at
 * these bus addresses now. The thread is between access_begin and access_end.
 */
static bool openreg_window_access(OpenregState *s, OpenregWindow *w, hwaddr off,
                                  hwaddr len, bool is_write,
                                  OpenregAccess *access, void *opaque)
{
    OpenregWindowMap *map = qatomic_rcu_read(&w->map);

    if (off > w->len || len > w->len - off || !map->good ||
        (is_write && !w->writable)) {
        return false;
    }
    /* A reset has begun: drop the write without an error, the IOMMU may be reset. */
    if (is_write && unlikely(qatomic_read(&s->dropping)) && qatomic_read(&s->iommu)) {
        return false;
    }
    if (unlikely(!map->cache.ptr)) {
        OpenregSlow slow = {
            .bus = w->bus + off, .len = len, .is_write = is_write,
            .access = access, .opaque = opaque,
        };

        openreg_on_bus(s, openreg_window_slow, &slow);
        return slow.good;
    }
    access(map->cache.ptr + off, opaque);
    if (is_write) {
        address_space_cache_invalidate(&map->cache, off, len);
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
static uint64_t openreg_window_load64(void *host, struct openreg_window *w,
                                      uint64_t off)
{
    uint64_t value = UINT64_MAX;

    openreg_window_access(host, w, off, sizeof(value), false, openreg_load64,
                          &value);
    return value;
}

static void openreg_window_store64(void *host, struct openreg_window *w,
                                   uint64_t off, uint64_t value)
{
    openreg_window_access(host, w, off, sizeof(value), true, openreg_store64,
                          &value);
}

static uint32_t openreg_window_load32(void *host, struct openreg_window *w,
                                      uint64_t off)
{
    uint32_t value = UINT32_MAX;

    openreg_window_access(host, w, off, sizeof(value), false, openreg_load32,
                          &value);
    return value;
}

static void openreg_window_store32(void *host, struct openreg_window *w,
                                   uint64_t off, uint32_t value)
{
    openreg_window_access(host, w, off, sizeof(value), true, openreg_store32,
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

static void openreg_window_read(void *host, struct openreg_window *w,
                                uint64_t off, void *buf, uint64_t len)
{
    struct openreg_copy_out copy = { .buf = buf };

    /* Page by page: behind a vIOMMU, adjacent pages may lie anywhere in memory. */
    for (; len; len -= copy.len, off += copy.len, copy.buf += copy.len) {
        copy.len = MIN(len, OPENREG_WINDOW_PAGE -
                            (w->bus + off) % OPENREG_WINDOW_PAGE);
        if (!openreg_window_access(host, w, off, copy.len, false,
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
    .window_map = openreg_window_map,
    .window_unmap = openreg_window_unmap,
    .window_load64 = openreg_window_load64,
    .window_store64 = openreg_window_store64,
    .window_load32 = openreg_window_load32,
    .window_store32 = openreg_window_store32,
    .window_read = openreg_window_read,
    .dma_read = openreg_dma_read,
    .dma_write = openreg_dma_write,
    .vram_written = openreg_vram_written,
    .raise = openreg_raise,
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
    qemu_mutex_init(&s->window_lock);
    QLIST_INIT(&s->windows);
    s->raise_bh = aio_bh_new_guarded(iohandler_get_aio_context(),
                                     openreg_raise_bh, s,
                                     &DEVICE(s)->mem_reentrancy_guard);
    s->listener = (MemoryListener) {
        .name = "openreg",
        .commit = openreg_listener_commit,
    };
    memory_listener_register(&s->listener, openreg_as(s));
}

/* Call after the card is freed; no window exists then. */
void openreg_host_exit(OpenregState *s)
{
    memory_listener_unregister(&s->listener);
    qemu_bh_delete(s->raise_bh);
    qemu_mutex_destroy(&s->window_lock);
}
