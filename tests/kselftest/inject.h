/* SPDX-License-Identifier: GPL-2.0-only */
/* A card with x-inject=on, made to lie; docs/specs/openreg.rst says how. */
#ifndef OPENREG_TEST_INJECT_H
#define OPENREG_TEST_INJECT_H

#include "card.h"

enum injection {
	INJECT_QUEUE,
	INJECT_HEAD,
	INJECT_COMPLETED,
	INJECT_STATE,
	INJECT_IRQ,
	INJECT_FAULT,
	INJECT_ADMIN,
	INJECT_STATUS,
	INJECT_OPCODE,
	INJECT_LATE,
	INJECT_STALL,
	INJECT_GONE,
	INJECT_REG,
	INJECT_REG_VALUE,
	INJECT_PERIOD,
	INJECT_END
};

#define IRQ_LOST 1
#define IRQ_SPURIOUS 2
#define FAULT_FLOOD 5
#define FAULT_WRONG_SEQ 6
#define COMPLETED_FLAPS 4
#define ADMIN_NEVER 1
#define ADMIN_NUMBER 2
#define ADMIN_TWICE 3
#define ADMIN_KEEPS 4
#define STALL_DEAF 1
#define STALL_TILL_RESET 2
#define STALL_TILL_FLR 3
#define STALL_TILL_STOP 4

/* All return 0 or -errno unless said otherwise. */
int inject_find(void); /* the card; once, while the driver has it */
int inject(enum injection which, __u32 value);
void inject_none(void);

int card_flr(void); /* by the bus */
int card_bind(void);
int card_unbind(void);
bool have_node(void);

/* Waits until nothing is left of anybody; false after 20 s. */
bool card_is_idle(void);
/* Puts everything right, by a reset of the bus; the same result. */
int card_recovers(void);

/* Also the card's number for the queue, or -errno. */
int queue_create_numbered(int fd, __u32 slots, struct queue *queue);
/* Interrupts of the driver so far, all vectors. */
unsigned long long interrupts(void);
/*
 * From now on an engine stands still in a copy of 1 MiB to system memory, as
 * INJECT_STALL has it with the value how; false if it does not.
 */
bool copy_stands_still(struct queue *queue, int number, __u32 how, __u64 dst,
		       __u64 src);

/* rounds of small packets, each waited for; 0 or -errno. */
int small_work(struct queue *queue, int rounds);
/* The same by another process, which opens the card first. */
int others_work(int rounds);

#endif
