// SPDX-License-Identifier: MIT
/*
 * Records the calls of functions that were compiled with -finstrument-functions, of all
 * threads, between trace_start() and trace_stop(). tests/tour/add.py loads and reads it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define MANY (1u << 16) /* records of a thread */
#define THREADS 16
#define IGNORED (1u << 14) /* a power of two, far more than there are functions */

struct record {
	uint64_t ns;
	void *function;
	uint64_t enters;
};

/* Each thread writes its own buffer: a shared one would slow both sides down. */
struct buffer {
	struct record record[MANY];
	_Alignas(64) unsigned int used;
};

struct buffer trace_buffers[THREADS];
static atomic_uint threads;
static atomic_bool on;
static _Thread_local uint32_t self; /* number of the thread, from 1 */
static void *ignored[IGNORED];

/* Returns the place of the function in the table, or the empty place for it. */
static void **place(void *function)
{
	uint32_t at = (uint32_t)((uintptr_t)function >> 4) % IGNORED;

	while (ignored[at] && ignored[at] != function)
		at = (at + 1) % IGNORED;
	return &ignored[at];
}

/* Records this function no more. Not while a trace is on. */
void trace_ignore(void *function)
{
	*place(function) = function;
}

uint64_t trace_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint32_t number(void)
{
	if (!self)
		self = atomic_fetch_add(&threads, 1) + 1;
	return self;
}

static void add(void *function, bool enters)
{
	struct buffer *b;

	if (!atomic_load_explicit(&on, memory_order_relaxed) || *place(function))
		return;
	if (number() > THREADS)
		return;
	b = &trace_buffers[self - 1];
	if (b->used < MANY)
		b->record[b->used++] = (struct record){ trace_now(), function, enters };
}

void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	add(function, true);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)caller;
	add(function, false);
}

/* Returns the number of the calling thread. */
uint32_t trace_start(void)
{
	for (unsigned int i = 0; i < THREADS; i++)
		trace_buffers[i].used = 0;
	atomic_store(&on, true);
	return number();
}

void trace_stop(void)
{
	atomic_store(&on, false);
}
