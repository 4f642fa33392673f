/* SPDX-License-Identifier: MIT */
/*
 * openreg-comm: collectives among processes that have a card each, on one machine.
 *
 * A communicator has a rank for each process. Its packets copy into the memory of the
 * other ranks' cards and wait for words in it: once a collective is queued, no thread of
 * the program is on its path.
 *
 * - All ranks call the same collectives in the same order, with the same counts, dtypes
 *   and roots. Each call queues packets and returns the sequence number to wait for.
 * - The memory is OPENREG_BO_VRAM memory of the communicator's device.
 * - A collective that uses memory which other queues write must wait for them: push a
 *   WAIT to openreg_comm_queue() first, or wait in the program.
 * - One thread at a time may queue collectives: a second one gets EBUSY. Other threads may
 *   call the functions marked [any thread]. A child of fork() gets EPERM.
 *
 * Results: 0 or a positive result, or a negative errno value. openreg_comm_last_error()
 * then says what to do. After a failed wait the communicator is broken: every later call
 * fails in the same way; destroy it and create a new one.
 */
#ifndef OPENREG_COMM_H
#define OPENREG_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "openreg.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define OPENREG_COMM_RANKS_MAX 15

struct openreg_comm;

/* The last failure of the calling thread, as a sentence. "" if no call has failed. */
const char *openreg_comm_last_error(void);

/* ---- making a communicator --------------------------------------------- */

/*
 * A key-value store that all ranks reach; the ranks find each other through it. Keys are
 * short strings of letters, digits, '-' and '.'.
 *
 * - set returns 0 or -errno.
 * - get waits until the key exists, for at most timeout_ns. It writes at most len bytes
 *   and returns the length of the value, or -errno: -ETIME if the key has not come.
 */
struct openreg_comm_store {
	int (*set)(void *opaque, const char *key, const void *value, size_t len);
	int64_t (*get)(void *opaque, const char *key, void *value, size_t len,
		       int64_t timeout_ns);
	void *opaque;
};

/* A store in an existing directory, which the ranks share. The path must stay valid. */
struct openreg_comm_store openreg_comm_directory(const char *path);

struct openreg_comm_attr {
	uint32_t rank;
	uint32_t size; /* number of ranks, 1 to OPENREG_COMM_RANKS_MAX */
	const char *name; /* unique in the store, at most 100 characters */
	int64_t timeout_ns; /* for creating and for each wait; 0: 30 s */
	uint64_t slot_bytes; /* the pieces of large collectives; 0: 1 MiB */
	uint64_t one_shot_bytes; /* an all_reduce up to this size takes one step; 0: 64 KiB */
	int32_t priority; /* of the queue: see struct openreg_queue_attr */
	uint32_t zero;
	uint64_t reserved[3]; /* zero */
};

/*
 * Create a communicator; all ranks call this. It takes 4 * slot_bytes of VRAM for each
 * rank, which the other ranks can write.
 *
 * Errors:
 *
 * - EINVAL: bad attributes
 * - EMFILE: too many open files
 * - ETIME: a rank has not come in time; the text names it
 * - EHOSTUNREACH: a rank is on another machine
 * - EPROTO: a rank has another version or other attributes
 * - and those of openreg_bo_alloc(), openreg_bo_export() and openreg_queue_create()
 */
int openreg_comm_create(struct openreg_device *dev, const struct openreg_comm_attr *attr,
			const struct openreg_comm_store *store,
			struct openreg_comm **comm);

/*
 * Create a communicator for each color from the ranks that give it, in the order of key
 * and then of rank; all ranks call this. A negative color gives none: *part is NULL. The
 * new communicator has the attributes of this one.
 *
 * Errors: those of openreg_comm_create(), and of openreg_comm_wait() for this
 * communicator.
 */
int openreg_comm_split(struct openreg_comm *comm, int32_t color, int32_t key,
		       struct openreg_comm **part);

/* Packets that have not begun never run. The other ranks see this rank leave. */
void openreg_comm_destroy(struct openreg_comm *comm);

uint32_t openreg_comm_rank(const struct openreg_comm *comm);
uint32_t openreg_comm_size(const struct openreg_comm *comm);

