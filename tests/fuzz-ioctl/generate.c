// SPDX-License-Identifier: GPL-2.0-only
/* Generates programs, and mutates and joins existing ones. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <linux/dma-buf.h>

#include <drm.h>
#include <openreg_accel.h>

#include "program.h"

uint64_t random_next(struct random *random)
{
	uint64_t x = random->state += 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

unsigned int random_below(struct random *random, unsigned int end)
{
	return random_next(random) % end;
}

static bool one_in(struct random *random, unsigned int n)
{
	return !random_below(random, n);
}

#define PICK(random, ...)						\
	({								\
		static const uint64_t list[] = { __VA_ARGS__ };		\
		list[random_below(random, sizeof(list) / sizeof(*list))];\
	})

/* Boundary values. */
static uint64_t odd_number(struct random *random)
{
	uint64_t value = PICK(random, 0, 1, 2, 4095, 4096, 1ull << 31, 1ull << 32,
			      1ull << 38, 1ull << 47, 1ull << 62, 1ull << 63);

	if (one_in(random, 4))
		return random_next(random) >> random_below(random, 64);
	return value + random_below(random, 3) - 1;
}

/* Large sizes, which take seconds, are rare. */
static uint64_t some_size(struct random *random)
{
	unsigned int dice = random_below(random, 100);

	if (dice < 60)
		return PICK(random, 1, 64, 4096, 4096, 8192, 65536);
	if (dice < 85)
		return 1 + random_below(random, 1 << 18);
	if (dice < 97)
		return PICK(random, 1 << 20, 2 << 20, (2 << 20) + 4096, 4 << 20,
			    6 << 20);
	if (dice < 99)
		return odd_number(random);
	return PICK(random, 64 << 20, 256 << 20, 1ull << 30, 1ull << 33);
}

static uint64_t some_flags(enum kind kind, struct random *random)
{
	switch (kind) {
	case KIND_BO_FLAGS:
		return PICK(random, DRM_OPENREG_BO_VRAM, DRM_OPENREG_BO_VRAM,
			    DRM_OPENREG_BO_SYSTEM, DRM_OPENREG_BO_SYSTEM,
			    DRM_OPENREG_BO_SYSTEM | DRM_OPENREG_BO_VRAM);
	case KIND_REG_FLAGS:
		return PICK(random, 0, 0, DRM_OPENREG_BO_READONLY);
	case KIND_PRIME_FLAGS:
		return PICK(random, 0, DRM_RDWR, DRM_RDWR | DRM_CLOEXEC);
	case KIND_PROT:
		return PICK(random, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE,
			    PROT_READ, PROT_WRITE, PROT_NONE);
	case KIND_SLOTS:
		return PICK(random, 64, 64, 64, 128, 16384, 32768, 63, 0);
	case KIND_PRIORITY:
		return PICK(random, 1, 1, 0, 2, 3);
	case KIND_ADVICE:
		return PICK(random, MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE,
			    MADV_DONTFORK, MADV_WIPEONFORK, MADV_COLLAPSE,
			    MADV_PAGEOUT, MADV_POPULATE_WRITE);
	default:
		return PICK(random, DMA_BUF_SYNC_READ, DMA_BUF_SYNC_RW,
			    DMA_BUF_SYNC_WRITE, DMA_BUF_SYNC_END |
			    DMA_BUF_SYNC_RW, DMA_BUF_SYNC_END);
	}
}

static uint64_t some_number(enum kind kind, struct random *random)
{
	if (one_in(random, 40))
		return odd_number(random);
	switch (kind) {
	case KIND_SIZE:
		return some_size(random);
	case KIND_SEQ:
		return random_below(random, one_in(random, 8) ? 100 : 8);
	case KIND_TIME: /* microseconds from now */
		return PICK(random, 0, 0, 0, 100, 1000, 5000);
	case KIND_POINTER:
		return PICK(random, 1, 1, 1, 0, 2);
	case KIND_ZERO:
		return 0;
	case KIND_FEW:
		return random_below(random, 12);
	case KIND_NUMBER:
		return random_below(random, one_in(random, 3) ? 1 << 16 : 48);
	case KIND_CARD:
	case KIND_BUF:
	case KIND_FD:
		return PICK(random, 0, -1ull, 1000);
	case KIND_HANDLE:
	case KIND_QUEUE:
	case KIND_SYNCOBJ:
		return random_below(random, 8);
	case KIND_ADDRESS:
	case KIND_OFFSET:
	case KIND_MAP:
		return odd_number(random);
	default:
		return some_flags(kind, random);
	}
}

/* An argument for the call at index at: a result of an earlier call, if one fits. */
static struct arg some_arg(const struct program *program, unsigned int at,
			   enum kind kind, struct random *random)
{
	unsigned int i, start, seen = 0;
	struct arg arg = {};

