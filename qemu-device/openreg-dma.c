/*
 * openreg: the card's accesses to system memory that do not use a mapping
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "openreg-pci.h"
#include "trace.h"

typedef struct OpenregTransfer {
    hwaddr bus, len;
    void *buf;
    bool is_write;
    MemTxResult result;
} OpenregTransfer;

static void openreg_dma_iommu(OpenregState *s, void *opaque)
{
    OpenregTransfer *t = opaque;

    t->result = address_space_rw(openreg_as(s), t->bus, OPENREG_ATTRS, t->buf,
                                 t->len, t->is_write);
}

/* Not address_space_rw(): it would take the big lock for ROM and device memory. */
static void openreg_dma_direct(OpenregState *s, OpenregTransfer *t)
{
    MemoryRegionCache cache;
    bool good = true;
    hwaddr off;
    int64_t got;

    for (off = 0; good && off < t->len; off += got) {
        got = address_space_cache_init(&cache, openreg_as(s), t->bus + off,
                                       t->len - off, t->is_write);
        good = got > 0 && cache.ptr;
        if (good && t->is_write) {
            memmove(cache.ptr, t->buf + off, got); /* both may be VRAM */
            address_space_cache_invalidate(&cache, 0, got);
        } else if (good) {
            memmove(t->buf + off, cache.ptr, got);
        }
        address_space_cache_destroy(&cache);
    }
    t->result = good ? MEMTX_OK : MEMTX_ACCESS_ERROR;
}

static int openreg_dma(OpenregState *s, uint64_t bus, void *buf, uint64_t len,
                       bool is_write)
{
    OpenregTransfer t = {
        .bus = bus, .len = len, .buf = buf, .is_write = is_write,
        .result = MEMTX_ERROR,
    };

    if (qatomic_read(&s->iommu)) {
        openreg_run_locked(s, openreg_dma_iommu, &t);
    } else {
        openreg_dma_direct(s, &t);
    }
    if (t.result != MEMTX_OK) {
        trace_openreg_dma_error(is_write, bus, len, t.result);
        return -1;
    }
    return 0;
}

int openreg_dma_read(void *host, uint64_t bus, void *buf, uint64_t len)
{
    return openreg_dma(host, bus, buf, len, false);
}

int openreg_dma_write(void *host, uint64_t bus, const void *buf, uint64_t len)
{
    return openreg_dma(host, bus, (void *)buf, len, true);
}
