/* SPDX-License-Identifier: MIT */
/*
 * Messages between ranks. Each pair of ranks has CHANNELS channels in each direction. A
 * channel has SLOTS slots in the receiver's pool, a word for each slot (in the receiver's
 * pool) with the number and the signature of the message in it, and a word that counts the
 * messages taken (in the sender's pool). Only one rank writes each word, and only raises it.
 *
 * Both ranks of a channel count its messages when they queue the packets. As all ranks
 * queue the same collectives in the same order, these counts agree.
 */
#ifndef OPENREG_COMM_INTERNAL_H
#define OPENREG_COMM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
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
#define FDS 2 /* of a message */

/* Offsets in a pool. */
#define POOL_CHANNEL(rank, ch) (((uint64_t)(rank) * CHANNELS + (ch)) * 2 * WORD_BYTES)
#define POOL_SENT(from, ch, message) (POOL_CHANNEL(from, ch) + (message) % SLOTS * 8)
#define POOL_TAKEN(to, ch) (POOL_CHANNEL(to, ch) + WORD_BYTES)
#define POOL_SIGNAL(from) (POOL_SENT(from, 0, 0) + SLOTS * 8) /* counts signals */
#define POOL_SLOTS 4096

/* A word of a slot: the number of the message, from 1, above its signature. */
#define SIGNATURE_BITS 24

/* ---- what each rank calls: shared memory that the other ranks read -------- */

enum call_kind {
	CALL_ALL_REDUCE,
	CALL_REDUCE,
	CALL_REDUCE_SCATTER,
	CALL_BROADCAST,
	CALL_ALL_GATHER,
	CALL_GATHER,
	CALL_SCATTER,
	CALL_ALL_TO_ALL,
	CALL_BARRIER,
	CALL_SPLIT,
	CALL_WINDOW,
	CALL_SHARE,
	CALL_SEND, /* these are no collectives */
	CALL_RECV,
	CALL_GROUP,
	CALL_PUT,
	CALL_SIGNAL,
	CALL_WAIT_SIGNAL
};

struct call {
	_Atomic uint64_t number; /* of the collective; stored last */
	uint32_t kind, dtype, op, root;
	uint64_t count;
	uint64_t counts[OPENREG_COMM_RANKS_MAX];
	uint64_t sends[OPENREG_COMM_RANKS_MAX]; /* of all_to_all; counts: receives */
};

#define MESSAGES 64
#define DIRECTIONS 2
enum direction { SENT, TAKEN };

struct message {
	_Atomic uint64_t number; /* counts the calls between two ranks; stored last */
	uint64_t count, dtype;
	uint64_t before; /* collectives before it */
};

struct board {
	_Atomic uint64_t collectives;
	struct call calls[RECORDS];
	struct message messages[OPENREG_COMM_RANKS_MAX][DIRECTIONS][MESSAGES];
};

/* ---- a communicator ------------------------------------------------------ */

/* What ranks tell each other over their socket. */
enum note_kind {
	NOTE_GIVE_UP = 1, NOTE_COLOR, NOTE_VALUE, NOTE_WINDOW, NOTE_MET, NOTE_SHARE
};
#define NOTE_MAGIC 0x70752d6576696721ull

struct note {
	uint64_t magic, kind;
	uint64_t number; /* of the collective; of a rank that gives up: its last complete one */
	int32_t error; /* of the rank that gives up */
	int32_t color, key;
	char text[TEXT_MAX]; /* why it gives up, or the value */
	struct note *next; /* of this process, like fds */
	int fds[FDS]; /* that came with it, or -1 */
};

struct window {
	struct openreg_bo *bo;
	uint64_t at; /* its address here */
	uint64_t bytes;
};

