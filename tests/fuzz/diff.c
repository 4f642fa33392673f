// SPDX-License-Identifier: MIT
/*
 * Compares random packets with a slow reference.
 * usage: fuzz-diff [--kind KIND] [--seed N] [--count N] [--seconds N]
 * A failure prints its kind and seed, which --count 1 runs again.
 */
#include "diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../libopenreg/include/openreg_encode.h"
#include "stepper.h"

#define VRAM_LEN (STEPPER_VRAM - 4096)
#define SYSTEM_PAGES 10u
#define SYSTEM_LEN (SYSTEM_PAGES * 4096)
#define CTX 2
#define QUEUE 1
#define RW (OPENREG_SEG_READ | OPENREG_SEG_WRITE)
#define GUARD 256 /* bytes behind the last operand */
#define LIST_SEG 3 /* the rest of VRAM */
#define LIST_SLOTS (4096 / OPENREG_SLOT_SIZE)

static const uint64_t space_len[SPACES] = { VRAM_LEN, SYSTEM_LEN };

static const struct {
	const char *name;
	diff_fn *run;
} kinds[] = {
	{ "vector", diff_vector },
	{ "reduce", diff_reduce },
	{ "stages", diff_stages },
	{ "matmul", diff_matmul },
	{ "mixed", diff_mixed },
	{ "scaled", diff_scaled },
	{ "scaled-f8", diff_scaled_f8 },
	{ "copy", diff_copy },
	{ "scan", diff_scan },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Prints the packet of a failed comparison. */
static void describe(const struct draft *p)
{
	unsigned int i, k;

	printf("opcode %u, arg[0] 0x%x, size", p->header.opcode, p->op.arg[0]);
	for (k = 0; k < p->op.ndim; k++)
		printf(" %lld", (long long)p->size[k]);
	for (i = 0; i < p->op.nops; i++) {
		printf("\noperand %u: 0x%llx dtype %llu stride", i,
		       (unsigned long long)OPENREG_ADDR_OFFSET(
			       p->operand[i].addr),
		       (unsigned long long)p->operand[i].reserved);
		for (k = 0; k < p->op.ndim; k++)
			printf(" %lld", (long long)p->operand[i].stride[k]);
	}
	for (i = 0; i < p->op.nimm; i++)
		printf("\nimmediate %u: 0x%llx", i,
		       (unsigned long long)p->imm[i]);
	for (i = 0; i < p->op.ninstr; i++) {
		const struct openreg_instr *in = &p->instr[i];

		printf("\n%2u: op %u type %u dst %u, %u %u %u aux %u", i,
		       in->op, in->type, in->dst, in->a, in->b, in->c, in->aux);
	}
	printf("\n");
}

void diff_fail(const struct diff *d, const char *format, ...)
{
	va_list args;

	describe(&d->draft);
	printf("fuzz-diff: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nfuzz-diff: to repeat: fuzz-diff --kind %s --seed %llu --count 1\n",
	       d->kind, (unsigned long long)d->seed);
	exit(1);
}

/* Page n of the system segment; its pages are in reverse order. */
static uint8_t *system_page(const struct diff *d, unsigned int n)
{
	return d->rig->bus.mem + STEPPER_PAGES + 4096 * (SYSTEM_PAGES - 1 - n);
}

/* Copies memory to a copy in the order of segments, or back. */
static void transfer(struct diff *d, uint8_t *const to[SPACES], bool back)
{
	uint64_t n = d->brk[SPACE_VRAM] + GUARD;
	unsigned int i;

	if (back)
		memcpy(d->rig->vram, to[SPACE_VRAM], n);
	else
		memcpy(to[SPACE_VRAM], d->rig->vram, n);
	for (i = 0; i < SYSTEM_PAGES; i++) {
		if (back)
			memcpy(system_page(d, i), to[SPACE_SYSTEM] + 4096 * i,
			       4096);
		else
			memcpy(to[SPACE_SYSTEM] + 4096 * i, system_page(d, i),
			       4096);
	}
}

static void admin(struct diff *d, admin_fn *run, struct openreg_admin_cmd cmd)
{
	must(run(d->rig->card, &cmd, 0).status == OPENREG_ADMIN_OK);
}

static void set_up(struct diff *d)
{
	const uint64_t list = BUS_BASE + STEPPER_LISTS;
	unsigned int i;

	d->rig = stepper_new();
	admin(d, admin_ctx_create, cmd_context(CTX, 0));
	admin(d, admin_seg_bind, cmd_vram(CTX, 1, 0, VRAM_LEN, RW));
	admin(d, admin_seg_bind,
	      cmd_vram(CTX, LIST_SEG, VRAM_LEN, STEPPER_VRAM - VRAM_LEN, RW));
	for (i = 0; i < SYSTEM_PAGES; i++) {
		uint64_t page = BUS_BASE + (uint64_t)(system_page(d, i) - d->rig->bus.mem);

		client_store(&d->rig->client, list + 8 * i, page);
	}
	admin(d, admin_seg_bind, cmd_pages(CTX, 2, list, 0, SYSTEM_LEN, RW));
	admin(d, admin_queue_create, stepper_queue_cmd(d->rig, CTX, QUEUE));
	d->q = d->rig->card->queue[QUEUE];
	for (i = 0; i < SPACES; i++) {
		d->have[i] = calloc(1, space_len[i] + GUARD);
		d->want[i] = calloc(1, space_len[i] + GUARD);
		must(d->have[i] && d->want[i]);
	}
}

void diff_begin(struct diff *d, unsigned int opcode, unsigned int ndim,
		int64_t most)
{
	int64_t left = most, n;
	unsigned int i;

	memset(&d->draft, 0, sizeof(d->draft));
	memset(d->brk, 0, sizeof(d->brk));
	d->draft.header.opcode = (uint8_t)opcode;
	d->draft.op.ndim = (uint8_t)ndim;
	for (i = 0; i < ndim; i++) {
		n = left < 9 || !random_range(0, 4) ? left : 9;
		d->draft.size[i] = random_range(1, n);
		left /= d->draft.size[i];
	}
}

static void make_dense(struct layout *l, unsigned int ndim, const int64_t *size)
{
	unsigned int k;

	dense_strides(ndim, size, l->stride);
	l->origin = 0;
	for (l->extent = 1, k = 0; k < ndim; k++)
		l->extent *= size[k];
}

unsigned int diff_operand(struct diff *d, unsigned int space,
			  unsigned int dtype, uint32_t dims, bool broadcast)
{
	unsigned int i = d->draft.op.nops++, k, esize = openreg_dtype_size(dtype);
	struct operand *op = &d->op[i];
	int64_t size[OPENREG_DIMS_MAX];
	uint64_t begin;

	for (k = 0; k < d->draft.op.ndim; k++)
		size[k] = dims >> k & 1 ? d->draft.size[k] : 1;
	random_layout(&op->layout, d->draft.op.ndim, size, broadcast);
	if (op->layout.extent > 12000)
		make_dense(&op->layout, d->draft.op.ndim, size);
	for (k = 0; k < d->draft.op.ndim; k++)
		if (!(dims >> k & 1))
			op->layout.stride[k] = 0;
	begin = (d->brk[space] + 7 + 8 * (uint64_t)random_range(0, 9)) & ~7ULL;
	begin += (uint64_t)random_range(0, 8 / esize - 1) * esize;
	d->brk[space] = begin + (uint64_t)op->layout.extent * esize;
	if (d->brk[space] > space_len[space] - GUARD)
		diff_fail(d, "the operands do not fit into their segment");
	op->space = space;
	op->dtype = dtype;
	op->at = begin + (uint64_t)op->layout.origin * esize;
	d->draft.operand[i].addr = OPENREG_ADDR(0, 1 + space, op->at);
	d->draft.operand[i].reserved = dtype;
	memcpy(d->draft.operand[i].stride, op->layout.stride,
	       sizeof(op->layout.stride));
	diff_fill(dtype, d->want[space] + begin, op->layout.extent);
	return i;
}

void diff_instr(struct diff *d, struct openreg_instr in)
{
	must(d->draft.op.ninstr < OPENREG_INSTRS_MAX);
	d->draft.instr[d->draft.op.ninstr++] = in;
}

unsigned int diff_imm(struct diff *d, uint64_t bits)
{
	must(d->draft.op.nimm < OPENREG_IMMS_MAX);
	d->draft.imm[d->draft.op.nimm] = bits;
	return d->draft.op.nimm++;
}

/* Moves the packet into a LIST, between two NOPs, and makes p the LIST. */
static void wrap_in_list(struct diff *d, struct packet *p)
{
	uint8_t *list = d->rig->vram + VRAM_LEN;
	const uint64_t imm[2] = { LIST_SLOTS, 3 };
	const unsigned int slots = p->bytes[1];

	openreg_encode_nop(list, 7);
	list += 7 * OPENREG_SLOT_SIZE;
	memcpy(list, p->bytes, slots * OPENREG_SLOT_SIZE);
	openreg_encode_nop(list + slots * OPENREG_SLOT_SIZE, 1);
	openreg_encode(p->bytes, OPENREG_OP_LIST, 0);
	openreg_encode_operand(p->bytes, OPENREG_ADDR(0, LIST_SEG, 0),
			       OPENREG_I64, NULL);
	openreg_encode_imm(p->bytes, imm, 2);
}

void diff_run(struct diff *d)
{
	struct client_queue *q = &d->rig->queue[QUEUE];
	struct packet p;
	unsigned int step;

	packet_serialize(&d->draft, &p);
	if (d->seed % 4 == 3)
		wrap_in_list(d, &p);
	transfer(d, d->want, true);
	stepper_push(d->rig, QUEUE, p.bytes);
	for (step = 0; d->q->completed < q->seq &&
		       d->q->state == OPENREG_QUEUE_RUNNING; step++)
		if (!stepper_step(d->rig, step & 1) && step > 1000)
			diff_fail(d, "the card does not go on");
	if (d->q->completed < q->seq) {
		struct openreg_fault_summary fault = client_fault(q);

		diff_fail(d, "the card faults: code %u, operand %d", fault.code,
			  (int)fault.operand);
	}
	transfer(d, d->have, false);
}

static void compare(struct diff *d)
{
	unsigned int i;
	uint64_t k, n;

	for (i = 0; i < SPACES; i++) {
		n = i == SPACE_VRAM ? d->brk[i] + GUARD : SYSTEM_LEN;
		if (!memcmp(d->have[i], d->want[i], n))
			continue;
		for (k = 0; d->have[i][k] == d->want[i][k];)
			k++;
		diff_fail(d, "byte 0x%llx of %s is 0x%02x, not 0x%02x",
			  (unsigned long long)k, i ? "system memory" : "VRAM",
			  d->have[i][k], d->want[i][k]);
	}
}

static void one(struct diff *d, unsigned int kind, uint64_t seed)
{
	d->kind = kinds[kind].name;
	d->seed = seed;
	random_seed(seed);
	kinds[kind].run(d);
	compare(d);
}

static uint64_t seconds(void)
{
	return now_ns() / 1000000000;
}

static void run_all(struct diff *d, const char *kind, uint64_t seed,
		    uint64_t count, uint64_t limit)
{
	uint64_t begin = now_ns(), packets[KINDS] = { 0 }, i;
	unsigned int k;

	for (i = 0; i < count && (!limit || seconds() < limit); i++) {
		for (k = 0; k < KINDS; k++) {
			if (kind && strcmp(kind, kinds[k].name))
				continue;
			one(d, k, seed + i);
			packets[k]++;
		}
	}
	for (k = 0; k < KINDS; k++)
		printf("fuzz-diff: %s: %llu packets\n", kinds[k].name,
		       (unsigned long long)packets[k]);
	printf("fuzz-diff: seeds %llu to %llu, %llu elements, %llu of them not compared, %llu s\n",
	       (unsigned long long)seed, (unsigned long long)(seed + i - 1),
	       (unsigned long long)d->elements, (unsigned long long)d->loose,
	       (unsigned long long)((now_ns() - begin) / 1000000000));
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, count = UINT64_MAX, limit = 0;
	const char *kind = NULL;
	struct diff d = { 0 };
	int i;

	for (i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--kind"))
			kind = argv[i + 1];
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--count"))
			count = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--seconds"))
			limit = seconds() + strtoull(argv[i + 1], NULL, 0);
		else
			break;
	}
	if (i < argc || (count == UINT64_MAX && !limit)) {
		fprintf(stderr, "usage: fuzz-diff [--kind KIND] [--seed N] --count N | --seconds N\n");
		return 2;
	}
	set_up(&d);
	run_all(&d, kind, seed, count, limit);
	return 0;
}
