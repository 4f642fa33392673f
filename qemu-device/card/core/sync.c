/* SPDX-License-Identifier: MIT */
/* WAIT, SIGNAL and TIMESTAMP: 64-bit words that tie queues together. */
#include "core.h"
#include "exec.h"
#include "note.h"
#include "queue.h"

static unsigned int last_arg(uint8_t opcode)
{
	switch (opcode) {
	case OPENREG_OP_WAIT:
		return OPENREG_WAIT_NE;
	case OPENREG_OP_SIGNAL:
		return OPENREG_SIGNAL_ADD;
	}
	return 0;
}

struct openreg_verdict sync_check(struct openreg_args *args)
{
	struct openreg_arg *op = &args->op[0];

	if (args->nops != 1 || args->ninstr ||
	    args->nimm != (args->opcode == OPENREG_OP_TIMESTAMP ? 0 : 1) ||
	    args->arg[0] > last_arg(args->opcode) || args->arg[1] ||
	    args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   sizeof(struct openreg_packet));
	if (args->ndim)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   args->ndim);
	if (op->dtype != OPENREG_I64)
		return openreg_bad(OPENREG_FAULT_DTYPE, 0, op->dtype);
	op->read = args->opcode != OPENREG_OP_TIMESTAMP &&
		   (args->opcode == OPENREG_OP_WAIT ||
		    args->arg[0] == OPENREG_SIGNAL_ADD);
	op->written = args->opcode != OPENREG_OP_WAIT;
	op->dims = 0;
	return openreg_good();
}

static int load_word(struct queue *q, uint64_t *word)
{
	void *vram = q->args.op[0].ptr;

	if (!vram)
		return segment_read(q, q->reach[0].seg, q->reach[0].off, word,
				    8);
	*word = __atomic_load_n((uint64_t *)vram, __ATOMIC_SEQ_CST);
	return 0;
}

/* ADD is atomic among the queues of this card. *value becomes the word's new value. */
static int store_word(struct queue *q, uint64_t *value, bool add)
{
	uint64_t *vram = q->args.op[0].ptr, old = 0;
	int r = 0;

	if (vram) {
		if (add)
			*value += __atomic_fetch_add(vram, *value, __ATOMIC_SEQ_CST);
		else
			__atomic_store_n(vram, *value, __ATOMIC_SEQ_CST);
		return 0;
	}
	pthread_mutex_lock(&q->card->signal_lock);
	if (add)
		r = load_word(q, &old);
	*value += old;
	if (!r)
		r = segment_write(q, q->reach[0].seg, q->reach[0].off, value, 8);
	pthread_mutex_unlock(&q->card->signal_lock);
	return r;
}

bool sync_is_met(unsigned int mode, uint64_t word, uint64_t value)
{
	switch (mode) {
	case OPENREG_WAIT_GE:
		return word >= value;
	case OPENREG_WAIT_EQ:
		return word == value;
	}
	return word != value;
}

/* Where the word is: an offset in VRAM, or a bus address. */
static uint64_t word_at(struct queue *q)
{
	uint8_t *vram = q->args.op[0].ptr;
	uint64_t left;

	return vram ? (uint64_t)(vram - card_vram(q->card)) :
		      segment_bus(q->reach[0].seg, q->reach[0].off, &left);
}

static uint64_t word_number(struct queue *q)
{
	return word_at(q) | (q->args.op[0].ptr ? WORD_VRAM : WORD_BUS);
}

static int try_wait(struct queue *q, bool *met)
{
	const struct openreg_args *args = &q->args;
	uint64_t word;
	int r = load_word(q, &word);

	*met = !r && sync_is_met(args->arg[0], word, args->imm[0]);
	return r;
}

/* Names the word before it reads it again: a SIGNAL in between then finds the name. */
static int wait_word(struct queue *q, bool *met)
{
	const struct openreg_host_ops *ops = q->card->ops;
	bool first = !atomic_load_explicit(&q->word, memory_order_relaxed);
	int r = try_wait(q, met);

	if (r || *met)
		goto out;
	if (!first)
		return 0;
	wake_expect(q, word_number(q));
	if (ops->waiting)
		ops->waiting(q->card->host, q->args.op[0].ptr, word_at(q));
	r = try_wait(q, met);
	if (!r && !*met)
		return 0;
out:
	wake_forget(q);
	return r;
}

static int signal_word(struct queue *q)
{
	const struct openreg_host_ops *ops = q->card->ops;
	uint64_t value = q->args.imm[0];
	int r;

	if (q->card->check)
		note_signal_begin(q);
	r = store_word(q, &value, q->args.arg[0] == OPENREG_SIGNAL_ADD);
	if (q->card->check)
		note_signal_end(q, word_number(q), value);
	if (r)
		return r;
	sched_signal(q, word_number(q), value);
	if (ops->signalled)
		ops->signalled(q->card->host, q->args.op[0].ptr, word_at(q));
	return 0;
}

static int run(struct queue *q, bool *met)
{
	uint64_t now;

	*met = true;
	switch (q->args.opcode) {
	case OPENREG_OP_WAIT:
		return wait_word(q, met);
	case OPENREG_OP_TIMESTAMP:
		now = q->card->ops->clock_ns(q->card->host);
		return store_word(q, &now, false);
	}
	return signal_word(q);
}

/* A word in system memory that is not aligned on the bus cannot be atomic. */
static bool is_split(struct queue *q)
{
	uint64_t left;

	return !q->args.op[0].ptr &&
	       segment_bus(q->reach[0].seg, q->reach[0].off, &left) % 8;
}

/* A WAIT that is not met keeps no reference: the card checks its address at each try. */
enum step sync_exec(struct queue *q, struct openreg_verdict *v)
{
	bool met;

	*v = openreg_bad(OPENREG_FAULT_ALIGNMENT, 0, 8);
	v->address = q->args.op[0].addr;
	if (is_split(q))
		return STEP_FAULT;
	v->code = OPENREG_FAULT_DMA;
	v->detail = 0;
	if (run(q, &met))
		return STEP_FAULT;
	if (met && q->args.opcode == OPENREG_OP_WAIT && q->card->check)
		note_wait(q, word_number(q), load_word);
	if (met)
		return STEP_DONE;
	queue_release_operands(q);
	return STEP_WAIT;
}
