/*
 * openreg: running functions under the big lock for the card's threads
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A thread of the card must not wait for the big lock (BQL): the thread that holds it may
 * be waiting for the card, in a reset or an unplug. So the card's thread queues a
 * request. A server thread runs the request, or the thread that waits for the card does.
 *
 * Why not otherwise: if the waiting thread dropped the BQL in the middle of a
 * configuration write, the bridge above would refuse accesses of other vCPUs. The main
 * loop would take three times as long to serve a request as the server thread.
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
 * One server for all cards. Its thread is never joined, because an unplug holds the BQL
 * and must not wait for a thread that needs the BQL.
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

/* BQL: calls of openreg_call() in progress. own_calls: those on this thread's stack. */
static unsigned int calls;
static __thread unsigned int own_calls;

bool openreg_in_access(void)
{
    return own_calls;
}

/* Under server.lock. */
static void openreg_notify(void)
{
    server.changes++;
    qemu_cond_broadcast(&server.changed);
}

/*
 * Calls func with the host bridge marked as busy, so that QEMU refuses accesses to
 * configuration registers. An IOMMU writes fault records and interrupts to addresses that
 * the guest chooses. A write to a configuration register could start a reset or an unplug
 * in here, and that would wait for the thread that waits for func.
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

static OpenregRequest *openreg_take_request(void)
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

/* Runs the queued requests. Later ones wait: other threads need the BQL, too. */
static void openreg_serve(void)
{
    OpenregRequest *request;
    unsigned int n;

    g_assert(bql_locked());
    WITH_QEMU_LOCK_GUARD(&server.lock) {
        n = server.waiting;
    }
    while (n-- && (request = openreg_take_request())) {
        /* Drop requests from before a reset: the IOMMU may be reset already. */
        if (!qatomic_read(&request->s->dropping)) {
            openreg_call(request->s, request->func, request->opaque);
        }
        /* The request is on the stack of its thread, which continues now. */
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
        openreg_notify();
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
    openreg_notify();
}

/*
 * Waits for a change. Another thread may be in openreg_call() while this one holds the
 * BQL: that thread has dropped the BQL to wait until the vCPUs stop, and needs it back.
 * So this thread then drops it meanwhile.
 */
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
