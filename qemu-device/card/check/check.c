/* SPDX-License-Identifier: MIT */
/* The checks of a card: queues, accesses, findings. */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

struct openreg_check *openreg_check_new(unsigned int what)
{
	struct openreg_check *check = calloc(1, sizeof(*check));

	if (!check)
		return NULL;
	check->what = what;
	if (pthread_mutex_init(&check->lock, NULL)) {
		free(check);
		return NULL;
	}
	return check;
}

void word_free(struct word *word)
{
	unsigned int i;

	for (i = 0; i < SIGNALS; i++)
		clock_free(&word->signals[i].clock);
	free(word);
}

void openreg_check_free(struct openreg_check *check)
{
	struct word *word;
	unsigned int i;

	if (!check)
		return;
	for (i = 0; i < WORDS; i++) {
		while ((word = check->words[i])) {
			check->words[i] = word->next;
			word_free(word);
		}
	}
	free(check->gone);
	pthread_mutex_destroy(&check->lock);
	free(check);
}

void openreg_check_lock(struct openreg_check *check)
{
	pthread_mutex_lock(&check->lock);
}

void openreg_check_unlock(struct openreg_check *check)
{
	pthread_mutex_unlock(&check->lock);
}

static struct reported *reported_of(const struct openreg_check *check, const void *ctx)
{
	struct openreg_check_queue *q;

	for (q = check->queues; q; q = q->next)
		if (q->ctx == ctx)
			return q->reported;
	return calloc(1, sizeof(struct reported));
}

bool openreg_check_ended(struct openreg_check *check)
{
	const bool first = check->failed && !check->said;

	check->said |= check->failed;
	return first;
}

struct openreg_check_queue *openreg_check_queue_new(struct openreg_check *check,
						    const void *ctx)
{
	uint8_t *gone = realloc(check->gone, check->serials + 1);
	struct openreg_check_queue *q = calloc(1, sizeof(*q));
	struct reported *reported = q ? reported_of(check, ctx) : NULL;

	if (gone)
		check->gone = gone;
	if (!gone || !reported) {
		check->failed = true;
		if (reported && !reported->queues)
			free(reported);
		free(q);
		return NULL;
	}
	reported->queues++;
	q->reported = reported;
	gone[check->serials] = 0;
	q->ctx = ctx;
	q->serial = check->serials++;
	q->next = check->queues;
	check->queues = q;
	return q;
}

void openreg_check_queue_free(struct openreg_check *check, struct openreg_check_queue *q)
{
	struct openreg_check_queue **link = &check->queues, *other;
	unsigned int i;

	if (!q)
		return;
	check->gone[q->serial] = 1;
	while (*link != q)
		link = &(*link)->next;
	*link = q->next;
	/* What this queue waited for is also earlier than what the process does next. */
	for (other = check->queues; other; other = other->next)
		if (other->ctx == q->ctx && !clock_join(&other->clock, &q->clock))
			check->failed = true;
	for (i = 0; i < SNAPSHOTS; i++)
		clock_free(&q->snapshots[i].clock);
	clock_free(&q->clock);
	if (!--q->reported->queues)
		free(q->reported);
	free(q);
}

void openreg_check_memory_free(struct openreg_check_memory *m)
{
	unsigned int i;

	if (!m)
		return;
	for (i = 0; i < m->nblocks; i++)
		free(m->blocks[i].written);
	for (i = 0; i < m->npast; i++)
		free(m->past[i].shape);
	free(m->blocks);
	free(m->past);
	free(m);
}

void openreg_check_begin(struct openreg_check_queue *q, const struct openreg_packet *header,
			 uint64_t seq, uint16_t in_list)
{
	q->now.seq = seq;
	q->now.cookie = header->cookie;
	q->now.opcode = header->opcode;
	q->now.in_list = in_list;
	q->epoch = EPOCH(seq, in_list);
}

void openreg_check_number(struct openreg_check_queue *q, uint32_t number)
{
	q->now.queue = number;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static uint64_t hash_access(const struct openreg_finding_access *a, bool exact)
{
	uint64_t hash = mix(a->opcode, (uint64_t)a->queue << 32 | a->cookie);

	return exact ? mix(hash, (uint64_t)a->operand << 16 | a->written) : hash;
}

/*
 * Findings that differ only in when they happened are one. So are all races of two
 * packets: an operator in place reads and writes the same bytes, and either packet may
 * come first.
 */
static uint64_t hash_of(const struct openreg_finding *f)
{
	const bool exact = f->kind != OPENREG_FINDING_RACE;
	uint64_t hash = mix(f->kind, f->block ? f->block : f->addr);

	hash = mix(hash, hash_access(&f->access, exact) + hash_access(&f->other, exact));
	return hash ? hash : 1;
}

static bool is_known(struct reported *r, uint64_t hash)
{
	uint64_t i = hash;

	if (r->nknown > KNOWN / 2)
		return true;
	for (; r->known[i % KNOWN]; i++)
		if (r->known[i % KNOWN] == hash)
			return true;
	r->known[i % KNOWN] = hash;
	r->nknown++;
	return false;
}

struct openreg_finding *check_find(struct openreg_check_queue *q,
				   const struct openreg_finding *finding)
{
	if (q->nfound == FINDINGS || is_known(q->reported, hash_of(finding)))
		return NULL;
	q->found[q->nfound] = *finding;
	return &q->found[q->nfound++];
}

bool openreg_check_take(struct openreg_check_queue *q, struct openreg_finding *finding)
{
	if (!q || !q->nfound)
		return false;
	*finding = q->found[--q->nfound];
	return true;
}

static struct openreg_check_memory *get_memory(struct openreg_check *check,
					       struct openreg_check_memory **memory,
					       uint64_t base)
{
	if (!*memory)
		*memory = calloc(1, sizeof(**memory));
	if (*memory)
		(*memory)->base = base;
	else
		check->failed = true;
	return *memory;
}

/* A WAIT, a SIGNAL and a TIMESTAMP are atomic, so they race with nothing. */
static bool is_sync(const struct openreg_args *args)
{
	return args->opcode == OPENREG_OP_WAIT || args->opcode == OPENREG_OP_SIGNAL ||
	       args->opcode == OPENREG_OP_TIMESTAMP;
}

void openreg_check_access(struct openreg_check *check, struct openreg_check_queue *q,
			  unsigned int what, struct openreg_check_memory **memory,
			  uint64_t base, const struct openreg_args *args, unsigned int i,
			  uint64_t off)
{
	const struct openreg_arg *op = &args->op[i];
	const bool reads = op->read && !op->own;
	struct openreg_finding_access access = q->now;
	struct openreg_check_memory *m;
	struct shape shape;

	what &= check->what;
	if (check->failed || !what)
		return;
	m = get_memory(check, memory, base);
	if (!m)
		return;
	shape_of(&shape, args, op, off);
	access.operand = (uint16_t)i;
	access.written = op->written;
	if (what & OPENREG_CHECK_BOUNDS)
		check_bounds(q, m, &shape, &access, off);
	if (what & OPENREG_CHECK_INIT && !(is_sync(args) && op->read)) {
		access.written = !reads;
		check_init(check, q, m, &shape, &access, !op->indirect);
	}
	if (what & OPENREG_CHECK_INIT && op->written && reads) {
		access.written = 1;
		check_init(check, q, m, &shape, &access, !op->indirect);
	}
	access.written = op->written;
	if (what & OPENREG_CHECK_RACE && !is_sync(args))
		check_race(check, q, m, &shape, &access);
}
