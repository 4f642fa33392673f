/* SPDX-License-Identifier: MIT */
/* Vector clocks: how far a queue knows each other queue to be. */
#ifndef OPENREG_CHECK_CLOCK_H
#define OPENREG_CHECK_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* A packet of a queue: sequence number << 16 | its number in a LIST. */
typedef uint64_t epoch_t;
#define EPOCH(seq, in_list) ((uint64_t)(seq) << 16 | (in_list))
#define EPOCH_END(seq) EPOCH(seq, 0xffff) /* all packets of a LIST are done */

struct clock {
	unsigned int n;
	unsigned int room;
	struct tick {
		uint32_t serial; /* of a queue */
		epoch_t epoch; /* its packets up to this one are earlier */
	} *at; /* by serial */
};

epoch_t clock_get(const struct clock *c, uint32_t serial);
/* These return false if memory is short. */
bool clock_raise(struct clock *c, uint32_t serial, epoch_t epoch);
bool clock_join(struct clock *c, const struct clock *from);
bool clock_copy(struct clock *c, const struct clock *from);
void clock_free(struct clock *c);

#endif
