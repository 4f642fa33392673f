/* SPDX-License-Identifier: MIT */
/*
 * Messages between ranks. Each pair of ranks has CHANNELS channels in each direction. A
 * channel has SLOTS slots in the receiver's pool, a word that counts the messages sent (in
 * the receiver's pool), and a word that counts the messages taken (in the sender's pool).
 * Only one rank writes each word, and only raises it.
 *
 * Both ranks of a channel count its messages when they queue the packets. As all ranks
 * queue the same collectives in the same order, these counts agree.
 */
#ifndef OPENREG_COMM_INTERNAL_H
#define OPENREG_COMM_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "openreg_comm.h"

#define API __attribute__((visibility("default")))
#define PRINTF(a, b) __attribute__((format(printf, a, b)))

/* Channel 0 is for all messages, channel 1 for the results of an all_reduce. */
#define CHANNELS 2
#define SLOTS 2 /* of a channel */
#define RECORDS 256 /* collectives remembered for error texts */
#define WORD_BYTES 64 /* a cache line for each word */
#define TEXT_MAX 400

/* Offsets in a pool. */
#define POOL_SENT(from, ch) (((uint64_t)(from) * CHANNELS + (ch)) * 2 * WORD_BYTES)
#define POOL_TAKEN(to, ch) (POOL_SENT(to, ch) + WORD_BYTES)
#define POOL_SLOTS 4096

struct peer {
	int sock; /* to this rank; -1 for the own rank */
	struct openreg_bo *bo; /* its pool */
	uint64_t pool; /* its address here */
	uint64_t sent[CHANNELS]; /* messages queued to this rank */
	uint64_t received[CHANNELS]; /* messages queued from it */
};

struct record {
	const char *name;
	uint64_t number; /* counts collectives */
	uint64_t last; /* sequence number of its last packet */
	uint64_t from[OPENREG_COMM_RANKS_MAX][CHANNELS]; /* messages before it */
};

struct openreg_comm {
	struct openreg_device *dev;
	struct openreg_queue *queue; /* NULL: broken */
	uint32_t rank, size;
	int64_t timeout_ns;
	uint64_t slot_bytes, one_shot_bytes;
	struct openreg_bo *pool;
	uint64_t pool_at;
	const volatile uint64_t *words; /* the pool, mapped */
	struct peer peers[OPENREG_COMM_RANKS_MAX];
	struct record records[RECORDS];
	uint64_t collectives;
	int error; /* of a broken communicator, and its text */
	char text[TEXT_MAX];
};

/* error.c */
int comm_fail(int error, const char *format, ...) PRINTF(2, 3);
/* Adds the text of libopenreg's last failure. */
int comm_fail_card(int error, const char *what);

/* connect.c: makes comm->peers; deadline is a time of CLOCK_MONOTONIC. */
int comm_connect(struct openreg_comm *comm, const char *name,
		 const struct openreg_comm_store *store, int fd, int64_t deadline);
int64_t comm_now(void);

/* socket.c */
struct hello {
	uint64_t magic;
	uint8_t token[16];
	uint32_t rank, size;
	uint64_t slot_bytes, one_shot_bytes;
};
int sock_listen(char *path, size_t len);
int sock_connect(const char *path);
int sock_accept(int listener, int64_t deadline);
/* fd -1: none. */
int sock_send(int sock, const void *buf, size_t len, int fd);
/* 0, -ETIME, or -ECONNRESET; *fd is -1 if none came. */
int sock_recv(int sock, void *buf, size_t len, int *fd, int64_t deadline);

/* message.c: push packets. Return 0 or -errno. */
int push_send(struct openreg_comm *comm, uint32_t to, unsigned int ch, uint64_t src,
	      uint64_t bytes);
/* Waits for a message; *at becomes its address. push_taken() releases the slot. */
int push_receive(struct openreg_comm *comm, uint32_t from, unsigned int ch, uint64_t *at);
int push_taken(struct openreg_comm *comm, uint32_t from, unsigned int ch);
int push_copy(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t bytes);
/* dst = the parts of all ranks, reduced in the order of the ranks. */
int push_reduce(struct openreg_comm *comm, uint64_t dst, const uint64_t *parts,
		uint64_t count, enum openreg_dtype dtype, enum openreg_comm_op op);

/* wait.c */
/* Gives the communicator up, and tells the other ranks. Returns error, with the text. */
int comm_break(struct openreg_comm *comm, int error, const char *text);
/* A push has failed: finds out which rank is to blame. Returns an error. */
int comm_break_push(struct openreg_comm *comm, int error);

#endif
