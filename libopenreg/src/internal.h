/* SPDX-License-Identifier: MIT */
#ifndef OPENREG_INTERNAL_H
#define OPENREG_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "openreg.h"
#include "transport.h"

#define API __attribute__((visibility("default")))
#define PRINTF(a, b) __attribute__((format(printf, a, b)))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

struct openreg_device {
	const struct transport_ops *ops;
	struct transport *t;
	struct openreg_device_info info;
	const volatile uint8_t *mine; /* 0 in a child of fork() */
	pthread_mutex_t shared_lock; /* of the list, and of what is in it */
	struct openreg_bo *shared; /* exported, or imported */
};

struct openreg_bo {
	struct openreg_device *dev;
	struct transport_bo t;
	uint32_t flags;
	pthread_mutex_t lock; /* of ptr */
	void *ptr; /* mapped, or registered */
	bool shared; /* in the device's list, from then on */
	unsigned int refs; /* times that it was given out, if so */
	struct openreg_bo *next;
};

struct openreg_queue {
	struct openreg_device *dev;
	struct transport_queue t;
	const volatile uint8_t *mine;
	uint64_t mask; /* slots - 1 */
	uint64_t tail; /* slots reserved */
	uint64_t published; /* slots the card was told of */
	uint64_t head; /* slots the card had read when last looked */
	uint64_t seq; /* last packet begun */
	uint64_t submitted; /* last packet published */
	uint64_t rung; /* card's wakes when the doorbell was last rung */
	uint64_t *slot_seq; /* packet that stands in each slot */
	int64_t spin_ns; /* below 0: the default, for as long as it pays */
	int64_t full_timeout_ns;
	uint64_t doorbells;
	uint64_t full_waits;
	uint64_t pads;
	uint64_t sleeps; /* atomic: any thread waits */
	struct openreg_bo *staging;
};

/* Sets the thread's error text and returns error, which is negative. */
int openreg_fail(int error, const char *format, ...) PRINTF(2, 3);

/* openreg_strerror() of -errno for calls that have no queue. */
const char *openreg_card_strerror(int error);
/* The same for the first that a device is asked: it was not open before. */
const char *openreg_query_strerror(int error);

/* A byte that reads 1 here and 0 in every child; NULL without memory. */
const volatile uint8_t *openreg_process_mark(void);
int openreg_fail_forked(void);

/* Says why a queue that does not run does not. */
int openreg_queue_fail(struct openreg_queue *q, uint32_t state);

struct openreg_bo *openreg_bo_new(struct openreg_device *dev, uint32_t flags);
void openreg_bo_delete(struct openreg_bo *bo);

/* One less has it; true if that was the last, and its handle is closed. */
bool openreg_bo_unshare(struct openreg_bo *bo);

/* openreg_mem_register() that sets no error text. */
int openreg_bo_try_register(struct openreg_device *dev, void *ptr,
			    uint64_t size, uint32_t flags,
			    struct openreg_bo **out);

int64_t openreg_now_ns(void);

#endif
