/* SPDX-License-Identifier: MIT */
/* A packet decoded and checked, held against what the manual promises. */
#ifndef FUZZ_DECODE_H
#define FUZZ_DECODE_H

#include "packet.h"
#include "stepper.h"

/*
 * true: the packet is one that runs, and its operands are referenced. Aborts
 * if the card let an operand pass that it must not, or gave a verdict that is
 * none.
 */
bool decode(struct queue *q, const struct packet *p);
/* No segment of the context may be referenced. */
void decode_check_rest(const struct queue *q);

#endif
