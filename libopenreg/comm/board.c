// SPDX-License-Identifier: MIT
/*
 * Boards. Each rank writes what it calls to a board, in memory that the other ranks read.
 * So a rank finds that another one makes another call, without a packet or a system call.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm.h"

const char *call_name(enum call_kind kind)
{
	static const char *const names[] = {
		[CALL_ALL_REDUCE] = "all_reduce", [CALL_REDUCE] = "reduce",
		[CALL_REDUCE_SCATTER] = "reduce_scatter", [CALL_BROADCAST] = "broadcast",
		[CALL_ALL_GATHER] = "all_gather", [CALL_GATHER] = "gather",
		[CALL_SCATTER] = "scatter", [CALL_ALL_TO_ALL] = "all_to_all",
		[CALL_BARRIER] = "barrier", [CALL_SPLIT] = "split",
		[CALL_WINDOW] = "window", [CALL_SHARE] = "share",
		[CALL_SEND] = "send", [CALL_RECV] = "recv",
		[CALL_GROUP] = "group", [CALL_PUT] = "put", [CALL_SIGNAL] = "signal",
		[CALL_WAIT_SIGNAL] = "wait_signal",
	};

	return (unsigned int)kind <= CALL_WAIT_SIGNAL ? names[kind] : "?";
}

/* Sealed: a rank that made the file shorter would end the others with SIGBUS. */
int board_create(struct openreg_comm *comm)
{
	void *p;

	comm->board_fd = memfd_create("openreg-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (comm->board_fd < 0 || ftruncate(comm->board_fd, sizeof(struct board)) ||
	    fcntl(comm->board_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return comm_fail(-errno, "cannot make a file in memory: %s",
				 comm_strerror(-errno));
	p = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED,
		 comm->board_fd, 0);
	if (p == MAP_FAILED)
		return comm_fail(-errno, "cannot map a file in memory: %s", strerror(errno));
	comm->board = p;
	return 0;
}

void board_free(struct openreg_comm *comm)
{
	if (comm->board)
		munmap(comm->board, sizeof(struct board));
	for (uint32_t r = 0; r < comm->size; r++)
		if (comm->peers[r].board)
			munmap((void *)(uintptr_t)comm->peers[r].board, sizeof(struct board));
	if (comm->board_fd >= 0)
		close(comm->board_fd);
	comm->board_fd = -1;
}

int board_import(struct openreg_comm *comm, uint32_t rank, int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS); /* -1: the file cannot have any */
	struct stat st;
	void *p;

	if (fstat(fd, &st) || (size_t)st.st_size != sizeof(struct board) || seals < 0 ||
	    !(seals & F_SEAL_SHRINK))
		return comm_fail(-EPROTO, "rank %u has another version of openreg-comm", rank);
	p = mmap(NULL, sizeof(struct board), PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return comm_fail(-errno, "rank %u cannot map the board of rank %u: %s",
				 comm->rank, rank, strerror(errno));
	comm->peers[rank].board = p;
	return 0;
}

void board_call(struct openreg_comm *comm, const struct call *call)
{
	const uint64_t number = comm->collectives;
	struct call *c = &comm->board->calls[number % RECORDS];

	atomic_store_explicit(&c->number, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	memcpy(&c->kind, &call->kind, sizeof(*c) - offsetof(struct call, kind));
	atomic_store_explicit(&c->number, number, memory_order_release);
	atomic_store_explicit(&comm->board->collectives, number, memory_order_release);
}

void board_message(struct openreg_comm *comm, uint32_t rank, enum direction dir,
		   uint64_t count, enum openreg_dtype dtype)
{
	const uint64_t number = ++comm->peers[rank].calls[dir];
	struct message *m = &comm->board->messages[rank][dir][number % MESSAGES];

	atomic_store_explicit(&m->number, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	m->count = count;
	m->dtype = dtype;
	m->before = comm->collectives;
	atomic_store_explicit(&m->number, number, memory_order_release);
}

static bool has_op(const struct call *c)
{
	return c->kind <= CALL_REDUCE_SCATTER;
}

static bool has_root(const struct call *c)
{
	return c->kind == CALL_REDUCE || c->kind == CALL_BROADCAST || c->kind == CALL_GATHER ||
	       c->kind == CALL_SCATTER;
}

static bool has_counts(const struct call *c)
{
	return c->kind == CALL_REDUCE_SCATTER || c->kind == CALL_ALL_GATHER ||
	       c->kind == CALL_GATHER || c->kind == CALL_SCATTER;
}

/* Callers move other dtypes as U8, too. */
static const char *unit(uint64_t dtype)
{
	return dtype == OPENREG_U8 ? "bytes" : openreg_dtype_name((unsigned int)dtype);
}

/* part: the element of counts to name. */
static void describe(char *text, size_t len, const struct call *c, uint32_t part)
{
	static const char *const ops[] = { "SUM", "PROD", "MIN", "MAX", "AVG", "PREMUL_SUM",
					   "AND", "OR",	  "XOR" };
	int n = snprintf(text, len, "%s", call_name((enum call_kind)c->kind));

	if (c->kind >= CALL_BARRIER)
		return;
	if (has_op(c) && c->op < sizeof(ops) / sizeof(ops[0]))
		n += snprintf(text + n, len - (size_t)n, " %s", ops[c->op]);
	if (has_root(c))
		n += snprintf(text + n, len - (size_t)n, " with root %" PRIu32, c->root);
	if (has_counts(c))
		n += snprintf(text + n, len - (size_t)n, " with counts[%" PRIu32 "] of", part);
	snprintf(text + n, len - (size_t)n, " %" PRIu64 " %s",
		 has_counts(c) ? c->counts[part] : c->count, unit(c->dtype));
}

/* The first element of counts that differs. */
static uint32_t other_part(const struct openreg_comm *comm, const struct call *a,
			   const struct call *b)
{
	uint32_t r = 0;

	while (r < comm->size && a->counts[r] == b->counts[r])
		r++;
	return r;
}

static bool same_call(const struct openreg_comm *comm, const struct call *a,
		      const struct call *b)
{
	return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
	       a->root == b->root && a->count == b->count &&
	       (!has_counts(a) || other_part(comm, a, b) == comm->size);
}

static bool compare_calls(const struct openreg_comm *comm, uint32_t rank, uint64_t number,
			  const struct call *mine, const struct call *its, char *text)
{
	char here[96], there[96];
	uint32_t part;

	if (!same_call(comm, mine, its)) {
		part = other_part(comm, mine, its);
		part = part == comm->size ? 0 : part;
		describe(here, sizeof(here), mine, part);
		describe(there, sizeof(there), its, part);
		snprintf(text, TEXT_MAX,
			 "the ranks make different calls: collective %" PRIu64 " of rank %" PRIu32 " is %s, of rank %" PRIu32 " %s; all ranks must make the same calls",
			 number, comm->rank, here, rank, there);
		return true;
	}
	if (mine->kind != CALL_ALL_TO_ALL || (mine->sends[rank] == its->counts[comm->rank] &&
					      mine->counts[rank] == its->sends[comm->rank]))
		return false;
	snprintf(text, TEXT_MAX,
		 "the counts of all_to_all %" PRIu64 " differ: rank %" PRIu32 " sends %" PRIu64 " to rank %" PRIu32 " and receives %" PRIu64 ", but rank %" PRIu32 " receives %" PRIu64 " and sends %" PRIu64,
		 number, comm->rank, mine->sends[rank], rank, mine->counts[rank], rank,
		 its->counts[comm->rank], its->sends[comm->rank]);
	return true;
}

static bool calls_differ(struct openreg_comm *comm, uint32_t rank, char *text)
{
	struct peer *p = &comm->peers[rank];

	while (p->compared < comm->collectives) {
		const uint64_t n = p->compared + 1;
		const struct call *its = &p->board->calls[n % RECORDS];
		const uint64_t number = atomic_load_explicit(&its->number,
							     memory_order_acquire);

		if (number < n)
			return false; /* not there yet */
		p->compared = n;
		/* One of the two ranks may be so far ahead that the entry is gone. */
		if (number == n && n + RECORDS > comm->collectives &&
		    compare_calls(comm, rank, n, &comm->board->calls[n % RECORDS], its, text))
			return atomic_load(&its->number) == n;
	}
	return false;
}

static bool compare_messages(const struct openreg_comm *comm, uint32_t rank,
			     enum direction dir, const struct message *mine,
			     const struct message *its, char *text)
{
	if (mine->count == its->count && mine->dtype == its->dtype &&
	    mine->before == its->before)
		return false;
	snprintf(text, TEXT_MAX,
		 "the two sides of a message differ: rank %" PRIu32 " %s %" PRIu64 " %s after %" PRIu64 " collectives, but rank %" PRIu32 " %s %" PRIu64 " %s after %" PRIu64,
		 comm->rank, dir == SENT ? "sends" : "receives", mine->count,
		 unit(mine->dtype), mine->before, rank,
		 dir == SENT ? "receives" : "sends", its->count,
		 unit(its->dtype), its->before);
	return true;
}

static bool messages_differ(struct openreg_comm *comm, uint32_t rank, enum direction dir,
			    char *text)
{
	struct peer *p = &comm->peers[rank];

	while (p->compared_calls[dir] < p->calls[dir]) {
		const uint64_t n = p->compared_calls[dir] + 1;
		const struct message *its =
			&p->board->messages[comm->rank][dir == SENT ? TAKEN : SENT]
					   [n % MESSAGES];
		const uint64_t number = atomic_load_explicit(&its->number,
							     memory_order_acquire);

		if (number < n)
			return false;
		p->compared_calls[dir] = n;
		if (number == n && n + MESSAGES > p->calls[dir] &&
		    compare_messages(comm, rank, dir,
				     &comm->board->messages[rank][dir][n % MESSAGES], its,
				     text))
			return atomic_load(&its->number) == n;
	}
	return false;
}

bool board_differs(struct openreg_comm *comm, char *text)
{
	for_peers(comm, r)
		if (calls_differ(comm, r, text) || messages_differ(comm, r, SENT, text) ||
		    messages_differ(comm, r, TAKEN, text))
			return true;
	return false;
}
