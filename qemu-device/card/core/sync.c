/* SPDX-License-Identifier: MIT */
/* WAIT, SIGNAL and TIMESTAMP: 64-bit words that tie queues together. */
#include "core.h"
#include "exec.h"
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

/* ADD is atomic among the queues of this card. */
static int store_word(struct queue *q, uint64_t value, bool add)
{
	uint64_t *vram = q->args.op[0].ptr, old = 0;
	int r = 0;

	if (vram) {
		if (add)
			__atomic_fetch_add(vram, value, __ATOMIC_SEQ_CST);
		else
			__atomic_store_n(vram, value, __ATOMIC_SEQ_CST);
		return 0;
	}
	pthread_mutex_lock(&q->card->signal_lock);
	if (add)
		r = load_word(q, &old);
	value += old;
	if (!r)
		r = segment_write(q, q->reach[0].seg, q->reach[0].off, &value,
				  8);
	pthread_mutex_unlock(&q->card->signal_lock);
	return r;
}

static bool is_met(const struct openreg_args *args, uint64_t word)
{
	switch (args->arg[0]) {
	case OPENREG_WAIT_GE:
		return word >= args->imm[0];
	case OPENREG_WAIT_EQ:
		return word == args->imm[0];
	}
	return word != args->imm[0];
}

static int run(struct queue *q, bool *met)
{
	struct openreg_args *args = &q->args;
	uint64_t word;
	int r;

	*met = true;
	switch (args->opcode) {
	case OPENREG_OP_WAIT:
		r = load_word(q, &word);
		*met = !r && is_met(args, word);
		return r;
	case OPENREG_OP_TIMESTAMP:
		return store_word(q, q->card->ops->clock_ns(q->card->host),
				  false);
	}
	r = store_word(q, args->imm[0], args->arg[0] == OPENREG_SIGNAL_ADD);
	if (!r)
		sched_signal(q);
	return r;
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
	if (met)
		return STEP_DONE;
	queue_release_operands(q);
	return STEP_WAIT;
}
