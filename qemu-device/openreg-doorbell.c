/*
 * openreg: the doorbell BAR
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A write of any size anywhere in a page wakes the card. Under KVM an eventfd takes the
 * write without an exit to user space. The device's own thread waits for the eventfds,
 * because the main loop may be waiting for the big lock.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qapi/error.h"
#include "system/kvm.h"
#include "openreg-pci.h"
#include "trace.h"

static uint64_t openreg_doorbell_read(void *opaque, hwaddr addr, unsigned size)
{
    return 0;
}

static void openreg_doorbell_write(void *opaque, hwaddr addr, uint64_t value,
                                   unsigned size)
{
    OpenregState *s = opaque;
    unsigned int page = addr / OPENREG_DOORBELL_STRIDE;

    trace_openreg_doorbell(page);
    if (s->card && page < s->doorbells) {
        openreg_card_doorbell(s->card, page);
    }
}

static const MemoryRegionOps openreg_doorbell_ops = {
    .read = openreg_doorbell_read,
    .write = openreg_doorbell_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 1,
    .valid.max_access_size = 8,
    .impl.min_access_size = 1,
    .impl.max_access_size = 8,
};

/* The size of a BAR is a power of two. Pages beyond the last doorbell ignore writes. */
void openreg_doorbell_init(OpenregState *s)
{
    memory_region_init_io(&s->doorbell_bar, OBJECT(s), &openreg_doorbell_ops, s,
                          "openreg-doorbell",
                          pow2ceil(s->doorbells) * OPENREG_DOORBELL_STRIDE);
}

static void *openreg_doorbell_thread(void *opaque)
{
    OpenregState *s = opaque;
    unsigned int i, n = s->doorbells;
    g_autofree GPollFD *fds = g_new0(GPollFD, n + 1);

    for (i = 0; i <= n; i++) {
        fds[i].fd = event_notifier_get_fd(i < n ? &s->notifiers[i] :
                                                  &s->notifier_stop);
        fds[i].events = G_IO_IN;
    }
    for (;;) {
        g_poll(fds, n + 1, -1);
        if (fds[n].revents) {
            return NULL;
        }
        for (i = 0; i < n; i++) {
            if (fds[i].revents &&
                event_notifier_test_and_clear(&s->notifiers[i])) {
                trace_openreg_doorbell(i);
                openreg_card_doorbell(s->card, i);
            }
        }
    }
}

/* KVM's fast path needs size 0, for any access; QEMU's own matching needs a real size. */
static unsigned int openreg_doorbell_size(void)
{
    return kvm_enabled() ? 0 : 4;
}

static void openreg_doorbell_cleanup(OpenregState *s, unsigned int n)
{
    while (n--) {
        event_notifier_cleanup(&s->notifiers[n]);
    }
    g_free(s->notifiers);
    s->notifiers = NULL;
}

static bool openreg_doorbell_notifiers(OpenregState *s, Error **errp)
{
    unsigned int i;
    int ret;

    s->notifiers = g_new0(EventNotifier, s->doorbells);
    for (i = 0; i < s->doorbells; i++) {
        ret = event_notifier_init(&s->notifiers[i], 0);
        if (ret < 0) {
            error_setg_errno(errp, -ret, "openreg: no eventfd for doorbell %u "
                             "(raise ulimit -n, or set ioeventfd=off)", i);
            openreg_doorbell_cleanup(s, i);
            return false;
        }
    }
    ret = event_notifier_init(&s->notifier_stop, 0);
    if (ret < 0) {
        error_setg_errno(errp, -ret, "openreg: no eventfd to stop the doorbell "
                         "thread (raise ulimit -n, or set ioeventfd=off)");
        openreg_doorbell_cleanup(s, s->doorbells);
        return false;
    }
    return true;
}

bool openreg_doorbell_start(OpenregState *s, Error **errp)
{
    unsigned int i;

    if (s->ioeventfd == ON_OFF_AUTO_OFF ||
        (s->ioeventfd == ON_OFF_AUTO_AUTO && !kvm_enabled())) {
        return true;
    }
    if (!openreg_doorbell_notifiers(s, errp)) {
        return false;
    }
    memory_region_transaction_begin();
    for (i = 0; i < s->doorbells; i++) {
        memory_region_add_eventfd(&s->doorbell_bar, i * OPENREG_DOORBELL_STRIDE,
                                  openreg_doorbell_size(), false, 0,
                                  &s->notifiers[i]);
    }
    memory_region_transaction_commit();
    qemu_thread_create(&s->notifier_thread, "openreg-bell",
                       openreg_doorbell_thread, s, QEMU_THREAD_JOINABLE);
    return true;
}

void openreg_doorbell_stop(OpenregState *s)
{
    unsigned int i;

    if (!s->notifiers) {
        return;
    }
    memory_region_transaction_begin();
    for (i = 0; i < s->doorbells; i++) {
        memory_region_del_eventfd(&s->doorbell_bar, i * OPENREG_DOORBELL_STRIDE,
                                  openreg_doorbell_size(), false, 0,
                                  &s->notifiers[i]);
    }
    memory_region_transaction_commit();
    event_notifier_set(&s->notifier_stop);
    qemu_thread_join(&s->notifier_thread);
    event_notifier_cleanup(&s->notifier_stop);
    openreg_doorbell_cleanup(s, s->doorbells);
}