/* The queue of the communicator's packets, for WAITs and SIGNALs of the caller. */
struct openreg_queue *openreg_comm_queue(struct openreg_comm *comm);

/* ---- collectives ------------------------------------------------------- */

enum openreg_comm_op {
	OPENREG_COMM_SUM,
	OPENREG_COMM_PROD,
	OPENREG_COMM_MIN,
	OPENREG_COMM_MAX,
	OPENREG_COMM_AVG, /* the sum divided by the number of ranks; integers: toward zero */
	OPENREG_COMM_PREMUL_SUM, /* each rank's elements times its factor, summed */
	OPENREG_COMM_AND, /* of bits: integers and bool */
	OPENREG_COMM_OR,
	OPENREG_COMM_XOR
};

/* This rank's factor of later PREMUL_SUM reductions; 1 at first. Integers need an integer. */
int openreg_comm_set_factor(struct openreg_comm *comm, double factor);

/*
 * Collectives. dst and src are device addresses, counts are numbers of elements, and any
 * dtype can be reduced. Half types are reduced in F32 and rounded once for each step.
 * Small integers and bool are reduced in I32. All ranks get the same bits.
 *
 * dst may be src, except in all_to_all. In all_gather, reduce_scatter, gather and scatter
 * the rank's own part may be in its place in the larger memory. A count may be 0. Calls
 * with a root use dst (reduce, gather) or src (scatter) of that rank only.
 *
 * Errors: EINVAL for bad arguments, EBUSY for a second thread, EIO if the communicator is
 * broken, and those of openreg_comm_wait() if the ring is full.
 */
int64_t openreg_comm_all_reduce(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				uint64_t count, enum openreg_dtype dtype,
				enum openreg_comm_op op);
/* Only root gets the result; the dst of the other ranks is not used. */
int64_t openreg_comm_reduce(struct openreg_comm *comm, uint64_t dst, uint64_t src,
			    uint64_t count, enum openreg_dtype dtype,
			    enum openreg_comm_op op, uint32_t root);
int64_t openreg_comm_broadcast(struct openreg_comm *comm, uint64_t address,
			       uint64_t count, enum openreg_dtype dtype, uint32_t root);
/* Rank r gives counts[r] elements; dst has all of them, in the order of the ranks. */
int64_t openreg_comm_all_gather(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				const uint64_t *counts, enum openreg_dtype dtype);
/* src has counts[r] elements for rank r, in the order of the ranks. */
int64_t openreg_comm_reduce_scatter(struct openreg_comm *comm, uint64_t dst,
				    uint64_t src, const uint64_t *counts,
				    enum openreg_dtype dtype, enum openreg_comm_op op);
/* Rank r gives counts[r] elements; root has all of them, in the order of the ranks. */
int64_t openreg_comm_gather(struct openreg_comm *comm, uint64_t dst, uint64_t src,
			    const uint64_t *counts, enum openreg_dtype dtype, uint32_t root);
/* src of root has counts[r] elements for rank r, in the order of the ranks. */
int64_t openreg_comm_scatter(struct openreg_comm *comm, uint64_t dst, uint64_t src,
			     const uint64_t *counts, enum openreg_dtype dtype,
			     uint32_t root);
/*
 * src has sends[r] elements for rank r, dst gets receives[r] elements of rank r, both in
 * the order of the ranks. sends[r] here is receives[this rank] in rank r.
 */
int64_t openreg_comm_all_to_all(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				const uint64_t *receives, const uint64_t *sends,
				enum openreg_dtype dtype);
/*
 * One rank sends, the other receives. A send of more than 2 slots ends only while the
 * other rank receives: two ranks that both send first need a group.
 */
int64_t openreg_comm_send(struct openreg_comm *comm, uint64_t src, uint64_t count,
			  enum openreg_dtype dtype, uint32_t to);
int64_t openreg_comm_recv(struct openreg_comm *comm, uint64_t dst, uint64_t count,
			  enum openreg_dtype dtype, uint32_t from);
/*
 * Sends and receives of a group run as one at its end, in any order: no rank of the group
 * waits for another one to receive first. Inside, they return 0; openreg_comm_group_end()
 * returns the sequence number to wait for. A rank can also send to itself there. Other
 * collectives run at once, after the sends and receives before them. Groups nest.
 */
