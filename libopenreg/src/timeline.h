/* SPDX-License-Identifier: MIT */
/*
 * The timeline of a process (OPENREG_TRACE): a file of events that openreg-trace reads.
 * libopenreg/trace/timeline.py has the same format.
 */
#ifndef TIMELINE_H
#define TIMELINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "openreg.h"
#include "openreg_timeline.h"

#define TIMELINE_ENV "OPENREG_TRACE"
#define TIMELINE_MAGIC 0x3130656d69746f72ULL /* "rotime01" */
#define TIMELINE_HEADER 4096 /* bytes before the first event */

/* Times are those of CLOCK_MONOTONIC, in nanoseconds. */
struct timeline_header {
	uint64_t magic;
	uint32_t pid;
	uint32_t error; /* errno value of what ended the recording; 0: none */
	uint64_t dropped; /* events after that */
	uint64_t begin;
	uint64_t end; /* 0: the process ended without its exit handlers */
	char program[64];
};

/* One slot of the file. The events with text or a record have more slots behind them. */
struct timeline_event {
	uint64_t time;
	uint64_t value;
	uint32_t ns; /* duration, or the length of the text */
	uint32_t id;
	uint32_t thread;
	uint16_t kind; /* stored last; 0: the end of the file */
	uint16_t more; /* slots of this event after the first one */
};

enum timeline_kind {
	TIMELINE_END, /* of the file */
	TIMELINE_PAD,
	TIMELINE_THREAD, /* text: name of the thread */
	TIMELINE_NAME, /* id: number of the name; text */
	TIMELINE_COOKIE, /* id: cookie; value: number of the name */
	TIMELINE_DEVICE, /* id: device; text: path; value: 1 if the card is in this process */
	TIMELINE_QUEUE, /* id: queue; value: device | number << 32 */
	TIMELINE_CLOCK, /* id: device; value: CLOCK, read in ns from time on */
	TIMELINE_RANGE_BEGIN, /* id: number of the name */
	TIMELINE_RANGE_END,
	TIMELINE_WAIT_BEGIN, /* id: queue; value: packet */
	TIMELINE_SLEEP_BEGIN, /* the same; the thread calls the kernel */
	TIMELINE_FULL_BEGIN, /* id: queue; the thread waits for room in the ring */
	TIMELINE_CALL_END, /* of the last of these three; value: -result */
	TIMELINE_SUBMIT, /* id: queue; value: last packet; ns */
	TIMELINE_DOORBELL, /* id: queue; ns */
	TIMELINE_RECORD, /* id: queue; a record of the card; time: when it was read */
	TIMELINE_LOST, /* id: queue; value: records that the card dropped so far */
	TIMELINE_FAULT, /* id: queue; value: packet; text */
	TIMELINE_RESET, /* id: queue; value: last packet */
	TIMELINE_UNTRACED, /* id: queue; text: why there are no records */
	TIMELINE_QUEUE_END, /* id: queue; value: last packet */
	TIMELINE_BUSY, /* id: queue; value: the card's busy_ns */
};

struct device_timeline {
	bool on;
	uint32_t id;
	int64_t clock_at; /* time of the last TIMELINE_CLOCK */
	struct openreg_device *next;
};

struct queue_timeline {
	bool on;
	bool kept; /* records between from and until are for the program */
	uint32_t id;
	pthread_mutex_t lock; /* protects the trace of the queue, and these fields */
	uint64_t from; /* the program's trace is of the packets after this one */
	uint64_t until; /* up to this one */
	uint64_t program_lost; /* lost records when the program's trace began */
	uint64_t lost; /* the last TIMELINE_LOST */
	uint64_t faulted; /* the last TIMELINE_FAULT */
	struct openreg_queue *next;
};

/* OPENREG_TRACE is set. */
extern bool openreg_timeline_wanted;

void openreg_timeline_device_opened(struct openreg_device *dev);
void openreg_timeline_device_closes(struct openreg_device *dev);
int openreg_timeline_queue_created(struct openreg_queue *q);
void openreg_timeline_queue_ends(struct openreg_queue *q);

/* All others need q->timeline.on; a child of fork() may call them. */
void openreg_timeline_span(struct openreg_queue *q, enum timeline_kind kind, uint64_t value,
			   int64_t begin);
void openreg_timeline_begin_call(struct openreg_queue *q, enum timeline_kind kind,
				 uint64_t seq);
void openreg_timeline_end_call(struct openreg_queue *q, int result);
void openreg_timeline_submitted(struct openreg_queue *q, int64_t begin);
void openreg_timeline_waited(struct openreg_queue *q);
void openreg_timeline_fault(struct openreg_queue *q);
void openreg_timeline_reset(struct openreg_queue *q);
int openreg_timeline_trace_start(struct openreg_queue *q, uint64_t records);
int openreg_timeline_trace_stop(struct openreg_queue *q);
int64_t openreg_timeline_trace_read(struct openreg_queue *q,
				    struct openreg_trace_record *records, size_t n,
				    uint64_t *lost);

/* timeline_file.c: write events; nothing if this process has no file */
struct timeline;
struct timeline *openreg_timeline(void);
void openreg_timeline_put(enum timeline_kind kind, uint32_t id, uint64_t value,
			  int64_t time, uint32_t ns);
void openreg_timeline_put_bytes(enum timeline_kind kind, uint32_t id, uint64_t value,
				const void *bytes, size_t len);
uint32_t openreg_timeline_number(void);
void openreg_timeline_close(void);
uint32_t openreg_timeline_ns(int64_t begin, int64_t end);

#endif