struct peer {
	int sock; /* to this rank; -1 for the own rank */
	int process; /* of this rank, or -1 */
	struct openreg_bo *bo; /* its pool */
	uint64_t pool; /* its address here */
	const struct board *board;
	uint64_t sent[CHANNELS]; /* messages queued to this rank */
	uint64_t received[CHANNELS]; /* messages queued from it */
	uint64_t compared; /* its collectives up to this one are compared with ours */
	uint64_t calls[DIRECTIONS]; /* sends to this rank, and receives from it */
	uint64_t compared_calls[DIRECTIONS];
	struct note *notes; /* not taken yet */
	struct window window;
	uint64_t signals_sent, signals_taken; /* to this rank, and from it */
	bool met; /* it has imported all pools */
	bool ended; /* its process has closed the socket, or has ended */
	int gave_up; /* the error with which it gave the communicator up, or 0 */
	uint64_t completed; /* collectives that it completed before it gave up */
	char why[TEXT_MAX]; /* it gave up */
};

struct record {
	enum call_kind kind;
	uint64_t call; /* counts all calls */
	uint64_t number; /* counts collectives, or other calls */
	int64_t began; /* time of CLOCK_MONOTONIC */
	uint64_t last; /* sequence number of its last packet */
	uint64_t root, count; /* of the call */
	uint64_t from[OPENREG_COMM_RANKS_MAX][CHANNELS]; /* messages before it */
	uint64_t to[OPENREG_COMM_RANKS_MAX][CHANNELS]; /* the same, sent */
};

/* What a rank sends to another rank in an exchange, or receives from it. */
struct range {
	uint64_t at, left; /* bytes */
	uint64_t signature;
	uint32_t next; /* number of the next range of the stream */
};

struct stream {
	uint32_t first, last; /* numbers of ranges, from 1; 0: none */
};

struct exchange {
	struct range *ranges;
	uint32_t num, room;
	struct stream sends[OPENREG_COMM_RANKS_MAX];
	struct stream receives[OPENREG_COMM_RANKS_MAX];
};

/*
 * busy: a thread is in a call that pushes packets; only this thread may use the queue.
 * waiters: threads that wait for packets. The queue of a broken communicator is destroyed
 * when neither is left. lock guards the rest.
 */
struct openreg_comm {
	struct openreg_device *dev;
	struct openreg_queue *queue; /* NULL: broken */
	uint32_t rank, size;
	int64_t timeout_ns;
	uint64_t slot_bytes, one_shot_bytes;
	int32_t priority; /* of the queue */
	const volatile uint8_t *mine; /* 0 in a child of fork() */
	atomic_int busy, waiters;
	uint64_t pushed, most; /* packets that may be in the ring */
	unsigned int group; /* depth */
	double factor; /* of PREMUL_SUM */
	uint64_t signature; /* of the messages that are pushed */
	struct exchange exchange;
	pthread_mutex_t lock;
	struct openreg_bo *pool;
	uint64_t pool_at;
	const volatile uint64_t *words; /* the pool, mapped */
	struct board *board;
	int board_fd;
	struct peer peers[OPENREG_COMM_RANKS_MAX];
	struct record records[RECORDS];
	uint64_t calls, collectives;
	atomic_int error; /* of a broken communicator, and its text */
	char text[TEXT_MAX];
};

static inline uint64_t pool_word(const struct openreg_comm *comm, uint64_t off)
{
	return comm->words[off / 8];
}

/* error.c */
int comm_fail(int error, const char *format, ...) PRINTF(2, 3);
/* Adds the text of libopenreg's last failure. */
int comm_fail_card(int error, const char *format, ...) PRINTF(2, 3);
/* strerror(), and what to do if the process has too many open files. */
const char *comm_strerror(int error);

/* connect.c: makes comm->peers; deadline is a time of CLOCK_MONOTONIC. */
int comm_connect(struct openreg_comm *comm, const char *name,
		 const struct openreg_comm_store *store, const int *fds, int64_t deadline);
int64_t comm_now(void);

