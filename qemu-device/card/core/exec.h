/* SPDX-License-Identifier: MIT */
/* Packets: decoding and running them. */
#ifndef OPENREG_CORE_EXEC_H
#define OPENREG_CORE_EXEC_H

#include "job/args.h"

#define OPENREG_DECIDE_NS 2000000ULL /* longest time between two scheduling decisions */
#define OPENREG_TURN_NS 250000ULL /* after this time a turn begins no further packet */
#define OPENREG_MAX_WORK_LOG2 36
#define OPENREG_CONTEXT_MEMORY (256u << 20) /* a context's jobs, or one larger job */

struct queue;
struct worker;

/* decode.c */
/* Bit n: the card has packet opcode n. Only a card that checks has NOTE. */
uint64_t decode_packets(bool checks);
struct openreg_verdict decode_header(const struct openreg_packet *header);
struct openreg_verdict decode_body(const uint8_t *packet,
				   struct openreg_args *args);

enum step {
	STEP_DONE, /* one packet done */
	STEP_EMPTY,
	STEP_WAIT, /* the packet starts again from its fetch, later */
	STEP_FAULT,
	STEP_BUSY, /* the workers or the copy thread continue the packet */
};

/* address.c */
struct openreg_verdict exec_check(struct queue *q);

/* exec.c */
void exec_turn(struct worker *w, struct queue *q);
void exec_slice(struct worker *w, struct queue *q, uint32_t slice);
void exec_copy(struct worker *w, struct queue *q);
bool exec_finish(struct worker *w, struct queue *q);
void exec_abort(struct worker *w, struct queue *q);

/* list.c */
struct openreg_verdict list_check(struct openreg_args *args);
struct openreg_verdict list_begin(struct queue *q, const uint8_t *packet);
struct openreg_verdict list_fetch(struct queue *q, const uint8_t **packet);
bool list_next(struct queue *q);
void list_end(struct queue *q);
void list_cover(struct openreg_args *args, uint64_t words);

/* trace.c */
struct openreg_verdict trace_check(struct openreg_args *args);
enum step trace_exec(struct worker *w, struct queue *q);

/* peer.c */
struct openreg_verdict peer_read(struct queue *q);
void peer_free(struct queue *q);

/* sync.c */
struct openreg_verdict sync_check(struct openreg_args *args);
enum step sync_exec(struct queue *q, struct openreg_verdict *v);
bool sync_is_met(unsigned int mode, uint64_t word, uint64_t value);

#endif
