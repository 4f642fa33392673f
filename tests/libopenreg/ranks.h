/* SPDX-License-Identifier: MIT */
/*
 * Processes that are the ranks of a communicator. On the kernel's cards, the even ranks
 * share the first card and the odd ranks the second.
 */
#ifndef RANKS_H
#define RANKS_H

#include <unistd.h>

#include <openreg_comm.h>

#include "harness.h"

#define RANKS 4
#define SLOT 65536
#define BYTES (8u << 20)

/* In a rank: a failure ends it with a message. */
#define must(cond)                                                             \
	do {                                                                   \
		if (!(cond)) {                                                 \
			fprintf(stderr, "rank %u: %s:%d: %s: %s %s\n", me.rank, \
				__FILE__, __LINE__, #cond,                     \
				openreg_comm_last_error(), openreg_last_error()); \
			_exit(1);                                              \
		}                                                              \
	} while (0)

extern struct rank {
	uint32_t rank, size;
	struct card c;
	struct openreg_comm *comm;
	struct openreg_bo *bo; /* BYTES of memory for the test */
	uint64_t at;
	uint8_t *p;
} me;

typedef void rank_fn(void);

int64_t now(void);
struct openreg_comm_attr attributes(void);
int create(const struct openreg_comm_attr *attr);
extern unsigned int number; /* of the communicator, in the name that attributes() gives */

/* Runs f in a new process. */
pid_t start(uint32_t rank, uint32_t size, rank_fn *f, bool join);
/* Runs f on all ranks, which must all succeed; join: in a communicator. */
void run_ranks(uint32_t size, rank_fn *f, bool join);
/* Runs f on all ranks, without a communicator. All but the victim must succeed. */
void run_failing(uint32_t size, rank_fn *f, uint32_t victim);
void finish(int64_t seq);
/* Adds count F32 of all ranks, in place. */
int64_t sum(uint64_t count);

/* True if the last error contains part; else prints it. */
bool says(const char *part);
/* Waiting for the all_reduce fails, and all later calls too, for the same reason. */
void broken(int64_t seq, int error, const char *text);

/* cmocka set-up and tear-down of the group: the directory of the store. */
int make_dir(void **state);
int remove_dir(void **state);

#endif