/* socket.c */
struct hello {
	uint64_t magic;
	uint8_t token[16];
	uint32_t rank, size;
	uint64_t slot_bytes, one_shot_bytes;
	int32_t error; /* not 0: the rank gives up, and text says why */
	char text[TEXT_MAX];
};
int sock_listen(char *path, size_t len);
int sock_connect(const char *path, int64_t deadline);
int sock_accept(int listener, int64_t deadline);
/* fds NULL: none. */
int sock_send(int sock, const void *buf, size_t len, const int *fds);
/*
 * 0, -ETIME, -ECONNRESET, or -EMFILE: buf is complete, but this process had no room for all
 * descriptors. fds are -1 if none came; fds NULL: none are wanted.
 */
int sock_recv(int sock, void *buf, size_t len, int *fds, int64_t deadline);
void sock_close_all(const int *fds);
/* A descriptor of the process at the other end, or a negative error. */
int sock_open_process(int sock);
bool sock_process_ended(int process);

/* call.c: the checks return 0 or -EINVAL. */
int call_check(const struct openreg_comm *comm, enum openreg_dtype dtype, uint64_t count);
int call_check_rank(const struct openreg_comm *comm, uint32_t rank);
int call_check_counts(const struct openreg_comm *comm, const uint64_t *counts,
		      enum openreg_dtype dtype, uint64_t *copy);
/* A call that queues packets is between these two: no other thread may make one. */
int call_enter(struct openreg_comm *comm);
void call_leave(struct openreg_comm *comm);
/* The same, for a call that all ranks make. It pushes its packets in between. */
int call_begin(struct openreg_comm *comm, const struct call *call);
int64_t call_end(struct openreg_comm *comm, int ret);
/* The parts of these two for a call inside another one. */
int call_record(struct openreg_comm *comm, const struct call *call);
int64_t call_submit(struct openreg_comm *comm, int ret);

/* board.c */
const char *call_name(enum call_kind kind);
int board_create(struct openreg_comm *comm);
void board_free(struct openreg_comm *comm);
int board_import(struct openreg_comm *comm, uint32_t rank, int fd);
void board_call(struct openreg_comm *comm, const struct call *call);
void board_message(struct openreg_comm *comm, uint32_t rank, enum direction dir,
		   uint64_t count, enum openreg_dtype dtype);
/* True if a rank has made another call than this rank; text says what differs. */
bool board_differs(struct openreg_comm *comm, char *text);

/* signature.c */
uint64_t sign_call(const struct openreg_comm *comm, const struct call *call);
uint64_t sign_message(uint64_t count, enum openreg_dtype dtype);
uint64_t sent_word(const struct openreg_comm *comm, uint64_t message, uint64_t bytes);

struct reduction {
	enum openreg_dtype dtype;
	enum openreg_comm_op op;
};

/* message.c: push packets. Return 0 or -errno. */
uint64_t pool_slot(const struct openreg_comm *comm, uint64_t pool, uint32_t from,
		   unsigned int ch, uint64_t message);
int push_send(struct openreg_comm *comm, uint32_t to, unsigned int ch, uint64_t src,
	      uint64_t bytes);
/*
 * Waits for a message of that size; *at becomes its address. push_taken() releases the
 * slot.
 */
int push_receive(struct openreg_comm *comm, uint32_t from, unsigned int ch, uint64_t bytes,
		 uint64_t *at);
int push_taken(struct openreg_comm *comm, uint32_t from, unsigned int ch);
int push_copy(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t bytes);
int push_wait(struct openreg_comm *comm, uint64_t word, enum openreg_wait how,
	      uint64_t value);
int push_signal(struct openreg_comm *comm, uint64_t word, uint64_t value);

/* sum.c: push the packets of a reduction. */
/* dst = the parts of all ranks, reduced in the order of the ranks. */
int push_reduce(struct openreg_comm *comm, uint64_t dst, const uint64_t *parts,
		uint64_t count, const struct reduction *red);
/* dst = src times the factor of PREMUL_SUM */
int push_scale(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t count,
	       const struct reduction *red);

