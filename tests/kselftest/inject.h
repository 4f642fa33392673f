/* SPDX-License-Identifier: GPL-2.0-only */
/* Makes a card with x-inject=on lie, as docs/specs/openreg.rst describes. */
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

/* Functions that return an int return 0 or -errno, except as noted. */
int inject_find(void); /* finds the card; call it once, while the driver is bound */
int inject(enum injection which, __u32 value);
void inject_none(void);

int card_flr(void); /* resets the card by the bus */
int card_bind(void);
int card_unbind(void);
bool have_node(void);

/* Waits until the card has no contexts and no objects. Returns false after 20 s. */
bool card_is_idle(void);
/* Ends all lies and resets the card by the bus. Fails if the card does not work then. */
int card_recovers(void);

/* Creates a queue. Returns its number on the card, or -errno. */
int queue_create_numbered(int fd, __u32 slots, struct queue *queue);
/* Number of interrupts that the driver has got so far, over all vectors. */
unsigned long long interrupts(void);
/*
 * Makes an engine stall in a copy of 1 MiB to system memory, by INJECT_STALL with the
 * value how. Returns false if the engine does not stall.
 */
bool copy_stalls(struct queue *queue, int number, __u32 how, __u64 dst,
		 __u64 src);

/* Runs small packets one by one, as many as rounds. */
int small_work(struct queue *queue, int rounds);
/* As small_work(), in another process that opens the card itself. */
int others_work(int rounds);

#endif
