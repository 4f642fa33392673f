// SPDX-License-Identifier: MIT
/*
 * Decodes, checks and runs packets, slice by slice, forwards or backwards. While an
 * engine works, it may access only the bytes that its operands reach.
 */
#include <string.h>

#include "decode.h"
#include "fuzz.h"
#include "matmul/packed.h"

#define WORK_MAX (1u << 14) /* elements or products of the largest packet to run */
#define SLICES_MAX 8 /* of a phase; a job with more slices ends, as by a stop */

static struct stepper *rig;
static struct queue *q;

/* Estimates the work from all sizes of the packet. */
static bool is_small(const struct openreg_args *args)
{
	bool windows = args->opcode == OPENREG_OP_CONV ||
		       args->opcode == OPENREG_OP_POOL;
	uint64_t work = 1, input = 1, taps = 1;
	unsigned int d;

	for (d = 0; d < args->ndim; d++)
		if (args->size[d] &&
		    __builtin_mul_overflow(work, (uint64_t)args->size[d], &work))
			return false;
	for (d = 0; d < 3 && windows; d++) {
		if (__builtin_mul_overflow(input, args->imm[3 + d] + 1,
					   &input) ||
		    __builtin_mul_overflow(taps, args->imm[d] + 1, &taps))
			return false;
	}
	return work <= WORK_MAX && input <= WORK_MAX && taps <= WORK_MAX &&
	       work * taps <= 8 * WORK_MAX && work * input <= 32 * WORK_MAX;
}

static void allow_operands(void)
{
	unsigned int i;

	stepper_poison(rig);
	for (i = 0; i < q->args.nops; i++) {
		const struct reach *r = &q->reach[i];

		if (r->seg && r->seg->kind == OPENREG_SEG_VRAM)
			stepper_allow(rig, r->seg->base + r->lo, r->hi - r->lo);
	}
}

static bool run_phase(struct openreg_job *job, unsigned int phase,
		      bool backwards)
{
	uint32_t n = openreg_job_slices(job, phase), i;

	if (n > SLICES_MAX)
		return false;
	for (i = 0; i < n; i++) {
		struct worker *w = &rig->card->workers[i & 1];
		uint32_t slice = backwards ? n - 1 - i : i;

		if (!openreg_job_run(job, phase, slice, w->scratch)) {
			struct openreg_verdict v =
				openreg_job_verdict(job, phase);

			must(v.code == OPENREG_FAULT_INDEX ||
			     v.code == OPENREG_FAULT_FORMAT ||
			     v.code == OPENREG_FAULT_MEMORY);
			return false;
		}
	}
	return true;
}

/* Gives a packed operand its header: bytes of a fuzzer rarely are one. */
static void put_header(void)
{
	const struct openreg_args *args = &q->args;
	bool matmul = args->opcode == OPENREG_OP_MATMUL &&
		      args->arg[3] & OPENREG_MATMUL_PACKED_B;
	bool unpack = args->opcode == OPENREG_OP_PACK &&
		      args->arg[0] == OPENREG_PACK_UNPACK;
	const struct openreg_arg *op = &args->op[matmul ? 2 : 1];
	struct openreg_packed p;

	/* Some packets get none. */
	if ((!matmul && !unpack) || !op->ptr || (op->addr >> 6) % 8 == 7)
		return;
	p = openreg_packed(op->dtype, args->size[matmul ? 3 : 0],
			   args->size[matmul ? 2 : 1]);
	openreg_packed_start(&p, op->ptr);
}

static void run_compute(bool backwards)
{
	struct openreg_verdict v;
	struct openreg_job *job;
	unsigned int phase;
	bool later;

	v = peer_read(q);
	must(!v.code || v.code == OPENREG_FAULT_DMA);
	if (v.code)
		return;
	put_header();
	job = openreg_job_new(&q->args, rig->card->workers[0].scratch, &later);
	must(job && !later);
	for (phase = 0; phase < openreg_job_phases(job); phase++)
		if (!run_phase(job, phase, backwards))
			break;
	openreg_job_free(job);
	must(!atomic_load(&rig->card->extra));
}

static void run_copy(void)
{
	uint32_t failed = 0;

	copy_begin(q);
	while (copy_slice(&rig->card->workers[0], q, &failed) == COPY_MORE)
		;
	must(failed < q->args.nops);
}

/* Walks through a LIST as the card does, without running its packets. */
static void run_list(const uint8_t *packet)
{
	struct openreg_verdict v;

	queue_release_operands(q);
	v = list_begin(q, packet);
	must(!v.code);
	do {
		v = list_fetch(q, &packet);
		if (!v.code && q->header.opcode != OPENREG_OP_NOP)
			v = decode_body(packet, &q->args);
		must(v.code <= OPENREG_FAULT_DMA);
	} while (!v.code && !list_next(q));
	q->args.nops = 0;
	list_end(q);
}

/* Writes records of the packet, as if it were another one, past the end of the ring. */
static void run_trace(void)
{
	struct worker *w = &rig->card->workers[0];
	unsigned int i;

	trace_exec(w, q);
	for (i = 0; i < 2 * q->trace.records && i < 300; i++) {
		trace_begin(w, q);
		trace_operands(q);
		trace_end(w, q, OPENREG_FAULT_NONE);
	}
	access_end(w);
	must(!q->trace.open);
	trace_set(q, 0, 0);
}

static void run(unsigned int how, const uint8_t *packet)
{
	struct openreg_verdict v;

	switch (q->args.opcode) {
	case OPENREG_OP_COPY:
	case OPENREG_OP_FILL:
		run_copy();
		break;
	case OPENREG_OP_WAIT:
	case OPENREG_OP_SIGNAL:
	case OPENREG_OP_TIMESTAMP:
		sync_exec(q, &v);
		break;
	case OPENREG_OP_LIST:
		run_list(packet);
		break;
	case OPENREG_OP_TRACE:
		run_trace();
		break;
	default:
		run_compute(how & 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream s = { data, size };
	unsigned int how = take8(&s);
	struct packet p;

	if (!rig) {
		rig = stepper_new();
		q = stepper_make_queue(rig);
	}
	packet_take(&s, &p);
	if (decode(q, &p) && is_small(&q->args)) {
		stepper_fill(rig, how >> 1);
		rig->bus.refuse = how >= 248;
		allow_operands();
		run(how, p.bytes);
		rig->bus.refuse = false;
		stepper_allow(rig, 0, STEPPER_USED);
		stepper_check_guards(rig);
	}
	queue_release_operands(q);
	q->args.nops = 0;
	decode_check_rest(q);
	return 0;
}
