/* SPDX-License-Identifier: MIT */
/* Decodes and checks a packet, and compares the result with the manual's promises. */
#ifndef FUZZ_DECODE_H
#define FUZZ_DECODE_H

#include "packet.h"
#include "stepper.h"

/*
 * True: the packet would run, and the queue holds references on its operands. Aborts if
 * the card accepted a bad operand or returned an impossible verdict.
 */
bool decode(struct queue *q, const struct packet *p);
/* Aborts if any segment of the context is still referenced. */
void decode_check_rest(const struct queue *q);

#endif
