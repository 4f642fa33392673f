// SPDX-License-Identifier: GPL-2.0-only
/* Runs a call: resolves its arguments, catches faults, and undoes its results. */
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest/fail.h"
#include "calls.h"

__thread sigjmp_buf call_guard;
__thread volatile bool call_guarded;
static __thread unsigned int fail_next;
static bool can_fail; /* this kernel can inject failures; a corpus may need it */

static void on_fault(int sig)
{
	if (call_guarded)
		siglongjmp(call_guard, 1);
	_exit(99);
}

static void on_tick(int sig)
{
}

void run_init(void)
{
	struct sigaction fault = { .sa_handler = on_fault };
	struct sigaction tick = { .sa_handler = on_tick }; /* no restart */

	fault.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGALRM, &tick, NULL);
	sigaction(SIGUSR1, &tick, NULL);
	signal(SIGPIPE, SIG_IGN);
	can_fail = !access("/proc/self/fail-nth", F_OK);
}

static void count(uint64_t *what)
{
	__atomic_add_fetch(what, 1, __ATOMIC_RELAXED);
}

int do_ioctl(int fd, unsigned long request, void *args)
{
	int ret = ioctl(fd, request, args);

	count(&shared->ioctls);
	return ret < 0 ? -errno : 0;
}

void made_fd(struct ctx *c, int fd)
{
	c->made->fd = fd;
}

uint64_t deadline(uint64_t us)
{
	if (us > 1000000)
		return us; /* already an absolute time */
	return us ? now_ns() + us * 1000 : 0;
}

#define MAPS_BEGIN (1ull << 40)
#define MAPS_SIZE (1ull << 45)

void *next_place(uint64_t size)
{
	static uint64_t used;
	uint64_t at = __atomic_fetch_add(&used, (size + 4095) & ~4095ull,
					 __ATOMIC_RELAXED);

	return (void *)(MAPS_BEGIN + at % MAPS_SIZE);
}

void *map_at(int fd, uint64_t offset, uint64_t size, int prot)
{
	void *map = mmap(next_place(size), size, prot, MAP_SHARED, fd, offset);

	return map == MAP_FAILED ? NULL : map;
}

static uint64_t value_of(const struct result *r, enum kind kind)
{
	switch (kind) {
	case KIND_CARD:
	case KIND_BUF:
	case KIND_FD:
		return r->fd;
	case KIND_HANDLE:
		return r->handle;
	case KIND_QUEUE:
		return r->queue.id;
	case KIND_SYNCOBJ:
		return r->syncobj;
	case KIND_MAP:
		return (uintptr_t)r->map;
	case KIND_ADDRESS:
		return r->address;
	case KIND_OFFSET:
		return r->offset;
	default:
		return 0;
	}
}

static int do_fail(struct ctx *c)
{
	fail_next = 1 + c->a[0] % 128;
	return 0;
}

static call_fn *find(enum op op)
{
	return card_calls[op] ?: memory_calls[op] ?:
	       other_calls[op] ?: do_fail;
}

bool call_run(struct run *run, unsigned int at)
{
	const struct call *call = &run->program->call[at];
	struct ctx c = { .run = run, .made = &run->result[at] };
	unsigned int i, failing = can_fail ? fail_next : 0;
	int ret;

	for (i = 0; i < ARGS_MAX; i++) {
		c.a[i] = call->arg[i].value;
		if (!call->arg[i].ref)
			continue;
		c.ref[i] = &run->result[call->arg[i].value];
		c.a[i] = value_of(c.ref[i], ops[call->op].arg[i]);
	}
	fail_next = 0;
	if (failing)
		fail_nth(failing);
	ret = find(call->op)(&c);
	if (failing)
		fail_nth(0);
	count(&shared->calls);
	count(&shared->op_calls[call->op]);
	if (!ret) {
		count(&shared->good);
		count(&shared->op_good[call->op]);
	}
	return !ret;
}

static void undo_queue(struct queue *q)
{
	if (q->ring)
		munmap(q->ring, q->slots * 64ull);
	if (q->user)
		munmap((void *)q->user, 4096);
	if (q->card)
		munmap((void *)q->card, 4096);
	if (q->doorbell)
		munmap((void *)q->doorbell, 4096);
}

void call_undo(struct run *run, unsigned int at)
{
	struct result *r = &run->result[at];

	if (run->child[at] > 0) {
		kill(run->child[at], SIGKILL);
		waitpid(run->child[at], NULL, 0);
	}
	if (r->map)
		munmap(r->map, r->size);
	undo_queue(&r->queue);
	if (r->fd >= 0)
		close(r->fd);
}
