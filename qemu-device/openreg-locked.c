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
#include "trace.h"

typedef struct OpenregRequest {
    QSIMPLEQ_ENTRY(OpenregRequest) entry;
    OpenregState *s;
    OpenregLocked *func;
    void *opaque;
    QemuCond ended;
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
    unsigned int waiting; /* requests in the list */
    bool started;
} server;

/* Accesses under way, under the BQL, and which of them are on this thread's stack. */
static unsigned int calls;
static __thread unsigned int own_calls;

bool openreg_in_access(void)
{
    return own_calls;
}

/* Under server.lock. */
static void openreg_tell(void)
{
    server.changes++;
    qemu_cond_broadcast(&server.changed);
}

/*
 * An IOMMU writes a fault's record and its interrupt to where the guest says. Were that
 * a configuration, a reset or an unplug in here would wait for whom it is done for.
 */
static void openreg_call(OpenregState *s, OpenregLocked *func, void *opaque)
{
    bool *engaged = s->host_bridge ?
                    &s->host_bridge->mem_reentrancy_guard.engaged_in_io : NULL;
    bool was = engaged && *engaged;

    if (engaged) {
        *engaged = true;
    }
    calls++;
    own_calls++;
    func(s, opaque);
    own_calls--;
    calls--;
    if (engaged) {
        *engaged = was;
    }
}

static OpenregRequest *openreg_take(void)
{
    OpenregRequest *request;

    QEMU_LOCK_GUARD(&server.lock);
    request = QSIMPLEQ_FIRST(&server.requests);
    if (request) {
        QSIMPLEQ_REMOVE_HEAD(&server.requests, entry);
        server.waiting--;
    }
    return request;
}

/* What is asked for meanwhile is for the next time: others want the lock, too. */
static void openreg_serve(void)
{
    OpenregRequest *request;
    unsigned int n;

    g_assert(bql_locked());
    WITH_QEMU_LOCK_GUARD(&server.lock) {
        n = server.waiting;
    }
    while (n-- && (request = openreg_take())) {
        /* Asked before a reset began, it finds the IOMMU reset, perhaps. */
        if (!qatomic_read(&request->s->dropping)) {
            openreg_call(request->s, request->func, request->opaque);
        }
        /* On the stack of who asked, who goes on now. */
        WITH_QEMU_LOCK_GUARD(&server.lock) {
            request->done = true;
            qemu_cond_signal(&request->ended);
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

    if (qatomic_read(&s->dropping)) {
        return;
    }
    if (bql_locked()) {
        openreg_call(s, func, opaque);
        return;
    }
    qemu_cond_init(&request.ended);
    WITH_QEMU_LOCK_GUARD(&server.lock) {
        QSIMPLEQ_INSERT_TAIL(&server.requests, &request, entry);
        server.waiting++;
        openreg_tell();
        qemu_cond_signal(&server.asked);
        while (!request.done) {
            qemu_cond_wait(&request.ended, &server.lock);
        }
    }
    qemu_cond_destroy(&request.ended);
}

void openreg_changed(void)
{
    QEMU_LOCK_GUARD(&server.lock);
    openreg_tell();
}

/* What waits, in an access, for the vCPUs to stop has dropped the BQL. */
static void openreg_wait_changed(uint64_t seen)
{
    bool drop = calls > own_calls;

    if (drop) {
        trace_openreg_wait_unlocked();
        bql_unlock();
    }
    WITH_QEMU_LOCK_GUARD(&server.lock) {
        while (server.changes == seen) {
            qemu_cond_wait(&server.changed, &server.lock);
        }
    }
    if (drop) {
        bql_lock();
    }
}

void openreg_serve_until(OpenregState *s, OpenregCondition *holds)
{
    uint64_t seen;

    g_assert(bql_locked());
    for (;;) {
        WITH_QEMU_LOCK_GUARD(&server.lock) {
            seen = server.changes;
        }
        if (holds(s)) {
            return;
        }
        openreg_serve();
        openreg_wait_changed(seen);
    }
}

void openreg_locked_start(void)
{
    QemuThread thread;

    if (server.started) {
        return;
    }
    server.started = true;
    qemu_mutex_init(&server.lock);
    qemu_cond_init(&server.asked);
    qemu_cond_init(&server.changed);
    QSIMPLEQ_INIT(&server.requests);
    qemu_thread_create(&thread, "openreg-locked", openreg_serve_thread, NULL,
                       QEMU_THREAD_DETACHED);
}
