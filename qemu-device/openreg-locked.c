/*
 * openreg: what the card's threads have done under the big lock
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A thread of the card may not wait for the lock: whoever has it may be waiting for
 * that thread, in a reset or an unplug. So the thread asks, and is served by a thread
 * for that, or by whoever waits. Dropping the lock instead, in the middle of a write
 * to the configuration, would have the bridge above refuse other vCPUs' accesses. The
 * main loop would take three times as long to serve a thread of the card.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "openreg-pci.h"

typedef struct OpenregRequest {
    QSIMPLEQ_ENTRY(OpenregRequest) entry;
    OpenregState *s;
    OpenregLocked *func;
    void *opaque;
    bool done;
} OpenregRequest;

typedef QSIMPLEQ_HEAD(, OpenregRequest) OpenregRequests;

/*
 * Of all cards. The thread is never joined, so that who unplugs a card, with the big
 * lock, need not wait for one that wants it.
 */
static struct {
    QemuMutex lock;
    QemuCond asked;
    QemuCond changed;
    uint64_t changes;
    OpenregRequests requests;
    bool started;
} server;

/* Under server.lock. */
static void openreg_tell(void)
{
    server.changes++;
    qemu_cond_broadcast(&server.changed);
}

/* What is asked for meanwhile is for the next time: others want the lock, too. */
static void openreg_serve(void)
{
    OpenregRequests requests = QSIMPLEQ_HEAD_INITIALIZER(requests);
    OpenregRequest *request;

    WITH_QEMU_LOCK_GUARD(&server.lock) {
        QSIMPLEQ_CONCAT(&requests, &server.requests);
    }
    while ((request = QSIMPLEQ_FIRST(&requests))) {
        QSIMPLEQ_REMOVE_HEAD(&requests, entry);
        request->func(request->s, request->opaque);
        /* On the stack of who asked, who goes on now. */
        WITH_QEMU_LOCK_GUARD(&server.lock) {
            request->done = true;
            openreg_tell();
        }
    }
}

static void *openreg_serve_thread(void *opaque)
{
    rcu_register_thread();
    for (;;) {
        WITH_QEMU_LOCK_GUARD(&server.lock) {
            while (QSIMPLEQ_EMPTY(&server.requests)) {
                qemu_cond_wait(&server.asked, &server.lock);
            }
        }
        bql_lock();
        openreg_serve();
        bql_unlock();
    }
    return NULL;
}

void openreg_run_locked(OpenregState *s, OpenregLocked *func, void *opaque)
{
    OpenregRequest request = { .s = s, .func = func, .opaque = opaque };
    QemuThread thread;

    if (bql_locked()) {
        func(s, opaque);
        return;
    }
    QEMU_LOCK_GUARD(&server.lock);
    if (!server.started) {
        server.started = true;
        qemu_thread_create(&thread, "openreg-locked", openreg_serve_thread, NULL,
                           QEMU_THREAD_DETACHED);
    }
    QSIMPLEQ_INSERT_TAIL(&server.requests, &request, entry);
    openreg_tell();
    qemu_cond_signal(&server.asked);
    while (!request.done) {
        qemu_cond_wait(&server.changed, &server.lock);
    }
}

void openreg_changed(void)
{
    QEMU_LOCK_GUARD(&server.lock);
    openreg_tell();
}

void openreg_serve_until(OpenregState *s, OpenregCondition *holds)
{
    uint64_t seen;

    for (;;) {
        WITH_QEMU_LOCK_GUARD(&server.lock) {
            seen = server.changes;
        }
        if (holds(s)) {
            return;
        }
        openreg_serve();
        WITH_QEMU_LOCK_GUARD(&server.lock) {
            while (server.changes == seen) {
                qemu_cond_wait(&server.changed, &server.lock);
            }
        }
    }
}

void openreg_locked_init(void)
{
    qemu_mutex_init(&server.lock);
    qemu_cond_init(&server.asked);
    qemu_cond_init(&server.changed);
    QSIMPLEQ_INIT(&server.requests);
}
