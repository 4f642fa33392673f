/* SPDX-License-Identifier: MIT */
#include "note.h"

#include "check/check.h"
#include "core.h"
#include "queue.h"

static struct openreg_verdict bad_packet(size_t at)
{
	return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND, at);
}

/* Op 0 is so many elements. */
static struct openreg_verdict check_operand(struct openreg_args *args, unsigned int dtype,
					    uint64_t elements, uint64_t most)
{
	if (args->op[0].dtype != dtype)
		return openreg_bad(OPENREG_FAULT_DTYPE, 0, args->op[0].dtype);
	if (!args->imm[0] || args->imm[0] > most)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, args->imm[0]);
	args->op[0].read = true;
	args->op[0].written = false;
	list_cover(args, elements);
	return openreg_good();
}

static bool is_count_of_imms(unsigned int kind, unsigned int n)
{
	if (kind == OPENREG_NOTE_SEEN)
		return n && n % 2 == 0;
	return n == 1 || (n == 2 && kind == OPENREG_NOTE_BLOCK);
}

/* The red zone is immediate 1 of a BLOCK, and optional. */
static uint64_t zone_of(const struct openreg_args *args)
{
	return args->nimm == 2 ? args->imm[1] : 0;
}

static struct openreg_verdict check_block(struct openreg_args *args)
{
	const uint64_t most = 1ULL << OPENREG_ADDR_OFFSET_BITS;
	const uint64_t zone = zone_of(args);

	if (zone > most)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, zone);
	return check_operand(args, OPENREG_U8, args->imm[0] + zone, most);
}

/* Detail of a LIMIT fault: the number that is 0 or too large. */
struct openreg_verdict note_check(const struct queue *q, struct openreg_args *args)
{
	const unsigned int kind = args->arg[0];
	const bool has_memory = kind <= OPENREG_NOTE_UNBLOCK || kind == OPENREG_NOTE_REPORT;
	struct openreg_verdict v;

	if (!q->card->check)
		return bad_packet(offsetof(struct openreg_packet, opcode));
	if (kind >= OPENREG_NOTE_END || args->nops != has_memory || args->ninstr ||
	    args->arg[1] || args->arg[2] || args->arg[3] ||
	    !is_count_of_imms(kind, args->nimm))
		return bad_packet(sizeof(struct openreg_packet));
	if (args->ndim)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND, args->ndim);
	if (kind == OPENREG_NOTE_REPORT) {
		v = check_operand(args, OPENREG_I64,
				  args->imm[0] * (sizeof(struct openreg_finding) / 8),
				  OPENREG_FINDINGS_MAX);
		args->op[0].read = false;
		args->op[0].written = true;
		return v;
	}
	if (has_memory)
		return check_block(args);
	if (kind == OPENREG_NOTE_QUEUE && (!args->imm[0] || args->imm[0] > UINT32_MAX))
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND, args->imm[0]);
	return openreg_good();
}

/* Takes the lock. A queue has its part of the checks from its first packet on. */
static struct openreg_check *lock(struct queue *q)
{
	struct openreg_check *check = q->card->check;

	openreg_check_lock(check);
	if (!q->check)
		q->check = openreg_check_queue_new(check, q->ctx);
	return check;
}

static void see(struct queue *q, struct openreg_check *check)
{
	unsigned int i;

	for (i = 0; i < q->args.nimm; i += 2)
		openreg_check_seen(check, q->check, (uint32_t)q->args.imm[i],
				   q->args.imm[i + 1]);
}

static void take_note(struct queue *q, struct openreg_check *check)
{
	const struct reach *r = &q->reach[0];

	switch (q->args.arg[0]) {
	case OPENREG_NOTE_BLOCK:
		openreg_check_block(check, q->check, &r->seg->check, r->lo,
				    r->hi - zone_of(&q->args), zone_of(&q->args));
		break;
	case OPENREG_NOTE_UNBLOCK:
		openreg_check_unblock(check, r->seg->check, r->lo, r->hi);
		break;
	case OPENREG_NOTE_QUEUE:
		openreg_check_number(q->check, (uint32_t)q->args.imm[0]);
		break;
	case OPENREG_NOTE_SEEN:
		see(q, check);
		break;
	case OPENREG_NOTE_REPORT:
		q->ctx->report = q->args.op[0].addr;
		q->ctx->report_size = q->args.imm[0];
		q->ctx->nfindings = 0;
		break;
	}
}

enum step note_exec(struct queue *q)
{
	struct openreg_check *check = lock(q);

