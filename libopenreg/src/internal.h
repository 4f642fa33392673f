/* SPDX-License-Identifier: MIT */
#ifndef OPENREG_INTERNAL_H
#define OPENREG_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "openreg.h"
#include "timeline.h"
#include "transport.h"

#define API __attribute__((visibility("default")))
#define PRINTF(a, b) __attribute__((format(printf, a, b)))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

struct openreg_device {
	const struct transport_ops *ops;
	struct transport *t;
	struct openreg_device_info info;
	const volatile uint8_t *mine; /* reads 0 in a child of fork() */
	pthread_mutex_t shared_lock; /* protects shared, and the refs of its BOs */
	struct openreg_bo *shared; /* list of exported and imported BOs */
	struct checks *checks; /* NULL: the card does not check programs */
	struct device_timeline timeline;
};

struct openreg_bo {
	struct openreg_device *dev;
	struct transport_bo t;
	uint32_t flags;
	pthread_mutex_t lock; /* protects ptr */
	void *ptr; /* the mapping, or the registered memory */
	bool shared; /* in the device's list of shared BOs */
	unsigned int refs; /* openreg_bo_free() calls still due; only if shared */
	struct openreg_bo *next; /* in the device's list */
};

struct trace {
	struct openreg_bo *ring; /* NULL before the first trace */
	struct openreg_bo *old; /* the ring before: packets before seq have records there */
	const struct openreg_trace_record *records;
	uint64_t mask; /* records - 1 */
	uint64_t seq; /* of the TRACE packet; records up to it are of older traces */
	uint64_t head; /* records consumed */
	uint64_t lost; /* the card's counter at the start */
};

struct openreg_queue {
	struct openreg_device *dev;
	struct transport_queue t;
	const volatile uint8_t *mine;
	uint64_t mask; /* slots - 1 */
	uint64_t tail; /* slots reserved */
	uint64_t published; /* the tail that the card can see */
	uint64_t head; /* last value read from the card's head counter */
	uint64_t seq; /* last packet begun */
	uint64_t submitted; /* last packet published */
	uint64_t rung; /* the card's wakes at the last doorbell write */
	uint64_t *slot_seq; /* for each slot: the packet in it */
	int64_t spin_ns; /* below 0: the default, which may end early */
	int64_t full_timeout_ns;
	uint64_t doorbells;
	uint64_t full_waits;
	uint64_t pads;
	uint64_t notes;
	uint64_t sleeps; /* atomic: any thread may wait */
	struct openreg_bo *staging; /* of synchronous copies; NULL before the first */
	struct trace trace;
	struct queue_timeline timeline;
	struct {
		struct openreg_queue *next; /* of this device */
		uint64_t seen; /* the last packet that the program saw completed */
		uint64_t seen_at; /* version of the device's checks when that rose */
		uint64_t told; /* version up to which this queue's card knows it */
		bool noting; /* the packet being pushed is a NOTE of the library */
	} check; /* only if the card checks */
};

/* Set the thread's error text, and return error, a negative errno value. */
int openreg_fail(int error, const char *format, ...) PRINTF(2, 3);

/* openreg_strerror() for calls without a queue: EIO is about the card. */
const char *openreg_card_strerror(int error);
/* The same for the first query of a device: EIO means that the card is wedged. */
const char *openreg_query_strerror(int error);

/* A byte that reads 1 in this process and 0 in its children; NULL: out of memory. */
const volatile uint8_t *openreg_process_mark(void);
int openreg_fail_forked(void);

/* Set the error text for a queue in this state, which is not RUNNING. */
int openreg_queue_fail(struct openreg_queue *q, uint32_t state);

struct openreg_bo *openreg_bo_new(struct openreg_device *dev, uint32_t flags);
void openreg_bo_delete(struct openreg_bo *bo);

/* Drop one reference. True: it was the last, and the handle is closed. */
bool openreg_bo_unshare(struct openreg_bo *bo);

/* openreg_queue_completed(), but a checking card does not count it as a wait. */
uint64_t openreg_queue_progress(const struct openreg_queue *q);

/* trace.c: for the queue's process only; openreg_queue_trace_*() are for programs */
int openreg_trace_start(struct openreg_queue *q, uint64_t records);
uint64_t openreg_trace_lost(const struct openreg_queue *q);
uint64_t openreg_trace_unread(const struct openreg_queue *q);
/* Takes unread records, oldest first, until take() returns false for one. */
void openreg_trace_each(struct openreg_queue *q,
			bool (*take)(void *opaque, const struct openreg_trace_record *r),
			void *opaque);

/* check.c; all but openreg_checks_init() need dev->checks */
bool openreg_checks_init(struct openreg_device *dev);
void openreg_checks_free(struct openreg_device *dev);
int openreg_checks_join(struct openreg_queue *q);
void openreg_checks_leave(struct openreg_queue *q);
void openreg_checks_seen(const struct openreg_queue *q, uint64_t seq);
int openreg_checks_tell(struct openreg_queue *q);
void openreg_checks_print(struct openreg_device *dev);

/* openreg_mem_register() without an error text. */
int openreg_bo_try_register(struct openreg_device *dev, void *ptr,
			    uint64_t size, uint32_t flags,
			    struct openreg_bo **out);

int64_t openreg_now_ns(void);

#endif