/* parts.c: a range of elements for each rank, in pieces that fit a slot. */
struct parts {
	uint64_t begin[OPENREG_COMM_RANKS_MAX + 1];
	uint64_t piece; /* elements */
	uint64_t esize;
	uint64_t num; /* pieces of the longest range */
};
void make_parts(const struct openreg_comm *comm, struct parts *p, const uint64_t *counts,
		unsigned int esize);
void make_shards(const struct openreg_comm *comm, struct parts *p, uint64_t count,
		 unsigned int esize);
uint64_t part_at(const struct parts *p, uint64_t base, uint32_t rank, uint64_t piece);
/* Elements of a piece; 0: this range has fewer pieces. */
uint64_t part_length(const struct parts *p, uint32_t rank, uint64_t piece);
int send_all(struct openreg_comm *comm, unsigned int ch, uint64_t src, uint64_t bytes);
/* Sends the own piece of the range that begins at own, to all. */
int send_own(struct openreg_comm *comm, const struct parts *p, unsigned int ch,
	     uint64_t own, uint64_t piece);
int take_one(struct openreg_comm *comm, uint32_t from, unsigned int ch, uint64_t dst,
	     uint64_t bytes);
int take_all(struct openreg_comm *comm, const struct parts *p, unsigned int ch,
	     uint64_t dst, uint64_t piece);

/* Calls f for all other ranks, beginning with the next one. */
#define for_peers(comm, r)                                                     \
	for (uint32_t r##_ = 1, r; r##_ < (comm)->size &&                      \
	     (r = ((comm)->rank + r##_) % (comm)->size, true); r##_++)

/* exchange.c */
void exchange_free(struct openreg_comm *comm);
/* Runs the sends and receives of a group that have not run. */
int exchange_flush(struct openreg_comm *comm);

/* split.c */
void notes_free(struct openreg_comm *comm);
/* fds NULL: none. */
int comm_send_note(struct openreg_comm *comm, uint32_t rank, const struct note *note,
		   const int *fds);
/* 0, -ETIME, or the error of a broken communicator. The caller closes note->fds. */
int comm_wait_note(struct openreg_comm *comm, uint32_t rank, enum note_kind kind,
		   uint64_t number, int64_t deadline, struct note *note);

/* share.c */
/* As comm_send_note(), to all other ranks. An error breaks the communicator. */
int comm_send_all(struct openreg_comm *comm, const struct note *note, const int *fds,
		  const char *what);
/* As comm_wait_note(). Breaks the communicator if the rank is late. */
int comm_take_note(struct openreg_comm *comm, uint32_t rank, enum note_kind kind,
		   const char *what, int64_t deadline, struct note *note);

/* window.c */
void window_free(struct openreg_comm *comm);

/* wait.c */
/* Before each push: waits until the ring has room. */
int comm_room(struct openreg_comm *comm);
/* The caller is between call_enter() and call_leave(), or a waiter. */
int comm_wait_for(struct openreg_comm *comm, uint64_t seq, int64_t timeout_ns);
int comm_fail_broken(const struct openreg_comm *comm);
int comm_fail_forked(void);
/* A call has failed: finds out which rank is to blame. Returns an error. */
int comm_break_call(struct openreg_comm *comm, int error);

/* break.c: the caller holds the lock, except for comm_stop() and comm_break_with(). */
/* Breaks the communicator, and tells the other ranks. Returns the error, with the text. */
int comm_break(struct openreg_comm *comm, int error, const char *text);
/* The same, for a caller without the lock. */
int comm_break_with(struct openreg_comm *comm, int error, const char *text);
/* Compares what the ranks call, and looks which of them have ended. 0 or an error. */
int comm_look(struct openreg_comm *comm);
/* waited_ns: how long the caller has waited; for the text, if all calls have completed. */
int comm_break_late(struct openreg_comm *comm, int64_t waited_ns);
int comm_break_fault(struct openreg_comm *comm, int error);
/* Destroys the queue of a broken communicator when no thread uses it. */
void comm_stop(struct openreg_comm *comm);

#endif