	if (q->check)
		take_note(q, check);
	openreg_check_unlock(check);
	return STEP_DONE;
}

static void log_finding(struct queue *q, const struct openreg_finding *f)
{
	static const char *const kinds[] = {
		[OPENREG_FINDING_RACE] = "race",
		[OPENREG_FINDING_INIT] = "uninitialised read",
		[OPENREG_FINDING_BOUNDS] = "access outside of a block",
	};
	const struct openreg_finding_access *a = &f->access, *b = &f->other;

	card_guest_error(q->card,
			 "context %u: %s at 0x%llx: packet %u.%llu (cookie %u) operand %u; %u.%llu (cookie %u)",
			 q->ctx->id, kinds[f->kind], (unsigned long long)f->addr, a->queue,
			 (unsigned long long)a->seq, a->cookie, a->operand, b->queue,
			 (unsigned long long)b->seq, b->cookie);
}

/* Writes the finding for the program, or logs it if the program has not asked for it. */
static void report(struct queue *q, struct openreg_finding *f, uint64_t to, uint64_t n,
		   uint64_t size)
{
	const uint64_t at = to + n * sizeof(*f);
	const uint64_t number = n + 1;

	if (!size) {
		log_finding(q, f);
		return;
	}
	if (n < size && !segment_store(q, at, f, sizeof(*f)))
		segment_store(q, at, &number, sizeof(number));
}

static void report_all(struct queue *q)
{
	struct openreg_check *check = q->card->check;
	struct openreg_finding f;
	uint64_t to, n, size;
	bool more;

	do {
		openreg_check_lock(check);
		more = openreg_check_take(q->check, &f);
		to = q->ctx->report;
		size = q->ctx->report_size;
		n = q->ctx->nfindings;
		q->ctx->nfindings += more;
		openreg_check_unlock(check);
		if (more)
			report(q, &f, to, n, size);
	} while (more);
}

static void check_operands(struct queue *q, struct openreg_check *check,
			   unsigned int what, bool read)
{
	unsigned int i;

	for (i = 0; i < q->args.nops; i++) {
		const struct openreg_arg *op = &q->args.op[i];
		const struct reach *r = &q->reach[i];

		if (r->seg && (op->read && !op->own) == read)
			openreg_check_access(check, q->check, what, &r->seg->check,
					     op->addr - r->off, &q->args, i, r->off);
	}
}

/*
 * A packet that reads what it writes must find it unwritten, so reads come first. A race
 * is reported once for two packets, so it names the write.
 */
static void check_all_operands(struct queue *q, struct openreg_check *check)
{
	const unsigned int first = OPENREG_CHECK_INIT | OPENREG_CHECK_BOUNDS;

	check_operands(q, check, first, true);
	check_operands(q, check, first, false);
	check_operands(q, check, OPENREG_CHECK_RACE, false);
	check_operands(q, check, OPENREG_CHECK_RACE, true);
}

void note_packet(struct queue *q)
{
	struct openreg_check *check = lock(q);
	const uint16_t in_list = (uint16_t)(q->list.runs ? q->list.done_packets + 1 : 0);
	bool ended;

	if (q->check) {
		openreg_check_begin(q->check, &q->header, q->completed + 1, in_list);
		if (q->args.opcode != OPENREG_OP_NOTE) {
			check_all_operands(q, check);
		}
	}
	ended = openreg_check_ended(check);
	openreg_check_unlock(check);
	if (ended)
		card_guest_error(q->card, "the host's memory is short: the card checks no packet any more");
	report_all(q);
}

void note_signal_begin(struct queue *q)
{
	lock(q);
}

void note_signal_end(struct queue *q, uint64_t word, uint64_t value)
{
	struct openreg_check *check = q->card->check;

	if (q->check)
		openreg_check_signal(check, q->check, word,
				     q->args.arg[0] == OPENREG_SIGNAL_ADD, value);
	openreg_check_unlock(check);
}

void note_wait(struct queue *q, uint64_t word, int (*load)(struct queue *q, uint64_t *word))
{
	struct openreg_check *check = lock(q);
	uint64_t actual;

	if (q->check && !load(q, &actual))
		openreg_check_wait(check, q->check, word, q->args.arg[0], q->args.imm[0],
				   actual);
	openreg_check_unlock(check);
}

void note_queue_free(struct queue *q)
{
	struct openreg_check *check = q->card->check;

	openreg_check_lock(check);
	openreg_check_queue_free(check, q->check);
	openreg_check_unlock(check);
}