	if (at && kind <= KIND_OFFSET && !one_in(random, 25)) {
		start = random_below(random, at);
		for (i = start; seen < at; i = (i + 1) % at, seen++)
			if (kind_takes(kind, ops[program->call[i].op].makes)) {
				arg.ref = true;
				arg.value = i;
				return arg;
			}
	}
	arg.value = some_number(kind, random);
	return arg;
}

static enum op some_op(struct random *random)
{
	unsigned int op, sum = 0, at;

	if (one_in(random, 4000))
		return OP_FLR;
	for (op = 0; op < OPS; op++)
		sum += ops[op].weight;
	at = random_below(random, sum);
	for (op = 0; at >= ops[op].weight; op++)
		at -= ops[op].weight;
	return op;
}

static void fill_call(struct program *program, unsigned int at, enum op op,
		      struct random *random)
{
	struct call *call = &program->call[at];
	unsigned int i;

	memset(call, 0, sizeof(*call));
	call->op = op;
	for (i = 0; i < ARGS_MAX && ops[op].arg[i]; i++)
		call->arg[i] = some_arg(program, at, ops[op].arg[i], random);
}

static void some_race(struct program *program, struct random *random)
{
	struct race *race = &program->race;

	memset(race, 0, sizeof(*race));
	if (!one_in(random, 3))
		return;
	race->threads = 1 + random_below(random, 3);
	race->from = 1 + random_below(random, program->count);
	race->rounds = 1 + random_below(random, 8);
	if (one_in(random, 4))
		race->kill_us = 1 + random_below(random, 20000);
}

void program_new(struct program *program, struct random *random)
{
	unsigned int end = 4 + random_below(random, CALLS_MAX - 4);

	memset(program, 0, sizeof(*program));
	fill_call(program, 0, OP_OPEN, random);
	program->call[0].arg[0].value = 0;
	for (program->count = 1; program->count < end; program->count++)
		fill_call(program, program->count, some_op(random), random);
	some_race(program, random);
}

/* Adds by to all references to calls from index from on. */
static void shift_refs(struct program *program, unsigned int from, int by)
{
	unsigned int i, j;

	for (i = 0; i < program->count; i++)
		for (j = 0; j < ARGS_MAX; j++) {
			struct arg *arg = &program->call[i].arg[j];

			if (!arg->ref || arg->value < from)
				continue;
			if (by < 0 && arg->value == from)
				*arg = (struct arg) { .value = 0 };
			else
				arg->value += by;
		}
}

static void insert_call(struct program *program, struct random *random)
{
	unsigned int at = 1 + random_below(random, program->count);

	if (program->count == CALLS_MAX)
		return;
	shift_refs(program, at, 1);
	memmove(&program->call[at + 1], &program->call[at],
		(program->count - at) * sizeof(struct call));
	program->count++;
	fill_call(program, at, some_op(random), random);
}

static void delete_call(struct program *program, struct random *random)
{
	unsigned int at;

	if (program->count < 3)
		return;
	at = 1 + random_below(random, program->count - 1);
	program->count--;
	memmove(&program->call[at], &program->call[at + 1],
		(program->count - at) * sizeof(struct call));
	shift_refs(program, at, -1);
}

static void change_arg(struct program *program, struct random *random)
{
	unsigned int at = random_below(random, program->count), i;
	const struct op_desc *op = &ops[program->call[at].op];

	for (i = 0; i < ARGS_MAX && op->arg[i]; i++)
		if (one_in(random, 3))
			program->call[at].arg[i] =
				some_arg(program, at, op->arg[i], random);
}

/* Appends the calls of other, with their own results. */
static void append(struct program *program, const struct program *other,
		   struct random *random)
{
	unsigned int base = program->count, i, j;

	if (one_in(random, 2) && base > 2)
		base = program->count = 1 + random_below(random, base - 1);
	for (i = 0; i < other->count && program->count < CALLS_MAX; i++) {
		struct call *call = &program->call[program->count++];

		*call = other->call[i];
		for (j = 0; j < ARGS_MAX; j++)
			if (call->arg[j].ref)
				call->arg[j].value += base;
	}
}

/* Drops most resets of a seed: a reset stops all processes for a tenth of a second. */
static void thin_resets(struct program *program, struct random *random)
{
	unsigned int i;

	for (i = 0; i < program->count; i++)
		if (program->call[i].op == OP_FLR && !one_in(random, 16))
			fill_call(program, i, OP_STATS, random);
}

void program_mutate(struct program *program, const struct program *other,
		    struct random *random)
{
	do {
		switch (random_below(random, 8)) {
		case 0:
		case 1:
		case 2:
			insert_call(program, random);
			break;
		case 3:
			delete_call(program, random);
			break;
		case 4:
		case 5:
			change_arg(program, random);
			break;
		case 6:
			append(program, other, random);
			break;
		default:
			some_race(program, random);
		}
	} while (!one_in(random, 3));
	thin_resets(program, random);
	if (program->race.from > program->count)
		program->race.from = program->count;
}
