// SPDX-License-Identifier: MIT
/*
 * Records the calls of functions that were compiled with -finstrument-functions, of all
 * threads, between trace_start() and trace_stop(). tests/tour/add.py loads and reads it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define MANY (1u << 20)
#define IGNORED (1u << 14) /* a power of two, far more than there are functions */

struct record {
	uint64_t ns;
	void *function;
	uint32_t thread;
	uint32_t enters;
};

struct record trace_records[MANY];
static atomic_uint used, threads;
static atomic_bool on;
static _Thread_local uint32_t self;
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

static void add(void *function, bool enters)
{
	unsigned int at;

	if (!atomic_load_explicit(&on, memory_order_relaxed) || *place(function))
		return;
	if (!self)
		self = atomic_fetch_add(&threads, 1) + 1;
	at = atomic_fetch_add_explicit(&used, 1, memory_order_relaxed);
	if (at < MANY)
		trace_records[at] = (struct record){ trace_now(), function, self, enters };
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
	if (!self)
		self = atomic_fetch_add(&threads, 1) + 1;
	atomic_store(&used, 0);
	atomic_store(&on, true);
	return self;
}

/* Returns the number of records, or 0 if there were too many. */
unsigned int trace_stop(void)
{
	unsigned int n;

	atomic_store(&on, false);
	n = atomic_load(&used);
	return n <= MANY ? n : 0;
}