int openreg_comm_group_begin(struct openreg_comm *comm);
int64_t openreg_comm_group_end(struct openreg_comm *comm);
/* Completes after all ranks have begun it. */
int64_t openreg_comm_barrier(struct openreg_comm *comm);

/* ---- windows ------------------------------------------------------------ */

/*
 * Give the other ranks memory that they write without a call of this rank; all ranks call
 * this. The new windows replace the old ones, and all puts into the old ones have completed.
 *
 * fd is a descriptor of openreg_bo_export(), of memory of any card; the window begins at
 * offset. -1: this rank has none. The other ranks can then write all of that memory.
 *
 * Errors: EINVAL for 0 bytes, EPROTO if the window ends behind the memory, and those of
 * openreg_comm_wait() and openreg_bo_import(). A rank with a bad descriptor has no window;
 * the other ranks have theirs.
 */
int openreg_comm_window(struct openreg_comm *comm, int fd, uint64_t offset,
			uint64_t bytes);

/* Size of a rank's window; 0: it has none. */
uint64_t openreg_comm_window_bytes(const struct openreg_comm *comm, uint32_t rank);

/*
 * A put copies memory of this rank's card into the window of another rank, which makes no
 * call for it. A signal follows the puts before it. The n-th wait for a signal of a rank
 * waits for its n-th signal. All of them run in the order of the calls: a put does not wait
 * for the other rank, but it waits for this rank's earlier waits.
 *
 * Errors: as of collectives. A wait for a rank that has ended fails with ECONNRESET.
 */
int64_t openreg_comm_put(struct openreg_comm *comm, uint32_t rank, uint64_t offset,
			 uint64_t src, uint64_t bytes);
int64_t openreg_comm_signal(struct openreg_comm *comm, uint32_t rank);
int64_t openreg_comm_wait_signal(struct openreg_comm *comm, uint32_t rank);

/* ---- descriptors ---------------------------------------------------------- */

struct openreg_comm_shared {
	int fds[2]; /* of openreg_bo_export(), or of any files */
	int process; /* result: of the rank's process, as of pidfd_open(2), or -1 */
	uint32_t reserved; /* 0 */
	uint8_t bytes[64]; /* any values */
};

/*
 * Give all ranks two descriptors and some bytes of this rank, and take theirs; all ranks
 * call this. all has an element for each rank. The caller closes the descriptors in it.
 * In the element of this rank the descriptors are -1.
 *
 * Another rank can then write all of the memory of a descriptor, on its own queues, and
 * for as long as it keeps the memory: openreg_bo_import().
 *
 * Errors: EBADF for a bad descriptor, EMFILE if this rank has no room for those of
 * another one, and those of openreg_comm_wait(). all has no descriptors then.
 */
int openreg_comm_share(struct openreg_comm *comm, const struct openreg_comm_shared *mine,
		       struct openreg_comm_shared *all);

/* ---- waiting, and failures ---------------------------------------------- */

/*
 * Wait until a collective has completed, at most for the communicator's timeout, or for
 * timeout_ns. [any thread]
 *
 * Errors; the text names the rank and the collective:
 *
 * - ECONNRESET: a rank has ended, or has given the communicator up
 * - EPROTO: a rank has made another call, or with other counts, dtype, reduction or root
 * - ETIME: a rank is late
 * - ECANCELED: openreg_comm_abort()
 * - EIO: the queue faulted, or the communicator is broken already
 * - EPERM: the process is a child of fork()
 */
int openreg_comm_wait(struct openreg_comm *comm, int64_t seq);
int openreg_comm_wait_timeout(struct openreg_comm *comm, int64_t seq, int64_t timeout_ns);

/*
 * 1 if a collective has completed, 0 if not, or an error of openreg_comm_wait() but
 * ETIME. For a thread that watches the other ranks. [any thread]
 */
int openreg_comm_query(struct openreg_comm *comm, int64_t seq);

/*
 * Break the communicator: its queue stops, calls of other threads and of the other ranks
 * fail. No other thread may use openreg_comm_queue() meanwhile. [any thread]
 */
int openreg_comm_abort(struct openreg_comm *comm);

#if defined(__cplusplus)
}
#endif

#endif
