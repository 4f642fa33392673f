/*
 * openreg: pausing, reset and migration
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/units.h"
#include "hw/pci/msix.h"
#include "openreg-pci.h"
#include "trace.h"

/* Larger than the state of any card. A load refuses a stream with a larger state. */
#define OPENREG_BLOB_MAX (256 * MiB)

static void openreg_paused(void *opaque)
{
    openreg_changed();
}

static bool openreg_is_paused(OpenregState *s)
{
    return !s->card || openreg_card_is_paused(s->card);
}

static void openreg_wait_paused(OpenregState *s)
{
    openreg_serve_until(s, openreg_is_paused);
}

static void openreg_pause_begin(OpenregState *s)
{
    trace_openreg_pause(s->pauses);
    if (s->pauses++ == 0) {
        openreg_card_pause_begin(s->card, openreg_paused, s);
    }
}

void openreg_pause(OpenregState *s)
{
    openreg_pause_begin(s);
    openreg_wait_paused(s);
}

void openreg_unpause(OpenregState *s)
{
    trace_openreg_unpause(s->pauses);
    if (--s->pauses == 0) {
        openreg_card_resume(s->card);
    }
}

/*
 * Call before a reset: accesses in flight fail from now on without translation. So the
 * reset need not wait for them, and the IOMMU may be reset before the card.
 */
void openreg_drop_accesses(OpenregState *s)
{
    qatomic_set(&s->dropping, true);
}

/* Resets the card, which also resumes it. Pauses it again if another reason remains. */
void openreg_reset(OpenregState *s)
{
    if (!s->card) {
        return;
    }
    trace_openreg_reset();
    openreg_host_find_iommu(s);
    object_ref(OBJECT(s));
    openreg_pause(s);
    if (s->card) { /* an unplug may have freed it meanwhile */
        openreg_card_reset(s->card);
        qatomic_set(&s->dropping, false);
        qatomic_set(&s->raised, 0);
        if (--s->pauses > 0) {
            openreg_card_pause_begin(s->card, openreg_paused, s);
        }
    }
    object_unref(OBJECT(s));
}

/* The VM can continue only after a reset, so packets need not finish. */
static bool openreg_stops_for_good(RunState state)
{
    return state == RUN_STATE_SHUTDOWN || state == RUN_STATE_INTERNAL_ERROR;
}

/* Finishes packets now: a save needs whole packets, and saves memory before the card. */
static void openreg_finish(OpenregState *s)
{
    object_ref(OBJECT(s));
    openreg_wait_paused(s);
    if (s->card && !openreg_stops_for_good(runstate_get())) {
        openreg_card_finish(s->card);
    }
    object_unref(OBJECT(s));
}

static void openreg_finish_late(void *opaque);

/*
 * Finishes packets after the access that this thread is in. The stop of the VM flushes
 * disks within the access, but that does not poll this context: the BH runs later.
 */
static void openreg_defer_finish(OpenregState *s)
{
    aio_bh_schedule_oneshot(iohandler_get_aio_context(), openreg_finish_late, s);
}

static void openreg_finish_late(void *opaque)
{
    OpenregState *s = opaque;

    if (s->card && s->stopped) {
        if (openreg_in_access()) {
            openreg_defer_finish(s);
            return;
        }
        openreg_finish(s);
    }
    object_unref(OBJECT(s));
}

static void openreg_vm_change(void *opaque, bool running, RunState state)
{
    OpenregState *s = opaque;

    if (running && s->stopped) {
        s->stopped = false;
        openreg_unpause(s);
    } else if (!running && !s->stopped) {
        s->stopped = true;
        openreg_pause_begin(s);
        /* An IOMMU's write of a record to pvpanic stops the VM: end the access first. */
        if (openreg_in_access()) {
            object_ref(OBJECT(s));
            openreg_defer_finish(s);
        } else {
            openreg_finish(s);
        }
    }
}

static int openreg_pre_save(void *opaque)
{
    OpenregState *s = opaque;
    void *blob;
    size_t len;

    openreg_wait_paused(s);
    blob = openreg_card_save(s->card, &len);
    if (!blob || len > OPENREG_BLOB_MAX) {
        error_report("openreg: the card's state cannot be saved");
        free(blob);
        return -ENOMEM;
    }
    g_free(s->blob);
    s->blob = g_memdup2(blob, len);
    s->blob_size = len;
    free(blob);
    trace_openreg_save(s->blob_size);
    return 0;
}

static void openreg_saved(void *opaque)
{
    OpenregState *s = opaque;

    g_free(s->blob);
    s->blob = NULL;
    s->blob_size = 0;
}

static int openreg_post_save(void *opaque)
{
    openreg_saved(opaque);
    return 0;
}

static int openreg_post_load(void *opaque, int version_id)
{
    OpenregState *s = opaque;
    const char *error = NULL;
    int ret;

    openreg_wait_paused(s);
    trace_openreg_load(s->blob_size);
    /* As on the saved card, bus mastering may be off or a page unmapped. */
    s->loading = true;
    ret = openreg_card_load(s->card, s->blob, s->blob_size, &error);
    s->loading = false;
    g_free(s->blob);
    s->blob = NULL;
    s->blob_size = 0;
    if (ret < 0) {
        error_report("openreg: the card's state cannot be loaded: %s", error);
        return -EINVAL;
    }
    return 0;
}

static bool openreg_blob_size_valid(void *opaque, int version_id)
{
    OpenregState *s = opaque;

    return s->blob_size <= OPENREG_BLOB_MAX;
}

/* The state depends on the card's limits, so both sides need the same limits. */
const VMStateDescription openreg_vmstate = {
    .name = "openreg",
    .version_id = 3, /* 2: ISA 1.3; 3: ISA 1.6 */
    .minimum_version_id = 1,
    .pre_save = openreg_pre_save,
    .post_save = OPENREG_POST_SAVE(openreg_post_save, openreg_saved),
    .post_load = openreg_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_PCI_DEVICE(parent_obj, OpenregState),
        VMSTATE_MSIX(parent_obj, OpenregState),
        OPENREG_VMSTATE_EQUAL(vram_size, OpenregState, uint64_t,
                              vmstate_info_uint64_equal),
        OPENREG_VMSTATE_EQUAL(vectors, OpenregState, uint32_t,
                              vmstate_info_uint32_equal),
        OPENREG_VMSTATE_EQUAL(doorbells, OpenregState, uint32_t,
                              vmstate_info_uint32_equal),
        VMSTATE_UINT32(blob_size, OpenregState),
        VMSTATE_VALIDATE("size of the card's state", openreg_blob_size_valid),
        VMSTATE_VBUFFER_ALLOC_UINT32(blob, OpenregState, 0, NULL, blob_size),
        VMSTATE_END_OF_LIST()
    }
};

/* In a VM that does not run yet, the card starts paused. */
void openreg_state_init(OpenregState *s)
{
    s->pauses = 0;
    s->stopped = false;
    qatomic_set(&s->dropping, false);
    s->vm_change = openreg_add_vm_change(DEVICE(s), openreg_vm_change, s);
    if (!runstate_is_running()) {
        openreg_vm_change(s, false, runstate_get());
    }
}

/* Leaves the card paused and without a handler for VM state changes. */
void openreg_state_exit(OpenregState *s)
{
    qemu_del_vm_change_state_handler(s->vm_change);
    openreg_drop_accesses(s);
    openreg_pause(s);
    g_free(s->blob);
    s->blob = NULL;
}
