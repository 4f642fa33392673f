/* SPDX-License-Identifier: MIT */
/*
 * What puts packets of different queues in order: WAITs for SIGNALs, and waits of the
 * program itself.
 */
#include <stdlib.h>

#include "inside.h"

static void join(struct openreg_check *check, struct clock *c, const struct clock *from)
{
	if (!clock_join(c, from))
		check->failed = true;
}

static void raise_to(struct openreg_check *check, struct clock *c, uint32_t serial,
		     epoch_t epoch)
{
	if (!clock_raise(c, serial, epoch))
		check->failed = true;
}

/* The queue's clock has changed: others may ask later how it was at this packet. */
static void keep_clock(struct openreg_check *check, struct openreg_check_queue *q)
{
	struct snapshot *s = &q->snapshots[q->nsnapshots++ % SNAPSHOTS];

	s->epoch = q->epoch;
	if (!clock_copy(&s->clock, &q->clock))
		check->failed = true;
}

static struct openreg_check_queue *find_queue(struct openreg_check *check, const void *ctx,
					      uint32_t number)
{
	struct openreg_check_queue *q = check->queues;

	while (q && (q->ctx != ctx || q->now.queue != number))
		q = q->next;
	return q;
}

/* The clock that the queue had at this packet, or a later one if that is lost. */
static const struct clock *clock_at(const struct openreg_check_queue *q, epoch_t epoch)
{
	const uint64_t n = q->nsnapshots;
	const uint64_t oldest = n > SNAPSHOTS ? n - SNAPSHOTS : 0;
	uint64_t i = n;

	while (i > oldest && q->snapshots[(i - 1) % SNAPSHOTS].epoch > epoch)
		i--;
	if (i > oldest)
		return &q->snapshots[(i - 1) % SNAPSHOTS].clock;
	return oldest ? &q->snapshots[oldest % SNAPSHOTS].clock : NULL;
}

void openreg_check_seen(struct openreg_check *check, struct openreg_check_queue *q,
			uint32_t number, uint64_t seq)
{
	const struct openreg_check_queue *of = find_queue(check, q->ctx, number);
	const struct clock *clock;

	if (check->failed || !of || of == q)
		return;
	clock = clock_at(of, EPOCH_END(seq));
	if (clock)
		join(check, &q->clock, clock);
	raise_to(check, &q->clock, of->serial, EPOCH_END(seq));
	keep_clock(check, q);
}

static unsigned int bucket_of(uint64_t number)
{
	return (unsigned int)((number >> 3) * 0x9e3779b97f4a7c15ULL >> 56);
}

static struct word **find_word(struct openreg_check *check, uint64_t number)
{
	struct word **link = &check->words[bucket_of(number)];

	while (*link && (*link)->number != number)
		link = &(*link)->next;
	return link;
}

/* link: the end of the bucket. Drops the oldest word of a full bucket. */
static struct word *add_word(struct openreg_check *check, struct word **link, uint64_t number)
{
	struct word **first = &check->words[bucket_of(number)], *word, *oldest;
	unsigned int n = 0;

	word = calloc(1, sizeof(*word));
	if (!word)
		return NULL;
	*link = word;
	word->number = number;
	for (oldest = *first; oldest; oldest = oldest->next)
		n++;
	if (n > WORDS_MAX) {
		oldest = *first;
		*first = oldest->next;
		word_free(oldest);
		check->words_lost = true;
	}
	word->partial = check->words_lost;
	return word;
}

static struct signal *signal_at(struct word *word, uint64_t n)
{
	return &word->signals[n % SIGNALS];
}

static struct signal *last_signal(struct word *word)
{
	return word->nsignals ? signal_at(word, word->nsignals - 1) : NULL;
}

/* Everything up to now counts as earlier: misses races, and invents none. */
static void join_all(struct openreg_check *check, struct clock *c,
		     const struct openreg_check_queue *q)
{
	struct openreg_check_queue *other;

	for (other = check->queues; other; other = other->next) {
		if (other == q)
			continue;
		join(check, c, &other->clock);
		raise_to(check, c, other->serial, other->epoch);
	}
}

/* value: what the word has after the SIGNAL. */
void openreg_check_signal(struct openreg_check *check, struct openreg_check_queue *q,
			  uint64_t number, bool add, uint64_t value)
{
	struct word **link, *word;
	struct signal *last, *new;

	if (check->failed)
		return;
	link = find_word(check, number);
	word = *link ? *link : add_word(check, link, number);
	if (!word) {
		check->failed = true;
		return;
	}
	last = last_signal(word);
	/* A word that falls is used anew: earlier SIGNALs mean nothing any more. */
	if (last && value <= last->value) {
		word->nsignals = 0;
		last = NULL;
	}
	new = signal_at(word, word->nsignals++);
	new->value = value;
	if (new != last && !clock_copy(&new->clock, &q->clock))
		check->failed = true;
	if (add && last)
		join(check, &new->clock, &last->clock);
	else if (add && word->partial)
		join_all(check, &new->clock, q);
	raise_to(check, &new->clock, q->serial, q->epoch);
}

static bool is_met(unsigned int mode, uint64_t word, uint64_t value)
{
	switch (mode) {
	case OPENREG_WAIT_GE:
		return word >= value;
	case OPENREG_WAIT_EQ:
		return word == value;
	}
	return word != value;
}

void openreg_check_wait(struct openreg_check *check, struct openreg_check_queue *q,
			uint64_t number, unsigned int mode, uint64_t value,
			uint64_t actual)
{
	struct word *word;
	uint64_t n, oldest;

	if (check->failed)
		return;
	word = *find_word(check, number);
	/* The program, another card or another process stored the word. */
	if (!word || !word->nsignals || last_signal(word)->value != actual) {
		join_all(check, &q->clock, q);
		keep_clock(check, q);
		return;
	}
	/* The first SIGNAL from which on the WAIT is met. */
	n = word->nsignals;
	oldest = n > SIGNALS ? n - SIGNALS : 0;
	while (n > oldest && is_met(mode, signal_at(word, n - 1)->value, value))
		n--;
	if (n == 0 && word->partial) /* a SIGNAL that is lost may have met it */
		join_all(check, &q->clock, q);
	else if (n < word->nsignals)
		join(check, &q->clock, &signal_at(word, n)->clock);
	keep_clock(check, q);
}
