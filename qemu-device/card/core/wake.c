/* SPDX-License-Identifier: MIT */
/*
 * Which queue waits on which word, so that a SIGNAL of another context or card finds the
 * WAITs that it ends. The number of a word is its offset in VRAM or its bus address, with
 * WORD_VRAM or WORD_BUS: words are multiples of 8.
 *
 * No wake-up is lost: a WAIT names its word and then reads it; a SIGNAL stores the word
 * and then looks for the name.
 */
#include "core.h"
#include "exec.h"
#include "queue.h"

static unsigned int bit_of(uint64_t word)
{
	return (unsigned int)((word >> 3) * 0x9e3779b97f4a7c15ULL >> 58);
}

/* The owner of a queue with an unmet WAIT calls this before it reads the word again. */
void wake_expect(struct queue *q, uint64_t word)
{
	atomic_store(&q->wait_mode, q->args.arg[0]);
	atomic_store(&q->wait_value, q->args.imm[0]);
	atomic_fetch_add(&q->card->sched.words[bit_of(word)], 1);
	atomic_store(&q->word, word);
}

/* The owner calls this, or a thread that holds sched.lock while there is no owner. */
void wake_forget(struct queue *q)
{
	uint64_t word = atomic_load_explicit(&q->word, memory_order_relaxed);

	if (!word)
		return;
	atomic_store(&q->word, 0);
	atomic_fetch_sub(&q->card->sched.words[bit_of(word)], 1);
}

static bool is_met(struct queue *q, uint64_t value)
{
	return sync_is_met(atomic_load(&q->wait_mode), value,
			   atomic_load(&q->wait_value));
}

/* sched.lock is held. Returns true if a worker must look at the queue. */
static bool set_due(struct queue *q)
{
	q->signalled = true;
	q->next_poll = 0;
	return q->waiting;
}

/* sched.lock is held. Others have stored value in word: is the queue's WAIT over? */
bool wake_try(struct queue *q, uint64_t word, uint64_t value)
{
	return atomic_load(&q->word) == word && is_met(q, value) && set_due(q);
}

static void try_poked(struct queue *q, uint64_t bits, bool all)
{
	const struct openreg_card *card = q->card;
	uint64_t word = atomic_load(&q->word), *vram;

	if (!word || !(all || bits >> bit_of(word) & 1))
		return;
	if (word & WORD_BUS) {
		if (all)
			set_due(q);
		return;
	}
	vram = (uint64_t *)((uint8_t *)card->config.vram + (word & ~WORD_VRAM));
	if (is_met(q, __atomic_load_n(vram, __ATOMIC_SEQ_CST)))
		set_due(q);
}

/* sched.lock is held. Makes queues due: their WAITs have ended since the last call. */
void wake_take_pokes(struct openreg_card *card)
{
	struct sched *sched = &card->sched;
	uint64_t bits = atomic_load(&sched->poked);
	bool all = atomic_load(&sched->poked_all);
	struct queue *q;

	if (!bits && !all)
		return;
	bits = atomic_exchange(&sched->poked, 0);
	all = atomic_exchange(&sched->poked_all, false);
	for (q = sched->awake; q; q = q->awake_next)
		try_poked(q, bits, all);
}

void openreg_card_poke(struct openreg_card *card, uint64_t off)
{
	const unsigned int bit = bit_of(off | WORD_VRAM);

	/* The store of the word comes before the search for those that wait on it. */
	atomic_thread_fence(memory_order_seq_cst);
	if (off == OPENREG_POKE_ALL) {
		atomic_store(&card->sched.poked_all, true);
	} else {
		if (!atomic_load(&card->sched.words[bit]))
			return;
		atomic_fetch_or(&card->sched.poked, 1ULL << bit);
	}
	gate_wake(card, 1);
}
